// The table of kinds: built-in ones and those that CRDs add, through one engine. src/api/kinds/<kind>.yaml is the only
// source of a schema.
#pragma once

#include "api/schema.h"

struct td_column { // printer column
	const char *name, *type, *format, *description,
		*json_path; // json_path: ".spec.x"; special built-in cells are computed by apiserver/table
	int priority;
};
struct td_kind { // immutable once in a table; strings owned by it
	char *group, *version, *kind, *plural, *singular, *list_kind;
	struct td_strv short_names, categories;
	bool namespaced, status, scale;                   // which subresources exist
	char *scale_spec, *scale_status, *scale_selector; // ".spec.replicas", …
	struct td_json *source;                           // the kind file, or the CRD
	struct td_schema *schema;                         // of the whole object, metadata included
	const yyjson_val *raw; // the schema as written, in source; read it with td_kind_openapi
	struct td_column *columns;
	size_t n_columns;
	bool builtin;
	// Cross-field rules and defaults that a schema cannot say; NULL: none. old NULL on create. Both take any value,
	// also one that the schema refused. Order on a write: td_schema_prune, td_schema_default, set_defaults
	// (metadata.uid already given: a Job's selector is made from it), td_schema_validate, check. A Binding sets
	// spec.nodeName, which check() refuses: it is no update.
	size_t (*check)(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
	void (*set_defaults)(yyjson_mut_doc *d, yyjson_mut_val *obj);
};
// The built-in table (compiled in; parsed once, thread-safe). Never fails: a broken built-in aborts and a unit test
// shows it. td_kind_builtin makes ready only the kind it is asked for; what kinds share (pod specs, metadata) is in
// memory once.
const struct td_kind *const *td_kinds_builtin(size_t *ret_n);
const struct td_kind *td_kind_builtin(const char *group, const char *kind);
// The whole schema in d, metadata included and shared parts written out: for /openapi/v3.
yyjson_mut_val *td_kind_openapi(const struct td_kind *k, yyjson_mut_doc *d);
// The same of an object that is asked and never stored: a part of kinds/defs.yaml.
yyjson_mut_val *td_part_openapi(const char *part, yyjson_mut_doc *d);
// What embedded nodes and the embedded API do not serve, by name (podserved.c); `old`, where there is one: what it has
// already stays writable. Only the API server asks: a file that is meant for another cluster is fine.
size_t td_served_check(const struct td_kind *k, const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
// The CRD object of one of Tandem's kinds ("SlurmCluster", "NodeSet") from its kind file, as YAML text for deploy/crds
// and `tandem up`.
struct td_json *td_kind_crd(const char *kind); // apiextensions.k8s.io/v1 CustomResourceDefinition; NULL: not ours
bool td_kind_has_crd(const struct td_kind *k); // one of Tandem's: an API server serves it through its CRD only
// One td_kind per served version of a CRD object. TD_INVALID fills causes.
int td_kind_from_crd(const yyjson_val *crd, struct td_kind ***ret, size_t *ret_n, struct td_causes *causes,
		     struct td_error *err);
struct td_kind *td_kind_free(struct td_kind *k); // not for built-ins

// Generic metadata rules: names (DNS-1123 subdomain/label), labels, annotations, finalizers, ownerReferences.
size_t td_meta_check(const struct td_kind *k, const yyjson_val *obj, struct td_causes *ret);
bool td_is_dns_label(const char *s);
bool td_is_dns_subdomain(const char *s);
