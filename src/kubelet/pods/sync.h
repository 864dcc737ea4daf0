// The parts of a pod's worker. Everything here runs in the worker that holds the pod's key, unless it says otherwise.
#pragma once

#include "kubelet/pods/env.h"
#include "kubelet/pods/pod.h"

#include <stdint.h>

// The reconcile function of the pods' work queue; key: uid.
int td_pod_sync(void *ctx, const char *uid, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// From an informer's thread: takes the pod into the table when it is new and ours; marks its key.
void td_pods_on_change(void *agent, struct td_object *old, struct td_object *now);
void td_pods_on_config(void *agent, struct td_object *old, struct td_object *now); // a ConfigMap or Secret
// The pod's object, a reference; NULL: gone, or another pod has the name now.
struct td_object *td_pod_object(const struct td_kubelet *a, const struct td_pod *p);
void td_pod_event(const struct td_kubelet *a, const struct td_object *o, const char *type, const char *reason,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static inline void td_sooner(int64_t *again_ms, int64_t ms)
{
	if (ms < 1)
		ms = 1;
	if (!*again_ms || ms < *again_ms)
		*again_ms = ms;
}
void td_ctr_wait(struct td_ctr *c, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4))); // reason NULL: waits for nothing

// ---- sources.c: what volumes and environments read ----
struct td_sources; // volumes.h
// ret points into itself and into pod: it stays where it is. Free ret->dir.
void td_pod_sources(struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, struct td_sources *ret);

// ---- resolv.c ----
// The file that the pod sees as /etc/resolv.conf (caller frees the path); dir: the pod's own, where one is made when it
// is the pod's alone.
int td_resolv_conf(const struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, const char *dir,
		   char **ret, struct td_error *err);

// ---- start.c ----
// Starts the next attempt of the container. Failures become its waiting reason or a StartError end, never an error.
// Sets again_ms when it has to be tried again.
void td_ctr_start(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		  int64_t *again_ms, struct td_cancel *cancel);
const yyjson_val *td_ctr_spec(const yyjson_val *pod, const char *name);
struct td_holder;
void td_pod_holder(const struct td_pod *p, struct td_holder *ret);

// ---- reap.c ----
// Takes note of containers that ended; after a restart of the agent: finds those that still run.
void td_pod_reap(struct td_kubelet *a, struct td_pod *p, const struct td_object *o);

// ---- usage.c ----
// Why the pod is to be evicted for the disk it uses, in words; NULL: it is not. Caller frees.
char *td_pod_over_disk(const struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, int64_t *again_ms);

// ---- stop.c ----
// Brings every container to its end (preStop, TERM, KILL at p->kill_at). True: nothing is left.
bool td_pod_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms);
// The same for one container that is to be restarted. True: it is over.
bool td_ctr_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c, int64_t kill_at,
		 int64_t *again_ms);
int td_pod_clean(struct td_kubelet *a, struct td_pod *p,
		 struct td_error *err); // containers, network, volumes; not logs

// ---- probe.c ----
enum td_probe { TD_PROBE_STARTUP, TD_PROBE_LIVENESS, TD_PROBE_READINESS };
void td_probes_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o,
		     struct td_ctr *c); // of a container that just began to run
int td_probe_sync(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c,
		  struct td_error *err); // reconcile of a->probes
// One action of a probe or hook (exec, httpGet, tcpSocket, sleep). 0: success; else err says why. Any thread.
int td_probe_do(struct td_kubelet *a, const char *id, const char *ip, const yyjson_val *container,
		const yyjson_val *action, int64_t timeout_ms, struct td_cancel *c, struct td_error *err);
// Runs a lifecycle hook ("postStart", "preStop") in a thread of its own and puts the result into
// c->post_start or c->pre_stop under p->mu, then marks the pod. timeout_ms 0: the default.
void td_hook_begin(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		   const char *which, int64_t timeout_ms);
