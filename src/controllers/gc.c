// Garbage collector. Objects whose owners are all gone are deleted too; foreground deletion waits
// for what blocks it; orphaning removes the references.
//
// It works on what the caches say and asks the API before it deletes: an owner counts as absent
// only when a read of the owner itself says so.
#include "controllers/ctl.h"

#include "api/condition.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ANCESTORS_MAX 64

struct monitor {
	struct td_gvr gvr; // its strings are static, or in `own` (dynamic)
	char *own[4];
	struct td_informer *inf; // NULL: the monitor is dead
	bool dynamic, dead;
	struct td_cancel *cancel;
	struct td_ctl_gc *gc;
	struct monitor *next;
};
struct td_ctl_gc {
	struct td_ctl *c;
	struct td_queue *queue;
	pthread_mutex_t lock; // guards the list `monitors` and `dead`; entries live to the end
	struct monitor *monitors;
	pthread_mutex_t crds; // held while CRDs' monitors start and stop; guards `stopped`
	bool stopped;
	// Guards `inf` of dynamic monitors. It is held for reading while one is looked into.
	pthread_rwlock_t use;
};

// ---- monitors: one informer per resource ----

static void on_change(void *ctx, struct td_object *old, struct td_object *now);
static void on_crd(void *ctx, struct td_object *old, struct td_object *now);

static struct monitor *monitor_add(struct td_ctl_gc *g, const struct td_gvr *gvr, struct td_informer *inf)
{
	struct monitor *m = td_calloc(1, sizeof(*m));
	m->gvr = *gvr;
	m->inf = inf;
	m->gc = g;
	pthread_mutex_lock(&g->lock);
	m->next = g->monitors;
	g->monitors = m;
	pthread_mutex_unlock(&g->lock);
	return m;
}

// The newest monitor of that kind. A dead one still tells how to ask whether an owner is absent.
static struct monitor *monitor_find(struct td_ctl_gc *g, const char *group, const char *resource_or_kind, bool alive)
{
	struct monitor *m;
	pthread_mutex_lock(&g->lock);
	for (m = g->monitors; m; m = m->next)
		if ((!alive || !m->dead) && td_streq(m->gvr.group, group) &&
		    (td_streq(m->gvr.resource, resource_or_kind) || td_streq(m->gvr.kind, resource_or_kind)))
			break;
	pthread_mutex_unlock(&g->lock);
	return m;
}

// Reads the object from the cache. NULL: it is not there, or the monitor is dead.
static struct td_object *look(struct td_ctl_gc *g, const struct monitor *m, const char *ns, const char *name)
{
	pthread_rwlock_rdlock(&g->use);
	struct td_object *o = m->inf ? td_informer_get(m->inf, ns, name) : NULL;
	pthread_rwlock_unlock(&g->use);
	return o;
}

void td_ctl_gc_each_dynamic(struct td_ctl *c, void (*fn)(void *ctx, const struct td_gvr *gvr), void *ctx)
{
	struct td_ctl_gc *g = c->gc;
	pthread_mutex_lock(&g->lock);
	struct monitor *m = g->monitors;
	pthread_mutex_unlock(&g->lock);
	for (; m; m = m->next) // the list only grows at its head
		if (m->dynamic && !__atomic_load_n(&m->dead, __ATOMIC_RELAXED))
			fn(ctx, &m->gvr);
}

// The keys are "group resource|ns/name". No name contains '|'.
static void enqueue(struct td_ctl_gc *g, const struct td_gvr *gvr, const char *ns, const char *name)
{
	td_auto_free char *key = td_asprintf("%s %s|%s/%s", gvr->group, gvr->resource, ns, name);
	td_queue_add(g->queue, key);
}

static void group_of(const char *api_version, char *buf, size_t n)
{
	const char *slash = strchr(api_version, '/');
	snprintf(buf, n, "%.*s", slash ? (int)(slash - api_version) : 0, api_version);
}

static bool has_finalizer(const struct td_object *o, const char *name)
{
	return td_jhas(td_jget(o->root, "metadata.finalizers"), name);
}

struct dependents {
	struct dependent {
		struct monitor *m;
		struct td_object *o;
	} *v;
	size_t n, cap;
};

static void dependents_done(struct dependents *d)
{
	for (size_t i = 0; i < d->n; i++)
		td_object_unref(d->v[i].o);
	free(d->v);
}

static void find_dependents(struct td_ctl_gc *g, const char *uid, struct dependents *ret)
{
	pthread_mutex_lock(&g->lock);
	struct monitor *m = g->monitors;
	pthread_mutex_unlock(&g->lock);
	for (; m; m = m->next) {
		td_auto_objects struct td_objects l = {0};
		pthread_rwlock_rdlock(&g->use);
		if (m->inf)
			td_informer_by_index(m->inf, "owner", uid, &l);
		pthread_rwlock_unlock(&g->use);

		for (size_t i = 0; i < l.n; i++) {
			if (ret->n == ret->cap) {
				ret->cap = ret->cap ? ret->cap * 2 : 8;
				ret->v = td_realloc(ret->v, ret->cap * sizeof(*ret->v));
			}
			ret->v[ret->n++] = (struct dependent){m, td_object_ref(l.v[i])};
		}
	}
}

// ---- owners ----

static yyjson_val *ref_to(const struct td_object *o, const char *uid)
{
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	yyjson_arr_foreach (refs, i, n, ref)
		if (td_streq(td_jstr(ref, "uid"), uid))
			return ref;
	return NULL;
}

// OWNER_WAITS: in foreground deletion.
enum owner_state { OWNER_LIVE, OWNER_ABSENT, OWNER_WAITS, OWNER_UNKNOWN };

static int owner_state(struct td_ctl_gc *g, const struct monitor *of, const struct td_object *o, const yyjson_val *ref,
		       struct td_cancel *cancel, enum owner_state *ret, struct td_error *err)
{
	char group[256];
	group_of(td_jstr_or(ref, "apiVersion", ""), group, sizeof(group));
	const char *name = td_jstr_or(ref, "name", ""), *uid = td_jstr_or(ref, "uid", "");
	struct monitor *m = monitor_find(g, group, td_jstr_or(ref, "kind", ""), false);
	if (!m || !*name) {
		*ret = OWNER_UNKNOWN;
		return 0;
	}

	if (m->gvr.namespaced && !of->gvr.namespaced) {
		// A namespaced object cannot own a cluster-scoped one. Kubernetes leaves it alone
		// too.
		*ret = OWNER_UNKNOWN;
		return 0;
	}

	const char *ns = m->gvr.namespaced ? o->ns : NULL;
	td_auto(td_object_unref) struct td_object *owner = look(g, m, ns, name);
	if (!owner || !td_streq(owner->uid, uid)) {
		owner = td_object_unref(owner);
		int r = td_kube_get(g->c->kube, &m->gvr, ns, name, cancel, &owner, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		if (r || !td_streq(owner->uid, uid)) {
			*ret = OWNER_ABSENT;
			return 0;
		}
	}

	*ret = td_object_deleting(owner) && has_finalizer(owner, "foregroundDeletion") ? OWNER_WAITS : OWNER_LIVE;
	return 0;
}

// ---- writes ----

static yyjson_mut_doc *guarded(const struct td_object *o)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_str(d, p, "metadata.uid", o->uid);
	td_jm_str(d, p, "metadata.resourceVersion", o->rv);
	return d;
}

static int drop_finalizer(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, const char *name,
			  struct td_cancel *cancel, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = guarded(o);
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *arr = td_jm_arr(d, p, "metadata.finalizers");
	size_t i, n;
	yyjson_val *f, *all = td_jget(o->root, "metadata.finalizers");
	yyjson_arr_foreach (all, i, n, f)
		if (!td_streq(yyjson_get_str(f), name))
			yyjson_mut_arr_append(arr, yyjson_val_mut_copy(d, f));

	int r = td_kube_patch(g->c->kube, TD_AT(&m->gvr, o->ns, o->name), TD_PATCH_MERGE, p, cancel, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

// Removes the references i for which drop[i] is true.
static int drop_refs(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, const bool *drop,
		     struct td_cancel *cancel, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = guarded(o);
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *arr = td_jm_arr(d, p, "metadata.ownerReferences");
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	yyjson_arr_foreach (refs, i, n, ref)
		if (!drop[i])
			yyjson_mut_arr_append(arr, yyjson_val_mut_copy(d, ref));

	int r = td_kube_patch(g->c->kube, TD_AT(&m->gvr, o->ns, o->name), TD_PATCH_MERGE, p, cancel, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int delete_it(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, const char *propagation,
		     bool guard_rv, struct td_cancel *cancel, struct td_error *err)
{
	const struct td_kube_delete_opts opts = {
		.uid = o->uid, .rv = guard_rv ? o->rv : NULL, .grace_s = -1, .propagation = propagation};
	int r = td_kube_delete(g->c->kube, &m->gvr, o->ns, o->name, &opts, cancel, err);
	td_debug("gc: deleting %s %s/%s (%s): %s", m->gvr.resource, o->ns, o->name, propagation, td_code_name(r));
	return r == TD_NOT_FOUND ? 0 : r;
}

// ---- one object ----

static int orphan(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, struct td_cancel *cancel,
		  struct td_error *err)
{
	struct dependents deps __attribute__((cleanup(dependents_done))) = {0};

	find_dependents(g, o->uid, &deps);
	for (size_t i = 0; i < deps.n; i++) {
		yyjson_val *refs = td_jget(deps.v[i].o->root, "metadata.ownerReferences");
		td_auto_free bool *drop = td_calloc(yyjson_arr_size(refs) + 1, sizeof(*drop));
		size_t j, n;
		yyjson_val *ref;
		yyjson_arr_foreach (refs, j, n, ref)
			drop[j] = td_streq(td_jstr(ref, "uid"), o->uid);
		int r = drop_refs(g, deps.v[i].m, deps.v[i].o, drop, cancel, err);
		if (r)
			return r;
	}

	return drop_finalizer(g, m, o, "orphan", cancel, err);
}

// Appends the UIDs of `o`, its owners, their owners and so on, as far as the caches know them.
static void add_ancestors(struct td_ctl_gc *g, const struct td_object *o, struct td_strv *ret)
{
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	td_strv_add(ret, o->uid);
	yyjson_arr_foreach (refs, i, n, ref) {
		char group[256];
		const char *uid = td_jstr_or(ref, "uid", "");
		group_of(td_jstr_or(ref, "apiVersion", ""), group, sizeof(group));
		struct monitor *m = monitor_find(g, group, td_jstr_or(ref, "kind", ""), true);
		if (!m || td_strv_has(ret, uid) || ret->n >= ANCESTORS_MAX)
			continue;
		td_auto(td_object_unref) struct td_object *owner =
			look(g, m, m->gvr.namespaced ? o->ns : NULL, td_jstr_or(ref, "name", ""));
		if (owner && td_streq(owner->uid, uid))
			add_ancestors(g, owner, ret);
	}
}

static int foreground(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, struct td_cancel *cancel,
		      struct td_error *err)
{
	struct dependents deps __attribute__((cleanup(dependents_done))) = {0};
	find_dependents(g, o->uid, &deps);

	size_t blocking = 0;
	td_auto_strv struct td_strv above = {0};
	if (deps.n)
		add_ancestors(g, o, &above);

	for (size_t i = 0; i < deps.n; i++) {
		const struct dependent *d = &deps.v[i];
		// A dependent that is also an ancestor would wait for this object, and this object
		// for the dependent. Such a circle is broken here.
		if (td_jbool(ref_to(d->o, o->uid), "blockOwnerDeletion", false) && !td_strv_has(&above, d->o->uid))
			blocking++;
		// It finds that its owner waits, and is deleted.
		if (!td_object_deleting(d->o))
			enqueue(g, &d->m->gvr, d->o->ns, d->o->name);
	}

	return blocking ? 0 : drop_finalizer(g, m, o, "foregroundDeletion", cancel, err);
}

static int collect(struct td_ctl_gc *g, const struct monitor *m, const struct td_object *o, int64_t *again,
		   struct td_cancel *cancel, struct td_error *err)
{
	yyjson_val *refs = td_jget(o->root, "metadata.ownerReferences"), *ref;
	size_t i, n = yyjson_arr_size(refs), live = 0, waits = 0, absent = 0;

	if (!n)
		return 0;

	td_auto_free bool *drop = td_calloc(n, sizeof(*drop));
	yyjson_arr_foreach (refs, i, n, ref) {
		enum owner_state s = OWNER_UNKNOWN;
		int r = owner_state(g, m, o, ref, cancel, &s, err);
		if (r)
			return r;
		if (s == OWNER_UNKNOWN)
			*again = 60000; // its kind may become known
		live += s == OWNER_LIVE || s == OWNER_UNKNOWN;
		waits += s == OWNER_WAITS;
		absent += s == OWNER_ABSENT;
		drop[i] = s == OWNER_WAITS || s == OWNER_ABSENT;
	}

	if (live)
		return waits || absent ? drop_refs(g, m, o, drop, cancel, err) : 0;

	if (waits) {
		struct dependents deps __attribute__((cleanup(dependents_done))) = {0};
		find_dependents(g, o->uid, &deps);
		if (deps.n)
			return delete_it(g, m, o, "Foreground", true, cancel, err);
	}

	const char *how = has_finalizer(o, "orphan")               ? "Orphan"
			  : has_finalizer(o, "foregroundDeletion") ? "Foreground"
								   : "Background";
	return delete_it(g, m, o, how, true, cancel, err);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl_gc *g = ctx;
	const char *bar = strchr(key, '|'), *space = strchr(key, ' ');
	td_auto_free char *group = td_strndup(key, (size_t)(space - key)),
			  *resource = td_strndup(space + 1, (size_t)(bar - space - 1));
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(bar + 1, &ns, &name);

	struct monitor *m = monitor_find(g, group, resource, true);
	td_auto(td_object_unref) struct td_object *o = m ? look(g, m, ns, name) : NULL;
	if (!o)
		return 0;

	if (td_object_deleting(o)) {
		if (has_finalizer(o, "orphan"))
			return orphan(g, m, o, cancel, err);
		if (has_finalizer(o, "foregroundDeletion"))
			return foreground(g, m, o, cancel, err);
		return 0;
	}
	return collect(g, m, o, again, cancel, err);
}

// ---- changes ----

static void wake_owners(struct td_ctl_gc *g, const struct td_object *o)
{
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	yyjson_arr_foreach (refs, i, n, ref) {
		char group[256];
		group_of(td_jstr_or(ref, "apiVersion", ""), group, sizeof(group));
		struct monitor *m = monitor_find(g, group, td_jstr_or(ref, "kind", ""), false);
		if (m)
			enqueue(g, &m->gvr, m->gvr.namespaced ? o->ns : "", td_jstr_or(ref, "name", ""));
	}
}

static void on_change(void *ctx, struct td_object *old, struct td_object *now)
{
	struct monitor *m = ctx;
	struct td_ctl_gc *g = m->gc;
	if (!now) {
		struct dependents deps __attribute__((cleanup(dependents_done))) = {0};
		find_dependents(g, old->uid, &deps);
		for (size_t i = 0; i < deps.n; i++)
			enqueue(g, &deps.v[i].m->gvr, deps.v[i].o->ns, deps.v[i].o->name);
		wake_owners(g, old); // one of them may wait in foreground deletion
		return;
	}

	yyjson_val *refs = td_jget(now->root, "metadata.ownerReferences");
	bool newly = !old || !td_jequal(td_jget(old->root, "metadata.ownerReferences"), refs);
	if (old && newly)
		wake_owners(g, old); // its former owners may not be blocked any longer

	if (td_object_deleting(now) || (newly && yyjson_arr_size(refs)))
		enqueue(g, &m->gvr, now->ns, now->name);
}

// ---- resources of CRDs ----

// Finds the entry of an earlier CRD that was the same; NULL: none. So entries do not grow in number
// with CRDs that come and go.
static struct monitor *dead_of(struct td_ctl_gc *g, const struct td_gvr *r)
{
	struct monitor *m;
	pthread_mutex_lock(&g->lock);
	for (m = g->monitors; m; m = m->next)
		if (m->dynamic && m->dead && td_streq(m->gvr.group, r->group) && td_streq(m->gvr.version, r->version) &&
		    td_streq(m->gvr.resource, r->resource) && td_streq(m->gvr.kind, r->kind) &&
		    m->gvr.namespaced == r->namespaced)
			break;
	pthread_mutex_unlock(&g->lock);
	return m;
}

static void set_dead(struct monitor *m, bool dead)
{
	pthread_mutex_lock(&m->gc->lock);
	__atomic_store_n(&m->dead, dead, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&m->gc->lock);
}

static void dynamic_start(struct td_ctl_gc *g, const struct td_object *crd)
{
	const char *version = NULL;
	size_t i, n;
	yyjson_val *v, *versions = td_jget(crd->root, "spec.versions");
	yyjson_arr_foreach (versions, i, n, v)
		if (td_jbool(v, "served", false) && (!version || td_jbool(v, "storage", false)))
			version = td_jstr(v, "name");
	const char *group = td_jstr(crd->root, "spec.group"), *plural = td_jstr(crd->root, "spec.names.plural"),
		   *kind = td_jstr(crd->root, "spec.names.kind");
	if (!version || !group || !plural || !kind || monitor_find(g, group, plural, true))
		return;

	bool namespaced = td_streq(td_jstr(crd->root, "spec.scope"), "Namespaced");
	struct td_informer *inf;
	struct monitor *m = dead_of(g, &(struct td_gvr){group, version, plural, kind, namespaced});
	if (!m) {
		m = td_calloc(1, sizeof(*m));
		const char *parts[] = {group, version, plural, kind};
		for (i = 0; i < TD_LEN(parts); i++)
			m->own[i] = td_strdup(parts[i]);
		m->gvr = (struct td_gvr){m->own[0], m->own[1], m->own[2], m->own[3], namespaced};
		m->gc = g;
		m->dynamic = m->dead = true;
		pthread_mutex_lock(&g->lock);
		m->next = g->monitors;
		g->monitors = m;
		pthread_mutex_unlock(&g->lock);
	}

	m->cancel = td_cancel_new();
	inf = td_informer_new(g->c->kube, &(struct td_informer_opts){.resource = &m->gvr});
	td_ctl_add_indexes(inf);
	td_informer_on_change(inf, on_change, m);

	pthread_rwlock_wrlock(&g->use);
	m->inf = inf;
	pthread_rwlock_unlock(&g->use);
	set_dead(m, false);

	struct td_error err = TD_ERROR_INIT;
	if (td_informer_start(inf, m->cancel, &err))
		td_warn("gc: %s", err.msg);
}

// Looks again at everything that has an owner of that kind: some of the owners may have come and
// gone unseen.
static void look_again(struct td_ctl_gc *g, const struct td_gvr *owner)
{
	pthread_mutex_lock(&g->lock);
	struct monitor *m = g->monitors;
	pthread_mutex_unlock(&g->lock);
	for (; m; m = m->next) {
		td_auto_objects struct td_objects all = {0};
		pthread_rwlock_rdlock(&g->use);
		if (m->inf)
			td_informer_list(m->inf, NULL, &all);
		pthread_rwlock_unlock(&g->use);

		for (size_t i = 0; i < all.n; i++) {
			size_t k, n;
			yyjson_val *ref, *refs = td_jget(all.v[i]->root, "metadata.ownerReferences");
			yyjson_arr_foreach (refs, k, n, ref) {
				char group[256];
				group_of(td_jstr_or(ref, "apiVersion", ""), group, sizeof(group));
				if (td_streq(td_jstr(ref, "kind"), owner->kind) && !strcmp(group, owner->group))
					enqueue(g, &m->gvr, all.v[i]->ns, all.v[i]->name);
			}
		}
	}
}

// The CRD is gone. How to ask for its objects stays known: an owner that was one of them is absent
// because the API says so.
static void dynamic_stop(struct monitor *m)
{
	struct td_ctl_gc *g = m->gc;
	set_dead(m, true);
	td_cancel_fire(m->cancel);
	pthread_rwlock_wrlock(&g->use);
	struct td_informer *inf = m->inf;
	m->inf = NULL;
	pthread_rwlock_unlock(&g->use);

	td_informer_free(inf);
	m->cancel = td_cancel_unref(m->cancel);
	look_again(g, &m->gvr);
}

static void on_crd(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl_gc *g = ctx;
	const struct td_object *crd = now ? now : old;
	pthread_mutex_lock(&g->crds);
	if (now && !g->stopped && td_condition_true(now->root, "Established"))
		dynamic_start(g, now);

	struct monitor *m = now ? NULL
				: monitor_find(g, td_jstr_or(crd->root, "spec.group", ""),
					       td_jstr_or(crd->root, "spec.names.plural", ""), true);

	if (m && m->dynamic)
		dynamic_stop(m);
	pthread_mutex_unlock(&g->crds);
}

void td_ctl_gc_stop(struct td_ctl_gc *g)
{
	pthread_mutex_lock(&g->crds);
	g->stopped = true;
	for (struct monitor *m = g->monitors; m; m = m->next)
		if (m->dynamic && !m->dead)
			dynamic_stop(m);
	pthread_mutex_unlock(&g->crds);
}

void td_ctl_gc_free(struct td_ctl_gc *g)
{
	if (!g)
		return;
	while (g->monitors) {
		struct monitor *m = g->monitors;
		g->monitors = m->next;
		for (size_t i = 0; i < TD_LEN(m->own); i++)
			free(m->own[i]);
		free(m);
	}
	pthread_mutex_destroy(&g->lock);
	pthread_mutex_destroy(&g->crds);
	pthread_rwlock_destroy(&g->use);
	free(g);
}

void td_ctl_gc(struct td_ctl *c, struct td_controller *ret)
{
	struct td_ctl_gc *g = c->gc = td_calloc(1, sizeof(*g));
	g->c = c;

	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->crds, NULL);
	pthread_rwlock_init(&g->use, NULL);
	g->queue = td_queue_new(c->clock);

	*ret = (struct td_controller){"gc", 4, g->queue, reconcile, g};

	const struct td_gvr *gvr;
	struct td_informer *inf;
	for (size_t i = 0; td_ctl_informer_at(c, i, &gvr, &inf); i++)
		td_informer_on_change(inf, on_change, monitor_add(g, gvr, inf));
	td_informer_on_change(c->crds, on_crd, g);
}
