// Structural OpenAPI v3 schemas: validate, default, prune; strategic merge and server-side apply driven by the same
// schema. Extensions read: x-kubernetes-list-type / list-map-keys / map-type, x-kubernetes-int-or-string,
// x-kubernetes-preserve-unknown-fields, x-kubernetes-embedded-resource, x-kubernetes-patch-strategy / patch-merge-key.
// Formats: those of OpenAPI, and in kind files quantity, duration, dns-label, dns-subdomain, micro-time. Patterns are
// RE2 as far as POSIX can say it; others are refused when compiled. CEL rules (x-kubernetes-validations) are not
// evaluated; the API server refuses them (td_served_check).
#pragma once

#include "api/status.h"
#include "json/json.h"

struct td_schema; // immutable, thread-safe
// src: an openAPIV3Schema object (kept by reference count). TD_INVALID names the path that is not structural.
int td_schema_compile(struct td_json *src, const yyjson_val *schema, struct td_schema **ret, struct td_error *err);
struct td_schema *td_schema_free(struct td_schema *s);
TD_DEFINE_AUTO(struct td_schema *, td_schema_free)

// Fills in defaults, in place; quantities become canonical (0.5 → 500m).
void td_schema_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj);
bool td_schema_has_defaults(const struct td_schema *s); // false: that never changes anything
// Drops fields the schema does not know, in place; their paths go to ret_unknown ("spec.bogus", "spec.containers[0].x")
// when not NULL.
void td_schema_prune(const struct td_schema *s, yyjson_mut_val *obj, struct td_strv *ret_unknown);
// Takes away empty lists and maps, which the real one's types of built-in kinds do not keep; not structures, whose
// presence may say something.
void td_schema_tidy(const struct td_schema *s, yyjson_mut_val *obj);
// Where keys stand twice in one object (their paths in *ret), replaces *doc by one in which the last counts, and
// returns true.
bool td_duplicates_drop(struct td_json **doc, struct td_strv *ret);
// Checks types, required, enum, pattern, min/max, lengths, formats, list-map keys unique. Adds causes; returns how many
// were added (stops at 64).
size_t td_schema_validate(const struct td_schema *s, const yyjson_val *obj, struct td_causes *ret);

// kubectl's strategic merge patch: $patch, $retainKeys, $setElementOrder, $deleteFromPrimitiveList, merge keys from the
// schema.
int td_strategic_merge(const struct td_schema *s, const yyjson_val *target, const yyjson_val *patch,
		       struct td_json **ret, struct td_error *err);

// Server-side apply. live NULL: create. Returns the merged object with metadata.managedFields updated. TD_CONFLICT
// fills causes (FieldManagerConflict) unless force.
struct td_apply {
	const char *manager, *subresource; // subresource "" for the main one
	const char *api_version;
	const char *shown_version; // that conflicts with updates are told of; NULL: the update's own
	bool force;
	int64_t now_ms;
	bool typed;     // a built-in kind: structures that are always there are made by nobody
	bool no_status; // status is written apart: what is in it is nobody's
	bool disown;    // of a Scale: the number is 0 (in an apply: was 0), which is the same as none: nobody owns it
};
int td_schema_apply(const struct td_schema *s, const yyjson_val *live, const yyjson_val *applied,
		    const struct td_apply *o, struct td_causes *ret_conflicts, struct td_json **ret,
		    struct td_error *err);
// For create/update/patch by `manager`: records what changed between old (NULL: create) and now in now's managedFields,
// in place.
void td_schema_track(const struct td_schema *s, const yyjson_val *old, yyjson_mut_doc *d, yyjson_mut_val *now,
		     const struct td_apply *o);
