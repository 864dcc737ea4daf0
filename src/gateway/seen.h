// What a look at Slurm saw: its nodes, and its jobs with all that slurmrestd says of them. A look reads what has
// changed: the list of nodes when one has (slurm/view.h), and of a long list of jobs only those whose states are others;
// what states do not show is at most some twenty times as old as that list takes. Immutable once it is shared.
#pragma once

#include "slurm/view.h"
#include "json/json.h"

struct td_gateway_record {
	int64_t id, array; // array: of whose tasks it is one; 0: none
	uint64_t states;   // as the last poll of states said, or the record
	yyjson_val *v;     // for td_slurm_job_read
	struct td_json *from;
};
struct td_gateway_records {
	struct td_gateway_record *v; // in Slurm's order, what came later last
	size_t n, cap;
	size_t *by_id; // places in v, by id; places in by_array are by array
	size_t *by_array, n_arrays;
};
void td_gateway_records_done(struct td_gateway_records *l);
#define td_auto_records __attribute__((cleanup(td_gateway_records_done)))
// Reads a reply of /jobs/ or /job/ID. *ret is empty before; call td_gateway_records_index when all is in.
void td_gateway_records_add(struct td_gateway_records *ret, struct td_json *reply);
void td_gateway_records_index(struct td_gateway_records *l);
// *ret is empty before, and indexed.
void td_gateway_records_copy(const struct td_gateway_records *l, struct td_gateway_records *ret);
// One after the other, those with this id, and of tasks of the array with this id; then NULL. c: zero at first.
struct td_gateway_cursor {
	size_t next; // one more than the place
	bool arrays;
};
const yyjson_val *td_gateway_records_next(const struct td_gateway_records *l, int64_t id, struct td_gateway_cursor *c);
// Which records must be read to know what `now` says (sorted, as td_slurm_job_states_all gives it): those that are new
// or have other states. Fills ret, which has room for now->n, and returns how many.
size_t td_gateway_records_news(const struct td_gateway_records *old, const struct td_slurm_states *now, int64_t *ret);
// What there is then: the old ones that `now` still has, in their order, with those in `fresh` instead of older ones of
// the same id, and its new ones. *ret is empty before, and indexed.
void td_gateway_records_merge(const struct td_gateway_records *old, const struct td_slurm_states *now,
			      const struct td_gateway_records *fresh, struct td_gateway_records *ret);

// How the jobs are looked at next.
struct td_gateway_pace {
	int64_t list_ms;  // mono: when all were read; 0: never
	int64_t asked_ms; // when it was known last that nothing had changed since
	int64_t cost_ms;  // how long the last list took
};
enum td_gateway_jobs_do {
	TD_JOBS_LIST,   // all of them
	TD_JOBS_ASK,    // all, if anything has changed since the last list
	TD_JOBS_STATES, // their states, and those that changed
};
enum td_gateway_jobs_do td_gateway_jobs_next(const struct td_gateway_pace *p, int64_t now_ms);
// So many of them are read one by one; where more have changed the list is quicker.
size_t td_gateway_jobs_few(const struct td_gateway_pace *p);
