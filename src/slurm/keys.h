// Makes and reads Slurm's secret keys, in the base64 form of a Kubernetes Secret.
#pragma once

#include "base/err.h"
#include "base/mem.h"

// Sizes in bytes of slurm.key (auth/slurm wants at least 256 bits) and of jwt_hs256.key.
#define TD_SLURM_KEY_BYTES 1024
#define TD_SLURM_JWT_KEY_BYTES 32
#define TD_SLURM_MUNGE_KEY_BYTES 128 // munged takes 32 to 1024

// Returns n random bytes in base64. Caller frees.
char *td_slurm_key_new(size_t n);
// Returns a new private key of an ssh host (PEM) in base64. Caller wipes and frees.
char *td_slurm_host_key_new(void);
// Returns a text as the value of a key in a Secret. Caller wipes and frees.
char *td_slurm_key_write(const char *text);
// Appends the raw bytes of a key's value in a Secret. TD_INVALID when it is not base64.
int td_slurm_key_read(const char *base64, struct td_buf *ret, struct td_error *err);
