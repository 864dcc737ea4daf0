#include "controllers/ctl.h"

#include "api/condition.h"

#include <string.h>

int ctl_write_status(struct ctl *c, const struct td_gvr *gvr, const struct td_object *o, const yyjson_mut_val *status,
		     struct td_cancel *cancel, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(status);
	yyjson_val *have = td_jget(o->root, "status"), *k, *v;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	size_t i, n;
	bool differs = false;

	yyjson_obj_foreach (td_json_root(want), i, n, k, v) {
		yyjson_val *old = td_jkey(have, yyjson_get_str(k));
		// 0 and [] mean the same as an absent field.
		bool empty =
			(yyjson_is_int(v) && yyjson_get_sint(v) == 0) || (yyjson_is_arr(v) && yyjson_arr_size(v) == 0);
		if (td_jequal(old, v) || (!old && empty))
			continue;
		differs = true;
		td_jm_key_set(d, td_jm_obj(d, p, "status"), yyjson_get_str(k), yyjson_val_mut_copy(d, v));
	}

	if (!differs)
		return 0;

	td_jm_str(d, p, "metadata.uid", o->uid);
	return td_kube_patch(c->kube, TD_AT(gvr, o->ns, o->name, "status"), TD_PATCH_MERGE, p, cancel, NULL, err);
}

void ctl_pod_condition(yyjson_mut_doc *d, yyjson_mut_val *arr, const struct td_object *pod,
		       const struct td_condition_want *w, int64_t now_ms)
{
	struct td_condition_want its = *w;
	its.generation = td_jint(pod->root, "metadata.generation", 0);
	td_condition_add(d, arr, td_jget(pod->root, "status.conditions"), &its, now_ms);
}

long long ctl_int_or_percent(const yyjson_val *v, long long total, bool up, const char *def)
{
	const char *s = yyjson_is_str((yyjson_val *)v) ? yyjson_get_str((yyjson_val *)v) : NULL;

	if (!v || yyjson_is_null((yyjson_val *)v))
		s = def;
	if (!s)
		return yyjson_is_int((yyjson_val *)v) ? yyjson_get_sint((yyjson_val *)v) : 0;

	size_t len = strlen(s);
	long long n;
	if (!len || s[len - 1] != '%')
		return td_parse_i64(s, &n) ? n : 0;

	td_auto_free char *num = td_strndup(s, len - 1);
	if (!td_parse_i64(num, &n) || n < 0 || n > 1000)
		return 0;
	return up ? (total * n + 99) / 100 : total * n / 100;
}
