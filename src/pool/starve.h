// Starvation: who makes room for one that waits too long while others have more than their share. Pure, as pool.h.
//
// Only who is entitled has room made: his account, with what he waits for, stays within its fair share. Victims are, in
// this order: who has used his slice up; who is of an account that has more than its share, the one with the most
// excess first, and only while it has; whose priority is lower. Of equals those first who are queued again, before those
// who would end; then the youngest. Nobody of the own account.
//
// Several may starve at a time. For whom room is made already, or who comes first, has his room in the pool as it is looked
// at for the next one, and counts in his account's use.
#pragma once

#include "pool/defrag.h"

struct td_pool_starve_account {
	int64_t weight; // its share beside the others that run or wait; from 1 up
	int64_t use;    // what it holds of the resource that the shares are of
};
struct td_pool_starve_job {
	struct td_pool_move_job move; // feasible is not looked at
	size_t account;               // index
	int64_t holds;                // of that resource
	int64_t start_s, priority;    // priority: of its QOS
	bool over_slice;              // it has run for longer than its slice
	bool going;                   // it leaves already, so what it has counts as free, and it is no victim
	bool ends;                    // it cannot be queued again: as a victim it ends
	int64_t leaves_for;           // of one that goes: the waiter who is to have its place; 0: nobody in particular
};
// Another one who starves, and is served before: what he waits for is his as soon as those have left that leave.
struct td_pool_starve_other {
	const bool *feasible, *must; // per node, of the same nodes; must NULL: nowhere
	struct td_pool_want want;
	int64_t units, wants; // wants: of the resource
	bool spread;
	size_t account;
	int64_t waiter; // as in leaves_for
};
struct td_pool_starve {
	struct td_pool_defrag room; // who waits, and the nodes; its jobs are not looked at
	const struct td_pool_starve_account *accounts;
	size_t n_accounts;
	const struct td_pool_starve_job *jobs; // that may be queued again, and are not inside their slice
	size_t n_jobs;
	int64_t total;    // of the resource, in the pool
	size_t account;   // of who waits
	int64_t priority; // of his QOS
	int64_t wants;    // of the resource
	int64_t waiter;   // he, as in leaves_for
	const bool *must; // per node: one of the units has to be there; NULL: nowhere
	const struct td_pool_starve_other *others;
	size_t n_others;
};
// The account's fair share of the resource.
int64_t td_pool_starve_share(const struct td_pool_starve *f, size_t account);
bool td_pool_starve_entitled(const struct td_pool_starve *f);
enum td_pool_starve_why { TD_STARVE_NO, TD_STARVE_SLICE, TD_STARVE_SHARE, TD_STARVE_PRIORITY };
// The first of a job's reasons to be a victim, while its account holds `use`.
enum td_pool_starve_why td_pool_starve_why(const struct td_pool_starve *f, size_t job, int64_t use);
const char *td_pool_starve_words(enum td_pool_starve_why w); // "its slice is over"

// Has he room as soon as those have left that leave already? Then nobody else is asked.
bool td_pool_starve_comes(const struct td_pool_starve *f);

// Who starves behind others goes to the front of the queue, by a nice below every one that a pod's priority gives; it
// says how nice he is himself, so that it can be taken back. Who is far too nice for that stays where he wants to be.
int64_t td_pool_starve_front(int64_t nice);
bool td_pool_starve_at_front(int64_t nice);
int64_t td_pool_starve_own(int64_t nice); // of one at the front: his own
// The victims, and why each is one: enough, and no more. 0: he has room already, is not entitled, or they would not do.
size_t td_pool_starve(const struct td_pool_starve *f, size_t ret[TD_DEFRAG_MOST],
		      enum td_pool_starve_why ret_why[TD_DEFRAG_MOST]);
