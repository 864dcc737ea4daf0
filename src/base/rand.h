// Randomness from the kernel: names, UIDs, keys, jitter.
#pragma once

#include <stddef.h>
#include <stdint.h>

void td_random(void *p, size_t n);
uint32_t td_random_below(uint32_t n); // n > 0
// RFC 4122 version 4, lower case.
#define TD_UUID_LEN 37
const char *td_uuid(char buf[TD_UUID_LEN]);
// n characters of Kubernetes' safe alphabet for generateName ("bcdfghjklmnpqrstvwxz2456789"), NUL-terminated.
void td_random_name(char *buf, size_t n);
