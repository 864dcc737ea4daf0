// Whether a pod fits a node, and what it requests: the predicates of the Kubernetes scheduler
// (NodeAffinity, TaintToleration, NodeUnschedulable, and the accounting of NodeResourcesFit).
#include "api/quantity.h"
#include "api/selector_priv.h"

#include <string.h>

static bool exprs_match(const yyjson_val *exprs, const yyjson_val *node, bool fields)
{
	size_t i, max;
	yyjson_val *x;

	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)exprs, i, max, x) {
		enum td_selector_op op;
		const char *key = td_jstr_or(x, "key", "");
		if (!td_api_op_parse(td_jstr(x, "operator"), true, &op))
			return false;
		const char *value;
		if (!fields)
			value = td_jkey_str(td_jget(node, "metadata.labels"), key);
		else if (!strcmp(key, "metadata.name"))
			value = td_jstr(node, "metadata.name");
		else
			return false;
		if (!td_expr_matches(op, td_jkey(x, "values"), value))
			return false;
	}
	return true;
}

static bool affinity_matches(const yyjson_val *spec, const yyjson_val *node)
{
	yyjson_val *req = td_jget(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
	if (!yyjson_is_obj(req))
		return true;

	size_t i, max;
	yyjson_val *t;
	yyjson_arr_foreach (td_jkey(req, "nodeSelectorTerms"), i, max, t) {
		yyjson_val *e = td_jkey(t, "matchExpressions"), *f = td_jkey(t, "matchFields");
		if (!yyjson_arr_size(e) && !yyjson_arr_size(f))
			continue; // an empty term selects nothing
		if (exprs_match(e, node, false) && exprs_match(f, node, true))
			return true;
	}
	return false;
}

static bool tolerates(const yyjson_val *spec, const char *key, const char *value, const char *effect)
{
	size_t i, max;
	yyjson_val *t;

	yyjson_arr_foreach (td_jkey(spec, "tolerations"), i, max, t) {
		const char *e = td_jstr_or(t, "effect", ""), *k = td_jstr_or(t, "key", ""),
			   *op = td_jstr_or(t, "operator", "");
		if ((*e && strcmp(e, effect)) || (*k && strcmp(k, key)))
			continue;
		if (!strcmp(op, "Exists") ||
		    (*k && (!*op || !strcmp(op, "Equal")) && !strcmp(td_jstr_or(t, "value", ""), value)))
			return true;
	}
	return false;
}

#define UNSCHEDULABLE "node.kubernetes.io/unschedulable"

bool td_api_pod_fits_node(const yyjson_val *spec, const yyjson_val *node, bool ignore_unschedulable,
			  const char **ret_why)
{
	const char *dummy;

	if (!ret_why)
		ret_why = &dummy;
	size_t i, max;
	yyjson_val *k, *x;
	if (!ignore_unschedulable && td_jbool(node, "spec.unschedulable", false) &&
	    !tolerates(spec, UNSCHEDULABLE, "", "NoSchedule")) {
		*ret_why = "node(s) were unschedulable";
		return false;
	}

	yyjson_val *labels = td_jget(node, "metadata.labels");
	bool match = affinity_matches(spec, node);
	yyjson_obj_foreach (td_jkey(spec, "nodeSelector"), i, max, k, x)
		match = match && td_streq(td_jkey_str(labels, yyjson_get_str(k)), yyjson_get_str(x));
	if (!match) {
		*ret_why = "node(s) didn't match Pod's node affinity/selector";
		return false;
	}

	yyjson_arr_foreach (td_jget(node, "spec.taints"), i, max, x) {
		const char *key = td_jstr_or(x, "key", ""), *effect = td_jstr_or(x, "effect", "");
		if (strcmp(effect, "NoSchedule") && strcmp(effect, "NoExecute"))
			continue;
		if (ignore_unschedulable && !strcmp(key, UNSCHEDULABLE))
			continue;
		if (!tolerates(spec, key, td_jstr_or(x, "value", ""), effect)) {
			*ret_why = "node(s) had untolerated taint(s)";
			return false;
		}
	}
	return true;
}

// ---- requests ----

// Returns -1 when the resource is absent.
static int64_t amount(const yyjson_val *map, const char *resource)
{
	const yyjson_val *v = td_jkey(map, resource);
	td_auto_free char *number = NULL;
	const char *s = yyjson_get_str((yyjson_val *)(uintptr_t)v);
	int64_t n = 0;

	if (!v)
		return -1;
	if (!s)
		s = number = td_json_text(v, NULL);

	// Validation has refused values that do not parse; here they count as 0.
	if (!strcmp(resource, "cpu"))
		td_quantity_milli(s, &n, NULL);
	else
		td_quantity_ceil(s, &n, NULL);
	return n > 0 ? n : 0;
}

// A limit without a request is also the request. Kubernetes defaults pods like that, but templates
// may come here without defaults.
static int64_t of_resources(const yyjson_val *resources, const char *resource)
{
	int64_t n = amount(td_jkey(resources, "requests"), resource);
	if (n < 0)
		n = amount(td_jkey(resources, "limits"), resource);
	return n;
}

static int64_t sat_add(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

int64_t td_api_container_request(const yyjson_val *c, const char *resource)
{
	int64_t n = of_resources(td_jkey(c, "resources"), resource);
	return n < 0 ? 0 : n;
}

#define WHOLE "nvidia.com/gpu"
#define PART "nvidia.com/mig-" // what NVIDIA's device plugin calls a part, before its profile

bool td_api_is_device(const char *name, const char *resource)
{
	return td_streq(name, resource) || (td_streq(resource, WHOLE) && name && td_starts(name, PART));
}

int td_api_devices(const yyjson_val *list, const char *resource, int64_t *ret, struct td_error *err)
{
	int64_t sum = 0, n;
	size_t i, max;
	yyjson_val *k, *v, *all = (yyjson_val *)(uintptr_t)list;
	yyjson_obj_foreach (all, i, max, k, v) {
		if (!td_api_is_device(yyjson_get_str(k), resource))
			continue;
		int r = td_quantity_ceil(yyjson_is_str(v) ? yyjson_get_str(v) : "?", &n, err);
		if (r)
			return r;
		sum = sat_add(sum, n);
	}
	*ret = sum;
	return 0;
}

int64_t td_api_pod_devices(const yyjson_val *spec, const char *resource)
{
	td_auto_strv struct td_strv names = {0};
	int64_t sum = 0;
	td_api_pod_request_names(spec, &names);
	for (size_t i = 0; i < names.n; i++)
		if (td_api_is_device(names.v[i], resource))
			sum = sat_add(sum, td_api_pod_request(spec, names.v[i]));
	return sum;
}

int64_t td_api_pod_request(const yyjson_val *spec, const char *resource)
{
	int64_t sum = 0, sidecars = 0, peak = 0;
	size_t i, max;
	yyjson_val *c;

	yyjson_arr_foreach (td_jkey(spec, "containers"), i, max, c)
		sum = sat_add(sum, td_api_container_request(c, resource));
	yyjson_arr_foreach (td_jkey(spec, "initContainers"), i, max, c) {
		int64_t n = td_api_container_request(c, resource), now;
		if (!strcmp(td_jstr_or(c, "restartPolicy", ""), "Always"))
			now = sidecars = sat_add(sidecars, n);
		else
			now = sat_add(sidecars, n);
		if (now > peak)
			peak = now;
	}

	sum = sat_add(sum, sidecars);
	if (peak > sum)
		sum = peak;
	// Pod-level resources replace the sum.
	if (!strcmp(resource, "cpu") || !strcmp(resource, "memory") || td_starts(resource, "hugepages-")) {
		int64_t pod = of_resources(td_jkey(spec, "resources"), resource);
		if (pod >= 0)
			sum = pod;
	}

	int64_t overhead = amount(td_jkey(spec, "overhead"), resource);
	return overhead > 0 ? sat_add(sum, overhead) : sum;
}

static void names_of(const yyjson_val *resources, struct td_strv *ret)
{
	static const char *const part[] = {"requests", "limits"};
	for (int p = 0; p < 2; p++) {
		size_t i, max;
		yyjson_val *k, *v;
		yyjson_obj_foreach (td_jkey(resources, part[p]), i, max, k, v) {
			if (!td_strv_has(ret, yyjson_get_str(k)))
				td_strv_add(ret, yyjson_get_str(k));
		}
	}
}

void td_api_pod_request_names(const yyjson_val *spec, struct td_strv *ret)
{
	static const char *const lists[] = {"containers", "initContainers"};
	names_of(td_jkey(spec, "resources"), ret);
	for (int l = 0; l < 2; l++) {
		size_t i, max;
		yyjson_val *c;
		yyjson_arr_foreach (td_jkey(spec, lists[l]), i, max, c)
			names_of(td_jkey(c, "resources"), ret);
	}
}
