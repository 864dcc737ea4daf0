// The cross-field rules of built-in kinds, by kind.
#pragma once

#include "api/kinds.h"

#include "api/schema_priv.h"

typedef size_t (*td_kind_check_f)(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
typedef void (*td_kind_defaults_f)(yyjson_mut_doc *d, yyjson_mut_val *obj);
struct td_kind_rules {
	const char *group, *kind;
	td_kind_check_f check;
	td_kind_defaults_f set_defaults;
};
const struct td_kind_rules *td_kind_rules(const char *group, const char *kind); // NULL: none

// Pod specs, wherever they are. `path`: of the spec in the object ("spec", "spec.template.spec").
void td_podspec_check(const yyjson_val *spec, const char *path, bool is_template, struct td_causes *ret);
// What embedded nodes do not serve, by name (podserved.c). For new objects only: what is stored stays writable.
void td_podspec_served(const yyjson_val *spec, const char *path, struct td_causes *ret);
void td_podspec_defaults(yyjson_mut_doc *d, yyjson_mut_val *spec);
size_t td_pod_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
void td_pod_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj);
// Requests and limits of one container: valid, limits not below requests, extended resources whole and equal.
void td_resources_check(const yyjson_val *resources, const char *path, struct td_causes *ret);
// td_cause_add with a formatted field.
void td_cause_at(struct td_causes *c, const char *reason, const char *field, const char *tail, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

void td_labels_check(const yyjson_val *labels, const char *field, struct td_causes *ret);
// Parts of a kind that its file and a CRD share.
void td_kind_columns(struct td_kind *k, const yyjson_val *array);
void td_kind_subresources(struct td_kind *k, const yyjson_val *sub);
void td_kind_strings(struct td_strv *l, const yyjson_val *array);
