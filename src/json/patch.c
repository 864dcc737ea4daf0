// Merge patch (RFC 7396) and JSON patch (RFC 6902) over yyjson documents.
#include "json/json.h"

#include <string.h>

#define COPIED_MAX (3u << 20) // bytes of all copies of one patch

int td_json_merge_patch(const yyjson_val *target, const yyjson_val *patch, struct td_json **ret, struct td_error *err)
{
	if (!patch)
		return td_fail(err, TD_INVALID, "merge patch: no document");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(NULL);
	yyjson_mut_val *v = yyjson_merge_patch(d, (yyjson_val *)(uintptr_t)target, (yyjson_val *)(uintptr_t)patch);
	if (!v)
		return td_fail(err, TD_INTERNAL, "merge patch failed");
	*ret = td_json_from_mut(v);
	return 0;
}

// Returns one RFC 6901 token unescaped; the caller frees it.
static char *token(const char *s, size_t n)
{
	char *t = td_strndup(s, n), *w = t;
	for (char *r = t; *r; r++) {
		if (*r == '~' && (r[1] == '0' || r[1] == '1'))
			*w++ = *++r == '0' ? '~' : '/';
		else
			*w++ = *r;
	}
	*w = '\0';
	return t;
}

// Parses an array index of RFC 6901: digits without a leading zero, below `limit`.
static bool array_index(const char *t, size_t limit, size_t *ret)
{
	long long n;
	if (t[0] < '0' || t[0] > '9' || (t[0] == '0' && t[1]) || !td_parse_i64(t, &n) || (size_t)n >= limit)
		return false;
	*ret = (size_t)n;
	return true;
}

// Finds the container and the last token of a JSON pointer. For the pointer "" *ret_parent is NULL.
static bool locate(yyjson_mut_val *root, const char *ptr, yyjson_mut_val **ret_parent, char **ret_last)
{
	*ret_parent = NULL;
	*ret_last = NULL;
	if (!*ptr)
		return true;
	if (*ptr != '/')
		return false;

	yyjson_mut_val *v = root;
	for (;;) {
		const char *s = ptr + 1, *e = strchrnul(s, '/');
		char *t = token(s, (size_t)(e - s));
		if (!*e) {
			*ret_parent = v;
			*ret_last = t;
			return yyjson_mut_is_ctn(v);
		}
		size_t i;
		if (yyjson_mut_is_arr(v))
			v = array_index(t, yyjson_mut_arr_size(v), &i) ? yyjson_mut_arr_get(v, i) : NULL;
		else
			v = yyjson_mut_obj_get(v, t);
		free(t);
		if (!v)
			return false;
		ptr = e;
	}
}

static yyjson_mut_val *lookup(yyjson_mut_val *root, const char *ptr)
{
	yyjson_mut_val *p;
	td_auto_free char *last = NULL;
	if (!locate(root, ptr, &p, &last))
		return NULL;
	if (!p)
		return root;

	size_t i;
	if (yyjson_mut_is_arr(p))
		return array_index(last, yyjson_mut_arr_size(p), &i) ? yyjson_mut_arr_get(p, i) : NULL;
	return yyjson_mut_obj_get(p, last);
}

static bool add(yyjson_mut_doc *d, const char *ptr, yyjson_mut_val *v, bool replace)
{
	yyjson_mut_val *p, *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *last = NULL;
	if (!locate(root, ptr, &p, &last))
		return false;
	if (!p) {
		yyjson_mut_doc_set_root(d, v);
		return true;
	}

	if (yyjson_mut_is_arr(p)) {
		size_t n = yyjson_mut_arr_size(p), i;
		if (replace)
			return array_index(last, n, &i) && yyjson_mut_arr_replace(p, i, v);
		if (strcmp(last, "-") == 0)
			return yyjson_mut_arr_append(p, v);
		return array_index(last, n + 1, &i) && yyjson_mut_arr_insert(p, v, i);
	}

	if (replace && !yyjson_mut_obj_get(p, last))
		return false;
	td_jm_key_set(d, p, last, v);
	return true;
}

static bool cut(yyjson_mut_doc *d, const char *ptr)
{
	yyjson_mut_val *p;
	td_auto_free char *last = NULL;
	if (!locate(yyjson_mut_doc_get_root(d), ptr, &p, &last) || !p)
		return false;

	size_t i;
	if (yyjson_mut_is_arr(p))
		return array_index(last, yyjson_mut_arr_size(p), &i) && yyjson_mut_arr_remove(p, i);
	return yyjson_mut_obj_remove_key(p, last) != NULL;
}

// Tells whether v may be put at this depth, and adds its approximate size to *bytes.
static bool measure(yyjson_mut_val *v, int depth, size_t *bytes)
{
	size_t i, max;
	yyjson_mut_val *k, *x;
	*bytes += 16 + (yyjson_mut_is_ctn(v) ? 0 : yyjson_mut_get_len(v));
	if (!yyjson_mut_is_ctn(v))
		return true;
	if (depth >= TD_JSON_DEPTH)
		return false;

	if (yyjson_mut_is_arr(v)) {
		yyjson_mut_arr_foreach (v, i, max, x)
			if (!measure(x, depth + 1, bytes))
				return false;
		return true;
	}
	yyjson_mut_obj_foreach (v, i, max, k, x) {
		*bytes += yyjson_mut_get_len(k);
		if (!measure(x, depth + 1, bytes))
			return false;
	}
	return true;
}

static int depth_of(const char *ptr)
{
	int n = 0;
	for (; *ptr; ptr++)
		n += *ptr == '/';
	return n;
}

int td_json_patch(const yyjson_val *target, const yyjson_val *ops, struct td_json **ret, struct td_error *err)
{
	if (!yyjson_is_arr((yyjson_val *)(uintptr_t)ops))
		return td_fail(err, TD_INVALID, "JSON patch must be a list of operations");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(target);
	size_t i, max, copied = 0;
	yyjson_val *op;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)ops, i, max, op) {
		size_t bytes = 0;
		bool fits = true;
		const char *name = td_jstr(op, "op"), *path = td_jstr(op, "path"), *from = td_jstr(op, "from");
		yyjson_val *value = td_jget(op, "value");

		if (!name || !path)
			return td_fail(err, TD_INVALID, "JSON patch operation %zu: op and path are required", i);
		bool is_add = !strcmp(name, "add"), is_replace = !strcmp(name, "replace"),
		     is_test = !strcmp(name, "test");
		bool is_move = !strcmp(name, "move"), is_copy = !strcmp(name, "copy"), done = false;

		if ((is_add || is_replace || is_test) && !value)
			return td_fail(err, TD_INVALID, "JSON patch operation %zu (%s %s): value is required", i, name,
				       path);
		if ((is_move || is_copy) && !from)
			return td_fail(err, TD_INVALID, "JSON patch operation %zu (%s %s): from is required", i, name,
				       path);

		if (is_add || is_replace) {
			yyjson_mut_val *v = yyjson_val_mut_copy(d, value);
			fits = measure(v, depth_of(path), &bytes);
			done = fits && add(d, path, v, is_replace);
		} else if (!strcmp(name, "remove")) {
			done = cut(d, path);
		} else if (is_move || is_copy) {
			size_t fl = strlen(from);
			yyjson_mut_val *v = lookup(yyjson_mut_doc_get_root(d), from);
			bool into_itself = is_move && !strncmp(path, from, fl) && path[fl] == '/';
			done = v && !into_itself;
			fits = !done || measure(v, depth_of(path), &bytes);
			copied += is_copy ? bytes : 0;
			// A few copies of copies would fill the memory.
			if (copied > COPIED_MAX)
				return td_fail(err, TD_INVALID,
					       "JSON patch operation %zu (copy): more than %u bytes are copied", i,
					       COPIED_MAX);
			if (done && fits) {
				v = yyjson_mut_val_mut_copy(d, v);
				done = (is_copy || cut(d, from)) && add(d, path, v, false);
			}
		} else if (is_test) {
			yyjson_mut_val *v = lookup(yyjson_mut_doc_get_root(d), path);
			yyjson_mut_val *want = yyjson_val_mut_copy(d, value);
			done = v && yyjson_mut_equals(v, want);
		} else {
			return td_fail(err, TD_INVALID, "JSON patch operation %zu: unknown op \"%s\"", i, name);
		}

		if (!fits)
			return td_fail(err, TD_INVALID, "JSON patch operation %zu (%s %s): nested deeper than %d", i,
				       name, path, TD_JSON_DEPTH);
		if (!done)
			return td_fail(err, TD_CONFLICT, "JSON patch operation %zu (%s %s) %s", i, name, path,
				       is_test ? "failed: the value differs" : "does not apply: no such path");
	}

	*ret = td_json_from_mut(yyjson_mut_doc_get_root(d));
	return 0;
}
