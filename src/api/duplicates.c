// Keys that occur twice in one JSON object. Kubernetes takes the last one and warns or refuses. Our
// own lookups would find the first and other programs the last, so no other part of the server may
// ever see such an object.
#include "api/schema_priv.h"

#include <stdlib.h>
#include <string.h>

struct key {
	const char *name;
	size_t pos;
};

static int cmp_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int c = strcmp(x->name, y->name);
	return c ? c : x->pos < y->pos ? -1 : 1;
}

// *ret gets the keys of o, sorted; the caller frees it. Returns whether one of them occurs twice.
static bool sorted_keys(yyjson_val *o, struct key **ret)
{
	size_t i, n;
	yyjson_val *k, *v;
	struct key *keys = td_malloc((yyjson_obj_size(o) + 1) * sizeof(*keys));

	yyjson_obj_foreach (o, i, n, k, v)
		keys[i] = (struct key){yyjson_get_str(k), i};
	qsort(keys, yyjson_obj_size(o), sizeof(*keys), cmp_key);
	*ret = keys;
	for (i = 1; i < yyjson_obj_size(o); i++)
		if (!strcmp(keys[i].name, keys[i - 1].name))
			return true;
	return false;
}

static bool small_has(yyjson_val *o)
{
	size_t i, n, j, m;
	yyjson_val *k, *v, *l, *w;
	yyjson_obj_foreach (o, i, n, k, v) {
		yyjson_obj_foreach (o, j, m, l, w) {
			if (j >= i)
				break;
			if (yyjson_equals_str(k, yyjson_get_str(l)))
				return true;
		}
	}
	return false;
}

static bool any(yyjson_val *v)
{
	size_t i, n;
	yyjson_val *k, *x;

	yyjson_arr_foreach (v, i, n, x)
		if (yyjson_is_ctn(x) && any(x))
			return true;
	if (!yyjson_is_obj(v))
		return false;
	if (yyjson_obj_size(v) <= 16) {
		if (small_has(v))
			return true;
	} else {
		td_auto_free struct key *keys = NULL;
		if (sorted_keys(v, &keys))
			return true;
	}

	yyjson_obj_foreach (v, i, n, k, x)
		if (yyjson_is_ctn(x) && any(x))
			return true;
	return false;
}

static yyjson_mut_val *without(yyjson_mut_doc *d, yyjson_val *v, struct td_buf *path, struct td_strv *ret)
{
	size_t i, n, len = path->len;
	yyjson_val *k, *x;

	if (yyjson_is_arr(v)) {
		yyjson_mut_val *a = yyjson_mut_arr(d);
		yyjson_arr_foreach (v, i, n, x) {
			td_buf_printf(path, "[%zu]", i);
			yyjson_mut_arr_append(a, without(d, x, path, ret));
			td_path_cut(path, len);
		}
		return a;
	}

	if (!yyjson_is_obj(v))
		return yyjson_val_mut_copy(d, v);

	yyjson_mut_val *o = yyjson_mut_obj(d);
	yyjson_obj_foreach (v, i, n, k, x) {
		const char *key = yyjson_get_str(k);
		td_api_path_key(path, key);
		if (yyjson_mut_obj_get(o, key))
			td_strv_add(ret, td_buf_str(path));
		td_jm_key_set(d, o, key, without(d, x, path, ret)); // the last one counts
		td_path_cut(path, len);
	}
	return o;
}

bool td_duplicates_drop(struct td_json **doc, struct td_strv *ret)
{
	if (!any(td_json_root(*doc)))
		return false;
	td_auto_buf struct td_buf path = {0};
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_doc_set_root(d, without(d, td_json_root(*doc), &path, ret));
	td_json_unref(*doc);
	*doc = td_jm_done(d);
	return true;
}
