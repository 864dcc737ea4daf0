// The nodes of one NodeSet, as the files of this controller hand them to one another:
// nodeset_rows.c collects what the two sides say, nodeset_wish.c remembers which pod each should have,
// pool/nodeset.h chooses, nodeset_act.c carries it out, placeholder.c shows what native jobs hold, nodeset_status.c reports it, nodeset_sweep.c
// removes what belongs to no NodeSet, and nodeset.c leads.
#pragma once

#include "operator/operator.h"

#include <uthash.h>

// One node. All of it is owned, except what n points to: n.why points to `why` or static text,
// n.record to `record`.
struct td_op_row {
	struct td_pool_member n;
	struct td_pool_record record;
	const struct td_slurm_node *slurm; // into the view; NULL: no record
	struct td_object *node, *pod;      // NULL: there is none
	const struct td_op_wish *want;     // of the view: the pod it should have; NULL: it cannot be built
	struct td_op_share share;
	char why[256];
	char *name;
};
struct td_op_rows {
	struct td_op_row *v;
	size_t n, cap;
	struct td_op_row_at *by_name; // while they are collected
	struct td_buf taken;          // which nodes that it selects another NodeSet has; empty: none
	struct td_strv elsewhere;     // of spec.hosts: those that another NodeSet has
	struct td_objects wanted;     // pods that ask for machines for it, by name
};
void td_op_rows_done(struct td_op_rows *r);
#define td_auto_rows __attribute__((cleanup(td_op_rows_done)))

// ---- nodeset_wish.c ----
struct td_op_wish { // the slurmd pod that a node should have
	char *node, *conf;
	char revision[24];
	uint64_t print; // of all that it is made of
	bool seen;      // a pass has asked for it
	UT_hash_handle hh;
};
// A fingerprint of what all pods of the set are made of.
uint64_t td_op_wish_base(const struct td_op_pass *p, const struct td_object *set);
// Sets x->want. x->node and x->share are there. TD_INVALID: there cannot be such a pod.
int td_op_row_wish(const struct td_op_pass *p, const struct td_object *set, uint64_t base, struct td_op_row *x,
		   struct td_error *err);
// Builds the pod itself.
int td_op_row_pod(const struct td_op_pass *p, const struct td_object *set, const struct td_op_row *x,
		  struct td_json **ret, struct td_error *err);

// What its slurmd tells Slurm of the node. NULL: nothing.
const char *td_op_pod_conf(const yyjson_val *pod);
bool td_op_is_slurmd(const struct td_object *pod); // true for a slurmd pod of any NodeSet
// Collects a row for each node that matches, each pod of the set and each record with its mark,
// sorted by name. ret is empty before. Without a cluster no node matches.
void td_op_rows_collect(const struct td_op_pass *p, struct td_object *set, const struct td_objects *nodes,
			struct td_op_rows *ret);
// Writes the Node annotation tandem.dev/slurm-share.
int td_op_share_set(struct td_op *op, const char *node, const char *value, struct td_cancel *c, struct td_error *err);
// A node that left the pool gets its whole allocatable back: removes that annotation, and the bridge's taints, which
// its bridge may not live to lift. TD_CONFLICT: the Node has changed since. One that is gone is no failure.
int td_op_unshare(struct td_op *op, const struct td_object *node, struct td_cancel *c, struct td_error *err);
// Says on the pod whether it may be evicted. Without Slurm's answer, what was said stays.
int td_op_row_evictable(const struct td_op_pass *p, struct td_op_row *x, struct td_error *err);
// Says on the Node what spec.gpuCutting says of it, or takes that back.
int td_op_row_cutting(const struct td_op_pass *p, const struct td_object *set, const struct td_op_row *x,
		      struct td_error *err);
// {account: Tenant}, as JSON, of the SlurmCluster's Tenants whose account has another name; NULL: there are none. The
// caller frees it.
char *td_op_tenant_names(struct td_op *op, const char *ns, const char *cluster);
// Keeps what the node's agent reads of the Tenants' names (td_op_tenant_names; NULL: nothing).
int td_op_row_tenants(const struct td_op_pass *p, const struct td_op_row *x, const char *names, struct td_error *err);
// Carries out x->n.act. What stands in its way for now is no failure: x->n.why says it.
int td_op_row_act(const struct td_op_pass *p, struct td_object *set, struct td_op_row *x, struct td_error *err);
// Makes the placeholder pod beside the row's slurmd where spec.placeholders asks for it, and removes one
// that it does not ask for.
int td_op_row_placeholder(const struct td_op_pass *p, struct td_object *set, const struct td_op_row *x,
			  struct td_error *err);
struct td_op_scale;
struct td_op_said_of { // what a pass found out about a NodeSet
	const struct td_pool_set_counts *k;
	const struct td_op_scale *scale;
	const char *problem; // of the spec, in one line; NULL: none
};
// Writes the status.
int td_op_nodeset_status(const struct td_op_pass *p, struct td_object *set, const struct td_op_rows *rows,
			 const struct td_op_said_of *said, struct td_error *err);

// The nodes of all NodeSets on demand that Slurm shall know of, in the form of the ConfigMap CLUSTER-on-demand
// (programs/on-demand.sh): slurmctld's pod makes their records, because REST cannot.
struct td_op_demand {
	struct td_buf lines; // "NODE LINE-OF-SLURM-CONF\n"
};
void td_op_demand_done(struct td_op_demand *d);
#define td_auto_demand __attribute__((cleanup(td_op_demand_done)))
// Adds a set's nodes that stay. Sets that are not on demand add nothing.
void td_op_on_demand_note(const struct td_object *set, const struct td_op_rows *rows, struct td_op_demand *ret);
// Writes the ConfigMap when it differs.
int td_op_on_demand_tell(const struct td_op_pass *p, const struct td_op_demand *d, struct td_error *err);

// ---- autoscale.c: machines that a cluster autoscaler makes ----
#define TD_WANTED_NODE "wanted-node" // TD_LABEL_NAME of the pods that ask for them
struct td_op_scale {
	bool on;            // spec.autoscale is there
	bool full;          // somebody waits, and there are as many as there may be
	long long machines; // that are asked for
	const char *why;    // who waits; points into the SlurmCluster; NULL: nobody
};
bool td_op_autoscale(const yyjson_val *set);
void td_op_autoscale_check(const yyjson_val *set, struct td_strv *problems);
// True when a cluster autoscaler is about to take the machine away.
bool td_op_doomed(const yyjson_val *node);
// False when the Node is deleted and nothing holds it. One with a finalizer is being emptied (Karpenter's, which it deletes
// first): its machine is there until that is gone, with its jobs.
bool td_op_node_is_there(const struct td_object *node);
// Sets policy->replicas, and which members may go. Sets without spec.autoscale stay as they are.
void td_op_autoscale_decide(const struct td_op_pass *p, const struct td_object *set, struct td_pool_member *v, size_t n,
			    struct td_pool_policy *policy, struct td_op_scale *ret);
// The pod by which a machine is asked for, the at-th of the set.
struct td_json *td_op_wanted_pod(const struct td_op_pass *p, const struct td_object *set, const struct td_op_rows *rows,
				 size_t at);
bool td_op_is_wanted(const struct td_object *pod);
int td_op_wanted_drop(const struct td_op_pass *p, const struct td_object *pod, struct td_error *err);
// Makes and removes these pods, so that there are as many as machines are asked for.
int td_op_autoscale_act(const struct td_op_pass *p, struct td_object *set, const struct td_op_rows *rows,
			const struct td_op_scale *s, struct td_error *err);
// Adds what the NodeSet's status says of it. text: room for the condition's words, which must live as long as c.
void td_op_autoscale_status(const struct td_op_scale *s, yyjson_mut_doc *d, yyjson_mut_val *status,
			    struct td_pool_set_conditions *c, char *text, size_t len);
// Removes pods, shares and records whose NodeSet or cluster is gone.
int td_op_nodesets_sweep(const struct td_op_pass *p, const struct td_objects *nodes, struct td_error *err);
