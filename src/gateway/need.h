// What a run needs before it can begin and what is made once for all later runs: a Python environment,
// a data set. Each has a key, which is a hash of all that decides what it holds. The first run that
// needs it has it made by a Slurm job of its own, in the person's name and home, and waits for that job
// (afterok); later runs find it there, or wait for the same job.
//
// In the home (PLACE is "envs" or "data"):
//   tandem/PLACE/KEY              a link to the tree; it appears when the tree is whole
//   tandem/PLACE/.made/KEY.JOB    the tree that this job made, or left half-done
//   tandem/PLACE/.want/KEY        what it is made of
//   tandem/PLACE/.log/KEY-JOB.out what its making said
// The link is the truth: a crash at any point leaves no link, and the next job of the key removes what
// the one before it left. Two jobs of one key never run at once (Slurm's dependency "singleton").
#pragma once

#include "gateway/door.h"
#include "slurm/batch.h"

struct td_gateway_need {
	const char *place, *kind; // "envs", "environment"
	char *step;               // as the run's list of steps shows it
	char *key;
	char *want;         // text for .want/KEY
	const char *script; // of programs/
	struct td_strv env; // of its job
	// Its job goes to this partition and constraint (NULL: any) in place of the run's, and to none of these nodes.
	bool apart;
	char *partition, *constraints;
	struct td_strv avoid;
	int64_t memory_mb, job; // job: set by td_gateway_needs_get; 0: it is there
};
struct td_gateway_needs {
	struct td_gateway_need *v;
	size_t n;
};
void td_gateway_needs_done(struct td_gateway_needs *l);
#define td_auto_needs __attribute__((cleanup(td_gateway_needs_done)))
// Appends an empty one, to be filled.
struct td_gateway_need *td_gateway_need_add(struct td_gateway_needs *l);

// What a run's `job` says under `environment` (env.c) and `data` (data.c), with its keys. Asks for nothing
// to be made. *ret_env: key of the environment, or "ARCH=KEY ARCH=KEY" where nodes are of several
// architectures, *ret_data: "NAME=KEY NAME=/PATH"; the caller frees them; NULL: none.
int td_gateway_env_of(struct td_gateway_ask *q, const yyjson_val *job, struct td_gateway_needs *l, char **ret_env,
		      struct td_error *err);
// ret_held: names of those that lie at /datasets, which nodes hold (docs/datasets.md).
int td_gateway_data_of(struct td_gateway_ask *q, const yyjson_val *job, struct td_gateway_needs *l, char **ret_data,
		       struct td_strv *ret_held, struct td_error *err);
// Shows what is made of a place, and removes one (operations of the API).
int td_gateway_made_list(struct td_gateway_ask *q, const char *place, struct td_error *err);
int td_gateway_made_delete(struct td_gateway_ask *q, const char *place, struct td_error *err);
// Looks which are there and has the others made. like: a job of the run, whose partition, account and
// so on the making has too.
int td_gateway_needs_get(struct td_gateway_ask *q, struct td_slurm *client, struct td_gateway_needs *l,
			 const struct td_slurm_batch *like, struct td_error *err);
// The jobs of l as a dependency: "afterok:3:4"; NULL: none. The caller frees it.
char *td_gateway_needs_dependency(const struct td_gateway_needs *l);
// Adds those that are being made to a record's list of jobs.
void td_gateway_needs_write(const struct td_gateway_needs *l, yyjson_mut_doc *d, yyjson_mut_val *jobs);
// Whether an entry of that list makes something, rather than being a step of the person's.
bool td_gateway_need_is(const yyjson_val *entry);
