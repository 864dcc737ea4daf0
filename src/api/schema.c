// Looking up fields in compiled schemas; defaults, pruning and tidying by them.
#include "api/schema_priv.h"

#include <stdio.h>
#include <string.h>

#include "api/quantity_priv.h"
#include "base/clock.h"

int td_schema_cmp_prop(const void *a, const void *b)
{
	return strcmp(((const struct td_prop *)a)->name, ((const struct td_prop *)b)->name);
}

const struct td_schema *td_schema_declared(const struct td_schema *s, const char *key)
{
	struct td_prop want = {key, NULL}, *p = NULL;
	if (s && s->n_props)
		p = bsearch(&want, s->props, s->n_props, sizeof(want), td_schema_cmp_prop);
	return p ? p->s : NULL;
}

const struct td_schema *td_schema_prop(const struct td_schema *s, const char *key)
{
	const struct td_schema *p = td_schema_declared(s, key);
	return p || !s ? p : s->additional;
}

void td_api_path_key(struct td_buf *b, const char *key)
{
	bool plain = *key;
	for (const char *p = key; *p; p++)
		plain = plain && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
				  *p == '_' || *p == '$' || *p == '-');
	if (!plain)
		td_buf_printf(b, "[%s]", key);
	else
		td_buf_printf(b, "%s%s", b->len ? "." : "", key);
}

// ---- default ----

static void canonical_quantity(yyjson_mut_doc *d, yyjson_mut_val *v)
{
	char buf[TD_QUANTITY_LEN];
	td_auto_free char *text = NULL;
	const char *s = yyjson_mut_get_str(v);
	if (!s && yyjson_mut_is_num(v))
		s = text = td_json_mut_text(v, NULL);
	if (s && !td_quantity_canonical(s, buf, NULL) && (text || strcmp(s, buf)))
		yyjson_mut_set_str(v, yyjson_mut_get_str(yyjson_mut_strcpy(d, buf)));
}

// Writes a time in UTC with whole seconds or six digits, as the API server's Go types do.
static void canonical_time(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *v)
{
	const char *t = yyjson_mut_get_str(v), *dot = t ? strchr(t, '.') : NULL;
	bool micro = !strcmp(s->format, "micro-time");
	size_t n = yyjson_mut_get_len(v), digits = dot ? strspn(dot + 1, "0123456789") : 0;
	int64_t ms;
	char buf[TD_TIME_LEN], out[TD_TIME_LEN + 8];

	if (!t || (t[n ? n - 1 : 0] == 'Z' && n == (micro ? 27 : 20)) || (micro && digits != 6) || strpbrk(t, "tz") ||
	    td_time_parse(t, &ms))
		return; // canonical already, or validation will refuse it

	td_time_format(ms, buf);
	snprintf(out, sizeof(out), "%.19s%.*sZ", buf, micro ? 7 : 0, dot ? dot : "");
	yyjson_mut_set_str(v, yyjson_mut_get_str(yyjson_mut_strcpy(d, out)));
}

static void set_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *v, bool fill)
{
	if (!s->has_default)
		return;

	if (s->is_time)
		canonical_time(s, d, v);
	if (s->quantity)
		canonical_quantity(d, v);

	size_t i, max;
	yyjson_mut_val *k, *x;
	if (yyjson_mut_is_obj(v)) {
		for (size_t p = 0; p < s->n_props; p++) {
			const struct td_schema *c = s->props[p].s;
			if (!c->has_default)
				continue;
			x = yyjson_mut_obj_get(v, s->props[p].name);
			if (fill && c->def && (!x || (yyjson_mut_is_null(x) && !c->nullable))) {
				x = yyjson_val_mut_copy(d, c->def);
				td_jm_key_set(d, v, s->props[p].name, x);
			}
			if (x)
				set_default(c, d, x, fill);
		}
		if (s->additional && s->additional->has_default)
			yyjson_mut_obj_foreach (v, i, max, k, x) {
				if (!td_schema_declared(s, yyjson_mut_get_str(k)))
					set_default(s->additional, d, x, fill);
			}
	} else if (yyjson_mut_is_arr(v) && s->items && s->items->has_default) {
		yyjson_mut_arr_foreach (v, i, max, x)
			set_default(s->items, d, x, fill);
	}
}

bool td_schema_has_defaults(const struct td_schema *s)
{
	return s->has_default;
}

void td_schema_default(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	set_default(s, d, obj, true);
}

void td_schema_canonical(const struct td_schema *s, yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	set_default(s, d, obj, false);
}

// ---- prune ----

static void prune(const struct td_schema *s, yyjson_mut_val *v, struct td_buf *path, struct td_strv *ret)
{
	size_t len = path->len;

	if (yyjson_mut_is_arr(v)) {
		size_t i, max;
		yyjson_mut_val *x;
		if (!s->items)
			return;
		yyjson_mut_arr_foreach (v, i, max, x) {
			if (!yyjson_mut_is_ctn(x))
				continue;
			if (ret)
				td_buf_printf(path, "[%zu]", i);
			prune(s->items, x, path, ret);
			td_path_cut(path, len);
		}
		return;
	}

	if (!yyjson_mut_is_obj(v))
		return;
	if (!s->n_props && !s->additional && s->preserve)
		return;

	yyjson_mut_obj_iter it;
	yyjson_mut_obj_iter_init(v, &it);
	for (yyjson_mut_val *k; (k = yyjson_mut_obj_iter_next(&it));) {
		const char *key = yyjson_mut_get_str(k);
		yyjson_mut_val *x = yyjson_mut_obj_iter_get_val(k);
		const struct td_schema *c = td_schema_prop(s, key);
		bool unknown = !c && !s->preserve;
		if (ret && (unknown || yyjson_mut_is_ctn(x)))
			td_api_path_key(path, key);
		if (unknown && ret)
			td_strv_add(ret, td_buf_str(path));
		// A null where none is allowed means "not given", as in the Go types of Kubernetes.
		// In a map of strings it means an empty string.
		if (c && yyjson_mut_is_null(x) && c == s->additional && c->type == TD_S_STRING && !c->nullable) {
			yyjson_mut_set_str(x, "");
			continue;
		}
		if (unknown ||
		    (c && !c->nullable && yyjson_mut_is_null(x) && (c->type != TD_S_ANY || c->int_or_string)))
			yyjson_mut_obj_iter_remove(&it);
		else if (c && yyjson_mut_is_ctn(x))
			prune(c, x, path, ret);
		td_path_cut(path, len);
	}
}

void td_schema_prune(const struct td_schema *s, yyjson_mut_val *obj, struct td_strv *ret_unknown)
{
	td_auto_buf struct td_buf path = {0};
	prune(s, obj, &path, ret_unknown);
}

// ---- tidy ----

static bool vanishes(const struct td_schema *s, yyjson_mut_val *v)
{
	// A list in a field of another type stays, because validation must refuse it.
	if (yyjson_mut_is_arr(v))
		return !yyjson_mut_arr_size(v) && s->type == TD_S_ARRAY;
	return yyjson_mut_is_obj(v) && !yyjson_mut_obj_size(v) && s->additional && !s->n_props;
}

void td_schema_tidy(const struct td_schema *s, yyjson_mut_val *obj)
{
	size_t i, max;
	yyjson_mut_val *k, *v;
	if (yyjson_mut_is_arr(obj) && s->items)
		yyjson_mut_arr_foreach (obj, i, max, v)
			td_schema_tidy(s->items, v);

	if (!yyjson_mut_is_obj(obj) || (!s->n_props && !s->additional))
		return; // of no known form: stays as it is

	yyjson_mut_obj_iter it;
	yyjson_mut_obj_iter_init(obj, &it);
	while ((k = yyjson_mut_obj_iter_next(&it))) {
		v = yyjson_mut_obj_iter_get_val(k);
		const struct td_schema *c = td_schema_prop(s, yyjson_mut_get_str(k));
		if (!c)
			continue;
		if (vanishes(c, v))
			yyjson_mut_obj_iter_remove(&it);
		else
			td_schema_tidy(c, v);
	}
}
