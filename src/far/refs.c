#include "far/refs.h"

#include "http/pki.h"

#include <string.h>

enum { NAME_CUT = 50, DIGITS = 32 };

bool td_far_token_volume(const char *name)
{
	return td_starts(name, "kube-api-access-");
}

// Of every place that names one: o[key] is the name.
typedef void (*ref_f)(void *ctx, bool secret, yyjson_mut_val *o, const char *key);

static void ref(yyjson_mut_val *in, const char *field, const char *key, ref_f fn, void *ctx)
{
	yyjson_mut_val *o = td_jm_get(in, field);
	if (o && td_jm_getstr(o, key))
		fn(ctx, td_starts(field, "secret"), o, key);
}

static void of_volumes(yyjson_mut_val *spec, ref_f fn, void *ctx)
{
	yyjson_mut_val *v, *s;
	size_t i, n, k, m;
	yyjson_mut_arr_foreach (td_jm_get(spec, "volumes"), i, n, v) {
		if (td_far_token_volume(td_jm_getstr(v, "name") ?: ""))
			continue;
		ref(v, "secret", "secretName", fn, ctx);
		ref(v, "configMap", "name", fn, ctx);
		yyjson_mut_arr_foreach (td_jm_get(v, "projected.sources"), k, m, s) {
			ref(s, "secret", "name", fn, ctx);
			ref(s, "configMap", "name", fn, ctx);
		}
	}
}

static void walk(yyjson_mut_val *spec, ref_f fn, void *ctx)
{
	static const char *const lists[] = {"initContainers", "containers"};
	yyjson_mut_val *c, *e;
	size_t i, n, k, m;
	of_volumes(spec, fn, ctx);
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_mut_arr_foreach (td_jm_get(spec, lists[l]), i, n, c) {
			yyjson_mut_arr_foreach (td_jm_get(c, "env"), k, m, e) {
				yyjson_mut_val *from = td_jm_get(e, "valueFrom");
				ref(from, "secretKeyRef", "name", fn, ctx);
				ref(from, "configMapKeyRef", "name", fn, ctx);
			}
			yyjson_mut_arr_foreach (td_jm_get(c, "envFrom"), k, m, e) {
				ref(e, "secretRef", "name", fn, ctx);
				ref(e, "configMapRef", "name", fn, ctx);
			}
		}
	yyjson_mut_arr_foreach (td_jm_get(spec, "imagePullSecrets"), i, n, e)
		if (td_jm_getstr(e, "name"))
			fn(ctx, true, e, NULL);
}

static void add(void *ctx, bool secret, yyjson_mut_val *o, const char *key)
{
	struct td_far_refs *r = ctx;
	const char *name = td_jm_getstr(o, key ? key : "name");
	// A pull without its secret is tried all the same.
	bool optional = !key || yyjson_mut_is_true(td_jm_get(o, "optional"));
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].secret == secret && !strcmp(r->v[i].name, name)) {
			r->v[i].optional &= optional;
			return;
		}
	r->v = td_realloc(r->v, (r->n + 1) * sizeof(*r->v));
	r->v[r->n++] = (struct td_far_ref){secret, optional, td_strdup(name)};
}

void td_far_refs_of(const yyjson_val *pod, struct td_far_refs *ret)
{
	const yyjson_val *spec = td_jget(pod, "spec");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_is_obj((yyjson_val *)spec) ? td_jm_copy(spec) : NULL;
	if (d)
		walk(yyjson_mut_doc_get_root(d), add, ret);
}

void td_far_refs_done(struct td_far_refs *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].name);
	free(r->v);
	*r = (struct td_far_refs){0};
}

char *td_far_ref_key(bool secret, const char *ns, const char *name)
{
	return td_asprintf("%c/%s/%s", secret ? 's' : 'c', ns, name);
}

char *td_far_ref_there(const char *set_uid, const char *key)
{
	char hex[65];
	td_auto_free char *all = td_asprintf("%s/%s", set_uid, key), *s = td_strdup(key + 2);
	td_sha256_hex(all, strlen(all), hex);
	for (char *p = s; *p; p++)
		*p = *p == '.' || *p == '/' ? '-' : *p;
	return td_asprintf("%.*s-%.*s", NAME_CUT, s, DIGITS, hex);
}

struct renames {
	yyjson_mut_doc *d;
	const char *set_uid, *ns;
};

static void rename_one(void *ctx, bool secret, yyjson_mut_val *o, const char *key)
{
	const struct renames *r = ctx;
	const char *at = key ? key : "name";
	td_auto_free char *own = td_far_ref_key(secret, r->ns, td_jm_getstr(o, at)),
			  *there = td_far_ref_there(r->set_uid, own);
	td_jm_str(r->d, o, at, there);
}

void td_far_refs_rename(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *set_uid, const char *ns)
{
	struct renames r = {d, set_uid, ns};
	walk(spec, rename_one, &r);
}

void td_far_refs_there(const yyjson_val *pod, struct td_strv *ret)
{
	td_auto_far_refs struct td_far_refs refs = {0};
	td_far_refs_of(pod, &refs);
	for (size_t i = 0; i < refs.n; i++)
		td_strv_addf(ret, "%c/%s", refs.v[i].secret ? 's' : 'c', refs.v[i].name);
}
