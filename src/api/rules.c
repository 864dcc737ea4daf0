// Cross-field rules and defaults of the other built-in kinds.
#include "api/kinds_priv.h"

#include <limits.h>
#include <string.h>

#include "api/selector.h"

static void immutable(const yyjson_val *obj, const yyjson_val *old, const char *path, struct td_causes *ret)
{
	if (!old || td_jequal(td_jget(obj, path), td_jget(old, path)))
		return;
	td_auto_free char *t = td_jget(obj, path) ? td_json_text(td_jget(obj, path), NULL) : td_strdup("null");
	if (strlen(t) > 200)
		memcpy(t + 196, "...", 4);
	td_cause_add(ret, "FieldValueInvalid", path, "Invalid value: %s: field is immutable", t);
}

static bool percent_or_count(const yyjson_val *v)
{
	const char *s = yyjson_get_str(td_unconst(v));
	if (!s)
		return !v || (yyjson_is_int(td_unconst(v)) && yyjson_get_sint(td_unconst(v)) >= 0);
	size_t n = strspn(s, "0123456789");
	return n && n < 6 && s[n] == '%' && !s[n + 1];
}

static void check_percent(const yyjson_val *obj, const char *path, struct td_causes *ret)
{
	if (percent_or_count(td_jget(obj, path)))
		return;
	td_auto_free char *t = td_json_text(td_jget(obj, path), NULL);
	td_cause_add(ret, "FieldValueInvalid", path, "Invalid value: %s: must be a non-negative number or a percentage such as 25%%", t);
}

static bool is_zero(const yyjson_val *v)
{
	const char *s = yyjson_get_str(td_unconst(v));
	return s ? s[strspn(s, "0")] == '%' : v && yyjson_get_sint(td_unconst(v)) == 0;
}

static void check_template(const yyjson_val *obj, const char *const *policies, struct td_causes *ret)
{
	const yyjson_val *t = td_jget(obj, "spec.template");
	td_labels_check(td_jget(t, "metadata.labels"), "spec.template.labels", ret);
	td_podspec_check(td_jkey(t, "spec"), "spec.template.spec", true, ret);
	td_podspec_served(td_jkey(t, "spec"), "spec.template.spec", ret);
	if (t && !td_jkey(t, "spec"))
		td_cause_add(ret, "FieldValueRequired", "spec.template.spec.containers", "Required value");
	const char *p = td_jstr_or(t, "spec.restartPolicy", "");
	bool ok = !*p;
	for (size_t i = 0; policies[i]; i++)
		ok = ok || !strcmp(p, policies[i]);
	if (!ok)
		td_cause_add(ret, "FieldValueNotSupported", "spec.template.spec.restartPolicy",
			     "Unsupported value: \"%s\": supported values: \"%s\"%s%s%s", p, policies[0], policies[1] ? ", \"" : "",
			     policies[1] ? policies[1] : "", policies[1] ? "\"" : "");
}

static void check_selector(const yyjson_val *obj, const yyjson_val *old, bool required, struct td_causes *ret)
{
	const yyjson_val *sel = td_jget(obj, "spec.selector"), *labels = td_jget(obj, "spec.template.metadata.labels");
	td_auto(td_selector_free) struct td_selector *s = NULL;
	struct td_error err = TD_ERROR_INIT;
	immutable(obj, old, "spec.selector", ret);
	if (!sel)
		return; // required by the schema where it is
	if (td_selector_from_object(sel, &s, &err)) {
		td_cause_add(ret, "FieldValueInvalid", "spec.selector", "Invalid value: %s", err.msg);
		return;
	}
	if (required && !yyjson_obj_size(td_jkey(sel, "matchLabels")) && !yyjson_arr_size(td_jkey(sel, "matchExpressions"))) {
		td_cause_add(ret, "FieldValueInvalid", "spec.selector", "Invalid value: {}: empty selector is invalid for this kind");
		return;
	}
	if (td_jget(obj, "spec.template") && !td_selector_matches(s, labels)) {
		td_auto_free char *t = labels ? td_json_text(labels, NULL) : td_strdup("{}");
		td_cause_add(ret, "FieldValueInvalid", "spec.template.metadata.labels",
			     "Invalid value: %.300s: `selector` does not match template `labels`", t);
	}
}

static const char *const always[] = {"Always", NULL};

static size_t deployment_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	const yyjson_val *ru = td_jget(obj, "spec.strategy.rollingUpdate");
	check_selector(obj, old, true, ret);
	check_template(obj, always, ret);
	check_percent(obj, "spec.strategy.rollingUpdate.maxUnavailable", ret);
	check_percent(obj, "spec.strategy.rollingUpdate.maxSurge", ret);
	if (ru && td_streq(td_jstr(obj, "spec.strategy.type"), "Recreate"))
		td_cause_add(ret, "FieldValueForbidden", "spec.strategy.rollingUpdate",
			     "Forbidden: may not be specified when strategy `type` is 'Recreate'");
	else if (ru && is_zero(td_jkey(ru, "maxUnavailable")) && is_zero(td_jkey(ru, "maxSurge")))
		td_cause_add(ret, "FieldValueInvalid", "spec.strategy.rollingUpdate.maxUnavailable",
			     "Invalid value: 0: may not be 0 when `maxSurge` is 0");
	if (td_jint(obj, "spec.progressDeadlineSeconds", INT_MAX) <= td_jint(obj, "spec.minReadySeconds", 0))
		td_cause_add(ret, "FieldValueInvalid", "spec.progressDeadlineSeconds",
			     "Invalid value: %lld: must be greater than minReadySeconds", td_jint(obj, "spec.progressDeadlineSeconds", 0));
	return ret->n - before;
}

static void template_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	td_podspec_defaults(d, td_jm_get(obj, "spec.template.spec"));
}

static void deployment_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	template_defaults(d, obj);
	if (td_streq(td_jm_getstr(obj, "spec.strategy.type"), "RollingUpdate") && !td_jm_get(obj, "spec.strategy.rollingUpdate")) {
		td_jm_str(d, obj, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
		td_jm_str(d, obj, "spec.strategy.rollingUpdate.maxSurge", "25%");
	}
}

static size_t replicaset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	check_selector(obj, old, true, ret);
	check_template(obj, always, ret);
	return ret->n - before;
}

static size_t statefulset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const may[] = {
		"replicas",       "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy",
		"minReadySeconds"};
	size_t before = ret->n;
	check_selector(obj, NULL, true, ret);
	check_template(obj, always, ret);
	if (td_jget(obj, "spec.updateStrategy.rollingUpdate") && td_streq(td_jstr(obj, "spec.updateStrategy.type"), "OnDelete"))
		td_cause_add(ret, "FieldValueInvalid", "spec.updateStrategy.rollingUpdate",
			     "Invalid value: only allowed for updateStrategy 'RollingUpdate'");
	check_percent(obj, "spec.updateStrategy.rollingUpdate.maxUnavailable", ret);
	if (!old && yyjson_arr_size(td_jget(obj, "spec.volumeClaimTemplates"))) // what is stored stays writable
		td_cause_add(
			ret, "FieldValueForbidden", "spec.volumeClaimTemplates",
			"Forbidden: is not served by embedded nodes: there are no PersistentVolumes; use a hostPath volume below /shared "
			"(the same on every node) or an emptyDir in spec.template.spec.volumes");
	if (!old || td_jequal(td_jkey(obj, "spec"), td_jkey(old, "spec")))
		return ret->n - before;
	yyjson_mut_doc *d[] = {td_jm_copy(td_jkey(obj, "spec")), td_jm_copy(td_jkey(old, "spec"))};
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < TD_LEN(may); k++)
			yyjson_mut_obj_remove_key(yyjson_mut_doc_get_root(d[i]), may[k]);
	td_auto(td_json_unref) struct td_json *a = td_jm_done(d[0]), *b = td_jm_done(d[1]);
	if (!td_jequal(td_json_root(a), td_json_root(b)))
		td_cause_add(ret, "FieldValueForbidden", "spec",
			     "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
			     "'updateStrategy', "
			     "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
	return ret->n - before;
}

static void statefulset_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	template_defaults(d, obj);
	if (td_streq(td_jm_getstr(obj, "spec.updateStrategy.type"), "RollingUpdate") &&
	    !td_jm_get(obj, "spec.updateStrategy.rollingUpdate"))
		td_jm_int(d, obj, "spec.updateStrategy.rollingUpdate.partition", 0);
}

// ---- Job ----

// The template without what a suspended Job may still change about where its pods go.
static struct td_json *job_template(const yyjson_val *job, bool suspended)
{
	static const char *const may[] = {"metadata.labels", "metadata.annotations", "spec.nodeSelector",
					  "spec.affinity",   "spec.tolerations",     "spec.schedulingGates"};
	yyjson_mut_doc *d = td_jm_copy(td_jget(job, "spec.template"));
	for (size_t i = 0; suspended && i < TD_LEN(may); i++)
		td_jm_del(yyjson_mut_doc_get_root(d), may[i]);
	return td_jm_done(d);
}

static size_t job_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const policies[] = {"OnFailure", "Never", NULL};
	size_t before = ret->n;
	bool indexed = td_streq(td_jstr(obj, "spec.completionMode"), "Indexed");
	check_selector(obj, old && td_jget(old, "spec.selector") ? old : NULL, false, ret);
	check_template(obj, policies, ret);
	if (indexed && !td_jget(obj, "spec.completions"))
		td_cause_add(ret, "FieldValueRequired", "spec.completions", "Required value: when completion mode is Indexed");
	if (td_jget(obj, "spec.backoffLimitPerIndex") && !indexed)
		td_cause_add(ret, "FieldValueInvalid", "spec.backoffLimitPerIndex", "Invalid value: %lld: requires indexed completion mode",
			     td_jint(obj, "spec.backoffLimitPerIndex", 0));
	if (!old)
		return ret->n - before;
	bool suspended = td_jbool(old, "spec.suspend", false) && !td_jget(old, "status.startTime");
	td_auto(td_json_unref) struct td_json *a = job_template(obj, suspended), *b = job_template(old, suspended);
	if (!td_jequal(td_json_root(a), td_json_root(b)))
		immutable(obj, old, "spec.template", ret);
	immutable(obj, old, "spec.completionMode", ret);
	immutable(obj, old, "spec.podFailurePolicy", ret);
	// An elastic Indexed Job changes completions and parallelism together.
	if (!indexed || !td_jequal(td_jget(obj, "spec.completions"), td_jget(obj, "spec.parallelism")))
		immutable(obj, old, "spec.completions", ret);
	return ret->n - before;
}

static void job_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *spec = td_jm_get(obj, "spec");
	template_defaults(d, obj);
	if (!yyjson_mut_is_obj(spec))
		return;
	bool completions = yyjson_mut_obj_get(spec, "completions"), parallelism = yyjson_mut_obj_get(spec, "parallelism");
	if (!completions && !parallelism)
		td_jm_int(d, spec, "completions", 1);
	if (!parallelism)
		td_jm_int(d, spec, "parallelism", 1);
	if (!yyjson_mut_obj_get(spec, "backoffLimit"))
		td_jm_int(d, spec, "backoffLimit", yyjson_mut_obj_get(spec, "backoffLimitPerIndex") ? INT_MAX : 6);
	if (!yyjson_mut_obj_get(spec, "podReplacementPolicy"))
		td_jm_str(d, spec, "podReplacementPolicy", yyjson_mut_obj_get(spec, "podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
	const char *uid = td_jm_getstr(obj, "metadata.uid"), *name = td_jm_getstr(obj, "metadata.name");
	yyjson_mut_val *manual = yyjson_mut_obj_get(spec, "manualSelector");
	if (!uid || !name || yyjson_mut_obj_get(spec, "selector") || (manual && yyjson_mut_is_true(manual)))
		return;
	yyjson_mut_val *labels = td_jm_obj(d, spec, "template.metadata.labels"), *match = td_jm_obj(d, spec, "selector.matchLabels");
	td_jm_key_str(d, match, "batch.kubernetes.io/controller-uid", uid);
	td_jm_key_str(d, labels, "batch.kubernetes.io/controller-uid", uid);
	td_jm_key_str(d, labels, "batch.kubernetes.io/job-name", name);
	td_jm_key_str(d, labels, "controller-uid", uid);
	td_jm_key_str(d, labels, "job-name", name);
}

// ---- core ----

static void check_keys(const yyjson_val *map, const char *path, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_unconst(map), i, max, k, v) {
		const char *s = td_keystr(k);
		size_t n = strlen(s);
		if (n && n <= 253 && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == n &&
		    strcmp(s, ".") && strncmp(s, "..", 2))
			continue;
		td_auto_free char *f = td_asprintf("%s[%s]", path, s);
		td_cause_add(ret, "FieldValueInvalid", f,
			     "Invalid value: \"%.260s\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'", s);
	}
}

static void check_frozen(const yyjson_val *obj, const yyjson_val *old, const char *const *fields, struct td_causes *ret)
{
	if (!td_jbool(old, "immutable", false))
		return;
	if (!td_jbool(obj, "immutable", false))
		td_cause_add(ret, "FieldValueForbidden", "immutable", "Forbidden: field is immutable when `immutable` is set");
	for (; *fields; fields++)
		if (!td_jequal(td_jkey(obj, *fields), td_jkey(old, *fields)))
			td_cause_add(ret, "FieldValueForbidden", *fields, "Forbidden: field is immutable when `immutable` is set");
}

static size_t configmap_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"data", "binaryData", NULL};
	size_t before = ret->n, i, max;
	yyjson_val *k, *v;
	check_keys(td_jkey(obj, "data"), "data", ret);
	check_keys(td_jkey(obj, "binaryData"), "binaryData", ret);
	yyjson_obj_foreach (td_jkey(obj, "binaryData"), i, max, k, v) {
		if (td_jkey(td_jkey(obj, "data"), td_keystr(k)))
			td_cause_at(ret, "FieldValueInvalid", "data", "", "Invalid value: \"%s\": duplicate of key present in binaryData",
				    td_keystr(k));
	}
	check_frozen(obj, old, fields, ret);
	return ret->n - before;
}

static size_t secret_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"data", NULL};
	size_t before = ret->n;
	check_keys(td_jkey(obj, "data"), "data", ret);
	immutable(obj, old, "type", ret);
	check_frozen(obj, old, fields, ret);
	return ret->n - before;
}

static char *base64(const char *s, size_t n)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *out = td_malloc((n + 2) / 3 * 4 + 1), *w = out;
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)s[i] << 16;
		v |= i + 1 < n ? (unsigned)(unsigned char)s[i + 1] << 8 : 0;
		v |= i + 2 < n ? (unsigned)(unsigned char)s[i + 2] : 0;
		*w++ = set[v >> 18];
		*w++ = set[v >> 12 & 63];
		*w++ = i + 1 < n ? set[v >> 6 & 63] : '=';
		*w++ = i + 2 < n ? set[v & 63] : '=';
	}
	*w = '\0';
	return out;
}

static void secret_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *plain = yyjson_mut_obj_get(obj, "stringData"), *k, *v;
	size_t i, max;
	if (!yyjson_mut_is_obj(plain))
		return;
	yyjson_mut_val *data = td_jm_obj(d, obj, "data");
	yyjson_mut_obj_foreach (plain, i, max, k, v) {
		td_auto_free char *b = base64(yyjson_mut_get_str(v) ? yyjson_mut_get_str(v) : "", yyjson_mut_get_len(v));
		td_jm_key_str(d, data, yyjson_mut_get_str(k), b);
	}
	yyjson_mut_obj_remove_key(obj, "stringData");
}

static void service_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	size_t i, max;
	yyjson_mut_val *p;
	yyjson_mut_arr_foreach (td_jm_get(obj, "spec.ports"), i, max, p) {
		yyjson_mut_val *port = yyjson_mut_obj_get(p, "port");
		if (yyjson_mut_is_int(port) && !yyjson_mut_obj_get(p, "targetPort"))
			td_jm_int(d, p, "targetPort", yyjson_mut_get_sint(port));
	}
	if (td_streq(td_jm_getstr(obj, "spec.clusterIP"), "None") && !td_jm_get(obj, "spec.clusterIPs"))
		yyjson_mut_arr_append(td_jm_arr(d, obj, "spec.clusterIPs"), yyjson_mut_strcpy(d, "None"));
}

static size_t service_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n, i, max, n = yyjson_arr_size(td_jget(obj, "spec.ports"));
	yyjson_val *p;
	yyjson_arr_foreach (td_jget(obj, "spec.ports"), i, max, p) {
		td_auto_free char *f = td_asprintf("spec.ports[%zu].name", i);
		const char *name = td_jstr_or(p, "name", "");
		if (n > 1 && !*name)
			td_cause_add(ret, "FieldValueRequired", f, "Required value");
		else if (*name && !td_is_dns_label(name))
			td_cause_add(ret, "FieldValueInvalid", f, "Invalid value: \"%.80s\": must be a lowercase RFC 1123 label", name);
	}
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

static size_t event_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	const char *a = td_jstr_or(obj, "involvedObject.namespace", ""), *ns = td_jstr_or(obj, "metadata.namespace", "");
	// Events about cluster-wide objects live in "default".
	if (!strcmp(a, ns) || (!*a && (!strcmp(ns, "default") || !strcmp(ns, "kube-system"))))
		return 0;
	td_cause_add(ret, "FieldValueInvalid", "involvedObject.namespace", "Invalid value: \"%s\": does not match event.namespace", a);
	return 1;
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
		immutable(obj, old, "preemptionPolicy", ret);
	return ret->n - before;
}

static size_t revision_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	if (td_jint(obj, "revision", 0) < 0)
		td_cause_add(ret, "FieldValueInvalid", "revision", "Invalid value: %lld: must be greater than or equal to 0",
			     td_jint(obj, "revision", 0));
	if (old && !td_jequal(td_jkey(obj, "data"), td_jkey(old, "data")))
		td_cause_add(ret, "FieldValueInvalid", "data", "Invalid value: field is immutable");
	return ret->n - before;
}

static size_t pdb_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"spec.minAvailable", "spec.maxUnavailable"};
	size_t before = ret->n;
	if (td_jget(obj, fields[0]) && td_jget(obj, fields[1]))
		td_cause_add(ret, "FieldValueInvalid", "spec", "Invalid value: minAvailable and maxUnavailable cannot be both set");
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		const char *s = td_jstr(obj, fields[i]);
		long long n;
		td_auto_free char *digits = s ? td_strndup(s, strcspn(s, "%")) : NULL;
		check_percent(obj, fields[i], ret);
		if (digits && td_parse_i64(digits, &n) && n > 100)
			td_cause_add(ret, "FieldValueInvalid", fields[i], "Invalid value: \"%s\": must not be greater than 100%%", s);
	}
	yyjson_val *sel = td_jget(obj, "spec.selector");
	td_auto(td_selector_free) struct td_selector *parsed = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (sel && td_selector_from_object(sel, &parsed, &err) < 0)
		td_cause_add(ret, "FieldValueInvalid", "spec.selector", "Invalid value: %s", err.msg);
	return ret->n - before;
}

static size_t crd_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n, n = 0;
	struct td_kind **v = NULL;
	if (!td_kind_from_crd(obj, &v, &n, ret, NULL)) {
		while (n)
			td_kind_free(v[--n]);
		free(v);
	}
	immutable(obj, old, "spec.group", ret);
	immutable(obj, old, "spec.scope", ret);
	immutable(obj, old, "spec.names.kind", ret);
	immutable(obj, old, "spec.names.plural", ret);
	return ret->n - before;
}

static void crd_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	const char *kind = td_jm_getstr(obj, "spec.names.kind");
	if (!kind)
		return;
	if (!td_jm_getstr(obj, "spec.names.singular")) {
		td_auto_free char *low = td_strdup(kind);
		for (char *p = low; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + 32);
		td_jm_str(d, obj, "spec.names.singular", low);
	}
	if (!td_jm_getstr(obj, "spec.names.listKind"))
		td_jm_strf(d, obj, "spec.names.listKind", "%sList", kind);
}

const struct td_kind_rules *td_kind_rules(const char *group, const char *kind)
{
	static const struct td_kind_rules rules[] = {
		{"", "Pod", td_pod_check, td_pod_defaults},
		{"", "ConfigMap", configmap_check, NULL},
		{"", "Secret", secret_check, secret_defaults},
		{"", "Service", service_check, service_defaults},
		{"", "Namespace", NULL, namespace_defaults},
		{"", "Event", event_check, NULL},
		{"apps", "Deployment", deployment_check, deployment_defaults},
		{"apps", "ReplicaSet", replicaset_check, template_defaults},
		{"apps", "StatefulSet", statefulset_check, statefulset_defaults},
		{"batch", "Job", job_check, job_defaults},
		{"scheduling.k8s.io", "PriorityClass", priorityclass_check, NULL},
		{"apps", "ControllerRevision", revision_check, NULL},
		{"policy", "PodDisruptionBudget", pdb_check, NULL},
		{"apiextensions.k8s.io", "CustomResourceDefinition", crd_check, crd_defaults},
	};
	for (size_t i = 0; i < TD_LEN(rules); i++)
		if (!strcmp(rules[i].group, group) && !strcmp(rules[i].kind, kind))
			return &rules[i];
	return NULL;
}
