// Slurm's secrets: random keys and their base64 form, as a Kubernetes Secret holds them.
#pragma once

#include "base/err.h"
#include "base/mem.h"

// Bytes of slurm.key (auth/slurm wants at least 256 bit) and of jwt_hs256.key.
#define TD_SLURM_KEY_BYTES 1024
#define TD_SLURM_JWT_KEY_BYTES 32

// n random bytes in base64. Caller frees.
char *td_slurm_key_new(size_t n);
// A key's value in a Secret (base64) → raw bytes, appended. TD_INVALID.
int td_slurm_key_read(const char *base64, struct td_buf *ret, struct td_error *err);
