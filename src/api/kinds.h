// The table of kinds. Built-in kinds and kinds of CRDs go through one engine. A schema of a
// built-in kind has one source: src/api/kinds/<kind>.yaml.
#pragma once

#include "api/schema.h"

struct td_column { // printer column
	// json_path is like ".spec.x". apiserver/table computes some cells of built-in kinds
	// itself.
	const char *name, *type, *format, *description, *json_path;
	int priority;
};
// Immutable once it is in a table. It owns its strings.
struct td_kind {
	char *group, *version, *kind, *plural, *singular, *list_kind;
	struct td_strv short_names, categories;
	bool namespaced, status, scale;                   // which subresources exist
	char *scale_spec, *scale_status, *scale_selector; // ".spec.replicas", …
	struct td_json *source;                           // the kind file, or the CRD
	struct td_schema *schema;                         // of the whole object, with metadata
	// The schema as written, in source. td_kind_openapi gives the whole one.
	const yyjson_val *raw;
	struct td_column *columns;
	size_t n_columns;
	bool builtin;
	// Cross-field rules and defaults that a schema cannot express; NULL when there are none.
	// old is NULL on create. Both functions accept any value, also one that the schema refused.
	// The order on a write is: td_schema_prune, td_schema_default, set_defaults (metadata.uid
	// must be set by then, because the selector of a Job is made from it), td_schema_validate,
	// check. A Binding sets spec.nodeName, which check() refuses, so it is not treated as an
	// update.
	size_t (*check)(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
	void (*set_defaults)(yyjson_mut_doc *d, yyjson_mut_val *obj);
};
// The built-in table. It is compiled in, parsed once and thread-safe. The functions never fail: a
// broken built-in kind aborts, and a unit test would show it. td_kind_builtin prepares only the
// kind it is asked for. Parts that kinds share (pod specs, metadata) are in memory once.
const struct td_kind *const *td_kinds_builtin(size_t *ret_n);
const struct td_kind *td_kind_builtin(const char *group, const char *kind);
// Builds the whole schema in d for /openapi/v3, with metadata, and with shared parts written out.
yyjson_mut_val *td_kind_openapi(const struct td_kind *k, yyjson_mut_doc *d);
// The same for a part of kinds/defs.yaml: an object that is requested and never stored.
yyjson_mut_val *td_part_openapi(const char *part, yyjson_mut_doc *d);
// Refuses by name what embedded nodes and the embedded API do not serve (podserved.c). What `old`,
// which may be NULL, already has stays writable. Only the API server calls this: a file that is
// meant for another cluster is fine.
size_t td_served_check(const struct td_kind *k, const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret);
// Returns the apiextensions.k8s.io/v1 CustomResourceDefinition of one of Tandem's kinds
// ("SlurmCluster", "NodeSet") from its kind file, for deploy/crds and `tandem up`; NULL for other
// kinds.
struct td_json *td_kind_crd(const char *kind);
// True for Tandem's own kinds: an API server serves them through their CRDs only.
bool td_kind_has_crd(const struct td_kind *k);
// Makes one td_kind per served version of a CRD object. TD_INVALID fills causes.
int td_kind_from_crd(const yyjson_val *crd, struct td_kind ***ret, size_t *ret_n, struct td_causes *causes,
		     struct td_error *err);
struct td_kind *td_kind_free(struct td_kind *k); // does nothing for built-in kinds

// The rules of metadata for every kind: names (DNS-1123 subdomain or label), labels, annotations,
// finalizers, ownerReferences.
size_t td_meta_check(const struct td_kind *k, const yyjson_val *obj, struct td_causes *ret);
bool td_is_dns_label(const char *s);
bool td_is_dns_subdomain(const char *s);
