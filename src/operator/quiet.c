// What a whole look at a SlurmCluster is made from (pool/look.h): which changes in the caches are news, and what Slurm says
// of its nodes. A look without news asks Slurm whether anything has changed, and works nothing out.
#define uthash_malloc(n) td_malloc(n)
#include "operator/operator.h"

#include "base/hash.h"
#include "pool/look.h"

#include <string.h>
#include <time.h>
#include <uthash.h>

// ---- news ----
// What the bridge writes on Nodes and slurmd pods as jobs come and go. Nothing here is made of it.
static bool noise(const char *key)
{
	static const char *const of[] = {TD_ANN_SLURM_USE, TD_ANN_SLURM_JOBS, TD_ANN_SLURM_STATE, TD_ANN_SLURM_REASON,
					 TD_LABEL_NODE_STATE};
	for (size_t i = 0; i < TD_LEN(of); i++)
		if (td_streq(of[i], key))
			return true;
	return false;
}

static void each(const yyjson_val *map, void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
	yyjson_obj_iter it = yyjson_obj_iter_with((yyjson_val *)map);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!noise(yyjson_get_str(k)))
			fn(ctx, yyjson_get_str(k), yyjson_get_str(yyjson_obj_iter_get_val(k)));
}

void td_op_notes_each(const yyjson_val *node, void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
	each(td_jget(node, "metadata.annotations"), fn, ctx);
}

struct notes_in { // whether a map has all that another has
	const yyjson_val *there;
	size_t n;
	bool all;
};
static void is_there(void *ctx, const char *key, const char *value)
{
	struct notes_in *x = ctx;
	x->n++;
	x->all &= td_streq(td_jkey_str(x->there, key), value);
}

static bool same_map(const struct td_object *old, const struct td_object *now, const char *path)
{
	const yyjson_val *a = td_jget(old->root, path), *b = td_jget(now->root, path);
	struct notes_in forth = {b, 0, true}, back = {a, 0, true};
	each(a, is_there, &forth);
	each(b, is_there, &back);
	return forth.all && back.all && forth.n == back.n;
}

// The same value at all these paths?
static bool same_at(const struct td_object *old, const struct td_object *now, const char *const *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!td_jequal(td_jget(old->root, paths[i]), td_jget(now->root, paths[i])))
			return false;
	return td_object_deleting(old) == td_object_deleting(now);
}

static void note(struct td_op *op, bool news)
{
	if (news)
		atomic_fetch_add(&op->news, 1);
}

bool td_op_node_news(const struct td_object *old, const struct td_object *now)
{
	static const char *const of[] = {"metadata.labels",  "spec",           "status.allocatable", "status.capacity",
					 "status.addresses", "status.nodeInfo"};
	return !old || !now || !same_at(old, now, of, TD_LEN(of)) || td_op_ready(old) != td_op_ready(now) ||
	       !same_map(old, now, "metadata.annotations");
}

void td_op_news_node(void *ctx, struct td_object *old, struct td_object *now)
{
	note(ctx, td_op_node_news(old, now));
}

bool td_op_pod_news(const struct td_object *old, const struct td_object *now)
{
	static const char *const of[] = {"spec", "status", "metadata.ownerReferences"};
	if (td_object_label(now ? now : old, TD_LABEL_ACTION_NODE))
		return false; // what a node's test does is no part of its cluster
	if (!old || !now)
		return true;
	if (td_op_is_placeholder(now)) // what native jobs hold
		return td_object_deleting(old) != td_object_deleting(now) ||
		       td_kube_pod_ended(old->root) != td_kube_pod_ended(now->root);
	return !same_at(old, now, of, TD_LEN(of)) || !same_map(old, now, "metadata.labels") ||
	       !same_map(old, now, "metadata.annotations");
}

void td_op_news_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	note(ctx, td_op_pod_news(old, now));
}

// ---- statuses ----
struct td_op_status { // what the last look found
	char *uid;
	struct td_json *status;
	UT_hash_handle hh;
};

static void drop_locked(struct td_op *op, struct td_op_status *x)
{
	HASH_DEL(op->statuses, x);
	free(x->uid);
	td_json_unref(x->status);
	free(x);
}

void td_op_status_found(struct td_op *op, const struct td_object *o, yyjson_mut_doc *status)
{
	struct td_op_status *x = NULL;
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(yyjson_mut_doc_get_root(status));
	pthread_mutex_lock(&op->lock);
	HASH_FIND_STR(op->statuses, o->uid, x);
	if (!x) {
		x = td_calloc(1, sizeof(*x));
		x->uid = td_strdup(o->uid);
		HASH_ADD_KEYPTR(hh, op->statuses, x->uid, strlen(x->uid), x);
	}
	td_json_unref(x->status);
	x->status = td_steal(now);
	pthread_mutex_unlock(&op->lock);
}

void td_op_statuses_free(struct td_op *op)
{
	struct td_op_status *x, *tmp;
	pthread_mutex_lock(&op->lock);
	HASH_ITER (hh, op->statuses, x, tmp)
		drop_locked(op, x);
	pthread_mutex_unlock(&op->lock);
}

// Is the status another one than the last look found? Somebody has changed it, or a look between two events took an
// old one for what is there, and wrote nothing.
static bool status_differs(struct td_op *op, const struct td_object *old, const struct td_object *now)
{
	struct td_op_status *x = NULL;
	pthread_mutex_lock(&op->lock);
	HASH_FIND_STR(op->statuses, (now ? now : old)->uid, x);
	td_auto(td_json_unref) struct td_json *found = x && now ? td_json_ref(x->status) : NULL;
	if (x && !now)
		drop_locked(op, x);
	pthread_mutex_unlock(&op->lock);
	return found && !td_jequal(td_jget(now->root, "status"), td_json_root(found));
}

// Our own status comes back as an event, and other parts of it are the bridge's.
void td_op_news_spec(void *ctx, struct td_object *old, struct td_object *now)
{
	static const char *const of[] = {"metadata.labels", "metadata.annotations", "metadata.generation",
					 "status.policies", "status.account",       "status.wanted"};
	bool status = status_differs(ctx, old, now);
	note(ctx, status || !old || !now || !same_at(old, now, of, TD_LEN(of)));
}

void td_op_news_claim(void *ctx, struct td_object *old, struct td_object *now)
{
	static const char *const of[] = {"spec", "status.phase"};
	struct td_op *op = ctx;
	td_auto_objects struct td_objects l = {0};
	if (old && now && same_at(old, now, of, TD_LEN(of)))
		return;
	td_informer_list(op->clusters, (now ? now : old)->ns, &l);
	note(op, l.n > 0 || td_op_storage_groups_any(op));
}

void td_op_news_budget(void *ctx, struct td_object *old, struct td_object *now)
{
	static const char *const of[] = {"metadata.labels", "metadata.annotations", "metadata.generation"};
	note(ctx, !old || !now || !same_at(old, now, of, TD_LEN(of)));
}

void td_op_news_any(void *ctx, struct td_object *old, struct td_object *now)
{
	note(ctx, true);
}

// ---- what Slurm says ----
// Of a node that is in order and takes jobs, what jobs have there is left out. Of one that is drained, fails or comes and
// goes it stays: somebody waits for their end.
static bool plain(const struct td_slurm_node *n)
{
	const uint64_t jobs = TD_NODE(IDLE) | TD_NODE(ALLOCATED) | TD_NODE(MIXED) | TD_NODE(COMPLETING),
		       kind = TD_NODE(DYNAMIC_NORM) | TD_NODE(DYNAMIC_FUTURE);
	return !(n->states & ~jobs & ~kind);
}

uint64_t td_op_nodes_print(const struct td_slurm_nodes *l, bool jobs)
{
	uint64_t h = TD_HASH;
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_node *n = &l->v[i];
		const bool less = !jobs && plain(n);
		const char *const words[] = {n->name,    n->reason, n->comment, n->features,
					     n->address, n->gres,   n->arch,    n->active};
		const int64_t numbers[] = {
			less ? 0 : (int64_t)n->states, n->release,   n->reason_at, less ? 0 : n->busy_at, n->cpus,
			less ? 0 : n->alloc_cpus,      n->memory_mb, n->kept_cpus, n->kept_memory_mb,     n->sockets};
		for (size_t k = 0; k < TD_LEN(words); k++)
			h = td_hash(h, words[k] ? words[k] : "", words[k] ? strlen(words[k]) + 1 : 1);
		h = td_hash(h, numbers, sizeof(numbers));
	}
	return h;
}

// ---- looks ----
static int64_t cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

// Has what failed in login pods changed?
static bool logins_differ(struct td_op *op, const struct td_object *sc, struct td_op_view *v, struct td_cancel *c)
{
	bool known = v->logins.known;
	td_auto_free char *was = v->logins.failed ? td_strdup(v->logins.failed) : NULL;
	return !td_streq(was, td_op_logins_failed(op, sc, v, c)) || known != v->logins.known;
}

bool td_op_look_quiet(struct td_op *op, struct td_object *sc, struct td_op_view *v, unsigned news, int64_t *again_ms,
		      struct td_cancel *c)
{
	const struct td_op_looked *k = &v->looked;
	int64_t age = td_mono_ms(&td_clock_system) - k->end_ms, pause = td_pool_look_pause_ms(k->cpu_us, age);
	if (!k->end_ms)
		return false;
	if (pause > 0) {
		*again_ms = pause;
		return true;
	}
	struct td_pool_look l = {.news = news != k->news || !v->fresh || !v->fetched,
				 .failed = !k->done,
				 .moving = k->moving,
				 .unsettled = k->unsettled,
				 .age_ms = age,
				 .cpu_us = k->cpu_us,
				 .due_ms = k->due_ms};
	if (td_pool_look_whole(&l))
		return false;
	td_op_view_refresh(op, sc, v, 50, c);
	*again_ms = k->again_ms;
	if (k->due_ms > age && k->due_ms - age < *again_ms)
		*again_ms = k->due_ms - age;
	l.news = !v->fresh || v->print != k->print;
	l.jobs = v->jobs_print != k->jobs_print;
	return !td_pool_look_whole(&l) && !logins_differ(op, sc, v, c);
}

void td_op_look_begin(struct td_op_view *v, unsigned news)
{
	v->looked = (struct td_op_looked){.news = news, .cpu_us = cpu_us()};
	v->fresh = false;
}

void td_op_look_end(struct td_op_view *v, bool done, int64_t due_ms, int64_t *again_ms)
{
	struct td_op_looked *k = &v->looked;
	k->cpu_us = cpu_us() - k->cpu_us;
	k->end_ms = td_mono_ms(&td_clock_system);
	k->print = v->print;
	k->jobs_print = v->jobs_print;
	k->done = done;
	k->moving |= v->problem || v->trying || !v->in_force;
	k->again_ms = *again_ms;
	k->due_ms = due_ms > 0 ? due_ms : -1;
	if (due_ms > 0 && (*again_ms <= 0 || due_ms < *again_ms))
		*again_ms = due_ms;
}
