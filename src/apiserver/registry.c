// The registry (registry.h).
#include "apiserver/registry.h"

#include "base/log.h"

#include <pthread.h>
#include <string.h>

struct td_registry {
	struct td_store *store;
	pthread_mutex_t lock; // guards snap
	struct td_snap *snap;
	pthread_mutex_t reload_lock; // one reload at a time
};

struct td_snap *td_snap_ref(struct td_snap *s)
{
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

struct td_snap *td_snap_unref(struct td_snap *s)
{
	if (s && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		for (size_t i = 0; i < s->n_owned; i++)
			td_kind_free(s->owned[i]);
		free(s->owned);
		free(s->v);
		free(s);
	}
	return NULL;
}

static void add(struct td_snap *s, struct td_store *store, const struct td_kind *k, bool established)
{
	s->v = td_realloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = (struct td_res){k, td_store_table(store, k->group, k->plural), established};
}

static bool builtin_has(const struct td_kind *crd)
{
	size_t n;
	const struct td_kind *const *k = td_kinds_builtin(&n);
	for (size_t i = 0; i < n; i++)
		if (!td_kind_has_crd(k[i]) && !strcmp(k[i]->group, crd->group) && !strcmp(k[i]->plural, crd->plural))
			return true;
	return false;
}

static void add_crd(struct td_snap *s, struct td_store *store, const struct td_item *crd)
{
	td_auto_causes struct td_causes causes = {0};
	struct td_error err = TD_ERROR_INIT;
	struct td_kind **v = NULL;
	size_t n = 0;

	td_auto(td_json_unref) struct td_json *doc = td_item_doc(crd);
	if (td_kind_from_crd(td_json_root(doc), &v, &n, &causes, &err) < 0) {
		td_warn("CustomResourceDefinition %s is not served: %s", crd->name, err.msg);
		return;
	}
	s->owned = td_realloc(s->owned, (s->n_owned + n + 1) * sizeof(*s->owned));
	for (size_t i = 0; i < n; i++) {
		// A built-in kind or an earlier CRD has the name. A built-in kind keeps it in every
		// version, because its versions would share what is stored.
		if (td_snap_find(s, v[i]->group, v[i]->version, v[i]->plural) || builtin_has(v[i])) {
			td_kind_free(v[i]);
			continue;
		}
		s->owned[s->n_owned++] = v[i];
		add(s, store, v[i], !td_jget(td_json_root(doc), "metadata.deletionTimestamp"));
	}

	free(v);
}

void td_registry_reload(struct td_registry *r)
{
	pthread_mutex_lock(&r->reload_lock);
	struct td_snap *s = td_calloc(1, sizeof(*s));
	s->refs = 1;
	size_t n = 0;
	const struct td_kind *const *builtin = td_kinds_builtin(&n);
	struct td_table *crds = td_store_table(r->store, "apiextensions.k8s.io", "customresourcedefinitions");
	for (size_t i = 0; i < n; i++)
		if (!td_kind_has_crd(builtin[i]))
			add(s, r->store, builtin[i], true);
	td_auto_items struct td_items l = {0};
	uint64_t rv;
	if (td_store_list(r->store, crds, NULL, 0, &l, &rv, NULL) == 0)
		for (size_t i = 0; i < l.n; i++)
			add_crd(s, r->store, l.v[i]);
	pthread_mutex_lock(&r->lock);
	struct td_snap *old = r->snap;
	s->gen = old ? old->gen + 1 : 1;
	r->snap = s;
	pthread_mutex_unlock(&r->lock);
	td_snap_unref(old);
	pthread_mutex_unlock(&r->reload_lock);
}

struct td_registry *td_registry_new(struct td_store *s)
{
	struct td_registry *r = td_calloc(1, sizeof(*r));
	r->store = s;
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->reload_lock, NULL);
	td_registry_reload(r);
	return r;
}

struct td_registry *td_registry_free(struct td_registry *r)
{
	if (!r)
		return NULL;
	td_snap_unref(r->snap);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->reload_lock);
	free(r);
	return NULL;
}

struct td_snap *td_registry_snap(struct td_registry *r)
{
	pthread_mutex_lock(&r->lock);
	struct td_snap *s = td_snap_ref(r->snap);
	pthread_mutex_unlock(&r->lock);
	return s;
}

const struct td_res *td_snap_find(const struct td_snap *s, const char *group, const char *version, const char *plural)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct td_kind *k = s->v[i].kind;
		if (!strcmp(k->plural, plural) && !strcmp(k->group, group) && !strcmp(k->version, version))
			return &s->v[i];
	}
	return NULL;
}

bool td_snap_has_group(const struct td_snap *s, const char *group, const char *version)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].kind->group, group) && (!version || !strcmp(s->v[i].kind->version, version)))
			return true;
	return false;
}
