// Who waits for parts of GPUs, which nodes could be cut for it, and what is done (cuts.h).
#include "bridge/cuts.h"

#include "bridge/allowed.h"
#include "bridge/policy/policies.h"
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/want.h"

#include "api/gpuparts.h"
#include "base/log.h"
#include "pool/allowed.h"
#include "pool/recut.h"
#include "slurm/hostlist.h"
#include "slurm/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	EVERY_MS = 2000,
	NODES = 256, // that are looked at in one pass
	SETS = 64,
	JOBS = 16,     // that wait for parts, and so many for whole GPUs, and pods without a job
	OF_ONE = 4,    // of these of one user, or namespace: who waits for what never comes stands before nobody else
	NOTES = 256,   // pods that wait for parts that no node has
	NOTES_OF = 16, // of these of one namespace
	NEVER_MS = 60000, // so long who cannot be served stands behind those who may be
	OFF_MS =
		300000, // so long no NodeSet cuts on demand, and slurmctld has heard of it, until what is held is let go
	NOTE_MS = 30000, // as they are looked at again every TD_READ_PENDING_MS
	TOLD_S = 10,     // from a wish to where its NodeAction shows on the Node
	SLOW_S = 120,    // until Slurm's record is as the node is, after a cut
	QUIET_MS =
		6000, // from when a node of a set is back to the next cut there: he for whom it was has his parts then
	AGAIN_MS = 15000, // between two releases of one job
};

struct cuts_note {
	char kind[TD_CUT_NAME], ask[40], pod[40], ns[64], partition[256];
	int64_t n, since_s, seen_ms;
};
struct cuts_word {
	int64_t job;
	char ask[40], text[320];
};
struct td_cuts {
	// ---- the thread's ----
	int64_t looked_ms, next_ms;
	bool on;
	int64_t off_ms; // since when no node is cut on demand; 0: some is, or it was not looked at
	bool left;      // jobs may be held for a cut
	struct {
		int64_t job, at_ms;
	} released[64];
	size_t at;
	struct cuts_never {
		int64_t job, until_ms;
		char ask[40];
	} never[256];
	size_t never_at;
	struct {
		char set[320];
		int64_t until_ms;
	} quiet[SETS];

	pthread_mutex_t lock; // guards the rest
	bool known;           // kinds are
	struct td_strv kinds; // that somebody's GPUs may be cut in
	struct cuts_note notes[NOTES];
	size_t n_notes;
	struct cuts_word words[JOBS * 3];
	size_t n_words;
	uint64_t count;
};

struct td_cuts *td_cuts_new(void)
{
	struct td_cuts *x = td_calloc(1, sizeof(*x));
	pthread_mutex_init(&x->lock, NULL);
	return x;
}

struct td_cuts *td_cuts_free(struct td_cuts *x)
{
	if (!x)
		return NULL;
	td_strv_done(&x->kinds);
	pthread_mutex_destroy(&x->lock);
	free(x);
	return NULL;
}

void td_cuts_index(const struct td_object *node, struct td_strv *ret)
{
	if (td_object_annotation(node, TD_ANN_GPU_CUTTING))
		td_strv_add(ret, "on");
	if (td_object_annotation(node, TD_ANN_GPU_CUT_AT))
		td_strv_add(ret, "was");
}

bool td_cuts_on(struct td_bridge *b)
{
	struct td_cuts *x = b->cuts;
	if (x->looked_ms && td_now(b) - x->looked_ms < EVERY_MS)
		return x->on;
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(b->nodes, TD_CUTS_INDEX, "on", &l);
	x->looked_ms = td_now(b);
	if (l.n) {
		x->off_ms = 0;
		x->left = true;
	} else { // nothing is said of what was
		td_auto_objects struct td_objects was = {0};
		if (!x->known) // an earlier bridge may have left some
			td_informer_by_index(b->nodes, TD_CUTS_INDEX, "was", &was);
		x->left |= was.n > 0;
		x->off_ms = x->off_ms ? x->off_ms : td_now(b);
		pthread_mutex_lock(&x->lock);
		x->known = true;
		x->n_words = 0;
		td_strv_done(&x->kinds);
		x->kinds = (struct td_strv){0};
		pthread_mutex_unlock(&x->lock);
	}
	return x->on = l.n > 0 || x->left;
}

bool td_cuts_wait(struct td_bridge *b, const struct td_cuts_note *n)
{
	struct td_cuts *x = b->cuts;
	int64_t now = td_now(b);
	pthread_mutex_lock(&x->lock);
	// A bridge that has just begun to lead refuses nobody for what it has not looked at.
	bool may = (!x->known || td_strv_has(&x->kinds, n->kind)) && strlen(n->kind) < TD_CUT_NAME;
	size_t at = 0, old = SIZE_MAX, same = 0;
	for (; may && at < x->n_notes && strcmp(x->notes[at].ask, n->ask) != 0; at++)
		if (now - x->notes[at].seen_ms > NOTE_MS)
			old = at;
		else
			same += !strcmp(x->notes[at].ns, n->ns);
	if (may && at == x->n_notes)
		at = same >= NOTES_OF ? NOTES : old != SIZE_MAX ? old : at < NOTES ? x->n_notes++ : NOTES;
	// Beyond that it waits all the same, and is counted when others have gone.
	if (may && at < NOTES) {
		struct cuts_note *o = &x->notes[at];
		*o = (struct cuts_note){.n = n->n, .since_s = n->since_s, .seen_ms = now};
		snprintf(o->kind, sizeof(o->kind), "%s", n->kind);
		snprintf(o->ask, sizeof(o->ask), "%s", n->ask);
		snprintf(o->pod, sizeof(o->pod), "%s", n->pod);
		snprintf(o->ns, sizeof(o->ns), "%s", n->ns);
		snprintf(o->partition, sizeof(o->partition), "%s", n->partition ? n->partition : "");
	}
	pthread_mutex_unlock(&x->lock);
	return may;
}

void td_cuts_words(struct td_bridge *b, int64_t job, const char *ask, struct td_buf *ret)
{
	struct td_cuts *x = b->cuts;
	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < x->n_words; i++)
		if ((job && x->words[i].job == job) || (ask && !strcmp(x->words[i].ask, ask))) {
			td_buf_printf(ret, " %s", x->words[i].text);
			break;
		}
	pthread_mutex_unlock(&x->lock);
}

uint64_t td_cuts_count(struct td_bridge *b)
{
	pthread_mutex_lock(&b->cuts->lock);
	uint64_t n = b->cuts->count;
	pthread_mutex_unlock(&b->cuts->lock);
	return n;
}

// ---- the nodes ----

struct cuts_set {
	char name[320];
	const char *parts[TD_CUT_PARTS];
};
struct cuts_look {
	struct td_bridge *b;
	struct td_slurm *slurm;
	const struct td_slurm_nodes *all;
	struct td_objects objects;
	struct td_json *json[NODES * 3]; // what the nodes point into
	size_t n_json;
	struct td_cut_kind (*kinds)[TD_CUT_KINDS];
	struct td_recut_node *nodes;
	size_t *at; // of each: which of `all`
	size_t n;
	struct cuts_set *names;
	struct td_recut_set sets[SETS];
	size_t n_sets;
	struct td_strv may; // kinds, of all sets
	bool any_cut;       // some GPU is
};

static void look_done(struct cuts_look *k)
{
	for (size_t i = 0; i < k->n_json; i++)
		td_json_unref(k->json[i]);
	td_objects_done(&k->objects);
	td_strv_done(&k->may);
	free(k->kinds);
	free(k->nodes);
	free(k->at);
	free(k->names);
}

static const yyjson_val *read_note(struct cuts_look *k, const struct td_object *node, const char *key)
{
	const char *text = td_object_annotation(node, key);
	struct td_json *j = NULL;
	if (!text || k->n_json == TD_LEN(k->json) || td_json_parse(text, strlen(text), &j, NULL))
		return NULL;
	k->json[k->n_json++] = j;
	return td_json_root(j);
}

// Which of the sets; SETS: there are too many.
static size_t set_of(struct cuts_look *k, const yyjson_val *says)
{
	const char *name = td_jstr_or(says, "set", "");
	size_t at = 0, i, n;
	yyjson_val *x;
	while (at < k->n_sets && strcmp(k->names[at].name, name) != 0)
		at++;
	if (at < k->n_sets || at == SETS)
		return at;
	struct td_recut_set *s = &k->sets[k->n_sets++];
	*s = (struct td_recut_set){.keep_whole = td_jint(says, "keepWhole", 1),
				   .idle_s = td_jint(says, "idleSeconds", 600),
				   .pause_s = td_jint(says, "pauseSeconds", 300),
				   .parts = k->names[at].parts};
	snprintf(k->names[at].name, sizeof(k->names[at].name), "%s", name);
	yyjson_arr_foreach (td_jget(says, "parts"), i, n, x)
		if (yyjson_is_str(x) && s->n_parts < TD_CUT_PARTS)
			k->names[at].parts[s->n_parts++] = yyjson_get_str(x);
	return at;
}

// Which of its GPUs that is; n_gpus: none of those that can be cut.
static size_t gpu_at(const struct td_recut_node *x, long long gpu)
{
	size_t g = 0;
	while (g < x->n_gpus && x->gpus[g].gpu != gpu)
		g++;
	return g;
}

// In what its GPUs can be cut; those of another kind than the first are not cut on demand.
static void kinds_of(struct cuts_look *k, const yyjson_val *entry, struct td_recut_node *x,
		     struct td_cut_kind kinds[TD_CUT_KINDS])
{
	yyjson_val *v;
	size_t i, n;
	struct td_api_part p;
	yyjson_arr_foreach (td_jget(entry, "parts"), i, n, v) {
		if (x->n_kinds == TD_CUT_KINDS || !td_api_part_read(v, &p) || strlen(p.name) >= TD_CUT_NAME)
			continue;
		kinds[x->n_kinds] = (struct td_cut_kind){.size = p.size, .at = p.at, .most = p.most};
		memcpy(kinds[x->n_kinds++].name, p.name, strlen(p.name) + 1);
		if (td_pool_recut_permits(&k->sets[x->set], p.name) && !td_strv_has(&k->may, p.name))
			td_strv_add(&k->may, p.name);
	}
	x->kinds = kinds;
	yyjson_arr_foreach (td_jget(entry, "gpus"), i, n, v)
		if (x->n_gpus < TD_RECUT_GPUS && yyjson_is_int(v))
			x->gpus[x->n_gpus++] = (struct td_recut_gpu){.gpu = (int)yyjson_get_sint(v)};
}

// Its kinds, its GPUs and their parts. False: they are not known, or are not those that Slurm has.
static bool gpus_of(struct cuts_look *k, const struct td_object *node, const struct td_slurm_node *r,
		    struct td_recut_node *x, struct td_cut_kind kinds[TD_CUT_KINDS])
{
	const yyjson_val *can = read_note(k, node, TD_ANN_GPU_PARTS), *told = read_note(k, node, TD_ANN_GPUS);
	yyjson_val *list = td_jget(told, "gpus"), *v;
	size_t i, n;
	kinds_of(k, yyjson_arr_get_first((yyjson_val *)can), x, kinds);
	yyjson_arr_foreach (list, i, n, v) {
		const char *kind = td_jstr(v, "mig");
		size_t g = gpu_at(x, td_jint(v, "gpu", -1));
		if (!kind || g == x->n_gpus)
			continue;
		if (x->gpus[g].n == TD_CUT_PARTS)
			return false;
		x->gpus[g].parts[x->gpus[g].n++] = kind;
	}
	// Where all are whole, nothing need be told of each.
	int64_t devices = list ? (int64_t)yyjson_arr_size(list) : (int64_t)x->n_gpus;
	return x->n_gpus && devices == td_devices_of_gres(r->gres, "gpu");
}

static void add_node(struct cuts_look *k, const struct td_object *node, int64_t now_s)
{
	const struct td_slurm_node *r = td_slurm_node_find(k->all, node->name);
	const yyjson_val *says = r ? read_note(k, node, TD_ANN_GPU_CUTTING) : NULL;
	size_t set = says ? set_of(k, says) : SETS;
	if (set == SETS || k->n == NODES)
		return;
	const char *hold = td_object_annotation(node, TD_ANN_HOLD), *at = td_object_annotation(node, TD_ANN_GPU_CUT_AT);
	long long cut = 0;
	struct td_recut_node *x = &k->nodes[k->n];
	*x = (struct td_recut_node){.name = r->name, .set = set, .idle_s = r->busy_at};
	x->cut_s = at && td_parse_i64(at, &cut) ? cut : 0;
	x->pending = td_object_annotation(node, TD_ANN_GPU_CUT) || (hold && strstr(hold, "cut-gpu")) ||
		     (cut && now_s - cut < TOLD_S);
	x->idle = !td_slurm_node_busy(r->states) && r->alloc_cpus <= 0;
	x->serves = gpus_of(k, node, r, x, k->kinds[k->n]) && td_slurm_node_usable(r->states) && !hold &&
		    !td_object_deleting(node);
	x->pending |= cut && now_s - cut < SLOW_S && !x->serves;
	for (size_t g = 0; g < x->n_gpus; g++)
		k->any_cut |= x->gpus[g].n > 0;
	k->at[k->n++] = (size_t)(r - k->all->v);
}

static void read_nodes(struct cuts_look *k)
{
	int64_t now_s = td_real_ms(k->b->clock) / 1000;
	td_informer_by_index(k->b->nodes, TD_CUTS_INDEX, "on", &k->objects);
	size_t room = k->objects.n < NODES ? k->objects.n : NODES;
	k->kinds = td_calloc(room + 1, sizeof(*k->kinds));
	k->nodes = td_calloc(room + 1, sizeof(*k->nodes));
	k->at = td_calloc(room + 1, sizeof(*k->at));
	k->names = td_calloc(SETS, sizeof(*k->names));
	// Of more than NODES those come first that have parts, or where nothing is in use.
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < k->objects.n && k->n < room; i++) {
			const struct td_object *o = k->objects.v[i];
			const struct td_slurm_node *r = td_slurm_node_find(k->all, o->name);
			const char *gpus = td_object_annotation(o, TD_ANN_GPUS);
			bool first = r && (!td_slurm_node_busy(r->states) || (gpus && strstr(gpus, "\"mig\"")) ||
					   td_object_annotation(o, TD_ANN_GPU_CUT));
			if (r && first == !round)
				add_node(k, o, now_s);
		}
}

// A set of which a node was being cut a moment ago counts as if it still were.
static void settle(struct cuts_look *k)
{
	struct td_cuts *x = k->b->cuts;
	int64_t now = td_now(k->b);
	for (size_t i = 0; i < k->n; i++) {
		const char *set = k->names[k->nodes[i].set].name;
		size_t at = 0, old = 0;
		for (; at < SETS && strcmp(x->quiet[at].set, set) != 0; at++)
			old = x->quiet[at].until_ms < x->quiet[old].until_ms ? at : old;
		if (k->nodes[i].pending) {
			at = at == SETS ? old : at;
			snprintf(x->quiet[at].set, sizeof(x->quiet[at].set), "%s", set);
			x->quiet[at].until_ms = now + QUIET_MS;
		} else if (at < SETS && now < x->quiet[at].until_ms &&
			   k->nodes[i].cut_s * 1000 > td_real_ms(k->b->clock) - SLOW_S * 1000) {
			k->nodes[i].pending = true;
		}
	}
}

// ---- who waits ----

struct cuts_waiter {
	const struct td_policies_known *job; // NULL: a pod without a job
	const struct cuts_note *note;
	int64_t value, since_s;
	bool *may; // of the nodes of the look
};
struct cuts_waiters {
	struct cuts_waiter v[JOBS * 3];
	size_t n;
};

static bool before(const struct cuts_waiter *a, const struct cuts_waiter *b)
{
	return a->value != b->value ? a->value > b->value : a->since_s < b->since_s;
}

static bool of_one(const struct cuts_waiter *a, const struct cuts_waiter *b)
{
	return a->note ? b->note && !strcmp(a->note->ns, b->note->ns) : b->job && td_streq(a->job->user, b->job->user);
}

// Keeps the first JOBS, of one user the first `most`, in order.
static void keep(struct cuts_waiters *l, size_t most, const struct cuts_waiter *x)
{
	size_t same = 0, out = l->n - 1, i;
	for (i = 0; i < l->n; i++)
		if (of_one(&l->v[i], x) && ++same == most)
			out = i;
	if ((same == most || l->n == JOBS) && !before(x, &l->v[out]))
		return;
	i = same == most || l->n == JOBS ? out : l->n++;
	for (; i < l->n - 1; i++) // one that goes out
		l->v[i] = l->v[i + 1];
	for (; i > 0 && before(x, &l->v[i - 1]); i--)
		l->v[i] = l->v[i - 1];
	l->v[i] = *x;
}

// One without a place in Slurm's queue stands before those who came later, in the order of that queue.
static void insert(struct cuts_waiters *l, const struct cuts_waiter *x)
{
	size_t i = 0;
	while (i < l->n && l->v[i].since_s <= x->since_s)
		i++;
	memmove(&l->v[i + 1], &l->v[i], (l->n - i) * sizeof(*l->v));
	l->v[i] = *x;
	l->n++;
}

static bool is_never(const struct td_cuts *x, int64_t job, const char *ask, int64_t now)
{
	for (size_t i = 0; i < TD_LEN(x->never); i++)
		if (now < x->never[i].until_ms && (job ? x->never[i].job == job : !strcmp(x->never[i].ask, ask)))
			return true;
	return false;
}

static void note_never(struct td_cuts *x, const struct cuts_waiter *w, int64_t now)
{
	if (is_never(x, w->job ? w->job->id : 0, w->note ? w->note->ask : "", now))
		return;
	struct cuts_never *o = &x->never[x->never_at];
	*o = (struct cuts_never){.job = w->job ? w->job->id : 0, .until_ms = now + NEVER_MS};
	snprintf(o->ask, sizeof(o->ask), "%s", w->note ? w->note->ask : "");
	x->never_at = (x->never_at + 1) % TD_LEN(x->never);
}

// The order: those in Slurm's queue by their priority, among them those without a place in it. True: somebody waits for
// parts.
static bool read_waiters(const struct td_bridge *b, const struct td_policies_facts *f, const struct cuts_note *notes,
			 size_t n_notes, struct cuts_waiters *ret)
{
	const int64_t now = td_now(b);
	struct cuts_waiters parts = {0}, whole = {0}, parked = {0};
	for (size_t i = 0; i < f->n; i++) {
		const struct td_policies_known *k = &f->v[i];
		struct cuts_waiter x = {.job = k, .value = k->value - k->nice, .since_s = k->submit_s};
		if (!k->read || k->phase != TD_PHASE_WAITING || k->nobodys)
			continue;
		if (k->parked) {
			x.value = is_never(b->cuts, k->id, "", now) ? -1 : 0;
			keep(&parked, OF_ONE, &x);
		} else if (!k->held && !k->aside && (*k->part || k->whole_gpus > 0)) {
			keep(*k->part ? &parts : &whole, *k->part ? OF_ONE : JOBS, &x);
		}
	}
	for (size_t i = 0; i < n_notes; i++)
		keep(&parked, OF_ONE,
		     &(struct cuts_waiter){.note = &notes[i],
					   .value = is_never(b->cuts, 0, notes[i].ask, now) ? -1 : 0,
					   .since_s = notes[i].since_s});
	for (size_t i = 0, m = 0; i < parts.n || m < whole.n;)
		ret->v[ret->n++] =
			m == whole.n || (i < parts.n && before(&parts.v[i], &whole.v[m])) ? parts.v[i++] : whole.v[m++];
	for (size_t i = 0; i < parked.n; i++)
		insert(ret, &parked.v[i]);
	return parts.n || parked.n;
}

// How many of a kind (NULL: whole GPUs) a GRES text has.
static int64_t count(const char *gres, const char *kind)
{
	struct td_gres g[16];
	size_t n = 0;
	int64_t sum = 0;
	if (td_gres_parse(gres ? gres : "", g, TD_LEN(g), &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(g[i].name, "gpu") && (kind ? !strcmp(g[i].type, kind) : !td_gres_is_part(g[i].type)))
			sum += g[i].count;
	return sum;
}

static bool by_partition(const struct td_slurm_node *r, const char *partitions)
{
	return !partitions || !*partitions || td_pool_lists_any(r->partitions, partitions);
}

// On which nodes one may run, whatever devices these have now. One who waits for whole GPUs counts for those of his
// partition: it is only asked whether others may take these from him. False: not known.
static bool where(struct cuts_look *k, const struct cuts_waiter *w, bool *may)
{
	struct td_error e = TD_ERROR_INIT;
	if (w->note) {
		td_auto_objects struct td_objects pods = {0};
		td_informer_by_index(k->b->pods, "uid", w->note->pod, &pods);
		if (!pods.n)
			return false;
		td_auto_free bool *ok = td_room_feasible(k->b, pods.v[0], k->all);
		for (size_t i = 0; i < k->all->n; i++)
			may[i] = ok[i] && by_partition(&k->all->v[i], w->note->partition);
		return true;
	}
	if (*w->job->part) {
		td_auto_job struct td_slurm_job j = {0};
		struct td_pool_allowed_count n;
		const struct td_allowed_ask ask = {.nodes = k->all, .any_devices = true, .cancel = k->b->cancel};
		return !td_slurm_job(k->slurm, w->job->id, k->b->cancel, &j, &e) &&
		       td_job_phase(j.states) == TD_PHASE_WAITING && !td_allowed_find(k->b, &j, &ask, may, &n, &e);
	}
	// A pod that names no type is kept from nodes with parts, so what it excludes says nothing.
	td_auto_strv struct td_strv no = {0};
	if (!w->job->ours && w->job->excluded && *w->job->excluded && td_hostlist_parse(w->job->excluded, &no, NULL))
		return false;
	td_auto_free bool *excluded = td_slurm_nodes_in(k->all, &no);
	for (size_t i = 0; i < k->all->n; i++)
		may[i] = by_partition(&k->all->v[i], w->job->partition) && !excluded[i];
	return true;
}

// Some node has as many, free ones or all.
static bool has(const struct td_slurm_nodes *all, const bool *may, const char *kind, int64_t n, bool free_ones)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct td_slurm_node *r = &all->v[i];
		if (may[i] && (!free_ones || td_slurm_node_usable(r->states)) &&
		    count(r->gres, kind) - (free_ones ? count(r->gres_used, kind) : 0) >= n)
			return true;
	}
	return false;
}

// Releases one that is held because no node had its parts. Slurm may hold it again, for something else that no node has: so
// not too often.
static void release(struct cuts_look *k, const struct td_policies_known *j)
{
	struct td_cuts *x = k->b->cuts;
	struct td_error e = TD_ERROR_INIT;
	for (size_t i = 0; i < TD_LEN(x->released); i++)
		if (x->released[i].job == j->id && td_now(k->b) - x->released[i].at_ms < AGAIN_MS)
			return;
	x->released[x->at].job = j->id;
	x->released[x->at].at_ms = td_now(k->b);
	x->at = (x->at + 1) % TD_LEN(x->released);
	const struct td_slurm_job_change ch = {.release = true, .admin_comment = j->marked ? "" : NULL};
	if (td_slurm_job_update(k->slurm, j->id, &ch, k->b->cancel, &e))
		td_warn("job %s waited for a part %s, which there is now: %s", j->label, j->part, e.msg);
	else
		td_info("job %s: %s, it is released", j->label,
			k->n ? "there are such parts now" : "nothing is cut for it any more");
}

// No NodeSet cuts on demand any more: what job_submit.lua has held for that goes back to Slurm, whose own words follow
// (BadConstraints). Should one cut again, that is waited for as well.
static void let_go(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_facts *f)
{
	struct cuts_look k = {.b = b, .slurm = slurm};
	size_t left = 0;
	if (td_now(b) - b->cuts->off_ms < OFF_MS)
		return;
	for (size_t i = 0; i < f->n && left < JOBS; i++)
		if (f->v[i].read && f->v[i].phase == TD_PHASE_WAITING && f->v[i].parked && f->v[i].marked) {
			release(&k, &f->v[i]);
			left++;
		}
	b->cuts->left = left || f->more;
}

// ---- what is done ----

static void words(const struct cuts_look *k, const struct cuts_waiter *w, enum td_recut_why why, size_t node,
		  struct cuts_word *ret)
{
	const char *kind = w->note ? w->note->kind : w->job->part;
	*ret = (struct cuts_word){.job = w->job ? w->job->id : 0};
	if (w->note)
		memcpy(ret->ask, w->note->ask, sizeof(ret->ask));
	snprintf(ret->text, sizeof(ret->text), "It waits for a part %s: %s%s%.80s%s.", kind, td_pool_recut_words(why),
		 node != SIZE_MAX ? " (node " : "", node != SIZE_MAX ? k->nodes[node].name : "",
		 node != SIZE_MAX ? ")" : "");
}

static void why_text(const struct cuts_waiter *w, struct td_buf *t)
{
	if (!w)
		td_buf_puts(t, "nobody has or wants parts of its GPUs");
	else if (w->note)
		td_buf_printf(t, "a pod waits for %s", w->note->kind);
	else
		td_buf_printf(t, "job %s of %.40s waits for %s", w->job->label, w->job->user,
			      *w->job->part ? w->job->part : "whole GPUs");
}

static void act(struct cuts_look *k, const struct td_recut_plan *p, const struct cuts_waiter *w)
{
	const char *name = k->nodes[p->node].name;
	td_auto(td_object_unref) struct td_object *o = td_informer_get(k->b->nodes, NULL, name);
	if (!o || td_object_annotation(o, TD_ANN_GPU_CUT))
		return;
	td_auto_buf struct td_buf why = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *patch = td_jm_new();
	yyjson_mut_val *wish = yyjson_mut_doc_get_root(d), *root = yyjson_mut_doc_get_root(patch);
	why_text(w, &why);
	if (p->gpu >= 0)
		td_jm_int(d, wish, "gpu", p->gpu);
	yyjson_mut_val *parts = p->n_parts ? td_jm_arr(d, wish, "parts") : NULL;
	for (size_t i = 0; i < p->n_parts; i++)
		yyjson_mut_arr_append(parts, yyjson_mut_strcpy(d, p->parts[i]));
	if (p->jobs)
		td_jm_bool(d, wish, "jobs", true);
	td_jm_str(d, wish, "for", td_buf_str(&why));
	td_auto_free char *text = td_json_mut_text(wish, NULL);
	td_jm_str(patch, root, "metadata.uid", o->uid);
	td_jm_str(patch, root, "metadata.resourceVersion", o->rv); // what was seen of it still holds
	td_jm_key_str(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_GPU_CUT, text);
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_patch(k->b->kube, TD_AT(&td_nodes, NULL, name), TD_PATCH_MERGE, root, k->b->cancel, NULL, &e);
	if (r && r != TD_CONFLICT && r != TD_NOT_FOUND)
		td_warn("node %s: %s, so it is to be cut: %s", name, td_buf_str(&why), e.msg);
	if (r)
		return;
	td_info("node %s: %s, so its GPUs are cut: %s", name, td_buf_str(&why), text);
	pthread_mutex_lock(&k->b->cuts->lock);
	k->b->cuts->count++;
	pthread_mutex_unlock(&k->b->cuts->lock);
}

static void publish(struct td_cuts *x, struct cuts_look *k, const struct cuts_word *v, size_t n)
{
	pthread_mutex_lock(&x->lock);
	struct td_strv old = x->kinds;
	x->kinds = k->may;
	x->known = true;
	k->may = old;
	memcpy(x->words, v, n * sizeof(*v));
	x->n_words = n;
	pthread_mutex_unlock(&x->lock);
}

void td_cuts_pass(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_facts *f)
{
	struct td_cuts *x = b->cuts;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	if (!snap || td_now(b) < x->next_ms)
		return;
	x->next_ms = td_now(b) + EVERY_MS;
	if (x->off_ms) {
		let_go(b, slurm, f);
		return;
	}
	struct cuts_look *k = td_calloc(1, sizeof(*k));
	*k = (struct cuts_look){.b = b, .slurm = slurm, .all = &snap->nodes};
	read_nodes(k);
	settle(k);

	td_auto_free struct cuts_note *notes = td_calloc(NOTES, sizeof(*notes));
	size_t n_notes = 0, n_words = 0;
	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < x->n_notes; i++)
		if (td_now(b) - x->notes[i].seen_ms <= NOTE_MS)
			notes[n_notes++] = x->notes[i];
	memcpy(x->notes, notes, n_notes * sizeof(*notes));
	x->n_notes = n_notes;
	pthread_mutex_unlock(&x->lock);

	td_auto_free struct cuts_waiters *l = td_calloc(1, sizeof(*l));
	td_auto_free struct cuts_word *said = td_calloc(JOBS * 3, sizeof(*said));
	bool parts = read_waiters(b, f, notes, n_notes, l);
	struct td_recut_waiter v[JOBS * 3];
	struct cuts_waiter *of[JOBS * 3];
	size_t n = 0;
	td_auto_free bool *all_may = td_calloc(k->all->n + 1, sizeof(*all_may)),
			  *may = td_calloc(k->n * JOBS * 3 + 1, sizeof(*may));
	for (size_t i = 0; i < l->n && (parts || k->any_cut) && !td_cancelled(b->cancel); i++) {
		struct cuts_waiter *w = &l->v[i];
		const char *kind = w->note ? w->note->kind : *w->job->part ? w->job->part : NULL;
		bool parked = w->job && w->job->parked;
		memset(all_may, 0, k->all->n);
		if (!where(k, w, all_may))
			continue;
		v[n] = (struct td_recut_waiter){.kind = kind,
						.n = w->note ? w->note->n
						     : kind  ? w->job->parts_wanted
							     : w->job->whole_gpus,
						.since_s = w->since_s,
						.may = may + n * k->n};
		v[n].served = has(k->all, all_may, kind, v[n].n, !parked);
		if (parked && v[n].served)
			release(k, w->job);
		for (size_t m = 0; m < k->n; m++)
			may[n * k->n + m] = all_may[k->at[m]];
		of[n++] = w;
	}
	const struct td_recut in = {.nodes = k->nodes,
				    .n = k->n,
				    .sets = k->sets,
				    .n_sets = k->n_sets,
				    .waiters = v,
				    .n_waiters = n,
				    .now_s = td_real_ms(b->clock) / 1000};
	enum td_recut_why why[JOBS * 3];
	size_t at[JOBS * 3];
	struct td_recut_plan plan;
	// Who was not read yet may be before those who were.
	bool now = (parts || k->any_cut) && td_pool_recut(&in, why, at, &plan) && !f->more;
	if (now)
		act(k, &plan, plan.waiter == SIZE_MAX ? NULL : of[plan.waiter]);
	for (size_t i = 0; i < n; i++)
		if (why[i] <= TD_RECUT_MANY && (of[i]->note || of[i]->job->parked))
			note_never(x, of[i], td_now(b));
	for (size_t i = 0; i < n; i++)
		if (v[i].kind && !(of[i]->job && v[i].served))
			words(k, of[i], why[i], at[i], &said[n_words++]);
	publish(x, k, said, n_words);
	look_done(k);
	free(k);
}
