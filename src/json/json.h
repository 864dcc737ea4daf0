// JSON documents (yyjson): parse, read, build, write, merge patch (RFC 7396), JSON patch (RFC
// 6902), and YAML both ways.
//
// Objects of both APIs are read in place from immutable yyjson documents by path; there is no typed
// mirror that could lose a field. `struct td_json` is an immutable, reference-counted document that
// threads may share. A value read from it lives as long as a reference. Mutable documents are plain
// yyjson_mut_doc, owned by one thread.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <yyjson.h>

// yyjson's own macro computes NULL + 1 when obj is NULL. It never reads it, but it is undefined
// behaviour, which clang's UBSan reports. Absent objects are common here.
#undef yyjson_obj_foreach
#define yyjson_obj_foreach(obj, idx, max, key, val)                                                                    \
	for ((idx) = 0, (max) = yyjson_obj_size(obj), (key) = (max) ? unsafe_yyjson_get_first(obj) : NULL,             \
	    (val) = (key) ? (key) + 1 : NULL;                                                                          \
	     (idx) < (max); (idx)++, (key) = unsafe_yyjson_get_next(val), (val) = (key) + 1)

TD_DEFINE_AUTO(yyjson_doc *, yyjson_doc_free)
TD_DEFINE_AUTO(yyjson_mut_doc *, yyjson_mut_doc_free)

// Limits of one document from outside: bytes and levels of nesting.
#define TD_JSON_MAX (64u << 20)
#define TD_JSON_DEPTH 128

// ---- immutable documents ----
struct td_json;
// TD_INVALID names the position in the text.
int td_json_parse(const char *s, size_t len, struct td_json **ret, struct td_error *err);
// Deep copies.
struct td_json *td_json_from_val(const yyjson_val *v);
struct td_json *td_json_from_mut(const yyjson_mut_val *v);
struct td_json *td_json_ref(struct td_json *j);
struct td_json *td_json_unref(struct td_json *j);  // NULL ok; returns NULL
yyjson_val *td_json_root(const struct td_json *j); // NULL for NULL
TD_DEFINE_AUTO(struct td_json *, td_json_unref)

// ---- reading by path ----
//
// A path is a list of keys joined by dots ("spec.template.metadata"); a component "[2]" is an array
// index. A key that contains dots (labels, annotations) is read with td_jkey on its map. A NULL
// value, a missing step or a wrong type gives NULL or the default.
yyjson_val *td_jget(const yyjson_val *v, const char *path);
const char *td_jstr(const yyjson_val *v, const char *path); // NULL when absent or not a string
const char *td_jstr_or(const yyjson_val *v, const char *path, const char *def);
// A real without a fraction counts as an integer.
long long td_jint(const yyjson_val *v, const char *path, long long def);
bool td_jbool(const yyjson_val *v, const char *path, bool def);
yyjson_val *td_jkey(const yyjson_val *map, const char *key); // one literal key
const char *td_jkey_str(const yyjson_val *map, const char *key);
// Returns the first object of an array whose string under `key` is `value` (a list map), or NULL.
yyjson_val *td_jfind(const yyjson_val *array, const char *key, const char *value);
// True when the array has this string.
bool td_jhas(const yyjson_val *array, const char *string);
// Appends the strings of an array and skips everything else.
void td_jstrs(const yyjson_val *array, struct td_strv *ret);
// Compares without regard to the order of keys. NULL equals NULL and JSON null.
bool td_jequal(const yyjson_val *a, const yyjson_val *b);

// ---- writing ----
//
// The caller frees the texts. ret_len may be NULL.
char *td_json_text(const yyjson_val *v, size_t *ret_len); // compact
char *td_json_mut_text(const yyjson_mut_val *v, size_t *ret_len);
// With 4 spaces, as kubectl -o json.
char *td_json_pretty(const yyjson_val *v);
// YAML 1.2 block style, as kubectl -o yaml.
char *td_yaml_text(const yyjson_val *v);

// ---- building mutable documents ----
//
// All strings are copied into the document. Paths are as for td_jget; missing objects on the way
// are created, but missing array elements are not.
yyjson_mut_doc *td_jm_new(void);                 // an empty object is the root
yyjson_mut_doc *td_jm_copy(const yyjson_val *v); // a mutable deep copy with v as root
// Return the object or array at path. A missing one is created empty, and anything else there is
// replaced.
yyjson_mut_val *td_jm_obj(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path);
yyjson_mut_val *td_jm_arr(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path);
yyjson_mut_val *td_jm_get(const yyjson_mut_val *v, const char *path);
const char *td_jm_getstr(const yyjson_mut_val *v, const char *path);
// The setters replace what is at the path.
void td_jm_set(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v);
// s NULL: nothing is set.
void td_jm_str(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *s);
void td_jm_strf(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void td_jm_int(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, long long n);
void td_jm_bool(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, bool b);
// A deep copy of v. v NULL: nothing is set.
void td_jm_copyval(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const yyjson_val *v);
// One literal key, for maps such as labels; replaces its value.
void td_jm_key_str(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key, const char *s);
void td_jm_key_set(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key, yyjson_mut_val *v);
void td_jm_del(yyjson_mut_val *o, const char *path); // an absent path is fine
// Returns an immutable copy of the root and frees d.
struct td_json *td_jm_done(yyjson_mut_doc *d);

// ---- templates ----
//
// A word is a name that strings of a template have in braces: "{cluster}-slurmctld". Words are
// filled in after parsing, so that no value can add a field or change a type. In a string or a key,
// a word becomes its text; a string that is nothing but the name of a number becomes that number.
// Braces around anything else stay as they are.
struct td_json_word {
	const char *name;
	const char *text; // NULL: the word is a number
	long long number;
};
yyjson_mut_doc *td_json_fill(const yyjson_val *template, const struct td_json_word *words, size_t n);

// ---- patches ----
//
// Both return a new immutable document. A merge patch that is NULL is TD_INVALID.
int td_json_merge_patch(const yyjson_val *target, const yyjson_val *patch, struct td_json **ret, struct td_error *err);
// TD_INVALID: an operation is malformed, the result is nested deeper than TD_JSON_DEPTH, or the
// copies exceed a limit. TD_CONFLICT: a path does not exist or a test failed. err names the index
// of the operation and its path.
int td_json_patch(const yyjson_val *target, const yyjson_val *ops, struct td_json **ret, struct td_error *err);

// ---- YAML in ----
//
// Reads every document of a YAML stream (JSON is YAML) and converts it as Kubernetes does: YAML 1.1
// scalars (true/false, null, integers, reals), and quoted scalars are strings. Empty documents are
// dropped. Aliases are expanded up to a limit. Errors name line and column, or the line.
struct td_json_list {
	struct td_json **v;
	size_t n;
};
int td_yaml_parse(const char *s, size_t len, struct td_json_list *ret, struct td_error *err);
void td_json_list_done(struct td_json_list *l);
#define td_auto_json_list __attribute__((cleanup(td_json_list_done)))
