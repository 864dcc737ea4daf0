// Deletes, after an installation, the objects that an older version of Tandem installed and this
// one does not have, as `kubectl apply --prune` does.
//
// An object is ours when it carries Tandem's label *and* was applied by `tandem install` (the API
// server records in managedFields who applied what), in the namespaces of this installation or
// outside of all namespaces. What the operator makes, what helm manages, and what somebody labelled
// by hand is not ours. Kinds and namespaces are never deleted, whatever their labels say, because
// what people made would go with them.
#include "cli/apply.h"

#include <string.h>

#define OURS "app.kubernetes.io/part-of=tandem"

static bool named(const struct td_cli_manifests *m, const struct td_gvr *g, const struct td_object *o)
{
	for (size_t i = 0; i < m->docs.n; i++) {
		yyjson_val *v = td_json_root(m->docs.v[i]);
		if (td_streq(td_jstr(v, "kind"), g->kind) && td_streq(td_jstr(v, "metadata.name"), o->name) &&
		    td_streq(td_jstr_or(v, "metadata.namespace", ""), o->ns))
			return true;
	}
	return false;
}

static bool our_namespace(const struct td_cli_manifests *m, const char *ns)
{
	for (size_t i = 0; i < m->docs.n; i++)
		if (td_streq(td_jstr(td_json_root(m->docs.v[i]), "metadata.namespace"), ns))
			return true;
	return !*ns;
}

// Reads the object by itself, because lists leave managedFields out (kube.h).
static int applied_by_us(struct td_kube *k, const struct td_gvr *g, const struct td_object *o, bool *ret,
			 struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *path = td_cli_path(g, o->ns, o->name);
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_kube_raw(k, "GET", path, NULL, c, &j, err);
	*ret = false;
	if (r)
		return r == TD_NOT_FOUND ? 0 : td_wrap(err, "%s %s", g->kind, o->name);

	size_t i, n;
	yyjson_val *x;
	yyjson_arr_foreach (td_jget(td_json_root(j), "metadata.managedFields"), i, n, x) {
		if (td_streq(td_jstr(x, "manager"), TD_CLI_MANAGER) && td_streq(td_jstr(x, "operation"), "Apply"))
			*ret = true;
	}

	return 0;
}

static int prune_kind(struct td_kube *k, const struct td_gvr *g, const struct td_cli_manifests *m, bool dry_run,
		      void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		      struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(k, g, NULL, OURS, NULL, c, &l, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : td_wrap(err, "%s", g->resource); // no such kind

	for (size_t i = 0; i < l.n; i++) {
		const struct td_object *o = l.v[i];
		bool ours = false;
		if (named(m, g, o) || !our_namespace(m, o->ns) || td_object_deleting(o))
			continue;

		if ((r = applied_by_us(k, g, o, &ours, c, err)))
			return r;
		if (!ours)
			continue;

		const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1, .propagation = "Background"};
		if (!dry_run && (r = td_kube_delete(k, g, g->namespaced ? o->ns : NULL, o->name, &del, c, err)) &&
		    r != TD_NOT_FOUND)
			return td_wrap(err, "deleting %s %s of an older version", g->kind, o->name);

		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o->root);
		td_jm_str(d, yyjson_mut_doc_get_root(d), "kind", g->kind); // lists leave it out
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
		tell_one(ctx, td_json_root(j), TD_REMOVED);
	}
	return 0;
}

int td_cli_prune(struct td_kube *k, const struct td_cli_manifests *m, bool dry_run,
		 void (*tell_one)(void *ctx, const yyjson_val *obj, enum td_applied what), void *ctx,
		 struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; td_cli_kinds[i]; i++) {
		const struct td_gvr *g = td_cli_kinds[i];
		if (g == &td_crds || g == &td_namespaces || g == &td_slurmclusters || g == &td_nodesets)
			continue;
		int r = prune_kind(k, g, m, dry_run, tell_one, ctx, c, err);
		if (r)
			return r;
	}
	return 0;
}
