// What is done about nodes' faults, and how an act on a node goes on (docs/health.md). Pure: the
// facts are borrowed for the call, outputs point to static text or into the facts.
//
// Two decisions. td_pool_health_decide() looks at a node's faults and at what was done before:
// must it be out of service, and which act comes next? td_pool_act_decide() carries an act (a
// NodeAction) on by one step. The acts are the memory of the first: nothing else is remembered.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- what a policy says about a fault ----

// From mild to severe. PERSON stands for "nothing that a program can do".
enum td_remedy { TD_REMEDY_NONE, TD_REMEDY_DRAIN, TD_REMEDY_RESET, TD_REMEDY_REBOOT, TD_REMEDY_PERSON };
// The names in tables, policies and the API: "none", "drain", "reset-gpu", "reboot", "person".
const char *td_pool_remedy_name(enum td_remedy r);
// False: no such name.
bool td_pool_remedy_parse(const char *name, enum td_remedy *ret);

struct td_pool_rule {
	const char *check, *condition; // NULL: not about one
	const int64_t *codes;
	size_t n_codes; // 0: any
	int64_t below;  // codes from here on do not match; 0: any does
	enum td_remedy remedy;
	enum td_scope { TD_SCOPE_TABLE, TD_SCOPE_NODE, TD_SCOPE_DEVICE } scope; // what leaves service for it
};
struct td_pool_fault {
	const char *check;     // "xid"; NULL: a condition that somebody else set
	const char *condition; // "GpuUnhealthy"
	const char *device;    // "gpu3"; NULL: the node
	int64_t code;
	enum td_remedy remedy; // by the table of checks; td_pool_rule_of() overrules it
	bool alone;            // by the same: only the device leaves service for it
};
// The first rule that matches decides, else the table; a condition of somebody else without a rule is
// nothing. *ret_alone: only the device leaves service. A reboot is always the node's, and so is what the test before a
// job found: Slurm drains the node of a Prolog that failed.
enum td_remedy td_pool_rule_of(const struct td_pool_fault *f, const struct td_pool_rule *rules, size_t n,
			       bool *ret_alone);

// ---- acts ----

enum td_act {
	TD_ACT_DRAIN,
	TD_ACT_RESET,
	TD_ACT_REBOOT,
	TD_ACT_RUN,
	TD_ACT_CUT,    // GPUs are cut in parts, or made whole (MIG)
	TD_ACT_SLURMD, // its slurmd gets another image
	TD_ACT_TEST,
	TD_ACT_RETURN,
	TD_ACT_NONE
};
const char *td_pool_act_name(enum td_act a); // "reset-gpu"; NONE: ""
enum td_act td_pool_act_parse(const char *name);
// The step that follows `after` in an act; after NONE: the first. NONE: the act is done.
// reboot: the node is rebooted after RUN.
enum td_act td_pool_act_step(enum td_act act, enum td_act after, bool test, bool reboot);

// What is known of a node and of the act's present step.
struct td_pool_act_facts {
	enum td_act step;
	bool alone; // it is about one device of a node whose others work: the agent tests it
	bool late;  // its deadline is over
	// Slurm
	bool slurm;    // the node is, or shall be, a Slurm node
	bool drained;  // it takes no work and has none
	bool end_jobs; // its jobs had as long as they may have
	bool ending;   // they are being ended
	bool signal;   // they are to be told to save themselves, and were not
	bool telling;  // that is under way
	// The agent
	bool told; // the operation stands on the Node; of SLURMD: the image does
	enum td_act_did { TD_DID_NOTHING, TD_DID_DONE, TD_DID_FAILED, TD_DID_UNKNOWN } did;
	bool booted; // its boot is another than before the act
	bool ready;  // the node is Ready, and so is its slurmd
	bool faulty; // a fault is left that keeps it out
	bool anew; // of CUT: its slurmd and its record in Slurm have the devices that there are now; of SLURMD: it has
		   // the image
	// The test
	enum td_act_test {
		TD_TEST_NONE,     // not begun
		TD_TEST_RESERVES, // it makes sure that nobody else gets the node
		TD_TEST_RESERVED, // nobody else gets it: it may take jobs
		TD_TEST_PASSED,
		TD_TEST_FAILED,
		TD_TEST_LOST, // it ended without a result
	} test;
	bool begun; // the record says that the test was begun
	bool held;  // the hold stands on the Node
};
enum td_act_do {
	TD_ACT_WAIT, // why says for what
	TD_ACT_NEXT, // the step is done
	TD_ACT_FAIL,
	TD_ACT_UNKNOWN, // begun, and nobody knows whether it was done
	TD_ACT_HOLD,    // take the node out of service
	TD_ACT_TELL,    // write the operation for the agent, or the image
	TD_ACT_BEGIN_TEST,
	TD_ACT_RELEASE, // lift the hold
	TD_ACT_END_JOBS,
	TD_ACT_SIGNAL_JOBS,
};
struct td_pool_act_step_plan {
	enum td_act_do what;
	const char *why; // static text
};
struct td_pool_act_step_plan td_pool_act_decide(const struct td_pool_act_facts *f);
// Are these ids of two boots? A boot that is not known (NULL or "") is no other one.
bool td_pool_act_booted(const char *before, const char *now);

// ---- a node's health ----

struct td_pool_health_facts {
	enum td_remedy worst; // of its faults, by the policy
	bool testing_new;     // it is new and the policy wants it tested
	bool held;            // it is out of service now
	// Its acts, in short
	bool active; // one is not over yet
	// The last act that is over and was about more than a test
	enum td_act last; // NONE: there is none
	bool last_failed; // or ended as unknown
	bool last_policy; // a policy asked for it
	// Of a policy, in the window of attempts
	size_t resets, reboots;
	size_t alone; // resets of single devices
	// The policy
	bool dry_run, breaker;
	size_t attempts; // most resets and reboots in the window
};
struct td_pool_health_plan {
	bool hold;         // it must be out of service (also when it is already)
	enum td_act act;   // to begin; NONE: nothing
	bool person;       // nothing more is done by itself
	bool waiting;      // out of service it should be, but the breaker or a dry run stops that
	const char *why;   // static text; NULL: nothing to say
	enum td_remedy as; // what would be done in a dry run
};
void td_pool_health_decide(const struct td_pool_health_facts *f, struct td_pool_health_plan *ret);

// True when no more nodes may be taken out: `out` of `nodes` are out for their health.
bool td_pool_health_breaker(size_t out, size_t nodes, size_t percent, size_t least);

// ---- one device of a node whose others work (mend.c) ----

struct td_pool_device_facts {
	enum td_remedy worst; // of its faults for which only it leaves service
	bool held;            // it is out of service by the operator now
	bool node_out;        // so is the whole node: then that mends the device, too
	// Its own acts
	bool active; // one is not over yet
	enum td_act last;
	bool last_failed, last_policy;
	size_t resets; // of a policy, in the window of attempts
	// The policy
	bool dry_run, breaker;
	size_t tries; // resets and reboots of the whole node in the window
	size_t attempts;
};
struct td_pool_device_plan {
	bool hold;           // it must be out of service
	enum td_act act;     // of that device, to begin; NONE: nothing
	enum td_remedy node; // what its node needs because this does not help; NONE: nothing
	bool waiting;        // out of service it should be, but the breaker or a dry run stops that
	const char *why;     // static text; NULL: nothing to say
	enum td_remedy as;   // what would be done in a dry run
};
// A reset that does not bring it back, or as many as the policy allows, are followed by what its node needs.
void td_pool_device_decide(const struct td_pool_device_facts *f, struct td_pool_device_plan *ret);
