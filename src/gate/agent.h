// The role `agent`: the gate beside a real kubelet, one process per node. It starts and stops no
// pods. It knows who holds which device, and lets the next holder in when the last process of the
// last one is gone (docs/design/0010-gate-on-kubelets.md).
#pragma once

#include "accel/accel.h"
#include "gate/busy.h"
#include "gate/gate.h"
#include "gate/held.h"
#include "gate/nicplug.h"
#include "gate/nodehealth.h"
#include "http/client.h"
#include "kube/controller.h"

struct td_gate_agent_opts {
	const char *node, *kubeconfig, *state, *run, *cgroups, *pod_logs, *url, *ca, *metrics;
	const char *checks, *actions, *accelerators, *reboot, *reset_program; // agenthealth.c
	const char *profiles, *profiles_to;                                   // NULL: none are brought
	const char *hardware;                                                 // NULL: the machine's
	const char *kubelet_dir, *cdi; // NULL: the kubelet's sockets are not used; pods get no adapters
	int devices;
};
#define TD_GONE 128
// What was found out about pods that the API does not show any more: a ring, the newest last.
struct td_gone {
	struct {
		char uid[40];
		bool ended;                // its last object was Succeeded or Failed
		int64_t first_ms, read_ms; // when the first and last list without it was sent

	} v[TD_GONE];
	size_t next;
};
struct td_gate_agent {
	struct td_gate_agent_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_informer *pods, *nodes; // pods of this node; this node alone
	struct td_gate *gate;
	struct td_held held;
	struct td_nicplug nics; // with o.cdi
	struct td_nodehealth *health;
	struct td_checkup_backend backend;
	struct td_accels *accels;
	struct td_accel_found found; // accelerators that NVML does not know
	char *parts;                 // what tells jobs the parts of GPUs (MIG), as last written; NULL: none is cut
	struct td_cancel *cancel;
	int lock;                // file descriptor of <state>/lock; -1: none
	struct td_queue *grants; // keys of pods; pods.c
	pthread_mutex_t mu;      // guards gone and since_ms
	struct td_gone gone;
	int64_t since_ms;    // monotonic: when a holder was last superseded; reads must be newer
	pthread_mutex_t ask; // one question to the kubelet at a time; guards said
	struct {
		char uid[40];
		enum td_known known;
		int64_t at_ms;
		struct td_error err;
	} said; // the kubelet's last answer
};

// ---- pods.c ----

// Is it somebody's pod that comes to this node now? Not one of a DaemonSet, nor one that the kubelet has by itself.
bool td_gate_agent_comes(const struct td_object *old, const struct td_object *now);
// Handler for the informer of pods.
void td_gate_agent_on_pod(void *agent, struct td_object *old, struct td_object *now);
// The reconciler of grants: tells the gate of a pod with a grant. key: of the pod.
int td_gate_agent_grant_sync(void *agent, const char *key, int64_t *again_ms, struct td_cancel *c,
			     struct td_error *err);
void td_gate_agent_uid_index(const struct td_object *o, struct td_strv *ret);
void td_gate_agent_job_index(const struct td_object *o, struct td_strv *ret);
// Callbacks of the gate (gate.h).
bool td_gate_agent_busy(void *agent, int node, const struct td_holder *h, char *why, size_t n);
void td_gate_agent_superseded(void *agent, int node, uint64_t mask);
bool td_gate_agent_may_claim(void *agent, int node, const char *cgroups, char *why, size_t n);

// ---- agenthealth.c ----

// Finds the accelerators that NVML does not know, and makes a->health, when kube and the informer of nodes are there.
int td_gate_agent_health_open(struct td_gate_agent *a, struct td_error *err);
void td_gate_agent_health_close(struct td_gate_agent *a);

// ---- ask.c: each call takes some seconds at most ----

// One request: to the API (url NULL) or to a kubelet; a patch, or a GET (patch NULL). Every call
// has a client of its own: calls are rare, and an idle connection with its TLS costs more memory
// than that.
int td_gate_agent_call(struct td_gate_agent *a, const char *url, const char *path, const char *patch,
		       struct td_http_reply *ret, struct td_error *err);
// Gets a PodList.
int td_gate_agent_pods(struct td_gate_agent *a, const char *url, const char *path, struct td_json **ret,
		       struct td_error *err);
// Returns the pod with that uid in a PodList, or NULL.
yyjson_val *td_gate_agent_find(const struct td_json *list, const char *uid);
// Reads the pod as the API shows it now, among those of this node. *ret NULL: it is not there.
int td_gate_agent_read(struct td_gate_agent *a, const char *uid, struct td_object **ret, struct td_error *err);
// Asks this node's kubelet whether it knows a pod. TD_KNOWN_UNANSWERED fills err.
enum td_known td_gate_agent_ask(struct td_gate_agent *a, const char *uid, struct td_error *err);

// ---- fence.c ----

// Looks at the pod that the comment of h's job names (h->ask, h->ask_pod), and fences it for that
// job if it waits. *ret: the pod, when it is here. TD_SEEN_UNREAD and TD_SEEN_WAITS fill err.
enum td_seen td_gate_agent_fence(struct td_gate_agent *a, const struct td_holder *h, struct td_object **ret,
				 struct td_error *err);
