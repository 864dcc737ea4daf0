#include "json/json.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct td_json {
	yyjson_doc *doc;
	int refs;
};

static bool too_deep(yyjson_val *v, int depth)
{
	if (!yyjson_is_ctn(v))
		return false;
	if (depth >= TD_JSON_DEPTH)
		return true;
	size_t i, max;
	yyjson_val *k, *x;
	if (yyjson_is_arr(v)) {
		yyjson_arr_foreach (v, i, max, x)
			if (too_deep(x, depth + 1))
				return true;
	} else {
		yyjson_obj_foreach (v, i, max, k, x)
			if (too_deep(x, depth + 1))
				return true;
	}
	return false;
}

static struct td_json *wrap(yyjson_doc *doc)
{
	struct td_json *j = td_calloc(1, sizeof(*j));
	if (!doc)
		abort(); // a copy fails only without memory
	j->doc = doc;
	j->refs = 1;
	return j;
}

int td_json_parse(const char *s, size_t len, struct td_json **ret, struct td_error *err)
{
	if (len > TD_JSON_MAX)
		return td_fail(err, TD_INVALID, "JSON document of %zu bytes: the limit is %u", len, TD_JSON_MAX);
	yyjson_read_err e;
	yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)s, len, 0, NULL, &e);
	if (!doc)
		return td_fail(err, TD_INVALID, "JSON: %s at byte %zu", e.msg, e.pos);
	if (too_deep(yyjson_doc_get_root(doc), 0)) {
		yyjson_doc_free(doc);
		return td_fail(err, TD_INVALID, "JSON: nested deeper than %d", TD_JSON_DEPTH);
	}

	*ret = wrap(doc);
	return 0;
}

struct td_json *td_json_from_mut(const yyjson_mut_val *v)
{
	return wrap(yyjson_mut_val_imut_copy((yyjson_mut_val *)(uintptr_t)v, NULL));
}

struct td_json *td_json_from_val(const yyjson_val *v)
{
	yyjson_mut_doc *d = td_jm_copy(v);
	return td_jm_done(d);
}

struct td_json *td_json_ref(struct td_json *j)
{
	if (j)
		__atomic_add_fetch(&j->refs, 1, __ATOMIC_RELAXED);
	return j;
}

struct td_json *td_json_unref(struct td_json *j)
{
	if (j && __atomic_sub_fetch(&j->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		yyjson_doc_free(j->doc);
		free(j);
	}
	return NULL;
}

yyjson_val *td_json_root(const struct td_json *j)
{
	return j ? yyjson_doc_get_root(j->doc) : NULL;
}

// ---- reading ----

// Splits off one component of a path: a key, or for "[n]" an index (then it returns true). Moves *p
// behind the dot; NULL at the end.
static bool step(const char **p, const char **key, size_t *len, size_t *index)
{
	const char *s = *p, *e = strchrnul(s, '.');
	*key = s;
	*len = (size_t)(e - s);
	*p = *e ? e + 1 : NULL;
	if (*s == '[' && e > s + 2 && e[-1] == ']') {
		*index = (size_t)strtoull(s + 1, NULL, 10);
		return true;
	}
	return false;
}

yyjson_val *td_jget(const yyjson_val *cv, const char *path)
{
	yyjson_val *v = (yyjson_val *)(uintptr_t)cv;
	while (v && path) {
		const char *key;
		size_t len, index;
		if (step(&path, &key, &len, &index))
			v = yyjson_arr_get(v, index);
		else
			v = yyjson_obj_getn(v, key, len);
	}
	return v;
}

const char *td_jstr(const yyjson_val *v, const char *path)
{
	return yyjson_get_str(td_jget(v, path));
}

const char *td_jstr_or(const yyjson_val *v, const char *path, const char *def)
{
	const char *s = td_jstr(v, path);
	return s ? s : def;
}

long long td_jint(const yyjson_val *v, const char *path, long long def)
{
	yyjson_val *x = td_jget(v, path);
	if (yyjson_is_int(x))
		return yyjson_get_sint(x);
	if (yyjson_is_real(x)) {
		double d = yyjson_get_real(x);
		if (d == floor(d) && fabs(d) < 9e15)
			return (long long)d;
	}
	return def;
}

bool td_jbool(const yyjson_val *v, const char *path, bool def)
{
	yyjson_val *x = td_jget(v, path);
	return yyjson_is_bool(x) ? yyjson_get_bool(x) : def;
}

yyjson_val *td_jkey(const yyjson_val *map, const char *key)
{
	return yyjson_obj_get((yyjson_val *)(uintptr_t)map, key);
}

const char *td_jkey_str(const yyjson_val *map, const char *key)
{
	return yyjson_get_str(td_jkey(map, key));
}

yyjson_val *td_jfind(const yyjson_val *array, const char *key, const char *value)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)array, i, n, v)
		if (td_streq(yyjson_get_str(yyjson_obj_get(v, key)), value))
			return v;
	return NULL;
}

bool td_jhas(const yyjson_val *array, const char *string)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)array, i, n, v)
		if (td_streq(yyjson_get_str(v), string))
			return true;
	return false;
}

void td_jstrs(const yyjson_val *array, struct td_strv *ret)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)array, i, n, v)
		if (yyjson_is_str(v))
			td_strv_add(ret, yyjson_get_str(v));
}

bool td_jequal(const yyjson_val *a, const yyjson_val *b)
{
	yyjson_val *x = (yyjson_val *)(uintptr_t)a, *y = (yyjson_val *)(uintptr_t)b;

	if (!x || yyjson_is_null(x))
		return !y || yyjson_is_null(y);
	if (!y)
		return false;
	return yyjson_equals(x, y);
}

// ---- writing ----

static char *own(char *s)
{
	if (!s)
		abort();
	return s;
}

char *td_json_text(const yyjson_val *v, size_t *ret_len)
{
	return own(yyjson_val_write_opts(v, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL, ret_len, NULL));
}

char *td_json_mut_text(const yyjson_mut_val *v, size_t *ret_len)
{
	return own(yyjson_mut_val_write_opts(v, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL, ret_len, NULL));
}

char *td_json_pretty(const yyjson_val *v)
{
	return own(
		yyjson_val_write_opts(v, YYJSON_WRITE_PRETTY | YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL, NULL, NULL));
}

// ---- building ----

yyjson_mut_doc *td_jm_new(void)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	if (!d)
		abort();
	yyjson_mut_doc_set_root(d, yyjson_mut_obj(d));
	return d;
}

yyjson_mut_doc *td_jm_copy(const yyjson_val *v)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	if (!d)
		abort();
	yyjson_mut_doc_set_root(d, v ? yyjson_val_mut_copy(d, (yyjson_val *)(uintptr_t)v) : yyjson_mut_null(d));
	return d;
}

yyjson_mut_val *td_jm_get(const yyjson_mut_val *cv, const char *path)
{
	yyjson_mut_val *v = (yyjson_mut_val *)(uintptr_t)cv;
	while (v && path) {
		const char *key;
		size_t len, index;
		if (step(&path, &key, &len, &index))
			v = yyjson_mut_arr_get(v, index);
		else
			v = yyjson_mut_obj_getn(v, key, len);
	}
	return v;
}

const char *td_jm_getstr(const yyjson_mut_val *v, const char *path)
{
	return yyjson_mut_get_str(td_jm_get(v, path));
}

// Walks to the parent of the last component and creates missing objects. Returns the parent and the
// last key, which the caller frees.
static yyjson_mut_val *parent(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, char **ret_key)
{
	for (;;) {
		const char *key;
		size_t len, index;
		bool idx = step(&path, &key, &len, &index);
		if (!path) {
			*ret_key = td_strndup(key, len);
			return o;
		}
		yyjson_mut_val *next = idx ? yyjson_mut_arr_get(o, index) : yyjson_mut_obj_getn(o, key, len);
		if (!idx && !yyjson_mut_is_ctn(next)) {
			td_auto_free char *k = td_strndup(key, len);
			next = yyjson_mut_obj(d);
			td_jm_key_set(d, o, k, next);
		}
		o = next;
	}
}

void td_jm_key_set(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key, yyjson_mut_val *v)
{
	yyjson_mut_val *k = yyjson_mut_strcpy(d, key);
	if (yyjson_mut_obj_get(map, key))
		yyjson_mut_obj_replace(map, k, v);
	else
		yyjson_mut_obj_add(map, k, v);
}

void td_jm_key_str(yyjson_mut_doc *d, yyjson_mut_val *map, const char *key, const char *s)
{
	td_jm_key_set(d, map, key, yyjson_mut_strcpy(d, s));
}

void td_jm_set(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v)
{
	td_auto_free char *key = NULL;
	yyjson_mut_val *p = parent(d, o, path, &key);
	td_jm_key_set(d, p, key, v);
}

static yyjson_mut_val *get_or_make(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, bool arr)
{
	yyjson_mut_val *v = td_jm_get(o, path);
	if (arr ? yyjson_mut_is_arr(v) : yyjson_mut_is_obj(v))
		return v;
	v = arr ? yyjson_mut_arr(d) : yyjson_mut_obj(d);
	td_jm_set(d, o, path, v);
	return v;
}

yyjson_mut_val *td_jm_obj(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path)
{
	return get_or_make(d, o, path, false);
}

yyjson_mut_val *td_jm_arr(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path)
{
	return get_or_make(d, o, path, true);
}

void td_jm_str(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *s)
{
	if (s)
		td_jm_set(d, o, path, yyjson_mut_strcpy(d, s));
}

void td_jm_strf(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *s = td_vasprintf(fmt, ap);
	va_end(ap);
	td_jm_str(d, o, path, s);
}

void td_jm_int(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, long long n)
{
	td_jm_set(d, o, path, yyjson_mut_sint(d, n));
}

void td_jm_bool(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, bool b)
{
	td_jm_set(d, o, path, yyjson_mut_bool(d, b));
}

void td_jm_copyval(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const yyjson_val *v)
{
	if (v)
		td_jm_set(d, o, path, yyjson_val_mut_copy(d, (yyjson_val *)(uintptr_t)v));
}

void td_jm_del(yyjson_mut_val *o, const char *path)
{
	const char *dot = strrchr(path, '.');
	if (dot) {
		td_auto_free char *p = td_strndup(path, (size_t)(dot - path));
		o = td_jm_get(o, p);
		path = dot + 1;
	}
	if (yyjson_mut_is_obj(o))
		yyjson_mut_obj_remove_key(o, path);
}

struct td_json *td_jm_done(yyjson_mut_doc *d)
{
	struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	yyjson_mut_doc_free(d);
	return j;
}
