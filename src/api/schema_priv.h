// The compiled schema: one node per structural node, all in one arena, immutable once compiled.
#pragma once

#include "api/schema.h"

#include <regex.h>

enum td_stype { TD_S_ANY, TD_S_OBJECT, TD_S_ARRAY, TD_S_STRING, TD_S_INTEGER, TD_S_NUMBER, TD_S_BOOLEAN };
enum td_list_type { TD_L_ATOMIC, TD_L_SET, TD_L_MAP };
struct td_prop {
	const char *name;
	struct td_schema *s;
};
struct td_regex {
	regex_t re;
	struct td_regex *next;
};
struct td_schema {
	// Of the root only: what the whole tree lives in.
	struct td_json *doc;
	struct td_arena *arena;
	struct td_regex *regexes;

	enum td_stype type;
	bool nullable, int_or_string, preserve, embedded, map_atomic, quantity;
	bool has_default; // here or anywhere below
	bool allow_dup;   // x-tandem-duplicates: list-map keys serve merging only
	bool merge_patch; // x-kubernetes-patch-strategy contains "merge"
	bool retain_keys; // … contains "retainKeys"
	enum td_list_type list_type;
	const char **keys; // list-map keys
	size_t n_keys;
	const char *merge_key; // x-kubernetes-patch-merge-key
	struct td_prop *props; // sorted by name
	size_t n_props;
	struct td_schema *additional; // of maps; NULL: none
	struct td_schema *items;
	yyjson_val *def, *enums;
	// Value validation; NULL or absent: not checked.
	const char **required;
	size_t n_required;
	const char *pattern, *format;
	regex_t *re;
	bool has_min, has_max, ex_min, ex_max, has_multiple;
	double min, max, multiple;
	long long min_len, max_len, min_items, max_items, min_props, max_props; // -1: none
	struct td_schema **all_of, **any_of, **one_of, *not_;
	size_t n_all, n_any, n_one;
};

const struct td_schema *td_schema_prop(const struct td_schema *s, const char *key); // declared, or of the map; NULL: unknown
const struct td_schema *td_schema_declared(const struct td_schema *s, const char *key);
// Writes quantities as they are stored (0.5 → 500m), in place; part of td_schema_default.
void td_schema_canonical(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj);
// Appends ".key" or "[key]" when the key is no plain word.
void td_path_key(struct td_buf *b, const char *key);
static inline void td_path_cut(struct td_buf *b, size_t len)
{
	b->len = len;
	if (b->cap)
		b->s[len] = '\0';
}
// Value of one list-map key in an item, the schema's default when the item lacks it; NULL when neither.
const yyjson_val *td_item_key(const struct td_schema *list, const yyjson_val *item, const char *key);
static inline yyjson_val *td_unconst(const yyjson_val *v)
{
	return (yyjson_val *)(uintptr_t)v;
}
// A key of an object; keys are always strings.
static inline const char *td_keystr(yyjson_val *k)
{
	const char *s = yyjson_get_str(k);
	return s ? s : "";
}
