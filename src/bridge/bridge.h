// What the parts of the bridge share. One process, one SlurmCluster; everything here lives while we lead.
//
// Threads: one per informer; 8 scheduler workers and 2 syncer workers (a key is never in two of them); one that polls
// jobs, one that polls nodes, one for complete listings; one that connects; the knock thread; the why server's. No lock
// is held over I/O.
//
// Files
//   main.c settings.[ch] metrics.c why.c   the role; spec.scheduler; what it shows; why a pod or a job waits
//   link.c poll.c                 the connection to slurmrestd, and what is seen through it
//   scheduler/reconcile.c scheduler/run.h scheduler/facts.c scheduler/act.c   one ask: read what is, let room pool
//   decide, do it scheduler/ask.[ch] scheduler/adopt.c scheduler/job.c   the asks that are known, and what a listing of
//   Slurm's jobs says of them scheduler/want.[ch] scheduler/submit.c scheduler/room.c   from a pod to a job
//   scheduler/end.c scheduler/show.c   the Binding, and both ends; what a waiting pod says
//   scheduler/claims.[ch] scheduler/claims_write.c scheduler/counted.c   devices of real clusters: exact by claims, or
//   counted syncer/syncer.c               drain and cordon, node by node knocks/knock.c knocks/line.[ch]   the
//   connections of stand-ins
#pragma once

#include "base/names.h"
#include "bridge/settings.h"
#include "kube/controller.h"
#include "slurm/view.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_bridge_opts {
	const char *kubeconfig, *ns, *cluster, *knock, *why, *metrics;
	const char *knock_name; // a DNS name of all replicas; NULL: there are no others
	const char *empty_dirs; // slurm/where.h; NULL: not known
	const char *slurmrestd,
		*jwt_key;           // for tests: an address and a key file instead of what the cluster's objects say
	struct td_lease_opts lease; // as the command line says; what is not given is NULL or 0
};

struct td_asks;
struct td_knocks;
struct td_bridge {
	struct td_bridge_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_cancel *cancel;
	struct td_recorder *recorder;
	struct td_informer *clusters, *pods, *nodes, *slurmds, *restds;
	struct td_informer *claims, *slices, *classes; // NULL: spec.devices has no source DRA, or the API serves none
	struct td_queue *pod_queue, *node_queue;
	struct td_slurm_view *view;
	struct td_asks *asks;
	struct td_knocks *knocks;

	pthread_mutex_t lock;         // guards the next four
	struct td_settings *settings; // NULL: none yet
	struct td_link *link;         // NULL: no slurmrestd known
	char link_problem[256];
	int64_t nodes_changed_ms; // mono: when the set of Slurm's nodes changed last

	atomic_uint_fast64_t feas_gen; // grows when labels, taints or the set of nodes change: what pods may run where
				       // must be looked at again
	atomic_bool gate_alarm;        // said once: see syncer.c
	atomic_bool
		kubelets; // nodes with a kubelet of their own are there: it chooses the devices of a counted resource
	atomic_bool lost; // Slurm lost its state (mass-vanish): nobody is evicted
	atomic_int_fast64_t lost_since;   // mono
	atomic_bool listed;               // a complete listing was read since we lead: absence means something
	atomic_int_fast64_t prolog_us[2]; // how long a prolog takes, smoothed: on a quiet pool, in a burst
	atomic_uint_fast64_t n_allocated, n_submitted, n_refused_fast, n_bound, n_ended_pods, n_ended_jobs, n_lists;

	int poll_fd;               // eventfd: wakes the job poller
	pthread_mutex_t list_lock; // guards the next two
	int64_t list_at,
		list_last; // mono: when a complete listing is wanted, and the last moment one was wanted for; 0: not
	atomic_bool unauthenticated; // our tokens were refused: the key must be read again
	atomic_bool lost_over;       // the lost jobs stayed gone: their asks end now
};

// ---- the connection to slurmrestd (link.c) ----
struct td_link { // reference-counted, immutable
	int refs;
	struct td_slurm *slurm;
	char *url;
	char secret[65]; // derived from the jwt key: knock tokens
};
// A reference, or NULL with the reason in err (TD_TRANSIENT).
struct td_link *td_bridge_link(struct td_bridge *b, struct td_error *err);
struct td_link *td_link_unref(struct td_link *l);
TD_DEFINE_AUTO(struct td_link *, td_link_unref)
// Keeps the link and the settings up to date until cancel.
void *td_bridge_connect_thread(void *bridge);
int td_bridge_connect(struct td_bridge *b, struct td_error *err); // one round

struct td_settings *td_bridge_settings(struct td_bridge *b); // a reference, or NULL

// ---- polls (poll.c) ----
void *td_bridge_jobs_thread(void *bridge);
void *td_bridge_nodes_thread(void *bridge);
void *td_bridge_list_thread(void *bridge);
void td_bridge_poll_now(struct td_bridge *b);                 // wakes the job poller
void td_bridge_want_list(struct td_bridge *b, int64_t in_ms); // a complete listing, that much later

// ---- counted devices (scheduler/counted.c): a kubelet chooses them, Slurm only counts ----
bool td_bridge_kubelet(const struct td_object *node); // it has a kubelet of its own, not our agent
// How many of spec.devices[0].resource the node's kubelet offers; -1: not a question there (embedded, or source DRA).
int64_t td_counted_gres(const struct td_settings *s, const char *gres); // of those, in a node's GRES text
int64_t td_counted_offer(const struct td_settings *s, const struct td_object *node);

// ---- syncer ----
int td_syncer_reconcile(void *bridge, const char *node, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
void td_syncer_nodes_changed(struct td_bridge *b, const struct td_slurm_snapshot *old,
			     const struct td_slurm_snapshot *now);

// ---- metrics ----
void td_bridge_measure(struct td_bridge *b); // /metrics shows it from here on; NULL: no more
struct td_ask;
void td_bridge_measure_bound(struct td_bridge *b, const struct td_ask *a, const struct td_object *pod);

// ---- why ----
int td_why_run(struct td_bridge *b, struct td_cancel *c, struct td_error *err);

// ---- small helpers ----
static inline int64_t td_now(const struct td_bridge *b)
{
	return td_mono_ms(b->clock);
}
// The node as the scheduler sees it: our own taint is no input of feasibility. *ret_why as td_pod_fits_node.
bool td_bridge_pod_fits(const yyjson_val *pod_spec, const yyjson_val *node, const char **ret_why);
