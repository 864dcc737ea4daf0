// JSON documents (yyjson), YAML in, merge patch (RFC 7396), JSON patch (RFC 6902).
//
// Objects of both APIs are read *in place* from immutable yyjson documents by path: no typed mirror that could lose a
// field. `struct td_json` is an immutable, reference-counted document; anything read from it lives as long as a
// reference. Mutable documents are plain yyjson_mut_doc, owned by one thread.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <yyjson.h>

// yyjson's own computes NULL + 1 for no object at all: never read, but undefined (clang's UBSan says so). Absent
// objects are common here.
#undef yyjson_obj_foreach
#define yyjson_obj_foreach(obj, idx, max, key, val)                                                                    \
	for ((idx) = 0, (max) = yyjson_obj_size(obj), (key) = (max) ? unsafe_yyjson_get_first(obj) : NULL,             \
	    (val) = (key) ? (key) + 1 : NULL;                                                                          \
	     (idx) < (max); (idx)++, (key) = unsafe_yyjson_get_next(val), (val) = (key) + 1)

TD_DEFINE_AUTO(yyjson_doc *, yyjson_doc_free)
TD_DEFINE_AUTO(yyjson_mut_doc *, yyjson_mut_doc_free)

#define TD_JSON_MAX (64u << 20) // bytes of one document from outside
#define TD_JSON_DEPTH 128       // nesting of one document from outside

// ---- immutable, shared
// ------------------------------------------------------------------------------------------------
struct td_json;
int td_json_parse(const char *s, size_t len, struct td_json **ret, struct td_error *err); // TD_INVALID with position
struct td_json *td_json_from_val(const yyjson_val *v);                                    // deep copy
struct td_json *td_json_from_mut(const yyjson_mut_val *v);                                // deep copy
struct td_json *td_json_ref(struct td_json *j);
struct td_json *td_json_unref(struct td_json *j);  // NULL ok; returns NULL
yyjson_val *td_json_root(const struct td_json *j); // NULL for NULL
TD_DEFINE_AUTO(struct td_json *, td_json_unref)

// ---- reading by path
// ---------------------------------------------------------------------------------------------------- Paths are keys
// joined by dots ("spec.template.metadata"); "[2]" as a component is an array index. A key that contains dots (labels,
// annotations) is read with td_jkey on its map. NULL or a missing step gives NULL / the default; wrong types too.
yyjson_val *td_jget(const yyjson_val *v, const char *path);
const char *td_jstr(const yyjson_val *v, const char *path); // NULL when absent or no string
const char *td_jstr_or(const yyjson_val *v, const char *path, const char *def);
long long td_jint(const yyjson_val *v, const char *path, long long def); // integral reals too
bool td_jbool(const yyjson_val *v, const char *path, bool def);
yyjson_val *td_jkey(const yyjson_val *map, const char *key); // one literal key
const char *td_jkey_str(const yyjson_val *map, const char *key);
// The first element of an array of objects whose string under `key` is `value`, as list maps have them; NULL: none.
yyjson_val *td_jfind(const yyjson_val *array, const char *key, const char *value);
void td_jstrs(const yyjson_val *array, struct td_strv *ret); // appends the array's strings; what is none is passed over
bool td_jequal(const yyjson_val *a,
	       const yyjson_val *b); // order of object keys ignored; NULL equals NULL and JSON null

// ---- writing
// --------------------------------------------------------------------------------------------------------------
char *td_json_text(const yyjson_val *v, size_t *ret_len); // compact; caller frees; len may be NULL
char *td_json_mut_text(const yyjson_mut_val *v, size_t *ret_len);
char *td_json_pretty(const yyjson_val *v); // 4 spaces, as kubectl -o json
char *td_yaml_text(const yyjson_val *v);   // YAML 1.2 block style, as kubectl -o yaml

// ---- building mutable documents
// -------------------------------------------------------------------------------------------- All strings are copied
// into the doc. Paths as for td_jget, objects in between are created (indexes are not).
yyjson_mut_doc *td_jm_new(void);                                                   // with an empty object as root
yyjson_mut_doc *td_jm_copy(const yyjson_val *v);                                   // mutable deep copy, v as root
yyjson_mut_val *td_jm_obj(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path); // get or create an object
yyjson_mut_val *td_jm_arr(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path); // get or create an array
yyjson_mut_val *td_jm_get(const yyjson_mut_val *v, const char *path);
const char *td_jm_getstr(const yyjson_mut_val *v, const char *path);
void td_jm_set(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v); // replaces
void td_jm_str(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *s);     // s NULL: nothing is set
void td_jm_strf(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void td_jm_int(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, long long n);
void td_jm_bool(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, bool b);
void td_jm_copyval(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path,
		   const yyjson_val *v); // deep copy; NULL: nothing
void td_jm_key_str(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key,
		   const char *s); // one literal key (labels); replaces
void td_jm_key_set(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key,
		   yyjson_mut_val *v);               // one literal key; replaces
void td_jm_del(yyjson_mut_val *o, const char *path); // absent is fine
struct td_json *td_jm_done(yyjson_mut_doc *d);       // immutable copy of the root; frees d

// ---- templates
// ------------------------------------------------------------------------------------------------------------- A word
// that strings of a template name in braces: "{cluster}-slurmctld". It is filled in after parsing, so that no value can
// add a field or change a type: in a string or a key its text, and for a string that is nothing but the name of a
// number, the number. What is in braces and no word stays as it is.
struct td_json_word {
	const char *name;
	const char *text; // NULL: a number
	long long number;
};
yyjson_mut_doc *td_json_fill(const yyjson_val *template, const struct td_json_word *words, size_t n);

// ---- patches
// ---------------------------------------------------------------------------------------------------------------- Both
// return a new immutable document. `patch` NULL is TD_INVALID.
int td_json_merge_patch(const yyjson_val *target, const yyjson_val *patch, struct td_json **ret, struct td_error *err);
// TD_INVALID: malformed; TD_CONFLICT: a path that is not there or a test that failed. err names the operation's index
// and path.
int td_json_patch(const yyjson_val *target, const yyjson_val *ops, struct td_json **ret, struct td_error *err);

// ---- YAML in
// ------------------------------------------------------------------------------------------------------------------
// Every document of a YAML stream (JSON is YAML), converted as Kubernetes does (YAML 1.1 scalars: true/false, null,
// ints, floats; quoted scalars are strings). Empty documents are dropped. Errors name line and column. Aliases are
// expanded with a bound.
struct td_json_list {
	struct td_json **v;
	size_t n;
};
int td_yaml_parse(const char *s, size_t len, struct td_json_list *ret, struct td_error *err);
void td_json_list_done(struct td_json_list *l);
#define td_auto_json_list __attribute__((cleanup(td_json_list_done)))
