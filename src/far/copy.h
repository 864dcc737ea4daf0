// The copy of a pod in another cluster. Pure.
//
// What is in the pod's spec goes there only when it is known to mean the same and to reach nothing of that cluster: a list
// of fields, and what is not in it is refused. Nothing of the pod's labels and annotations goes there, so no Service or
// policy of that cluster selects it but those that are made for copies. A claim has the name there that the NodeSet says.
#pragma once

#include "json/json.h"

// TD_INVALID: err names the first field that cannot go there, and what to do. Which claims are there says the NodeSet.
int td_far_copy_check(const yyjson_val *pod, struct td_error *err);
// TD_INVALID: a claim of the pod's is none of the NodeSet's spec.otherCluster.claims; err says what to add.
int td_far_claims_check(const yyjson_val *pod, const yyjson_val *set, struct td_error *err);

struct td_far_copy {
	const char *ns, *node; // there
	const yyjson_val *set; // the NodeSet here
};
// The caller frees it. The pod has passed both checks.
yyjson_mut_doc *td_far_copy_make(const yyjson_val *pod, const struct td_far_copy *c);
// "NAMESPACE-POD-<12 hex digits of the UID>", short enough for a hostname. The caller frees it.
char *td_far_copy_name(const yyjson_val *pod);

// Why the scheduler there has no node for the copy, in its words; NULL: it has one, or nobody said why.
const char *td_far_copy_waits(const yyjson_val *copy);

// The status here of a pod whose copy is like that: a merge patch of pods/status with the pod's uid and resourceVersion.
// NULL: it says so already. The caller frees it.
yyjson_mut_doc *td_far_copy_status(const yyjson_val *pod, const yyjson_val *copy, int64_t now_ms);
// Adds to the status of a pod that fails here (a patch of pods/status) how its containers are: as their copy's, or ended
// with its node's own number for a kill where nobody knows more.
void td_far_copy_over(yyjson_mut_doc *d, yyjson_mut_val *status, const yyjson_val *pod, const yyjson_val *copy,
		      int64_t now_ms);
