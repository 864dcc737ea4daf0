// The ConfigMaps and Secrets that go along with copies. Each is one object there for all pods of its namespace here that
// name it: made before the first of their copies, changed as it changes here, removed when no pod and no copy uses it.
//
// What is sent is only what a pod here names that Slurm has granted a node of this link. What is there (an object, a pod
// with our labels) may keep one there, and never has one sent.
#include "far/link.h"
#include "far/refs.h"

#include "base/names.h"

#include <string.h>
#include <uthash.h>

enum { LOOK_MS = 15000, EACH_MS = 30, SOON_MS = 2000, GONE_MS = 200 };

struct td_far_source {
	char *there; // its name there
	bool made;   // as of rv; a copy may be made that names it
	bool never;  // it must not go there; why says why
	bool absent; // it is not here
	char *rv, *why;
	UT_hash_handle hh, by_there;
	char key[];
};

static struct td_far_source *find(const struct td_far_link *l, const char *key)
{
	struct td_far_source *e = NULL;
	HASH_FIND_STR(l->sources, key, e);
	return e;
}

static void note(struct td_far_link *l, const char *key)
{
	pthread_mutex_lock(&l->lock);
	if (!find(l, key)) {
		size_t n = strlen(key) + 1;
		struct td_far_source *e = td_calloc(1, sizeof(*e) + n);
		memcpy(e->key, key, n);
		e->there = td_far_ref_there(l->set->uid, key);
		HASH_ADD_STR(l->sources, key, e);
		HASH_ADD_KEYPTR(by_there, l->sources_there, e->there, strlen(e->there), e);
	}
	pthread_mutex_unlock(&l->lock);
}

static void drop(struct td_far_link *l, struct td_far_source *e)
{
	HASH_DEL(l->sources, e);
	HASH_DELETE(by_there, l->sources_there, e);
	free(e->there);
	free(e->rv);
	free(e->why);
	free(e);
}

void td_far_sources_free(struct td_far_link *l)
{
	struct td_far_source *e, *tmp;
	HASH_ITER (hh, l->sources, e, tmp)
		drop(l, e);
}

// How one is after a look at it. why NULL: nothing is wrong.
static void set(struct td_far_link *l, const char *key, const char *rv, const struct td_far_source *is, const char *why)
{
	pthread_mutex_lock(&l->lock);
	struct td_far_source *e = find(l, key);
	if (e) {
		char *new_rv = td_strdup(rv), *new_why = td_strdup(why);
		free(e->rv);
		free(e->why);
		e->rv = new_rv;
		e->why = new_why;
		e->made = is->made;
		e->never = is->never;
		e->absent = is->absent;
	}
	pthread_mutex_unlock(&l->lock);
}

void td_far_index_source(const struct td_object *pod, struct td_strv *ret)
{
	td_auto_far_refs struct td_far_refs refs = {0};
	if (!td_jstr(pod->root, "spec.nodeName") || !td_object_annotation(pod, TD_ANN_JOB) ||
	    td_kube_pod_ended(pod->root))
		return;
	td_far_refs_of(pod->root, &refs);
	for (size_t i = 0; i < refs.n; i++)
		td_strv_steal(ret, td_far_ref_key(refs.v[i].secret, pod->ns, refs.v[i].name));
}

void td_far_index_source_there(const struct td_object *copy, struct td_strv *ret)
{
	if (td_object_label(copy, TD_LABEL_FROM_SET) && !td_kube_pod_ended(copy->root))
		td_far_refs_there(copy->root, ret);
}

void td_far_sources_look(struct td_far_link *l, const struct td_object *pod, bool there)
{
	td_auto_strv struct td_strv v = {0};
	if (there)
		td_far_refs_there(pod->root, &v);
	else
		td_far_index_source(pod, &v);
	for (size_t i = 0; i < v.n; i++) {
		pthread_mutex_lock(&l->lock);
		struct td_far_source *e = there ? NULL : find(l, v.v[i]);
		if (there) // a name there is of one kind only
			HASH_FIND(by_there, l->sources_there, v.v[i] + 2, strlen(v.v[i] + 2), e);
		td_auto_free char *key = e ? td_strdup(e->key) : NULL;
		pthread_mutex_unlock(&l->lock);
		if (key)
			td_queue_add_after(l->q, key, GONE_MS);
	}
}

int td_far_sources_ready(struct td_far_link *l, const struct td_object *pod, struct td_error *err)
{
	td_auto_far_refs struct td_far_refs refs = {0};
	int r = 0;
	td_far_refs_of(pod->root, &refs);
	for (size_t i = 0; i < refs.n; i++) {
		td_auto_free char *key = td_far_ref_key(refs.v[i].secret, pod->ns, refs.v[i].name), *why = NULL;
		bool known = false, never = false;
		pthread_mutex_lock(&l->lock);
		const struct td_far_source *e = find(l, key);
		if (e) {
			known = e->made || (e->absent && refs.v[i].optional);
			never = e->never;
			why = td_strdup(e->why);
		}
		pthread_mutex_unlock(&l->lock);
		if (known)
			continue;
		if (!e)
			note(l, key);
		if (!e || !why) // it has not been looked at, or is just looked at
			td_queue_add(l->q, key);
		if (never)
			return td_fail(err, TD_INVALID, "%s", why);
		if (!r || why)
			r = td_fail(err, TD_TRANSIENT, "%s %s/%s goes to the other cluster first%s%s",
				    refs.v[i].secret ? "Secret" : "ConfigMap", pod->ns, refs.v[i].name, why ? ": " : "",
				    why ? why : "");
	}
	return r;
}

// ---- one of them ----

struct source_at {
	bool secret;
	const struct td_gvr *gvr;
	char *ns, *name, *there, *rv;
	bool made;
};

static void at_done(struct source_at *a)
{
	free(a->ns);
	free(a->name);
	free(a->there);
	free(a->rv);
}

// Of a Secret: its type there. What the other cluster's controllers would act on goes as plain data.
static const char *type_there(const yyjson_val *secret)
{
	static const char *const same[] = {"kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg",
					   "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/tls"};
	const char *type = td_jstr_or(secret, "type", "");
	for (size_t i = 0; i < TD_LEN(same); i++)
		if (!strcmp(type, same[i]))
			return same[i];
	return "Opaque";
}

static const char *const parts[] = {"data", "binaryData"};

static int create(struct td_far_link *l, const struct source_at *a, const struct td_object *o, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *from = td_asprintf("%s/%s", a->ns, a->name);
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", a->gvr->kind);
	td_jm_str(d, root, "metadata.name", a->there);
	td_jm_str(d, root, "metadata.namespace", l->ns);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_FROM_SET, l->set->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_FROM_NAME, from);
	if (a->secret)
		td_jm_str(d, root, "type", type_there(o->root));
	for (size_t i = 0; i < TD_LEN(parts); i++)
		if (yyjson_is_obj(td_jkey(o->root, parts[i])))
			td_jm_copyval(d, root, parts[i], td_jkey(o->root, parts[i]));
	return td_kube_create(l->there, a->gvr, l->ns, root, c, NULL, err);
}

// The one that is there already becomes as it is here, or goes where it cannot.
static int change(struct td_far_link *l, const struct source_at *a, const struct td_object *o, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *is = NULL;
	td_auto_free char *from = td_asprintf("%s/%s", a->ns, a->name);
	int r = td_kube_get(l->there, a->gvr, l->ns, a->there, c, &is, err);
	if (r)
		return r == TD_NOT_FOUND ? create(l, a, o, c, err) : r;
	if (!td_streq(td_object_label(is, TD_LABEL_FROM_SET), l->set->uid) ||
	    !td_streq(td_object_annotation(is, TD_ANN_FROM_NAME), from))
		return td_fail(err, TD_INVALID, "%s %s of somebody else has its name there: remove it", a->gvr->kind,
			       a->there);
	if (td_jbool(is->root, "immutable", false) ||
	    (a->secret && !td_streq(td_jstr(is->root, "type"), type_there(o->root)))) {
		const struct td_kube_delete_opts del = {.uid = is->uid, .grace_s = -1};
		r = td_kube_delete(l->there, a->gvr, l->ns, a->there, &del, c, err);
		return r ? r : create(l, a, o, c, err);
	}
	bool same = true;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *list = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *ops = yyjson_mut_arr(list), *op;
	yyjson_mut_doc_set_root(list, ops);
	op = yyjson_mut_arr_add_obj(list, ops);
	td_jm_str(list, op, "op", "test");
	td_jm_str(list, op, "path", "/metadata/uid");
	td_jm_str(list, op, "value", is->uid);
	for (size_t i = 0; i < TD_LEN(parts) - a->secret; i++) {
		const yyjson_val *now = td_jkey(is->root, parts[i]), *here = td_jkey(o->root, parts[i]);
		bool none = !yyjson_obj_size((yyjson_val *)here);
		if (none ? !yyjson_obj_size((yyjson_val *)now) : td_jequal(now, here))
			continue;
		same = false;
		op = yyjson_mut_arr_add_obj(list, ops);
		td_auto_free char *path = td_asprintf("/%s", parts[i]);
		td_jm_str(list, op, "op", "add"); // it replaces what is there
		td_jm_str(list, op, "path", path);
		if (none)
			td_jm_obj(list, op, "value");
		else
			td_jm_copyval(list, op, "value", here);
	}
	return same ? 0 : td_kube_patch(l->there, TD_AT(a->gvr, l->ns, a->there), TD_PATCH_JSON, ops, c, NULL, err);
}

static int put(struct td_far_link *l, const struct source_at *a, const struct td_object *o, struct td_cancel *c,
	       struct td_error *err)
{
	if (!td_lease_holds())
		return td_fail(err, TD_TRANSIENT, "another operator leads");
	int r = a->made ? TD_EXISTS : create(l, a, o, c, err);
	return r == TD_EXISTS ? change(l, a, o, c, err) : r;
}

static size_t users(const struct td_far_link *l, const struct source_at *a, const char *key, size_t *ret_here)
{
	td_auto_objects struct td_objects here = {0}, there = {0};
	td_auto_free char *far = td_asprintf("%c/%s", *key, a->there);
	td_informer_by_index(l->pods, "source", key, &here);
	td_informer_by_index(l->far_pods, "source", far, &there);
	size_t n = 0;
	// One is enough to know. Another NodeSet of that name, whose pods have the same label, is another cluster.
	for (size_t i = 0; i < here.n && !n; i++) {
		td_auto(td_object_unref) struct td_object *node = td_far_node_of(l, here.v[i]);
		n += node != NULL;
	}
	*ret_here = n;
	for (size_t i = 0; i < there.n; i++)
		n += td_far_pod_ours(l, there.v[i]);
	return n;
}

// Nobody uses it any more. A pod that comes now finds that it is not made, and has it looked at again.
static int forget(struct td_far_link *l, const struct source_at *a, const char *key, struct td_cancel *c,
		  struct td_error *err)
{
	size_t here;
	set(l, key, NULL, &(const struct td_far_source){0}, NULL);
	if (users(l, a, key, &here)) {
		td_queue_add(l->q, key);
		return 0;
	}
	td_auto(td_object_unref) struct td_object *is = NULL;
	int r = td_lease_holds() ? td_kube_get(l->there, a->gvr, l->ns, a->there, c, &is, err) : TD_NOT_FOUND;
	if (!r && td_streq(td_object_label(is, TD_LABEL_FROM_SET), l->set->uid)) {
		const struct td_kube_delete_opts del = {.uid = is->uid, .grace_s = -1};
		r = td_kube_delete(l->there, a->gvr, l->ns, a->there, &del, c, err);
	}
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "%s %s/%s in the other cluster, which no pod uses any more", a->gvr->kind, l->ns,
			       a->there);
	pthread_mutex_lock(&l->lock);
	struct td_far_source *e = find(l, key);
	if (e && !users(l, a, key, &here))
		drop(l, e);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

// Those who wait for it.
static void wake(struct td_far_link *l, const char *key)
{
	td_auto_objects struct td_objects here = {0};
	td_informer_by_index(l->pods, "source", key, &here);
	for (size_t i = 0; i < here.n; i++)
		td_queue_add(l->q, here.v[i]->uid);
}

int td_far_source_sync(struct td_far_link *l, const char *key, int64_t *again_ms, struct td_cancel *c,
		       struct td_error *err)
{
	__attribute__((cleanup(at_done))) struct source_at a = {.secret = *key == 's',
								.gvr = *key == 's' ? &td_secrets : &td_configmaps};
	td_auto(td_object_unref) struct td_object *o = NULL;
	struct td_error e = TD_ERROR_INIT;
	size_t here = 0, most;
	if (!td_far_known(l) || !atomic_load(&l->answers)) {
		*again_ms = SOON_MS;
		return 0;
	}
	td_key_split(key + 2, &a.ns, &a.name);
	pthread_mutex_lock(&l->lock);
	const struct td_far_source *s = find(l, key);
	if (s) {
		a.there = td_strdup(s->there);
		a.rv = td_strdup(s->rv);
		a.made = s->made;
	}
	most = HASH_COUNT(l->sources);
	pthread_mutex_unlock(&l->lock);
	if (!a.there)
		return 0;
	if (!users(l, &a, key, &here))
		return forget(l, &a, key, c, err);
	*again_ms = (int64_t)most * EACH_MS > LOOK_MS ? (int64_t)most * EACH_MS : LOOK_MS;
	if (!here) // a copy has it still
		return 0;

	int r = td_kube_get(l->here, a.gvr, a.ns, a.name, c, &o, &e);
	struct td_far_source is = {.made = a.made}; // a look-up that failed decides nothing
	if (!r && a.made && td_streq(a.rv, o->rv))
		return 0;
	if (r == TD_NOT_FOUND) { // what is there stays as it was, as on a kubelet's node
		is = (struct td_far_source){.absent = true};
		td_fail(&e, TD_NOT_FOUND, "it is not here: make it");
		*again_ms = SOON_MS;
	} else if (!r && td_streq(td_jstr(o->root, "type"), "kubernetes.io/service-account-token")) {
		is = (struct td_far_source){.never = true};
		r = td_fail(&e, TD_INVALID,
			    "Secret %s/%s holds the token of an account of this cluster, which stays here", a.ns,
			    a.name);
	} else if (!r) {
		r = put(l, &a, o, c, &e);
		is.made |= !r; // or an older one is there still
		if (r == TD_DENIED || r == TD_INVALID || r == TD_UNAUTHENTICATED) {
			td_auto_free char *text = td_strdup(e.msg);
			td_fail(&e, r, "the other cluster refuses it: %.380s", text);
		}
	}
	if (r == TD_CANCELLED)
		return r;
	set(l, key, r ? a.rv : o->rv, &is, r ? e.msg : NULL);
	wake(l, key);
	if (!r || is.absent || is.never)
		return 0;
	if (err)
		*err = e;
	return td_wrap(err, "%s %s/%s", a.gvr->kind, a.ns, a.name);
}

int td_far_sources_sweep(struct td_far_link *l, int64_t *again_ms, struct td_cancel *c)
{
	static const struct td_gvr *const kinds[] = {&td_secrets, &td_configmaps};
	td_auto_free char *labels = td_asprintf(TD_LABEL_FROM_SET "=%s", l->set->uid);
	for (size_t k = 0; k < TD_LEN(kinds); k++) {
		td_auto_objects struct td_objects v = {0};
		struct td_error e = TD_ERROR_INIT;
		int r = td_kube_list(l->there, kinds[k], l->ns, labels, NULL, c, &v, &e);
		if (r) { // an account that may not has made none
			*again_ms = LOOK_MS;
			continue;
		}
		for (size_t i = 0; i < v.n; i++) {
			td_auto_free char *ns = NULL, *name = NULL;
			td_key_split(td_object_annotation(v.v[i], TD_ANN_FROM_NAME) ?: "", &ns, &name);
			if (!*ns || !*name)
				continue;
			td_auto_free char *key = td_far_ref_key(kinds[k] == &td_secrets, ns, name),
					  *there = td_far_ref_there(l->set->uid, key);
			if (strcmp(there, v.v[i]->name) != 0)
				continue;
			note(l, key);
			td_queue_add(l->q, key);
		}
	}
	return 0;
}
