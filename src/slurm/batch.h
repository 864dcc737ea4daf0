// Batch jobs of people: what `tandem submit` and the page ask Slurm for, in the name of the person
// (the token says who). The stand-ins of pods have a struct of their own (td_slurm_ask).
#pragma once

#include "slurm/rest.h"
#include "json/json.h"

// NULL, 0 and empty lists are not sent.
struct td_slurm_batch {
	const char *name, *script; // script: the whole text
	const char *cwd, *output;  // absolute; output may hold %j, %A and %a
	const char *account, *partition, *qos, *constraints, *reservation, *dependency, *comment;
	const struct td_strv *exclude; // names of nodes that it does not get; NULL: none
	const char *array;             // "0-3%2"
	int64_t uid;                   // the person's number; 0: not sent
	struct td_strv env;            // "NAME=value"
	int64_t nodes, tasks;          // 0: 1; of tasks: tasks_per_node on each node, or 1
	int64_t tasks_per_node;        // with tasks at most so many; 0: as Slurm spreads them
	int64_t cpus;                  // per task; 0: 1
	int64_t memory_mb;             // per node; 0: 1024, because a job that says nothing takes all (S-T10)
	int64_t memory_per_cpu_mb;     // where memory_mb is 0; 0: not said
	int64_t gpus;                  // per node
	const char *gpu_type;          // "h100"; NULL: any
	int64_t time_limit_min;
	int64_t begin; // epoch seconds: not before
	bool requeue;
};
void td_slurm_batch_done(struct td_slurm_batch *b); // frees env only
// Submits the job as `user`. Errors are those of td_slurm_submit(). With uid it is refused (detail
// TD_SLURM_ERR_USER) where slurmctld knows nobody of this name and number; without, it would be a job
// of uid 99, which is held for ever (S-A5).
int td_slurm_batch(struct td_slurm *s, const char *user, const struct td_slurm_batch *b, struct td_cancel *c,
		   int64_t *ret_job, struct td_error *err);
// The body of that request. The caller frees it.
char *td_slurm_batch_body(const struct td_slurm_batch *b);

// All jobs that `user` may see, as /jobs/ of slurmrestd lists them: 7.7 KB a job (S-W3). since: ask
// for nothing when nothing has changed after that second (S-W4): *ret is NULL then; 0: always.
// Caller unrefs *ret.
int td_slurm_jobs_raw(struct td_slurm *s, const char *user, int64_t since, struct td_cancel *c, struct td_json **ret,
		      struct td_error *err);
// Reads one element of its `jobs`. The same for the reply of td_slurm_job_raw.
int td_slurm_job_read(struct td_slurm *s, const yyjson_val *v, struct td_slurm_job *ret, struct td_error *err);
// One job's records, as `user`.
int td_slurm_job_raw(struct td_slurm *s, const char *user, int64_t id, struct td_cancel *c, struct td_json **ret,
		     struct td_error *err);

// How a job ended, from the history that slurmdbd keeps, as `user`.
struct td_slurm_past {
	uint64_t states;
	int64_t start, end, exit_code; // times: epoch seconds
	size_t records, done;          // of an array: tasks, and those that ended well
};
// TD_NOT_FOUND: it is not in the history, or is somebody else's. Fails in other ways where there is no
// slurmdbd.
int td_slurm_job_past(struct td_slurm *s, const char *user, int64_t id, struct td_cancel *c, struct td_slurm_past *ret,
		      struct td_error *err);
