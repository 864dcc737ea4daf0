// Rules of single parts of a pod spec: names of ports and keys, sources of variables, handlers,
// ids. No rule here looks across parts.
#include "api/kinds_priv.h"

#include <ctype.h>
#include <string.h>

#include "api/names.h"

static void faults(enum td_name_rule rule, const char *s, const char *path, const char *tail, struct td_causes *ret)
{
	td_auto_strv struct td_strv l = {0};
	td_name_faults(rule, s, &l);
	for (size_t i = 0; i < l.n; i++)
		td_cause_at(ret, "FieldValueInvalid", path, tail, "Invalid value: \"%.260s\": %s", s, l.v[i]);
}

// ---- ports ----

__attribute__((nonnull)) void td_port_name_check(const char *s, const char *path, const char *tail,
						 struct td_causes *ret)
{
	bool letter = false;
	for (const char *p = s; *p; p++)
		letter = letter || islower((unsigned char)*p);

	size_t n = strlen(s);
	if (n > 15)
		td_cause_at(ret, "FieldValueInvalid", path, tail,
			    "Invalid value: \"%.100s\": must be no more than 15 characters", s);
	if (strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
		td_cause_at(ret, "FieldValueInvalid", path, tail,
			    "Invalid value: \"%.100s\": must contain only alpha-numeric characters (a-z, 0-9), and "
			    "hyphens (-)",
			    s);
	else if (!letter)
		td_cause_at(ret, "FieldValueInvalid", path, tail,
			    "Invalid value: \"%.100s\": must contain at least one letter (a-z)", s);
	else if (strstr(s, "--"))
		td_cause_at(ret, "FieldValueInvalid", path, tail,
			    "Invalid value: \"%.100s\": must not contain consecutive hyphens", s);
	else if (*s == '-' || s[n - 1] == '-')
		td_cause_at(ret, "FieldValueInvalid", path, tail,
			    "Invalid value: \"%.100s\": must not begin or end with a hyphen", s);
}

static void port_of(const yyjson_val *handler, const char *path, struct td_causes *ret)
{
	const yyjson_val *v = td_jkey(handler, "port");
	if (!v)
		return; // the schema reports it
	if (yyjson_is_str(td_unconst(v)))
		td_port_name_check(yyjson_get_str(td_unconst(v)), path, ".port", ret);
	else if (yyjson_is_int(td_unconst(v)) &&
		 (yyjson_get_sint(td_unconst(v)) < 1 || yyjson_get_sint(td_unconst(v)) > 65535))
		td_cause_at(ret, "FieldValueInvalid", path, ".port",
			    "Invalid value: %lld: must be between 1 and 65535, inclusive",
			    (long long)yyjson_get_sint(td_unconst(v)));
}

static void ports(const yyjson_val *c, const char *path, struct td_causes *ret)
{
	size_t i, max, j, m;
	yyjson_val *p, *q;

	yyjson_arr_foreach (td_jkey(c, "ports"), i, max, p) {
		const char *name = td_jstr_or(p, "name", "");
		td_auto_free char *f = td_asprintf("%s.ports[%zu]", path, i);
		if (!*name)
			continue;
		td_port_name_check(name, f, ".name", ret);
		yyjson_arr_foreach (td_jkey(c, "ports"), j, m, q) {
			if (j >= i)
				break;
			if (td_streq(td_jstr(q, "name"), name)) {
				td_cause_at(ret, "FieldValueDuplicate", f, ".name", "Duplicate value: \"%s\"", name);
				break;
			}
		}
	}
}

// ---- handlers and variables ----

static void handlers(const yyjson_val *h, const char *path, struct td_causes *ret)
{
	static const char *const kinds[] = {"httpGet", "tcpSocket"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		td_auto_free char *f = td_asprintf("%s.%s", path, kinds[i]);
		port_of(td_jkey(h, kinds[i]), f, ret);
	}
}

static void hooks(const yyjson_val *c, const char *path, struct td_causes *ret)
{
	static const char *const names[] = {"postStart", "preStop"}, *const kinds[] = {"exec", "httpGet", "tcpSocket",
										       "sleep"};

	for (size_t i = 0; i < TD_LEN(names); i++) {
		const yyjson_val *h = td_jkey(td_jkey(c, "lifecycle"), names[i]);
		bool any = false;
		for (size_t k = 0; k < TD_LEN(kinds); k++)
			any = any || td_jkey(h, kinds[k]);
		td_auto_free char *f = td_asprintf("%s.lifecycle.%s", path, names[i]);
		if (h && !any)
			td_cause_at(ret, "FieldValueRequired", f, "", "Required value: must specify a handler type");
		handlers(h, f, ret);
	}
}

static void variables(const yyjson_val *c, const char *path, struct td_causes *ret)
{
	static const char *const keys[] = {"configMapKeyRef", "secretKeyRef"};
	size_t i, max;
	yyjson_val *e;

	yyjson_arr_foreach (td_jkey(c, "envFrom"), i, max, e) {
		bool map = td_jkey(e, "configMapRef"), secret = td_jkey(e, "secretRef");
		if (map == secret)
			td_cause_at(ret, "FieldValueInvalid", path, ".envFrom", "Invalid value: \"\": %s",
				    map ? "may not have more than one field specified at a time"
					: "must specify one of: `configMapRef` or `secretRef`");
	}

	yyjson_arr_foreach (td_jkey(c, "env"), i, max, e) {
		for (size_t k = 0; k < TD_LEN(keys); k++) {
			const yyjson_val *ref = td_jkey(td_jkey(e, "valueFrom"), keys[k]);
			td_auto_free char *f = td_asprintf("%s.env[%zu].valueFrom.%s", path, i, keys[k]);
			const char *key = td_jstr_or(ref, "key", "");
			if (ref && !*key)
				td_cause_at(ret, "FieldValueRequired", f, ".key", "Required value");
			else if (ref)
				faults(TD_N_CONFIG_KEY, key, f, ".key", ret);
		}
	}
}

void td_container_parts_check(const yyjson_val *c, const char *path, struct td_causes *ret)
{
	static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};

	ports(c, path, ret);
	hooks(c, path, ret);
	variables(c, path, ret);
	for (size_t i = 0; i < TD_LEN(probes); i++) {
		td_auto_free char *f = td_asprintf("%s.%s", path, probes[i]);
		handlers(td_jkey(c, probes[i]), f, ret);
	}

	const yyjson_val *sc = td_jkey(c, "securityContext"), *esc = td_jkey(sc, "allowPrivilegeEscalation");
	bool admin = false;
	size_t i, max;
	yyjson_val *cap;
	yyjson_arr_foreach (td_jget(sc, "capabilities.add"), i, max, cap)
		admin = admin || yyjson_equals_str(cap, "CAP_SYS_ADMIN");

	if (esc && !yyjson_get_bool(td_unconst(esc)) && (admin || td_jbool(sc, "privileged", false)))
		td_cause_at(ret, "FieldValueInvalid", path, ".securityContext",
			    "Invalid value: %s: cannot set `allowPrivilegeEscalation` to false and `%s`",
			    admin ? "CAP_SYS_ADMIN" : "privileged",
			    admin ? "capabilities.Add` CAP_SYS_ADMIN" : "privileged` to true");
}

// ---- the spec ----

void td_spec_parts_check(const yyjson_val *spec, const char *path, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *k, *v;

	yyjson_obj_foreach (td_jkey(spec, "nodeSelector"), i, max, k, v) {
		faults(TD_N_QUALIFIED, td_keystr(k), path, ".nodeSelector", ret);
		if (yyjson_is_str(v))
			faults(TD_N_LABEL_VALUE, yyjson_get_str(v), path, ".nodeSelector", ret);
	}
	yyjson_arr_foreach (td_jkey(spec, "tolerations"), i, max, v) {
		td_auto_free char *tail = td_asprintf(".tolerations[%zu].key", i);
		if (*td_jstr_or(v, "key", ""))
			faults(TD_N_QUALIFIED, td_jstr(v, "key"), path, tail, ret);
	}
	yyjson_arr_foreach (td_jkey(spec, "schedulingGates"), i, max, v) {
		td_auto_free char *tail = td_asprintf(".schedulingGates[%zu]", i);
		faults(TD_N_QUALIFIED, td_jstr_or(v, "name", ""), path, tail, ret);
	}
	yyjson_arr_foreach (td_jkey(spec, "readinessGates"), i, max, v) {
		td_auto_free char *tail = td_asprintf(".readinessGates[%zu].conditionType", i);
		faults(TD_N_QUALIFIED, td_jstr_or(v, "conditionType", ""), path, tail, ret);
	}
	yyjson_arr_foreach (td_jget(spec, "securityContext.supplementalGroups"), i, max, v) {
		td_auto_free char *tail = td_asprintf(".securityContext.supplementalGroups[%zu]", i);
		if (yyjson_is_int(v) && (yyjson_get_sint(v) < 0 || yyjson_get_sint(v) > INT32_MAX))
			td_cause_at(ret, "FieldValueInvalid", path, tail,
				    "Invalid value: %lld: must be between 0 and 2147483647, inclusive",
				    (long long)yyjson_get_sint(v));
	}

	const char *node = td_jstr_or(spec, "nodeName", "");
	if (*node)
		faults(TD_N_SUBDOMAIN, node, path, ".nodeName", ret);

	static const char *const terms =
		"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
	size_t j, m;
	yyjson_val *f;
	yyjson_arr_foreach (td_jget(spec, terms), i, max, v)
		yyjson_arr_foreach (td_jkey(v, "matchFields"), j, m, f) {
			td_auto_free char *tail = td_asprintf(".%s[%zu].matchFields[%zu].key", terms, i, j);
			if (!td_streq(td_jstr(f, "key"), "metadata.name"))
				td_cause_at(ret, "FieldValueInvalid", path, tail,
					    "Invalid value: \"%.100s\": not a valid field selector key",
					    td_jstr_or(f, "key", ""));
		}
}
