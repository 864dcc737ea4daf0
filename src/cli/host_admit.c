// Which machines run their own slurmd for a NodeSet: into spec.hosts and out of it, with what they may read. The right
// comes before the name and goes after the record, so that no machine is asked to leave that cannot read that it is.
#include "cli/common.h"
#include "cli/host.h"
#include "cli/host_login.h"
#include "slurm/containers.h"
#include "slurm/hosts.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 8 };

// A Role that an older `tandem node admit` has made gets what this one would make it with.
static int renew(struct td_kube *k, const struct td_gvr *gvr, const struct td_object *there, yyjson_mut_val *root,
		 struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *want = td_jm_get(root, "rules");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *have = yyjson_mut_doc_new(NULL);
	if (!want || yyjson_mut_equals(want, yyjson_val_mut_copy(have, td_jget(there->root, "rules"))))
		return 0;
	td_jm_str(d, o, "metadata.resourceVersion", there->rv);
	td_jm_set(d, o, "rules", yyjson_mut_val_mut_copy(d, want));
	return td_kube_patch(k, TD_AT(gvr, there->ns, there->name), TD_PATCH_MERGE, o, NULL, NULL, err);
}

// It goes with its owner, a NodeSet or a SlurmCluster.
static int make(struct td_kube *k, const struct td_gvr *gvr, yyjson_mut_doc *d, const struct td_gvr *kind,
		const struct td_object *owner, struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d),
		       *o = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "metadata.ownerReferences"));
	td_jm_str(d, o, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, o, "kind", kind->kind);
	td_jm_str(d, o, "name", owner->name);
	td_jm_str(d, o, "uid", owner->uid);
	int r = td_kube_create(k, gvr, owner->ns, root, NULL, NULL, err);
	if (r != TD_EXISTS)
		return r ? td_wrap(err, "%s for the machines of %s", gvr->kind, owner->name) : 0;
	// That of an owner of the same name that was deleted goes in a moment, and the right with it.
	const char *name = td_jm_getstr(root, "metadata.name");
	td_auto(td_object_unref) struct td_object *there = NULL;
	r = td_kube_get(k, gvr, owner->ns, name, NULL, &there, err);
	if (!r && !td_jfind(td_jget(there->root, "metadata.ownerReferences"), "uid", owner->uid))
		return td_fail(err, TD_EXISTS,
			       "%s %s/%s is there and is not this %s's: delete it, or wait until Kubernetes has, and "
			       "admit them again",
			       gvr->kind, owner->ns, name, kind->kind);
	if (!r)
		r = renew(k, gvr, there, root, err);
	return r ? td_wrap(err, "%s %s/%s", gvr->kind, owner->ns, name) : 0;
}

// The Roles of a NodeSet's machines: NODESET-host and NODESET-key.
static const struct {
	const char *file, *what;
} roles[] = {{"host-role.yaml", "host"}, {"host-key-role.yaml", "key"}};
enum { KEY = 1 };

// A Secret with the keys of a server of S3. Who writes Datasets cannot have machines read another one. One that could not be
// looked at is an error: the Role would lose it.
static int add_keys(struct td_kube *k, const char *ns, const char *name, struct td_strv *ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(k, &td_secrets, ns, name, NULL, &o, err);
	if (!r && td_jstr(o->root, "data.accessKeyID") && td_jstr(o->root, "data.secretAccessKey"))
		td_strv_add(ret, name);
	return r && r != TD_NOT_FOUND && r != TD_DENIED ? td_wrap(err, "Secret %s/%s", ns, name) : 0;
}

// The Secrets of the data sets that there are: their machines fetch copies themselves (host_data.c).
static int data_secrets(struct td_kube *k, const char *ns, const char *cluster, struct td_strv *ret,
			struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	int r = td_kube_list(k, &td_datasets, ns, NULL, NULL, NULL, &all, err);
	if (r)
		return r != TD_NOT_FOUND && r != TD_DENIED ? td_wrap(err, "Datasets of %s", ns) : 0;
	for (size_t i = 0; !r && i < all.n; i++) {
		const char *secret = td_jstr(all.v[i]->root, "spec.source.s3.secret");
		if (secret && td_streq(td_jstr(all.v[i]->root, "spec.clusterName"), cluster) &&
		    !td_strv_has(ret, secret))
			r = add_keys(k, ns, secret, ret, err);
	}
	return r;
}

static int grant(struct td_kube *k, const struct td_object *set, const struct td_strv *names, struct td_error *err)
{
	const char *cluster = td_jstr_or(set->root, "spec.clusterName", "");
	td_auto(td_object_unref) struct td_object *sc = NULL;
	int r = td_kube_get(k, &td_slurmclusters, set->ns, cluster, NULL, &sc, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "SlurmCluster %s/%s", set->ns, cluster);
	td_auto_free char *pull = td_slurm_pull_secret(sc ? sc->root : NULL, cluster);
	td_auto_strv struct td_strv data = {0};
	r = data_secrets(k, set->ns, cluster, &data, err);
	for (size_t n = 0; n < TD_LEN(roles) && !r; n++) {
		td_auto_free char *role = td_asprintf("%s-%s", set->name, roles[n].what);
		const struct td_json_word its[] = {
			{"set", set->name, 0}, {"namespace", set->ns, 0}, {"cluster", cluster, 0}, {"pull", pull, 0}};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_cli_template(roles[n].file, its, TD_LEN(its));
		yyjson_mut_val *secrets = td_jm_get(yyjson_mut_doc_get_root(d), "rules.[0].resourceNames");
		for (size_t i = 0; n == KEY && i < data.n; i++)
			yyjson_mut_arr_add_strcpy(d, secrets, data.v[i]);
		r = make(k, &td_roles_gvr, d, &td_nodesets, set, err);
		for (size_t i = 0; i < names->n && !r; i++) {
			const struct td_json_word words[] = {
				{"role", role, 0}, {"namespace", set->ns, 0}, {"node", names->v[i], 0}};
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *b =
				td_cli_template("host-binding.yaml", words, TD_LEN(words));
			r = make(k, &td_rolebindings, b, &td_nodesets, set, err);
		}
	}
	return r;
}

static int set_of(struct td_kube *k, const char *ns, const char *name, struct td_object **ret, struct td_error *err)
{
	int r = td_kube_get(k, &td_nodesets, ns, name, NULL, ret, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "there is no NodeSet \"%s\" in namespace \"%s\"", name, ns);
	if (!r && !td_slurm_host_set((*ret)->root)) {
		*ret = td_object_unref(*ret);
		return td_fail(err, TD_INVALID,
			       "NodeSet %s/%s is one of Kubernetes nodes: machines that run slurmd themselves need one "
			       "of their own, with spec.hosts: []",
			       ns, name);
	}
	return r;
}

// Writes the list, if nobody has written the NodeSet since it was read.
static int write_hosts(struct td_kube *k, const struct td_object *set, const struct td_strv *want, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "spec.hosts");
	td_jm_str(d, root, "metadata.resourceVersion", set->rv);
	for (size_t i = 0; i < want->n; i++)
		yyjson_mut_arr_add_strcpy(d, list, want->v[i]);
	return td_kube_patch(k, TD_AT(&td_nodesets, set->ns, set->name), TD_PATCH_MERGE, root, NULL, NULL, err);
}

static int change(struct td_kube *k, const char *ns, const char *name, const struct td_strv *names, bool in,
		  struct td_error *err)
{
	int r = TD_CONFLICT;
	for (int i = 0; i < TRIES && r == TD_CONFLICT; i++) {
		td_auto(td_object_unref) struct td_object *set = NULL;
		td_auto_strv struct td_strv have = {0}, want = {0};
		if ((r = set_of(k, ns, name, &set, err)) || (r = td_slurm_hosts(set->root, &have, err)))
			return r;
		for (size_t n = 0; n < have.n; n++)
			if (in || !td_strv_has(names, have.v[n]))
				td_strv_add(&want, have.v[n]);
		for (size_t n = 0; in && n < names->n; n++)
			if (!td_strv_has(&want, names->v[n]))
				td_strv_add(&want, names->v[n]);
		r = in ? grant(k, set, names, err) : 0;
		if (!r && want.n != have.n)
			r = write_hosts(k, set, &want, err);
	}
	return r;
}

int td_host_admit(struct td_kube *k, const char *ns, const char *set, const struct td_strv *names, struct td_error *err)
{
	return change(k, ns, set, names, true, err);
}

int td_host_dismiss(struct td_kube *k, const char *ns, const char *set, const struct td_strv *names,
		    struct td_error *err)
{
	return change(k, ns, set, names, false, err);
}

int td_host_forget(struct td_kube *k, const char *ns, const char *name, const struct td_strv *names, size_t *ret_left,
		   struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *set = NULL;
	int r = set_of(k, ns, name, &set, err);
	if (r)
		return r;
	size_t left = 0;
	for (size_t i = 0; i < names->n && !r; i++) {
		if (!td_host_gone(set->root, names->v[i])) {
			left++;
			continue;
		}
		// The machine has to read yet that it is out, and keeps its slurmd and the key while it cannot. It looks when
		// it likes (--every), so that right goes when this is said once more.
		td_auto_free char *key = td_asprintf("%s-key-%s", name, names->v[i]),
				  *look = td_asprintf("%s-host-%s", name, names->v[i]);
		const struct td_kube_delete_opts opts = {.grace_s = -1};
		r = td_kube_delete(k, &td_rolebindings, ns, key, &opts, NULL, err);
		if (r == TD_NOT_FOUND)
			r = td_kube_delete(k, &td_rolebindings, ns, look, &opts, NULL, err);
		r = r == TD_NOT_FOUND ? 0 : r;
		if (!r)
			r = td_host_node_drop(k, name, names->v[i], err);
	}
	*ret_left = left;
	return r;
}

int td_host_login_admit(struct td_kube *k, const char *ns, const char *cluster, const struct td_strv *names,
			struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto_free char *role = td_asprintf("%s-login-host", cluster);
	int r = td_kube_get(k, &td_slurmclusters, ns, cluster, NULL, &o, err);
	if (r)
		return r == TD_NOT_FOUND
			       ? td_fail(err, r, "there is no SlurmCluster \"%s\" in namespace \"%s\"", cluster, ns)
			       : r;
	const struct td_json_word its[] = {{"namespace", ns, 0}, {"cluster", cluster, 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_cli_template("login-role.yaml", its, TD_LEN(its));
	r = make(k, &td_roles_gvr, d, &td_slurmclusters, o, err);
	for (size_t i = 0; i < names->n && !r; i++) {
		const struct td_json_word words[] = {{"role", role, 0}, {"namespace", ns, 0}, {"node", names->v[i], 0}};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *b =
			td_cli_template("host-binding.yaml", words, TD_LEN(words));
		r = make(k, &td_rolebindings, b, &td_slurmclusters, o, err);
	}
	return r;
}

int td_host_login_dismiss(struct td_kube *k, const char *ns, const char *cluster, const struct td_strv *names,
			  struct td_error *err)
{
	const char *none = NULL;
	td_auto_free char *role = td_asprintf("%s-login-host", cluster);
	for (size_t i = 0; i < names->n; i++) {
		td_auto_free char *name = td_asprintf("%s-%s", role, names->v[i]);
		td_auto(td_object_unref) struct td_object *o = NULL;
		int r = td_kube_get(k, &td_rolebindings, ns, name, NULL, &o, err);
		// That of a machine of a NodeSet may have the same name (NODESET-host-NODE), and belongs to the NodeSet.
		if (!r && !td_jfind(td_jget(o->root, "metadata.ownerReferences"), "kind", td_slurmclusters.kind))
			r = TD_NOT_FOUND;
		const struct td_kube_delete_opts opts = {.grace_s = -1, .uid = o ? o->uid : NULL};
		if (!r)
			r = td_kube_delete(k, &td_rolebindings, ns, name, &opts, NULL, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		if (r)
			none = names->v[i];
	}
	return none ? td_fail(err, TD_NOT_FOUND, "\"%s\" is no login machine of SlurmCluster %s/%s", none, ns, cluster)
		    : 0;
}
