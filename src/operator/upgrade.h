// NodeUpgrades, as the two files of this controller hand them to one another.
#pragma once

#include "operator/health.h"
#include "pool/upgrade.h"

// One reconcile of one of them.
struct td_op_upgrade {
	struct td_op *op;
	struct td_object *o;
	struct td_op_policy policy;
	yyjson_mut_doc *d; // the status that is to be
	yyjson_mut_val *status;
	int64_t now;
	int64_t *again_ms;
	struct td_cancel *c;
};
// Writes the status only over the one that was read: what is reserved in it is reserved once.
int td_op_upgrade_write(struct td_op_upgrade *x, struct td_error *err);

// ---- upgrade_slurm.c ----

bool td_op_upgrade_of_slurm(const struct td_object *o); // spec.what.slurmImage
// What is in the way of its beginning; NULL: nothing, and status.slurm says what it is about. The caller frees it.
char *td_op_upgrade_slurm_begin(struct td_op_upgrade *x);
// True when the node is one of its SlurmCluster's. *ret_problem: why its slurmd cannot get an image, NULL: it can; the
// caller frees it.
bool td_op_upgrade_slurm_has(struct td_op_upgrade *x, const struct td_object *node, char **ret_problem);
// How far the daemons are. *ret_lost: why it cannot go on; NULL: it can. The caller frees it.
enum td_upgrade_daemons td_op_upgrade_slurm_look(struct td_op_upgrade *x, char **ret_lost);
// Asks the SlurmCluster for the image, in two steps: the status says so, then it is written. Nothing to do: 0.
int td_op_upgrade_slurm_ask(struct td_op_upgrade *x, struct td_error *err);
// Brings the SlurmCluster's spec to what stays after an end. *ret_over: it is so. *ret_said: what to add to the message;
// NULL: nothing, the caller frees it.
int td_op_upgrade_slurm_end(struct td_op_upgrade *x, enum td_upgrade_phase phase, bool *ret_over, char **ret_said,
			    struct td_error *err);
// The image that a node gets, or gets again. Points into x.
const char *td_op_upgrade_slurm_image(const struct td_op_upgrade *x, bool back);
