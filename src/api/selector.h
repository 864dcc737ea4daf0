// Label and field selectors: from query strings and from LabelSelector / node selector objects.
#pragma once

#include "base/err.h"
#include "json/json.h"

struct td_selector; // immutable
// "a=b,c!=d,e,!f,g in (x,y),h notin (z)"; NULL or "" selects everything. TD_INVALID says where.
int td_selector_parse(const char *s, struct td_selector **ret, struct td_error *err);
// metav1.LabelSelector {matchLabels, matchExpressions}. NULL value: selects nothing; {}: everything.
int td_selector_from_object(const yyjson_val *v, struct td_selector **ret, struct td_error *err);
bool td_selector_matches(const struct td_selector *s, const yyjson_val *labels); // labels: JSON object or NULL
char *td_selector_text(const struct td_selector *s);                             // canonical query form; caller frees
struct td_selector *td_selector_free(struct td_selector *s);
TD_DEFINE_AUTO(struct td_selector *, td_selector_free)

// "metadata.name=x,status.phase!=Running": terms with =, ==, !=. Values are compared with the string at the path (""
// when absent).
struct td_field_selector;
int td_field_selector_parse(const char *s, struct td_field_selector **ret, struct td_error *err);
bool td_field_selector_matches(const struct td_field_selector *s, const yyjson_val *obj);
const char *td_field_selector_exact(const struct td_field_selector *s,
				    const char *path); // the value that `path` must equal, or NULL
const char *td_field_selector_path(const struct td_field_selector *s, size_t i); // i-th path, NULL at the end
struct td_field_selector *td_field_selector_free(struct td_field_selector *s);
TD_DEFINE_AUTO(struct td_field_selector *, td_field_selector_free)

// Pod placement: nodeSelector, required node affinity (matchExpressions incl. Gt, Lt; matchFields metadata.name),
// NoSchedule/NoExecute taints. True when the pod (its spec) may run on the node (whole object). ret_why: a short static
// text when not ("node(s) didn't match Pod's node affinity/selector").
bool td_pod_fits_node(const yyjson_val *pod_spec, const yyjson_val *node, bool ignore_unschedulable,
		      const char **ret_why);
// Effective requests of a pod as the scheduler counts them (containers summed, init containers max'ed, sidecars,
// overhead). resource: "cpu" gives milli-units, everything else whole units. 0 when absent.
int64_t td_pod_request(const yyjson_val *pod_spec, const char *resource);
// Every resource name any container requests.
void td_pod_request_names(const yyjson_val *pod_spec, struct td_strv *ret);
