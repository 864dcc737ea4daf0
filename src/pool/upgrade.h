// How an upgrade of many nodes goes on (docs/upgrade.md). Pure: the facts are borrowed for the call.
//
// Each node is upgraded by an act of its own (health.h). This decides which nodes are begun next, which are
// rolled back, and how the whole of it stands. A node is begun only while as many as may be are at work, no node
// that was upgraded is bad, and the pool is not full of sick nodes.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum td_upgrade_node {
	TD_UPGRADE_PENDING,
	TD_UPGRADE_UPGRADING,
	TD_UPGRADE_UPGRADED,
	TD_UPGRADE_FAILED,
	TD_UPGRADE_ROLLING_BACK,
	TD_UPGRADE_ROLLED_BACK,
	TD_UPGRADE_ROLLBACK_FAILED,
};
// "Pending", …, as the API has them.
const char *td_pool_upgrade_node_name(enum td_upgrade_node n);
// A name that there is not: PENDING.
enum td_upgrade_node td_pool_upgrade_node_parse(const char *name);

struct td_pool_upgrade_member {
	enum td_upgrade_node is;
	bool gone; // there is no such node any more
	bool out;  // somebody else took it out of service: it stays his until he returns it
	bool sick; // a fault, or the node or its slurmd is not ready
	bool busy; // another act is at work on it
};
struct td_pool_upgrade_facts {
	const struct td_pool_upgrade_member *v;
	size_t n;
	size_t at_once; // so many may be at work at once; 1 or more
	bool paused;
	bool late;        // its deadline is over
	bool changed;     // its spec is another than when it began
	const char *lost; // static text: why it cannot go on for what others did; NULL: it can
	// Of an upgrade of Slurm: its daemons get the image before any slurmd does.
	enum td_upgrade_daemons { TD_DAEMONS_NEW, TD_DAEMONS_OLD, TD_DAEMONS_MOVE } daemons;
	bool breaker;  // too many nodes of the pool are out for their health
	bool rollback; // what follows a failure
	enum { TD_ABORT_NOT, TD_ABORT_STOP, TD_ABORT_ROLLBACK } abort;
};
enum td_upgrade_phase {
	TD_UPGRADE_PROGRESSING,
	TD_UPGRADE_WAITING,
	TD_UPGRADE_PAUSED,
	TD_UPGRADE_BACKWARDS, // "RollingBack"
	// The ends
	TD_UPGRADE_SUCCEEDED,
	TD_UPGRADE_BACK, // "RolledBack"
	TD_UPGRADE_ABORTED,
	TD_UPGRADE_GIVEN_UP, // "Failed"
};
const char *td_pool_upgrade_phase_name(enum td_upgrade_phase p);
bool td_pool_upgrade_over(enum td_upgrade_phase p);

struct td_pool_upgrade_plan {
	enum td_upgrade_phase phase;
	const char *why; // static text; NULL: nothing to say
	size_t of;       // the member that `why` is about; n: none
};
// begin: n flags, set for each member whose act is to begin now: a rollback in phase BACKWARDS, else its upgrade.
void td_pool_upgrade_decide(const struct td_pool_upgrade_facts *f, bool *begin, struct td_pool_upgrade_plan *ret);

// How far the daemons of a SlurmCluster are with another image. Nobody stops them half way: slurmdbd may have made its
// database anew already.
struct td_pool_daemons_facts {
	bool there;  // the SlurmCluster is
	bool asked;  // its spec was written, and it is known
	bool as_was; // its spec is still as it was, or as it is to be
	bool seen;   // what is known of it is as new as that
	bool wanted; // its spec names the image, and for slurmds the one that they have
	bool ended;  // its spec is as the end leaves it, and every node has the image: that write was the upgrade's own
	bool observed; // its status is of that spec
	bool invalid;  // its configuration is refused
	bool in_force; // the image passed its trial
	bool rolled;   // every daemon runs with it
	bool answers;  // slurmctld does
};
enum td_daemons_are {
	TD_DAEMONS_ASK,  // write the spec, again where nobody knows whether it was written
	TD_DAEMONS_WAIT, // they are being replaced
	TD_DAEMONS_READY,
	TD_DAEMONS_REFUSED, // nothing was replaced
	TD_DAEMONS_CHANGED, // somebody else wrote another image
	TD_DAEMONS_GONE,
};
enum td_daemons_are td_pool_upgrade_daemons(const struct td_pool_daemons_facts *f);
// Has Slurm a way back from release `now` to `before`? Only within one release ("24.11.5" and "24.11.7").
bool td_pool_upgrade_back(const char *before, const char *now);
// How many nodes of n may be at work at once: "3", "20%"; at least 1.
size_t td_pool_upgrade_at_once(const char *text, size_t n);
