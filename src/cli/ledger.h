// The lines that programs/quota.sh and programs/usage.sh print, added up: "NAME|NAME|…|NUMBER|…".
#pragma once

#include "base/mem.h"

#include <stdint.h>

enum { TD_LEDGER_KEYS = 3, TD_LEDGER_SUMS = 5 };
struct td_ledger_row {
	char *key[TD_LEDGER_KEYS];
	double sum[TD_LEDGER_SUMS];
};
struct td_ledger {
	struct td_ledger_row *v;
	size_t n;
};
void td_ledger_done(struct td_ledger *l);
#define td_auto_ledger __attribute__((cleanup(td_ledger_done)))
// Reads lines of 3 names and `sums` numbers (1 to 5); other lines are skipped. Returns how many were.
size_t td_ledger_read(const char *text, int sums, struct td_ledger *ret);
// The row of that key, which is made when there is none. a: the first word of the key; the others are "".
struct td_ledger_row *td_ledger_at(struct td_ledger *l, const char *a);
void td_ledger_sort(struct td_ledger *l); // by key
