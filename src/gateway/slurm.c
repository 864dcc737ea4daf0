// The SlurmCluster and its users, from an informer; the connection to slurmrestd, found anew when a
// call needs it and the pod it led to is gone.
#include "gateway/directory.h"
#include "gateway/jobs.h"

#include "http/pki.h"
#include "slurm/where.h"

#include <string.h>

enum { TOKEN_LIFE_S = 600 };

struct td_gateway_slurm *td_gateway_slurm_unref(struct td_gateway_slurm *l)
{
	if (l && __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_slurm_free(l->client);
		free(l->url);
		free(l);
	}
	return NULL;
}

static char *find(struct td_gateway *g, const char *current, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(g->restds, g->o.ns, &pods);
	td_auto_free const yyjson_val **v = td_calloc(pods.n + 1, sizeof(*v));
	for (size_t i = 0; i < pods.n; i++)
		v[i] = pods.v[i]->root;
	const struct td_slurm_where w = {.pods = v, .n = pods.n, .current = current, .empty_dirs = g->o.empty_dirs};
	return td_slurm_rest_url(&w, err);
}

static int connect_to(struct td_gateway *g, const char *url, struct td_gateway_slurm **ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf("%s-jwt-key", g->o.cluster);
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto_buf struct td_buf key = {0};
	int r = td_kube_get(g->kube, &td_secrets, g->o.ns, name, g->cancel, &o, err);
	if (r)
		return td_wrap(err, "Secret %s/%s", g->o.ns, name);
	const char *text = td_jkey_str(td_jget(o->root, "data"), "jwt_hs256.key");
	if (!text)
		return td_fail(err, TD_NOT_FOUND, "Secret %s/%s has no key jwt_hs256.key", g->o.ns, name);
	if ((r = td_base64_decode(text, &key, err)))
		return r;

	const struct td_slurm_opts so = {.url = url, .key = key.s, .key_len = key.len, .token_life_s = TOKEN_LIFE_S};
	struct td_slurm *client;
	r = td_slurm_new(&so, &client, err);
	explicit_bzero(key.s, key.len);
	if (r)
		return r;
	struct td_gateway_slurm *l = td_calloc(1, sizeof(*l));
	l->client = client;
	l->url = td_strdup(url);
	l->refs = 1;
	*ret = l;
	return 0;
}

struct td_gateway_slurm *td_gateway_slurm(struct td_gateway *g, struct td_error *err)
{
	pthread_mutex_lock(&g->lock);
	struct td_gateway_slurm *l = g->slurm;
	if (l)
		__atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&g->lock);

	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *url = find(g, l ? l->url : NULL, &e);
	if (l && (!url || (!strcmp(url, l->url) && !td_slurm_is_refused(l->client))))
		return l; // without a usable pod the old one's own errors say the most
	td_gateway_slurm_unref(l);
	if (!url) {
		td_fail(err, e.code, "Slurm cannot be asked now: %s", e.msg);
		return NULL;
	}

	struct td_gateway_slurm *fresh = NULL, *old;
	if (connect_to(g, url, &fresh, err))
		return NULL;
	__atomic_add_fetch(&fresh->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&g->lock);
	old = g->slurm;
	g->slurm = fresh;
	pthread_mutex_unlock(&g->lock);
	td_gateway_slurm_unref(old);
	return fresh;
}

void td_gateway_seen_free(struct td_gateway *g)
{
	td_gateway_seen_unref(g->seen);
	td_gateway_slurm_unref(g->slurm);
	g->view = td_slurm_view_free(g->view);
	g->seen = NULL;
	g->slurm = NULL;
}

void td_gateway_user_done(struct td_gateway_user *u)
{
	free(u->name);
	free(u->home);
	*u = (struct td_gateway_user){0};
}

int td_gateway_user(struct td_gateway *g, const char *name, struct td_gateway_user *ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	yyjson_val *u = sc ? td_jfind(td_jget(sc->root, "spec.users"), "name", name) : NULL;
	if (!u && sc && td_jget(sc->root, "spec.identity.ldap"))
		return td_gateway_directory_user(g, sc, name, ret, err);
	if (!u)
		return td_fail(err, TD_NOT_FOUND, "SlurmCluster %s/%s has no user \"%.40s\" (spec.users)", g->o.ns,
			       g->o.cluster, name);
	*ret = (struct td_gateway_user){.name = td_strdup(name), .uid = td_jint(u, "uid", -1)};
	ret->gid = td_jint(u, "gid", ret->uid);
	const char *home = td_jstr(u, "home");
	ret->home = home ? td_strdup(home) : td_asprintf("/home/%s", name);
	return 0;
}

bool td_gateway_private(struct td_gateway *g)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	return sc && (td_jkey(td_jget(sc->root, "spec.config.slurmConf"), "PrivateData") ||
		      td_jkey(td_jget(sc->root, "spec.accounting.slurmdbdConf"), "PrivateData"));
}
