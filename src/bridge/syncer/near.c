// Where a pod at the gate may go by what is there already (near.h).
#define uthash_malloc(n) td_malloc(n)
#include "bridge/syncer/near.h"

#include "api/selector.h"
#include "base/log.h"
#include "pool/entrance.h"

#include <string.h>
#include <uthash.h>

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"
#define ANTI "spec.affinity.podAntiAffinity." REQUIRED
#define BESIDE "spec.affinity.podAffinity." REQUIRED
#define ZONE "topology.kubernetes.io/zone"
#define REGION "topology.kubernetes.io/region"

// One worker serves all pods, and each term is a walk: of a pod that has more of them the rest is its own scheduler's matter.
enum { VOLUMES_MAX = 64, TERMS_MAX = 32 };

struct near_domain {
	char *value;
	int64_t count;
	UT_hash_handle hh;
};
struct near_rule {
	struct td_pool_near is; // without what depends on the node
	char *key;
	struct near_domain *domains;
	const char *why;
};
struct td_near {
	struct near_rule *v;
	size_t n;
	struct td_json *volumes[VOLUMES_MAX]; // specs of pods that may go where the volume is
	size_t n_volumes;
};

struct td_near *td_near_free(struct td_near *n)
{
	struct near_domain *d, *tmp;
	for (size_t i = 0; n && i < n->n; i++) {
		HASH_ITER (hh, n->v[i].domains, d, tmp) {
			HASH_DEL(n->v[i].domains, d);
			free(d->value);
			free(d);
		}
		free(n->v[i].key);
	}
	for (size_t i = 0; n && i < n->n_volumes; i++)
		td_json_unref(n->volumes[i]);
	if (n)
		free(n->v);
	free(n);
	return NULL;
}

void td_near_index(const struct td_object *pod, struct td_strv *ret)
{
	if (yyjson_arr_size(td_jget(pod->root, ANTI)) && !td_kube_pod_ended(pod->root))
		td_strv_add(ret, "anti");
}

static struct near_rule *add_rule(struct td_near *n, enum td_pool_near_is is, const char *key, const char *why)
{
	n->v = td_realloc(n->v, (n->n + 1) * sizeof(*n->v));
	n->v[n->n] = (struct near_rule){.is = {.is = is}, .key = td_strdup(key), .why = why};
	return &n->v[n->n++];
}

static void count(struct near_rule *r, const char *value, int64_t by)
{
	struct near_domain *d;
	HASH_FIND_STR(r->domains, value, d);
	if (!d) {
		d = td_calloc(1, sizeof(*d));
		d->value = td_strdup(value);
		HASH_ADD_KEYPTR(hh, r->domains, d->value, strlen(d->value), d);
	}
	d->count += by;
	r->is.total += by;
}

// ---- which pods are where ----

// Where it is, or is to be; NULL: nowhere.
static const char *node_of(const struct td_object *pod)
{
	const char *node = td_jstr(pod->root, "spec.nodeName");
	return node ? node : td_object_annotation(pod, TD_ANN_SHADOW_NODE);
}

// All pods of the namespace, or of an index; ns NULL: all.
static void pods_of(struct td_bridge *b, const char *ns, bool anti, struct td_objects *ret)
{
	struct td_informer *const from[] = {b->others, b->unplaced, b->pods};
	for (size_t i = 0; i < TD_LEN(from); i++)
		if (from[i] && anti)
			td_informer_by_index(from[i], "anti", "anti", ret);
		else if (from[i])
			td_informer_list(from[i], ns, ret);
}

static bool in_namespace(const yyjson_val *term, const struct td_object *of, const struct td_object *other)
{
	size_t i, n;
	yyjson_val *ns;
	if (td_jkey(term, "namespaceSelector"))
		return true;
	if (!yyjson_arr_size(td_jkey(term, "namespaces")))
		return td_streq(of->ns, other->ns);
	yyjson_arr_foreach (td_jkey(term, "namespaces"), i, n, ns)
		if (td_streq(yyjson_get_str(ns), other->ns))
			return true;
	return false;
}

// Does this term of the pod `of` mean the other one?
static bool means(const yyjson_val *term, const struct td_selector *sel, const struct td_object *of,
		  const struct td_object *other)
{
	return in_namespace(term, of, other) && td_selector_matches(sel, td_jget(other->root, "metadata.labels"));
}

static bool elsewhere(const yyjson_val *term) // it may mean pods of other namespaces
{
	return td_jkey(term, "namespaceSelector") || yyjson_arr_size(td_jkey(term, "namespaces"));
}

// The selector of a term, with the pod's own values of matchLabelKeys.
static int selector_of(const yyjson_val *term, const struct td_object *pod, struct td_selector **ret)
{
	yyjson_val *keys = td_jkey(term, "matchLabelKeys"), *key;
	if (!yyjson_arr_size(keys))
		return td_selector_from_object(td_jkey(term, "labelSelector"), ret, NULL);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	if (td_jkey(term, "labelSelector"))
		td_jm_copyval(d, root, "s", td_jkey(term, "labelSelector"));
	size_t i, n;
	yyjson_arr_foreach (keys, i, n, key) {
		const char *value = td_object_label(pod, yyjson_get_str(key));
		if (value)
			td_jm_key_str(d, td_jm_obj(d, root, "s.matchLabels"), yyjson_get_str(key), value);
	}
	td_auto(td_json_unref) struct td_json *j = td_jm_done(td_steal(d));
	return td_selector_from_object(td_jkey(td_json_root(j), "s"), ret, NULL);
}

// Counts the pods that a term means, in the domains where they are.
static void count_term(struct td_bridge *b, struct near_rule *r, const yyjson_val *term, const struct td_object *pod,
		       bool spread)
{
	td_auto(td_selector_free) struct td_selector *sel = NULL;
	td_auto_objects struct td_objects all = {0};
	if (selector_of(term, pod, &sel))
		return;
	r->is.self =
		spread ? td_selector_matches(sel, td_jget(pod->root, "metadata.labels")) : means(term, sel, pod, pod);
	pods_of(b, !spread && elsewhere(term) ? NULL : pod->ns, false, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct td_object *o = all.v[i];
		const char *at = node_of(o);
		if (!at || td_streq(o->uid, pod->uid) || td_kube_pod_ended(o->root) ||
		    (spread && td_object_deleting(o)) || !means(term, sel, pod, o))
			continue;
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, at);
		const char *value = node ? td_object_label(node, r->key) : NULL;
		struct near_domain *d = NULL;
		if (value && spread)
			HASH_FIND_STR(r->domains, value, d);
		if (value && (!spread || d)) // of nodes that do not count neither do the pods
			count(r, value, 1);
	}
}

// ---- spread ----

// The pod's spec as far as it chooses nodes, for all taints. Caller unrefs.
static struct td_json *places(const struct td_object *pod, bool honor)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *all = td_jm_arr(d, root, "tolerations"),
		       *any = yyjson_mut_arr_add_obj(d, all);
	td_jm_str(d, any, "operator", "Exists");
	if (honor && td_jget(pod->root, "spec.nodeSelector"))
		td_jm_copyval(d, root, "nodeSelector", td_jget(pod->root, "spec.nodeSelector"));
	if (honor && td_jget(pod->root, "spec.affinity.nodeAffinity"))
		td_jm_copyval(d, root, "affinity.nodeAffinity", td_jget(pod->root, "spec.affinity.nodeAffinity"));
	return td_jm_done(td_steal(d));
}

static bool hard(const yyjson_val *constraint)
{
	return !td_streq(td_jstr(constraint, "whenUnsatisfiable"), "ScheduleAnyway") &&
	       td_jstr(constraint, "topologyKey");
}

// The domains of one constraint: of all nodes that the pod may choose and that have the labels of all constraints.
static void domains(struct td_bridge *b, struct near_rule *r, const yyjson_val *constraint, const struct td_object *pod)
{
	const bool honor = !td_streq(td_jstr(constraint, "nodeAffinityPolicy"), "Ignore"),
		   taints = td_streq(td_jstr(constraint, "nodeTaintsPolicy"), "Honor");
	td_auto(td_json_unref) struct td_json *spec = places(pod, honor);
	yyjson_val *all = td_jget(pod->root, "spec.topologySpreadConstraints"), *one;
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(b->nodes, NULL, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		const struct td_object *node = nodes.v[i];
		bool in = td_api_pod_fits_node(taints ? td_jget(pod->root, "spec") : td_json_root(spec), node->root,
					       true, NULL);
		size_t k, n;
		yyjson_arr_foreach (all, k, n, one)
			in = in && (!hard(one) || td_object_label(node, td_jstr(one, "topologyKey")));
		if (in)
			count(r, td_object_label(node, r->key), 0);
	}
}

static void spread(struct td_bridge *b, struct td_near *n, const struct td_object *pod)
{
	size_t i, max;
	yyjson_val *x;
	yyjson_arr_foreach (td_jget(pod->root, "spec.topologySpreadConstraints"), i, max, x) {
		if (!hard(x) || i >= TERMS_MAX)
			continue;
		struct near_rule *r = add_rule(n, TD_NEAR_SPREAD, td_jstr(x, "topologyKey"),
					       "its spread constraints (topologySpreadConstraints)");
		domains(b, r, x, pod);
		count_term(b, r, x, pod, true);
		r->is.skew = td_jint(x, "maxSkew", 1);
		td_auto_free int64_t *counts = td_calloc(HASH_COUNT(r->domains) + 1, sizeof(*counts));
		struct near_domain *d, *tmp;
		size_t k = 0;
		HASH_ITER (hh, r->domains, d, tmp)
			counts[k++] = d->count;
		r->is.least = td_pool_near_least(counts, k, td_jint(x, "minDomains", 1));
	}
}

// ---- others that keep it away ----
static void kept_away(struct td_bridge *b, struct td_near *n, const struct td_object *pod)
{
	td_auto_objects struct td_objects all = {0};
	pods_of(b, NULL, true, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct td_object *o = all.v[i];
		const char *at = node_of(o);
		size_t k, max;
		yyjson_val *term;
		if (!at || td_streq(o->uid, pod->uid))
			continue;
		yyjson_arr_foreach (td_jget(o->root, ANTI), k, max, term) {
			td_auto(td_selector_free) struct td_selector *sel = NULL;
			const char *key = td_jstr(term, "topologyKey");
			if (!key || k >= TERMS_MAX || !in_namespace(term, o, pod) || selector_of(term, o, &sel) ||
			    !td_selector_matches(sel, td_jget(pod->root, "metadata.labels")))
				continue;
			td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, at);
			const char *value = node ? td_object_label(node, key) : NULL;
			struct near_rule *r = NULL;
			for (size_t m = 0; m < n->n && !r; m++)
				r = n->v[m].is.is == TD_NEAR_APART && td_streq(n->v[m].key, key) ? &n->v[m] : NULL;
			if (!r)
				r = add_rule(n, TD_NEAR_APART, key, "the anti-affinity of pods that are there");
			if (value)
				count(r, value, 1);
		}
	}
}

// ---- volumes ----
static int get(struct td_bridge *b, const struct td_gvr *gvr, const char *ns, const char *name, struct td_cancel *c,
	       struct td_object **ret, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_get(b->kube, gvr, ns, name, c, ret, &e);
	// What is not there its own scheduler waits for, and says so.
	if (r == TD_NOT_FOUND)
		return 0;
	if (r == TD_DENIED) { // an installation whose bridge has not this right yet
		td_debug("zones of volumes: %s", e.msg);
		return 0;
	}
	return r ? td_fail(err, r, "%s %s: %.400s", gvr->kind, name, e.msg) : 0;
}

// A node selector's terms as the spec of a pod for all taints.
static void add_volume(struct td_near *n, yyjson_mut_doc *d, yyjson_mut_val *root)
{
	td_jm_str(d, yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "tolerations")), "operator", "Exists");
	n->volumes[n->n_volumes++] = td_jm_done(d);
}

static void expression(yyjson_mut_doc *d, yyjson_mut_val *list, const char *key, yyjson_mut_val *values)
{
	yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, e, "key", key);
	td_jm_str(d, e, "operator", "In");
	yyjson_mut_obj_add_val(d, e, "values", values);
}

#define TERMS "affinity.nodeAffinity." REQUIRED ".nodeSelectorTerms"

static void of_volume(struct td_near *n, const struct td_object *pv)
{
	const yyjson_val *required = td_jget(pv->root, "spec.nodeAffinity.required");
	if (required) {
		yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_copyval(d, root, "affinity.nodeAffinity." REQUIRED, required);
		add_volume(n, d, root);
		return;
	}
	// As drivers that are no CSI say it: by labels, "a__b" is one of both.
	static const char *const keys[] = {ZONE, REGION};
	for (size_t i = 0; i < TD_LEN(keys) && n->n_volumes < VOLUMES_MAX; i++) {
		const char *at = td_object_label(pv, keys[i]);
		if (!at)
			continue;
		yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *values = yyjson_mut_arr(d),
			       *term = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, TERMS));
		for (const char *p = at, *end; p; p = end ? end + 2 : NULL) {
			end = strstr(p, "__");
			yyjson_mut_arr_add_strncpy(d, values, p, end ? (size_t)(end - p) : strlen(p));
		}
		expression(d, td_jm_arr(d, term, "matchExpressions"), keys[i], values);
		add_volume(n, d, root);
	}
}

// Of a claim that gets its volume where its pod goes: where the class makes such.
static void of_class(struct td_near *n, const struct td_object *class)
{
	yyjson_val *allowed = td_jget(class->root, "allowedTopologies"), *one, *x;
	size_t i, max, k, m;
	if (!yyjson_arr_size(allowed))
		return;
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *terms = td_jm_arr(d, root, TERMS);
	yyjson_arr_foreach (allowed, i, max, one) {
		yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_arr_add_obj(d, terms), "matchExpressions");
		yyjson_arr_foreach (td_jget(one, "matchLabelExpressions"), k, m, x)
			expression(d, list, td_jstr_or(x, "key", ""), yyjson_val_mut_copy(d, td_jget(x, "values")));
	}
	add_volume(n, d, root);
}

static int volumes(struct td_bridge *b, struct td_near *n, const struct td_object *pod, struct td_cancel *c,
		   struct td_error *err)
{
	static const struct td_gvr pvs = {"", "v1", "persistentvolumes", "PersistentVolume", false},
				   classes = {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};
	size_t i, max, looked = 0;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(pod->root, "spec.volumes"), i, max, v) {
		td_auto(td_object_unref) struct td_object *claim = NULL, *pv = NULL, *class = NULL;
		const char *name = td_jstr(v, "persistentVolumeClaim.claimName");
		td_auto_free char *own = !name && td_jget(v, "ephemeral")
						 ? td_asprintf("%s-%s", pod->name, td_jstr_or(v, "name", ""))
						 : NULL;
		name = name ? name : own;
		if (!name)
			continue;
		if (looked++ == VOLUMES_MAX || n->n_volumes == VOLUMES_MAX)
			break;
		int r = get(b, &td_pvcs, pod->ns, name, c, &claim, err);
		const char *is = claim ? td_jstr(claim->root, "spec.volumeName") : NULL,
			   *of = claim ? td_jstr(claim->root, "spec.storageClassName") : NULL;
		if (!r && !claim) // it is made with the pod
			of = td_jstr(v, "ephemeral.volumeClaimTemplate.spec.storageClassName");
		if (!r && is)
			r = get(b, &pvs, NULL, is, c, &pv, err);
		else if (!r && of && *of)
			r = get(b, &classes, NULL, of, c, &class, err);
		if (r)
			return r;
		if (pv)
			of_volume(n, pv);
		if (class)
			of_class(n, class);
	}
	return 0;
}

// ---- all ----
int td_near_read(struct td_bridge *b, const struct td_object *pod, bool with_volumes, struct td_cancel *c,
		 struct td_near **ret, struct td_error *err)
{
	td_auto(td_near_free) struct td_near *n = td_calloc(1, sizeof(*n));
	size_t i, max;
	yyjson_val *term;
	kept_away(b, n, pod);
	yyjson_arr_foreach (td_jget(pod->root, ANTI), i, max, term)
		if (i < TERMS_MAX && td_jstr(term, "topologyKey"))
			count_term(b, add_rule(n, TD_NEAR_APART, td_jstr(term, "topologyKey"), "its anti-affinity"),
				   term, pod, false);
	yyjson_arr_foreach (td_jget(pod->root, BESIDE), i, max, term)
		if (i < TERMS_MAX && td_jstr(term, "topologyKey"))
			count_term(
				b,
				add_rule(n, TD_NEAR_BESIDE, td_jstr(term, "topologyKey"), "its affinity to other pods"),
				term, pod, false);
	spread(b, n, pod);
	int r = with_volumes ? volumes(b, n, pod, c, err) : 0;
	if (!r)
		*ret = td_steal(n);
	return r;
}

bool td_near_fits(const struct td_near *n, const struct td_object *node, const char **ret_why)
{
	const char *why = NULL;
	for (size_t i = 0; i < n->n && !why; i++) {
		const struct near_rule *r = &n->v[i];
		const char *value = td_object_label(node, r->key);
		struct td_pool_near is = r->is;
		struct near_domain *d = NULL;
		if (value)
			HASH_FIND_STR(r->domains, value, d);
		is.has = value && (is.is != TD_NEAR_SPREAD || d);
		is.here = d ? d->count : 0;
		why = td_pool_near_ok(&is) ? NULL : r->why;
	}
	for (size_t i = 0; i < n->n_volumes && !why; i++)
		if (!td_api_pod_fits_node(td_json_root(n->volumes[i]), node->root, true, NULL))
			why = "the place of one of its volumes";
	if (why && ret_why)
		*ret_why = why;
	return !why;
}
