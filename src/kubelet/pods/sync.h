// The parts of a pod's worker. Every function here runs in the worker that holds the pod's key,
// unless its comment says otherwise.
#pragma once

#include "kubelet/pods/env.h"
#include "kubelet/pods/pod.h"

#include <stdint.h>

// The reconcile function of the pods' work queue. The key is the pod's UID.
int td_pod_sync(void *ctx, const char *uid, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// Called in an informer's thread. Takes the pod into the table if it is new and on one of our
// nodes, and enqueues its key.
void td_pods_on_change(void *agent, struct td_object *old, struct td_object *now);
// Called in an informer's thread for a ConfigMap or Secret: enqueues the pods of its namespace.
void td_pods_on_config(void *agent, struct td_object *old, struct td_object *now);
// A Node has changed: pods that wait for its shadow are looked at again.
void td_pods_on_node(struct td_kubelet *a, const struct td_object *old, const struct td_object *now);
// Returns the pod's object as a reference. NULL: it is gone, or another pod has the name now.
struct td_object *td_pod_object(const struct td_kubelet *a, const struct td_pod *p);
// Records an event on the pod.
void td_pod_event(const struct td_kubelet *a, const struct td_object *o, const char *type, const char *reason,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
// Lowers *again_ms to `ms`, at least 1; 0 counts as not set.
static inline void td_sooner(int64_t *again_ms, int64_t ms)
{
	if (ms < 1)
		ms = 1;
	if (!*again_ms || ms < *again_ms)
		*again_ms = ms;
}
// Sets why the container waits; reason NULL: it waits for nothing.
void td_ctr_wait(struct td_ctr *c, const char *reason, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// ---- sources.c: what volumes and environments read ----
struct td_sources; // volumes.h
// ret points into itself and into pod: it stays where it is. Free ret->dir.
void td_pod_sources(struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, struct td_sources *ret);

// ---- resolv.c ----
// Returns the path of the file that the pod sees as /etc/resolv.conf (caller frees). If the file is
// the pod's alone, it is made in `dir`, the pod's own directory.
int td_resolv_conf(const struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, const char *dir,
		   char **ret, struct td_error *err);

// ---- start.c ----
// Starts the next attempt of the container. A failure becomes its waiting reason (one that may pass:
// the same attempt is made again, later and later) or a StartError end, never an error. Sets *again_ms when the start has to be tried again.
void td_ctr_start(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		  int64_t *again_ms, struct td_cancel *cancel);
// The container's spec, from spec.containers or spec.initContainers; NULL: none.
const yyjson_val *td_ctr_spec(const yyjson_val *pod, const char *name);
struct td_holder;
// Fills in the pod as a holder of devices for the gate.
void td_pod_holder(const struct td_pod *p, struct td_holder *ret);

// ---- reap.c ----
// Takes note of containers that ended. After a restart of this process it finds those that still
// run.
void td_pod_reap(struct td_kubelet *a, struct td_pod *p, const struct td_object *o);
// Its current attempt never ran its program, and nothing is left of it: the next start is the same attempt.
void td_ctr_unbegin(struct td_pod *p, struct td_ctr *c);

// ---- usage.c ----
// Says in words why the pod is to be evicted for the disk that it uses. NULL: it is not. Caller
// frees.
char *td_pod_over_disk(const struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, int64_t *again_ms);

// ---- stop.c ----
// Brings every container to its end (preStop, TERM, KILL at p->kill_at). True: nothing is left.
bool td_pod_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms);
// Does the same for one container that is to be restarted. True: it is over.
bool td_ctr_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c, int64_t kill_at,
		 int64_t *again_ms);
// Removes containers, network and volumes, but not the logs.
int td_pod_clean(struct td_kubelet *a, struct td_pod *p, struct td_error *err);

// ---- probe.c ----
enum td_probe { TD_PROBE_STARTUP, TD_PROBE_LIVENESS, TD_PROBE_READINESS };
// Begins the probes of a container that has just begun to run.
void td_probes_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c);
// The reconcile function of a->probes.
int td_probe_sync(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// Does one action of a probe or hook (exec, httpGet, tcpSocket, sleep). 0: success; otherwise err
// says why. Any thread may call it.
int td_probe_do(struct td_kubelet *a, const char *id, const char *ip, const yyjson_val *container,
		const yyjson_val *action, int64_t timeout_ms, struct td_cancel *c, struct td_error *err);
// Runs a lifecycle hook in a thread of its own. Puts the result into *state under p->mu, then
// enqueues the pod.
void td_hook_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		   const char *which, int64_t timeout_ms);
