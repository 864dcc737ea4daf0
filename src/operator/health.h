// Nodes' health: what is done about faults, and NodeActions (docs/health.md). A controller of its own
// beside that of the SlurmClusters, with a queue of nodes' names.
//
// One reconcile of a node: an annotation that asks for an act becomes a NodeAction; the oldest
// NodeAction that is not over goes on by one step; when none is left, pool/ decides what the node's
// faults call for. What is known of the past is in the NodeActions, what shall be on the Node's
// annotations. An act is reserved before it is done: its operation's id, the NodeAction's uid, is in
// its status first, and names what is done: the operation on the Node, which its agent does at most
// once, and the test's pod.
//
// Its files:
//   health.c          the controller: facts, the decision of pool/health.h, what follows from it
//   nodeaction.c      one NodeAction, carried on
//   nodedevice.c      one device of a node: it leaves service, is mended and returns while the others work
//   nodecut.c         GPUs that are cut in parts (MIG)
//   cutting.c         the same because somebody waits for a part
//   nodeslurmd.c      a slurmd that gets another image
//   slow.c            a node on which a rank of a job is slow leaves service for a test
//   nodetest.c        the pod that tests a node
//   probe.c           tests of idle nodes, which their agents do
//   upgrade.c         NodeUpgrade: an act on each of many nodes, paced (upgrade.h)
//   upgrade_slurm.c   NodeUpgrade of Slurm: the daemons before the nodes, and what of the SlurmCluster stays
//   record.c          NodeActions that ended long ago become lines of a NodeHistory
//   healthpolicy.c    HealthPolicy, and the one that comes with Tandem
#pragma once

#include "operator/operator.h"
#include "pool/figures.h"
#include "pool/health.h"

// ---- healthpolicy.c ----

struct td_op_policy {
	struct td_object *object; // NULL: the one that comes with Tandem
	struct td_json *json;
	struct td_pool_rule *rules;
	size_t n_rules;
	bool dry_run, test_return, test_new;
	size_t attempts, percent, least;
	int64_t window_ms, keep_ms, compact_ms;
	long long test_ms, jobs_end_s;    // jobs_end_s: -1: jobs are waited for
	int64_t idle_ms;                  // 0: idle nodes are not tested
	bool figures;                     // those of tests are compared
	int figures_percent[TD_FIGURES];  // of the group's median, which a node must reach; 0: it is not compared with
	double figures_floor[TD_FIGURES]; // which it must reach in any case; 0: there is none
	size_t figures_nodes;             // so many others must have been measured
	int64_t idle_budget_ms;           // of their tests, all nodes together, in an hour
	const yyjson_val *together;       // NULL: idle nodes are not tested with others
	const yyjson_val *preflight;      // NULL: no tests before jobs
	const yyjson_val *hang;           // NULL: nobody looks for jobs that hang
	const yyjson_val *straggler;      // NULL: nor for ranks that are slow
};
void td_op_policy_load(struct td_op *op, struct td_op_policy *ret);
void td_op_policy_done(struct td_op_policy *p);
// What the agents shall know of the tests before jobs (TD_ANN_PREFLIGHT); NULL: there are none. say: a test that
// fails is only said. The caller frees it.
char *td_op_policy_preflight(const struct td_op_policy *p, bool say);
// The annotation about jobs that hang; in a dry run it only tells. p->hang is there.
char *td_op_policy_hang(const struct td_op_policy *p);
// The same about stragglers. tell: nothing else is done, as in a dry run. p->straggler is there.
char *td_op_policy_straggler(const struct td_op_policy *p, bool tell);
#define td_auto_policy __attribute__((cleanup(td_op_policy_done)))
#define TD_OP_POLICY "default" // the name of the one that counts

// A node's faults, as the agent and others say, each with its remedy by the policy. Texts point
// into the node.
struct td_op_faults {
	struct td_pool_fault *v;
	const char **said; // of each, in words
	size_t n;
	struct td_json *json;
	enum td_remedy worst; // of those for which the whole node leaves service
};
void td_op_faults_read(struct td_op *op, const struct td_object *node, const struct td_op_policy *p,
		       struct td_op_faults *ret);
void td_op_faults_done(struct td_op_faults *f);
#define td_auto_faults __attribute__((cleanup(td_op_faults_done)))
// "GpuUnhealthy: gpu3: XID 79 …", of those that call for something. The caller frees it.
char *td_op_faults_text(const struct td_op_faults *f);

// ---- health.c ----

// One reconcile of one node, as its steps share it.
struct td_op_node {
	struct td_op *op;
	const char *name;
	struct td_object *node; // NULL: it is gone
	struct td_objects acts; // NodeActions of it, the oldest first
	struct td_op_policy policy;
	struct td_op_faults faults;
	struct td_cancel *c;
	struct td_object *working; // the act of a single device that is beyond its drain
};
// Handlers of the informers.
void td_op_health_on_node(struct td_op *op, struct td_object *old, struct td_object *now);
void td_op_health_on_pod(struct td_op *op, struct td_object *old, struct td_object *now);
void td_op_health_on_action(void *op, struct td_object *old, struct td_object *now);
void td_op_health_on_policy(void *op, struct td_object *old, struct td_object *now);
void td_op_health_index(const struct td_object *action, struct td_strv *ret);
// The controller's thread: until cancel.
int td_op_health_run(struct td_op *op, struct td_cancel *c, struct td_error *err);
// Sets annotations of the Node: pairs of key and value (NULL: removed), ended by a NULL key. Writes
// nothing when nothing differs.
int td_op_health_note(struct td_op_node *n, const char *const (*pairs)[2], struct td_error *err);
// Which machine it is and what it has: a node with another print is a new one. Caller frees.
char *td_op_health_print(const struct td_object *node);
// True when the policy wants new nodes to be tested, and the node has not passed a test as what it is now.
bool td_op_health_new(const struct td_op_policy *p, const struct td_object *node);
// True when the NodeAction is over.
bool td_op_act_over(const struct td_object *action);
// True when what comes next depends on how it ended, if it is the node's last one of these.
bool td_op_act_tells(const struct td_object *action);
// The slurmd pod of the node; NULL: none. The caller unrefs it.
struct td_object *td_op_health_slurmd(struct td_op *op, const char *node);

// Creates the NodeAction that a policy wants. device -1: the whole node.
int td_op_health_begin(struct td_op_node *n, enum td_act act, int device, const char *why, struct td_error *err);
// True when so many nodes are out of service for their health that no more may be taken out.
bool td_op_health_breaker(struct td_op *op, const struct td_op_policy *p);

// ---- nodedevice.c ----

// What is to be done about a node's single devices.
struct td_op_devices {
	uint64_t hold;       // those that must be out of service by the operator
	enum td_remedy node; // what the node needs because of them
	struct td_op_device {
		int device;
		struct td_pool_device_plan p;
	} v[64]; // only those of which something is known
	size_t n;
};
// Can one device of the node leave service alone? Not while the whole node is out, and not where its kubelet chooses
// the devices of pods.
bool td_op_devices_able(struct td_op *op, const struct td_object *node);
// tries: resets and reboots of the node by the policy in the window.
void td_op_devices_decide(const struct td_op_node *n, bool breaker, size_t tries, struct td_op_devices *ret);
bool td_op_devices_settled(const struct td_op_node *n, const struct td_op_devices *d);
// Holds or releases devices as decided, and makes the NodeActions. breaker, dry run: says what waits.
int td_op_devices_carry_out(struct td_op_node *n, const struct td_op_devices *d, struct td_error *err);
// Changes the list of devices that are out of service by the operator; why: of a list that is new.
int td_op_devices_change(struct td_op_node *n, uint64_t add, uint64_t drop, const char *why, struct td_error *err);
// True when a fault is there for which one device leaves service alone.
bool td_op_faults_any(const struct td_op_faults *f);
// Says that the job which holds this device has had long enough, or takes that back.
int td_op_devices_end(struct td_op_node *n, int device, bool end, struct td_error *err);
// Those that are out of service by the operator.
uint64_t td_op_devices_held(const struct td_object *node);
// "gpu3: XID 94 …", what the faults of this device say. The caller frees it.
char *td_op_device_faults(const struct td_op_faults *f, int device, enum td_remedy *ret_worst);
// True when the NodeAction is about one device alone. *ret_device (may be NULL): which, -1: it names none.
bool td_op_act_alone(const struct td_object *action, int *ret_device);

// ---- probe.c ----

// Asks for tests of idle nodes, as many as are due and the policy's budget allows.
int td_op_probe_run(struct td_op *op, int64_t *again_ms, struct td_cancel *c, struct td_error *err);

// ---- slow.c ----

// What an agent says of a rank that is slow on this node (TD_ANN_SLOW). busy: an act of the whole node is not over.
int td_op_slow_take(struct td_op_node *n, bool busy, struct td_error *err);

// ---- upgrade.c ----

// The keys of NodeUpgrades in the queue of nodes' names; no node has a name like that.
#define TD_OP_UPGRADE_KEY "/upgrade/"
void td_op_upgrade_on_change(void *op, struct td_object *old, struct td_object *now);
// Queues every NodeUpgrade that is not over. action: only the one that asked for it; NULL: all.
void td_op_upgrade_wake(struct td_op *op, const struct td_object *action);
// One reconcile of the NodeUpgrade of that name.
int td_op_upgrade_run(struct td_op *op, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err);

// ---- nodeaction.c ----

// True when it did, or does, more than wait for jobs to end.
bool td_op_act_beyond_drain(const struct td_object *action);
// One of a single device that leaves its drain becomes n->working; while another one is, it waits.
int td_op_act_run(struct td_op_node *n, struct td_object *action, int64_t *again_ms, struct td_error *err);
// Says of one that waits for another one what it waits for.
int td_op_act_wait(struct td_op_node *n, struct td_object *action, const struct td_object *first, struct td_error *err);

// ---- record.c ----

// The key of the sweep; no node has a name like that.
#define TD_OP_RECORD_KEY "/record"
// Folds NodeActions of the node that ended long ago into its NodeHistory: the lines first, then the objects go, so that
// at every moment one of both is there. Also of a node that is gone.
int td_op_record_fold(struct td_op_node *n, int64_t *again_ms, struct td_error *err);
// Somebody has deleted a NodeAction. If it had begun, it gets a line all the same, with the time; what was folded has one.
void td_op_record_deleted(struct td_op *op, struct td_object *action);
// Once a day: lines that are too old go, and the NodeHistory that has none.
int td_op_record_sweep(struct td_op *op, int64_t *again_ms, struct td_cancel *c, struct td_error *err);

// ---- nodetest.c ----

// The name of the test's pod of an action. The caller frees it.
char *td_op_test_name(const struct td_object *slurmd, const char *action_uid);
// The rates of a node's active links together, in megabits a second; 0: not known. Pure.
double td_op_test_links(const yyjson_val *node);
// What a node must reach as nodetest.sh wants it, a line each; others: how many were measured. Pure.
void td_op_test_wants(const struct td_pool_figure_want want[TD_FIGURES], const int percent[TD_FIGURES],
		      const size_t others[TD_FIGURES], struct td_buf *ret);
// Makes the pod. TD_NOT_FOUND: its cluster has no slurmctld.
int td_op_test_begin(struct td_op_node *n, const struct td_object *slurmd, const char *action_uid,
		     struct td_error *err);
// How far it is. *ret_said: its result, in its own words; points into the pod. NULL: none.
enum td_act_test td_op_test_state(const struct td_object *pod, const char **ret_said);
// Deletes pods of tests of this node that have ended and whose action is over.
int td_op_test_sweep(struct td_op_node *n, struct td_error *err);

// ---- nodeslurmd.c ----

// The SlurmCluster whose slurmd the node has as a pod, and its NodeSet. NULL: none has. The caller unrefs both.
struct td_object *td_op_slurmd_cluster(struct td_op *op, const struct td_object *node, struct td_object **ret_set);
// Can the node's slurmd get this image (NULL: any)? TD_INVALID names the field and what there is.
int td_op_slurmd_check(struct td_op *op, const struct td_object *node, const char *image, struct td_error *err);
// Does it have the image, and all else that its pod should have now? slurmd NULL: there is none.
bool td_op_slurmd_anew(struct td_op_node *n, const struct td_object *slurmd, const char *image);

// ---- cutting.c ----

// Makes a NodeAction of what the bridge asks for on the Node, if its NodeSet allows it and nothing else is done there.
int td_op_cutting_take(struct td_op_node *n, struct td_error *err);
// Is the NodeAction of that name among these? Then its wish was taken already, by one who was killed before he said so.
bool td_op_cutting_made(const struct td_objects *acts, const char *name);
// True when the NodeAction is one of these; it gives up soon when jobs came in between.
bool td_op_cutting_soon(const struct td_object *action);

// ---- nodecut.c ----

// Can the GPUs be cut as the spec of a NodeAction says? TD_INVALID names the field and what there is.
int td_op_cut_check(const struct td_object *node, const yyjson_val *spec, struct td_error *err);
// Adds to the operation what the agent must know.
void td_op_cut_operation(yyjson_mut_doc *d, yyjson_mut_val *root, const yyjson_val *spec);
// Has the node's slurmd the devices that the node says now? slurmd NULL: there is none.
bool td_op_cut_anew(struct td_op_node *n, const struct td_object *slurmd);
