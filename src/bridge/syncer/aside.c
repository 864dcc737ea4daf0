// Devices that are out of service one by one (aside.h).
#include "bridge/syncer/aside.h"
#include "bridge/scheduler/want.h"
#include "bridge/syncer/hold.h"

#include "base/log.h"
#include "pool/aside.h"
#include "slurm/hostlist.h"

#include <string.h>
#include <uthash.h>

#define KIND "gpu"

enum { AGAIN_MS = 5000, STEPS = 2 * TD_ASIDE_MAX, GRES_MOST = 16 };

struct aside_of { // one node
	char *node;
	struct td_pool_aside_job v[TD_ASIDE_MAX];
	int64_t job[TD_ASIDE_MAX], cpus[TD_ASIDE_MAX]; // of v
	size_t n;
	int64_t refuse[2]; // what the node had given out when Slurm refused an allocation: CPUs, GPUs; -1: it did not
	int64_t again_ms;  // mono: then it is tried again all the same; a reservation may have been in the way
	int64_t full[2];   // the same of a job that waits
	char *wish;        // td_aside_wish(); NULL: none
	int64_t unsure_ms; // mono: a submit may have happened; a listing that begins later tells. 0: none
	UT_hash_handle hh;
};
struct td_asides {
	pthread_mutex_t lock; // guards everything here. A node's jobs are changed by its reconcile, and by listings
	struct aside_of *by_node;
	int64_t listed_ms;
};
// What one look at a node knows.
struct aside_pass {
	struct td_bridge *b;
	const struct td_settings *s;
	struct td_slurm *slurm;
	const struct td_object *node;
	const struct td_slurm_node *n;
	struct aside_of *x;
	struct td_cancel *c;
	int64_t by[TD_ASIDE_MAX];
};

struct td_asides *td_asides_new(void)
{
	struct td_asides *a = td_calloc(1, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

struct td_asides *td_asides_free(struct td_asides *a)
{
	struct aside_of *x, *tmp;
	if (!a)
		return NULL;
	HASH_ITER (hh, a->by_node, x, tmp) {
		HASH_DEL(a->by_node, x);
		free(x->wish);
		free(x->node);
		free(x);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}

static struct aside_of *of_locked(struct td_asides *a, const char *node, bool make)
{
	struct aside_of *x = NULL;
	HASH_FIND_STR(a->by_node, node, x);
	if (x || !make)
		return x;
	x = td_calloc(1, sizeof(*x));
	x->node = td_strdup(node);
	x->refuse[0] = x->full[0] = -1;
	HASH_ADD_KEYPTR(hh, a->by_node, x->node, strlen(x->node), x);
	return x;
}

// The devices of this kind in a text of Slurm's, "gpu:2(IDX:0,2)".
static uint64_t devices_in(const char *gres)
{
	struct td_gres g[GRES_MOST];
	struct td_ranges r;
	size_t n = 0;
	uint64_t mask = 0;
	if (!gres || td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(g[i].name, KIND) && !td_ranges_parse(g[i].index, &r, NULL))
			mask |= r.bits[0];
	return mask;
}

static int64_t count_in(const char *gres)
{
	return gres ? td_devices_of_gres(gres, KIND) : 0;
}

static uint64_t mask_of(const struct td_slurm_job *j)
{
	return j->n_nodes ? devices_in(j->nodes[0].gres) : 0;
}

// The device that it holds; below 0: it waits.
static int device_of(const struct td_slurm_job *j)
{
	uint64_t mask = mask_of(j);
	return mask ? __builtin_ctzll(mask) : -1;
}

// For whose end one waits that was found in a listing: 0, for nobody's; below 0, not known.
static int64_t waits_for(const struct td_slurm_job *j)
{
	return td_streq(j->reason, "Dependency") ? -1 : 0;
}

const char *td_aside_node(const struct td_settings *s, const struct td_slurm_job *j)
{
	return td_hold_node(s, j, TD_ASIDE_MARK);
}

// Of v; below 0: it is not known.
static int at_locked(const struct aside_of *x, int64_t job)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->job[i] == job)
			return (int)i;
	return -1;
}

// False: it was known already.
static bool add_locked(struct aside_of *x, int64_t job, const struct td_pool_aside_job *is, int64_t cpus)
{
	int at = at_locked(x, job);
	if (at >= 0 && is->after > 0)
		x->v[at].after = is->after;
	if (at >= 0 || x->n == TD_ASIDE_MAX)
		return false;
	x->v[x->n] = *is;
	x->cpus[x->n] = cpus;
	x->job[x->n++] = job;
	return true;
}

// Slurm gives whole cores, which may be more than was asked for.
static int64_t cpus_of(const struct td_slurm_job *j)
{
	return j->n_nodes ? j->nodes[0].cpus : 0;
}

void td_aside_found(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j)
{
	const char *node = td_aside_node(s, j);
	if (!node || td_slurm_job_ended(j->states))
		return;
	pthread_mutex_lock(&b->asides->lock);
	struct aside_of *x = of_locked(b->asides, node, true);
	bool is_new = add_locked(x, j->id, &(struct td_pool_aside_job){device_of(j), waits_for(j)}, cpus_of(j));
	pthread_mutex_unlock(&b->asides->lock);
	if (is_new)
		td_queue_add(b->node_queue, node);
}

void td_asides_listed(struct td_bridge *b, int64_t began_ms)
{
	td_auto_strv struct td_strv nodes = {0};
	struct aside_of *x, *tmp;
	pthread_mutex_lock(&b->asides->lock);
	b->asides->listed_ms = began_ms;
	HASH_ITER (hh, b->asides->by_node, x, tmp)
		if (x->unsure_ms)
			td_strv_add(&nodes, x->node);
	pthread_mutex_unlock(&b->asides->lock);
	for (size_t i = 0; i < nodes.n; i++)
		td_queue_add(b->node_queue, nodes.v[i]);
}

static uint64_t held(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->asides->lock);
	const struct aside_of *x = of_locked(b->asides, node, false);
	uint64_t mask = x ? td_pool_aside_held(x->v, x->n) : 0;
	pthread_mutex_unlock(&b->asides->lock);
	return mask;
}

char *td_aside_text(struct td_bridge *b, const char *node)
{
	return td_pool_aside_write(held(b, node));
}

void td_aside_holds(struct td_bridge *b, const char *node, int64_t *ret_devices, int64_t *ret_cpus)
{
	*ret_devices = *ret_cpus = 0;
	pthread_mutex_lock(&b->asides->lock);
	const struct aside_of *x = of_locked(b->asides, node, false);
	if (x)
		*ret_devices = __builtin_popcountll(td_pool_aside_held(x->v, x->n));
	for (size_t i = 0; x && i < x->n; i++)
		*ret_cpus += x->v[i].device < 0 ? 0 : x->cpus[i];
	pthread_mutex_unlock(&b->asides->lock);
}

char *td_aside_wish(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->asides->lock);
	const struct aside_of *x = of_locked(b->asides, node, false);
	char *wish = x && x->wish ? td_strdup(x->wish) : NULL;
	pthread_mutex_unlock(&b->asides->lock);
	return wish;
}

static uint64_t all_of(int64_t devices)
{
	return devices >= TD_ASIDE_MAX ? ~(uint64_t)0 : ((uint64_t)1 << devices) - 1;
}

int64_t td_aside_unmissed(struct td_bridge *b, const struct td_object *node, int64_t devices)
{
	uint64_t want;
	if (devices > 0)
		td_pool_aside_both(td_object_annotation(node, TD_ANN_DEVICES_OUT),
				   td_object_annotation(node, TD_ANN_DEVICES_HOLD), &want);
	// On a drained node they wait for its return, which must not wait for them.
	return devices <= 0 ? 0 : __builtin_popcountll((want | held(b, node->name)) & all_of(devices));
}

// ---- a node ----

static char *job_name(const struct aside_pass *p)
{
	return td_asprintf("out-of-service-%s", p->x->node);
}

// What is known of the job now; j NULL: it is gone.
static void set(struct aside_pass *p, int64_t job, const struct td_slurm_job *j)
{
	struct aside_of *x = p->x;
	pthread_mutex_lock(&p->b->asides->lock);
	int at = at_locked(x, job);
	if (at >= 0 && j) {
		x->v[at].device = device_of(j);
		x->cpus[at] = cpus_of(j);
	} else if (at >= 0) {
		x->n--;
		x->v[at] = x->v[x->n];
		x->job[at] = x->job[x->n];
		x->cpus[at] = x->cpus[x->n];
	}
	pthread_mutex_unlock(&p->b->asides->lock);
}

// *ret_devices: that it holds; NULL: nobody asks.
static int read_one(struct aside_pass *p, int64_t job, uint64_t *ret_devices, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	int r = td_slurm_job(p->slurm, job, p->c, &j, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	bool gone = r || td_slurm_job_ended(j.states) || !td_streq(td_aside_node(p->s, &j), p->node->name);
	set(p, job, gone ? NULL : &j);
	if (ret_devices)
		*ret_devices = gone ? 0 : mask_of(&j);
	return 0;
}

// Reads the node's jobs again. They are few, and a job may have taken the place of one of them without a change of
// what Slurm says of the node, whose list of devices in use has no indexes there.
static int refresh(struct aside_pass *p, struct td_error *err)
{
	struct aside_of *x = p->x;
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
	set(p, job, NULL);
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
	struct aside_of *x = p->x;
	td_auto_free char *name = job_name(p), *depends = after ? td_asprintf("afterany:%lld", (long long)after) : NULL;
	const struct td_hold h = {.b = b,
				  .s = p->s,
				  .slurm = p->slurm,
				  .n = p->n,
				  .name = name,
				  .mark = TD_ASIDE_MARK,
				  .gres = "gres/" KIND ":1",
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
		add_locked(x, job, &(struct td_pool_aside_job){.device = -1, .after = after}, 0);
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
		set(p, job[i], NULL);
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
	int r = td_aside_end_jobs(p->b, p->slurm, jobs, n, &wish, p->c, err);
	pthread_mutex_lock(&p->b->asides->lock);
	free(p->x->wish);
	p->x->wish = wish;
	pthread_mutex_unlock(&p->b->asides->lock);
	return r;
}

// One step. *ret_again: look again soon; *ret_done: there is nothing (more) to do now.
static int step(struct aside_pass *p, uint64_t want, bool *ret_again, bool *ret_done, struct td_error *err)
{
	uint64_t ending;
	if (!td_pool_aside_read(td_object_annotation(p->node, TD_ANN_END_DEVICES), &ending))
		ending = 0;
	struct aside_of *x = p->x;
	struct td_pool_aside_job v[TD_ASIDE_MAX];
	int64_t job[TD_ASIDE_MAX];
	int64_t devices = count_in(p->n->gres);
	pthread_mutex_lock(&p->b->asides->lock);
	memcpy(v, x->v, sizeof(v));
	memcpy(job, x->job, sizeof(job));
	struct td_pool_aside f = {.want = want,
				  .all = all_of(devices),
				  .drained = p->n->states & TD_NODE(DRAIN),
				  .away = x->unsure_ms || td_slurm_node_bad(p->n->states) ||
					  p->n->states & (TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE_ABSENT),
				  .refused = same_given(p->n, x->refuse) && td_now(p->b) < x->again_ms,
				  .full = same_given(p->n, x->full),
				  .ending = ending,
				  .packed = count_in(p->n->gres_used) >= devices,
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
		snprintf(key, sizeof(key), KIND "%d", i);
		p->by[i] = j ? td_jint(td_json_root(j), key, -1) : -1;
	}
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
			       "annotation " TD_ANN_DEVICES_OUT ": give devices with commas between them, such as " KIND
			       "0," KIND "3");

	struct aside_pass p = {.b = b, .s = s, .node = node, .n = n, .c = c};
	pthread_mutex_lock(&b->asides->lock);
	struct aside_of *x = p.x = of_locked(b->asides, node->name, want != 0);
	bool idle = !x || (!want && !x->n);
	if (x) { // found again by the last step
		free(x->wish);
		x->wish = NULL;
	}
	uint64_t before = x ? td_pool_aside_held(x->v, x->n) : 0;
	if (x && x->unsure_ms && b->asides->listed_ms > x->unsure_ms)
		x->unsure_ms = 0;
	pthread_mutex_unlock(&b->asides->lock);
	if (idle)
		return 0;

	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return err->code;
	p.slurm = l->slurm;
	read_by(&p);
	bool done = false, again = false;
	int r = refresh(&p, err);
	for (int i = 0; !r && !done && i < STEPS; i++)
		r = step(&p, want, &again, &done, err);
	*ret_again |= again || !done;
	// What waits for the return of a drained node is not back in service.
	bool waits = want && n->states & TD_NODE(DRAIN);
	if (held(b, node->name) != before && !waits) {
		td_auto_free char *text = td_aside_text(b, node->name);
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
	struct aside_of *x = of_locked(b->asides, node, false);
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
