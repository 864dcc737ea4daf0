// Exact quantities and their canonical text, for the schema engine.
#pragma once

#include "base/err.h"

enum td_quantity_family { TD_Q_DECIMAL, TD_Q_BINARY, TD_Q_EXPONENT };
enum { TD_QUANTITY_LEN = 40 };
int td_quantity_read(const char *s, __int128 *ret_milli, enum td_quantity_family *ret_family, struct td_error *err);
// Writes the text that the API server stores: 0.5 → 500m, 1000 → 1k, 1024Mi → 1Gi. TD_INVALID.
int td_quantity_canonical(const char *s, char buf[TD_QUANTITY_LEN], struct td_error *err);
