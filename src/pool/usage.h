// Usage: what runs of jobs held and how long they waited, added up by day, account, user and type of
// GPU; and whose rows a person is shown.
#pragma once

#include "base/mem.h"
#include "pool/yield.h"

#include <stdint.h>

enum { TD_USAGE_DAY_S = 86400 };

// One run of a job, from Slurm's history.
struct td_usage_type {
	const char *name; // "h100"
	int64_t count;
};
struct td_usage_run {
	const char *account, *user;
	int64_t eligible, start, end; // epoch seconds; 0: not yet
	int64_t cpus, gpus;           // held while it ran; gpus: of all types
	const struct td_usage_type *types;
	size_t n_types;
	enum td_yield fate;
	double idle; // the part of its time that its devices idled, 0 to 1; 0 also where nobody measured it
};

// Seconds, but for runs: those that began in the time.
struct td_usage_sums {
	double runs, gpu, cpu, lost, wait; // lost: of gpu, what is known to be lost
	double idle;                       // of gpu, what is known to have idled
	double cost;                       // not seconds: what the caller has reckoned
};
void td_usage_sums_add(struct td_usage_sums *to, const struct td_usage_sums *s);
struct td_usage_row {
	int64_t day; // counted from 1970, of UTC; -1: of all days
	// Of one allocation; "" in a row that does not tell them apart. type "" is also a GPU of no type,
	// and the row of runs, CPUs and waits.
	char *account, *user, *type;
	struct td_usage_sums sum;
};
struct td_usage {
	struct td_usage_row *v;
	size_t n, cap;
};
void td_usage_done(struct td_usage *u);
#define td_auto_usage __attribute__((cleanup(td_usage_done)))

// Adds what a run held and waited in [from, to), a row for each day. What goes on is counted up to `to`.
void td_usage_add(struct td_usage *u, const struct td_usage_run *r, int64_t from, int64_t to);
// Adds one row; row's strings are copied.
void td_usage_put(struct td_usage *u, const struct td_usage_row *row);
// Makes one row of those with the same day, account, user and type, and sorts them.
void td_usage_settle(struct td_usage *u);

// A person, as Slurm and Tenants know him.
struct td_usage_viewer {
	const char *user;
	bool all;                    // Slurm's operator or administrator
	const struct td_strv *leads; // accounts whose people he sees
};
bool td_usage_may(const struct td_usage_viewer *v, const char *account, const char *user);
