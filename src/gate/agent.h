// The role `agent`: the gate beside a real kubelet. One process a node. It starts and stops no pods: it knows who holds
// which device, and lets the next one in when the last process of the last one is gone
// (docs/design/0010-gate-on-kubelets.md).
#pragma once

#include "gate/busy.h"
#include "gate/gate.h"
#include "gate/held.h"
#include "http/client.h"
#include "kube/controller.h"

struct td_gate_agent_opts {
	const char *node, *kubeconfig, *state, *run, *cgroups, *url, *ca, *metrics;
	int devices;
};
#define TD_GONE 128
struct td_gone { // what was found out about pods that the API has no more; newest last, round
	struct {
		char uid[40];
		bool ended;                // its last object was Succeeded or Failed
		int64_t first_ms, read_ms; // absent in a list that was sent then, for the first time and the last
	} v[TD_GONE];
	size_t next;
};
struct td_gate_agent {
	struct td_gate_agent_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_informer *pods, *nodes; // of this node; the node alone
	struct td_gate *gate;
	struct td_held held;
	struct td_cancel *cancel;
	int lock;                // file descriptor of <state>/lock; -1: none
	struct td_queue *grants; // keys of pods: pods.c
	pthread_mutex_t mu;      // guards gone and since_ms
	struct td_gone gone;
	int64_t since_ms;    // mono: when a holder was last superseded; what is read must be newer
	pthread_mutex_t ask; // one question to the kubelet at a time; guards said
	struct {
		char uid[40];
		enum td_known known;
		int64_t at_ms;
		struct td_error err;
	} said; // its last answer
};

// pods.c
void td_gate_agent_on_pod(void *agent, struct td_object *old, struct td_object *now);
int td_gate_agent_grant_sync(void *agent, const char *key, int64_t *again_ms, struct td_cancel *c,
			     struct td_error *err);
void td_gate_agent_uid_index(const struct td_object *o, struct td_strv *ret);
void td_gate_agent_job_index(const struct td_object *o, struct td_strv *ret);
bool td_gate_agent_busy(void *agent, int node, const struct td_holder *h, char *why, size_t n); // the gate's callbacks
void td_gate_agent_superseded(void *agent, int node, uint64_t mask);
bool td_gate_agent_may_claim(void *agent, int node, const char *cgroups, char *why, size_t n);
// ask.c, each within some seconds: one question or one patch, to the API (url NULL) or to a kubelet. A client of its
// own: these are rare, and an idle connection with its TLS costs more memory than that is worth.
int td_gate_agent_call(struct td_gate_agent *a, const char *url, const char *path, const char *patch,
		       struct td_http_reply *ret, struct td_error *err);
int td_gate_agent_pods(struct td_gate_agent *a, const char *url, const char *path, struct td_json **ret,
		       struct td_error *err);                                // a PodList
yyjson_val *td_gate_agent_find(const struct td_json *list, const char *uid); // or NULL
// The pod as the API shows it now, among those of this node; *ret NULL: it is not there.
int td_gate_agent_read(struct td_gate_agent *a, const char *uid, struct td_object **ret, struct td_error *err);
// Does this node's kubelet know a pod? TD_KNOWN_UNANSWERED fills err.
enum td_known td_gate_agent_ask(struct td_gate_agent *a, const char *uid, struct td_error *err);

// fence.c: the pod that the comment of h's job names (h->ask, h->ask_pod). One that waits is fenced for that job. *ret:
// the pod, when it is here. TD_SEEN_UNREAD and TD_SEEN_WAITS fill err.
enum td_seen td_gate_agent_fence(struct td_gate_agent *a, const struct td_holder *h, struct td_object **ret,
				 struct td_error *err);
