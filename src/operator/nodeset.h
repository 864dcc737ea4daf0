// One NodeSet's nodes, as the files of this controller hand them to one another: nodeset_rows.c collects what the two
// sides say, pool/nodeset.h chooses, nodeset_act.c does it, nodeset_status.c tells, nodeset_sweep.c takes away what
// belongs to no NodeSet; nodeset.c leads.
#pragma once

#include "operator/operator.h"

struct td_op_row { // all owned, but what n points to: n.why into why or static, n.record to record
	struct td_pool_member n;
	struct td_pool_record record;
	const struct td_slurm_node *slurm; // into the view; NULL: no record
	struct td_object *node, *pod;      // NULL: there is none
	struct td_json *want;              // the pod it should have; NULL: cannot be said
	struct td_op_share share;
	char why[256];
	char *name;
};
struct td_op_rows {
	struct td_op_row *v;
	size_t n, cap;
};
void td_op_rows_done(struct td_op_rows *r);
#define td_auto_rows __attribute__((cleanup(td_op_rows_done)))

bool td_op_is_slurmd(const struct td_object *pod); // of some NodeSet
// Nodes that match, pods of the set, and records that carry its mark, by name; ret is empty before. Without a cluster
// no node matches.
void td_op_rows_collect(const struct td_op_pass *p, struct td_object *set, const struct td_objects *nodes,
			struct td_op_rows *ret);
// Node annotation tandem.dev/slurm-share; value NULL: away.
int td_op_share_set(struct td_op *op, const char *node, const char *value, struct td_cancel *c, struct td_error *err);
// Says on the pod whether it may be evicted; without Slurm's answer what was said stands.
int td_op_row_evictable(const struct td_op_pass *p, struct td_op_row *x, struct td_error *err);
// Does x->n.act. What stands in its way for now is no failure: x->n.why says it.
int td_op_row_act(const struct td_op_pass *p, struct td_object *set, struct td_op_row *x, struct td_error *err);
// problem: of the spec, in one line; NULL: none.
int td_op_nodeset_status(const struct td_op_pass *p, struct td_object *set, const struct td_op_rows *rows,
			 const struct td_pool_set_counts *k, const char *problem, struct td_error *err);
// Pods, shares and records whose NodeSet or cluster is gone.
int td_op_nodesets_sweep(const struct td_op_pass *p, const struct td_objects *nodes, struct td_error *err);
