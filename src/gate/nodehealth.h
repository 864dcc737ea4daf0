// What an agent does for its nodes' health: it runs the checks, says on the Node what they find, and
// carries out the operations that the operator writes there (docs/health.md). Both agents have it: the
// one beside a real kubelet for its node, the embedded kubelet for its virtual nodes.
//
// An operation is done at most once. Its id is on disk before it begins. An agent that finds an id
// without a result was stopped in the middle: a reboot was done if the boot is another one now; GPUs
// are cut again, because that begins with a look at what is there; of everything else it says
// "unknown".
#pragma once

#include "checkup/checkup.h"
#include "gate/preflight.h"
#include "kube/controller.h"
#include "kube/informer.h"

struct td_nodehealth_opts {
	struct td_kube *kube;
	struct td_informer *nodes;
	const struct td_clock *clock;
	const char *state;            // directory of the operations' records
	const char *checks, *actions; // directories of a site's programs; NULL: none
	const char *const *names;     // of the nodes; they and the rest outlive the td_nodehealth
	struct td_checkup_backend *backends;
	int n;
	int64_t interval_ms; // between two looks
	// For tests before jobs (preflight.h); gate NULL: there are none.
	struct td_gate *gate;
	const char *selftest;
	bool test_gpus; // real ones, by this program itself; gpus_each: node k's begin with the machine's k times that
	int gpus_each;
	const char *const *faults;
	// Reboots the node. 0: all its processes have ended and the boot is a new one. TD_UNCERTAIN: the
	// machine was told, and this process ends with it.
	int (*reboot)(void *ctx, int node, struct td_cancel *c, struct td_error *err);
	char *(*boot)(void *ctx, int node); // the id of its boot; the caller frees it
	// What its machine says of accelerators that NVML does not know, as td_accel_inventory(). NULL: there are none.
	char *(*inventory)(void *ctx, int node);
	// What was seen of its GPUs at every look; NULL: nobody wants to know.
	void (*seen)(void *ctx, int node, const struct td_checkup_facts *f);
	// What it has of GPUDirect Storage, for TD_ANN_GDS, or NULL. The callback NULL: the annotation is an administrator's.
	char *(*gds)(void *ctx, int node);
	// Its GPUs were cut anew: what was read of them when this program started is not true any more. NULL: nothing was.
	void (*recut)(void *ctx, int node);
	// The native jobs that have processes there, at most `most`, for words; returns how many. NULL: nobody knows.
	size_t (*jobs)(void *ctx, int node, int64_t *v, size_t most);
	void *ctx;
};
struct td_nodehealth;
struct td_nodehealth *td_nodehealth_new(const struct td_nodehealth_opts *o);
struct td_nodehealth *td_nodehealth_free(struct td_nodehealth *h);
// Handler for the informer of nodes.
void td_nodehealth_on_node(void *health, struct td_object *old, struct td_object *now);
int td_nodehealth_run(struct td_nodehealth *h, struct td_cancel *c, struct td_error *err);
// A job or a pod comes to the node: a test of the idle node ends at once. h NULL: nothing.
bool td_nodehealth_arrives(struct td_nodehealth *h, int node);
// The same for a pod that takes no device; waits for nothing.
void td_nodehealth_beside(struct td_nodehealth *h, int node);
// Tests a job's devices before it starts. When one failed, the node's findings say so, and it is waited for
// some seconds that the node is drained. q->know is filled in here. 0 and errors: as td_preflight_run.
int td_nodehealth_preflight(struct td_nodehealth *h, struct td_preflight_ask *q, long long *ret_tries,
			    struct td_cancel *c, struct td_error *err);
// The same for a request at the gate's socket.
int td_gate_preflight(struct td_nodehealth *h, int node, const struct td_gate_request *q, long long *ret_tries,
		      struct td_cancel *c, struct td_error *err);
// A request of the test of several nodes, or about jobs that hang, at the gate's socket. *ret: how it is done; NULL: there is no more to say.
int td_gate_several(struct td_nodehealth *h, int node, const struct td_gate_request *q, char **ret, struct td_cancel *c,
		    struct td_error *err);
// The names of the programs in that directory, "a,b", at most 64; NULL: none. The caller frees it.
char *td_nodehealth_programs(const char *dir);
// Appends what tests before jobs found.
void td_nodehealth_more(struct td_nodehealth *h, int node, struct td_checkup_findings *ret);
// A copy of the last facts of a node; false: there are none.
bool td_nodehealth_facts(struct td_nodehealth *h, int node, struct td_checkup_facts *ret);
