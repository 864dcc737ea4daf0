// What may change in an existing pod (Kubernetes API reference, "Pod update and replacement").
#include "api/block.h"
#include "api/kinds_priv.h"

#include <string.h>

#define MUTABLE                                                                                                        \
	"pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"      \
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"                    \
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// Tells whether every element of a is in b.
static bool within(const yyjson_val *a, const yyjson_val *b)
{
	size_t i, max, j, m;
	yyjson_val *x, *y;

	yyjson_arr_foreach (td_unconst(a), i, max, x) {
		bool found = false;
		yyjson_arr_foreach (td_unconst(b), j, m, y)
			found = found || td_jequal(x, y);
		if (!found)
			return false;
	}
	return true;
}

// Tells whether all old tolerations are kept; only tolerationSeconds may change.
static bool tolerations_stay(const yyjson_val *old, const yyjson_val *now)
{
	size_t i, max, j, m, k, n;
	yyjson_val *x, *y, *key, *v;

	yyjson_arr_foreach (td_unconst(old), i, max, x) {
		bool found = false;
		yyjson_arr_foreach (td_unconst(now), j, m, y) {
			bool same = true;
			const yyjson_val *both[] = {x, y};
			for (int s = 0; s < 2; s++)
				yyjson_obj_foreach (td_unconst(both[s]), k, n, key, v)
					same = same && (yyjson_equals_str(key, "tolerationSeconds") ||
							td_jequal(v, td_jkey(both[!s], td_keystr(key))));
			found = found || same;
		}
		if (!found)
			return false;
	}
	return true;
}

// Gives `key` of the copy its old value, so that it does not count as changed.
static void restore(yyjson_mut_doc *d, yyjson_mut_val *copy, const yyjson_val *old, const char *key)
{
	const yyjson_val *v = td_jkey(old, key);
	if (v)
		td_jm_key_set(d, copy, key, yyjson_val_mut_copy(d, td_unconst(v)));
	else
		yyjson_mut_obj_remove_key(copy, key);
}

static void restore_images(yyjson_mut_doc *d, yyjson_mut_val *copy, const yyjson_val *old, const char *list)
{
	size_t i, max;
	yyjson_mut_val *c;
	yyjson_mut_arr_foreach (yyjson_mut_obj_get(copy, list), i, max, c)
		restore(d, c, yyjson_arr_get(td_jkey(old, list), i), "image");
}

static void restore_gated(yyjson_mut_doc *d, yyjson_mut_val *copy, const yyjson_val *old, const yyjson_val *now)
{
	size_t i, max;
	yyjson_val *k, *v;
	bool superset = true;

	yyjson_obj_foreach (td_jkey(old, "nodeSelector"), i, max, k, v)
		superset = superset && td_jequal(v, td_jkey(td_jkey(now, "nodeSelector"), td_keystr(k)));
	if (superset)
		restore(d, copy, old, "nodeSelector");
	if (!td_jget(old, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"))
		restore(d, copy, old, "affinity");
}

// Appends the path of the first difference, for the message to the user.
static void where(const yyjson_val *a, const yyjson_val *b, struct td_buf *path)
{
	size_t i, max;
	yyjson_val *k, *v;

	if (yyjson_is_obj(td_unconst(a)) && yyjson_is_obj(td_unconst(b))) {
		const yyjson_val *both[] = {a, b};
		for (int s = 0; s < 2; s++)
			yyjson_obj_foreach (td_unconst(both[s]), i, max, k, v) {
				const char *key = td_keystr(k);
				if (td_jequal(td_jkey(a, key), td_jkey(b, key)))
					continue;
				td_api_path_key(path, key);
				where(td_jkey(a, key), td_jkey(b, key), path);
				return;
			}
	} else if (yyjson_is_arr(td_unconst(a)) && yyjson_is_arr(td_unconst(b)) &&
		   yyjson_arr_size(td_unconst(a)) == yyjson_arr_size(td_unconst(b))) {
		yyjson_arr_foreach (td_unconst(a), i, max, v) {
			yyjson_val *w = yyjson_arr_get(td_unconst(b), i);
			if (td_jequal(v, w))
				continue;
			td_buf_printf(path, "[%zu]", i);
			where(v, w, path);
			return;
		}
	}
}

static void check_update(const yyjson_val *now, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const lists[] = {"containers", "initContainers"};

	if (td_jequal(now, old))
		return;
	for (size_t l = 0; l < TD_LEN(lists); l++)
		if (yyjson_arr_size(td_jkey(now, lists[l])) != yyjson_arr_size(td_jkey(old, lists[l]))) {
			td_cause_at(ret, "FieldValueForbidden", "spec.", lists[l],
				    "Forbidden: pod updates may not add or remove containers");
			return;
		}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(now);
	yyjson_mut_val *copy = yyjson_mut_doc_get_root(d);
	for (size_t l = 0; l < TD_LEN(lists); l++)
		restore_images(d, copy, old, lists[l]);
	restore(d, copy, old, "ephemeralContainers");

	long long deadline = td_jint(now, "activeDeadlineSeconds", -1), was = td_jint(old, "activeDeadlineSeconds", -1);
	if (was >= 0 && (deadline < 0 || deadline > was))
		td_cause_add(ret, "FieldValueInvalid", "spec.activeDeadlineSeconds",
			     "Invalid value: %lld: must be less than or equal to previous value", deadline);
	restore(d, copy, old, "activeDeadlineSeconds");
	if (!tolerations_stay(td_jkey(old, "tolerations"), td_jkey(now, "tolerations")))
		td_cause_add(ret, "FieldValueForbidden", "spec.tolerations",
			     "Forbidden: existing toleration can not be modified except its tolerationSeconds");
	restore(d, copy, old, "tolerations");

	if (!within(td_jkey(now, "schedulingGates"), td_jkey(old, "schedulingGates")))
		td_cause_add(ret, "FieldValueForbidden", "spec.schedulingGates",
			     "Forbidden: only deletion is allowed, but found new scheduling gate");
	restore(d, copy, old, "schedulingGates");
	if (yyjson_arr_size(td_jkey(old, "schedulingGates")))
		restore_gated(d, copy, old, now);

	if (td_jint(old, "terminationGracePeriodSeconds", 0) < 0 &&
	    td_jint(now, "terminationGracePeriodSeconds", 0) == 1)
		restore(d, copy, old, "terminationGracePeriodSeconds");

	td_auto(td_json_unref) struct td_json *rest = td_json_from_mut(copy);
	if (td_jequal(td_json_root(rest), old))
		return;

	td_auto_buf struct td_buf path = {0};
	td_buf_puts(&path, "spec");
	where(td_json_root(rest), old, &path);
	td_cause_add(ret, "FieldValueForbidden", "spec", "Forbidden: " MUTABLE "; %s differs", td_buf_str(&path));
}

// Makes podIP and podIPs agree, as the API server's conversion does: podIP is the first of podIPs,
// and wins when they differ.
void td_api_pod_addresses(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *list = td_jm_get(obj, "status.podIPs"), *first = yyjson_mut_arr_get_first(list);
	const char *one = td_jm_getstr(obj, "status.podIP"), *ip = first ? td_jm_getstr(first, "ip") : NULL;

	if (one && !*one) {
		td_jm_del(obj, "status.podIP");
		one = NULL;
	}
	if (one && !td_streq(ip, one)) {
		td_jm_del(obj, "status.podIPs");
		td_jm_str(d, yyjson_mut_arr_add_obj(d, td_jm_arr(d, obj, "status.podIPs")), "ip", one);
	} else if (!one && ip) {
		td_jm_str(d, obj, "status.podIP", ip);
	}
}

// Addresses in a status: at most one of each family.
static void check_addresses(const yyjson_val *status, const char *key, struct td_causes *ret)
{
	size_t i, max, families[2] = {0};
	yyjson_val *x, *list = td_jkey(status, key);

	yyjson_arr_foreach (list, i, max, x) {
		const char *ip = td_jstr_or(x, "ip", "");
		bool six = false;
		td_auto_free char *at = td_asprintf("status.%s[%zu]", key, i);
		if (!td_is_ip(ip, &six))
			td_cause_add(ret, "FieldValueInvalid", at,
				     "Invalid value: \"%.100s\": must be a valid IP address, (e.g. 10.9.8.7 or "
				     "2001:db8::ffff)",
				     ip);
		else
			families[six]++;
	}

	td_auto_free char *at = td_asprintf("status.%s", key), *one = td_strndup(key, strlen(key) - 1);
	const char *first = td_jstr(yyjson_arr_get_first(list), "ip"), *alone = td_jkey_str(status, one);
	if (first && alone && strcmp(first, alone) != 0)
		td_cause_at(ret, "FieldValueInvalid", at, "[0].ip", "Invalid value: \"%.100s\": must be equal to `%s`",
			    first, one);
	if (families[0] > 1 || families[1] > 1)
		td_cause_add(ret, "FieldValueInvalid", at,
			     "Invalid value: may specify no more than one IP for each IP family");
}

size_t td_api_pod_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;

	td_podspec_check(td_jkey(obj, "spec"), "spec", false, ret);
	if (old && !td_jequal(td_jkey(obj, "status"), td_jkey(old, "status"))) {
		check_addresses(td_jkey(obj, "status"), "podIPs", ret);
		check_addresses(td_jkey(obj, "status"), "hostIPs", ret);
	}

	if (old)
		check_update(td_jkey(obj, "spec"), td_jkey(old, "spec"), ret);
	return ret->n - before;
}
