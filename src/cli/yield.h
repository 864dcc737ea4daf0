// tandem usage --yield: what became of the GPU hours that jobs and pods have held.
#pragma once

#include "cli/ledger.h"
#include "pool/yield.h"

struct td_cli_yield_row {
	char *name;
	double runs, s[TD_YIELD_N];
	double idle; // of them, as far as is known
};
double td_cli_yield_held(const struct td_cli_yield_row *r); // seconds
// The share that is not known to be lost; below 0: nothing was held.
double td_cli_yield_ratio(const struct td_cli_yield_row *r);
// Prints them: output NULL, "json" or "csv". by: "tenant" or "user".
void td_cli_yield_print(const struct td_cli_yield_row *v, size_t n, const char *by, const char *output);
