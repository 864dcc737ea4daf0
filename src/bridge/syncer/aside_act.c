// Carries out what pool/aside.h decides about the devices of one node.
#include "bridge/scheduler/want.h"
#include "bridge/syncer/aside_priv.h"
#include "bridge/syncer/hold.h"
#include "bridge/syncer/lend.h"

#include "base/log.h"

#include <string.h>

enum { AGAIN_MS = 5000, STEPS = 2 * TD_ASIDE_MAX };

// What one look at a node knows.
struct aside_pass {
	struct td_bridge *b;
	const struct td_settings *s;
	struct td_slurm *slurm;
	const struct td_object *node;
	const struct td_slurm_node *n;
	struct td_aside_of *x;
	struct td_cancel *c;
	int64_t by[TD_ASIDE_MAX];
	uint64_t want;
	size_t any;
	bool packed; // no device is free: n may be a listing old
};

static int64_t count_in(const char *gres)
{
	return gres ? td_devices_of_gres(gres, TD_ASIDE_KIND) : 0;
}

static char *job_name(const struct aside_pass *p)
{
	return td_asprintf("out-of-service-%s", p->x->node);
}

// *ret_devices: that it holds; NULL: nobody asks.
static int read_one(struct aside_pass *p, int64_t job, uint64_t *ret_devices, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	int r = td_slurm_job(p->slurm, job, p->c, &j, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	bool gone = r || td_slurm_job_ended(j.states) || !td_streq(td_aside_node(p->s, &j), p->node->name);
	td_aside_set(p->b->asides, p->x, job, gone ? NULL : &j);
	if (ret_devices)
		*ret_devices = gone ? 0 : td_aside_devices(&j);
	return 0;
}

// Reads the node's jobs again. They are few, and a job may have taken the place of one of them without a change of
// what Slurm says of the node, whose list of devices in use has no indexes there.
static int refresh(struct aside_pass *p, struct td_error *err)
{
	struct td_aside_of *x = p->x;
	int64_t job[TD_ASIDE_MAX];
	pthread_mutex_lock(&p->b->asides->lock);
	size_t n = x->n;
	memcpy(job, x->job, sizeof(job));
	pthread_mutex_unlock(&p->b->asides->lock);
	for (size_t i = 0; i < n; i++) {
		int r = read_one(p, job[i], NULL, err);
		if (r)
			return r;
	}
	return 0;
}

static void note_given(const struct td_slurm_node *n, int64_t ret[2])
{
	ret[0] = n->alloc_cpus;
	ret[1] = count_in(n->gres_used);
}

static bool same_given(const struct td_slurm_node *n, const int64_t was[2])
{
	return was[0] == n->alloc_cpus && was[1] == count_in(n->gres_used);
}

// Which device an allocation got. One that got more is given back, and none is tried before the node has changed.
static int look_at_new(struct aside_pass *p, int64_t job, const char *name, struct td_error *err)
{
	uint64_t devices;
	int r = read_one(p, job, &devices, err);
	if (r || __builtin_popcountll(devices) <= 1)
		return r;
	if ((r = td_slurm_job_end(p->slurm, job, name, p->c, err)) && r != TD_NOT_FOUND && r != TD_CONFLICT)
		return r;
	td_aside_set(p->b->asides, p->x, job, NULL);
	pthread_mutex_lock(&p->b->asides->lock);
	note_given(p->n, p->x->refuse);
	p->x->again_ms = INT64_MAX; // that partition gives whole nodes: it stays so
	pthread_mutex_unlock(&p->b->asides->lock);
	return td_fail(err, TD_INVALID,
		       "Slurm gives whole nodes there (OverSubscribe=EXCLUSIVE of partition %s), so one device cannot "
		       "leave service alone: drain the node, and remove annotation " TD_ANN_DEVICES_OUT,
		       p->n->partitions ? p->n->partitions : "?");
}

// queue: it waits, after: for the end of that job (0: for none). Else it starts at once or not at all.
static int submit(struct aside_pass *p, bool queue, int64_t after, struct td_error *err)
{
	struct td_bridge *b = p->b;
	struct td_aside_of *x = p->x;
	td_auto_free char *name = job_name(p), *depends = after ? td_asprintf("afterany:%lld", (long long)after) : NULL;
	const struct td_hold h = {.b = b,
				  .s = p->s,
				  .slurm = p->slurm,
				  .n = p->n,
				  .name = name,
				  .mark = TD_ASIDE_MARK,
				  .gres = "gres/" TD_ASIDE_KIND ":1",
				  .dependency = depends,
				  .cpus = 1,
				  .memory_mb = 1,
				  .priority = queue ? TD_HOLD_AHEAD : TD_HOLD_AT_ONCE,
				  .at_once = !queue};
	enum td_hold_is is;
	int64_t job = 0;
	int r = td_hold_submit(&h, &is, &job, p->c, err);

	pthread_mutex_lock(&b->asides->lock);
	// Whatever it was refused for: those that hold devices already must not wait for the next try.
	if (is == TD_HOLD_REFUSED) {
		if (!after) // else that job may just have ended
			note_given(p->n, queue ? x->full : x->refuse);
		if (!queue)
			x->again_ms = td_now(b) + AGAIN_MS;
	} else if (is == TD_HOLD_UNSURE) {
		x->unsure_ms = td_now(b);
	} else if (is == TD_HOLD_MADE) { // a listing may have met it already
		td_aside_add_locked(x, job, &(struct td_pool_aside_job){.device = -1, .after = after}, 0);
	}
	pthread_mutex_unlock(&b->asides->lock);

	if (r == TD_THROTTLED && !queue)
		return 0;
	return !r && !queue ? look_at_new(p, job, name, err) : r;
}

static int end(struct aside_pass *p, const int64_t *job, const bool *ends, size_t n, struct td_error *err)
{
	td_auto_free char *name = job_name(p);
	for (size_t i = 0; i < n; i++) {
		if (!ends[i])
			continue;
		int r = td_slurm_job_end(p->slurm, job[i], name, p->c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
		td_aside_set(p->b->asides, p->x, job[i], NULL);
	}
	return 0;
}

// Ends the jobs that hold these devices.
static int end_holders(struct aside_pass *p, uint64_t devices, struct td_error *err)
{
	int64_t jobs[TD_ASIDE_MAX];
	size_t n = 0;
	for (int i = 0; i < TD_ASIDE_MAX; i++) {
		bool known = !(devices >> i & 1) || p->by[i] <= 0;
		for (size_t k = 0; k < n; k++)
			known |= jobs[k] == p->by[i];
		if (!known)
			jobs[n++] = p->by[i];
	}
	char *wish = NULL;
	int r = td_aside_end_jobs(p->b, p->slurm, p->node->name, jobs, n, &wish, p->c, err);
	pthread_mutex_lock(&p->b->asides->lock);
	free(p->x->wish);
	p->x->wish = wish;
	pthread_mutex_unlock(&p->b->asides->lock);
	return r;
}

// Looks at Slurm's node itself before jobs are ended there: where a device was given out since the listing, none is free
// any more, and the one that is let go would go to whoever waits.
static int look_if_packed(struct aside_pass *p, struct td_error *err)
{
	p->packed = count_in(p->n->gres_used) >= count_in(p->n->gres);
	if (p->packed || !td_object_annotation(p->node, TD_ANN_END_DEVICES))
		return 0;
	td_auto_nodes struct td_slurm_nodes l = {0};
	int r = td_slurm_node(p->slurm, p->node->name, p->c, &l, err);
	if (!r && l.n)
		p->packed = count_in(l.v[0].gres_used) >= count_in(l.v[0].gres);
	return r;
}

// One step. *ret_again: look again soon; *ret_done: there is nothing (more) to do now.
static int step(struct aside_pass *p, bool *ret_again, bool *ret_done, struct td_error *err)
{
	struct td_aside_of *x = p->x;
	struct td_pool_aside_job v[TD_ASIDE_MAX];
	int64_t job[TD_ASIDE_MAX];
	uint64_t ending;
	if (!td_pool_aside_read(td_object_annotation(p->node, TD_ANN_END_DEVICES), &ending))
		ending = 0;
	int64_t devices = count_in(p->n->gres);
	pthread_mutex_lock(&p->b->asides->lock);
	memcpy(v, x->v, sizeof(v));
	memcpy(job, x->job, sizeof(job));
	struct td_pool_aside f = {.want = p->want,
				  .any = p->any,
				  .all = td_aside_all(devices),
				  .drained = p->n->states & TD_NODE(DRAIN),
				  .away = x->unsure_ms || td_slurm_node_bad(p->n->states) ||
					  p->n->states & (TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE_ABSENT),
				  .refused = same_given(p->n, x->refuse) && td_now(p->b) < x->again_ms,
				  .full = same_given(p->n, x->full),
				  .ending = ending,
				  .packed = p->packed,
				  .by = p->by,
				  .v = v,
				  .n = x->n};
	pthread_mutex_unlock(&p->b->asides->lock);

	struct td_pool_aside_plan plan;
	td_pool_aside_decide(&f, &plan);
	*ret_again = plan.what == TD_ASIDE_LOOK;
	*ret_done = *ret_again || plan.what == TD_ASIDE_LEAVE;
	if (*ret_done && plan.may_end)
		return end_holders(p, plan.may_end, err);
	if (plan.what == TD_ASIDE_ALLOCATE || plan.what == TD_ASIDE_QUEUE)
		return submit(p, plan.what == TD_ASIDE_QUEUE, plan.after, err);
	return plan.what == TD_ASIDE_END ? end(p, job, plan.ends, f.n, err) : 0;
}

// Which job holds which of the wanted devices, as the node's agent says: {"gpu3":17}.
static void read_by(struct aside_pass *p)
{
	const char *text = td_object_annotation(p->node, TD_ANN_DEVICES_BY);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (text)
		(void)td_json_parse(text, strlen(text), &j, NULL);
	for (int i = 0; i < TD_ASIDE_MAX; i++) {
		char key[16];
		snprintf(key, sizeof(key), TD_ASIDE_KIND "%d", i);
		p->by[i] = j ? td_jint(td_json_root(j), key, -1) : -1;
	}
}

// Tells pods of others which devices are held for them. *ret_again: one has changed meanwhile.
static int tell(struct aside_pass *p, struct td_lend *l, bool *ret_again, struct td_error *err)
{
	struct td_aside_of *x = p->x;
	uint64_t devices, spare = td_aside_held(p->b, p->node->name) & ~p->want;
	size_t i;
	while ((i = td_pool_lend_next(l->v, l->n, spare, &devices)) < l->n) {
		int64_t last[2] = {0, 0};
		pthread_mutex_lock(&p->b->asides->lock);
		for (size_t k = 0; k < x->n; k++) {
			if (x->v[k].device < 0 || !(devices & (uint64_t)1 << x->v[k].device))
				continue;
			last[0] = x->job[k] > last[0] ? x->job[k] : last[0];
			last[1] = x->start[k] > last[1] ? x->start[k] : last[1];
		}
		pthread_mutex_unlock(&p->b->asides->lock);
		int r = td_lend_tell(p->b, p->s, l->pod[i], devices, last, p->c, err);
		if (r == TD_CONFLICT) { // of its status, most often, which queues no node (shadow.c)
			*ret_again = true;
			return 0;
		}
		if (r)
			return td_wrap(err, "pod %s/%s", l->pod[i]->ns, l->pod[i]->name);
		l->v[i].has = devices;
		spare &= ~devices;
	}
	return 0;
}

int td_aside_sync(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *n, bool *ret_again,
		  struct td_cancel *c, struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	uint64_t want;
	if (!s || !n)
		return 0;
	if (!td_pool_aside_both(td_object_annotation(node, TD_ANN_DEVICES_OUT),
				td_object_annotation(node, TD_ANN_DEVICES_HOLD), &want))
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_DEVICES_OUT
			       ": give devices with commas between them, such as " TD_ASIDE_KIND "0," TD_ASIDE_KIND
			       "3");

	__attribute__((cleanup(td_lend_done))) struct td_lend lend;
	int r = td_lend_read(b, s, node, &lend, c, err);
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *held = td_aside_of_locked(b->asides, node->name, false);
	bool none = !held || !held->n;
	pthread_mutex_unlock(&b->asides->lock);
	if (r && !none) // a driver that starts anew tells nothing for a while
		return td_wrap(err, "who has the devices of node %s that are held", node->name);
	struct aside_pass p = {
		.b = b, .s = s, .node = node, .n = n, .c = c, .want = want | lend.sum.want, .any = lend.sum.any};
	pthread_mutex_lock(&b->asides->lock);
	struct td_aside_of *x = p.x = td_aside_of_locked(b->asides, node->name, p.want || p.any);
	bool idle = !x || (!p.want && !p.any && !x->n);
	if (x) {
		free(x->wish); // found again by the last step
		x->wish = NULL;
		td_aside_wants(x, want, lend.sum.want);
		x->any = p.any;
	}
	if (x && x->unsure_ms && b->asides->listed_ms > x->unsure_ms)
		x->unsure_ms = 0;
	pthread_mutex_unlock(&b->asides->lock);
	if (idle)
		return 0;
	td_auto_free char *before = td_aside_text(b, node->name);

	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return err->code;
	p.slurm = l->slurm;
	read_by(&p);
	bool done = false, again = false;
	r = refresh(&p, err);
	if (!r)
		r = look_if_packed(&p, err);
	for (int i = 0; !r && !done && i < STEPS; i++)
		r = step(&p, &again, &done, err);
	if (!r)
		r = tell(&p, &lend, ret_again, err);
	*ret_again |= again || !done;
	// What waits for the return of a drained node is not back in service.
	bool waits = want && n->states & TD_NODE(DRAIN);
	td_auto_free char *text = td_aside_text(b, node->name);
	if (!td_streq(text, before) && !waits) {
		td_info("node %s: out of service: %s", node->name, text ? text : "nothing any more");
		td_kube_record(b->recorder, TD_ABOUT(node, &td_nodes), "Normal", "DevicesOut",
			       "out of service in Slurm: %s", text ? text : "none any more");
	}
	return r;
}

int td_aside_gone(struct td_bridge *b, const char *node, struct td_cancel *c, struct td_error *err)
{
	bool ends[TD_ASIDE_MAX];
	int64_t job[TD_ASIDE_MAX];
	memset(ends, true, sizeof(ends));
	pthread_mutex_lock(&b->asides->lock);
	struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	size_t n = x ? x->n : 0;
	if (x)
		memcpy(job, x->job, sizeof(job));
	pthread_mutex_unlock(&b->asides->lock);

	td_auto(td_link_unref) struct td_link *l = n ? td_bridge_link(b, err) : NULL;
	if (n && !l)
		return err->code;
	struct aside_pass p = {.b = b, .x = x, .slurm = l ? l->slurm : NULL, .c = c};
	int r = n ? end(&p, job, ends, n, err) : 0;
	pthread_mutex_lock(&b->asides->lock);
	if (x && !x->n && !x->unsure_ms) {
		HASH_DEL(b->asides->by_node, x);
		free(x->wish);
		free(x->node);
		free(x);
	}
	pthread_mutex_unlock(&b->asides->lock);
	return r;
}
