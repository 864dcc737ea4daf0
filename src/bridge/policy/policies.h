// Policies: in which order the jobs of a part of the pool wait (docs/policies.md, pool/policy.h).
//
// One thread makes a pass a second: it reads what is new (facts.c), lets the room pool decide, and moves
// a few jobs (pass.c). A job is moved by its site factor: Slurm adds that to the priority, and goes on
// computing all the rest, fair share too. Users cannot set it, nice stays whose it is, and a job that is
// held, or whose priority an administrator has fixed, is left alone. All is found again after a crash:
// what a policy has added to a job is in the job's priority.
#pragma once

#include "bridge/bridge.h"
#include "pool/leave.h"
#include "pool/policy.h"

// ---- spec.scheduler.policies, in settings.h's struct (settings.c) ----
struct td_policies_rule {
	const char *name;
	const char *const *partitions; // none: all
	size_t n_partitions;
	enum td_policy_kind kind;
	enum td_policy_queue queue;
	const char *plugin, *arguments; // of TD_POLICY_PLUGIN: a file in the directory of policies; ""
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
	int64_t submit_s, tres[TD_POLICY_TRES], nice, limit_min, nodes;
	bool held, aside;
	// GPUs that it waits for on one node (bridge/cuts.h): whole ones, or parts of a kind; "": none of these. parked: it
	// is held because no node has such parts.
	int64_t whole_gpus, parts_wanted;
	char part[24];
	bool parked, marked; // marked: by job_submit.lua
	bool nobodys; // it holds a device or room that nobody is to have (aside.h, shadow.h): nobody waits for it
	// As in td_policy_place; own -1: it is not known how much of value is a policy's.
	int64_t value, own;
	// A move was made: `was` is the value before it. fixed: it had no effect, so somebody has fixed the
	// priority, and the job is left alone.
	bool moved, fixed;
	int64_t was, site;
	int64_t array; // of which it is a task; 0: of none
	// It is the last task of an array and has the array's id: what is written or sent to that is for all tasks (S-H10,
	// S-J16).
	bool shared;
	// Slices (slices.c). restarts: how often it was queued again, of which `counted` are in its mark.
	bool batch;
	int64_t restarts, counted, since_ms, again_ms; // mono: when that restart was seen; not before
	// Moves (defrag.c). label: as Slurm calls it. parts: what it has where, while it runs, is not preempted and not
	// shared: without them it makes room for nobody.
	char *label;
	int64_t start_s;
	struct td_slurm_job_node *parts;
	size_t n_parts;
	bool whole;     // its nodes run no other job
	bool named;     // it names nodes on which it is to be
	char *excluded; // nodes on which it is not to be, as Slurm writes them; ""
	bool ours;      // by its mark: pods have it
	// Whether it may move was read; it may not start anywhere else; others could not have its place, or it could not be
	// queued again.
	bool checked, bound, tied;
	// Starvation (starve.c). leave: what its admin comment says of when it makes room; for how many restarts, and one
	// more, it was asked to by this bridge. is: of its pods (scheduler/victim.h), at this pass. going: it leaves.
	struct td_pool_leave leave;
	int64_t asked;
	int is;
	bool going;
	int64_t goes_for; // the job for which it was told to; 0: nobody's, or its own end
	bool ends;        // it cannot be queued again
	struct td_pool_leave_signal
		signal; // that it hears before it goes; for how many restarts, and one more, it was sent
	int64_t signalled;
};
struct td_policies_facts {           // zero at first
	struct td_policies_known *v; // sorted by id
	size_t n;
	bool more;        // some were not read yet
	int64_t again_id; // the last one that was read again: the next pass goes on behind it
	uint64_t n_reads; // records; whoever looks sets it to 0
};
void td_policies_facts_done(struct td_policies_facts *f);
// NULL: it has ended, or nobody knows it yet. O(log n).
const struct td_policies_known *td_policies_facts_find(const struct td_policies_facts *f, int64_t id);
// Asks Slurm which jobs there are, and reads those that are new or have changed, at most a few a pass. On an
// error what is known stays. only_waiting: no record of the others is read, and they do not count for `more`.
int td_policies_facts_read(struct td_policies_facts *f, struct td_slurm *s, bool only_waiting, int64_t now_ms,
			   struct td_cancel *c, struct td_error *err);
// Takes over a record of one of them.
void td_policies_facts_take(struct td_policies_known *k, const struct td_slurm_job *j, int64_t now_ms);
// Notes that Slurm's history could not be asked: from now on is counted how long it lacks runs.
void td_policies_facts_away(struct td_policies_facts *f, int64_t now_ms);
// Notes that the job was moved to this value; 0: its own again.
void td_policies_facts_moved(struct td_policies_known *k, int64_t value, int64_t site);

// ---- slices.c: time limits that count over all runs (pool/slice.h) ----
// Whether a pass has something to do in this cluster.
bool td_policies_slices(const struct td_settings *s);
// Gives jobs that were queued again what is left of their time.
void td_policies_slices_pass(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm,
			     struct td_policies_facts *f);

// ---- defrag.c: jobs move so that one that waits has room (pool/defrag.h) ----
struct td_policies_moves { // zero at first; of the thread
	bool swept;        // what an earlier bridge asked for is taken back
	bool wishes;       // there are wishes beside those of the moves below
	int64_t next_ms;   // mono: not before, so that it costs a twentieth of a core at most
	struct td_policies_move {
		int64_t waiter, jobs[64], restarts[64], at_ms; // mono; waiter 0: none
		int64_t until_ms;                              // mono: all should have left by then
		size_t n;
		bool open;   // not all have left yet
		bool starve; // for one that starves
	} last[32];
};
struct td_policies_words { // what is said of one that waits
	int64_t job;
	char text[320];
};
enum { TD_POLICIES_HEADS = 16 };
// Jobs were asked to move, and the wish still stands.
bool td_policies_moves_open(const struct td_policies_moves *m);
// Looks at the first of each partition's queue. Returns how many words there are.
size_t td_policies_defrag_pass(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm,
			       struct td_policies_facts *f, struct td_policies_moves *m,
			       struct td_policies_words ret[TD_POLICIES_HEADS]);

// ---- plugin.c, host.c: a policy of the site's own (tandem/policy.h) ----
struct td_policies_plugin { // zero at first; what is kept of one
	size_t *order, n;   // the last answer
	uint64_t print;     // of what it was asked
	int64_t asked_ms, again_ms;
	char problem[320]; // "": none
};
struct td_policies_ask {
	const char *dir; // of policies
	const struct td_policies_rule *rule;
	const struct td_policies_known *const *waiting, *const *running;
	const int64_t *urgency; // of those that wait
	size_t n, n_running;
	const int64_t *total;
	int64_t now_s, now_ms; // epoch; mono
	struct td_cancel *cancel;
};
// As td_policy_order(). On an error, which says in words for people what is wrong with it, nobody is ordered.
int td_policies_plugin(struct td_policies_plugin *p, const struct td_policies_ask *a, size_t *ret,
		       struct td_error *err);
// Reads its answer. False: it is no order of n jobs; err says why not.
bool td_policies_answer(const char *text, size_t n, size_t *ret, struct td_error *err);

// ---- show.c ----
struct td_policies_state {
	const char *name, *problem; // problem NULL: it orders its jobs
};
// Writes the SlurmCluster's status.policies, if it differs.
int td_policies_show(struct td_bridge *b, const struct td_policies_state *v, size_t n, struct td_error *err);

// ---- pass.c ----
struct td_policies *td_policies_new(void);
struct td_policies *td_policies_free(struct td_policies *p);
void *td_policies_thread(void *bridge);
// Since this bridge leads.
struct td_policies_counts {
	uint64_t passes, reads, moves;
};
struct td_policies_counts td_policies_counts(struct td_bridge *b);
// Raises each partition's most[] to the GPUs on one node that a job which waits wants there, as far as policies have
// read the jobs.
void td_policies_largest(struct td_bridge *b, const struct td_strv *partitions, int64_t *most);
// Appends which policy orders the job, and its place: " Policy fair (drf by account) orders it: place 3 of
// 40." Nothing when none does.
void td_policies_words(struct td_bridge *b, int64_t job, struct td_buf *ret);
