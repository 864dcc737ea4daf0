// Policies: in which order the jobs of a part of the pool wait (docs/policies.md, pool/policy.h).
//
// One thread makes a pass a second: it reads what is new (facts.c), lets the room pool decide, and moves
// a few jobs (pass.c). A job is moved by its site factor: Slurm adds that to the priority, and goes on
// computing all the rest, fair share too. Users cannot set it, nice stays whose it is, and a job that is
// held, or whose priority an administrator has fixed, is left alone. All is found again after a crash:
// what a policy has added to a job is in the job's priority.
#pragma once

#include "bridge/bridge.h"
#include "pool/policy.h"

// ---- spec.scheduler.policies, in settings.h's struct (settings.c) ----
struct td_policies_rule {
	const char *name;
	const char *const *partitions; // none: all
	size_t n_partitions;
	enum td_policy_kind kind;
	enum td_policy_queue queue;
};
// The words for a rule: "drf by account".
const char *td_policies_rule_words(const struct td_policies_rule *r);

// ---- facts.c: the jobs of Slurm's that have not ended ----
struct td_policies_known {
	int64_t id;
	enum td_job_phase phase;
	bool read;       // all below is known
	bool stale;      // it must be read (again)
	int64_t read_ms; // mono
	char *user, *account, *qos, *partition;
	int64_t submit_s, tres[TD_POLICY_TRES], nice;
	bool held, aside;
	// As in td_policy_place; own -1: it is not known how much of value is a policy's.
	int64_t value, own;
	// A move was made: `was` is the value before it. fixed: it had no effect, so somebody has fixed the
	// priority, and the job is left alone.
	bool moved, fixed;
	int64_t was, site;
};
struct td_policies_facts {           // zero at first
	struct td_policies_known *v; // sorted by id
	size_t n;
	bool more;        // some were not read yet
	uint64_t n_reads; // records; whoever looks sets it to 0
};
void td_policies_facts_done(struct td_policies_facts *f);
// Asks Slurm which jobs there are, and reads those that are new or have changed, at most a few a pass. On an
// error what is known stays.
int td_policies_facts_read(struct td_policies_facts *f, struct td_slurm *s, int64_t now_ms, struct td_cancel *c,
			   struct td_error *err);
// Takes over a record of one of them.
void td_policies_facts_take(struct td_policies_known *k, const struct td_slurm_job *j, int64_t now_ms);
// Notes that the job was moved to this value; 0: its own again.
void td_policies_facts_moved(struct td_policies_known *k, int64_t value, int64_t site);

// ---- pass.c ----
struct td_policies *td_policies_new(void);
struct td_policies *td_policies_free(struct td_policies *p);
void *td_policies_thread(void *bridge);
// Since this bridge leads.
struct td_policies_counts {
	uint64_t passes, reads, moves;
};
struct td_policies_counts td_policies_counts(struct td_bridge *b);
// Appends which policy orders the job, and its place: " Policy fair (drf by account) orders it: place 3 of
// 40." Nothing when none does.
void td_policies_words(struct td_bridge *b, int64_t job, struct td_buf *ret);
