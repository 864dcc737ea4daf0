// Which jobs wait for room that new nodes would be, and how many of these (grow.h).
#include "bridge/grow.h"

#include "bridge/allowed.h"
#include "bridge/policy/policies.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"
#include "pool/allowed.h"
#include "pool/grow.h"
#include "slurm/conf.h"
#include "slurm/tocome.h"
#include "slurm/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY_MS = 3000, SHARE = 20, JOBS = 64, OF_ONE = 16, TIMES_MAX = 4096, PARTS_MAX = 65536 };
// So many are asked for of Slurm, of one user, till JOBS of them are found that new nodes might help.
enum { LOOKS = 512, LOOKS_OF_ONE = 64 };

struct grow_look {
	struct td_bridge *b;
	struct td_slurm *slurm;
	const struct td_slurm_nodes *all;
	char kinds[TD_GROW_KINDS][64];
	struct td_grow_job jobs[JOBS];
	const struct td_policies_known *of[JOBS];
	bool *may[JOBS];
	size_t n;
	const char *names[TD_GROW_SETS];
	bool *in;                 // of each node, TD_GROW_SETS each: whether it is of that set
	bool *there;              // of each node: it is a machine, and serves
	struct td_buf partitions; // of all nodes of the sets: "a,b"
	struct td_grow_set sets[TD_GROW_SETS];
	long long most[TD_GROW_SETS];  // nodes that it may have
	long long known[TD_GROW_SETS]; // nodes of the set that Slurm has and keeps
	bool told[TD_GROW_SETS];       // its shape is what the NodeSet says of its machines
	size_t n_sets;
};

bool td_growth_on(struct td_bridge *b)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	return sc && (yyjson_arr_size(td_jget(sc->root, "status.autoscale")) ||
		      yyjson_arr_size(td_jget(sc->root, "status.wanted")));
}

// ---- jobs ----

static int kind_of(char kinds[][64], const char *kind)
{
	for (int k = 0; k < TD_GROW_KINDS; k++) {
		if (!*kinds[k])
			snprintf(kinds[k], sizeof(kinds[k]), "%s", kind);
		if (!strcmp(kinds[k], kind))
			return k;
	}
	return -1;
}

static int64_t share(int64_t n, int64_t of)
{
	return of > 1 ? (n + of - 1) / of : n;
}

static bool empty(const char *s)
{
	return !s || !*s;
}

bool td_growth_read(const struct td_slurm_job *j, char kinds[][64], struct td_grow_job *ret)
{
	struct td_ask_wait *w = td_ask_wait_of_job(j);
	if (!w || !empty(j->required_nodes)) { // it waits for nodes that it names
		td_ask_wait_unref(w);
		return false;
	}
	struct td_ask_wait_parts p = {0};
	td_ask_wait_show(w, &p);
	int64_t nodes = j->want_nodes > 1 ? j->want_nodes : 1;
	// Tasks that may lie on as many nodes as Slurm likes.
	bool loose = nodes == 1 && j->want_tasks > 1 && !j->want_tasks_per_node;
	int64_t parts = loose ? j->want_tasks : nodes;
	// What tres_per_node says is one node's; all else is the whole job's.
	bool per_node = nodes == 1 || !empty(j->tres_per_node);
	const struct td_pool_want *of = loose ? &p.least : &p.want;
	*ret = (struct td_grow_job){.parts = parts > PARTS_MAX ? PARTS_MAX : (size_t)parts,
				    .times = 1,
				    .apart = nodes > 1,
				    .exclusive = of->exclusive};
	ret->part.cpus = nodes == 1 || j->want_tasks_per_node ? of->cpus : share(of->cpus, nodes);
	// Who says nothing of memory gets all of a node's.
	if (!j->want_memory_mb && !j->want_memory_per_cpu_mb)
		ret->exclusive = true;
	else
		ret->part.memory_mb =
			j->want_memory_mb ? j->want_memory_mb : j->want_memory_per_cpu_mb * ret->part.cpus;
	bool ok = true;
	for (int k = 0; k < TD_POOL_KINDS && p.kinds[k]; k++) {
		int at = kind_of(kinds, p.kinds[k]);
		ok &= at >= 0;
		if (ok)
			ret->part.gres[at] = per_node ? of->gres[k] : share(of->gres[k], nodes);
	}
	if (j->array && j->task < 0 && j->tasks) {
		int64_t n = td_slurm_tasks_count(j->tasks);
		ret->times = n < 1 ? 1 : n > TIMES_MAX ? TIMES_MAX : (size_t)n;
	}
	td_ask_wait_unref(w);
	return ok;
}

static void add(struct grow_look *k, const struct td_policies_known *x)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_job struct td_slurm_job j = {0};
	if (td_slurm_job(k->slurm, x->id, k->b->cancel, &j, &e) || td_job_phase(j.states) != TD_PHASE_WAITING || j.hold)
		return;
	struct td_grow_job *g = &k->jobs[k->n];
	if (!td_growth_read(&j, k->kinds, g))
		return;
	bool reserves = false, some = false;
	td_auto_free bool *may = td_calloc(k->all->n + 1, sizeof(*may));
	struct td_pool_allowed_count n;
	const struct td_allowed_ask ask = {.nodes = k->all, .reserves = &reserves, .cancel = k->b->cancel};
	if (td_allowed_find(k->b, &j, &ask, may, &n, &e) || reserves)
		return;
	for (size_t s = 0; s < k->n_sets; s++)
		some |= g->in[s] = td_pool_grow_like(&k->in[s], TD_GROW_SETS, k->there, may, k->all->n);
	if (!some)
		return;
	g->may = k->may[k->n] = td_steal(may);
	k->of[k->n++] = x;
}

static int before(const void *a, const void *b)
{
	const struct td_policies_known *x = *(const struct td_policies_known *const *)a,
				       *y = *(const struct td_policies_known *const *)b;
	int64_t vx = x->value - x->nice, vy = y->value - y->nice;
	if (vx != vy)
		return vx < vy ? 1 : -1;
	return x->submit_s != y->submit_s ? (x->submit_s > y->submit_s) - (x->submit_s < y->submit_s)
					  : (x->id > y->id) - (x->id < y->id);
}

static size_t of_user(const struct td_policies_known *const *v, size_t n, const char *user)
{
	size_t same = 0;
	for (size_t i = 0; i < n; i++)
		same += td_streq(v[i]->user, user);
	return same;
}

// Whether it waits, and what is known of it says nothing against new nodes of the sets.
static bool might(const struct grow_look *k, const struct td_policies_known *x)
{
	return x->read && x->phase == TD_PHASE_WAITING && !x->held && !x->aside && !x->nobodys && !x->named &&
	       (empty(x->partition) || td_pool_lists_any(td_buf_str(&k->partitions), x->partition));
}

static void read_jobs(struct grow_look *k, const struct td_policies_facts *f)
{
	td_auto_free const struct td_policies_known **v = td_calloc(f->n + 1, sizeof(*v));
	const struct td_policies_known *looked[LOOKS];
	size_t n = 0, looks = 0;
	for (size_t i = 0; i < f->n; i++)
		if (might(k, &f->v[i]))
			v[n++] = &f->v[i];
	if (n)
		qsort(v, n, sizeof(*v), before);
	for (size_t i = 0; i < n && k->n < JOBS && looks < LOOKS && !td_cancelled(k->b->cancel); i++) {
		if (of_user(k->of, k->n, v[i]->user) >= OF_ONE || of_user(looked, looks, v[i]->user) >= LOOKS_OF_ONE)
			continue;
		looked[looks++] = v[i];
		add(k, v[i]);
	}
}

// ---- nodes and sets ----

static struct td_grow_room room_of(const struct grow_look *k, const struct td_slurm_node *n, bool used)
{
	struct td_grow_room r = {.cpus = n->cpus - (used ? n->alloc_cpus : 0),
				 .memory_mb = n->memory_mb - (used ? n->alloc_memory_mb : 0)};
	for (int i = 0; i < TD_GROW_KINDS && *k->kinds[i]; i++)
		r.gres[i] = td_devices_of_gres(n->gres, k->kinds[i]) -
			    (used ? td_devices_of_gres(n->gres_used, k->kinds[i]) : 0);
	return r;
}

// Slurm starts jobs there, or will when it has been tested or updated.
static bool serves(const struct td_slurm_node *n)
{
	bool back = (n->states & TD_NODE(DRAIN)) && !td_slurm_node_bad(n->states) &&
		    (td_pool_reason_is(n->reason, TD_REASON_NEW) || td_pool_reason_is(n->reason, TD_REASON_UPDATE));
	return back || td_slurm_node_usable(n->states);
}

static void read_members(struct grow_look *k)
{
	td_auto_strv struct td_strv marks = {0}, partitions = {0};
	const char *last = NULL;
	k->in = td_calloc((k->all->n + 1) * TD_GROW_SETS, sizeof(*k->in));
	k->there = td_calloc(k->all->n + 1, sizeof(*k->there));
	for (size_t s = 0; s < k->n_sets; s++) {
		td_auto_free char *mark = td_slurm_set_feature(k->names[s]);
		td_strv_add(&marks, mark);
	}
	for (size_t i = 0; i < k->all->n; i++) {
		const struct td_slurm_node *n = &k->all->v[i];
		bool *in = &k->in[i * TD_GROW_SETS], any = false;
		for (size_t s = 0; s < k->n_sets; s++)
			any |= in[s] = td_bridge_lists(n->features, marks.v[s]);
		k->there[i] = any && serves(n) && !td_slurm_is_to_come(n->features);
		if (!any || empty(n->partitions) || td_streq(last, n->partitions))
			continue;
		last = n->partitions;
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, last, ',');
		for (size_t m = 0; m < l.n; m++) {
			if (td_strv_has(&partitions, l.v[m]))
				continue;
			td_strv_add(&partitions, l.v[m]);
			td_buf_printf(&k->partitions, "%s%s", k->partitions.len ? "," : "", l.v[m]);
		}
	}
}

static struct td_grow_node *read_nodes(struct grow_look *k)
{
	struct td_grow_node *v = td_calloc(k->all->n + 1, sizeof(*v));
	for (size_t i = 0; i < k->all->n; i++) {
		const struct td_slurm_node *n = &k->all->v[i];
		if (serves(n))
			v[i] = (struct td_grow_node){room_of(k, n, true),
						     !td_slurm_node_busy(n->states) && n->alloc_cpus <= 0};
		bool leaves = (n->states & TD_NODE(DRAIN)) && td_pool_reason_is(n->reason, TD_REASON_SCALE_IN);
		for (size_t s = 0; s < k->n_sets; s++) {
			if (!k->in[i * TD_GROW_SETS + s])
				continue;
			struct td_grow_room r = room_of(k, n, false), *is = &k->sets[s].shape;
			bool none =
				td_slurm_is_to_come(n->features); // what it is said to have counts while there is none
			k->known[s] += !leaves && !none;
			if (none ? !is->cpus : k->told[s] || r.cpus > is->cpus) { // where they differ, the largest
				*is = r;
				k->told[s] = none;
			}
		}
	}
	return v;
}

static void read_sets(struct grow_look *k, const struct td_object *sc)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc->root, "status.autoscale"), i, n, x) {
		if (k->n_sets == TD_GROW_SETS || !td_jstr(x, "nodeSet"))
			continue;
		k->names[k->n_sets] = td_jstr(x, "nodeSet");
		k->most[k->n_sets++] = td_jint(x, "max", 0);
	}
}

// ---- what is said ----

static yyjson_mut_doc *words(const struct grow_look *k, const struct td_object *sc)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list;
	td_jm_str(d, root, "metadata.uid", sc->uid);
	list = td_jm_arr(d, root, "status.wanted");
	for (size_t s = 0; s < k->n_sets; s++) {
		if (!k->sets[s].wanted || k->sets[s].first >= k->n)
			continue;
		const struct td_policies_known *x = k->of[k->sets[s].first];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "nodeSet", k->names[s]);
		td_jm_int(d, o, "nodes", k->known[s] + (long long)k->sets[s].wanted);
		td_jm_strf(d, o, "reason", "job %s of %.60s waits for room", x->label ? x->label : "?",
			   x->user ? x->user : "?");
	}
	return d;
}

void td_growth_words(struct td_bridge *b, const struct td_slurm_nodes *all, const bool *may, struct td_buf *t)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc ? sc->root : NULL, "status.wanted"), i, n, x) {
		td_auto_free char *mark = td_slurm_set_feature(td_jstr_or(x, "nodeSet", ""));
		bool its = false;
		for (size_t k = 0; k < all->n && !its; k++)
			its = may[k] && td_bridge_lists(all->v[k].features, mark);
		long long nodes = td_jint(x, "nodes", 0);
		if (its)
			td_buf_printf(
				t, " Machines are asked for: NodeSet %s shall have %lld node%s for who waits for room.",
				td_jstr_or(x, "nodeSet", ""), nodes, nodes == 1 ? "" : "s");
	}
}

void td_growth_pass(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_facts *f, int64_t *next_ms)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	int64_t began = td_now(b);
	if (!sc || !snap || began < *next_ms)
		return;
	struct grow_look *k = td_calloc(1, sizeof(*k));
	k->b = b;
	k->slurm = slurm;
	k->all = &snap->nodes;
	read_sets(k, sc);
	read_members(k);
	if (k->n_sets)
		read_jobs(k, f);
	td_auto_free struct td_grow_node *v = read_nodes(k);
	// A machine that is there and Slurm does not know yet is still wanted.
	for (size_t s = 0; s < k->n_sets; s++)
		k->sets[s].room = k->most[s] > k->known[s] ? (size_t)(k->most[s] - k->known[s]) : 0;
	td_pool_grow(v, k->all->n, k->sets, k->n_sets, k->jobs, k->n);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = words(k, sc);
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(root);
	yyjson_val *is = td_jget(sc->root, "status.wanted"), *want = td_jget(td_json_root(now), "status.wanted");
	// Who was not read yet may be one that waits: until then nothing is taken back.
	bool same = yyjson_arr_size(is) == yyjson_arr_size(want) && (!yyjson_arr_size(is) || td_jequal(is, want));
	struct td_error e = TD_ERROR_INIT;
	if (!same && !f->more && !td_cancelled(b->cancel) &&
	    td_kube_patch(b->kube, TD_AT(&td_slurmclusters, b->o.ns, b->o.cluster, "status"), TD_PATCH_MERGE, root,
			  b->cancel, NULL, &e))
		td_warn("writing status.wanted: %s", e.msg);
	for (size_t i = 0; i < k->n; i++)
		free(k->may[i]);
	free(k->in);
	free(k->there);
	td_buf_done(&k->partitions);
	free(k);
	int64_t pause = (td_now(b) - began) * SHARE;
	*next_ms = td_now(b) + (pause > EVERY_MS ? pause : EVERY_MS);
}
