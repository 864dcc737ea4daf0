// NodeUpgrade of Slurm (docs/upgrade.md): the SlurmCluster's spec.slurm is what steers it. When it begins, image becomes
// the new one and slurmdImage the one that slurmds have, in one write, so that the daemons go first and no slurmd
// follows by itself. Each node's act then lets its slurmd have image. In the end slurmdImage goes.
#include "operator/upgrade.h"

#include "api/condition.h"
#include "base/log.h"

#include <string.h>

#define IMAGE "spec.slurm.image"
#define SLURMD "spec.slurm.slurmdImage"

bool td_op_upgrade_of_slurm(const struct td_object *o)
{
	return td_jstr(o->root, "spec.what.slurmImage");
}

const char *td_op_upgrade_slurm_image(const struct td_op_upgrade *x, bool back)
{
	return back ? td_jm_getstr(x->status, "slurm.imageBefore") : td_jstr(x->o->root, "spec.what.slurmImage");
}

static bool stage_is(const struct td_op_upgrade *x, const char *stage)
{
	return td_streq(td_jm_getstr(x->status, "slurm.stage"), stage);
}

// NULL: it is gone. The caller unrefs it.
static struct td_object *cluster_of(const struct td_op_upgrade *x)
{
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(td_jm_getstr(x->status, "slurm.cluster"), &ns, &name);
	return td_informer_get(x->op->clusters, ns, name);
}

// ---- its beginning ----

// The SlurmCluster that the spec names, or the only one. NULL: *ret_problem. The caller unrefs it.
static struct td_object *choose(struct td_op_upgrade *x, char **ret_problem)
{
	const char *ns = td_jstr(x->o->root, "spec.what.slurmCluster.namespace"),
		   *name = td_jstr(x->o->root, "spec.what.slurmCluster.name");
	if (name) {
		struct td_object *sc = td_informer_get(x->op->clusters, ns, name);
		if (!sc)
			*ret_problem =
				td_asprintf("spec.what.slurmCluster: there is no SlurmCluster %s/%s: `kubectl get "
					    "slurmclusters -A` lists them",
					    ns, name);
		return sc;
	}
	td_auto_objects struct td_objects all = {0};
	td_informer_list(x->op->clusters, NULL, &all);
	if (all.n == 1)
		return td_object_ref(all.v[0]);
	*ret_problem =
		td_asprintf("spec.what.slurmCluster: there %s %zu SlurmClusters: name the one whose Slurm this is",
			    all.n ? "are" : "is none:", all.n);
	return NULL;
}

// Another one that is not over and is about the same SlurmCluster. NULL: there is none. The caller unrefs it.
static struct td_object *rival(struct td_op_upgrade *x, const char *cluster)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(x->op->upgrades, NULL, &all);
	for (size_t i = 0; i < all.n; i++)
		if (!td_streq(all.v[i]->uid, x->o->uid) && !td_jstr(all.v[i]->root, "status.finishedAt") &&
		    td_streq(td_jstr(all.v[i]->root, "status.slurm.cluster"), cluster))
			return td_object_ref(all.v[i]);
	return NULL;
}

char *td_op_upgrade_slurm_begin(struct td_op_upgrade *x)
{
	char *problem = NULL;
	yyjson_val *what = td_jget(x->o->root, "spec.what");
	if (td_jstr(what, "program") || td_jbool(what, "reboot", false))
		return td_strdup(
			"spec.what: slurmImage goes alone: make another NodeUpgrade for the program or the reboot");
	td_auto(td_object_unref) struct td_object *sc = choose(x, &problem);
	if (!sc)
		return problem;
	td_auto_free char *key = td_asprintf("%s/%s", sc->ns, sc->name);
	td_auto(td_object_unref) struct td_object *other = rival(x, key);
	if (other)
		return td_asprintf(
			"NodeUpgrade %s upgrades Slurm of SlurmCluster %s: wait until it has ended, or abort it",
			other->name, key);
	yyjson_val *valid = td_jfind(td_jget(sc->root, "status.conditions"), "type", "ConfigValid");
	if (!td_streq(td_jstr(valid, "status"), "True") || !td_condition_true(sc->root, "ControllerReady"))
		return td_asprintf(
			"SlurmCluster %s is not in order, so nothing is begun: %.400s", key,
			td_streq(td_jstr(valid, "status"), "True")
				? "slurmctld does not answer"
				: td_jstr_or(valid, "message", "its configuration is not known to be valid"));
	const char *image = td_jstr_or(sc->root, IMAGE, TD_OP_SLURM_IMAGE), *slurmd = td_jstr(sc->root, SLURMD),
		   *to = td_op_upgrade_slurm_image(x, false);
	if (slurmd ? td_streq(slurmd, to) : td_streq(image, to))
		return td_asprintf("spec.what.slurmImage: slurmds of SlurmCluster %s have %s already", key, to);
	if (slurmd && !td_streq(image, to))
		return td_asprintf("SlurmCluster %s has two images, " IMAGE
				   " %s and slurmdImage %s: bring all nodes to the "
				   "first one by another NodeUpgrade, or take slurmdImage away",
				   key, image, slurmd);
	td_jm_str(x->d, x->status, "slurm.cluster", key);
	td_jm_str(x->d, x->status, "slurm.stage", "Begun");
	td_jm_str(x->d, x->status, "slurm.imageBefore", slurmd ? slurmd : image);
	td_jm_str(x->d, x->status, "slurm.slurmdImageBefore", slurmd);
	td_jm_str(x->d, x->status, "slurm.versionBefore", td_jstr_or(sc->root, "status.slurmVersion", ""));
	return NULL;
}

bool td_op_upgrade_slurm_has(struct td_op_upgrade *x, const struct td_object *node, char **ret_problem)
{
	td_auto(td_object_unref) struct td_object *set = NULL, *sc = td_op_slurmd_cluster(x->op, node, &set);
	td_auto_free char *key = sc ? td_asprintf("%s/%s", sc->ns, sc->name) : NULL;
	struct td_error err = TD_ERROR_INIT;
	*ret_problem = NULL;
	if (!td_streq(key, td_jm_getstr(x->status, "slurm.cluster")))
		return false;
	if (td_op_slurmd_check(x->op, node, NULL, &err))
		*ret_problem = td_strdup(err.msg);
	return true;
}

// ---- the daemons ----

// True when everything of the cluster but slurmds runs as its newest template says, and none of that names the old
// image.
static bool rolled(struct td_op *op, const struct td_object *sc, const char *old)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->statefulsets, sc->ns, &l);
	td_informer_list(op->deployments, sc->ns, &l);
	bool all = true;
	for (size_t i = 0; i < l.n; i++) {
		const yyjson_val *o = l.v[i]->root;
		if (!td_streq(td_jstr(td_object_owner(l.v[i]), "uid"), sc->uid))
			continue;
		long long want = td_jint(o, "spec.replicas", 1);
		all &= td_jint(o, "status.observedGeneration", 0) >= td_jint(o, "metadata.generation", 1) &&
		       td_jint(o, "status.updatedReplicas", 0) >= want && td_jint(o, "status.readyReplicas", 0) >= want;
		yyjson_val *c;
		size_t k, n;
		yyjson_arr_foreach (td_jget(o, "spec.template.spec.containers"), k, n, c)
			all &= !td_streq(td_jstr(c, "image"), old);
	}
	return all;
}

// Of the SlurmCluster, as its spec was written last; -1: it is to be written, and it is not known whether it was.
static long long generation(const struct td_op_upgrade *x)
{
	yyjson_mut_val *g = td_jm_get(x->status, "slurm.generation");
	return g ? yyjson_mut_get_sint(g) : -1;
}

static bool images_are(const struct td_object *sc, const char *image, const char *slurmd)
{
	return td_streq(td_jstr_or(sc->root, IMAGE, TD_OP_SLURM_IMAGE), image) &&
	       td_streq(td_jstr(sc->root, SLURMD), slurmd);
}

// Has every node the image that is still there?
static bool all_have(struct td_op_upgrade *x)
{
	yyjson_mut_val *e;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(x->status, "nodes"), i, n, e) {
		enum td_upgrade_node is = td_pool_upgrade_node_parse(td_jm_getstr(e, "phase"));
		td_auto(td_object_unref) struct td_object *node =
			is == TD_UPGRADE_PENDING ? td_informer_get(x->op->nodes, NULL, td_jm_getstr(e, "name")) : NULL;
		if (is != TD_UPGRADE_UPGRADED && (is != TD_UPGRADE_PENDING || node))
			return false;
	}
	return true;
}

// How far the daemons of sc are with `image`, while slurmds are to have `slurmd`.
static enum td_daemons_are are(struct td_op_upgrade *x, const struct td_object *sc, const char *image,
			       const char *slurmd)
{
	long long asked = generation(x);
	struct td_pool_daemons_facts f = {.there = sc && !td_object_deleting(sc), .asked = asked >= 0};
	if (f.there) {
		long long gen = td_jint(sc->root, "metadata.generation", 0);
		td_auto(td_json_unref) struct td_json *now = td_op_in_force(x->op, (struct td_object *)sc);
		const yyjson_val *valid = td_jfind(td_jget(sc->root, "status.conditions"), "type", "ConfigValid");
		const char *back = td_op_upgrade_slurm_image(x, true), *to = td_op_upgrade_slurm_image(x, false),
			   *before = td_jm_getstr(x->status, "slurm.slurmdImageBefore");
		f.seen = gen >= asked;
		f.wanted = images_are(sc, image, slurmd);
		f.as_was = f.wanted || images_are(sc, before ? to : back, before) || stage_is(x, "Back");
		f.ended = stage_is(x, "Nodes") && images_are(sc, to, NULL) && all_have(x);
		f.observed = td_jint(sc->root, "status.observedGeneration", 0) >= gen;
		f.invalid = td_streq(td_jstr(valid, "status"), "False");
		f.in_force = td_streq(td_jstr(td_json_root(now), IMAGE), image);
		f.rolled = f.in_force && rolled(x->op, sc, td_streq(image, to) ? back : to);
		f.answers = td_condition_true(sc->root, "ControllerReady");
	}
	return td_pool_upgrade_daemons(&f);
}

// Writes the two images, and the generation that this made.
static int write(struct td_op_upgrade *x, const struct td_object *sc, const char *image, const char *slurmd,
		 struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *s = td_jm_obj(d, root, "spec.slurm");
	td_jm_str(d, root, "metadata.uid", sc->uid);
	td_jm_str(d, root, "metadata.resourceVersion", sc->rv);
	td_jm_str(d, s, "image", image);
	td_jm_key_set(d, s, "slurmdImage", slurmd ? yyjson_mut_strcpy(d, slurmd) : yyjson_mut_null(d));
	td_auto(td_object_unref) struct td_object *got = NULL;
	int r = td_kube_patch(x->op->k, TD_AT(&td_slurmclusters, sc->ns, sc->name), TD_PATCH_MERGE, root, x->c, &got,
			      err);
	if (r)
		return td_wrap(err, "writing spec.slurm of SlurmCluster %s/%s", sc->ns, sc->name);
	td_info("upgrade %s: SlurmCluster %s/%s: image %s, slurmds %s", x->o->name, sc->ns, sc->name, image,
		slurmd ? slurmd : "the same");
	td_jm_int(x->d, x->status, "slurm.generation", td_jint(got->root, "metadata.generation", 0));
	return 0;
}

// Nodes that an earlier upgrade gave this image would have it again at once. Returns 1 where there was one: they are
// asked for it when it is known that none says so any more.
static int forget(struct td_op_upgrade *x, const struct td_object *sc, struct td_error *err)
{
	td_auto_objects struct td_objects nodes = {0};
	int any = 0;
	if (td_jstr(sc->root, SLURMD)) // what they say counts
		return 0;
	td_informer_list(x->op->nodes, NULL, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		if (!td_streq(td_object_annotation(nodes.v[i], TD_ANN_SLURMD_IMAGE),
			      td_op_upgrade_slurm_image(x, false)))
			continue;
		struct td_op_node n = {.op = x->op, .name = nodes.v[i]->name, .node = nodes.v[i], .c = x->c};
		const char *const notes[][2] = {{TD_ANN_SLURMD_IMAGE, NULL}, {0}};
		int r = td_op_health_note(&n, notes, err);
		nodes.v[i] = n.node;
		if (r && r != TD_NOT_FOUND)
			return r;
		any = 1;
	}
	return any;
}

int td_op_upgrade_slurm_ask(struct td_op_upgrade *x, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = cluster_of(x);
	if (!sc)
		return 0; // the next look says so
	if (stage_is(x, "Daemons"))
		return generation(x) >= 0 ? 0
					  : write(x, sc, td_op_upgrade_slurm_image(x, false),
						  td_op_upgrade_slurm_image(x, true), err);
	int r = forget(x, sc, err);
	// It is written when the status says that it will be: whoever finds that goes on with it, and nothing ends before.
	if (!r)
		td_jm_str(x->d, x->status, "slurm.stage", "Daemons");
	return r < 0 ? r : 0;
}

enum td_upgrade_daemons td_op_upgrade_slurm_look(struct td_op_upgrade *x, char **ret_lost)
{
	td_auto(td_object_unref) struct td_object *sc = cluster_of(x);
	*ret_lost = NULL;
	if (stage_is(x, "Back") || stage_is(x, "Done")) // td_op_upgrade_slurm_end() goes on with it
		return TD_DAEMONS_NEW;
	switch (are(x, sc, td_op_upgrade_slurm_image(x, false), td_op_upgrade_slurm_image(x, true))) {
	case TD_DAEMONS_ASK:
		return stage_is(x, "Begun") ? TD_DAEMONS_OLD : TD_DAEMONS_MOVE;
	case TD_DAEMONS_WAIT:
		return stage_is(x, "Nodes") ? TD_DAEMONS_NEW : TD_DAEMONS_MOVE;
	case TD_DAEMONS_READY:
		td_jm_str(x->d, x->status, "slurm.stage", "Nodes");
		return TD_DAEMONS_NEW;
	case TD_DAEMONS_REFUSED:
		*ret_lost = td_asprintf(
			"%.600s", td_jstr_or(td_jfind(td_jget(sc->root, "status.conditions"), "type", "ConfigValid"),
					     "message", "the image is refused"));
		return TD_DAEMONS_MOVE;
	case TD_DAEMONS_CHANGED:
		*ret_lost = td_asprintf(
			"spec.slurm of SlurmCluster %s/%s was changed%s: image %s, slurmdImage %s", sc->ns, sc->name,
			stage_is(x, "Daemons") ? " by somebody else, or taken back because the image "
						 "was refused"
					       : " by somebody else",
			td_jstr_or(sc->root, IMAGE, TD_OP_SLURM_IMAGE), td_jstr_or(sc->root, SLURMD, "none"));
		return TD_DAEMONS_NEW;
	case TD_DAEMONS_GONE:
		break;
	}
	*ret_lost = td_asprintf("SlurmCluster %s is gone", td_jm_getstr(x->status, "slurm.cluster"));
	return TD_DAEMONS_NEW;
}

// ---- what stays ----

// True when it was about every node of the cluster, those that came meanwhile too.
static bool about_all(const struct td_op_upgrade *x)
{
	yyjson_val *s = td_jget(x->o->root, "spec.selector");
	return s && !yyjson_obj_size(s);
}

// How many nodes of the cluster still have the old image.
static size_t left(struct td_op_upgrade *x, const struct td_object *sc, const yyjson_val *in_force)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(x->op->pods, sc->ns, &pods);
	size_t n = 0;
	for (size_t i = 0; i < pods.n; i++) {
		const char *name = td_op_pod_node(pods.v[i]);
		if (!name || !td_streq(td_object_label(pods.v[i], TD_LABEL_NAME), "slurmd") ||
		    !td_streq(td_object_label(pods.v[i], TD_LABEL_CLUSTER), sc->name))
			continue;
		td_auto(td_object_unref) struct td_object *node = td_informer_get(x->op->nodes, NULL, name);
		n += node && !td_streq(td_op_slurmd_image(in_force, node->root), td_op_upgrade_slurm_image(x, false));
	}
	return n;
}

// All nodes that it was for have the new image.
static int finish(struct td_op_upgrade *x, const struct td_object *sc, char **ret_said, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *now = td_op_in_force(x->op, (struct td_object *)sc);
	size_t old = about_all(x) ? 0 : left(x, sc, td_json_root(now));
	const char *to = td_op_upgrade_slurm_image(x, false), *from = td_op_upgrade_slurm_image(x, true);
	if (old)
		*ret_said = td_asprintf("%zu other nodes of SlurmCluster %s/%s still have %s: upgrade them by another "
					"NodeUpgrade to the same image, or take " SLURMD " away",
					old, sc->ns, sc->name, from);
	else if (td_jstr(sc->root, SLURMD))
		return write(x, sc, to, NULL, err);
	return 0;
}

// The daemons go back where Slurm can. *ret_over: they are, or cannot.
static int go_back(struct td_op_upgrade *x, const struct td_object *sc, bool *ret_over, char **ret_said,
		   struct td_error *err)
{
	const char *from = td_op_upgrade_slurm_image(x, true),
		   *before = td_jm_getstr(x->status, "slurm.slurmdImageBefore"),
		   *was = td_jm_getstr(x->status, "slurm.versionBefore"),
		   *is = td_jstr(sc->root, "status.slurmVersion");
	int r = 0;
	if (before) { // the daemons had the new image before
		*ret_over = true;
		return 0;
	}
	if (stage_is(x, "Back") && images_are(sc, from, NULL)) { // that was written, and nobody knew it any more
		*ret_over = true;
		return 0;
	}
	if (!stage_is(x, "Back")) {
		if (!td_pool_upgrade_back(was, is)) {
			*ret_said = td_asprintf(
				"slurmctld and slurmdbd stay at %s, because Slurm has no way back from a newer "
				"release; slurmds have %s (" SLURMD ")",
				is ? is : "the new release", from);
			*ret_over = true;
			return 0;
		}
		td_jm_str(x->d, x->status, "slurm.stage", "Back"); // written when this is in the status
		td_jm_int(x->d, x->status, "slurm.generation", -1);
		return 0;
	}
	switch (are(x, sc, from, from)) {
	case TD_DAEMONS_READY:
		r = write(x, sc, from, NULL, err);
		break;
	case TD_DAEMONS_ASK: // slurmds keep what they have until it is in force
		return write(x, sc, from, from, err);
	case TD_DAEMONS_WAIT:
		return 0;
	case TD_DAEMONS_REFUSED:
		*ret_said = td_strdup("the image before is refused now: see condition ConfigValid of the SlurmCluster");
		break;
	case TD_DAEMONS_CHANGED:
	case TD_DAEMONS_GONE:
		*ret_said = td_strdup("somebody else has changed spec.slurm of the SlurmCluster meanwhile");
		break;
	}
	*ret_over = !r;
	return r;
}

int td_op_upgrade_slurm_end(struct td_op_upgrade *x, enum td_upgrade_phase phase, bool *ret_over, char **ret_said,
			    struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = cluster_of(x);
	const char *from = td_op_upgrade_slurm_image(x, true),
		   *before = td_jm_getstr(x->status, "slurm.slurmdImageBefore");
	int r = 0;
	*ret_over = true;
	if (!sc || stage_is(x, "Begun") || stage_is(x, "Done"))
		return 0;
	if (phase == TD_UPGRADE_SUCCEEDED) {
		r = finish(x, sc, ret_said, err);
	} else if (phase == TD_UPGRADE_BACK) {
		*ret_over = false;
		r = go_back(x, sc, ret_over, ret_said, err);
	} else if (stage_is(x, "Daemons") && td_streq(td_jstr(sc->root, IMAGE), td_op_upgrade_slurm_image(x, false)) &&
		   td_streq(td_jstr(sc->root, SLURMD), from)) {
		// It was refused, so nothing has it.
		r = write(x, sc, before ? td_jstr(sc->root, IMAGE) : from, before, err);
	}
	if (!r && *ret_over)
		td_jm_str(x->d, x->status, "slurm.stage", "Done");
	return r;
}
