// What the parts of the bridge share. One process serves one SlurmCluster. Everything in struct
// td_bridge lives while this process leads.
//
// Threads: one per informer; 8 scheduler workers, 2 syncer workers, 2 for jobs that were queued again and one for
// pods that wait at the gate of spec.shadows
// (no two workers process the same key at a time); one thread each for the poll of jobs, the poll of nodes, the complete
// listings, policies, how jobs ended, the connection to slurmrestd, the knock port and the why server. No lock is
// held during I/O.
//
// Files
//   main.c settings.[ch] metrics.c why.c   the role; spec.scheduler; /metrics; why a pod waits
//   ready.[ch]   how long pods take until they serve
//   again.[ch]   native jobs that were queued again begin soon
//   ends.c       how runs of jobs went, for /metrics
//   fragments.c  free devices on nodes that are too cut up, for /metrics
//   cuts.[ch] grow.[ch]  for who waits GPUs are cut; a cluster autoscaler makes machines
//   allowed.[ch]   on which nodes a job that waits may run
//   granted.c    resource groups, and whose they are
//   quota.[ch]   why a pod waits for its tenant's quota
//   rollout.[ch]   why the next revision of a service waits
//   link.c poll.c away.c   the connection to slurmrestd; polls of jobs and nodes; slurmctld away
//   scheduler/reconcile.c scheduler/run.h scheduler/facts.c scheduler/act.c
//     one ask: read what is, let the room pool decide, act
//   scheduler/ask.[ch] scheduler/adopt.c scheduler/job.c
//     the table of asks, and what job records and listings say about them
//   scheduler/orphans.[ch]   whether the pod of a job is gone
//   scheduler/want.[ch] scheduler/submit.c scheduler/owner.c scheduler/room.c scheduler/waits.[ch]
//     from a pod to a job, and whether at once
//   scheduler/feasible.[ch] on which nodes pods of one kind may run, remembered
//   scheduler/blocks.[ch]   the blocks of the network, as labels of nodes tell of them
//   scheduler/turns.[ch]    time limits that count over all pods of one owner, and all runs of a gang
//   scheduler/ran.[ch]     what ran before of them, from slurmdbd
//   scheduler/preempt.[ch]  a pod takes room from those whom it may preempt
//   scheduler/passes.[ch]   past those who wait for what a pod does not need
//   scheduler/gang.[ch] scheduler/gang_owners.c scheduler/gang_run.c scheduler/gang_facts.c
//   scheduler/gang_act.c
//     gangs: several pods that are one ask
//   scheduler/gang_want.c scheduler/gang_seats.c scheduler/gang_later.c
//     what its members, and their roles, ask for together; where each sits in the grant
//   scheduler/gang_elastic.c scheduler/gang_find.c scheduler/gang_again.c scheduler/gang_spark.c
//     pods beyond the minimum of a gang; whose pods an ask was made from
//   scheduler/gang_group.c   groups of Kubernetes itself
//   scheduler/hang.c   pods that make no progress
//   scheduler/victim.[ch]   pods that make room for one that starves
//   scheduler/private.[ch]   networks of their own for gangs and sessions
//   scheduler/straggle.c  pods of a gang that compute less than the others
//   scheduler/notes.c  what the admin comment of a job says of its pods
//   scheduler/end.c scheduler/show.c   Binding and ends; the condition of a waiting pod
//   scheduler/placeholder.[ch]   what native jobs hold, as kube-scheduler and kubelets count it
//   scheduler/claims.[ch] scheduler/claims_write.c scheduler/claims_held.c
//   scheduler/counted.c scheduler/types.c scheduler/shares.c
//     real kubelets: devices exact by ResourceClaims, or counted; room for a pod
//   policy/policies.h policy/settings.c policy/facts.c policy/pass.c
//   policy/plugin.c policy/host.c policy/tandem/policy.h policy/show.c policy/slices.c
//   policy/look.h policy/defrag.c policy/starve.c
//     policies: the order of the jobs that wait; one of the site's own, in a process of its own; time
//     limits that count over all runs; jobs that move so that another one has room
//   syncer/aside.[ch] syncer/aside_priv.h syncer/aside_act.c   devices that are held one by one
//   syncer/aside_end.c          ends the jobs that hold them, when they had long enough
//   syncer/hold.[ch]            root's jobs that hold something of a node for nobody's use
//   syncer/lend.[ch]            devices that pods of other schedulers have
//   syncer/shadow.[ch] syncer/shadow_priv.h syncer/shadow_act.c   what pods of other schedulers hold, as Slurm counts it
//   syncer/entrance.[ch]        pods of other schedulers that wait at a gate until their shadow runs
//   syncer/near.[ch]            where these may be by what is there: affinity to pods, spread, volumes
//   syncer/count.[ch]           how many native jobs each node has
//   syncer/syncer.c syncer/leave.c syncer/use.c syncer/signal.c
//     drain and cordon of a node, on both sides; services go from one that is to be free of jobs;
//     what native jobs hold
//   knocks/knock.c knocks/line.[ch]   the connections of stand-ins
#pragma once

#include "base/names.h"
#include "bridge/settings.h"
#include "kube/controller.h"
#include "slurm/view.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_bridge_opts {
	const char *kubeconfig, *ns, *cluster, *knock, *why, *metrics;
	const char *knock_name; // a DNS name of all replicas; NULL: there is only this one
	const char *empty_dirs; // as in struct td_slurm_where; NULL: not known
	const char *policies;   // the directory of the site's own policies
	bool own_kubelet;       // tandem kubelet acquires a pod's devices: allocations have no prolog
	// For tests: the URL of slurmrestd and a file with the jwt key, instead of the cluster's
	// objects.
	const char *slurmrestd, *jwt_key;
	struct td_lease_opts lease; // as the command line says; what is not given is NULL or 0
};

struct td_asks;
struct td_knocks;
struct td_ask_foreign;
struct td_others;
struct td_preempts;
struct td_readies;
struct td_places;
struct td_asides;
struct td_shadows;
struct td_entrance;
struct td_counts;
struct td_orphans;
struct td_policies;
struct td_agains;
struct td_cuts;
struct td_ran;
struct td_bridge {
	struct td_bridge_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_cancel *cancel;
	struct td_recorder *recorder;
	struct td_informer *tenants; // of every SlurmCluster
	struct td_informer *clusters, *pods, *nodes, *slurmds, *restds, *ctlds;
	struct td_informer *unplaced;                  // waiting pods of other schedulers
	struct td_informer *claims, *slices, *classes; // NULL: not by DRA, or not served
	struct td_informer *placeholders;              // scheduler/placeholder.h
	struct td_informer *others;                    // bound pods of other schedulers
	struct td_queue *pod_queue, *node_queue, *again_queue;
	struct td_slurm_view *view;
	struct td_asks *asks;
	struct td_knocks *knocks;

	pthread_mutex_t lock;         // guards the next five
	struct td_strv known_users;   // scheduler/owner.c: as whom Slurm has given an allocation, with these settings
	struct td_settings *settings; // NULL: not read yet
	struct td_link *link;         // NULL: slurmrestd is not known yet
	char link_problem[256];
	int64_t nodes_changed_ms; // mono: when the set of Slurm's nodes changed last

	// Grows when labels, taints or the set of nodes change. Where a pod may run must then be
	// computed again.
	atomic_uint_fast64_t feas_gen;
	atomic_bool gate_alarm; // the alarm about many held gates stands and was logged (syncer.c)
	// A node with a kubelet of its own was seen. Such a kubelet chooses the devices of a
	// counted resource.
	atomic_bool kubelets;
	atomic_bool lost;               // Slurm lost its state (docs/protocols.md 1.9)
	atomic_int_fast64_t lost_since; // mono, ms
	atomic_bool listed;             // a complete listing was read: now absence means something
	struct td_ask_foreign *foreign; // of the listing thread (scheduler/adopt.c)
	atomic_bool foreign_old;        // Slurm was away: `foreign` may be wrong
	// How long a prolog takes, smoothed: [0] on a quiet pool, [1] in a burst.
	atomic_int_fast64_t prolog_us[2];
	atomic_uint_fast64_t n_allocated, n_submitted, n_refused_fast, n_bound, n_ended_pods, n_ended_jobs, n_lists;

	int poll_fd;               // eventfd that wakes the job poller
	pthread_mutex_t list_lock; // guards the next two
	// Mono, ms: the earliest and the latest time for which a complete listing is wanted. 0:
	// none is wanted.
	int64_t list_at, list_last;
	atomic_bool unauthenticated; // Slurm refused the tokens: the key must be read again
	// away: Slurm does not answer, or its slurmctld is gone. relink: there is another slurmctld:
	// the calls to Slurm that are under way end, and a new link is made (away.c).
	atomic_bool away, relink;
	atomic_int passes;                // what is known of slurmctld's plug-in (scheduler/passes.h)
	struct td_preempts *preempts;     // scheduler/preempt.h
	struct td_readies *readies;       // ready.h
	struct td_places *places;         // scheduler/placeholder.h
	atomic_bool hold_qos;             // the QOS of jobs that hold something for nobody is there (syncer/hold.h)
	struct td_asides *asides;         // syncer/aside.h
	struct td_shadows *shadows;       // syncer/shadow.h
	struct td_entrance *entrance;     // syncer/entrance.h
	struct td_counts *counts;         // syncer/count.h
	struct td_orphans *orphans;       // scheduler/orphans.h
	struct td_policies *policies;     // policy/policies.h
	struct td_agains *agains;         // again.h
	struct td_cuts *cuts;             // cuts.h
	struct td_ran *ran;               // scheduler/ran.h
	struct td_others *waiting_others; // who waits in Slurm besides our asks
	struct td_feasibles *feasibles;   // scheduler/feasible.h
	struct td_groups *groups;         // scheduler/gang.h
	atomic_bool lost_over;            // the lost jobs stayed gone: their asks end now
};

// ---- the connection to slurmrestd (link.c) ----
struct td_link { // reference-counted, immutable
	int refs;
	struct td_slurm *slurm;
	char *url;
	char secret[65]; // derived from the jwt key; signs knock tokens
	// The same that slurmctld.sh derives from it (scheduler/passes.h).
	char word[65], pods_word[65];
};
// Returns a reference, or NULL with the reason in err (TD_TRANSIENT).
struct td_link *td_bridge_link(struct td_bridge *b, struct td_error *err);
struct td_link *td_link_unref(struct td_link *l);
TD_DEFINE_AUTO(struct td_link *, td_link_unref)
// Keeps the link and the settings up to date until cancel.
void *td_bridge_connect_thread(void *bridge);
// Makes one round of that thread.
int td_bridge_connect(struct td_bridge *b, struct td_error *err);

// Returns a reference; NULL before the SlurmCluster was read.
struct td_settings *td_bridge_settings(struct td_bridge *b);

// Where pods may run, or what they may ask for, has changed: every waiting pod is decided anew.
void td_bridge_look_again(struct td_bridge *b);
void td_owner_forget(struct td_bridge *b); // scheduler/owner.c: the settings have changed
// Every node of Slurm's is reconciled.
void td_bridge_nodes_again(struct td_bridge *b);

// ---- polls (poll.c) ----
void *td_bridge_jobs_thread(void *bridge);
void *td_bridge_nodes_thread(void *bridge);
void *td_bridge_list_thread(void *bridge);
// Wakes the job poller.
void td_bridge_poll_now(struct td_bridge *b);
// Asks for a complete listing of Slurm's jobs, in_ms from now.
void td_bridge_want_list(struct td_bridge *b, int64_t in_ms);

// ---- away.c ----
// Sets whether slurmctld is away. True: it was otherwise before.
bool td_bridge_away(struct td_bridge *b, bool away);
// Is this how Slurm's nodes are, as far as its pace allows? NULL: no. Of many nodes it may be old, and Slurm away.
bool td_bridge_sees(struct td_bridge *b, const struct td_slurm_snapshot *s);
// The handler of slurmctld's pods.
void td_bridge_on_ctld(void *bridge, struct td_object *old, struct td_object *now);

// ---- counted devices (scheduler/counted.c): a kubelet chooses them, Slurm only counts ----
// The node has a kubelet of its own instead of Tandem's embedded agent.
bool td_bridge_kubelet(const struct td_object *node);
// How many devices of spec.devices[0].resource a node's GRES text has.
int64_t td_counted_gres(const struct td_settings *s, const char *gres);
// How many of them the node's kubelet offers. -1: nothing to compare there, because the node has
// the embedded agent or the source is DRA.
int64_t td_counted_offer(const struct td_settings *s, const struct td_object *node);

// ---- who holds devices by claims (scheduler/claims_held.c) ----
// A pod on the node that holds a device of the pool and that Slurm did not place, in words. *ret NULL:
// none, or the node's devices are not known. An error: whether a holder still is there could not be
// asked. Caller frees.
int td_claims_intruder(struct td_bridge *b, const struct td_settings *s, const char *node, struct td_cancel *c,
		       char **ret, struct td_error *err);

// The devices of the node, by Slurm's indexes, that such pods hold in namespaces to which spec.shadows lends some.
int td_claims_lent(struct td_bridge *b, const struct td_settings *s, const char *node, uint64_t *ret,
		   struct td_cancel *c, struct td_error *err);

// ---- syncer ----
// Reconciles one node by its name. Called by the workers of node_queue.
int td_syncer_reconcile(void *bridge, const char *node, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// Evicts the pods of services from a node that the operator has drained, as their budgets allow.
int td_syncer_leave(struct td_bridge *b, const char *name, const struct td_slurm_node *n, int64_t *again_ms,
		    struct td_cancel *c, struct td_error *err);
// Sends the signal that the operator asks for to the native jobs of a node that is drained, and says so on the Node.
// After a crash in between it is sent again.
int td_syncer_signal(struct td_bridge *b, const struct td_object *node, bool drained, struct td_cancel *c,
		     struct td_error *err);
// Queues the nodes that differ between two snapshots. old may be NULL.
void td_syncer_nodes_changed(struct td_bridge *b, const struct td_slurm_snapshot *old,
			     const struct td_slurm_snapshot *now);

// ---- use.c ----
// What native jobs hold on a node, as the annotation tandem.dev/slurm-use: {"cpu":8,"nvidia.com/gpu":6}.
// NULL: nothing. Caller frees.
char *td_syncer_use(struct td_bridge *b, const struct td_slurm_node *n);
// The same as numbers of CPUs and MiB. td_asks.lock is held.
void td_syncer_native(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_node *n,
		      int64_t *ret_cpus, int64_t *ret_memory_mb);
// Handler of the informer of waiting pods of other schedulers: tells one of the default scheduler that asks for the
// pool's devices which scheduler gives them out.
void td_syncer_unplaced(void *bridge, struct td_object *old, struct td_object *now);

// ---- metrics ----
// /metrics shows this bridge from now on; NULL: none.
void td_bridge_measure(struct td_bridge *b);
// ends.c. The thread that counts how runs of jobs went, until cancel.
void *td_bridge_ends_thread(void *bridge);
struct td_metric;
// Sets the gauge of free devices on nodes that are too cut up (fragments.c).
void td_bridge_measure_fragments(struct td_bridge *b, struct td_metric *m, const struct td_slurm_snapshot *snap);
struct td_ask;
// Observes the time from the pod's creation to its Binding.
void td_bridge_measure_bound(struct td_bridge *b, const struct td_ask *a, const struct td_object *pod);
// The handler of pods: observes the time from a pod's creation until it is ready for the first time.
void td_bridge_measure_ready(void *bridge, struct td_object *old, struct td_object *now);

// ---- why ----
// Serves GET /why until cancel.
int td_why_run(struct td_bridge *b, struct td_cancel *c, struct td_error *err);

// ---- small helpers ----
static inline int64_t td_now(const struct td_bridge *b)
{
	return td_mono_ms(b->clock);
}
// May the pod run on the node? The bridge's own taints do not count. *ret_why as
// td_api_pod_fits_node.
bool td_bridge_pod_fits(const yyjson_val *pod, const yyjson_val *node, const char **ret_why);
