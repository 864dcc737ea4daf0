// Policies: in which order the jobs of a part of the pool wait.
//
// A policy says the order of the jobs that wait, pods and native jobs alike (td_policy_order). Slurm
// keeps deciding who starts: by priority, with backfill, limits and reservations as ever. What is
// changed is the priority of jobs that would otherwise come in another order, and of as few of them
// as will do (td_policy_plan). Pure, as pool.h.
//
// Urgency comes first: jobs whose QOS has a higher priority, then those with less nice, as an
// administrator, a PriorityClass or the user himself has set it. A policy orders those that are alike.
#pragma once

#include "base/mem.h"

#include <stdint.h>

enum td_policy_kind {
	TD_POLICY_FIFO, // the oldest first
	TD_POLICY_LIFO, // the newest first
	// Queues take turns: the next job is of the queue that has the fewest jobs which run or come before.
	TD_POLICY_HIERARCHICAL,
	TD_POLICY_DRF,    // the same, by the dominant share of what runs or comes before
	TD_POLICY_PLUGIN, // a program of the site's says it
};
enum td_policy_queue {
	TD_POLICY_ONE_QUEUE,
	TD_POLICY_PER_USER,
	TD_POLICY_PER_ACCOUNT, // and, within an account, its users take turns
};
enum { TD_POLICY_CPU, TD_POLICY_MEMORY, TD_POLICY_GPU, TD_POLICY_TRES }; // memory in MB

struct td_policy_job {
	int64_t id;
	const char *user, *account;
	int64_t submit_s; // epoch seconds
	int64_t tres[TD_POLICY_TRES];
	int64_t urgency, nice;
	// Slurm passes over it for now, because of a limit or what it waits for: it takes nobody's turn.
	bool aside;
};
struct td_policy_held {
	const char *user, *account;
	int64_t tres[TD_POLICY_TRES];
};
struct td_policy_input {
	enum td_policy_kind kind;
	enum td_policy_queue queue;
	const struct td_policy_job *v; // who waits
	size_t n;
	const struct td_policy_held *held; // what runs
	size_t n_held;
	int64_t total[TD_POLICY_TRES]; // of the pool; 0: does not count
};
// The order: in->n indexes of in->v, the first one starts first. A plug-in's is that of its arrival.
void td_policy_order(const struct td_policy_input *in, size_t *ret);

// ---- as few changes as will do ----
//
// Slurm's priority of a job that a policy has moved is in a range of its own, far above all others'; it is called
// value here, and does not count nice. Jobs that nobody has moved have their own priority, and keep it
// where that is right: who comes last then waits behind everybody, as Slurm has it.
#define TD_POLICY_LOW (INT64_C(1) << 29)
#define TD_POLICY_HIGH ((INT64_C(1) << 31) - (INT64_C(1) << 20))
enum { TD_POLICY_DEPTH = 512 }; // so many of a policy's jobs are kept in order; the others wait behind

struct td_policy_place {
	int64_t id;
	int64_t value; // as it is
	int64_t own;   // as it is without what a policy added
};
struct td_policy_move {
	size_t at;
	int64_t value; // what it shall be; 0: its own again
};
// v is in the order that the policy says. Returns how many moves there are, those of the first jobs first;
// ret has room for n.
size_t td_policy_plan(const struct td_policy_place *v, size_t n, size_t depth, struct td_policy_move *ret);
