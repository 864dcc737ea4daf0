// Structural OpenAPI v3 schemas: validation, defaults, pruning, strategic merge and server-side
// apply, all driven by one schema.
//
// Extensions that are read, all with the prefix x-kubernetes-: list-type, list-map-keys, map-type,
// int-or-string, preserve-unknown-fields, embedded-resource, patch-strategy and patch-merge-key.
// Formats: those of OpenAPI, and in kind files quantity, duration, dns-label, dns-subdomain and
// micro-time. Patterns are RE2 as far as PCRE2 can express it (pattern.c); others are refused when
// the schema is compiled. CEL rules (x-kubernetes-validations) are not evaluated; the API server
// refuses them (td_served_check).
#pragma once

#include "api/status.h"
#include "json/json.h"

struct td_schema; // immutable, thread-safe
// Compiles an openAPIV3Schema object. src is the document that schema lies in; the result holds a
// reference to it. TD_INVALID names the path that is not structural.
int td_schema_compile(struct td_json *src, const yyjson_val *schema, struct td_schema **ret, struct td_error *err);
struct td_schema *td_schema_free(struct td_schema *s);
TD_DEFINE_AUTO(struct td_schema *, td_schema_free)

// Fills in defaults in place. Quantities become canonical (0.5 → 500m).
void td_schema_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj);
// False means that td_schema_default never changes anything.
bool td_schema_has_defaults(const struct td_schema *s);
// Removes, in place, fields that the schema does not know. Their paths ("spec.bogus",
// "spec.containers[0].x") are appended to ret_unknown when it is not NULL.
void td_schema_prune(const struct td_schema *s, yyjson_mut_val *obj, struct td_strv *ret_unknown);
// Removes empty lists and maps, which the API server's Go types of built-in kinds do not keep.
// Structures stay, because their presence may mean something.
void td_schema_tidy(const struct td_schema *s, yyjson_mut_val *obj);
// When a key occurs twice in one object, replaces *doc by a document in which the last one counts,
// appends the paths of these keys to *ret and returns true.
bool td_duplicates_drop(struct td_json **doc, struct td_strv *ret);
// Checks types, required, enum, pattern, minimum and maximum, lengths, formats and that list-map
// keys are unique. Appends causes and returns how many; it stops at 64.
size_t td_schema_validate(const struct td_schema *s, const yyjson_val *obj, struct td_causes *ret);

// kubectl's strategic merge patch: $patch, $retainKeys, $setElementOrder and
// $deleteFromPrimitiveList, with the merge keys of the schema.
int td_strategic_merge(const struct td_schema *s, const yyjson_val *target, const yyjson_val *patch,
		       struct td_json **ret, struct td_error *err);

// Server-side apply. live is NULL for a create. *ret is the merged object with
// metadata.managedFields updated. Without force, fields of other managers give TD_CONFLICT and
// causes (FieldManagerConflict).
struct td_api_apply {
	const char *manager, *subresource; // subresource "" for the main one
	const char *api_version;
	// The version that conflicts with Update entries name; NULL: that of the entry.
	const char *shown_version;
	bool force;
	int64_t now_ms;
	// A built-in kind: structures that its type always has belong to no manager.
	bool typed;
	// The status is written separately, so its fields belong to no manager.
	bool no_status;
	// For a Scale: the number is 0 (in an apply: was 0), which equals none, so no manager owns
	// it.
	bool disown;
};
int td_schema_apply(const struct td_schema *s, const yyjson_val *live, const yyjson_val *applied,
		    const struct td_api_apply *o, struct td_causes *ret_conflicts, struct td_json **ret,
		    struct td_error *err);
// For a create, update or patch by o->manager: records in the managedFields of now, in place, what
// changed between old (NULL: create) and now.
void td_schema_track(const struct td_schema *s, const yyjson_val *old, yyjson_mut_doc *d, yyjson_mut_val *now,
		     const struct td_api_apply *o);
