// Randomness from the kernel: for names, UIDs, keys and jitter.
#pragma once

#include <stddef.h>
#include <stdint.h>

void td_random(void *p, size_t n);
// Uniform in 0 … n - 1; n > 0.
uint32_t td_random_below(uint32_t n);
// A UUID of RFC 4122 version 4, in lower case. Returns buf.
#define TD_UUID_LEN 37
const char *td_uuid(char buf[TD_UUID_LEN]);
// Fills buf with n characters of Kubernetes' safe alphabet for generateName
// ("bcdfghjklmnpqrstvwxz2456789") and a NUL.
void td_random_name(char *buf, size_t n);
