// resource.Quantity: "500m", "16", "2Gi", "1e3". Values are exact in 1/1000 up to ±9.2e15.
#pragma once

#include "base/err.h"

#include <stdint.h>

// The value × 1000, rounded away from zero. TD_INVALID.
int td_quantity_milli(const char *s, int64_t *ret_milli, struct td_error *err);
// The value in whole units, rounded away from zero. TD_INVALID.
int td_quantity_ceil(const char *s, int64_t *ret, struct td_error *err);
// Canonical text: for cpu ("1500m", "2") and for bytes ("20Gi", "1536Mi").
const char *td_quantity_format_milli(int64_t milli, char *buf, unsigned n);
const char *td_quantity_format_bytes(int64_t bytes, char *buf, unsigned n);
