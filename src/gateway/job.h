// What a run asks for, and the Slurm jobs and files that this means. Pure: no clock, no network.
#pragma once

#include "slurm/batch.h"
#include "json/json.h"

// One step of a run as a Slurm job.
struct td_gateway_step {
	struct td_slurm_batch batch; // without dependency; its strings lie in the plan's arena
	const char *name;
	size_t *after; // indexes of the steps before it
	size_t n_after;
	long long tasks; // of its sweep; 0: none
};
struct td_gateway_plan {
	struct td_arena *arena;
	struct td_gateway_step *steps; // in an order in which each stands behind those that it needs
	size_t n;
	yyjson_mut_doc *texts; // {file name: text} for .tandem/ of the run
};
struct td_gateway_plan_in {
	const yyjson_val *job; // of the request, checked against the schema
	const char *id;        // of the run
	const char *user, *home;
	const char *hub;                 // the federation whose hub lets it begin; NULL: it begins by itself
	const char *env;                 // key of its environment, or "ARCH=KEY ARCH=KEY"; NULL: none
	const struct td_strv *node_data; // those of its data sets that nodes hold; NULL: none
	const char *data;                // its data sets, "NAME=KEY NAME=/PATH"; NULL: none
};
// TD_INVALID names the step and the fix: two of one name, one that needs itself, a variable that is
// no name, a sweep of too many tasks.
int td_gateway_plan(const struct td_gateway_plan_in *in, struct td_gateway_plan *ret, struct td_error *err);
void td_gateway_plan_done(struct td_gateway_plan *p);
#define td_auto_plan __attribute__((cleanup(td_gateway_plan_done)))
// What a job of a run carries in its comment: "tandem RUN STEP".
char *td_gateway_mark(const char *run, const char *step);
