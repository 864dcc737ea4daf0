// The compiled schema: one struct per schema node, all in one arena, immutable once compiled.
// Built-in kinds share the nodes of the parts that they name.
#pragma once

#include "api/schema.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum td_stype { TD_S_ANY, TD_S_OBJECT, TD_S_ARRAY, TD_S_STRING, TD_S_INTEGER, TD_S_NUMBER, TD_S_BOOLEAN };
enum td_api_list_type { TD_L_ATOMIC, TD_L_SET, TD_L_MAP };
struct td_prop {
	const char *name;
	struct td_schema *s;
};
struct td_pattern { // pattern.c
	const char *text;
	pcre2_code *re; // atomic; NULL: not compiled yet
	struct td_pattern *next;
};
bool td_pattern_ok(const char *pattern); // in RE2's language, and not too large
// s is UTF-8. What cannot be decided within the bounds (a text above 64 KiB) does not match.
// Thread-safe.
bool td_pattern_matches(struct td_pattern *p, const char *s, size_t n);
void td_pattern_done(struct td_pattern *p);
// Rare keywords of a node are kept apart, so that the many plain nodes stay small.
struct td_limits {
	struct td_pattern *pattern;
	bool has_min, has_max, ex_min, ex_max, has_multiple;
	double min, max, multiple;
	long long min_len, max_len, min_items, max_items, min_props, max_props; // -1: none
};
struct td_logic {
	struct td_schema **all_of, **any_of, **one_of, *not_;
	size_t n_all, n_any, n_one;
};
struct td_schema {
	uint8_t type;      // enum td_stype
	uint8_t list_type; // enum td_api_list_type
	bool nullable, int_or_string, preserve, embedded, map_atomic, quantity;
	// The format is date-time or micro-time in a built-in kind: stored in UTC, with as many
	// digits as the type has.
	bool is_time;
	bool has_default; // here or anywhere below
	bool allow_dup;   // x-tandem-duplicates: list-map keys only serve merging
	bool merge_patch; // x-kubernetes-patch-strategy contains "merge"
	bool retain_keys; // … contains "retainKeys"
	unsigned n_keys, n_props, n_required;
	const char **keys;            // list-map keys
	const char *merge_key;        // x-kubernetes-patch-merge-key
	struct td_prop *props;        // sorted by name
	struct td_schema *additional; // of maps; NULL: none
	struct td_schema *items;
	// Validation of values; NULL means no check.
	yyjson_val *def, *enums;
	const char **required;
	const char *format;
	const struct td_limits *limits;
	const struct td_logic *logic;
};

// Compiles the schema of a whole object of a kind: raw with apiVersion, kind and metadata. With
// shared, raw may hold $ref to shared parts, and the result lives as long as the process; otherwise
// as td_schema_compile. ret_problem, which may be NULL, gets one cause on failure. Its field is the
// place below the root of the schema, "" for the root itself.
int td_schema_compile_kind(struct td_json *src, const yyjson_val *raw, bool shared, struct td_schema **ret,
			   struct td_causes *ret_problem, struct td_error *err);

// ---- shared.c: parts of built-in kinds, named by $ref ----
struct td_shared {
	const char *name;
	yyjson_val *raw;
	struct td_schema *s; // NULL until compiled
};
struct td_shared *td_shared_find(const char *name);
// Merges v, a node with a $ref and other keywords, into one node. A $ref below it stays. The result
// is kept for ever; callers hold the lock of compile.c.
yyjson_val *td_shared_flat(yyjson_val *v);
// A copy of v with every $ref replaced by its part.
yyjson_mut_val *td_shared_inline(yyjson_mut_doc *d, const yyjson_val *v);

// Returns the declared property, or the schema of the map's values; NULL: unknown.
const struct td_schema *td_schema_prop(const struct td_schema *s, const char *key);
// Compares struct td_prop by name, for qsort and bsearch.
int td_schema_cmp_prop(const void *a, const void *b);
const struct td_schema *td_schema_declared(const struct td_schema *s, const char *key);
// Writes quantities and times in place as they are stored (0.5 → 500m); a part of
// td_schema_default.
void td_schema_canonical(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj);
// Appends ".key", or "[key]" when the key is not a plain word.
void td_api_path_key(struct td_buf *b, const char *key);
static inline void td_path_cut(struct td_buf *b, size_t len)
{
	b->len = len;
	if (b->cap)
		b->s[len] = '\0';
}
// Returns the value of one list-map key of an item, or the default of the schema when the item
// lacks it, or NULL.
const yyjson_val *td_api_item_key(const struct td_schema *list, const yyjson_val *item, const char *key);
static inline yyjson_val *td_unconst(const yyjson_val *v)
{
	return (yyjson_val *)(uintptr_t)v;
}
// The text of an object's key, never NULL.
static inline const char *td_keystr(yyjson_val *k)
{
	const char *s = yyjson_get_str(k);
	return s ? s : "";
}
