// One parser version of slurmrestd: how our words are said in its JSON, and its JSON in our words. Pure: no HTTP here.
#pragma once

#include "slurm/rest.h"
#include "json/json.h"

struct td_slurm_adapter {
	const char *version;                                             // "v0.0.42"
	char *(*ask_body)(const struct td_slurm_ask *a, bool immediate); // caller frees
	char *(*job_change_body)(const struct td_slurm_job_change *c);
	char *(*job_end_body)(int64_t id, const char *name);
	char *(*node_change_body)(const char *state, const char *reason);
	// Fill *ret (zeroed by the caller); TD_INVALID when the value is not what its schema says. On failure *ret is
	// to be freed all the same.
	int (*read_job)(const yyjson_val *v, struct td_slurm_job *ret, struct td_error *err);
	int (*read_node)(const yyjson_val *v, struct td_slurm_node *ret, struct td_error *err);
	bool (*read_state)(const yyjson_val *v, struct td_slurm_state *ret);
};
extern const struct td_slurm_adapter td_slurm_v0042;

// Splits {"jobs": [ {…}, {…} ], …} as it comes: one element at a time, everything else kept as `rest`. Bounded.
struct td_json_split {
	const char *list; // key of the list at the top level
	int (*each)(void *ctx, const char *s, size_t n);
	void *ctx;
	// state
	int depth;
	bool in_string, escaped, in_list, is_key;
	struct td_buf key, element, rest;
};
#define TD_SPLIT_ELEMENT_MAX (16u << 20)
#define TD_SPLIT_REST_MAX (1u << 20)
int td_json_split(struct td_json_split *s, const char *p, size_t n, struct td_error *err);
void td_json_split_done(struct td_json_split *s);
