// A run: its record in the home, with what Slurm says of its jobs.
//
// The record (tandem/runs/ID/.tandem/run.json) is the owner's file, who may write anything into it. So
// nothing is believed of it that could harm somebody else: a job that it names is looked at and ended
// only when Slurm says that it is this person's.
#pragma once

#include "gateway/jobs.h"

// The record of one run of the caller's. The caller unrefs it.
int td_gateway_run_record(struct td_gateway_ask *q, const char *id, struct td_json **ret, struct td_error *err);
// Submits the run that q->body asks for (makeRun), checked against its schema, and answers. q->args[0]: its
// id.
int td_gateway_run_make(struct td_gateway_ask *q, struct td_error *err);
// Adds what is known of the run to o: the record, and for each step its job's state. *ret_over: all of
// it has ended. Slurm's look `s` may be NULL.
void td_gateway_run_write(struct td_gateway_ask *q, const yyjson_val *record, const struct td_gateway_seen *s,
			  yyjson_mut_doc *d, yyjson_mut_val *o, bool *ret_over);
// The job of a step; NULL: the person's first. 0: there is none. *ret_tasks: of its sweep. *ret_log: where
// in the home it writes; NULL: in the run's slurm_log.
int64_t td_gateway_run_job(const yyjson_val *record, const char *step, long long *ret_tasks, const char **ret_log);
