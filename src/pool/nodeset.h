// The nodes of a NodeSet: what to do with each (docs/protocols.md 3). Level-triggered: every step is found again from
// the pods and from Slurm's records, so a crash between two steps changes nothing.
//
//   update: drain("tandem: update") → no job → delete pod → delete record → create pod → it registers; a record that
//   somebody else has
//           drained stays, and so does his reason. The same where Slurm drained a node for devices that an earlier
//           configuration hid.
//   leave:  drain("tandem: scale-in") → no job → delete pod → delete record
// Without a fresh answer from Slurm nothing is taken away: unknown is not idle.
#pragma once

#include "pool/pool.h"

enum td_pool_member_do {
	TD_MEMBER_NOTHING,
	TD_MEMBER_CREATE,        // the pod
	TD_MEMBER_DELETE_POD,    // gracefully
	TD_MEMBER_DRAIN,         // with `why`
	TD_MEMBER_UNDRAIN,       // only while the reason is still ours
	TD_MEMBER_SET_DOWN,      // with `why`: its jobs are requeued
	TD_MEMBER_DELETE_RECORD, // Slurm's record of a node without slurmd; refused by Slurm while a job refers to it
};
const char *td_pool_member_do_name(enum td_pool_member_do d); // "delete-pod"

struct td_pool_member { // a node, in
	const char *name;
	bool exists, matched, ready; // the Kubernetes node
	const char *refuse;          // why it cannot be a Slurm node now; NULL: it can
	bool pod, pod_ready, pod_deleting, pod_ended;
	bool pod_current;                    // its slurmd pod is the wanted one
	int64_t pod_born_ms;                 // its creation, real time
	const char *pod_ip;                  // "" when none
	const struct td_pool_record *record; // NULL: none or unknown
	bool record_differs;                 // its size is not what the pod would say now
	bool missing;                        // slurmd runs, and Slurm answers without a record of the node
	bool forgotten;                      // so long that it will stay so (td_pool_absence_look)
	// out
	bool keep;
	bool updated;   // its pod is the wanted one, and Slurm has taken over what it says
	bool evictable; // no job is on it and none can start: whoever evicts its pod ends nothing
	enum td_pool_member_do act;
	const char *why; // static, or `refuse`: the reason to write, or what is waited for
};
struct td_pool_policy {
	long long replicas; // -1: all that match
	bool rolling;       // false: OnDelete
	long long max_unavailable;
	int64_t update_force_s, scale_force_s; // jobs are ended when a drain of ours is this old; -1: never
	bool view;                             // Slurm's answer is fresh; without it nothing is taken away
	int64_t now_ms;                        // real time; Slurm's clock is taken to be ours
	int64_t config_ms;                     // since when the configuration in force is run; 0: none is
};
struct td_pool_set_counts {
	long long desired, matched, assigned, ready, updated, running, idle, allocated, draining, drained, down;
};
// v: sorted by name. Fills the out fields and the counts.
void td_pool_nodeset_decide(struct td_pool_member *v, size_t n, const struct td_pool_policy *p,
			    struct td_pool_set_counts *ret);
bool td_pool_member_available(
	const struct td_pool_member *m); // takes part in the pool: slurmd runs, and Slurm would give it work
bool td_pool_member_waits_turn(const struct td_pool_member *m); // for its update: as many as allowed are out of service

// A decided DRAIN, UNDRAIN or SET_DOWN, looked at again with the record as it is read right before the write (NULL:
// there is none any more): nobody's reason is overwritten and nobody's drain is lifted.
enum td_pool_write { TD_WRITE_NOTHING, TD_WRITE_DRAIN, TD_WRITE_UNDRAIN, TD_WRITE_DOWN };
enum td_pool_write td_pool_member_write(enum td_pool_member_do act, const struct td_pool_record *now, bool *ret_reason);
// A record that carries the mark of a NodeSet which is gone: what to do with it.
enum td_pool_member_do td_pool_ghost(const struct td_pool_record *r);
// When to look at a cluster's NodeSets again. quiet_ms: for how long Slurm's answer has been the same; cost_ms: what
// one look costs.
int64_t td_pool_nodeset_again_ms(bool unsettled, bool fresh, int64_t quiet_ms, int64_t cost_ms);

// Do pods outside Slurm fit beside what Slurm would give out? They were placed before the share was taken from the
// node.
struct td_pool_reserve {
	int64_t cpu_milli, memory;                        // the node's allocatable
	int64_t share_cpus, share_memory_mb, share_gpus;  // what Slurm would give out
	int64_t others_milli, others_memory, others_gpus; // what those pods and slurmd ask for
};
enum td_pool_lack { TD_LACK_NOTHING, TD_LACK_CPU, TD_LACK_MEMORY, TD_LACK_DEVICES };
enum td_pool_lack td_pool_reserve_lacks(const struct td_pool_reserve *r);

// ---- slurmds that Slurm has forgotten ----
// A dynamic node lives only in slurmctld's memory until the next save of its state (up to 5 s). A slurmctld that is
// killed before forgets it, and the node's slurmd, which registered once, never does so again (24.11: slurmd.c,
// _registration_engine; slurmctld asks only nodes that it knows). Nothing in Slurm 24.11 makes it: `scontrol create
// nodename=` makes a CLOUD node that waits for power, a reconfigure goes to known nodes, REST has no way to create one.
// A new slurmd process registers within 0.1 s, so its pod is replaced.
//
// Nothing is lost by that. Without the record slurmctld fails or requeues, when it loads its state, every job that was
// on the node
// ("invalid nodes"), and it would have a re-registering slurmd abort what it still runs: processes left in the old
// container belong to no job. Pods' containers live beside slurmd and are not touched.
enum td_pool_sight {
	TD_SIGHT_UNSEEN,  // Slurm gave no complete answer, or no slurmd pod is Ready there: nothing is known
	TD_SIGHT_PRESENT, // Slurm has a record of the node
	TD_SIGHT_ABSENT,  // a complete answer without it, while the slurmd pod is Ready
};
enum td_pool_sight td_pool_sight_of(bool fresh, bool pod_ready, bool record);
struct td_pool_absence { // zero: never looked at
	int64_t since, looked;
	int tries; // restarts in vain
};
// One look at a node that is or was absent. other_pod: its pod is not the one of the last look. Returns -1: nothing is
// wrong (yet); 0: the pod must be replaced; else after how many ms of the same it must be.
int64_t td_pool_absence_look(struct td_pool_absence *a, enum td_pool_sight sight, bool other_pod, int64_t now_ms);
void td_pool_absence_restarted(struct td_pool_absence *a);                 // its pod is being replaced
bool td_pool_absence_old(const struct td_pool_absence *a, int64_t now_ms); // nobody asks about it any more

// ---- conditions of the NodeSet's status ----
enum { TD_POOL_TEXT = 3072 };
struct td_pool_set_facts {
	const char *problem; // of the spec, in one line; NULL: none
	bool cluster, fresh; // there is such a cluster; Slurm's answer is fresh
};
struct td_pool_set_conditions {
	struct td_pool_condition v[3];
	char turn[TD_POOL_TEXT], text[TD_POOL_TEXT]; // what messages may point into
};
// v, k: as td_pool_nodeset_decide left them, with more words in v[].why where the caller knows better.
void td_pool_nodeset_conditions(const struct td_pool_member *v, size_t n, const struct td_pool_set_counts *k,
				const struct td_pool_set_facts *f, struct td_pool_set_conditions *ret);
// What a member's line in the status says, NULL: nothing. c->turn must be filled.
const char *td_pool_member_message(const struct td_pool_member *m, const struct td_pool_set_conditions *c);
