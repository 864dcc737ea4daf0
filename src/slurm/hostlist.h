// Parses and writes Slurm's short forms: hostlists ("n[0-3,7],x1"), index ranges ("0-1,4") and GRES
// strings ("gpu:2(IDX:0-1,4)").
//
// All of these come from outside: every parser is bounded and fuzzed (fuzz/fuzz_hostlist.c).
// Sources: slurm.conf(5), NODE CONFIGURATION; the strings of `scontrol show job -d`.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

#define TD_HOSTLIST_MAX 65536 // names in one hostlist
#define TD_HOST_LEN 253       // bytes of one name
#define TD_RANGE_MAX 4096     // one more than the largest index in index ranges

// Returns the names in the order of the text, with duplicates. "", "(null)" and NULL are the empty
// list. Several brackets in one name multiply. TD_INVALID.
int td_hostlist_parse(const char *s, struct td_strv *ret, struct td_error *err);
// Writes a compressed hostlist in the order of the names: neighbours with the same prefix and
// numbers that are written alike share a bracket. Caller frees.
char *td_hostlist_write(const struct td_strv *names);

// A set of indexes below TD_RANGE_MAX.
struct td_ranges {
	uint64_t bits[TD_RANGE_MAX / 64];
};
// "" is the empty set. TD_INVALID.
int td_ranges_parse(const char *s, struct td_ranges *ret, struct td_error *err);
// "0-1,4". Caller frees.
char *td_ranges_write(const struct td_ranges *r);
int td_ranges_count(const struct td_ranges *r);

struct td_gres {
	char name[64], type[64]; // type "": none
	int64_t count;
	char index
		[512]; // canonical ranges; of a part of a device, "shard:30(0/100,30/100)", which one; "": Slurm does not say which
};
// Parses GRES strings such as "gpu:2(IDX:0-1),shard:gpu:4(CNT:4)", "gpu(CNT:2)", "gpu:8(S:0-1)",
// "gpu:tesla:8", "gpu:(null):2(IDX:0-1)" and "gres:gpu:2". TD_INVALID, also for more than `max` entries.
int td_gres_parse(const char *s, struct td_gres *ret, size_t max, size_t *ret_n, struct td_error *err);
// The type of parts of a GPU (MIG) is their profile, "1g.10gb"; other types begin with a letter.
static inline bool td_gres_is_part(const char *type)
{
	return *type >= '0' && *type <= '9';
}
