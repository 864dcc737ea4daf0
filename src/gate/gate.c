// Claims, and waiting until the earlier holders are gone.
#include "gate/gate.h"

#include "base/fault.h"
#include "base/file.h"
#include "gate/devices.h"
#include "gate/gate_priv.h"
#include "gate/shares.h"
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int td_gate_nodes(const struct td_gate *g)
{
	return g->o.nodes;
}

const char *td_gate_dir(const struct td_gate *g)
{
	return g->o.dir;
}

const char *td_gate_node_name(const struct td_gate *g, int node)
{
	return g->node[node].name;
}

int td_gate_node_index(const struct td_gate *g, const char *name)
{
	for (int i = 0; i < g->o.nodes; i++)
		if (!strcmp(g->node[i].name, name))
			return i;
	return -1;
}

int td_gate_new(const struct td_gate_opts *o, struct td_gate **ret, struct td_error *err)
{
	int r = td_mkdir_p(o->dir, 0700, err);
	if (r)
		return r;

	struct td_gate *g = td_calloc(1, sizeof(*g));
	g->o = *o;
	g->o.dir = td_strdup(o->dir);
	g->o.node = NULL; // copied below
	g->o.boot = td_strdup(o->boot);
	g->node = td_calloc((size_t)(o->nodes ? o->nodes : 1), sizeof(*g->node));
	pthread_mutex_init(&g->mu, NULL);
	pthread_condattr_t ca;
	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &ca);
	pthread_condattr_destroy(&ca);

	for (int i = 0; i < o->nodes; i++) {
		pthread_mutex_init(&g->node[i].mu, NULL);
		pthread_mutex_init(&g->node[i].writer, NULL);
		pthread_mutex_init(&g->node[i].shares, NULL);
		g->node[i].name = td_strdup(o->node[i].name);
		g->node[i].sockets = td_strdup(o->node[i].sockets);
		g->node[i].path = td_asprintf("%s/%s.json", o->dir, o->node[i].name);
	}

	for (int i = 0; !r && i < o->nodes; i++)
		r = td_gate_load(g->node[i].path, o->devices, o->boot, &g->node[i].table, err);
	if (r) {
		td_gate_free(g);
		return r;
	}

	*ret = g;
	return 0;
}

struct td_gate *td_gate_free(struct td_gate *g)
{
	if (!g)
		return NULL;
	for (int i = 0; i < g->o.nodes; i++) {
		pthread_mutex_destroy(&g->node[i].mu);
		pthread_mutex_destroy(&g->node[i].writer);
		pthread_mutex_destroy(&g->node[i].shares);
		free(g->node[i].name);
		free(g->node[i].sockets);
		free(g->node[i].path);
	}

	pthread_mutex_destroy(&g->mu);
	pthread_cond_destroy(&g->changed);
	free(g->node);
	free((char *)g->o.dir);
	free((char *)g->o.boot);
	free(g);
	return NULL;
}

// Changes a copy, writes it, and only then shows it, so that nobody acts on a claim that a crash
// could take back.
static int claim(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	struct td_gate_node *n = &g->node[node];
	struct td_gate_table *t = td_malloc(sizeof(*t));
	bool changed = false, lost = false;
	pthread_mutex_lock(&n->writer);
	pthread_mutex_lock(&n->mu);
	td_gate_copy(t, &n->table);
	pthread_mutex_unlock(&n->mu);

	int r = td_gate_claim(t, mask, h, &changed, err);
	if (!r && changed) {
		r = td_fault_at(err, "gate.save.before");
		if (!r)
			r = td_gate_save(n->path, t, g->o.boot, err);
		if (!r)
			r = td_fault_at(err, "gate.save.after");
		struct td_holder one;
		lost = td_gate_pending(t, mask, &one, 1) > 0;
	}

	if (!r && changed) {
		pthread_mutex_lock(&n->mu);
		td_gate_copy(&n->table, t);
		pthread_mutex_unlock(&n->mu);
	}
	pthread_mutex_unlock(&n->writer);
	free(t);

	if (!r && changed && lost && g->o.superseded)
		g->o.superseded(g->o.ctx, node, mask);
	return r;
}

// As long as a holder of the same second is busy, h does not claim (td_gate_tied).
static int yield(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	struct td_holder now[64];
	struct td_gate_node *n = &g->node[node];
	pthread_mutex_lock(&n->mu);
	int k = td_gate_tied(&n->table, mask, h, now, 64);
	pthread_mutex_unlock(&n->mu);
	for (int i = 0; i < k; i++) {
		char why[160] = "";
		if (now[i].job < h->job && g->o.busy(g->o.ctx, node, &now[i], why, sizeof(why)))
			return td_fail(err, TD_THROTTLED, "devices of %s: held by job %lld (%s)",
				       td_gate_node_name(g, node), (long long)now[i].job, why);
	}
	return 0;
}

int td_gate_learn(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	struct td_gate_node *n = &g->node[node];
	struct td_gate_table *t = td_malloc(sizeof(*t));
	int r = 0;
	pthread_mutex_lock(&n->writer);
	pthread_mutex_lock(&n->mu);
	td_gate_copy(t, &n->table);
	pthread_mutex_unlock(&n->mu);
	if (td_gate_tell(t, mask, h) && !(r = td_gate_save(n->path, t, g->o.boot, err))) {
		pthread_mutex_lock(&n->mu);
		td_gate_copy(&n->table, t);
		pthread_mutex_unlock(&n->mu);
	}
	pthread_mutex_unlock(&n->writer);
	free(t);
	if (g->o.arrives)
		g->o.arrives(g->o.ctx, node);
	return r;
}

static void forget(struct td_gate *g, int node, const struct td_holder *h)
{
	// The next claim saves it. If a crash comes first, it is proven again.
	struct td_gate_node *n = &g->node[node];
	pthread_mutex_lock(&n->writer);
	pthread_mutex_lock(&n->mu);
	td_gate_forget(&n->table, h);
	pthread_mutex_unlock(&n->mu);
	pthread_mutex_unlock(&n->writer);
}

static int look(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	struct td_holder prev[64];
	struct td_gate_node *n = &g->node[node];
	pthread_mutex_lock(&n->mu);
	bool mine = td_gate_holds(&n->table, mask, h);
	int k = td_gate_pending(&n->table, mask, prev, 64);
	pthread_mutex_unlock(&n->mu);
	if (!mine)
		return td_fail(err, TD_CONFLICT,
			       "the devices went on to another holder: the grant of job %lld has ended",
			       (long long)h->job);
	// A test that begins from now on sees the claim in the table.
	if (g->o.arrives && !g->o.arrives(g->o.ctx, node))
		return td_fail(err, TD_THROTTLED, "devices of %s: the test of the idle node has not ended",
			       td_gate_node_name(g, node));

	for (int i = 0; i < k; i++) {
		char why[160] = "";
		if (g->o.busy(g->o.ctx, node, &prev[i], why, sizeof(why))) {
			td_auto_free char *dev = td_dev_format(mask);
			return td_fail(err, TD_THROTTLED, "devices %s of %s: held by job %lld (%s)", dev,
				       td_gate_node_name(g, node), (long long)prev[i].job, why);
		}
		forget(g, node, &prev[i]);
	}

	return 0;
}

bool td_gate_held_up(struct td_gate *g, int node, char *ret, size_t n)
{
	struct td_holder prev[64];
	pthread_mutex_lock(&g->node[node].mu);
	int k = td_gate_pending(&g->node[node].table, td_dev_all(g->o.devices), prev, 64);
	pthread_mutex_unlock(&g->node[node].mu);
	for (int i = 0; i < k; i++) {
		char why[160] = "";
		if (g->o.busy(g->o.ctx, node, &prev[i], why, sizeof(why))) {
			snprintf(ret, n, "held by job %lld (%s)", (long long)prev[i].job, why);
			return true;
		}
		forget(g, node, &prev[i]);
	}
	return false;
}

bool td_gate_holder(struct td_gate *g, int node, int device, struct td_holder *ret)
{
	char why[160];
	struct td_holder all[1 + TD_GATE_WITH];
	int n = 0;
	pthread_mutex_lock(&g->node[node].mu);
	const struct td_gate_table *t = &g->node[node].table;
	if (device < t->n && t->dev[device].held) {
		all[n++] = t->dev[device].now;
		for (int i = 0; i < t->dev[device].n_with; i++)
			all[n++] = t->dev[device].with[i];
	}
	pthread_mutex_unlock(&g->node[node].mu);
	for (int i = 0; i < n; i++)
		if (g->o.busy(g->o.ctx, node, &all[i], why, sizeof(why))) {
			*ret = all[i];
			return true;
		}
	return false;
}

bool td_gate_last(struct td_gate *g, int node, int device, struct td_holder *ret)
{
	pthread_mutex_lock(&g->node[node].mu);
	const struct td_gate_table *t = &g->node[node].table;
	bool held = device >= 0 && device < t->n && t->dev[device].held;
	if (held)
		*ret = t->dev[device].now;
	pthread_mutex_unlock(&g->node[node].mu);
	return held;
}

bool td_gate_job_holds(struct td_gate *g, int node, int device, int64_t job)
{
	pthread_mutex_lock(&g->node[node].mu);
	uint64_t held = td_gate_held(&g->node[node].table, &(struct td_holder){.job = job});
	pthread_mutex_unlock(&g->node[node].mu);
	return job && device < 64 && held >> device & 1;
}

int64_t td_gate_job_called(struct td_gate *g, int node, const char *sluid)
{
	pthread_mutex_lock(&g->node[node].mu);
	int64_t job = td_gate_sluid_job(&g->node[node].table, sluid);
	pthread_mutex_unlock(&g->node[node].mu);
	return job;
}

// claim, for who has a share: where there is no room, those of whom nothing is left on the node count for nothing, one
// after the other, until there is.
static int claim_share(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	struct td_gate_node *n = &g->node[node];
	pthread_mutex_lock(&n->shares);
	struct td_holder way[64];
	pthread_mutex_lock(&n->mu);
	int k = td_shares_in_the_way(&n->table, mask, h, way, 64);
	pthread_mutex_unlock(&n->mu);
	int r = claim(g, node, mask, h, err);
	for (int i = 0; i < k && r == TD_THROTTLED; i++) {
		char why[160] = "";
		if (g->o.busy(g->o.ctx, node, &way[i], why, sizeof(why)))
			continue;
		// Not saved: after a crash it counts again, until somebody finds that nothing is left of it.
		pthread_mutex_lock(&n->writer);
		pthread_mutex_lock(&n->mu);
		td_shares_idle(&n->table, mask, &way[i]);
		pthread_mutex_unlock(&n->mu);
		pthread_mutex_unlock(&n->writer);
		r = claim(g, node, mask, h, err);
	}
	pthread_mutex_unlock(&n->shares);
	return r;
}

// The share of h on devices that it was let in to; 0: they are its alone, or it was not.
static int share_of(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h)
{
	struct td_gate_node *n = &g->node[node];
	int share = 0;
	pthread_mutex_lock(&n->mu);
	for (int i = 0; i < n->table.n && !share; i++) {
		struct td_holder *at = mask >> i & 1 ? td_shares_find(&n->table.dev[i], h) : NULL;
		share = at ? at->share : 0;
	}
	pthread_mutex_unlock(&n->mu);
	return share;
}

static int take(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	return (h->share ? claim_share : claim)(g, node, mask, h, err);
}

int td_gate_try(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err)
{
	if (!mask && g->o.arrives)
		g->o.arrives(g->o.ctx, node);
	if (!mask)
		return 0;
	int r = yield(g, node, mask, h, err);
	if (!r)
		r = take(g, node, mask, h, err);
	return r ? r : look(g, node, mask, h, err);
}

bool td_gate_may_start(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h)
{
	if (!mask)
		return true;
	struct td_gate_node *n = &g->node[node];
	if (h->share)
		pthread_mutex_lock(&n->shares);
	pthread_mutex_lock(&n->mu);
	bool ok = td_gate_holds(&n->table, mask, h);
	pthread_mutex_unlock(&n->mu);
	if (h->share)
		pthread_mutex_unlock(&n->shares);
	return ok;
}

void td_gate_kick(struct td_gate *g)
{
	pthread_mutex_lock(&g->mu);
	g->kicks++;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->mu);
}

struct waiter {
	struct td_gate *g;
	int node;
	uint64_t mask;
	const struct td_holder *h;
	bool claimed; // the claim is done, or none is needed: only wait
};

static int once(struct waiter *w, struct td_error *err)
{
	int r = w->claimed ? 0 : take(w->g, w->node, w->mask, w->h, err);
	if (r)
		return r;
	w->claimed = true;
	return look(w->g, w->node, w->mask, w->h, err);
}

// True when it may succeed later. A claim that could not be written (a full disk) must not fail a
// Prolog at once, because that drains the node.
static bool later(int r)
{
	return r == TD_THROTTLED || r == TD_TRANSIENT || r == TD_UNCERTAIN || r == TD_INTERNAL;
}

static int wait_until_free(struct waiter *w, const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err)
{
	struct td_gate *g = w->g;
	int64_t end = td_mono_ms(g->o.clock) + wait->timeout_ms;
	char told[sizeof(err->msg)] = "";
	bool late = false;
	for (int64_t nap = 5;; nap = nap < 100 ? nap * 2 : 100) {
		pthread_mutex_lock(&g->mu);
		uint64_t seen = g->kicks;
		pthread_mutex_unlock(&g->mu);

		struct td_error e = TD_ERROR_INIT;
		int r = once(w, &e);
		if (!later(r)) {
			if (r && err)
				*err = e;
			return r;
		}
		if (wait->progress && strcmp(told, e.msg)) {
			snprintf(told, sizeof(told), "%s", e.msg);
			if (wait->progress(wait->ctx, told))
				return td_fail(err, TD_CANCELLED, "the caller is gone");
		}

		int64_t left = end - td_mono_ms(g->o.clock);
		if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "the agent stops");
		if (!late && left <= TD_GATE_LATE_MS && g->o.late) {
			late = true;
			g->o.late(g->o.ctx, w->node);
		}
		if (left <= 0)
			return td_fail(err, TD_TRANSIENT, "%s", e.msg);

		// The end of a container wakes us. Nothing tells us when processes of a native job
		// leave their cgroup, so the nap is short.
		struct timespec ts;
		int64_t ms = nap < left ? nap : left;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += ms % 1000 * 1000000;
		ts.tv_sec += ms / 1000 + ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_mutex_lock(&g->mu);
		while (g->kicks == seen && !pthread_cond_timedwait(&g->changed, &g->mu, &ts))
			;
		pthread_mutex_unlock(&g->mu);
	}
}

int td_gate_acquire(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h,
		    const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err)
{
	struct waiter w = {g, node, mask, h, false};
	int64_t began = td_mono_ms(&td_clock_system);
	int r = mask ? wait_until_free(&w, wait, c, err) : 0;
	td_metric_observe(td_histogram(td_metrics_process(), "tandem_gate_wait_seconds",
				       "How long jobs waited for their devices' last holders, in seconds; result: "
				       "let_in, superseded, or late (not free by the deadline).",
				       TD_LABELS("result"), NULL, 0),
			  (double)(td_mono_ms(&td_clock_system) - began) / 1000,
			  TD_LABELS(!r                 ? "let_in"
				    : r == TD_CONFLICT ? "superseded"
						       : "late"));
	return r;
}

int td_gate_check(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h,
		  const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err)
{
	struct td_gate_node *n = &g->node[node];
	pthread_mutex_lock(&n->mu);
	uint64_t held = td_gate_held(&n->table, h);
	pthread_mutex_unlock(&n->mu);
	if (!held || (mask & ~held)) {
		td_auto_free char *dev = td_dev_format(mask);
		return td_fail(err, TD_CONFLICT,
			       "job %lld was not let in to devices %s of %s: Slurm started it there without its Prolog",
			       (long long)h->job, mask ? dev : "(any)", td_gate_node_name(g, node));
	}

	// Who has a share may have been taken for gone: it is let in anew, and waits until there is room.
	struct td_holder again = *h;
	mask = mask ? mask : held;
	again.share = share_of(g, node, mask, h);
	struct waiter w = {g, node, mask, &again, !again.share};
	return wait_until_free(&w, wait, c, err);
}
