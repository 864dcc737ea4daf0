// Which built-in kind has which cross-field rules and defaults, and those of the small kinds.
#include "api/kinds_priv.h"

#include <string.h>

#include "api/names.h"
#include "api/selector.h"

void td_immutable_check(const yyjson_val *obj, const yyjson_val *old, const char *path, struct td_causes *ret)
{
	if (!old || td_jequal(td_jget(obj, path), td_jget(old, path)))
		return;
	td_auto_free char *t = td_jget(obj, path) ? td_json_text(td_jget(obj, path), NULL) : td_strdup("null");
	if (strlen(t) > 200)
		memcpy(t + 196, "...", 4);
	td_cause_add(ret, "FieldValueInvalid", path, "Invalid value: %s: field is immutable", t);
}

bool td_is_percent_or_count(const yyjson_val *v)
{
	const char *s = yyjson_get_str(td_unconst(v));
	if (!s)
		return !v || (yyjson_is_int(td_unconst(v)) && yyjson_get_sint(td_unconst(v)) >= 0);
	size_t n = strspn(s, "0123456789");
	return n && n < 6 && s[n] == '%' && !s[n + 1];
}

bool td_spec_changed(const yyjson_val *obj, const yyjson_val *old, const char *const may[], size_t n)
{
	if (!old || td_jequal(td_jkey(obj, "spec"), td_jkey(old, "spec")))
		return false;
	yyjson_mut_doc *d[] = {td_jm_copy(td_jkey(obj, "spec")), td_jm_copy(td_jkey(old, "spec"))};
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < n; k++)
			yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(d[i]), may[k]);
	td_auto(td_json_unref) struct td_json *a = td_jm_done(d[0]), *b = td_jm_done(d[1]);
	return !td_jequal(td_json_root(a), td_json_root(b));
}

void td_percent_check(const yyjson_val *obj, const char *path, struct td_causes *ret)
{
	if (td_is_percent_or_count(td_jget(obj, path)))
		return;
	td_auto_free char *t = td_json_text(td_jget(obj, path), NULL);
	td_cause_add(ret, "FieldValueInvalid", path,
		     "Invalid value: %s: must be a non-negative number or a percentage such as 25%%", t);
}

static void service_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	size_t i, max;
	yyjson_mut_val *p;
	yyjson_mut_arr_foreach (td_jm_get(obj, "spec.ports"), i, max, p) {
		yyjson_mut_val *port = yyjson_mut_obj_get(p, "port");
		yyjson_mut_val *target = yyjson_mut_obj_get(p, "targetPort");
		if (yyjson_mut_is_int(port) && (!target || (yyjson_mut_is_int(target) && !yyjson_mut_get_sint(target))))
			td_jm_int(d, p, "targetPort", yyjson_mut_get_sint(port));
	}

	if (td_jm_get(obj, "spec") && !td_jm_get(obj, "spec.internalTrafficPolicy"))
		td_jm_str(d, obj, "spec.internalTrafficPolicy", "Cluster");
}

static size_t service_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n, i, max, n = yyjson_arr_size(td_jget(obj, "spec.ports"));
	yyjson_val *p;
	yyjson_arr_foreach (td_jget(obj, "spec.ports"), i, max, p) {
		td_auto_free char *f = td_asprintf("spec.ports[%zu].name", i);
		const char *name = td_jstr_or(p, "name", "");
		bool twice = false;
		for (size_t j = 0; j < i && *name; j++)
			twice = twice || td_streq(td_jstr(yyjson_arr_get(td_jget(obj, "spec.ports"), j), "name"), name);
		if (twice)
			td_cause_add(ret, "FieldValueDuplicate", f, "Duplicate value: \"%s\"", name);
		if (n > 1 && !*name)
			td_cause_add(ret, "FieldValueRequired", f, "Required value");
		else if (*name && !td_is_dns_label(name))
			td_cause_add(ret, "FieldValueInvalid", f,
				     "Invalid value: \"%.80s\": must be a lowercase RFC 1123 label", name);
	}

	yyjson_arr_foreach (td_jget(obj, "spec.ports"), i, max, p) {
		td_auto_free char *f = td_asprintf("spec.ports[%zu].targetPort", i);
		const yyjson_val *t = td_jkey(p, "targetPort");
		if (t && yyjson_is_str(td_unconst(t)))
			td_port_name_check(yyjson_get_str(td_unconst(t)), f, "", ret);
		else if (t && yyjson_is_int(td_unconst(t)) &&
			 (yyjson_get_sint(td_unconst(t)) < 1 || yyjson_get_sint(td_unconst(t)) > 65535))
			td_cause_add(ret, "FieldValueInvalid", f,
				     "Invalid value: %lld: must be between 1 and 65535, inclusive",
				     (long long)yyjson_get_sint(td_unconst(t)));
	}

	if (yyjson_arr_size(td_jget(obj, "status.loadBalancer.ingress")) &&
	    !td_streq(td_jstr(obj, "spec.type"), "LoadBalancer"))
		td_cause_add(ret, "FieldValueForbidden", "status.loadBalancer.ingress",
			     "Forbidden: may only be used when `spec.type` is 'LoadBalancer'");

	td_labels_check(td_jget(obj, "spec.selector"), "spec.selector", ret);
	if (td_streq(td_jstr(obj, "spec.type"), "ExternalName") && !*td_jstr_or(obj, "spec.externalName", ""))
		td_cause_add(ret, "FieldValueRequired", "spec.externalName", "Required value");
	return ret->n - before;
}

static void namespace_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	const char *name = td_jm_getstr(obj, "metadata.name");
	if (name)
		td_jm_key_str(d, td_jm_obj(d, obj, "metadata.labels"), "kubernetes.io/metadata.name", name);
	if (!td_jm_getstr(obj, "status.phase"))
		td_jm_str(d, obj, "status.phase", "Active");
}

static size_t priorityclass_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	long long value = td_jint(obj, "value", 0);
	const char *name = td_jstr_or(obj, "metadata.name", "");
	bool sys = !strcmp(name, "system-node-critical") || !strcmp(name, "system-cluster-critical");

	if (!sys && td_starts(name, "system-"))
		td_cause_add(ret, "FieldValueForbidden", "metadata.name",
			     "Forbidden: priority class names with 'system-' prefix are reserved for system use only");
	if (!sys && value > 1000000000)
		td_cause_add(ret, "FieldValueForbidden", "value",
			     "Forbidden: maximum allowed value of a user defined priority is 1000000000");
	if (old && value != td_jint(old, "value", 0))
		td_cause_add(ret, "FieldValueForbidden", "value", "Forbidden: may not be changed in an update.");
	if (old && !td_jequal(td_jkey(obj, "preemptionPolicy"), td_jkey(old, "preemptionPolicy")))
		td_immutable_check(obj, old, "preemptionPolicy", ret);
	return ret->n - before;
}

static size_t pdb_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"spec.minAvailable", "spec.maxUnavailable"};
	size_t before = ret->n;

	if (td_jget(obj, fields[0]) && td_jget(obj, fields[1]))
		td_cause_add(ret, "FieldValueInvalid", "spec",
			     "Invalid value: minAvailable and maxUnavailable cannot be both set");
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		const char *s = td_jstr(obj, fields[i]);
		long long n;
		td_auto_free char *digits = s ? td_strndup(s, strcspn(s, "%")) : NULL;
		td_percent_check(obj, fields[i], ret);
		if (digits && td_parse_i64(digits, &n) && n > 100)
			td_cause_add(ret, "FieldValueInvalid", fields[i],
				     "Invalid value: \"%s\": must not be greater than 100%%", s);
	}

	yyjson_val *sel = td_jget(obj, "spec.selector");
	td_auto(td_selector_free) struct td_selector *parsed = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (sel && td_selector_from_object(sel, &parsed, &err) < 0)
		td_cause_add(ret, "FieldValueInvalid", "spec.selector", "Invalid value: %s", err.msg);
	return ret->n - before;
}

const struct td_kind_rules *td_kind_rules(const char *group, const char *kind)
{
	static const struct td_kind_rules rules[] = {
		{"", "Pod", td_api_pod_check, td_api_pod_defaults},
		{"", "ConfigMap", td_configmap_check, NULL},
		{"", "Secret", td_secret_check, td_secret_defaults},
		{"", "Service", service_check, service_defaults},
		{"", "PersistentVolumeClaim", td_api_claim_check, td_api_claim_defaults},
		{"", "Namespace", NULL, namespace_defaults},
		{"", "Event", td_event_check, NULL},
		{"", "Node", td_api_node_check, td_api_node_defaults},
		{"apps", "Deployment", td_deployment_check, td_deployment_defaults},
		{"apps", "ReplicaSet", td_replicaset_check, td_template_defaults},
		{"apps", "StatefulSet", td_statefulset_check, td_statefulset_defaults},
		{"batch", "Job", td_api_job_check, td_api_job_defaults},
		{"scheduling.k8s.io", "PriorityClass", priorityclass_check, NULL},
		{"policy", "PodDisruptionBudget", pdb_check, NULL},
		{"networking.k8s.io", "NetworkPolicy", td_api_policy_check, td_api_policy_defaults},
		{"apiextensions.k8s.io", "CustomResourceDefinition", td_crd_check, td_crd_defaults},
		{"rbac.authorization.k8s.io", "Role", td_role_check, NULL},
		{"rbac.authorization.k8s.io", "ClusterRole", td_clusterrole_check, NULL},
		{"rbac.authorization.k8s.io", "RoleBinding", td_rolebinding_check, td_binding_defaults},
		{"rbac.authorization.k8s.io", "ClusterRoleBinding", td_clusterrolebinding_check, td_binding_defaults},
	};

	for (size_t i = 0; i < TD_LEN(rules); i++)
		if (!strcmp(rules[i].group, group) && !strcmp(rules[i].kind, kind))
			return &rules[i];
	return NULL;
}
