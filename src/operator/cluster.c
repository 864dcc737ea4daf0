// SlurmCluster: configuration, objects, status.
#include "operator/nodeset.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "kube/slices.h"
#include "pool/cluster.h"
#include "slurm/accounting.h"
#include "slurm/fabric.h"
#include "slurm/hostlist.h"
#include "slurm/hosts.h"
#include "slurm/nics.h"
#include "slurm/preempt.h"
#include "slurm/tocome.h"

#include <string.h>

// ---- what the configuration needs to know of nodes ----
// What the nodes of the cluster contribute to its configuration.
struct facts {
	struct td_op_kinds kinds;
	size_t n_nodes;
	long long mem_per_cpu;
	struct td_strv sets;
	bool shares;
	struct td_strv cuts, cuts_seen; // parts that GPUs are cut in on demand; the annotations that say so
	struct td_op_places places;
	struct td_strv placed; // the nodes that are there, sorted
	struct td_slurm_fabric_table fabric;
	struct td_strv planes;  // what is wrong with nodes' planes
	struct td_strv to_come; // lines of machines that may be made
	struct td_strv types;   // of their GPUs
	size_t may_come;
};

static void facts_done(struct facts *f)
{
	td_op_kinds_done(&f->kinds);
	td_strv_done(&f->sets);
	td_strv_done(&f->cuts);
	td_strv_done(&f->cuts_seen);
	td_op_places_done(&f->places);
	td_strv_done(&f->placed);
	td_slurm_fabric_done(&f->fabric);
	td_strv_done(&f->planes);
	td_strv_done(&f->to_come);
	td_strv_done(&f->types);
}

static void note_memory(struct facts *f, long long cpus, long long memory_mb)
{
	long long per = memory_mb / cpus;
	per -= per > 64 ? per % 64 : 0; // coarse: a little less memory changes nothing
	if (!f->mem_per_cpu || per < f->mem_per_cpu)
		f->mem_per_cpu = per > 0 ? per : 1;
}

// told: td_op_told_read() of it.
static void add_node(struct facts *f, const yyjson_val *sc, const struct td_object *node, const struct td_json *told,
		     const struct td_op_share *s)
{
	struct td_op_vendor vendor = {0};
	td_op_vendor_of(sc, node->root, &(struct td_op_found){.n = s->gpus, .told = told}, &vendor);
	td_op_nics_find(sc, node->root, s, &vendor.nics);
	bool fake = td_streq(td_object_label(node, TD_LABEL_FAKE_GPUS), "true");
	td_op_kinds_add(&f->kinds, node->name, &(struct td_op_of){s, &vendor, fake, td_op_other_node(node->root)});
	f->n_nodes++;
	note_memory(f, s->cpus, s->memory_mb);
}

static bool is_of(const struct td_object *p, const char *app, const char *cluster)
{
	return td_streq(td_object_label(p, TD_LABEL_NAME), app) &&
	       td_streq(td_object_label(p, TD_LABEL_CLUSTER), cluster);
}

static int by_name(const void *a, const void *b)
{
	return td_op_name_cmp(*(char *const *)a, *(char *const *)b);
}

// True when a slurmd of the cluster runs on the node; *ret: the node's share. A node whose NodeSet
// is wrong for the moment (a slip in clusterName or gres) keeps its slurmd, so the configuration
// keeps the node too.
static bool runs_here(struct td_op *op, struct td_object *sc, const struct td_object *node, struct td_op_share *ret)
{
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(op->pods, "node", node->name, &pods);
	for (size_t i = 0; share && i < pods.n; i++)
		if (td_streq(pods.v[i]->ns, sc->ns) && is_of(pods.v[i], "slurmd", sc->name) &&
		    !td_object_deleting(pods.v[i]))
			return td_op_share_parse(share, td_op_node_resource(sc->root, node->root), ret);
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// The machines of a NodeSet: those that it names, and those that Slurm still has for it, whose jobs may go on after they
// were taken out. That holds, too, for what a spec that cannot be read named before.
static void hosts_of(const struct td_op_view *v, const struct td_object *set, struct td_strv *ret)
{
	td_slurm_hosts(set->root, ret, NULL); // what is wrong there the NodeSet's status says
	td_auto_free char *mark = td_slurm_set_feature(set->name);
	for (size_t i = 0; i < v->nodes.n; i++)
		if (td_op_has_mark(&v->nodes.v[i], mark))
			td_strv_add(ret, v->nodes.v[i].name);
}

// Machines that run their own slurmd have the GPUs that the NodeSet says, and files of their own for them. One that a
// slurmd pod runs on, or that another NodeSet names too, is there already.
static void add_hosts(struct td_op *op, struct facts *f, const yyjson_val *sc, const struct td_op_view *v,
		      const struct td_object *set)
{
	td_auto_strv struct td_strv names = {0};
	struct td_op_found has = {0};
	const char *gres = td_jstr_or(set->root, "spec.slurm.gres", "auto");
	if (!td_slurm_host_set(set->root) || (td_starts(gres, "gpu:") && td_op_gres_read(gres, &has, NULL)))
		return;
	hosts_of(v, set, &names);
	struct td_op_share s = {.gpus = has.n};
	struct td_op_vendor vendor = {0};
	memcpy(s.types, has.types, sizeof(s.types));
	td_op_vendor_of(sc, NULL, &(struct td_op_found){.n = s.gpus}, &vendor);
	if (names.n)
		qsort(names.v, names.n, sizeof(char *), by_text);
	const size_t n_placed = f->placed.n;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		if ((i && td_streq(name, names.v[i - 1])) ||
		    (n_placed && bsearch(&name, f->placed.v, n_placed, sizeof(char *), by_text)))
			continue;
		td_op_kinds_add(&f->kinds, name, &(struct td_op_of){&s, &vendor, false, false});
		// Slurm runs nothing on a node that its topology does not name. Its Kubernetes node may say where it is.
		td_auto(td_object_unref) struct td_object *node = td_informer_get(op->nodes, NULL, name);
		td_op_places_add(&f->places, sc, name, node ? node->root : NULL);
		td_strv_add(&f->placed, name);
	}
	if (f->placed.n)
		qsort(f->placed.v, f->placed.n, sizeof(char *), by_text);
}

// Machines that may be made, by what their NodeSets say of them: so that there is a slurm.conf for who comes first.
static void add_to_come(struct facts *f, const struct td_objects *sets)
{
	for (size_t i = 0; i < sets->n; i++) {
		const yyjson_val *set = sets->v[i]->root;
		td_auto_strv struct td_strv wrong = {0};
		td_op_autoscale_check(set, &wrong);
		td_auto_free char *line = wrong.n || td_object_deleting(sets->v[i]) ? NULL : td_slurm_to_come_line(set);
		long long cpus, memory_mb;
		if (!line || !td_slurm_to_come_size(set, &cpus, &memory_mb))
			continue;
		td_strv_add(&f->to_come, line);
		td_slurm_to_come_types(set, &f->types);
		f->may_come += td_slurm_to_come(set);
		note_memory(f, cpus, memory_mb);
	}
}

static void gather(struct td_op *op, struct td_object *sc, const struct td_op_view *v, struct td_objects *sets,
		   struct facts *f)
{
	for (size_t i = 0; i < sets->n; i++) {
		td_strv_add(&f->sets, sets->v[i]->name);
		f->shares |= td_op_shares_wanted(sets->v[i]->root);
	}
	if (f->sets.n)
		qsort(f->sets.v, f->sets.n, sizeof(char *), by_name);
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(op->nodes, NULL, &nodes);
	td_op_sort(&nodes); // caches have no order, but the configuration needs one
	for (size_t i = 0; i < nodes.n; i++) {
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(op, nodes.v[i]);
		struct td_op_share s;
		struct td_op_found gpus;
		bool ours = owner && !td_slurm_host_set(owner->root) && td_op_selects(owner, nodes.v[i]) &&
			    td_streq(owner->ns, sc->ns) && td_streq(td_jstr(owner->root, "spec.clusterName"), sc->name);
		bool known = ours && td_op_gpus(op, sc->root, nodes.v[i], &gpus, NULL);
		td_auto(td_json_unref) struct td_json *told = NULL;
		if (known) {
			told = td_op_told_read(nodes.v[i]->root);
			gpus.told = told;
			known = td_op_share_of(sc->root, owner->root, nodes.v[i]->root, &gpus, &s, NULL);
		}
		if (known || runs_here(op, sc, nodes.v[i], &s)) {
			told = told ? told : td_op_told_read(nodes.v[i]->root);
			add_node(f, sc->root, nodes.v[i], told, &s);
			td_op_places_add(&f->places, sc->root, nodes.v[i]->name, nodes.v[i]->root);
			td_strv_add(&f->placed, nodes.v[i]->name);
			td_op_cutting_kinds(owner, nodes.v[i], &f->cuts_seen, &f->cuts);
			td_slurm_fabric_add(&f->fabric, sc->root, nodes.v[i]->root);
			td_slurm_nics_problems(td_jget(sc->root, "spec.fabric"), nodes.v[i]->root, &f->planes);
		}
	}
	if (f->placed.n)
		qsort(f->placed.v, f->placed.n, sizeof(char *), by_text);
	if (f->cuts.n)
		qsort(f->cuts.v, f->cuts.n, sizeof(char *), by_text);
	for (size_t i = 0; i < sets->n; i++)
		add_hosts(op, f, sc->root, v, sets->v[i]);
	add_to_come(f, sets);
	td_op_kinds_lines(&f->kinds, sc->root);
}

// Checks rules of the SlurmCluster that the writer of the configuration does not know.
static void check(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.login"), i, n, x) {
		if (td_starts(td_jstr_or(x, "name", ""), "slurm") || td_streq(td_jstr(x, "name"), "config"))
			td_strv_addf(problems,
				     "spec.login[%zu].name: must not begin with \"slurm\" nor be \"config\": Tandem's "
				     "own objects have those names",
				     i);
		const char *group = td_jstr_or(x, "name", ""), *cluster = td_jstr_or(sc, "metadata.name", "");
		if (strlen(cluster) + 1 + strlen(group) > 52)
			td_strv_addf(
				problems,
				"spec.login[%zu].name: with the cluster's name %zu characters, 52 at most: Kubernetes "
				"adds its hash to the StatefulSet's name in a label; choose a shorter one",
				i, strlen(cluster) + 1 + strlen(group));
		yyjson_val *y;
		size_t k, m;
		// Each pod and each group has a Service of its own name.
		yyjson_arr_foreach (td_jget(sc, "spec.login"), k, m, y) {
			const char *other = td_jstr_or(y, "name", "");
			size_t len = strlen(other);
			long long at;
			if (td_starts(group, other) && group[len] == '-' && td_parse_i64(group + len + 1, &at) &&
			    at >= 0 && at < td_jint(y, "replicas", 1))
				td_strv_addf(problems,
					     "spec.login[%zu].name: \"%s\" is the name of a pod of the group \"%s\"", i,
					     group, other);
		}
	}

	static const char *const reserve[] = {"spec.reserve.cpu", "spec.reserve.memory"};
	for (i = 0; i < TD_LEN(reserve); i++) {
		const char *q = td_jstr(sc, reserve[i]);
		int64_t v;
		if (q && (td_quantity_milli(q, &v, NULL) || v < 0))
			td_strv_addf(problems, "%s: \"%.40s\" is not a quantity; write for example 1 or 2Gi",
				     reserve[i], q);
	}
}

// Two clusters of one name must not share a database: slurmdbd would take them for one.
static void check_database(struct td_op *op, const struct td_object *sc, struct td_strv *problems)
{
	yyjson_val *mine = td_jget(sc->root, "spec.accounting.database.external");
	if (!mine || !td_slurm_accounting(sc->root))
		return;
	td_auto_objects struct td_objects all = {0};
	td_informer_list(op->clusters, NULL, &all);
	for (size_t i = 0; i < all.n; i++) {
		yyjson_val *its = td_jget(all.v[i]->root, "spec.accounting.database.external");
		if (its && !td_streq(all.v[i]->uid, sc->uid) && td_streq(all.v[i]->name, sc->name) &&
		    td_slurm_accounting(all.v[i]->root) && td_streq(td_jstr(its, "host"), td_jstr(mine, "host")) &&
		    td_jint(its, "port", 3306) == td_jint(mine, "port", 3306) &&
		    td_streq(td_jstr(its, "name"), td_jstr(mine, "name")))
			td_strv_addf(problems,
				     "spec.accounting.database.external.name: SlurmCluster %s/%s has the same name and "
				     "uses this database: give one of them another database",
				     all.v[i]->ns, all.v[i]->name);
	}
}

static char *join(const struct td_strv *l)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < l->n && b.len < 4096; i++)
		td_buf_printf(&b, "%s%s", i ? "; " : "", l->v[i]);
	return td_buf_take(&b);
}

// True when the configuration must not be written yet (pool/cluster.h).
static bool too_early(struct td_op *op, struct td_object *sc, struct td_op_view *v, const struct facts *f,
		      const char *hash)
{
	int64_t now = td_mono_ms(&td_clock_system), real = td_real_ms(&td_clock_system);
	if (!v->first_seen)
		v->first_seen = now;
	td_auto_free char *name = td_asprintf("%s-config", sc->name);
	td_auto(td_object_unref) struct td_object *cm = td_informer_get(op->configmaps, sc->ns, name);
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	int64_t young = -1;
	for (size_t i = 0; i < pods.n; i++) {
		int64_t age = real - td_op_born(pods.v[i]);
		age = age < 0 ? 0 : age;
		if (is_of(pods.v[i], "slurmctld", sc->name) && !td_object_deleting(pods.v[i]) &&
		    (young < 0 || age < young))
			young = age;
	}

	const struct td_pool_config_facts facts = {.exists = cm,
						   .same = cm &&
							   td_streq(td_object_annotation(cm, TD_ANN_CONFIG), hash),
						   .nodes = f->n_nodes,
						   .seen_ms = now - v->first_seen,
						   .answered = v->known,
						   .ctld_ms = young};
	return td_pool_config_waits(&facts);
}

// Makes the keys, which the trial's pod mounts.
static int ensure_keys(struct td_op *op, const struct td_op_wants *w, struct td_op_view *v, struct td_cancel *c,
		       struct td_error *err)
{
	for (size_t i = 0; i < w->n; i++) {
		int r = w->v[i].once ? td_op_ensure(op, &w->v[i], c, err) : 0;
		if (r == TD_INVALID)
			v->problem = td_strdup(err->msg);
		if (r)
			return r == TD_INVALID ? 0 : r;
	}
	return 0;
}

struct trial {
	const struct td_slurm_facts *facts;
	const struct td_slurm_files *files;
	const struct td_op_wants *objects;
};
// Goes on with the trial of the configuration, unless it has passed one. *ret_print: its print.
static int try_it(struct td_op *op, struct td_object *sc, const struct trial *t, struct td_op_view *v, char **ret_print,
		  struct td_cancel *c, struct td_error *err)
{
	const struct td_slurm_facts plain = {.node_sets = t->facts->node_sets,
					     .n_node_sets = t->facts->n_node_sets,
					     .texts = t->facts->texts,
					     .n_texts = t->facts->n_texts};
	td_auto_slurm_files struct td_slurm_files files = {0};
	td_auto_strv struct td_strv none = {0};
	td_auto_free char *name = td_asprintf("%s-slurmctld", sc->name);
	const yyjson_val *ctld = NULL;
	for (size_t i = 0; i < t->objects->n; i++) {
		const yyjson_val *o = td_json_root(t->objects->v[i].obj);
		if (t->objects->v[i].gvr == &td_statefulsets && td_streq(td_jstr(o, "metadata.name"), name))
			ctld = o;
	}
	td_slurm_files_make(sc->root, &plain, &files, &none);
	*ret_print = td_op_trial_print(sc->root, &files, ctld);
	return td_op_trial(op, sc, &(struct td_op_try){*ret_print, t->files, ctld}, v, c, err);
}

// Notes at the ConfigMap what has passed.
static void note_passed(struct td_op_wants *w, struct td_object *sc, const char *print)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->v[i].gvr != &td_configmaps || !td_jget(td_json_root(w->v[i].obj), "metadata.annotations"))
			continue; // that of the site's programs is in force when it is written
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(w->v[i].obj));
		yyjson_mut_val *notes = td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations");
		td_jm_key_str(d, notes, TD_ANN_TRIED, print);
		td_jm_key_str(d, notes, TD_ANN_IMAGE, td_jstr_or(sc->root, "spec.slurm.image", TD_OP_SLURM_IMAGE));
		// What else slurmd pods are made from.
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *pods = td_jm_new();
		static const char *const parts[] = {"storage", "identity", "auth"};
		for (size_t k = 0; k < TD_LEN(parts); k++)
			td_jm_copyval(pods, yyjson_mut_doc_get_root(pods), parts[k],
				      td_jkey(td_jget(sc->root, "spec"), parts[k]));
		td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(pods), NULL);
		td_jm_key_str(d, notes, TD_ANN_NODE_SPEC, text);
		td_json_unref(w->v[i].obj);
		w->v[i].obj = td_json_from_mut(yyjson_mut_doc_get_root(d));
	}
}

struct td_json *td_op_in_force(struct td_op *op, struct td_object *sc)
{
	td_auto_free char *name = td_asprintf("%s-config", sc->name);
	td_auto(td_object_unref) struct td_object *cm = td_informer_get(op->configmaps, sc->ns, name);
	const char *image = cm ? td_object_annotation(cm, TD_ANN_IMAGE) : NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(sc->root);
	if (image)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "spec.slurm.image", image);
	const char *text = cm ? td_object_annotation(cm, TD_ANN_NODE_SPEC) : NULL;
	td_auto(td_json_unref) struct td_json *pods = NULL;
	static const char *const parts[] = {"spec.storage", "spec.identity", "spec.auth"};
	for (size_t k = 0; text && k < TD_LEN(parts); k++) {
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		if (!pods && td_json_parse(text, strlen(text), &pods, NULL))
			break;
		td_jm_del(root, parts[k]);
		td_jm_copyval(d, root, parts[k], td_jget(td_json_root(pods), parts[k] + strlen("spec.")));
	}
	return td_json_from_mut(yyjson_mut_doc_get_root(d));
}

// Machines that run slurmd themselves: they may be no Kubernetes nodes.
static size_t hosts(const struct td_objects *sets)
{
	size_t n = 0;
	for (size_t i = 0; i < sets->n; i++) {
		td_auto_strv struct td_strv l = {0};
		if (td_slurm_host_set(sets->v[i]->root))
			td_slurm_hosts(sets->v[i]->root, &l, NULL);
		n += l.n;
	}
	return n;
}

int td_op_cluster_sync(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_objects *sets,
		       struct td_cancel *c, struct td_error *err)
{
	__attribute__((cleanup(facts_done))) struct facts f = {0};
	gather(op, sc, v, sets, &f);
	free(v->planes);
	v->planes = td_op_planes_text(&f.planes);
	v->n_nodes = f.n_nodes;
	v->gpus = f.kinds.gpus;
	v->gpu_nodes = f.kinds.gpu_nodes;

	td_auto_free char *fabric = td_slurm_fabric_text(&f.fabric);
	struct td_slurm_facts facts = {.gres = f.kinds.lines,
				       .n_gres = f.kinds.n_lines,
				       .shares = f.shares,
				       .nics = td_slurm_nics_give(td_jget(sc->root, "spec.fabric")),
				       .fabric = fabric,
				       .places = f.places.v,
				       .n_places = f.places.n,
				       .n_nodes = f.n_nodes + hosts(sets),
				       .mem_per_cpu_mb = f.mem_per_cpu,
				       .to_come = (const char *const *)f.to_come.v,
				       .n_to_come = f.to_come.n,
				       .may_come = f.may_come,
				       .types_to_come = (const char *const *)f.types.v,
				       .n_types_to_come = f.types.n,
				       .node_sets = (const char *const *)f.sets.v,
				       .n_node_sets = f.sets.n,
				       .own_kubelet = !op->image};
	td_auto_strv struct td_strv problems = {0}, absent = {0}; // absent: of other objects that may come yet
	td_auto_slurm_files struct td_slurm_files files = {0};
	check(sc->root, &problems);
	td_op_references_check(sc->root, &problems);
	check_database(op, sc, &problems);
	td_op_identity_check(sc->root, &problems);
	td_op_storage_check(sc->root, &problems);
	td_op_storage_claims(op, sc, &absent);
	td_op_devices_check(sc->root, op->slices != NULL, &problems);
	td_op_devices_class(op, sc, c, &absent);
	td_auto_free char *config = td_asprintf("%s-config", sc->name);
	td_auto(td_object_unref) struct td_object *in_force = td_informer_get(op->configmaps, sc->ns, config);
	facts.room = td_slurm_conf_room(in_force ? td_jkey_str(td_jget(in_force->root, "data"), "slurm.conf") : NULL);
	td_op_keys_check(op, sc, &problems);
	td_op_auth_change(in_force ? in_force->root : NULL, sc->root, v, &problems);
	td_auto_texts struct td_op_texts texts = {0};
	int r = td_op_texts_gather(op, sc, &texts, &absent, c, err);
	if (r)
		return r;
	facts.texts = texts.v;
	facts.n_texts = texts.n;
	td_op_places_find(&f.places, sc->root, &facts, &problems);
	facts.place_levels = f.places.levels;
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	td_op_groups_gather(op, sc, arena, &facts);
	td_auto_strv struct td_strv demand = {0};
	td_op_on_demand_facts(sets, &demand, &facts.start_s);
	facts.on_demand = (const char *const *)demand.v;
	facts.n_on_demand = demand.n;
	td_auto_strv struct td_strv others = {0};
	for (size_t i = 0; i < sets->n; i++)
		if (td_api_other_cluster(sets->v[i]->root))
			td_strv_add(&others, sets->v[i]->name);
	facts.others = (const char *const *)others.v;
	facts.n_others = others.n;
	facts.cuts = (const char *const *)f.cuts.v;
	facts.n_cuts = f.cuts.n;
	bool ok = td_slurm_files_make(sc->root, &facts, &files, &problems) && problems.n == 0;
	v->absent = ok && absent.n;
	ok = ok && !absent.n;
	for (size_t i = 0; i < absent.n; i++)
		td_strv_add(&problems, absent.v[i]);
	free(v->problem);
	free(v->trying);
	free(v->config_hash);
	v->problem = ok ? NULL : join(&problems);
	free(v->restart_hash);
	v->trying = v->config_hash = v->restart_hash = NULL;
	if (!ok)
		return 0; // what runs stays as it is

	td_auto_wants struct td_op_wants w = {0};
	struct td_error why = TD_ERROR_INIT;
	if (td_op_cluster_objects(sc->root, &files, op->image, &w, &why)) {
		v->problem = td_strdup(why.msg);
		return 0;
	}
	td_auto_free char *print = NULL;
	r = ensure_keys(op, &w, v, c, err);
	if (!r && !v->problem)
		r = try_it(op, sc, &(struct trial){&facts, &files, &w}, v, &print, c, err);
	if (r || v->problem || v->trying)
		return r;
	v->config_hash = td_op_files_hash(&files);
	v->restart_hash = td_op_restart_hash(&files);
	if (too_early(op, sc, v, &f, v->config_hash))
		return 0;

	note_passed(&w, sc, print);
	for (size_t i = 0; i < w.n; i++) {
		r = td_op_ensure(op, &w.v[i], c, err);
		if (r == TD_INVALID) {
			// The server refused it, or it belongs to somebody else. The status says
			// so, and the other objects are still ensured.
			td_debug("%s", err->msg);
			// Only the adminAccess of our template can be forbidden.
			if (!v->problem && w.v[i].gvr == &td_resourceclaimtemplates &&
			    err->detail == TD_CAUSE_FORBIDDEN)
				v->problem = td_asprintf(
					"namespace %s lacks the label " TD_DRA_ADMIN_LABEL
					"=true, without which slurmd may not see the devices that it gives out; who "
					"may do so, allows it: kubectl label namespace %s " TD_DRA_ADMIN_LABEL "=true",
					sc->ns, sc->ns);
			if (!v->problem)
				v->problem = td_strdup(err->msg);
			continue;
		}
		if (r)
			return r;
	}

	// Delete login groups and pods that are no longer wanted (those of Tandem 0.1 were
	// Deployments), and claim templates of another class.
	td_auto_objects struct td_objects all = {0};
	td_informer_list(op->deployments, sc->ns, &all);
	size_t n_deployments = all.n;
	td_informer_list(op->services, sc->ns, &all);
	size_t n_services = all.n;
	td_informer_list(op->statefulsets, sc->ns, &all);
	size_t n_sets = all.n;
	if (op->templates)
		td_informer_list(op->templates, sc->ns, &all);

	for (size_t i = 0; i < all.n; i++) {
		const struct td_gvr *gvr = i < n_deployments ? &td_deployments
					   : i < n_services  ? &td_services
					   : i < n_sets      ? &td_statefulsets
							     : &td_resourceclaimtemplates;
		bool wanted =
			!td_streq(td_jstr(td_object_owner(all.v[i]), "uid"), sc->uid) || td_object_deleting(all.v[i]);
		for (size_t k = 0; k < w.n && !wanted; k++)
			wanted = w.v[k].gvr == gvr &&
				 td_streq(td_jstr(td_json_root(w.v[k].obj), "metadata.name"), all.v[i]->name);
		if (wanted)
			continue;
		td_info("SlurmCluster %s: %s %s is not wanted any more", v->key, gvr->kind, all.v[i]->name);
		const struct td_kube_delete_opts del = {
			.uid = all.v[i]->uid, .grace_s = -1, .propagation = "Background"};
		r = td_kube_delete(op->k, gvr, sc->ns, all.v[i]->name, &del, c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}

	return 0;
}

// ---- status ----
// Returns since when every slurmctld pod that runs knows of this configuration, in ms of real time; 0: not
// all do, or none runs. One of two that is gone reads it when it comes back.
static int64_t told_since(struct td_op *op, struct td_object *sc, const struct td_op_view *v)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	int64_t since = 0;
	for (size_t i = 0; i < pods.n; i++) {
		if (!is_of(pods.v[i], "slurmctld", sc->name) || !td_op_pod_ready(pods.v[i]))
			continue;
		if (!td_streq(td_object_annotation(pods.v[i], TD_ANN_CONFIG), v->config_hash) ||
		    !td_streq(td_object_annotation(pods.v[i], TD_ANN_RESTART), v->restart_hash))
			return 0;
		long long at = td_op_born(pods.v[i]);
		td_parse_i64(td_object_annotation(pods.v[i], TD_ANN_CONFIG_SINCE), &at);
		since = at > since ? at : since;
	}
	return since;
}

// Notes the revision in force, and the one before it.
static void now_active(struct td_op_view *v, const char *before, const char *now)
{
	char *b = td_strdup(before), *n = td_strdup(now); // they may be v's own
	free(v->before);
	free(v->active);
	v->before = b;
	v->active = n;
}

// An edit that is taken back before it came in force: slurmctld was told of it and may have read it. Then the one
// that was in force is so no longer, and has to come in force again. Returns whether this is so.
static bool taken_back(struct td_op *op, struct td_object *sc, struct td_op_view *v)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const char *told = td_object_annotation(pods.v[i], TD_ANN_CONFIG);
		if (!is_of(pods.v[i], "slurmctld", sc->name) || !told || td_streq(told, v->config_hash))
			continue;
		now_active(v, v->config_hash, told);
		return true;
	}
	return false;
}

// Tells slurmctld's pod of the configuration that is written. Any change of a pod makes its kubelet bring the
// files at once, instead of within a minute; slurmctld.sh then has slurmctld read them.
static int tell(struct td_op *op, struct td_object *sc, const struct td_op_view *v, struct td_cancel *c,
		struct td_error *err)
{
	td_auto_free char *name = td_asprintf("%s-config", sc->name);
	td_auto(td_object_unref) struct td_object *cm = td_informer_get(op->configmaps, sc->ns, name);
	if (!cm || !td_streq(td_object_annotation(cm, TD_ANN_CONFIG), v->config_hash))
		return 0;
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const struct td_object *p = pods.v[i];
		if (!is_of(p, "slurmctld", sc->name) || td_object_deleting(p) ||
		    !td_streq(td_object_annotation(p, TD_ANN_RESTART), v->restart_hash) ||
		    td_streq(td_object_annotation(p, TD_ANN_CONFIG), v->config_hash))
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *notes = td_jm_obj(d, root, "metadata.annotations");
		td_auto_free char *now = td_asprintf("%lld", (long long)td_real_ms(&td_clock_system));
		td_jm_str(d, root, "metadata.uid", p->uid);
		td_jm_key_str(d, notes, TD_ANN_CONFIG, v->config_hash);
		td_jm_key_str(d, notes, TD_ANN_CONFIG_SINCE, now);
		int r = td_kube_patch(op->k, TD_AT(&td_pods, p->ns, p->name), TD_PATCH_MERGE, root, c, NULL, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_wrap(err, "telling pod %s/%s of its configuration", p->ns, p->name);
	}
	return 0;
}

// Does a slurmd have it? It has it from slurmctld. One that was in force a moment ago counts only since slurmctld
// was told again, or after a while: slurmctld need not have read the other one at all. Where no node answers nobody
// can say so, and after a while it is taken for true.
static bool seen(const struct td_op *op, const struct td_op_view *v, int64_t since)
{
	enum { BROUGHT_MS = 6000, KUBELET_BRINGS_MS = 90000, BELIEVED_MS = 20000 };
	int64_t age = td_real_ms(&td_clock_system) - since;
	bool any = false, old = td_streq(v->config_hash, v->before);
	for (size_t i = 0; i < v->nodes.n; i++) {
		struct td_op_said said;
		if (td_op_says(&v->nodes.v[i], &said) && td_streq(said.config, v->config_hash) &&
		    (!old || said.since_ms + 999 >= since || age > BELIEVED_MS))
			return true;
		any |= !(v->nodes.v[i].states & TD_NODE_BAD);
	}
	return !any && age > (op->image ? KUBELET_BRINGS_MS : BROUGHT_MS);
}

// Returns the hash of the configuration that was last put in force; "" before the first.
static const char *active(const struct td_object *sc, const struct td_op_view *v)
{
	// Our own memory first: the cached object may be older than our last write.
	return v->active ? v->active : td_jstr_or(sc->root, "status.configHash", "");
}

int64_t td_op_config_since(struct td_op *op, struct td_object *sc, const struct td_op_view *v)
{
	return v->config_hash && td_streq(active(sc, v), v->config_hash) ? told_since(op, sc, v) : 0;
}

static long long ready_pods(struct td_op *op, struct td_object *sc, const char *app)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	long long k = 0;
	for (size_t i = 0; i < pods.n; i++)
		k += is_of(pods.v[i], app, sc->name) && td_op_pod_ready(pods.v[i]);
	return k;
}

// Returns why one of the pods of that kind does not start; NULL: nothing is known. The caller frees it.
static char *why_not(struct td_op *op, struct td_object *sc, const char *app)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, sc->ns, &pods);
	td_op_sort(&pods);
	for (size_t i = 0; i < pods.n; i++) {
		bool image, waits = is_of(pods.v[i], app, sc->name) && !td_op_pod_ready(pods.v[i]);
		const char *why = waits ? td_op_stuck(pods.v[i], &image) : NULL;
		if (why)
			return td_asprintf("%s: %s", pods.v[i]->name, why);
	}
	return NULL;
}

static void node_counts(yyjson_mut_doc *d, yyjson_mut_val *root, const struct td_slurm_nodes *l)
{
	static const char *const words[] = {
		[TD_CLASS_IDLE] = "nodes.idle",           [TD_CLASS_MIXED] = "nodes.mixed",
		[TD_CLASS_ALLOCATED] = "nodes.allocated", [TD_CLASS_DRAINING] = "nodes.draining",
		[TD_CLASS_DRAINED] = "nodes.drained",     [TD_CLASS_DOWN] = "nodes.down",
		[TD_CLASS_OFF] = "nodes.poweredDown"};
	long long k[TD_LEN(words)] = {0};
	long long total = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct td_pool_record r = td_op_record(&l->v[i]);
		if (td_slurm_is_to_come(l->v[i].features))
			continue;
		k[td_pool_record_class(&r)]++;
		total++;
	}
	td_jm_int(d, root, "nodes.total", total);
	for (size_t i = 0; i < TD_LEN(words); i++)
		td_jm_int(d, root, words[i], k[i]);
}

// Goes on with bringing a new configuration in force. *ret_hash: the one in force; "" before the first.
static int take_over(struct td_op *op, struct td_object *sc, struct td_op_view *v, const char **ret_hash,
		     struct td_cancel *c, struct td_error *err)
{
	*ret_hash = active(sc, v);
	if (v->config_hash && td_streq(*ret_hash, v->config_hash) && taken_back(op, sc, v))
		*ret_hash = v->active;
	struct td_pool_force_facts f = {
		.answers = v->fresh, .first = !**ret_hash, .in_force = td_streq(*ret_hash, v->config_hash)};
	if (v->config_hash && !f.in_force) {
		int r = tell(op, sc, v, c, err);
		if (r)
			return r;
		int64_t since = told_since(op, sc, v);
		f.told = since;
		f.seen = since && seen(op, v, since);
	}
	enum td_pool_force force = td_pool_config_force(&f);
	// slurmctld.sh, and nobody beside it, has slurmctld read it: each reading is a start, which can hang (S-C10).
	if (force == TD_FORCE_WAIT || force == TD_FORCE_NOTHING)
		return 0;
	td_info("SlurmCluster %s: configuration %s is in force", v->key, v->config_hash);
	now_active(v, *ret_hash, v->config_hash);
	*ret_hash = v->active;
	return 0;
}

// Which of its policies fail, and why. NULL: none does. Caller frees.
static char *policy_problem(const yyjson_val *sc)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "status.policies"), i, n, x)
		if (td_streq(td_jstr(x, "state"), "Failed"))
			td_buf_printf(&b, "%spolicy %s: %s", b.len ? "; " : "", td_jstr_or(x, "name", ""),
				      td_jstr_or(x, "message", ""));
	if (b.len)
		td_buf_puts(&b, ". Its jobs wait in Slurm's own order");
	return b.len ? td_buf_take(&b) : NULL;
}

int td_op_cluster_status(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
			 struct td_error *err)
{
	const char *hash;
	int r = take_over(op, sc, v, &hash, c, err);
	if (r)
		return r;

	v->in_force = v->config_hash && td_streq(hash, v->config_hash);
	yyjson_val *x, *old = td_jget(sc->root, "status");
	long long gen = td_jint(sc->root, "metadata.generation", 0), logins_wanted = 0;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc->root, "spec.login"), i, n, x)
		logins_wanted += td_jint(x, "replicas", 1);
	td_auto_free char *devices = td_op_devices_text(sc->root, v->gpus, v->gpu_nodes),
			  *why = why_not(op, sc, "login"), *ctld_why = why_not(op, sc, "slurmctld");
	td_auto_free char *policies = policy_problem(sc->root);
	const char *login_failed = td_op_logins_failed(op, sc, v, c);
	td_auto_free char *storage_left = td_op_storage_groups_left(op, sc);
	bool api_asked;
	td_auto_free char *api_lacks = td_op_api_lacks(op, sc->root, &api_asked);
	const struct td_pool_cluster_facts facts = {
		.problem = v->problem,
		.absent = v->absent,
		.trying = v->trying,
		.answers = v->fresh,
		.ctlds = ready_pods(op, sc, "slurmctld"),
		.ctlds_wanted = td_slurm_controllers(sc->root),
		.ctld_why = ctld_why,
		.in_force = v->in_force,
		.was_running =
			td_streq(td_jstr(old, "phase"), "Running") || td_streq(td_jstr(old, "phase"), "Degraded"),
		.rest = ready_pods(op, sc, "slurmrestd"),
		.logins = ready_pods(op, sc, "login"),
		.logins_wanted = logins_wanted,
		.login_why = why,
		.nodes = v->n_nodes,
		.gpus = v->gpus,
		.devices_asked = td_op_dra(sc->root) || !td_streq(td_op_resource(sc->root), "nvidia.com/gpu"),
		.devices = devices,
		.accounting = td_slurm_accounting(sc->root),
		.dbds = ready_pods(op, sc, "slurmdbd"),
		.preempts = td_slurm_preempts(sc->root),
		.policies = yyjson_arr_size(td_jget(sc->root, "spec.scheduler.policies")) > 0,
		.policy_problem = policies,
		.planes = yyjson_obj_size(td_jget(sc->root, "spec.fabric.planes")) > 0,
		.plane_problem = v->planes,
		.qos_known = v->qos.known,
		.qos_problem = v->qos.problem,
		.login_failed = login_failed,
		.login_unknown = !v->logins.known,
		.storage_left = storage_left,
		.api_asked = api_asked,
		.api_lacks = api_lacks,
	};
	struct td_pool_cluster_plan plan;
	td_pool_cluster_decide(&facts, &plan);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_int(d, root, "observedGeneration", gen);
	td_jm_str(d, root, "phase", plan.phase);
	td_jm_str(d, root, "slurmVersion", v->version ? v->version : td_jstr(old, "slurmVersion"));
	if (*hash)
		td_jm_str(d, root, "configHash", hash);
	td_jm_str(d, root, "restUrl", v->url);
	if (td_jget(old, "policies")) // the bridge's
		yyjson_mut_obj_add_val(d, root, "policies", yyjson_val_mut_copy(d, td_jget(old, "policies")));
	td_op_autoscale_told(op, sc, d, root);
	td_op_keys_status(op, sc, d, root);
	td_op_storage_groups_status(op, sc, d, root);
	if (v->known)
		node_counts(d, root, &v->nodes);
	td_op_conditions(d, td_jm_arr(d, root, "conditions"), old, plan.v, plan.n, gen);
	td_op_status_found(op, sc, d);
	return td_op_status_write(op, &td_slurmclusters, sc, d, c, err);
}
