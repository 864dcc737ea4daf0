// Slurm's short forms: hostlists ("n[0-3,7],x1"), index ranges ("0-1,4") and GRES strings ("gpu:2(IDX:0-1,4)").
//
// All of it comes from outside: every parser is bounded and fuzzed (fuzz/fuzz_hostlist.c). Sources: slurm.conf(5) NODE
// CONFIGURATION; the strings of `scontrol show job -d`.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

#define TD_HOSTLIST_MAX 65536 // names in one hostlist
#define TD_HOST_LEN 253       // bytes of one name
#define TD_RANGE_MAX 4096     // largest index + 1 in index ranges

// Names in the order written, duplicates kept. "" and "(null)" are the empty list. Several brackets in one name are a
// product.
int td_hostlist_parse(const char *s, struct td_strv *ret, struct td_error *err);
// Compressed: neighbours with one prefix, one width and following numbers share a bracket. Keeps the order. Caller
// frees.
char *td_hostlist_write(const struct td_strv *names);

// A set of small numbers.
struct td_ranges {
	uint64_t bits[TD_RANGE_MAX / 64];
};
int td_ranges_parse(const char *s, struct td_ranges *ret, struct td_error *err); // "" is the empty set
char *td_ranges_write(const struct td_ranges *r);                                // "0-1,4"; caller frees
int td_ranges_count(const struct td_ranges *r);

struct td_gres {
	char name[64], type[64]; // type "" when untyped
	int64_t count;
	char index[512]; // canonical ranges; "" when Slurm does not say which
};
// "gpu:2(IDX:0-1),shard:gpu:4(CNT:4)", "gpu(CNT:2)", "gpu:8(S:0-1)", "gpu:tesla:8", "gres:gpu:2". At most `max`;
// TD_INVALID beyond.
int td_gres_parse(const char *s, struct td_gres *ret, size_t max, size_t *ret_n, struct td_error *err);
