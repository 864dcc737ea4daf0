// Rules and defaults of built-in kinds that need C, for the files of this room.
#pragma once

#include "api/kinds.h"

#include "api/schema_priv.h"

// Appends a cause for each fault and returns how many it appended. old is NULL on create.
typedef size_t (*td_kind_check_f)(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
// Sets absent fields whose default depends on other fields.
typedef void (*td_kind_defaults_f)(yyjson_mut_doc *d, yyjson_mut_val *obj);
struct td_kind_rules {
	const char *group, *kind;
	td_kind_check_f check;
	td_kind_defaults_f set_defaults;
};
const struct td_kind_rules *td_kind_rules(const char *group, const char *kind); // NULL: none

// Pod specs, wherever they are. `path` is the place of the spec in the object ("spec",
// "spec.template.spec").
void td_podspec_check(const yyjson_val *spec, const char *path, bool is_template, struct td_causes *ret);
// Single parts of containers and specs (podparts.c).
void td_container_parts_check(const yyjson_val *container, const char *path, struct td_causes *ret);
void td_port_name_check(const char *s, const char *path, const char *tail, struct td_causes *ret);
void td_spec_parts_check(const yyjson_val *spec, const char *path, struct td_causes *ret);
void td_podspec_defaults(yyjson_mut_doc *d, yyjson_mut_val *spec);
size_t td_api_pod_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_api_pod_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
void td_api_pod_addresses(yyjson_mut_doc *d, yyjson_mut_val *obj); // a part of td_api_pod_defaults
// Requests and limits of one container: they are valid, limits are not below requests, and extended
// resources are whole numbers with request and limit equal.
void td_resources_check(const yyjson_val *resources, const char *path, struct td_causes *ret);
size_t td_api_node_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_api_node_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
size_t td_event_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
// As td_cause_add, for the field made of field and tail.
void td_cause_at(struct td_causes *c, const char *reason, const char *field, const char *tail, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

void td_labels_check(const yyjson_val *labels, const char *field, struct td_causes *ret);
// Rules that several kinds share (rules.c). td_immutable_check refuses a change of the field at
// path; old is NULL on create, which is always accepted.
void td_immutable_check(const yyjson_val *obj, const yyjson_val *old, const char *path, struct td_causes *ret);
// True when spec differs from that of old (NULL: a create, never) in more than the n fields of it that may.
bool td_spec_changed(const yyjson_val *obj, const yyjson_val *old, const char *const may[], size_t n);
bool td_is_percent_or_count(const yyjson_val *v); // true for NULL
void td_percent_check(const yyjson_val *obj, const char *path, struct td_causes *ret);
// workloadcheck.c
size_t td_deployment_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_deployment_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
size_t td_replicaset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_template_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
size_t td_statefulset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_statefulset_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
size_t td_api_job_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_api_job_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// claimcheck.c
size_t td_api_claim_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
size_t td_api_policy_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret); // policycheck.c
void td_api_policy_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
void td_api_claim_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// datacheck.c
size_t td_configmap_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
size_t td_secret_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_secret_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// crdcheck.c
size_t td_crd_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_crd_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// rbac.c
size_t td_role_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
size_t td_clusterrole_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
size_t td_rolebinding_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
size_t td_clusterrolebinding_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_binding_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// Returns NULL when the name can be a segment of a path, or a text that says why not.
const char *td_api_path_segment_fault(const char *name);
// What a kind file and a CRD have in common.
void td_kind_columns(struct td_kind *k, const yyjson_val *array);
void td_kind_subresources(struct td_kind *k, const yyjson_val *sub);
