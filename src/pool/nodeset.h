// The nodes of a NodeSet: what to do with each (docs/protocols.md 3). Decisions are
// level-triggered: each step is found again from the pods and from Slurm's records, so a crash
// between two steps changes nothing.
//
//   update: drain ("tandem: update"), no job left, delete the pod, delete the record, create the
//           pod; the new slurmd registers. A record that somebody else has drained stays, and so
//           does his reason. The same steps follow where Slurm drained a node for devices that an
//           earlier configuration hid.
//   demand: where nodes come on demand, Slurm says which slurmds it wants (pool/ondemand.c).
//
//   leave:  drain ("tandem: scale-in"), no job left, delete the pod, delete the record.
//
//   host:   the slurmd is a process of the machine, and no pod is made or ended (pool/hosts.c).
//
// Without a fresh answer from Slurm nothing is taken away: unknown is not idle.
#pragma once

#include "pool/pool.h"

enum td_pool_member_do {
	TD_MEMBER_NOTHING,
	TD_MEMBER_CREATE,     // the pod
	TD_MEMBER_DELETE_POD, // gracefully
	TD_MEMBER_DRAIN,      // with `why` as the reason
	TD_MEMBER_UNDRAIN,    // only while the reason is still ours
	TD_MEMBER_SET_DOWN,   // with `why`: its jobs are requeued
	// Slurm's record of a node without a slurmd. Slurm refuses while a job refers to it.
	TD_MEMBER_DELETE_RECORD,
	TD_MEMBER_POWER_DOWN, // takes no new jobs, and goes off when those that it has are over
	TD_MEMBER_RESUME,     // Slurm had given it up; it may be asked for again
};
const char *td_pool_member_do_name(enum td_pool_member_do d); // "delete-pod"

struct td_pool_member { // one node
	// in
	const char *name;
	bool exists, matched, ready; // the Kubernetes node; matched: the NodeSet selects it
	bool host;                   // its slurmd is a process of the machine: no pod, and perhaps no Kubernetes node
	const char *refuse;          // why it cannot be a Slurm node now; NULL: it can
	bool pod, pod_ready, pod_deleting, pod_ended;
	bool pod_current;                    // its slurmd pod is the wanted one
	int64_t pod_born_ms;                 // when its slurmd pod was created, real time
	int64_t pod_ready_ms;                // since when it is ready, real time; 0: it is not
	const char *pod_ip;                  // "" when it has none
	const struct td_pool_record *record; // NULL: none or unknown
	bool record_differs;                 // its size or features are not the wanted pod's
	bool missing;                        // slurmd runs, but Slurm has no record of it
	bool forgotten;                      // missing for too long (td_pool_absence_look)
	int64_t made_ms;                     // when the Kubernetes node was created, real time
	bool spare;                          // with others it is the first to go (td_pool_grow_set)
	// out
	bool keep;
	bool updated;   // its pod is the wanted one, and Slurm has taken over what that reports
	bool evictable; // no job is on it and none can start: evicting its pod ends nothing
	bool expected;  // a host: the configuration that names it is in force, so its slurmd may register
	enum td_pool_member_do act;
	const char *why; // static, or `refuse`: the reason to write, or what is waited for
};
struct td_pool_policy {
	long long replicas; // -1: all nodes that match
	bool on_demand;     // slurmds come when Slurm asks for them
	int64_t idle_s;     // and go after so long without a job
	bool rolling;       // false: OnDelete
	long long max_unavailable;
	int64_t update_force_s, scale_force_s; // jobs end when our drain is this old; -1: never
	bool view;                             // Slurm's answer is fresh; else take nothing away
	int64_t now_ms;                        // real time; Slurm's clock is assumed to agree
	int64_t config_ms;                     // when the configuration in force began; 0: none
};
struct td_pool_set_counts {
	long long desired, matched, assigned, ready, updated, running, idle, allocated, draining, drained, down, off;
};
// Decides about all nodes of a NodeSet. v: sorted by name; its out fields are filled, and *ret.
void td_pool_nodeset_decide(struct td_pool_member *v, size_t n, const struct td_pool_policy *p,
			    struct td_pool_set_counts *ret);
// What to do with the record of a machine that runs its own slurmd. Only the decision's own: no counts.
void td_pool_host_decide(struct td_pool_member *m, const struct td_pool_policy *p);
// True when the node takes part in the pool: its slurmd runs, and Slurm would give it work.
bool td_pool_member_available(const struct td_pool_member *m);
// True when its slurmd runs and Slurm has heard of it.
bool td_pool_member_registered(const struct td_pool_member *m);
// True when its update waits because as many nodes as allowed are out of service.
bool td_pool_member_waits_turn(const struct td_pool_member *m);

enum td_pool_write {
	TD_WRITE_NOTHING,
	TD_WRITE_DRAIN,
	TD_WRITE_UNDRAIN,
	TD_WRITE_DOWN,
	TD_WRITE_POWER_DOWN,
	TD_WRITE_RESUME
};
// Looks again at a decided write to the record, with the record as read right before the
// write (NULL: there is none any more), so that nobody's reason is overwritten and nobody's drain
// is lifted. *ret_reason: write the reason too.
enum td_pool_write td_pool_member_write(enum td_pool_member_do act, const struct td_pool_record *now, bool *ret_reason);
// What to do with a record that carries the mark of a NodeSet which is gone.
enum td_pool_member_do td_pool_ghost(const struct td_pool_record *r);
// When to look at a cluster's NodeSets again, in ms. quiet_ms: for how long Slurm's answer has been
// the same; cost_ms: how long one look takes.
int64_t td_pool_nodeset_again_ms(bool unsettled, bool fresh, int64_t quiet_ms, int64_t cost_ms);

// Do pods outside Slurm fit on a node beside what Slurm would give out? They were placed before the
// share was taken from the node.
struct td_pool_reserve {
	int64_t cpu_milli, memory;                        // the node's allocatable; memory in bytes
	int64_t share_cpus, share_memory_mb, share_gpus;  // what Slurm would give out
	int64_t others_milli, others_memory, others_gpus; // what those pods and slurmd request
};
enum td_pool_lack { TD_LACK_NOTHING, TD_LACK_CPU, TD_LACK_MEMORY, TD_LACK_DEVICES };
enum td_pool_lack td_pool_reserve_lacks(const struct td_pool_reserve *r);

// ---- nodes on demand ----
//
// Slurm shows every node of such a NodeSet from the beginning (powered down, idle~), and a job that fits on none
// of them is refused. When it gives one to a job, the record is `rising`: that is the wish, and the slurmd pod
// follows. After idle_s without a job the node is powered down by Slurm, and the pod goes. A slurmd that does not
// come within Slurm's ResumeTimeout costs the node its job, which is queued again; the node is offered again
// after a while.
//
// Decides for a member that stays, in a NodeSet on demand. False: what holds for any other node holds here.
bool td_pool_on_demand(struct td_pool_member *m, const struct td_pool_policy *p);
// True when Slurm has set it down because no slurmd came.
bool td_pool_record_gave_up(const struct td_pool_record *r);
// True when it is powered down, or not known to Slurm yet, so that no slurmd is wanted.
bool td_pool_member_off(const struct td_pool_member *m);

// ---- slurmds that Slurm has forgotten ----
//
// A dynamic node exists only in slurmctld's memory until the next save of its state (up to 5 s). A
// slurmctld that is killed before that save forgets the node, and the node's slurmd, which
// registered once, never does so again (24.11: slurmd.c, _registration_engine; slurmctld asks only
// nodes that it knows). Nothing in Slurm 24.11 makes it: `scontrol create nodename=` makes a CLOUD
// node that waits for power, a reconfigure goes to known nodes, and REST cannot create one. A new
// slurmd process registers within 0.1 s, so the pod is replaced.
//
// Nothing is lost by that. When slurmctld loads its state without the record, it fails or requeues
// every job that was on the node ("invalid nodes"), and it would have a re-registering slurmd abort
// what it still runs. So processes left in the old container belong to no job. Containers of pods
// run beside slurmd and are not touched.
enum td_pool_sight {
	TD_SIGHT_UNSEEN,  // unknown: no complete answer of Slurm, or no Ready slurmd pod there
	TD_SIGHT_PRESENT, // Slurm has a record of the node
	TD_SIGHT_ABSENT,  // a complete answer has no record, while the slurmd pod is Ready
};
enum td_pool_sight td_pool_sight_of(bool fresh, bool pod_ready, bool record);

struct td_pool_absence {       // all zero: never looked at
	int64_t since, looked; // ms
	int tries;             // restarts in vain
};
// Notes one look at a node that is or was absent. other_pod: its pod is not the one of the last
// look. Returns -1 when nothing is wrong (yet), 0 when the pod must be replaced, else the time in
// ms after which it must be if nothing changes.
int64_t td_pool_absence_look(struct td_pool_absence *a, enum td_pool_sight sight, bool other_pod, int64_t now_ms);
// Notes that its pod is being replaced.
void td_pool_absence_restarted(struct td_pool_absence *a);
// True when nobody has looked at it for so long that it can be dropped.
bool td_pool_absence_old(const struct td_pool_absence *a, int64_t now_ms);

// ---- conditions in the NodeSet's status ----

enum { TD_POOL_TEXT = 3072 };
struct td_pool_set_facts {
	const char *problem; // of the spec, in one line; NULL: none
	bool cluster, fresh; // its SlurmCluster exists; Slurm's answer is fresh
	const char *taken;   // the nodes that it selects and another NodeSet has, in words; NULL: none
	const char *other;   // what is wrong with the other cluster whose nodes they are; NULL: nothing
	const char *failed;  // services of the site that have failed, with their nodes; NULL: none
};
struct td_pool_set_conditions {
	struct td_pool_condition v[7]; // messages may point into what follows
	size_t n;
	char turn[TD_POOL_TEXT], text[TD_POOL_TEXT]; // turn: what a node waiting for its turn says
	char progress[80];                           // of an update
};
// Fills *ret, which must not be moved or copied afterwards. v, k: as td_pool_nodeset_decide left
// them; the caller may have put better words into v[].why.
void td_pool_nodeset_conditions(const struct td_pool_member *v, size_t n, const struct td_pool_set_counts *k,
				const struct td_pool_set_facts *f, struct td_pool_set_conditions *ret);
// Returns what the member's line in the status says; NULL: nothing. c->turn must be filled.
const char *td_pool_member_message(const struct td_pool_member *m, const struct td_pool_set_conditions *c);
