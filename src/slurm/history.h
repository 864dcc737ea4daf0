// Slurm's history of jobs, and what a person may see of it, from slurmdbd through slurmrestd.
#pragma once

#include "slurm/accounts.h"

// One run of a job: a job that was queued again has several.
struct td_slurm_run {
	char *account, *user, *state; // state: "NODE_FAIL"
	char *admin_comment, *partition;
	char *nodes;                  // as Slurm writes a list of hosts; "": none
	int64_t id, array;            // array: of its array; 0: it is in none
	int64_t submit;               // when it was queued, or queued again: epoch seconds
	int64_t elapsed, limit_min;   // seconds that it ran; limit_min 0: none
	int64_t eligible, start, end; // epoch seconds; 0: not yet
	int64_t cpus, gpus;           // allocated
	struct td_slurm_limit *types; // of the GPUs: tres is the type, "h100"
	size_t n_types;
};
struct td_slurm_runs {
	struct td_slurm_run *v;
	size_t n;
};
void td_slurm_runs_done(struct td_slurm_runs *l);
#define td_auto_runs __attribute__((cleanup(td_slurm_runs_done)))
// Reads the runs of all people that waited or ran at some time in [from, to), epoch seconds. A reply is at
// most 64 MiB, about 10,000 runs: TD_UNSUPPORTED without err->http, ask for less.
int td_slurm_history(struct td_slurm *s, const char *cluster, int64_t from, int64_t to, struct td_cancel *c,
		     struct td_slurm_runs *ret, struct td_error *err);
// Reads the runs that ended in [from, to], whatever else goes on. The bound is as above.
int td_slurm_history_ended(struct td_slurm *s, const char *cluster, int64_t from, int64_t to, struct td_cancel *c,
			   struct td_slurm_runs *ret, struct td_error *err);
// Reads the runs that waited or ran at some time in [from, to) in one QOS, by its number (slurmrestd takes no name,
// docs/facts/slurm.md S-A18). The bound is as above.
struct td_slurm_history_of {
	const char *cluster;
	const char *user; // NULL: all
	int64_t qos, from, to;
};
int td_slurm_history_qos(struct td_slurm *s, const struct td_slurm_history_of *of, struct td_cancel *c,
			 struct td_slurm_runs *ret, struct td_error *err);
// Reads all runs of one job, or of the task with this id.
int td_slurm_history_job(struct td_slurm *s, const char *cluster, int64_t id, struct td_cancel *c,
			 struct td_slurm_runs *ret, struct td_error *err);
// Of the job's runs that have ended, the last one. NULL: there is none. Points into l.
const struct td_slurm_run *td_slurm_runs_last(const struct td_slurm_runs *l, int64_t id);
// Reads the reply (pure; for tests and fuzzing).
int td_slurm_history_read(const yyjson_val *root, struct td_slurm_runs *ret, struct td_error *err);

// What Slurm lets a person do in its database.
struct td_slurm_rights {
	bool all;             // operator or administrator
	struct td_strv leads; // accounts that he coordinates
};
void td_slurm_rights_done(struct td_slurm_rights *r);
#define td_auto_rights __attribute__((cleanup(td_slurm_rights_done)))
// One that slurmdbd does not know has no rights.
int td_slurm_rights(struct td_slurm *s, const char *user, struct td_cancel *c, struct td_slurm_rights *ret,
		    struct td_error *err);
