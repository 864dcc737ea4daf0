// Label and field selectors, from query strings and from LabelSelector or node selector objects.
#pragma once

#include "base/err.h"
#include "json/json.h"

struct td_selector; // immutable
// Parses "a=b,c!=d,e,!f,g in (x,y),h notin (z)". NULL or "" selects everything. TD_INVALID names
// the place.
int td_selector_parse(const char *s, struct td_selector **ret, struct td_error *err);
// Reads a metav1.LabelSelector {matchLabels, matchExpressions}. NULL selects nothing, {} selects
// everything.
int td_selector_from_object(const yyjson_val *v, struct td_selector **ret, struct td_error *err);
// labels is a JSON object, or NULL.
bool td_selector_matches(const struct td_selector *s, const yyjson_val *labels);
// The canonical query form. The caller frees it.
char *td_selector_text(const struct td_selector *s);
struct td_selector *td_selector_free(struct td_selector *s);
TD_DEFINE_AUTO(struct td_selector *, td_selector_free)

// Parses "metadata.name=x,status.phase!=Running": terms with =, == and !=. A value is compared with
// the string at the path ("" when absent).
struct td_field_selector;
int td_field_selector_parse(const char *s, struct td_field_selector **ret, struct td_error *err);
bool td_field_selector_matches(const struct td_field_selector *s, const yyjson_val *obj);
// Returns the value that `path` must equal, or NULL.
const char *td_field_selector_exact(const struct td_field_selector *s, const char *path);
// Returns the i-th path, NULL at the end.
const char *td_field_selector_path(const struct td_field_selector *s, size_t i);
struct td_field_selector *td_field_selector_free(struct td_field_selector *s);
TD_DEFINE_AUTO(struct td_field_selector *, td_field_selector_free)

// Tells whether a pod, given by its spec, may run on a node, given as the whole object:
// nodeSelector, required node affinity (matchExpressions with Gt and Lt; matchFields
// metadata.name), and taints with NoSchedule or NoExecute. *ret_why is a short static text when it
// may not ("node(s) didn't match Pod's node affinity/selector").
bool td_api_pod_fits_node(const yyjson_val *pod_spec, const yyjson_val *node, bool ignore_unschedulable,
			  const char **ret_why);
// Effective requests of a pod as the scheduler counts them: the sum of the containers, the maximum
// of init containers, sidecars, overhead. For resource "cpu" the unit is 1/1000, for everything
// else whole units. 0 when absent.
int64_t td_api_pod_request(const yyjson_val *pod_spec, const char *resource);
// Is this resource one of devices of that one? It is the same, or parts of NVIDIA's GPUs (MIG), "nvidia.com/mig-1g.10gb"
// beside "nvidia.com/gpu".
bool td_api_is_device(const char *name, const char *resource);
// How many such devices a list (status.capacity) has, all of them together. TD_INVALID.
int td_api_devices(const yyjson_val *list, const char *resource, int64_t *ret, struct td_error *err);
// How many a pod asks for.
int64_t td_api_pod_devices(const yyjson_val *pod_spec, const char *resource);
// What one container requests; 0: nothing.
int64_t td_api_container_request(const yyjson_val *container, const char *resource);
// Appends every resource name that any container requests.
void td_api_pod_request_names(const yyjson_val *pod_spec, struct td_strv *ret);
