// FNV-1a: tells changes and names apart, and guards nothing. What it gives for the same bytes never changes: names of
// files, networks and revisions of pods are made of it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TD_HASH UINT64_C(14695981039346656037) // what to begin with
#define TD_HASH32 UINT32_C(2166136261)

// h and n bytes more.
static inline uint64_t td_hash(uint64_t h, const void *p, size_t n)
{
	for (const unsigned char *s = p; n--; s++)
		h = (h ^ *s) * UINT64_C(1099511628211);
	return h;
}

// h and a text, without its end: "ab", "c" is "a", "bc". NULL is as an empty one.
static inline uint64_t td_hash_str(uint64_t h, const char *s)
{
	for (; s && *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
	return h;
}

// The same in 32 bits.
static inline uint32_t td_hash32_str(uint32_t h, const char *s)
{
	for (; s && *s; s++)
		h = (h ^ (unsigned char)*s) * UINT32_C(16777619);
	return h;
}
