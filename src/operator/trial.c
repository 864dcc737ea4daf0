// A new configuration is tried before it replaces the one that works: a pod as slurmctld's, with the
// same image, keys and place, runs programs/trial.sh with the new files. pool/cluster.h says what
// follows from how it ends.
//
// A trial has a print: a hash of what decides its outcome. Pod and ConfigMap have it in their name,
// and the ConfigMap that is in use has it in an annotation, so nothing is tried twice.
#include "operator/operator.h"

#include "api/condition.h"
#include "base/log.h"
#include "pool/cluster.h"
#include "slurm/scripts.h"

#include <string.h>

#define APP "slurmctld-trial"

// Files that decide nothing about slurmctld's start.
static bool counts(const char *file, bool site)
{
	if (site) // slurmctld loads this one
		return td_streq(file, TD_SLURM_SITE_LUA);

	static const char *const others[] = {"gres.conf",       "gate.sh",        "slurmctld.sh",  "accounts.sh",
					     "job_submit.lua",  "passwd",         "group",         "ssh_keys",
					     "containers.conf", "plugstack.conf", "topology.conf", "topology.sh"};
	for (size_t i = 0; i < TD_LEN(others); i++)
		if (td_streq(others[i], file))
			return false;
	return true;
}

static void keep_named(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *list, const char *name)
{
	yyjson_mut_val *x = td_op_named(spec, list, name), *copy = x ? yyjson_mut_val_mut_copy(d, x) : NULL;
	td_jm_del(spec, list);
	td_op_put(d, td_jm_arr(d, spec, list), NULL, copy);
}

static void empty_volume(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *name)
{
	yyjson_mut_val *list = td_jm_get(spec, "volumes"), *x;
	size_t i, n;
	yyjson_mut_arr_foreach (list, i, n, x)
		if (td_streq(td_jm_getstr(x, "name"), name)) {
			yyjson_mut_val *v = yyjson_mut_obj(d);
			td_jm_str(d, v, "name", name);
			td_jm_obj(d, v, "emptyDir");
			yyjson_mut_arr_replace(list, i, v);
			return;
		}
}

// Slurm's release in the cluster, while it works: a slurmctld cannot read the state of a newer one. Where none works a
// state of another release may have been brought back.
static const char *release_that_runs(const yyjson_val *sc)
{
	return td_condition_true(sc, "ControllerReady") ? td_jstr_or(sc, "status.slurmVersion", "") : "";
}

// Makes slurmctld's pod one that tries. name: of the pod and of its ConfigMap; "": for its print, which does not depend
// on what works now.
static yyjson_mut_doc *pod_of(const yyjson_val *sc, const yyjson_val *ctld, const char *name, const char *oldest)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("trial.yaml", {"name", name}, {"program", td_op_program("trial.sh")},
			       {"version", td_jstr_or(sc, "spec.slurm.version", "")},
			       {"runs", *name ? release_that_runs(sc) : ""}, {"oldest", *name ? oldest : ""});
	yyjson_mut_doc *d = td_jm_copy(td_jget(ctld, "spec.template"));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_get(root, "spec"),
		       *o = yyjson_mut_doc_get_root(over), *c, *v;
	size_t at, n;
	// It may stand beside a slurmctld.
	static const char *const not_it[] = {"initContainers", "hostNetwork", "hostPID",
					     "hostIPC",        "subdomain",   "affinity.podAntiAffinity"},
				 *const not_its[] = {"args",          "ports",
						     "resources",     "lifecycle",
						     "livenessProbe", "readinessProbe",
						     "startupProbe",  "terminationMessagePath"},
				 *const spec_of[] = {"restartPolicy", "terminationGracePeriodSeconds", "hostname"};
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Pod");
	td_jm_del(root, "metadata");
	td_op_put(d, root, "metadata", td_jm_get(o, "metadata"));

	for (size_t i = 0; i < TD_LEN(not_it); i++)
		td_jm_del(spec, not_it[i]);
	for (size_t i = 0; i < TD_LEN(spec_of); i++)
		td_op_put(d, spec, spec_of[i], td_jm_get(td_jm_get(o, "spec"), spec_of[i]));
	keep_named(d, spec, "containers", "slurmctld");
	c = td_jm_get(spec, "containers.[0]");
	for (size_t i = 0; i < TD_LEN(not_its); i++)
		td_jm_del(c, not_its[i]);
	td_op_put(d, c, "command", td_jm_get(o, "command"));
	td_op_put(d, c, "terminationMessagePath", td_jm_get(o, "said"));
	yyjson_mut_arr_foreach (td_jm_get(o, "env"), at, n, v)
		td_op_put(d, td_jm_arr(d, c, "env"), NULL, v);
	// SSSD's and munged's too: they are not there, and their files need not be yet.
	static const char *const empty[] = {"state", "tandem-bin", "sssd", "ldap-bind", "ldap-ca", "munge-key"};
	for (size_t i = 0; i < TD_LEN(empty); i++)
		empty_volume(d, spec, empty[i]);
	static const char *const files[] = {"config", "accounts", "site"};
	for (size_t i = 0; i < TD_LEN(files); i++)
		if ((v = td_op_named(spec, "volumes", files[i]))) {
			td_jm_del(v, "emptyDir");
			td_jm_str(d, v, "configMap.name", name);
		}
	return d;
}

static void complete(yyjson_mut_doc *d, const yyjson_val *sc)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, root, "metadata.labels");
	td_jm_str(d, root, "metadata.namespace", td_jstr(sc, "metadata.namespace"));
	td_jm_key_str(d, labels, TD_LABEL_NAME, APP);
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, td_jstr(sc, "metadata.name"));
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	td_op_own(d, root, sc, &td_slurmclusters);
}

char *td_op_trial_print(const yyjson_val *sc, const struct td_slurm_files *plain, const yyjson_val *ctld)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = pod_of(sc, ctld, "", "");
	td_auto_buf struct td_buf b = {0};
	td_auto_free char *pod = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
	td_buf_puts(&b, pod);
	for (size_t i = 0; i < plain->n; i++)
		if (counts(plain->v[i].name, plain->v[i].site))
			td_buf_printf(&b, "\n%s\n%s", plain->v[i].name, plain->v[i].text);
	return td_op_hash(td_buf_str(&b), b.len);
}

void td_op_trial_objects(const yyjson_val *sc, const struct td_slurm_files *files, const yyjson_val *ctld,
			 const char *name, const char *oldest, struct td_op_wants *ret)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *cm = td_op_template("config.yaml", {"cluster", ""}),
						    *pod = pod_of(sc, ctld, name, oldest);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(cm), *data = td_jm_obj(cm, root, "data");
	td_jm_str(cm, root, "metadata.name", name);
	for (size_t i = 0; i < files->n; i++)
		td_jm_key_str(cm, data, files->v[i].name, files->v[i].text);
	complete(cm, sc);
	complete(pod, sc);
	td_op_wants_add(ret, (struct td_op_want){.gvr = &td_configmaps, .obj = td_json_from_mut(root)});
	td_op_wants_add(ret,
			(struct td_op_want){.gvr = &td_pods, .obj = td_json_from_mut(yyjson_mut_doc_get_root(pod))});
}

static void facts_of(const struct td_object *pod, struct td_pool_trial_facts *f)
{
	yyjson_val *end = td_jget(pod->root, "status.containerStatuses.[0].state.terminated");
	const char *phase = td_jstr_or(pod->root, "status.phase", "");
	int64_t at = 0;
	bool image;
	f->pod = true;
	f->deleting = td_object_deleting(pod);
	f->stuck = td_op_stuck(pod, &image);
	f->ended = end || td_streq(phase, "Failed") || td_streq(phase, "Succeeded");
	f->code = (int)td_jint(end, "exitCode", -1);
	if (td_time_parse(td_jstr_or(end, "finishedAt", td_jstr_or(pod->root, "metadata.creationTimestamp", "")), &at))
		at = 0;
	f->ended_ms = td_real_ms(&td_clock_system) - at;
}

static char *stuck_text(const yyjson_val *sc, const struct td_object *pod)
{
	bool image;
	const char *why = td_op_stuck(pod, &image), *name = td_jstr_or(pod->root, "spec.containers.[0].image", "?");
	if (image)
		return td_asprintf(
			"spec.slurm.image: \"%s\" cannot be had: %s; correct it, or bring the image to where "
			"nodes get theirs. What runs goes on with the image that it has",
			name, why);
	return td_asprintf("spec: pod %s, which tries this configuration, does not start: %s", pod->name, why);
}

static char *refused_text(const yyjson_val *sc, const struct td_object *pod, int code)
{
	yyjson_val *end = td_jget(pod->root, "status.containerStatuses.[0].state.terminated");
	const char *said = td_jstr_or(end, "message", ""), *reason = td_jstr_or(end, "reason", ""),
		   *image = td_jstr_or(pod->root, "spec.containers.[0].image", "?");
	td_auto_free char *why = NULL;
	if (code == TD_TRIAL_OTHER_RELEASE)
		why = td_asprintf("spec.slurm.version: the image \"%s\" has %.60s, and %s is asked for; correct one of "
				  "them",
				  image, said, td_jstr_or(sc, "spec.slurm.version", "?"));
	else if (code == TD_TRIAL_OLDER)
		why = td_asprintf(
			"spec.slurm.image: the image \"%s\" has %.60s, and %s works here: Slurm does not read the "
			"state and the database of a newer release; name an image of that release or a newer one, from "
			"24.11 on",
			image, said, *release_that_runs(sc) ? release_that_runs(sc) : "none");
	else if (code == TD_TRIAL_TOO_NEW)
		why = td_asprintf("spec.slurm.image: the image \"%s\" has a release too far from one that works here "
				  "(%.80s): Slurm goes on from the three releases before its own; go to one of those "
				  "first, with slurmctld and all slurmds",
				  image, said);
	else if (code == TD_TRIAL_FAILS)
		why = td_slurm_refusal(sc, said);
	else if (code == TD_TRIAL_TIMEOUT)
		why = td_asprintf(
			"spec.config: slurmctld did not come up with it within 10 s (it is tried again): %.300s",
			*said ? said : "it said nothing");
	else
		why = td_asprintf("spec.slurm.image: slurmctld of \"%s\" could not be tried (%s %d): %.300s", image,
				  reason, code, said);
	return td_asprintf("%s. What runs goes on as it was; the whole log: kubectl -n %s logs %s", why, pod->ns,
			   pod->name);
}

static int remove_others(struct td_op *op, struct td_object *sc, const char *keep, struct td_cancel *c,
			 struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(op->pods, sc->ns, &all);
	size_t n_pods = all.n;
	td_informer_list(op->configmaps, sc->ns, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct td_object *o = all.v[i];
		if (!td_streq(td_object_label(o, TD_LABEL_NAME), APP) || td_object_deleting(o) ||
		    !td_streq(td_jstr(td_object_owner(o), "uid"), sc->uid) || td_streq(o->name, keep))
			continue;
		const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = 0, .propagation = "Background"};
		int r = td_kube_delete(op->k, i < n_pods ? &td_pods : &td_configmaps, o->ns, o->name, &del, c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
	}
	return 0;
}

static int start(struct td_op *op, const struct td_op_wants *w, struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < w->n; i++) {
		yyjson_val *o = td_json_root(w->v[i].obj);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o);
		int r = td_kube_create(op->k, w->v[i].gvr, td_jstr(o, "metadata.namespace"), yyjson_mut_doc_get_root(d),
				       c, NULL, err);
		if (r && r != TD_EXISTS) // our cache is a moment behind
			return td_wrap(err, "creating %s %s", w->v[i].gvr->kind, td_jstr(o, "metadata.name"));
	}
	return 0;
}

// "24.11", of the slurmds that work; "": there is none.
static void oldest_slurmd(const struct td_slurm_nodes *l, char ret[16])
{
	int old = 0;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].release && !(l->v[i].states & TD_NODE_BAD) && (!old || l->v[i].release < old))
			old = l->v[i].release;
	ret[0] = '\0';
	if (old)
		snprintf(ret, 16, "%d.%02d", old / 100, old % 100);
}

int td_op_trial(struct td_op *op, struct td_object *sc, const struct td_op_try *t, struct td_op_view *v,
		struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *in_use = td_asprintf("%s-config", sc->name),
			  *name = td_asprintf("%s-trial-%s", sc->name, t->print);
	td_auto(td_object_unref) struct td_object *cm = td_informer_get(op->configmaps, sc->ns, in_use),
						  *pod = td_informer_get(op->pods, sc->ns, name);
	struct td_pool_trial_facts f = {.tried = cm && td_streq(td_object_annotation(cm, TD_ANN_TRIED), t->print)};
	if (pod)
		facts_of(pod, &f);
	enum td_pool_trial what = td_pool_trial_decide(&f);
	bool keep = !f.tried && what != TD_TRIAL_AGAIN;
	int r = remove_others(op, sc, keep ? name : NULL, c, err);
	if (r)
		return r;

	td_auto_wants struct td_op_wants w = {0};
	char oldest[16];
	switch (what) {
	case TD_TRIAL_PASSED:
		return 0;
	case TD_TRIAL_STUCK:
		v->problem = stuck_text(sc->root, pod);
		return 0;
	case TD_TRIAL_REFUSED:
		v->problem = refused_text(sc->root, pod, f.code);
		return 0;
	case TD_TRIAL_START:
		td_info("SlurmCluster %s: pod %s tries its configuration", v->key, name);
		oldest_slurmd(&v->nodes, oldest);
		td_op_trial_objects(sc->root, t->files, t->ctld, name, oldest, &w);
		r = start(op, &w, c, err);
		break;
	case TD_TRIAL_WAIT:
	case TD_TRIAL_AGAIN:
		break;
	}
	if (r == TD_INVALID) { // a quota, or an admission policy
		v->problem = td_strdup(err->msg);
		return 0;
	}
	v->trying = r ? NULL : td_asprintf("pod %s tries it with slurmctld of its image", name);
	return r;
}
