// Copies of data sets on nodes: Dataset objects and spec.datasets of the SlurmCluster (docs/datasets.md).
//
// What a node holds is in its annotation data.tandem.dev/NAME, as pool/dataset.h says; a pod on the node fetches or
// removes (programs/dataset.py). dataset.c reads and acts, dataset_pod.c builds (pure).
#pragma once

#include "api/dataset.h"
#include "operator/operator.h"
#include "pool/dataset.h"

enum { TD_DATA_WRONG_CODE = 3 }; // exit code of a pod whose next try would fare no better

// Adds what is wrong with the spec: "spec.source: …".
void td_op_dataset_check(const yyjson_val *dataset, struct td_strv *problems);
// Builds the pod that fetches a data set, or removes it (dataset NULL), on that node.
struct td_op_dataset_pod {
	const yyjson_val *cluster;
	const yyjson_val *slurmd;  // the node's slurmd pod, whose tolerations and pull secrets it has
	const yyjson_val *dataset; // NULL: name is removed
	const char *name, *node, *print;
};
struct td_json *td_op_dataset_pod(const struct td_op_dataset_pod *p);
char *td_op_dataset_pod_name(const char *cluster, const char *name, const char *node); // caller frees
// Does this slurmd pod have the cluster's directory of copies?
bool td_op_dataset_mounted(const yyjson_val *cluster, const yyjson_val *slurmd);

// One reconcile of the Datasets of a cluster. *again_ms: when to look again at the latest.
int td_op_datasets_sync(const struct td_op_pass *p, int64_t *again_ms, struct td_error *err);
void td_op_on_dataset(void *ctx, struct td_object *old, struct td_object *now);
