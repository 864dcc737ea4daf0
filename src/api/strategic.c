// kubectl's strategic merge patch (Kubernetes community notes, "strategic-merge-patch"; the rules
// of order as in apimachinery's patch.go).
#include "api/schema_priv.h"

#include <string.h>

#define ORDER "$setElementOrder/"
#define DELETE_FROM "$deleteFromPrimitiveList/"
#define RETAIN "$retainKeys"
#define PATCH "$patch"

struct smp {
	yyjson_mut_doc *d;
	struct td_error *err;
};

static int merge_map(struct smp *m, const struct td_schema *s, yyjson_mut_val *target, yyjson_val *patch);

static const struct td_schema *field(const struct td_schema *s, const char *key)
{
	return s ? td_schema_prop(s, key) : NULL;
}

static bool is_directive(const char *key)
{
	return !strcmp(key, PATCH) || !strcmp(key, RETAIN) || td_starts(key, ORDER) || td_starts(key, DELETE_FROM);
}

// What a patch adds where nothing was: the patch without directives, nulls and deletions.
static yyjson_mut_val *clean(struct smp *m, yyjson_val *v)
{
	size_t i, max;
	yyjson_val *k, *x;
	if (yyjson_is_arr(v)) {
		yyjson_mut_val *a = yyjson_mut_arr(m->d);
		yyjson_arr_foreach (v, i, max, x) {
			if (yyjson_is_obj(x) && td_streq(td_jkey_str(x, PATCH), "delete"))
				continue;
			if (yyjson_is_obj(x) && td_jkey(x, PATCH) && yyjson_obj_size(x) == 1)
				continue;
			yyjson_mut_arr_append(a, clean(m, x));
		}
		return a;
	}

	if (!yyjson_is_obj(v))
		return yyjson_val_mut_copy(m->d, v);

	yyjson_mut_val *o = yyjson_mut_obj(m->d);
	yyjson_obj_foreach (v, i, max, k, x) {
		if (!is_directive(yyjson_get_str(k)) && !yyjson_is_null(x))
			td_jm_key_set(m->d, o, yyjson_get_str(k), clean(m, x));
	}
	return o;
}

// Tells whether list element e and patch element p are the same: by merge key, or by value when key
// is NULL.
static bool same(const char *key, const yyjson_mut_val *e, const yyjson_val *p)
{
	const yyjson_val *pv = key ? td_jkey(p, key) : p;
	yyjson_mut_val *ev =
		key ? yyjson_mut_obj_get((yyjson_mut_val *)(uintptr_t)e, key) : (yyjson_mut_val *)(uintptr_t)e;
	if (!pv || !ev)
		return false;
	td_auto_free char *a = td_json_mut_text(ev, NULL), *b = td_json_text(pv, NULL);
	return !strcmp(a, b);
}

static yyjson_mut_val *find(yyjson_mut_val *list, const char *key, const yyjson_val *p)
{
	size_t i, max;
	yyjson_mut_val *x;
	yyjson_mut_arr_foreach (list, i, max, x) {
		if (same(key, x, p))
			return x;
	}
	return NULL;
}

static void remove_same(yyjson_mut_val *list, const char *key, const yyjson_val *p)
{
	yyjson_mut_arr_iter it;
	yyjson_mut_arr_iter_init(list, &it);
	for (yyjson_mut_val *x; (x = yyjson_mut_arr_iter_next(&it));)
		if (same(key, x, p))
			yyjson_mut_arr_iter_remove(&it);
}

static int merge_list(struct smp *m, const struct td_schema *s, yyjson_mut_val *list, yyjson_val *patch,
		      const char *name)
{
	const char *key = s->merge_key && (!s->items || s->items->type == TD_S_OBJECT) ? s->merge_key : NULL;
	size_t i, max;
	yyjson_val *p;
	// {$patch: replace} as an element: the other elements are the whole new list.
	yyjson_arr_foreach (patch, i, max, p) {
		if (key && td_streq(td_jkey_str(p, PATCH), "replace") && !td_jkey(p, key)) {
			yyjson_mut_arr_clear(list);
			break;
		}
	}

	yyjson_arr_foreach (patch, i, max, p) {
		const char *directive = yyjson_is_obj(p) ? td_jkey_str(p, PATCH) : NULL;
		if (key && !td_jkey(p, key)) {
			if (td_streq(directive, "replace"))
				continue;
			return td_fail(m->err, TD_INVALID, "%s[%zu]: the merge key %s is missing", name, i, key);
		}
		if (td_streq(directive, "delete")) {
			remove_same(list, key, p);
			continue;
		}
		if (directive && strcmp(directive, "merge") && strcmp(directive, "replace"))
			return td_fail(m->err, TD_INVALID, "%s[%zu]: $patch \"%.40s\": write merge, replace or delete",
				       name, i, directive);

		yyjson_mut_val *old = find(list, key, p);
		if (!old)
			yyjson_mut_arr_append(list, clean(m, p));
		else if (key) {
			int r = merge_map(m, s->items, old, p);
			if (r)
				return r;
		}
	}
	return 0;
}

static size_t index_in(const yyjson_mut_val *list, const char *key, const yyjson_mut_val *e)
{
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(e);
	size_t i, max;
	yyjson_mut_val *x;
	yyjson_mut_arr_foreach ((yyjson_mut_val *)(uintptr_t)list, i, max, x) {
		if (same(key, x, td_json_root(j)))
			return i;
	}
	return SIZE_MAX;
}

// Sorts the elements that `order` names as it says. The others keep their place relative to
// `before`, the list as it was; new elements named by `order` come first.
static void set_order(struct smp *m, const char *key, yyjson_mut_val *list, const yyjson_mut_val *before,
		      yyjson_val *order)
{
	yyjson_mut_val *named = yyjson_mut_arr(m->d), *rest = yyjson_mut_arr(m->d), *x;
	size_t i, max;
	yyjson_val *o;
	yyjson_mut_arr_iter it;

	yyjson_arr_foreach (order, i, max, o) {
		yyjson_mut_arr_iter_init(list, &it);
		while ((x = yyjson_mut_arr_iter_next(&it)))
			if (same(key, x, o)) {
				yyjson_mut_arr_iter_remove(&it);
				yyjson_mut_arr_append(named, x);
				break;
			}
	}

	while ((x = yyjson_mut_arr_remove_first(list)))
		yyjson_mut_arr_append(rest, x);

	while (yyjson_mut_arr_size(named) || yyjson_mut_arr_size(rest)) {
		yyjson_mut_val *a = yyjson_mut_arr_get_first(named), *b = yyjson_mut_arr_get_first(rest);
		bool left = a && !b;
		if (a && b) {
			size_t ia = index_in(before, key, a), ib = index_in(before, key, b);
			left = ia == SIZE_MAX || ib == SIZE_MAX || ia < ib;
		}
		yyjson_mut_arr_append(list, yyjson_mut_arr_remove_first(left ? named : rest));
	}
}

static int merge_field(struct smp *m, const struct td_schema *s, yyjson_mut_val *target, const char *key, yyjson_val *p)
{
	const struct td_schema *f = field(s, key);
	if (yyjson_is_null(p)) {
		yyjson_mut_obj_remove_key(target, key);
		return 0;
	}

	yyjson_mut_val *old = yyjson_mut_obj_get(target, key);
	if (yyjson_is_obj(p)) {
		const char *directive = td_jkey_str(p, PATCH);
		if (td_streq(directive, "delete")) {
			yyjson_mut_obj_remove_key(target, key);
			return 0;
		}
		if (yyjson_mut_is_obj(old))
			return merge_map(m, f, old, p);
	}

	if (yyjson_is_arr(p) && yyjson_mut_is_arr(old) && f && f->merge_patch)
		return merge_list(m, f, old, p, key);
	td_jm_key_set(m->d, target, key, clean(m, p));
	return 0;
}

static void retain(yyjson_mut_val *target, const yyjson_val *keys)
{
	yyjson_mut_obj_iter it;
	yyjson_mut_obj_iter_init(target, &it);
	for (yyjson_mut_val *k; (k = yyjson_mut_obj_iter_next(&it));) {
		bool keep = false;
		size_t i, max;
		yyjson_val *x;
		yyjson_arr_foreach (td_unconst(keys), i, max, x)
			keep = keep || td_streq(yyjson_get_str(x), yyjson_mut_get_str(k));
		if (!keep)
			yyjson_mut_obj_iter_remove(&it);
	}
}

static int merge_map(struct smp *m, const struct td_schema *s, yyjson_mut_val *target, yyjson_val *patch)
{
	const char *directive = td_jkey_str(patch, PATCH);
	size_t i, max, j, n;
	yyjson_val *k, *p, *x;
	if (td_streq(directive, "delete") || td_streq(directive, "replace")) {
		yyjson_mut_obj_clear(target);
		if (*directive == 'd')
			return 0;
	} else if (directive && strcmp(directive, "merge")) {
		return td_fail(m->err, TD_INVALID, "$patch \"%.40s\": write merge, replace or delete", directive);
	}

	p = td_jkey(patch, RETAIN);
	if (p && !yyjson_is_arr(p))
		return td_fail(m->err, TD_INVALID, "$retainKeys: must be a list of keys");
	if (p)
		retain(target, p);

	yyjson_obj_foreach (patch, i, max, k, p) {
		const char *key = yyjson_get_str(k);
		if (!strcmp(key, PATCH) || !strcmp(key, RETAIN) || td_starts(key, ORDER))
			continue;
		if (td_starts(key, DELETE_FROM)) {
			yyjson_mut_val *list = yyjson_mut_obj_get(target, key + strlen(DELETE_FROM));
			if (yyjson_mut_is_arr(list))
				yyjson_arr_foreach (p, j, n, x)
					remove_same(list, NULL, x);
			continue;
		}

		td_auto_free char *order_key = td_asprintf(ORDER "%s", key);
		yyjson_val *order = td_jkey(patch, order_key);
		const struct td_schema *f = field(s, key);
		if (!order && f && f->merge_patch && yyjson_is_arr(p))
			order = p; // a list sent without an order is an order itself

		yyjson_mut_val *before = order ? yyjson_mut_val_mut_copy(m->d, yyjson_mut_obj_get(target, key)) : NULL;
		int r = merge_field(m, s, target, key, p);
		if (r)
			return r;

		yyjson_mut_val *list = yyjson_mut_obj_get(target, key);
		if (order && f && f->merge_patch && yyjson_mut_is_arr(list))
			set_order(m, f->merge_key, list, before, order);
	}

	// An order without the list itself only sorts.
	yyjson_obj_foreach (patch, i, max, k, p) {
		const char *key = yyjson_get_str(k);
		if (!td_starts(key, ORDER) || td_jkey(patch, key + strlen(ORDER)))
			continue;
		key += strlen(ORDER);
		const struct td_schema *f = field(s, key);
		yyjson_mut_val *list = yyjson_mut_obj_get(target, key);
		if (f && f->merge_patch && yyjson_mut_is_arr(list))
			set_order(m, f->merge_key, list, yyjson_mut_val_mut_copy(m->d, list), p);
	}
	return 0;
}

int td_strategic_merge(const struct td_schema *s, const yyjson_val *target, const yyjson_val *patch,
		       struct td_json **ret, struct td_error *err)
{
	if (!yyjson_is_obj(td_unconst(patch)))
		return td_fail(err, TD_INVALID, "strategic merge patch: an object is needed");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		yyjson_is_obj(td_unconst(target)) ? td_jm_copy(target) : td_jm_new();
	struct smp m = {d, err};
	int r = merge_map(&m, s, yyjson_mut_doc_get_root(d), td_unconst(patch));
	if (!r)
		*ret = td_json_from_mut(yyjson_mut_doc_get_root(d));
	return r;
}
