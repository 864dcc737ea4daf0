// The bridge's own taints on a Node (taint.h).
#include "api/taint.h"

#include "base/names.h"

static const char *const ours[] = {TD_TAINT_DRAIN, TD_TAINT_DOWN};

bool td_taint_ours(const char *key)
{
	for (size_t i = 0; i < TD_LEN(ours); i++)
		if (td_streq(key, ours[i]))
			return true;
	return false;
}

bool td_taints_set(yyjson_mut_doc *d, yyjson_mut_val *patch, const yyjson_val *node, bool drain, bool down)
{
	const bool want[] = {drain, down};
	bool has[TD_LEN(ours)] = {false}, same = true;
	yyjson_val *t, *taints = td_jget(node, "spec.taints");
	size_t i, n;
	yyjson_arr_foreach (taints, i, n, t)
		for (size_t k = 0; k < TD_LEN(ours); k++)
			has[k] |= td_streq(td_jstr(t, "key"), ours[k]);
	for (size_t k = 0; k < TD_LEN(ours); k++)
		same = same && has[k] == want[k];
	if (same)
		return false;

	yyjson_mut_val *list = td_jm_arr(d, patch, "spec.taints");
	yyjson_arr_foreach (taints, i, n, t)
		if (!td_taint_ours(td_jstr(t, "key")))
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, t));
	for (size_t k = 0; k < TD_LEN(ours); k++) {
		if (!want[k])
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "key", ours[k]);
		td_jm_str(d, o, "effect", "NoSchedule");
	}
	if (!yyjson_mut_arr_size(list))
		td_jm_set(d, patch, "spec.taints", yyjson_mut_null(d));
	return true;
}

// The next taint at *i or behind that is not ours. NULL: none.
static const yyjson_val *next(yyjson_val *taints, size_t *i)
{
	for (; *i < yyjson_arr_size(taints); (*i)++)
		if (!td_taint_ours(td_jstr(yyjson_arr_get(taints, *i), "key")))
			return yyjson_arr_get(taints, (*i)++);
	return NULL;
}

bool td_taints_same_others(const yyjson_val *a, const yyjson_val *b)
{
	yyjson_val *ta = td_jget(a, "spec.taints"), *tb = td_jget(b, "spec.taints");
	size_t i = 0, k = 0;
	for (;;) {
		const yyjson_val *x = next(ta, &i), *y = next(tb, &k);
		if (!x || !y)
			return !x && !y;
		if (!td_jequal(x, y))
			return false;
	}
}
