// Rules of pod specs that a schema cannot express: names that must exist, resources, fields that
// belong together. The messages are those of Kubernetes.
#include "api/kinds_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "api/quantity_priv.h"

void td_cause_at(struct td_causes *c, const char *reason, const char *field, const char *tail, const char *fmt, ...)
{
	td_auto_free char *f = td_asprintf("%s%s", field, tail);
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *msg = td_vasprintf(fmt, ap);
	va_end(ap);
	td_cause_add(c, reason, f, "%s", msg);
}

// ---- resources ----

static bool is_extended(const char *name)
{
	return strchr(name, '/') && !strstr(name, "kubernetes.io/") && !td_starts(name, "requests.");
}

static bool amount(const yyjson_val *v, __int128 *ret)
{
	td_auto_free char *num = yyjson_is_num(td_unconst(v)) ? td_json_text(v, NULL) : NULL;
	const char *s = num ? num : yyjson_get_str(td_unconst(v));
	return s && !td_quantity_read(s, ret, NULL, NULL);
}

static const char *text(const yyjson_val *v, char buf[40])
{
	const char *s = yyjson_get_str(td_unconst(v));
	td_auto_free char *num = s ? NULL : td_json_text(v, NULL);
	snprintf(buf, 40, "%s", s ? s : num ? num : "");
	return buf;
}

void td_resources_check(const yyjson_val *res, const char *path, struct td_causes *ret)
{
	static const char *const part[] = {"limits", "requests"};
	const yyjson_val *limits = td_jkey(res, "limits"), *requests = td_jkey(res, "requests");
	size_t i, max;
	yyjson_val *k, *v;
	char a[40], b[40];

	for (int p = 0; p < 2; p++) {
		yyjson_obj_foreach (td_jkey(res, part[p]), i, max, k, v) {
			const char *name = td_keystr(k);
			td_auto_free char *f = td_asprintf("%s.%s[%s]", path, part[p], name);
			__int128 n;
			bool native = !strcmp(name, "cpu") || !strcmp(name, "memory") ||
				      !strcmp(name, "ephemeral-storage") || td_starts(name, "hugepages-");
			if (!td_is_qualified_name(name) || (!native && !strchr(name, '/')))
				td_cause_at(ret, "FieldValueInvalid", f, "",
					    "Invalid value: \"%.80s\": must be a standard resource for containers, or "
					    "<domain>/<name>",
					    name);

			if (!amount(v, &n))
				continue; // the schema has reported it
			if (n < 0)
				td_cause_at(ret, "FieldValueInvalid", f, "",
					    "Invalid value: \"%s\": must be greater than or equal to 0", text(v, a));
			if (is_extended(name) && n % 1000)
				td_cause_at(ret, "FieldValueInvalid", f, "",
					    "Invalid value: \"%s\": must be an integer", text(v, a));

			const yyjson_val *other = td_jkey(p ? limits : requests, name);
			__int128 m;
			td_auto_free char *all = td_asprintf(
				"%s.%s", path, p == 1 && is_extended(name) && !other ? "limits" : "requests");
			if (p == 1 && is_extended(name) && !other)
				td_cause_at(ret, "FieldValueRequired", all, "",
					    "Required value: Limit must be set for non overcommitable resources");
			else if (p == 1 && amount(other, &m) && is_extended(name) && n != m)
				td_cause_at(ret, "FieldValueInvalid", all, "",
					    "Invalid value: \"%s\": must be equal to %s limit of %s", text(v, a), name,
					    text(other, b));
			else if (p == 1 && amount(other, &m) && n > m)
				td_cause_at(ret, "FieldValueInvalid", all, "",
					    "Invalid value: \"%s\": must be less than or equal to %s limit of %s",
					    text(v, a), name, text(other, b));
		}
	}
}

// ---- one container ----

static bool named(const yyjson_val *list, const char *name)
{
	size_t i, max;
	yyjson_val *x;
	yyjson_arr_foreach (td_unconst(list), i, max, x) {
		if (td_streq(td_jkey_str(x, "name"), name))
			return true;
	}
	return false;
}

static int handlers(const yyjson_val *h, const char *const *names)
{
	int n = 0;
	for (; *names; names++)
		n += yyjson_is_obj(td_jkey(h, *names));
	return n;
}

static void check_probe(const yyjson_val *c, const char *which, const char *path, struct td_causes *ret)
{
	static const char *const names[] = {"exec", "httpGet", "tcpSocket", "grpc", NULL};
	const yyjson_val *p = td_jkey(c, which);
	if (!p)
		return;
	td_auto_free char *f = td_asprintf("%s.%s", path, which);
	int n = handlers(p, names);

	if (n != 1)
		td_cause_at(ret, n ? "FieldValueForbidden" : "FieldValueRequired", f, "",
			    n ? "Forbidden: may not specify more than 1 handler type"
			      : "Required value: must specify a handler type");
	if (yyjson_is_obj(td_jkey(p, "exec")) && !yyjson_arr_size(td_jget(p, "exec.command")))
		td_cause_at(ret, "FieldValueRequired", f, ".exec.command", "Required value");
	if (strcmp(which, "readinessProbe") && td_jint(p, "successThreshold", 1) != 1)
		td_cause_at(ret, "FieldValueInvalid", f, ".successThreshold", "Invalid value: %lld: must be 1",
			    td_jint(p, "successThreshold", 1));
}

// Checks which fields of the pod and which container resources a variable (`env`) or a volume may
// refer to.
static void check_refs(const yyjson_val *v, bool env, const char *path, struct td_causes *ret)
{
	static const char *const both[] = {"metadata.name", "metadata.namespace", "metadata.uid"};
	static const char *const only_env[] = {"spec.nodeName", "spec.serviceAccountName",
					       "status.hostIP", "status.hostIPs",
					       "status.podIP",  "status.podIPs"};
	static const char *const maps[] = {"metadata.labels", "metadata.annotations"};
	static const char *const resources[] = {"limits.cpu",   "limits.memory",   "limits.ephemeral-storage",
						"requests.cpu", "requests.memory", "requests.ephemeral-storage"};

	const char *f = td_jget(v, "fieldRef") ? td_jstr_or(v, "fieldRef.fieldPath", "") : NULL;
	bool ok = !f;
	for (size_t i = 0; f && i < TD_LEN(both); i++)
		ok = ok || !strcmp(f, both[i]);
	for (size_t i = 0; f && env && i < TD_LEN(only_env); i++)
		ok = ok || !strcmp(f, only_env[i]);
	for (size_t i = 0; f && i < TD_LEN(maps); i++) {
		size_t n = strlen(maps[i]), len = strlen(f);
		ok = ok || (!env && !strcmp(f, maps[i])) ||
		     (len > n + 4 && !strncmp(f, maps[i], n) && !strncmp(f + n, "['", 2) && !strcmp(f + len - 2, "']"));
	}

	if (!ok)
		td_cause_at(
			ret, "FieldValueNotSupported", path, ".fieldRef.fieldPath",
			"Unsupported value: \"%.100s\": supported values: \"metadata.name\", \"metadata.namespace\", "
			"\"metadata.uid\", \"metadata.labels['<KEY>']\", \"metadata.annotations['<KEY>']\"%s",
			f,
			env ? ", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", "
			      "\"status.hostIPs\", \"status.podIP\", \"status.podIPs\""
			    : ", \"metadata.labels\", \"metadata.annotations\"");

	const char *res = td_jget(v, "resourceFieldRef") ? td_jstr_or(v, "resourceFieldRef.resource", "") : NULL;
	ok = !res;
	for (size_t i = 0; res && i < TD_LEN(resources); i++)
		ok = ok || !strcmp(res, resources[i]);
	if (!ok)
		td_cause_at(ret, "FieldValueNotSupported", path, ".resourceFieldRef.resource",
			    "Unsupported value: \"%.100s\": supported values: limits and requests of cpu, memory and "
			    "ephemeral-storage",
			    res);
	if (res && !env && !*td_jstr_or(v, "resourceFieldRef.containerName", ""))
		td_cause_at(ret, "FieldValueRequired", path, ".resourceFieldRef.containerName", "Required value");
}

static void check_env(const yyjson_val *c, const char *path, struct td_causes *ret)
{
	static const char *const sources[] = {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", NULL};
	size_t i, max;
	yyjson_val *e;
	yyjson_arr_foreach (td_jkey(c, "env"), i, max, e) {
		const yyjson_val *from = td_jkey(e, "valueFrom");
		if (!from)
			continue;

		td_auto_free char *f = td_asprintf("%s.env[%zu].valueFrom", path, i);
		const char *value = td_jstr(e, "value");
		if (value && *value)
			td_cause_at(ret, "FieldValueInvalid", f, "",
				    "Invalid value: \"\": may not be specified when `value` is not empty");
		if (handlers(from, sources) != 1)
			td_cause_at(ret, "FieldValueInvalid", f, "",
				    "Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, "
				    "`configMapKeyRef` or `secretKeyRef`");
		check_refs(from, true, f, ret);
	}
}

static void check_mounts(const yyjson_val *c, const yyjson_val *volumes, const char *path, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *m;

	yyjson_arr_foreach (td_jkey(c, "volumeMounts"), i, max, m) {
		const char *name = td_jstr_or(m, "name", ""), *sub = td_jstr_or(m, "subPath", "");
		td_auto_free char *f = td_asprintf("%s.volumeMounts[%zu]", path, i);
		if (!named(volumes, name))
			td_cause_at(ret, "FieldValueNotFound", f, ".name", "Not found: \"%s\"", name);

		if (*sub == '/')
			td_cause_at(ret, "FieldValueInvalid", path, ".volumeMounts.subPath",
				    "Invalid value: \"%s\": must be a relative path", sub);
		for (const char *p = sub; *p; p = strchrnul(p, '/') + (*strchrnul(p, '/') == '/'))
			if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/')) {
				td_cause_at(ret, "FieldValueInvalid", path, ".volumeMounts.subPath",
					    "Invalid value: \"%s\": must not contain '..'", sub);
				break;
			}
		if (*sub && *td_jstr_or(m, "subPathExpr", ""))
			td_cause_at(ret, "FieldValueInvalid", f, ".subPathExpr",
				    "Invalid value: \"%s\": subPathExpr and subPath are mutually exclusive",
				    td_jstr_or(m, "subPathExpr", ""));
	}
}

static void check_container(const yyjson_val *c, const yyjson_val *spec, const char *path, bool init,
			    struct td_causes *ret)
{
	static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
	bool sidecar = init && td_streq(td_jstr(c, "restartPolicy"), "Always");
	const char *image = td_jstr_or(c, "image", "");

	if (!*image)
		td_cause_at(ret, "FieldValueRequired", path, ".image", "Required value");
	else if (strspn(image, " \t\n") || strchr(" \t\n", image[strlen(image) - 1]))
		td_cause_at(ret, "FieldValueInvalid", path, ".image",
			    "Invalid value: \"%.200s\": must not have leading or trailing whitespace", image);

	for (size_t i = 0; i < TD_LEN(probes); i++) {
		if (init && !sidecar && td_jkey(c, probes[i])) {
			td_auto_free char *tail = td_asprintf(".%s", probes[i]);
			td_cause_at(ret, "FieldValueForbidden", path, tail,
				    "Forbidden: may not be set for init containers without restartPolicy=Always");
		} else {
			check_probe(c, probes[i], path, ret);
		}
	}

	check_env(c, path, ret);
	check_mounts(c, td_jkey(spec, "volumes"), path, ret);
	td_auto_free char *res = td_asprintf("%s.resources", path);
	td_resources_check(td_jkey(c, "resources"), res, ret);

	size_t i, max;
	yyjson_val *claim;
	yyjson_arr_foreach (td_jget(c, "resources.claims"), i, max, claim) {
		td_auto_free char *tail = td_asprintf(".claims[%zu].name", i);
		if (!named(td_jkey(spec, "resourceClaims"), td_jstr_or(claim, "name", "")))
			td_cause_at(ret, "FieldValueNotFound", res, tail, "Not found: \"%s\"",
				    td_jstr_or(claim, "name", ""));
	}
}

// ---- the spec ----

// Checks the name of a file that a volume creates in its own directory.
static void check_file_path(const char *s, const char *f, struct td_causes *ret)
{
	const char *bad = *s == '/' ? "must be a relative path" : NULL;
	for (const char *p = s; *p && !bad; p = strchrnul(p, '/') + (*strchrnul(p, '/') == '/'))
		if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/'))
			bad = "must not contain '..'";
	if (!bad && td_starts(s, ".."))
		bad = "must not start with '..'";

	if (!*s)
		td_cause_at(ret, "FieldValueRequired", f, ".path", "Required value");
	if (bad)
		td_cause_at(ret, "FieldValueInvalid", f, ".path", "Invalid value: \"%.100s\": %s", s, bad);
}

static void check_file_paths(const yyjson_val *items, const char *path, const char *name, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *it;
	yyjson_arr_foreach (td_unconst(items), i, max, it) {
		td_auto_free char *f = td_asprintf("%s.%s[%zu]", path, name, i);
		check_file_path(td_jstr_or(it, "path", ""), f, ret);
		check_refs(it, false, f, ret);
	}
}

static void check_payload(const yyjson_val *v, const char *f, struct td_causes *ret)
{
	static const char *const kinds[] = {"configMap", "secret", "downwardAPI"};
	size_t i, max;
	yyjson_val *src;

	for (size_t k = 0; k < TD_LEN(kinds); k++) {
		td_auto_free char *at = td_asprintf("%s.%s", f, kinds[k]);
		check_file_paths(td_jkey(td_jkey(v, kinds[k]), "items"), at, "items", ret);
	}

	yyjson_arr_foreach (td_jget(v, "projected.sources"), i, max, src) {
		td_auto_free char *at = td_asprintf("%s.projected.sources[%zu]", f, i);
		check_payload(src, at, ret);
		td_auto_free char *token = td_asprintf("%s.serviceAccountToken", at);
		if (td_jkey(src, "serviceAccountToken"))
			check_file_path(td_jstr_or(src, "serviceAccountToken.path", ""), token, ret);
	}
}

static void check_volumes(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	size_t i, max, j, m;
	yyjson_val *v, *k, *x;

	yyjson_arr_foreach (td_jkey(spec, "volumes"), i, max, v) {
		td_auto_free char *f = td_asprintf("%s.volumes[%zu]", path, i);
		int n = 0;
		yyjson_obj_foreach (v, j, m, k, x) {
			if (strcmp(td_keystr(k), "name") && yyjson_is_obj(x))
				n++;
		}

		if (n > 1)
			td_cause_at(ret, "FieldValueForbidden", f, "",
				    "Forbidden: may not specify more than 1 volume type");
		if (td_jkey(v, "secret") && !*td_jstr_or(v, "secret.secretName", ""))
			td_cause_at(ret, "FieldValueRequired", f, ".secret.secretName", "Required value");
		if (td_jkey(v, "configMap") && !*td_jstr_or(v, "configMap.name", ""))
			td_cause_at(ret, "FieldValueRequired", f, ".configMap.name", "Required value");

		if (td_jkey(v, "persistentVolumeClaim") && !*td_jstr_or(v, "persistentVolumeClaim.claimName", ""))
			td_cause_at(ret, "FieldValueRequired", f, ".persistentVolumeClaim.claimName", "Required value");

		check_payload(v, f, ret);
		const char *host = td_jstr_or(v, "hostPath.path", "");
		for (const char *p = host; *p; p = strchrnul(p, '/') + (*strchrnul(p, '/') == '/'))
			if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/')) {
				td_cause_at(ret, "FieldValueInvalid", f, ".hostPath.path",
					    "Invalid value: \"%s\": must not contain '..'", host);
				break;
			}
	}
}

static void check_tolerations(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *t;

	yyjson_arr_foreach (td_jkey(spec, "tolerations"), i, max, t) {
		td_auto_free char *f = td_asprintf("%s.tolerations[%zu]", path, i);
		const char *key = td_jstr_or(t, "key", ""), *op = td_jstr_or(t, "operator", ""),
			   *value = td_jstr_or(t, "value", "");
		if (!*key && strcmp(op, "Exists"))
			td_cause_at(ret, "FieldValueInvalid", f, ".operator",
				    "Invalid value: \"%s\": operator must be Exists when `key` is empty, which means "
				    "\"match all values and all keys\"",
				    op);
		if (!strcmp(op, "Exists") && *value)
			td_cause_at(ret, "FieldValueInvalid", f, ".operator",
				    "Invalid value: \"%s\": value must be empty when `operator` is 'Exists'", value);
		if (td_jkey(t, "tolerationSeconds") && !td_streq(td_jstr(t, "effect"), "NoExecute"))
			td_cause_at(ret, "FieldValueInvalid", f, ".effect",
				    "Invalid value: \"%s\": effect must be 'NoExecute' when `tolerationSeconds` is set",
				    td_jstr_or(t, "effect", ""));
	}
}

static void check_affinity(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	size_t i, max, j, m;
	yyjson_val *t, *e;
	static const char *const lists[] = {"matchExpressions", "matchFields"};

	yyjson_arr_foreach (
		td_jget(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"),
		i, max, t) {
		for (size_t l = 0; l < TD_LEN(lists); l++)
			yyjson_arr_foreach (td_jkey(t, lists[l]), j, m, e) {
				td_auto_free char *f = td_asprintf(
					"%s.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
					"nodeSelectorTerms[%zu].%s[%zu]",
					path, i, lists[l], j);
				const char *op = td_jstr_or(e, "operator", "");
				size_t n = yyjson_arr_size(td_jkey(e, "values"));
				if ((!strcmp(op, "In") || !strcmp(op, "NotIn")) && !n)
					td_cause_at(
						ret, "FieldValueRequired", f, ".values",
						"Required value: must be specified when `operator` is 'In' or 'NotIn'");
				else if ((!strcmp(op, "Exists") || !strcmp(op, "DoesNotExist")) && n)
					td_cause_at(ret, "FieldValueForbidden", f, ".values",
						    "Forbidden: may not be specified when `operator` is 'Exists' or "
						    "'DoesNotExist'");
				else if ((!strcmp(op, "Gt") || !strcmp(op, "Lt")) && n != 1)
					td_cause_at(ret, "FieldValueRequired", f, ".values",
						    "Required value: must be specified single value when `operator` is "
						    "'Lt' or 'Gt'");
			}
	}
}

void td_podspec_check(const yyjson_val *spec, const char *path, bool is_template, struct td_causes *ret)
{
	static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};
	size_t i, max;
	yyjson_val *c;

	if (!yyjson_is_obj(td_unconst(spec)))
		return;

	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jkey(spec, lists[l]), i, max, c) {
			td_auto_free char *f = td_asprintf("%s.%s[%zu]", path, lists[l], i);
			const char *name = td_jstr_or(c, "name", "");
			// The schema finds equal names within one list; this finds them across the
			// lists.
			for (size_t e = 0; e < l; e++)
				if (named(td_jkey(spec, lists[e]), name))
					td_cause_at(ret, "FieldValueDuplicate", f, ".name", "Duplicate value: \"%s\"",
						    name);
			check_container(c, spec, f, l == 0, ret);
			td_container_parts_check(c, f, ret);
		}

	td_spec_parts_check(spec, path, ret);
	check_volumes(spec, path, ret);
	check_tolerations(spec, path, ret);
	check_affinity(spec, path, ret);
	if (!is_template && yyjson_arr_size(td_jkey(spec, "schedulingGates")) && *td_jstr_or(spec, "nodeName", ""))
		td_cause_at(ret, "FieldValueForbidden", path, ".nodeName",
			    "Forbidden: cannot be set until all schedulingGates have been cleared");

	static const char *const hosts[][2] = {
		{"hostNetwork", ".hostNetwork"}, {"hostPID", ".HostPID"}, {"hostIPC", ".HostIPC"}};
	for (size_t h = 0; h < TD_LEN(hosts) && !td_jbool(spec, "hostUsers", true); h++)
		if (td_jbool(spec, hosts[h][0], false))
			td_cause_at(ret, "FieldValueForbidden", path, hosts[h][1],
				    "Forbidden: when `hostUsers` is false");

	const char *dns = td_jstr_or(spec, "dnsPolicy", "");
	if (!strcmp(dns, "None") && !yyjson_arr_size(td_jget(spec, "dnsConfig.nameservers")))
		td_cause_at(ret, "FieldValueRequired", path, ".dnsConfig.nameservers",
			    "Required value: must provide at least one DNS nameserver when `dnsPolicy` is None");

	td_auto_free char *res = td_asprintf("%s.resources", path);
	td_resources_check(td_jkey(spec, "resources"), res, ret);
}

// ---- defaults ----

static bool tag_is_latest(const char *image)
{
	const char *slash = strrchr(image, '/'), *name = slash ? slash + 1 : image;
	if (strchr(name, '@'))
		return false;
	const char *colon = strrchr(name, ':');
	return !colon || !strcmp(colon + 1, "latest");
}

static void container_defaults(yyjson_mut_doc *d, yyjson_mut_val *c)
{
	if (!td_jm_getstr(c, "imagePullPolicy"))
		td_jm_str(d, c, "imagePullPolicy",
			  tag_is_latest(td_jm_getstr(c, "image") ? td_jm_getstr(c, "image") : "") ? "Always"
												  : "IfNotPresent");
}

// A limit without a request is also the request: in pods, not in templates.
static void request_limits(yyjson_mut_doc *d, yyjson_mut_val *spec)
{
	static const char *const lists[] = {"initContainers", "containers"};
	size_t i, max, j, m;
	yyjson_mut_val *c, *k, *v;

	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_mut_arr_foreach (td_jm_get(spec, lists[l]), i, max, c) {
			yyjson_mut_obj_foreach (td_jm_get(c, "resources.limits"), j, m, k, v) {
				yyjson_mut_val *requests = td_jm_obj(d, c, "resources.requests");
				if (!yyjson_mut_obj_get(requests, yyjson_mut_get_str(k)))
					td_jm_key_set(d, requests, yyjson_mut_get_str(k),
						      yyjson_mut_val_mut_copy(d, v));
			}
		}
}

void td_podspec_defaults(yyjson_mut_doc *d, yyjson_mut_val *spec)
{
	static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};
	size_t i, max;
	yyjson_mut_val *c;

	if (!yyjson_mut_is_obj(spec))
		return;
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_mut_arr_foreach (td_jm_get(spec, lists[l]), i, max, c)
			container_defaults(d, c);
	yyjson_mut_arr_foreach (td_jm_get(spec, "volumes"), i, max, c) {
		if (yyjson_mut_is_obj(c) && yyjson_mut_obj_size(c) == 1)
			td_jm_obj(d, c, "emptyDir");
	}

	// The old and the new name of the service account field have the same value.
	const char *account = td_jm_getstr(spec, "serviceAccountName");
	if (!account)
		account = td_jm_getstr(spec, "serviceAccount");
	if (account) {
		td_jm_str(d, spec, "serviceAccountName", account);
		td_jm_str(d, spec, "serviceAccount", account);
	}

	if (td_jm_get(spec, "hostNetwork") && yyjson_mut_is_true(td_jm_get(spec, "hostNetwork")))
		yyjson_mut_arr_foreach (td_jm_get(spec, "containers"), i, max, c) {
			size_t j, m;
			yyjson_mut_val *p;
			yyjson_mut_arr_foreach (td_jm_get(c, "ports"), j, m, p) {
				if (!yyjson_mut_obj_get(p, "hostPort") &&
				    yyjson_mut_is_int(yyjson_mut_obj_get(p, "containerPort")))
					td_jm_int(d, p, "hostPort",
						  yyjson_mut_get_sint(yyjson_mut_obj_get(p, "containerPort")));
			}
		}
}

void td_api_pod_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	td_podspec_defaults(d, td_jm_get(obj, "spec"));
	request_limits(d, td_jm_get(obj, "spec"));
	// In pods, not in templates.
	if (yyjson_mut_is_obj(td_jm_get(obj, "spec")) && !td_jm_get(obj, "spec.enableServiceLinks"))
		td_jm_bool(d, obj, "spec.enableServiceLinks", true);

	if (!td_jm_getstr(obj, "status.phase"))
		td_jm_str(d, obj, "status.phase", "Pending");
	td_api_pod_addresses(d, obj);
	// As in Kubernetes, a negative grace period is stored as 1.
	yyjson_mut_val *grace = td_jm_get(obj, "spec.terminationGracePeriodSeconds");
	if (grace && yyjson_mut_is_int(grace) && yyjson_mut_get_sint(grace) < 0)
		td_jm_int(d, obj, "spec.terminationGracePeriodSeconds", 1);
}
