// What each SlurmCluster gets besides Slurm: its bridge and its network policies, from a template
// that the administrator can read and change (ConfigMap tandem-per-cluster;
// docs/design/0012-install.md).
//
// The bridge runs in the operator's namespace, so that nobody who may create pods beside a
// SlurmCluster can use its account. Nothing owns it there, because owners do not reach across
// namespaces: it is found by its labels, and is deleted when its SlurmCluster is gone. It gets a
// copy of Slurm's token key as a file, so that bridges need no right to any Secret.
#include "operator/operator.h"

#include "base/file.h"
#include "base/log.h"

#include <string.h>

enum { FILE_MAX = 256 << 10, LISTED_MS = 30000 };

static const struct td_gvr *gvr_of(const char *kind)
{
	static const struct td_gvr *const known[] = {&td_deployments, &td_pdbs,       &td_networkpolicies,
						     &td_services,    &td_configmaps, &td_rolebindings};
	for (size_t i = 0; i < TD_LEN(known); i++)
		if (td_streq(kind, known[i]->kind))
			return known[i];
	return NULL;
}

// The name is unique in the operator's namespace, and short enough for the names that are made of
// it.
char *td_op_bridge_name(const char *ns, const char *cluster)
{
	td_auto_free char *key = td_asprintf("%s/%s", ns, cluster), *hash = td_op_hash(key, strlen(key));
	return td_asprintf("tandem-bridge-%.24s-%.8s", cluster, hash);
}

// Deployments come last: when they are there, the rest is.
int td_op_per_cluster_objects(const char *text, const yyjson_val *sc, const char *own_ns, const char *image,
			      const yyjson_val *jwt, struct td_op_wants *ret, struct td_error *err)
{
	const char *ns = td_jstr(sc, "metadata.namespace"), *cluster = td_jstr(sc, "metadata.name");
	td_auto_free char *name = td_op_bridge_name(ns, cluster);
	const struct td_json_word words[] = {{"cluster", cluster},
					     {"namespace", ns},
					     {"name", name},
					     {"own-namespace", own_ns},
					     {"image", image ? image : ""}};
	td_auto_json_list struct td_json_list docs = {0};
	if (td_yaml_parse(text, strlen(text), &docs, err))
		return td_wrap(err, "--per-cluster");

	td_auto_wants struct td_op_wants out = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *s = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(s);
	td_jm_str(s, root, "apiVersion", "v1");
	td_jm_str(s, root, "kind", "Secret");
	td_jm_str(s, root, "type", "Opaque");
	td_jm_strf(s, root, "metadata.name", "%s-jwt", name);
	td_jm_str(s, root, "metadata.namespace", own_ns);
	td_jm_copyval(s, root, "data", jwt);
	td_op_wants_add(&out, (struct td_op_want){.gvr = &td_secrets, .obj = td_json_from_mut(root)});
	for (int last = 0; last < 2; last++)
		for (size_t i = 0; i < docs.n; i++) {
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
				td_json_fill(td_json_root(docs.v[i]), words, TD_LEN(words));
			td_auto(td_json_unref) struct td_json *filled = td_json_from_mut(yyjson_mut_doc_get_root(d));
			yyjson_val *v = td_json_root(filled);
			const struct td_gvr *g = gvr_of(td_jstr(v, "kind"));
			const char *at = td_jstr(v, "metadata.namespace");
			if (!v || yyjson_is_null(v) || (g == &td_deployments) != last)
				continue;
			if (!g || !td_jstr(v, "metadata.name") || (!td_streq(at, own_ns) && !td_streq(at, ns)))
				return td_fail(
					err, TD_INVALID,
					"--per-cluster: %s %s in namespace %s: want a Deployment, PodDisruptionBudget, "
					"NetworkPolicy, Service, ConfigMap or RoleBinding in {namespace} or "
					"{own-namespace}",
					td_jstr_or(v, "kind", "?"), td_jstr_or(v, "metadata.name", "?"), at ? at : "?");
			td_op_wants_add(&out, (struct td_op_want){.gvr = g, .obj = td_steal(filled)});
		}

	// One revision for all objects: when the Deployment has it, every other object has it too.
	td_auto_buf struct td_buf all = {0};
	for (size_t i = 0; i < out.n; i++) {
		td_auto_free char *t = td_json_text(td_json_root(out.v[i].obj), NULL);
		td_buf_puts(&all, t);
	}
	td_auto_free char *rev = td_op_hash(td_buf_str(&all), all.len);
	explicit_bzero(all.s, all.len);

	for (size_t i = 0; i < out.n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(out.v[i].obj));
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, o, "metadata.labels");
		td_jm_key_str(d, labels, TD_LABEL_CLUSTER, cluster);
		td_jm_key_str(d, labels, TD_LABEL_CLUSTER_NS, ns);
		td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_REVISION, rev);
		if (!td_streq(td_jm_getstr(o, "metadata.namespace"), own_ns))
			td_op_own(d, o, sc, &td_slurmclusters);
		td_json_unref(out.v[i].obj);
		out.v[i].obj = td_json_from_mut(o);
	}

	*ret = out;
	out = (struct td_op_wants){0};
	return 0;
}

static struct td_informer *cache_of(struct td_op *op, const struct td_gvr *g)
{
	return g == &td_secrets       ? op->secrets
	       : g == &td_services    ? op->services
	       : g == &td_deployments ? op->deployments
	       : g == &td_pdbs        ? op->budgets
				      : NULL;
}

// Is it of the revision that is wanted?
static bool as_wanted(const struct td_object *live, yyjson_val *want)
{
	return td_streq(td_object_annotation(live, TD_ANN_REVISION),
			td_jkey_str(td_jget(want, "metadata.annotations"), TD_ANN_REVISION));
}

// True when all objects that our caches can show are as wanted.
static bool in_force(struct td_op *op, const struct td_op_wants *w)
{
	for (size_t i = 0; i < w->n; i++) {
		struct td_informer *cache = cache_of(op, w->v[i].gvr);
		yyjson_val *v = td_json_root(w->v[i].obj);
		if (!cache)
			continue;
		td_auto(td_object_unref) struct td_object *live =
			td_informer_get(cache, td_jstr(v, "metadata.namespace"), td_jstr(v, "metadata.name"));
		if (!live || !as_wanted(live, v))
			return false;
	}
	return true;
}

bool td_op_per_cluster_there(const struct td_op_wants *w, const struct td_gvr *g, const char *ns,
			     const struct td_objects *live)
{
	for (size_t i = 0; i < w->n; i++) {
		yyjson_val *v = td_json_root(w->v[i].obj);
		bool there = false;
		if (w->v[i].gvr != g || !td_streq(td_jstr(v, "metadata.namespace"), ns))
			continue;
		for (size_t k = 0; k < live->n; k++)
			there |= td_streq(live->v[k]->name, td_jstr(v, "metadata.name")) &&
				 !td_object_deleting(live->v[k]) && as_wanted(live->v[k], v);
		if (!there)
			return false;
	}
	return true;
}

// The same of what no cache shows: it is listed by its labels, a request for each kind and namespace that it is of, at most
// once in LISTED_MS. Somebody may have deleted it.
static int others_in_force(struct td_op *op, const struct td_op_wants *w, const struct td_object *sc,
			   struct td_op_view *v, struct td_cancel *c, bool *ret, struct td_error *err)
{
	static const struct td_gvr *const kinds[] = {&td_rolebindings, &td_networkpolicies, &td_configmaps};
	const char *const spaces[] = {op->own_ns, sc->ns};
	const int64_t now = td_mono_ms(&td_clock_system);
	*ret = true;
	if (v->per_cluster_ms && now - v->per_cluster_ms < LISTED_MS)
		return 0;
	td_auto_free char *labels = td_asprintf(TD_LABEL_CLUSTER "=%s," TD_LABEL_CLUSTER_NS "=%s", sc->name, sc->ns);
	for (size_t i = 0; i < TD_LEN(kinds) * TD_LEN(spaces); i++) {
		const struct td_gvr *g = kinds[i / TD_LEN(spaces)];
		const char *ns = spaces[i % TD_LEN(spaces)];
		const struct td_objects none = {0};
		td_auto_objects struct td_objects live = {0};
		if (td_op_per_cluster_there(w, g, ns, &none)) // none is wanted there
			continue;
		int r = td_kube_list(op->k, g, ns, labels, NULL, c, &live, err);
		if (r)
			return td_wrap(err, "listing %s of namespace %s", g->kind, ns);
		*ret &= td_op_per_cluster_there(w, g, ns, &live);
	}
	v->per_cluster_ms = *ret ? now : 0;
	return 0;
}

int td_op_per_cluster_sync(struct td_op *op, const struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
			   struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	td_auto_free char *key = td_asprintf("%s-jwt-key", sc->name);
	td_auto(td_object_unref) struct td_object *secret = td_informer_get(op->secrets, sc->ns, key);
	int r = td_file_read(op->per_cluster, FILE_MAX, &text, err);
	if (r)
		return td_wrap(err, "--per-cluster");
	if (!secret && (r = td_kube_get(op->k, &td_secrets, sc->ns, key, c, &secret, err)))
		return r == TD_NOT_FOUND ? 0 : r; // the configuration is not valid yet: no bridge

	td_auto_wants struct td_op_wants w = {0};
	r = td_op_per_cluster_objects(td_buf_str(&text), sc->root, op->own_ns, op->image, td_jget(secret->root, "data"),
				      &w, err);
	bool there = !r && in_force(op, &w);
	if (there)
		r = others_in_force(op, &w, sc, v, c, &there, err);
	if (r || there)
		return r;

	for (size_t i = 0; i < w.n; i++) {
		const struct td_gvr *g = w.v[i].gvr;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(w.v[i].obj));
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		const char *ns = td_jm_getstr(o, "metadata.namespace"), *name = td_jm_getstr(o, "metadata.name");
		r = td_kube_patch(op->k, TD_AT(g, ns, name), TD_PATCH_APPLY, o, c, NULL, err);
		if (r)
			return td_wrap(err, "applying %s %s/%s", g->kind, ns, name);
	}

	td_info("SlurmCluster %s/%s: its bridge and policies are applied", sc->ns, sc->name);
	return 0;
}

int td_op_per_cluster_gone(struct td_op *op, const char *ns, const char *cluster, struct td_cancel *c,
			   struct td_error *err)
{
	static const struct td_gvr *const kinds[] = {&td_deployments, &td_pdbs, &td_services, &td_secrets};
	for (size_t k = 0; k < TD_LEN(kinds); k++) {
		td_auto_objects struct td_objects l = {0};
		td_informer_list(cache_of(op, kinds[k]), op->own_ns, &l);
		for (size_t i = 0; i < l.n; i++) {
			if (!td_streq(td_object_label(l.v[i], TD_LABEL_CLUSTER_NS), ns) ||
			    !td_streq(td_object_label(l.v[i], TD_LABEL_CLUSTER), cluster) || td_object_deleting(l.v[i]))
				continue;
			const struct td_kube_delete_opts del = {
				.uid = l.v[i]->uid, .grace_s = -1, .propagation = "Background"};
			int r = td_kube_delete(op->k, kinds[k], l.v[i]->ns, l.v[i]->name, &del, c, err);
			if (r && r != TD_NOT_FOUND)
				return td_wrap(err, "deleting %s %s/%s", kinds[k]->kind, l.v[i]->ns, l.v[i]->name);
			td_info("SlurmCluster %s/%s is gone: %s %s deleted", ns, cluster, kinds[k]->kind, l.v[i]->name);
		}
	}

	return 0;
}
