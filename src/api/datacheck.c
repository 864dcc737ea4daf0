// Rules and defaults of ConfigMap and Secret.
#include "api/kinds_priv.h"

#include <string.h>

#include "api/names.h"

static void check_keys(const yyjson_val *map, const char *path, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *k, *v;

	yyjson_obj_foreach (td_unconst(map), i, max, k, v) {
		const char *s = td_keystr(k);
		td_auto_strv struct td_strv l = {0};
		td_name_faults(TD_N_CONFIG_KEY, s, &l);
		td_auto_free char *f = td_asprintf("%s[%s]", path, s);
		for (size_t n = 0; n < l.n; n++)
			td_cause_add(ret, "FieldValueInvalid", f, "Invalid value: \"%.260s\": %s", s, l.v[n]);
	}
}

enum { DATA_MAX = 1 << 20 };
static size_t sizes(const yyjson_val *map, size_t mul, size_t div)
{
	size_t i, max, total = 0;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_unconst(map), i, max, k, v)
		total += yyjson_get_len(v) / div * mul;
	return total;
}

static void check_frozen(const yyjson_val *obj, const yyjson_val *old, const char *const *fields, struct td_causes *ret)
{
	if (!td_jbool(old, "immutable", false))
		return;
	if (!td_jbool(obj, "immutable", false))
		td_cause_add(ret, "FieldValueForbidden", "immutable",
			     "Forbidden: field is immutable when `immutable` is set");
	for (; *fields; fields++)
		if (!td_jequal(td_jkey(obj, *fields), td_jkey(old, *fields)))
			td_cause_add(ret, "FieldValueForbidden", *fields,
				     "Forbidden: field is immutable when `immutable` is set");
}

size_t td_configmap_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"data", "binaryData", NULL};
	size_t before = ret->n, i, max;
	yyjson_val *k, *v;

	check_keys(td_jkey(obj, "data"), "data", ret);
	check_keys(td_jkey(obj, "binaryData"), "binaryData", ret);
	yyjson_obj_foreach (td_jkey(obj, "binaryData"), i, max, k, v) {
		if (!td_jkey(td_jkey(obj, "data"), td_keystr(k)))
			continue;
		td_auto_free char *f = td_asprintf("data[%s]", td_keystr(k));
		td_cause_add(ret, "FieldValueInvalid", f,
			     "Invalid value: \"%s\": duplicate of key present in binaryData", td_keystr(k));
	}

	// The size counts decoded bytes, not base64.
	size_t total = sizes(td_jkey(obj, "data"), 1, 1) + sizes(td_jkey(obj, "binaryData"), 3, 4);
	if (total > DATA_MAX)
		td_cause_add(ret, "FieldValueTooLong", "[]", "Too long: may not be more than %d bytes", DATA_MAX);

	check_frozen(obj, old, fields, ret);
	return ret->n - before;
}

size_t td_secret_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const fields[] = {"data", NULL};
	size_t before = ret->n;

	check_keys(td_jkey(obj, "data"), "data", ret);
	if (sizes(td_jkey(obj, "data"), 3, 4) > DATA_MAX)
		td_cause_add(ret, "FieldValueTooLong", "data", "Too long: may not be more than %d bytes", DATA_MAX);
	static const struct {
		const char *type, *keys[2];
	} needs[] = {
		{"kubernetes.io/tls", {"tls.crt", "tls.key"}},
		{"kubernetes.io/dockerconfigjson", {".dockerconfigjson", NULL}},
		{"kubernetes.io/dockercfg", {".dockercfg", NULL}},
		{"kubernetes.io/ssh-auth", {"ssh-privatekey", NULL}},
	};

	const char *type = td_jstr_or(obj, "type", "");
	const yyjson_val *data = td_jkey(obj, "data");
	for (size_t i = 0; i < TD_LEN(needs); i++)
		for (size_t k = 0; k < 2 && !strcmp(needs[i].type, type) && needs[i].keys[k]; k++) {
			td_auto_free char *f = td_asprintf("data[%s]", needs[i].keys[k]);
			if (!td_jkey(data, needs[i].keys[k]))
				td_cause_add(ret, "FieldValueRequired", f, "Required value");
		}

	if (!strcmp(type, "kubernetes.io/basic-auth") && !td_jkey(data, "username") && !td_jkey(data, "password")) {
		td_cause_add(ret, "FieldValueRequired", "data[username]", "Required value");
		td_cause_add(ret, "FieldValueRequired", "data[password]", "Required value");
	}

	td_immutable_check(obj, old, "type", ret);
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

void td_secret_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *plain = yyjson_mut_obj_get(obj, "stringData"), *k, *v;
	size_t i, max;
	if (!yyjson_mut_is_obj(plain))
		return;

	yyjson_mut_val *data = td_jm_obj(d, obj, "data");
	yyjson_mut_obj_foreach (plain, i, max, k, v) {
		td_auto_free char *b =
			base64(yyjson_mut_get_str(v) ? yyjson_mut_get_str(v) : "", yyjson_mut_get_len(v));
		td_jm_key_str(d, data, yyjson_mut_get_str(k), b);
	}
	yyjson_mut_obj_remove_key(obj, "stringData");
}
