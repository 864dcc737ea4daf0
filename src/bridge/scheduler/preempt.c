// Takes room from those whom a pod may preempt (preempt.h).
#include "bridge/scheduler/preempt.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow.h"

#include "base/log.h"
#include "slurm/hostlist.h"

#include <limits.h>
#include <string.h>

enum { NATIVE_MAX = 256, READS_MAX = 64, VICTIMS_MAX = 32, HOLDERS_MAX = 2048, BUSY_MS = 20, FIRST_LOOK_MS = 5 };

// One preemption that goes on.
struct going {
	char uid[40];
	char node[256];
	int tries;
	bool looked;      // the victims of the last try were looked for
	int64_t since_ms; // mono: the first try
	int64_t grace_s;  // epoch, seconds: until then the last victim has its grace; 0: none has
	int64_t victims[VICTIMS_MAX];
	size_t n_victims;
	struct going *next;
};
struct td_preempts {
	pthread_mutex_t lock; // guards everything here
	struct going *all;
	// Records of native jobs that run. Taken out while somebody works with them.
	struct td_slurm_job *natives;
	size_t n_natives;
	bool taken;
};

struct td_preempts *td_preempts_new(void)
{
	struct td_preempts *p = td_calloc(1, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	p->natives = td_calloc(NATIVE_MAX, sizeof(*p->natives));
	return p;
}

struct td_preempts *td_preempts_free(struct td_preempts *p)
{
	if (!p)
		return NULL;
	while (p->all) {
		struct going *g = p->all;
		p->all = g->next;
		free(g);
	}
	for (size_t i = 0; i < p->n_natives; i++)
		td_slurm_job_done(&p->natives[i]);
	free(p->natives);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

static struct going *find_locked(struct td_preempts *p, const char *uid)
{
	struct going *g = p->all;
	while (g && strcmp(g->uid, uid) != 0)
		g = g->next;
	return g;
}

void td_preempt_refused(struct td_bridge *b, struct td_ask *a, const struct td_error *e)
{
	struct td_preempts *p = b->preempts;
	pthread_mutex_lock(&p->lock);
	struct going *g = find_locked(p, a->uid);
	if (g) {
		// Others of a higher priority wait: nobody was preempted, and the pod stands in line.
		g->tries = e->detail == TD_SLURM_ERR_NOT_TOP ? INT_MAX : g->tries + 1;
		g->looked = false;
		if (!g->since_ms)
			g->since_ms = td_now(b);
	}
	pthread_mutex_unlock(&p->lock);
}

void td_preempt_over(struct td_bridge *b, struct td_ask *a)
{
	struct td_preempts *p = b->preempts;
	pthread_mutex_lock(&p->lock);
	for (struct going **at = &p->all; *at; at = &(*at)->next)
		if (!strcmp((*at)->uid, a->uid)) {
			struct going *g = *at;
			*at = g->next;
			free(g);
			break;
		}
	pthread_mutex_unlock(&p->lock);
}

// ---- who holds what ----
struct holders {
	struct td_pool_holder *v;
	int64_t *jobs; // of each
	size_t n;
};

static void holders_done(struct holders *h)
{
	free(h->v);
	free(h->jobs);
}

static void add(struct holders *h, int64_t job, const struct td_pool_holder *x)
{
	if (h->n == HOLDERS_MAX)
		return;
	h->jobs[h->n] = job;
	h->v[h->n++] = *x;
}

static int node_at(const struct td_slurm_nodes *l, const char *name)
{
	const struct td_slurm_node *x = name ? td_slurm_node_find(l, name) : NULL;
	return x ? (int)(x - l->v) : -1;
}

struct holder_look {
	struct td_bridge_run *r;
	const struct td_slurm_nodes *nodes;
	int64_t now_s;
	struct holders *ret;
};

// Fills what depends on the QOS and the age of a holder.
static void judge(const struct holder_look *k, const char *qos, int64_t start_s, size_t nodes, struct td_pool_holder *x)
{
	const struct td_settings *s = k->r->s;
	int64_t ran = k->now_s > start_s ? k->now_s - start_s : 0;
	x->may = td_settings_preempts(s, k->r->want.ask.qos, qos);
	x->slice_s = td_settings_slice_s(s, qos) - ran;
	x->loss = ran * (int64_t)(nodes ? nodes : 1);
}

// How many of a pod's devices are of a kind, on a node with these GRES.
static int64_t kind_of(const struct td_settings *s, const char *gres, const char *kind, const char *devices)
{
	td_auto_free char *name = td_strndup(kind, strcspn(kind, ":"));
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return 0;
	return td_devices_of_kind(gres, kind, td_settings_list(s, td_json_root(j), name));
}

// Pods of ours, from what is known of their jobs.
static void add_pods(const struct holder_look *k)
{
	struct td_asks *t = k->r->b->asks;
	const struct td_settings *s = k->r->s;
	const char *const *kinds = k->r->want.kinds;
	struct td_ask *a, *tmp;
	pthread_mutex_lock(&t->lock);
	HASH_ITER (hh, t->by_uid, a, tmp) {
		int at = node_at(k->nodes, a->nodes);
		if (at < 0 || a->know != TD_JOB_READ || td_ask_is(a->states) != TD_IS_RUNNING)
			continue;
		struct td_pool_holder x = {.node = at,
					   .has = {.cpus = a->has_cpus, .memory_mb = a->has_memory_mb},
					   .going = a->preempt > 0};
		for (int i = 0; i < TD_POOL_KINDS && kinds[i]; i++)
			x.has.gres[i] = kind_of(s, k->nodes->v[at].gres, kinds[i], a->devices);
		judge(k, a->qos ? a->qos : "", a->start, 1, &x);
		add(k->ret, a->job, &x);
	}
	pthread_mutex_unlock(&t->lock);
}

static void add_native(const struct holder_look *k, const struct td_slurm_job *j)
{
	// Nobody takes what pods of others hold, or what is out of service.
	if (td_shadow_node(k->r->s, j) || td_aside_node(k->r->s, j))
		return;
	for (size_t i = 0; i < j->n_nodes; i++) {
		const struct td_slurm_job_node *n = &j->nodes[i];
		int at = node_at(k->nodes, n->name);
		if (at < 0)
			continue;
		struct td_pool_holder x = {
			.node = at, .has = {.cpus = n->cpus, .memory_mb = n->memory_mb}, .going = j->preempt > 0};
		for (int m = 0; m < TD_POOL_KINDS && k->r->want.kinds[m]; m++)
			x.has.gres[m] = td_devices_of_gres(n->gres, k->r->want.kinds[m]);
		judge(k, j->qos, j->start, j->n_nodes, &x);
		add(k->ret, j->id, &x);
	}
}

// Native jobs that run; new ones are read, the others are known. *busy: somebody else looks now.
static int add_natives(const struct holder_look *k, bool *busy, struct td_error *err)
{
	struct td_bridge *b = k->r->b;
	struct td_preempts *p = b->preempts;
	pthread_mutex_lock(&p->lock);
	*busy = p->taken;
	p->taken = true;
	struct td_slurm_job *v = p->natives;
	size_t n = p->n_natives;
	pthread_mutex_unlock(&p->lock);
	if (*busy)
		return 0;

	td_auto_states struct td_slurm_states all = {0};
	int r = td_slurm_job_states(k->r->l->slurm, NULL, 0, k->r->c, &all, err);
	for (size_t i = 0; !r && i < n;) {
		bool runs = false;
		for (size_t m = 0; m < all.n && !runs; m++)
			runs = all.v[m].id == v[i].id && td_job_phase(all.v[m].states) == TD_PHASE_RUNNING;
		if (runs) {
			i++;
			continue;
		}
		td_slurm_job_done(&v[i]);
		v[i] = v[--n];
	}

	int reads = 0;
	for (size_t m = 0; !r && m < all.n && n < NATIVE_MAX && reads < READS_MAX; m++) {
		bool known =
			td_job_phase(all.v[m].states) != TD_PHASE_RUNNING || td_asks_want_job(b->asks, all.v[m].id);
		for (size_t i = 0; i < n && !known; i++)
			known = v[i].id == all.v[m].id;
		if (known)
			continue;
		reads++;
		r = td_slurm_job(k->r->l->slurm, all.v[m].id, k->r->c, &v[n], err);
		n += r == 0;
		r = r == TD_NOT_FOUND ? 0 : r;
	}
	for (size_t i = 0; !r && i < n; i++)
		add_native(k, &v[i]);

	pthread_mutex_lock(&p->lock);
	p->n_natives = n;
	p->taken = false;
	pthread_mutex_unlock(&p->lock);
	return r;
}

// Chooses the node where the least is lost. *ret_busy: look again in a moment.
static int choose(struct td_bridge_run *r, char *ret, size_t len, bool *ret_busy, struct td_error *err)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(r->b->view);
	*ret_busy = false;
	if (!snap)
		return 0;
	__attribute__((cleanup(holders_done))) struct holders h = {.v = td_calloc(HOLDERS_MAX, sizeof(*h.v)),
								   .jobs = td_calloc(HOLDERS_MAX, sizeof(*h.jobs))};
	const struct holder_look k = {
		.r = r, .nodes = &snap->nodes, .now_s = td_real_ms(r->b->clock) / 1000, .ret = &h};
	int e = add_natives(&k, ret_busy, err);
	if (e || *ret_busy)
		return e;
	add_pods(&k);

	td_auto_free bool *ok = td_room_feasible(r->b, r->pod, &snap->nodes);
	td_auto_free struct td_pool_node *nodes = NULL;
	td_bridge_pool_nodes(&snap->nodes, ok, r->want.kinds, r->want.ask.partition, &nodes);

	struct td_preempts *p = r->b->preempts;
	pthread_mutex_lock(&p->lock);
	for (const struct going *g = p->all; g; g = g->next) { // another pod takes room there already
		int at = strcmp(g->uid, r->a->uid) ? node_at(&snap->nodes, g->node) : -1;
		if (at >= 0)
			nodes[at].feasible = false;
	}
	int at = td_pool_preempt_node(nodes, snap->nodes.n, &r->want.pool, h.v, h.n);
	if (at >= 0)
		snprintf(ret, len, "%s", snap->nodes.v[at].name);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

// ---- victims ----

// A pod of ours was told: its job is read at once, which ends the pod.
static void tell(struct td_bridge *b, int64_t job)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, job);
	if (!a)
		return;
	pthread_mutex_lock(&b->asks->lock);
	a->look = true;
	td_auto_free char *key = td_strdup(a->key);
	pthread_mutex_unlock(&b->asks->lock);
	td_queue_add(b->pod_queue, key);
}

// Finds who is ending on the node and was not known to hold anything there: he began after the last look, when the
// node was still thought to have room.
static int find_ending(struct td_bridge_run *r, struct going *g, struct td_error *err)
{
	td_auto_states struct td_slurm_states all = {0};
	int e = td_slurm_job_states(r->l->slurm, NULL, 0, r->c, &all, err), reads = 0;
	for (size_t i = 0; !e && i < all.n && reads < READS_MAX && g->n_victims < VICTIMS_MAX; i++) {
		if (!(all.v[i].states & TD_JOB(COMPLETING)))
			continue;
		reads++;
		td_auto_job struct td_slurm_job j = {0};
		td_auto_strv struct td_strv names = {0};
		e = td_slurm_job(r->l->slurm, all.v[i].id, r->c, &j, err);
		if (!e && j.nodes_text && !td_hostlist_parse(j.nodes_text, &names, NULL) &&
		    td_strv_has(&names, g->node))
			g->victims[g->n_victims++] = j.id;
		e = e == TD_NOT_FOUND ? 0 : e;
	}
	return e;
}

// Finds whom the last try has preempted, among all that may be and are on the node.
static int find_victims(struct td_bridge_run *r, struct going *g, bool *ret_busy, struct td_error *err)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(r->b->view);
	__attribute__((cleanup(holders_done))) struct holders h = {.v = td_calloc(HOLDERS_MAX, sizeof(*h.v)),
								   .jobs = td_calloc(HOLDERS_MAX, sizeof(*h.jobs))};
	const struct holder_look k = {
		.r = r, .nodes = &snap->nodes, .now_s = td_real_ms(r->b->clock) / 1000, .ret = &h};
	struct td_preempts *p = r->b->preempts;
	pthread_mutex_lock(&p->lock);
	*ret_busy = p->taken;
	for (size_t i = 0; i < p->n_natives && !p->taken; i++)
		add_native(&k, &p->natives[i]);
	pthread_mutex_unlock(&p->lock);
	if (*ret_busy)
		return 0;
	add_pods(&k);

	int at = node_at(k.nodes, g->node);
	g->n_victims = 0;
	g->grace_s = 0;
	for (size_t i = 0; i < h.n && g->n_victims < VICTIMS_MAX; i++) {
		if (h.v[i].node != at || !(h.v[i].may || h.v[i].going))
			continue;
		td_auto_job struct td_slurm_job j = {0};
		int e = td_slurm_job(r->l->slurm, h.jobs[i], r->c, &j, err);
		if (e && e != TD_NOT_FOUND)
			return e;
		bool runs = !e && td_job_phase(j.states) == TD_PHASE_RUNNING;
		if (!e && (j.preempt > 0 || !runs)) {
			g->victims[g->n_victims++] = h.jobs[i];
			if (runs && j.end > g->grace_s)
				g->grace_s = j.end;
			tell(r->b, h.jobs[i]);
		}
	}
	int e = g->n_victims ? 0 : find_ending(r, g, err);
	g->looked = !e;
	return e;
}

// Has a victim still its resources? *ret_grace: one still has its grace.
static int leaving(struct td_bridge_run *r, const struct going *g, bool *ret_leaving, bool *ret_grace,
		   struct td_error *err)
{
	td_auto_states struct td_slurm_states now = {0};
	*ret_leaving = *ret_grace = false;
	if (!g->n_victims)
		return 0;
	int e = td_slurm_job_states(r->l->slurm, g->victims, g->n_victims, r->c, &now, err);
	for (size_t i = 0; !e && i < now.n; i++) {
		*ret_leaving |= (now.v[i].states & TD_JOB(COMPLETING)) != 0;
		*ret_grace |= td_job_phase(now.v[i].states) == TD_PHASE_RUNNING;
	}
	return e;
}

void td_preempt_begin(struct td_bridge_run *r)
{
	struct td_preempts *p = r->b->preempts;
	if (!r->want.at || !td_settings_preempts(r->s, r->want.ask.qos, NULL))
		return;
	r->want.on = r->want.at;
	pthread_mutex_lock(&p->lock);
	if (!find_locked(p, r->a->uid)) {
		struct going *g = td_calloc(1, sizeof(*g));
		snprintf(g->uid, sizeof(g->uid), "%s", r->a->uid);
		snprintf(g->node, sizeof(g->node), "%s", r->want.on);
		g->next = p->all;
		p->all = g;
	}
	pthread_mutex_unlock(&p->lock);
}

enum td_pool_preempt_do td_preempt_next(struct td_bridge_run *r)
{
	struct td_bridge *b = r->b;
	struct td_preempts *p = b->preempts;
	struct td_error err = TD_ERROR_INIT;
	if (!td_settings_preempts(r->s, r->want.ask.qos, NULL) || r->s->stand_in != TD_STANDIN_AUTO)
		return TD_PREEMPT_QUEUE;

	struct going g = {0};
	pthread_mutex_lock(&p->lock);
	const struct going *is = find_locked(p, r->a->uid);
	if (is)
		g = *is;
	pthread_mutex_unlock(&p->lock);

	bool busy = false, leaves = false, grace = false;
	int e = 0;
	if (!is) {
		snprintf(g.uid, sizeof(g.uid), "%s", r->a->uid);
		e = choose(r, g.node, sizeof(g.node), &busy, &err);
	} else if (g.tries && !g.looked) {
		e = find_victims(r, &g, &busy, &err);
	}
	if (!e && is && !busy)
		e = leaving(r, &g, &leaves, &grace, &err);
	if (e)
		td_debug("%s: whom it may preempt: %s", r->a->key, err.msg);

	int64_t left = grace && g.grace_s ? g.grace_s * 1000 - td_real_ms(b->clock) : 0, ms = BUSY_MS;
	const struct td_pool_preempt facts = {.node = !e && *g.node,
					      .tries = g.tries,
					      .none = g.tries && g.looked && !g.n_victims,
					      .leaving = leaves,
					      .grace_ms = left > 0 ? left : 0,
					      .since_ms = g.since_ms ? td_now(b) - g.since_ms : 0};
	enum td_pool_preempt_do what = busy ? TD_PREEMPT_WAIT : td_pool_preempt(&facts, &ms);
	if (what == TD_PREEMPT_WAIT)
		td_bridge_run_again(r, ms);
	if (what == TD_PREEMPT_QUEUE) {
		td_preempt_over(b, r->a);
		return what;
	}
	if (busy)
		return what;

	pthread_mutex_lock(&p->lock);
	struct going *kept = find_locked(p, r->a->uid);
	if (!kept) {
		kept = td_calloc(1, sizeof(*kept));
		struct going *next = p->all;
		*kept = g;
		kept->next = next;
		p->all = kept;
	} else {
		struct going *next = kept->next;
		*kept = g;
		kept->next = next;
	}
	pthread_mutex_unlock(&p->lock);
	r->want.on = td_arena_strdup(r->want.arena, g.node);
	return what;
}

bool td_preempt_wake(struct td_bridge *b)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_strv struct td_strv keys = {0};
	struct td_ask *a, *tmp;
	size_t others, many = 0;
	uint64_t print;
	bool any = false;
	if (!s || (!s->n_qos && !s->reclaim))
		return false;

	td_slurm_view_waiting(b->view, &others, &print);
	int64_t now = td_now(b);
	pthread_mutex_lock(&b->asks->lock);
	bool waits = b->asks->pending > 0 || others > 0;
	HASH_ITER (hh, b->asks->by_uid, a, tmp)
		many += !a->batch && td_ask_is(a->states) == TD_IS_RUNNING;
	int64_t every = td_pool_preempt_look_ms(waits, many);
	HASH_ITER (hh, b->asks->by_uid, a, tmp) {
		if (a->batch || td_ask_is(a->states) != TD_IS_RUNNING || !td_settings_grace_s(s, a->qos))
			continue;
		any = true;
		if (waits && now - a->read_ms >= every)
			td_strv_add(&keys, a->key);
	}
	pthread_mutex_unlock(&b->asks->lock);
	for (size_t i = 0; i < keys.n; i++)
		td_queue_add(b->pod_queue, keys.v[i]);
	return any;
}

int64_t td_preempt_look_ms(struct td_bridge *b, const struct td_settings *s, const struct td_ask *a)
{
	if (a->batch || !td_settings_grace_s(s, a->qos))
		return td_pool_preempt_look_ms(false, 0); // it is told by a signal; or there is nothing to tell

	struct td_ask *x, *tmp;
	size_t many = 0, others;
	uint64_t print;
	pthread_mutex_lock(&b->asks->lock);
	HASH_ITER (hh, b->asks->by_uid, x, tmp)
		many += !x->batch && td_ask_is(x->states) == TD_IS_RUNNING;
	bool waits = b->asks->pending > 0;
	pthread_mutex_unlock(&b->asks->lock);
	td_slurm_view_waiting(b->view, &others, &print);
	return td_pool_preempt_look_ms(waits || others > 0, many);
}
