// Carries out what pool/shadow.h decides about the shadows of one node.
#include "bridge/scheduler/placeholder.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/entrance.h"
#include "bridge/syncer/lend.h"
#include "bridge/syncer/shadow_priv.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"

#include <string.h>

enum { STEPS = 8, PODS_NAMED = 3 }; // STEPS: in one reconcile

struct shadow_pass {
	struct td_bridge *b;
	const struct td_settings *s;
	const struct td_object *node;
	const struct td_slurm_node *n;
	struct td_shadow_of *x; // of the table; lock it
	struct td_slurm *slurm;
	struct td_cancel *c;
	struct td_shadow_wants now;
};

static int64_t of_share(const yyjson_val *share, const char *key, bool milli)
{
	int64_t v = 0;
	const char *q = td_jkey_str(share, key);
	if (q)
		(void)(milli ? td_quantity_milli(q, &v, NULL) : td_quantity_ceil(q, &v, NULL));
	return v;
}

// Pods may ask for anything: what is too much to count must not become little.
static void add(int64_t *io, int64_t n)
{
	if (__builtin_add_overflow(*io, n, io))
		*io = INT64_MAX;
}

bool td_shadow_want_of(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		       const struct td_objects *there, struct td_shadow_wants *ret)
{
	const char *text = td_object_annotation(node, TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *share = NULL;
	ret->want = (struct td_pool_size){0};
	td_buf_done(&ret->pods);
	if (!s->shadows)
		return true;
	if (!text || td_json_parse(text, strlen(text), &share, NULL))
		return false;

	yyjson_val *alloc = td_jget(node->root, "status.allocatable");
	struct td_pool_reserve v = {.share_cpus = of_share(td_json_root(share), "cpu", true) / 1000,
				    .share_memory_mb = of_share(td_json_root(share), "memory", false) >> 20};
	td_quantity_milli(td_jstr_or(alloc, "cpu", "0"), &v.cpu_milli, NULL);
	td_quantity_ceil(td_jstr_or(alloc, "memory", "0"), &v.memory, NULL);

	size_t named = 0;
	int64_t devices = 0;
	for (size_t i = 0; i < there->n; i++) {
		const struct td_object *o = there->v[i];
		yyjson_val *spec = td_jget(o->root, "spec");
		if (td_kube_pod_ended(o->root) || td_streq(td_jstr(spec, "schedulerName"), s->scheduler) ||
		    td_place_is(b, o)) // what a placeholder asks for is Slurm's own
			continue;
		add(&v.others_milli, td_api_pod_request(spec, "cpu"));
		add(&v.others_memory, td_api_pod_request(spec, "memory"));
		devices += td_lend_wants(b, s, node, o);
		if (!td_streq(o->ns, b->o.ns) && td_api_pod_request(spec, "cpu") && named++ < PODS_NAMED)
			td_buf_printf(&ret->pods, "%s%s/%s", ret->pods.len ? ", " : "", o->ns, o->name);
	}
	if (named > PODS_NAMED)
		td_buf_printf(&ret->pods, " and %zu more", named - PODS_NAMED);
	ret->want = td_pool_shadow_want(&v);
	ret->over = v.others_milli > v.cpu_milli || v.others_memory > v.memory;

	// The jobs that hold their devices have some of these CPUs.
	struct td_aside_lent lent;
	td_aside_lent(b, node->name, &lent);
	devices -= __builtin_popcountll(lent.held);
	int64_t theirs = lent.cpus + (devices > 0 ? devices : 0), *cpus = &ret->want.cpus;
	*cpus = *cpus > theirs + 1 ? *cpus - theirs : *cpus ? 1 : 0;
	return true;
}

// Before less is held: shows it on the Node, and counts the pods there anew. A kubelet that lets pods wait for
// their shadow reads the Node before it lets one start. Either it has read it before this, and the pod is in the
// list, or it reads what is held then. *ret_more: there are more pods than was known, and the jobs must stay.
static int fence(struct shadow_pass *p, struct td_pool_size left, bool *ret_more, struct td_error *err)
{
	*ret_more = false;
	if (!p->s->shadows)
		return 0; // nothing waits for them any more

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *text = td_shadow_text_with(p->b, p->node->name, &left);
	td_jm_str(d, root, "metadata.uid", p->node->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_SHADOW, text);
	int r = td_kube_patch(p->b->kube, TD_AT(&td_nodes, NULL, p->node->name), TD_PATCH_MERGE, root, p->c, NULL, err);

	td_auto_free char *fields = td_asprintf("spec.nodeName=%s", p->node->name);
	td_auto_objects struct td_objects there = {0};
	if (!r)
		r = td_kube_list(p->b->kube, &td_pods, NULL, NULL, fields, p->c, &there, err);
	if (!r)
		td_entrance_promised(p->b, p->node->name, false, &there);
	if (r || !td_shadow_want_of(p->b, p->s, p->node, &there, &p->now))
		return r;
	const struct td_pool_size want = p->now.want;
	pthread_mutex_lock(&p->b->shadows->lock);
	struct td_pool_size *known = &p->x->want;
	*ret_more = want.cpus > known->cpus || want.memory_mb > known->memory_mb;
	*known = *ret_more ? want : *known;
	pthread_mutex_unlock(&p->b->shadows->lock);
	return 0;
}

// Drops the job from the table.
static void gone(const struct shadow_pass *p, int64_t job)
{
	struct td_shadow_of *x = p->x;
	pthread_mutex_lock(&p->b->shadows->lock);
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].job == job) {
			x->v[i] = x->v[--x->n];
			break;
		}
	pthread_mutex_unlock(&p->b->shadows->lock);
}

static char *job_name(const struct shadow_pass *p)
{
	return td_asprintf("foreign-pods-%s", p->node->name);
}

// Reads the node's jobs again if one of them may have changed.
static int refresh(struct shadow_pass *p, struct td_error *err)
{
	struct td_shadow_of *x = p->x;
	struct td_shadow_job v[TD_SHADOWS_MAX];
	pthread_mutex_lock(&p->b->shadows->lock);
	size_t n = x->n;
	bool waits = false, moved = x->seen[0] != p->n->alloc_cpus || x->seen[1] != p->n->alloc_memory_mb;
	memcpy(v, x->v, sizeof(v));
	for (size_t i = 0; i < n; i++)
		waits |= !v[i].is.runs;
	pthread_mutex_unlock(&p->b->shadows->lock);
	if (!moved && !waits)
		return 0;

	for (size_t i = 0; i < n; i++) {
		td_auto_job struct td_slurm_job j = {0};
		int r = td_slurm_job(p->slurm, v[i].job, p->c, &j, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		if (r || td_slurm_job_ended(j.states) || !td_streq(td_shadow_node(p->s, &j), p->node->name)) {
			gone(p, v[i].job);
			continue;
		}
		enum td_job_phase phase = td_job_phase(j.states);
		pthread_mutex_lock(&p->b->shadows->lock);
		for (size_t k = 0; k < x->n; k++) {
			if (x->v[k].job != v[i].job)
				continue;
			x->v[k].is.runs = phase != TD_PHASE_WAITING;
			x->v[k].is.ahead = phase == TD_PHASE_WAITING && j.priority >= TD_HOLD_AHEAD;
			x->v[k].start = j.start;
			if (j.n_nodes)
				x->v[k].is.has = (struct td_pool_size){j.nodes[0].cpus, j.nodes[0].memory_mb};
		}
		pthread_mutex_unlock(&p->b->shadows->lock);
	}
	pthread_mutex_lock(&p->b->shadows->lock);
	x->seen[0] = p->n->alloc_cpus;
	x->seen[1] = p->n->alloc_memory_mb;
	pthread_mutex_unlock(&p->b->shadows->lock);
	return 0;
}

static int submit(struct shadow_pass *p, const struct td_pool_shadow_plan *plan, struct td_error *err)
{
	struct td_bridge *b = p->b;
	struct td_shadow_of *x = p->x;
	bool at_once = plan->what == TD_SHADOW_ALLOCATE;
	td_auto_free char *name = job_name(p);
	const struct td_hold h = {.b = b,
				  .s = p->s,
				  .slurm = p->slurm,
				  .n = p->n,
				  .name = name,
				  .mark = TD_SHADOW_MARK,
				  .cpus = plan->size.cpus,
				  .memory_mb = plan->size.memory_mb,
				  .priority = at_once       ? TD_HOLD_AT_ONCE
					      : plan->ahead ? TD_HOLD_AHEAD
							    : TD_HOLD_WAITS,
				  .at_once = at_once};
	enum td_hold_is is;
	int64_t job = 0;
	int r = td_hold_submit(&h, &is, &job, p->c, err);

	pthread_mutex_lock(&b->shadows->lock);
	if (r == TD_THROTTLED && at_once) {
		x->refuse[0] = p->n->alloc_cpus;
		x->refuse[1] = p->n->alloc_memory_mb;
	} else if (is == TD_HOLD_UNSURE) {
		x->unsure_ms = td_now(b);
	} else if (is == TD_HOLD_MADE) {
		bool known = false; // a listing may have met it already
		for (size_t i = 0; i < x->n; i++)
			known |= x->v[i].job == job;
		if (!known && x->n < TD_SHADOWS_MAX)
			x->v[x->n++] = (struct td_shadow_job){.job = job, .is = {plan->size, at_once, plan->ahead}};
		x->seen[0] = -1;
	}
	pthread_mutex_unlock(&b->shadows->lock);

	if (!r)
		td_info("node %s: job %lld %s %lld CPUs and %lld MiB that pods of others hold", p->node->name,
			(long long)job, at_once ? "holds" : "waits for", (long long)plan->size.cpus,
			(long long)plan->size.memory_mb);
	return r == TD_THROTTLED && at_once ? 0 : r;
}

// jobs: of v.
static int end(struct shadow_pass *p, const struct td_pool_shadow_job *v, const int64_t *jobs, size_t n,
	       const bool *ends, struct td_error *err)
{
	struct td_pool_size left = td_pool_shadow_held(v, n);
	bool less = false, more = false;
	for (size_t i = 0; i < n; i++) {
		if (!ends[i] || !v[i].runs)
			continue;
		less = true;
		left.cpus -= v[i].has.cpus;
		left.memory_mb -= v[i].has.memory_mb;
	}
	int f = less ? fence(p, left, &more, err) : 0;
	if (f || more)
		return f;

	td_auto_free char *name = job_name(p);
	for (size_t i = 0; i < n; i++) {
		if (!ends[i])
			continue;
		int r = td_slurm_job_end(p->slurm, jobs[i], name, p->c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
		td_info("node %s: job %lld, which held what pods of others hold, ends", p->node->name,
			(long long)jobs[i]);
		gone(p, jobs[i]);
	}
	return 0;
}

// Says on the Node what is given twice, and that it is over.
static void say(struct shadow_pass *p)
{
	struct td_shadow_of *x = p->x;
	struct td_pool_shadow_job v[TD_SHADOWS_MAX];
	int64_t start = 0;
	pthread_mutex_lock(&p->b->shadows->lock);
	for (size_t i = 0; i < x->n; i++) {
		v[i] = x->v[i].is;
		start = !v[i].runs && x->v[i].start > start ? x->v[i].start : start;
	}
	const struct td_pool_size twice = td_pool_shadow_missing(x->there, td_pool_shadow_held(v, x->n));
	bool any = twice.cpus || twice.memory_mb, away = p->n->states & TD_NODE(DRAIN);
	char *text = NULL, when[TD_TIME_LEN];
	if (any && !away)
		text = td_asprintf(
			"%lld CPUs and %lld MiB there are given twice: pods that Slurm did not place hold "
			"them (%s), and so do its jobs; nothing new starts there until enough of either have "
			"ended",
			(long long)twice.cpus, (long long)twice.memory_mb, td_buf_str(&p->now.pods));
	bool same = td_streq(text, x->said), was = x->said;
	if (!same) {
		free(x->said);
		x->said = text ? td_strdup(text) : NULL;
	}
	pthread_mutex_unlock(&p->b->shadows->lock);

	if (!same && text && start)
		td_kube_record(p->b->recorder, TD_ABOUT(p->node, &td_nodes), "Warning", "GivenTwice",
			       "%s (Slurm expects that at %s)", text, td_time_format(start * 1000, when));
	else if (!same && text)
		td_kube_record(p->b->recorder, TD_ABOUT(p->node, &td_nodes), "Warning", "GivenTwice", "%s", text);
	else if (!same && was)
		td_kube_record(p->b->recorder, TD_ABOUT(p->node, &td_nodes), "Normal", "GivenOnce",
			       "nothing there is given twice any more");
	free(text);
}

// One step. *ret_done: there is nothing (more) to do.
static int step(struct shadow_pass *p, bool known, bool *ret_done, struct td_error *err)
{
	struct td_shadow_of *x = p->x;
	struct td_pool_shadow_job v[TD_SHADOWS_MAX];
	int64_t jobs[TD_SHADOWS_MAX];
	pthread_mutex_lock(&p->b->shadows->lock);
	size_t n = x->n;
	int64_t mine = 0, mine_mb = 0;
	for (size_t i = 0; i < n; i++) {
		v[i] = x->v[i].is;
		jobs[i] = x->v[i].job;
		mine += v[i].runs ? v[i].has.cpus : 0;
		mine_mb += v[i].runs ? v[i].has.memory_mb : 0;
	}
	struct td_pool_shadow f = {.want = x->want,
				   .all = {p->n->cpus, p->n->memory_mb},
				   .closed = p->n->states & TD_NODE(DRAIN),
				   .away = !known || x->unsure_ms || td_slurm_node_bad(p->n->states) ||
					   (p->n->states & (TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE_ABSENT)),
				   .refused = x->refuse[0] == p->n->alloc_cpus && x->refuse[1] == p->n->alloc_memory_mb,
				   .v = v,
				   .n = n};
	pthread_mutex_unlock(&p->b->shadows->lock);
	// Not known is not nothing: a bridge that has just begun to lead has no older answer, and must not end what is held.
	if (!known && !f.closed) {
		*ret_done = true;
		return 0;
	}
	// Slurm's sums lag behind what was just allocated, so they may be less than the shadows themselves.
	int64_t given = p->n->alloc_cpus > mine ? p->n->alloc_cpus : mine,
		given_mb = p->n->alloc_memory_mb > mine_mb ? p->n->alloc_memory_mb : mine_mb;
	f.free = (struct td_pool_size){p->n->cpus - given, p->n->memory_mb - given_mb};

	struct td_pool_shadow_plan plan;
	td_pool_shadow_decide(&f, &plan);
	*ret_done = plan.what == TD_SHADOW_LEAVE;
	switch (plan.what) {
	case TD_SHADOW_LEAVE:
		return 0;
	case TD_SHADOW_ALLOCATE:
	case TD_SHADOW_QUEUE:
		return submit(p, &plan, err);
	case TD_SHADOW_END:
		return end(p, v, jobs, n, plan.ends, err);
	}
	return 0;
}

int td_shadow_sync(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *n, bool *ret_again,
		   struct td_cancel *c, struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	if (!s || !n)
		return 0;
	struct shadow_pass p = {.b = b, .s = s, .node = node, .n = n, .c = c};
	td_auto_objects struct td_objects there = {0};
	td_informer_by_index(b->others, "node", node->name, &there);
	td_entrance_promised(b, node->name, true, &there);
	const size_t n_there = there.n;
	td_entrance_promised(b, node->name, false, &there);
	bool known = td_shadow_want_of(b, s, node, &there, &p.now);
	struct td_pool_size without = p.now.want;
	if (known && there.n > n_there) { // the words are about those that are there
		struct td_objects some = {.v = there.v, .n = n_there};
		struct td_pool_size all = p.now.want;
		known = td_shadow_want_of(b, s, node, &some, &p.now);
		without = p.now.want;
		p.now.want = all;
	}

	pthread_mutex_lock(&b->shadows->lock);
	struct td_shadow_of *x = p.x = td_shadow_of_locked(b->shadows, node->name);
	x->on = s->shadows;
	x->want = known ? p.now.want : x->want;
	x->there = known ? without : x->there;
	if (x->unsure_ms && b->shadows->listed_ms > x->unsure_ms)
		x->unsure_ms = 0;
	bool idle = !x->n && !x->want.cpus && !x->said;
	pthread_mutex_unlock(&b->shadows->lock);

	td_auto(td_link_unref) struct td_link *l = idle ? NULL : td_bridge_link(b, err);
	int r = idle ? 0 : l ? 0 : err->code;
	if (l) {
		p.slurm = l->slurm;
		bool done = false;
		r = refresh(&p, err);
		for (int i = 0; !r && !done && i < STEPS; i++)
			r = step(&p, known, &done, err);
		say(&p);
		pthread_mutex_lock(&b->shadows->lock);
		bool waits = !done || x->seen[0] < 0;
		for (size_t i = 0; i < x->n; i++)
			waits |= !x->v[i].is.runs;
		*ret_again = waits;
		pthread_mutex_unlock(&b->shadows->lock);
	}
	td_buf_done(&p.now.pods);
	if (!r && known)
		r = td_entrance_open(b, s, node, n, c, err);
	return r;
}
