#include "kubelet/pods/env.h"

#include "api/quantity.h"
#include "base/names.h"
#include "kubelet/pods/sync.h"

#include <stdio.h>
#include <string.h>

// ---- values of ConfigMaps and Secrets ----

static void base64(const char *s, struct td_buf *ret)
{
	unsigned acc = 0, bits = 0;
	for (; *s && *s != '='; s++) {
		const char *alpha = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
		const char *at = strchr(alpha, *s);
		if (!at)
			continue; // skip line breaks
		acc = acc << 6 | (unsigned)(at - alpha);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			td_buf_putc(ret, (char)(acc >> bits & 0xff));
		}
	}
}

bool td_kubelet_object_value(const struct td_object *o, bool secret, const char *key, struct td_buf *ret)
{
	yyjson_val *v = td_jkey(td_jget(o->root, "data"), key);
	if (yyjson_is_str(v)) {
		if (secret)
			base64(yyjson_get_str(v), ret);
		else
			td_buf_add(ret, yyjson_get_str(v), yyjson_get_len(v));
		return true;
	}

	v = td_jkey(td_jget(o->root, secret ? "stringData" : "binaryData"), key);
	if (!yyjson_is_str(v))
		return false;
	if (secret)
		td_buf_add(ret, yyjson_get_str(v), yyjson_get_len(v));
	else
		base64(yyjson_get_str(v), ret);
	return true;
}

void td_kubelet_object_value_keys(const struct td_object *o, struct td_strv *ret)
{
	const char *maps[] = {"data", "binaryData"};
	for (size_t m = 0; m < TD_LEN(maps); m++) {
		yyjson_val *k, *v;
		size_t i, n;
		yyjson_obj_foreach (td_jget(o->root, maps[m]), i, n, k, v) {
			td_strv_add(ret, yyjson_get_str(k));
		}
	}
}

// ---- expansion ----

static const char *env_get(const struct td_strv *env, const char *key, size_t n)
{
	for (size_t i = env->n; i-- > 0;)
		if (!strncmp(env->v[i], key, n) && env->v[i][n] == '=')
			return env->v[i] + n + 1;
	return NULL;
}

void td_env_set(struct td_strv *env, const char *key, const char *value)
{
	size_t n = strlen(key);
	for (size_t i = 0; i < env->n; i++)
		if (!strncmp(env->v[i], key, n) && env->v[i][n] == '=') {
			free(env->v[i]);
			env->v[i] = td_asprintf("%s=%s", key, value);
			return;
		}
	td_strv_addf(env, "%s=%s", key, value);
}

char *td_env_expand(const char *s, const struct td_strv *env)
{
	struct td_buf b = {0};
	while (*s) {
		if (s[0] == '$' && s[1] == '$') {
			td_buf_putc(&b, '$');
			s += 2;
			continue;
		}

		const char *end = s[0] == '$' && s[1] == '(' ? strchr(s, ')') : NULL;
		if (!end) {
			td_buf_putc(&b, *s++);
			continue;
		}

		const char *v = env_get(env, s + 2, (size_t)(end - s - 2));
		if (v)
			td_buf_puts(&b, v);
		else
			td_buf_add(&b, s, (size_t)(end - s + 1));
		s = end + 1;
	}
	return td_buf_take(&b);
}

// ---- the pod's own fields ----

// Formats a map as the kubelet does: one line key="escaped value" per entry.
static char *map_text(const yyjson_val *map)
{
	struct td_buf b = {0};
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach ((yyjson_val *)map, i, n, k, v) {
		td_auto_free char *text = td_json_text(v, NULL);
		td_buf_printf(&b, "%s%s=%s", b.len ? "\n" : "", yyjson_get_str(k), text);
	}
	return td_buf_take(&b);
}

int td_env_field(const struct td_env_src *s, const char *path, char **ret, struct td_error *err)
{
	const char *fields[] = {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
				"spec.serviceAccountName"};
	for (size_t i = 0; i < TD_LEN(fields); i++)
		if (td_streq(path, fields[i])) {
			*ret = td_strdup(td_jstr_or(s->pod, path, ""));
			return 0;
		}

	if (td_streq(path, "status.podIP") || td_streq(path, "status.podIPs")) {
		*ret = td_strdup(s->pod_ip);
		return 0;
	}

	if (td_streq(path, "status.hostIP") || td_streq(path, "status.hostIPs")) {
		*ret = td_strdup(s->host_ip);
		return 0;
	}

	if (td_streq(path, "metadata.labels") || td_streq(path, "metadata.annotations")) {
		*ret = map_text(td_jget(s->pod, path));
		return 0;
	}

	const char *maps[] = {"metadata.labels", "metadata.annotations"};
	for (size_t i = 0; path && i < TD_LEN(maps); i++) {
		size_t n = strlen(maps[i]), len = strlen(path);
		if (strncmp(path, maps[i], n) || len < n + 4 || strncmp(path + n, "['", 2) ||
		    strcmp(path + len - 2, "']"))
			continue;
		td_auto_free char *key = td_strndup(path + n + 2, len - n - 4);
		const char *v = td_jkey_str(td_jget(s->pod, maps[i]), key);
		*ret = td_strdup(v ? v : "");
		return 0;
	}

	return td_fail(err, TD_INVALID, "fieldPath \"%.100s\" is not supported", path ? path : "");
}

int td_env_resource(const struct td_env_src *s, const char *container, const char *resource, const char *divisor,
		    char **ret, struct td_error *err)
{
	const yyjson_val *c = td_ctr_spec(s->pod, container);
	bool limits = td_starts(resource, "limits.");
	if (!c || (!limits && !td_starts(resource, "requests.")))
		return td_fail(err, TD_INVALID,
			       "resourceFieldRef: container \"%.60s\", resource \"%.60s\": want limits.X or requests.X "
			       "of a container",
			       container ? container : "", resource ? resource : "");

	const char *what = strchr(resource, '.') + 1;
	yyjson_val *q = td_jkey(td_jget(c, limits ? "resources.limits" : "resources.requests"), what);
	if (!q && !limits) // requests default to limits
		q = td_jkey(td_jget(c, "resources.limits"), what);

	int64_t milli = 0, div = 1000;
	td_auto_free char *num = yyjson_is_num(q) ? td_json_text(q, NULL) : NULL;
	int r = 0;
	if (q)
		r = td_quantity_milli(num ? num : yyjson_get_str(q), &milli, err);
	else if (limits && td_streq(what, "cpu"))
		milli = s->node_cpu_milli;
	else if (limits && td_streq(what, "memory"))
		milli = s->node_memory * 1000;

	if (!r && divisor && *divisor && strcmp(divisor, "0"))
		r = td_quantity_milli(divisor, &div, err);
	if (r)
		return td_wrap(err, "resourceFieldRef %s", resource);

	if (div <= 0)
		div = 1000;

	*ret = td_asprintf("%lld", (long long)((milli + div - 1) / div));
	return 0;
}

static int from_key(const struct td_env_src *s, const yyjson_val *ref, bool secret, const char *ns, struct td_buf *ret,
		    bool *ret_have, struct td_error *err)
{
	const char *name = td_jstr_or(ref, "name", ""), *key = td_jstr_or(ref, "key", "");
	bool optional = td_jbool(ref, "optional", false);

	td_auto(td_object_unref) struct td_object *o = s->get(s->ctx, secret, ns, name);
	*ret_have = o && td_kubelet_object_value(o, secret, key, ret);
	if (*ret_have || optional)
		return 0;
	if (!o)
		return td_fail(err, TD_NOT_FOUND, "%s \"%s\" not found", secret ? "secret" : "configmap", name);
	return td_fail(err, TD_NOT_FOUND, "couldn't find key %s in %s %s/%s", key, secret ? "Secret" : "ConfigMap", ns,
		       name);
}

static int env_from(const struct td_env_src *s, const yyjson_val *e, const char *ns, struct td_strv *ret,
		    struct td_error *err)
{
	bool secret = td_jget(e, "secretRef") != NULL;
	yyjson_val *ref = td_jget(e, secret ? "secretRef" : "configMapRef");
	const char *prefix = td_jstr_or(e, "prefix", ""), *name = td_jstr_or(ref, "name", "");
	td_auto(td_object_unref) struct td_object *o = s->get(s->ctx, secret, ns, name);
	if (!o)
		return td_jbool(ref, "optional", false) ? 0
							: td_fail(err, TD_NOT_FOUND, "%s \"%s\" not found",
								  secret ? "secret" : "configmap", name);

	td_auto_strv struct td_strv keys = {0};
	td_kubelet_object_value_keys(o, &keys);
	for (size_t i = 0; i < keys.n; i++) {
		td_auto_buf struct td_buf v = {0};
		td_auto_free char *k = td_asprintf("%s%s", prefix, keys.v[i]);
		if (!strchr(k, '=') && td_kubelet_object_value(o, secret, keys.v[i], &v))
			td_env_set(ret, k, td_buf_str(&v));
	}
	return 0;
}

void td_env_gang(const yyjson_val *pod, struct td_strv *env)
{
	yyjson_val *notes = td_jget(pod, "metadata.annotations");
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jkey_str(notes, TD_ANN_JOB) ? notes : NULL);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (td_starts(yyjson_get_str(k), TD_ANN_FABRIC_PREFIX))
			td_env_set(env, yyjson_get_str(k) + strlen(TD_ANN_FABRIC_PREFIX),
				   yyjson_get_str(yyjson_obj_iter_get_val(k)));

	const char *rank = td_jkey_str(notes, TD_ANN_GANG_RANK), *world = td_jkey_str(notes, TD_ANN_GANG_WORLD),
		   *hosts = td_jkey_str(notes, TD_ANN_GANG_HOSTS);
	if (!world || !hosts)
		return;
	td_auto_free char *first = td_strndup(hosts, strcspn(hosts, ","));
	if (rank) { // a pod beyond the core of an elastic gang has none, and learns the world by rendezvous
		td_env_set(env, "RANK", rank);
		td_env_set(env, "WORLD_SIZE", world);
	}
	td_env_set(env, "MASTER_ADDR", first);
	td_env_set(env, "MASTER_PORT", "29500"); // as torch.distributed takes it by itself
	td_env_set(env, "TANDEM_GANG_HOSTS", hosts);
	const char *role = td_jkey_str(notes, TD_LABEL_GANG_ROLE), *roles = td_jkey_str(notes, TD_ANN_GANG_ROLES);
	if (role && roles) {
		td_env_set(env, "TANDEM_GANG_ROLE", role);
		td_env_set(env, "TANDEM_GANG_ROLES", roles);
	}
}

int td_env_build(const struct td_env_src *s, const yyjson_val *container, struct td_strv *ret, struct td_error *err)
{
	const char *ns = td_jstr_or(s->pod, "metadata.namespace", "");
	yyjson_val *e;
	size_t i, n;
	int r;

	yyjson_arr_foreach (td_jget(container, "envFrom"), i, n, e) {
		r = env_from(s, e, ns, ret, err);
		if (r)
			return r;
	}

	yyjson_arr_foreach (td_jget(container, "env"), i, n, e) {
		const char *name = td_jstr_or(e, "name", "");
		yyjson_val *from = td_jget(e, "valueFrom"), *f;
		td_auto_free char *v = NULL;
		r = 0;
		if (!from) {
			v = td_env_expand(td_jstr_or(e, "value", ""), ret);
		} else if ((f = td_jget(from, "fieldRef"))) {
			r = td_env_field(s, td_jstr(f, "fieldPath"), &v, err);
		} else if ((f = td_jget(from, "resourceFieldRef"))) {
			r = td_env_resource(s, td_jstr_or(f, "containerName", td_jstr_or(container, "name", "")),
					    td_jstr_or(f, "resource", ""), td_jstr(f, "divisor"), &v, err);
		} else {
			bool secret = td_jget(from, "secretKeyRef") != NULL, have = false;
			td_auto_buf struct td_buf b = {0};
			r = from_key(s, td_jget(from, secret ? "secretKeyRef" : "configMapKeyRef"), secret, ns, &b,
				     &have, err);
			if (!r && !have)
				continue;
			if (!r)
				v = td_buf_take(&b);
		}

		if (r)
			return td_wrap(err, "env %s", name);
		td_env_set(ret, name, v);
	}
	return 0;
}
