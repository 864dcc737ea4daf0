// Reads what the decision about a gang needs: its members, and what the gang wants while it has no job.
#include "bridge/scheduler/gang.h"

#include "http/pki.h"
#include "kube/fence.h"
#include "slurm/hostlist.h"

#include <stdlib.h>
#include <string.h>

enum {
	SHORT_S = 60,    // how long a grant may lack devices; nodes register again long before
	LATE_MS = 30000, // from the first Binding that is due to the last
};

// ---- what it wants ----

// One text for the versions of all members.
static void versions(const struct td_gang_run *g, char ret[24])
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < g->n; i++)
		td_buf_printf(&b, "%s\n", g->v[i].pod->rv ? g->v[i].pod->rv : "");
	char hex[65];
	td_sha256_hex(td_buf_str(&b), b.len, hex);
	snprintf(ret, 24, "%.20s", hex);
}

// Does any of its roles have devices that a kubelet counts?
static bool counted(const struct td_bridge_run *r)
{
	const struct td_gang_roles *roles = &r->gang->roles;
	for (size_t i = 0; i < roles->n; i++)
		if (td_want_counted(r->s, roles->v[i].pod->root))
			return true;
	return false;
}

// As for a lone pod (facts.c): fills r->want once per run. A refusal is no error: it goes to
// a->refused.
static int want(struct td_bridge_run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	uint64_t gen = atomic_load(&r->b->feas_gen);
	char rv[24];
	if (r->wanted || !r->pod)
		return 0;
	for (size_t i = 0; i < r->gang->n; i++) {
		int k = td_ask_claims_back(r->b, r->gang->v[i].pod, r->c, err);
		if (k) {
			td_bridge_run_again(r, TD_AGAIN_MS);
			return k;
		}
	}

	versions(r->gang, rv);
	if (a->refused && !strcmp(a->read_rv, rv) && a->feas_gen == gen && td_now(r->b) < a->retry_ms)
		return 0;

	struct td_error e = TD_ERROR_INIT;
	int k = td_gang_want(r, &e);
	if (k == TD_NOT_FOUND) {
		td_ask_str(r->b->asks, &a->refused, NULL);
		td_bridge_run_again(r, TD_READ_PENDING_MS);
		return td_fail(err, k, "%.400s", e.msg);
	}
	if (!k) {
		r->wanted = true;
		td_auto_where struct td_where where = {0};
		k = td_gang_where(r, &where, &e);
		if (k)
			return td_fail(err, k, "%.500s", e.msg);
		r->ever = where.fit == TD_FIT_SOME_DAY;
		r->want.ask.excluded_nodes = td_arena_strdup(r->want.arena, where.excluded);
		r->want.pool.nodes = r->want.ask.most_nodes = where.fewest;
		r->want.ask.exclusive_user = atomic_load(&r->b->kubelets) && !r->s->devices.shared && counted(r);
		if (!r->ever) {
			pthread_mutex_lock(&r->b->lock);
			int64_t wait = td_pool_never_ms(where.fit, td_now(r->b) - r->b->nodes_changed_ms);
			pthread_mutex_unlock(&r->b->lock);
			if (wait) {
				td_bridge_run_again(r, wait);
				return td_fail(err, TD_NOT_FOUND, "%s", where.why);
			}
			snprintf(e.msg, sizeof(e.msg), "%s", where.why);
		}
	}

	a->feas_gen = gen;
	memcpy(a->read_rv, rv, sizeof(rv));
	if (k || !r->ever) {
		a->retry_ms = td_now(r->b) + TD_REFUSED_AGAIN_MS;
		td_ask_str(r->b->asks, &a->refused, e.msg);
		return 0;
	}
	if (a->refused)
		a->retry_ms = 0; // the wait belongs to the refusal
	td_ask_str(r->b->asks, &a->refused, NULL);
	pthread_mutex_lock(&r->b->asks->lock);
	a->tasks = (size_t)r->want.ask.tasks;
	pthread_mutex_unlock(&r->b->asks->lock);
	td_ask_waits_for(r->b->asks, a, &r->want);
	struct td_owner o;
	if (td_owner_of(r, &o)) {
		td_ask_str(r->b->asks, &a->user, o.user);
		r->want.ask.uid = o.uid;
	}
	return 0;
}

// ---- the facts ----

// Compares two lists of devices, as td_devices_text(): is every index of `some` in `all` (inside), or
// none?
static bool compare(const char *some, const char *all, bool inside)
{
	td_auto(td_json_unref) struct td_json *x = NULL, *y = NULL;
	yyjson_val *k, *v;
	size_t i, n;
	if (!some || !all || td_json_parse(some, strlen(some), &x, NULL) || td_json_parse(all, strlen(all), &y, NULL))
		return false;
	yyjson_obj_foreach (td_json_root(x), i, n, k, v) {
		struct td_ranges p, q;
		const char *has = td_jkey_str(td_json_root(y), yyjson_get_str(k));
		if (!yyjson_is_str(v) || td_ranges_parse(yyjson_get_str(v), &p, NULL) ||
		    td_ranges_parse(has ? has : "", &q, NULL))
			return false;
		for (size_t b = 0; b < TD_LEN(p.bits); b++)
			if (p.bits[b] & (inside ? ~q.bits[b] : q.bits[b]))
				return false;
	}
	return true;
}

// Does the job still have what the bound member got of it?
static bool sits(const struct td_ask *a, const struct td_gang_member *m)
{
	for (size_t i = 0; i < a->n_parts; i++)
		if (td_streq(a->parts[i].node, td_jstr(m->pod->root, "spec.nodeName")))
			return compare(td_object_annotation(m->pod, TD_ANN_DEVICES), a->parts[i].devices, true);
	return false;
}

// Would a member that waits get what a bound one has? Labels of nodes order the seats, and may have
// changed since the other one was bound.
static bool clash(const struct td_gang_run *g, const struct td_gang_member *waits)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct td_gang_member *m = &g->v[i];
		if ((m->state == TD_POD_BOUND || m->state == TD_POD_LEAVING) &&
		    td_streq(waits->seat.node, td_jstr(m->pod->root, "spec.nodeName")) &&
		    !compare(waits->seat.devices, td_object_annotation(m->pod, TD_ANN_DEVICES), false))
			return true;
	}
	return false;
}

static void count(struct td_bridge_run *r, struct td_pool_gang *p)
{
	const struct td_ask *a = r->a;
	for (size_t i = 0; i < r->gang->n; i++) {
		const struct td_gang_member *m = &r->gang->v[i];
		struct td_grant g;
		switch (m->state) {
		case TD_POD_GONE:
			break;
		case TD_POD_WAITING:
			p->waiting++;
			p->fenced |= td_fence_is(m->pod->root, a->job, a->start);
			p->differs |= m->seated && clash(r->gang, m);
			break;
		case TD_POD_LEAVING:
			p->leaving++;
			break;
		case TD_POD_DONE:
			p->succeeded += td_streq(td_jstr(m->pod->root, "status.phase"), "Succeeded");
			p->failed += !td_streq(td_jstr(m->pod->root, "status.phase"), "Succeeded");
			break;
		case TD_POD_BOUND:
			if (!td_bridge_pod_grant(m->pod, &g))
				g = (struct td_grant){0};
			p->differs |= p->bound && (g.job != p->grant.job || g.start != p->grant.start ||
						   g.restarts != p->grant.restarts);
			p->differs |= a->n_parts && !sits(a, m);
			p->grant = g;
			p->bound++;
			break;
		}
	}
}

static bool nodes_fit(struct td_bridge_run *r)
{
	for (size_t i = 0; i < r->gang->n; i++) {
		const struct td_gang_member *m = &r->gang->v[i];
		if (m->state != TD_POD_WAITING || !m->seated)
			continue;
		td_auto(td_object_unref) struct td_object *node = td_informer_get(r->b->nodes, NULL, m->seat.node);
		if (!node || !td_bridge_pod_fits(m->pod->root, node->root, NULL))
			return false;
	}
	return true;
}

bool td_gang_late(struct td_ask *a, bool waits, int64_t now_ms)
{
	if (!waits)
		a->bind_ms = 0; // whoever comes next, for a place that was lost, has a time of his own
	return a->bind_ms && now_ms - a->bind_ms > LATE_MS;
}

int td_gang_facts(struct td_bridge_run *r, struct td_pool_gang *p, struct td_pool_job *pj, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	enum td_job_phase phase = a->know == TD_JOB_READ ? td_job_phase(a->states) : TD_PHASE_UNKNOWN;
	bool same_spec = true;
	*p = (struct td_pool_gang){.uid = a->uid,
				   .size = (int64_t)a->size,
				   .on_loss = r->gang->says.on_loss,
				   .nodes_fit = true,
				   .lost_state = atomic_load(&b->lost)};

	td_ask_job(b, a, true, pj);
	bool waits = pj->ours && phase == TD_PHASE_WAITING,
	     runs = pj->ours && (phase == TD_PHASE_RUNNING || phase == TD_PHASE_STARTING),
	     dealt = runs && td_gang_deal(r);
	count(r, p);
	if (!p->bound && !p->leaving && a->now) // the others come when these run
		p->size = (int64_t)a->now;
	p->late = runs && td_gang_late(a, p->waiting, td_now(b));

	if (!p->bound && p->waiting == p->size && a->know != TD_JOB_UNSURE && !runs &&
	    (!waits || a->feas_gen != atomic_load(&b->feas_gen))) {
		int k = want(r, err);
		if (k)
			return k;
		p->refused = a->refused;
		if (waits && !a->refused && r->wanted)
			same_spec =
				td_bridge_run_same_names(a->excluded ? a->excluded : "", r->want.ask.excluded_nodes);
	} else if (runs && p->waiting) {
		p->short_of = !dealt;
		p->waited = td_real_ms(b->clock) / 1000 - a->start > SHORT_S;
		// One that comes for a place of a gang which goes on is refused alone (gang_act.c).
		p->nodes_fit = (p->bound && p->on_loss == TD_GANG_REPLACE) || nodes_fit(r);
	}

	td_ask_job(b, a, same_spec, pj);
	pthread_mutex_lock(&b->asks->lock);
	pj->unproven = a->know == TD_JOB_GONE && !a->gone_seen;
	if (pj->unproven)
		a->look = true; // by the next time the id may be another job's
	pthread_mutex_unlock(&b->asks->lock);
	if (pj->unproven) {
		td_bridge_poll_now(b);
		td_bridge_run_again(r, 250);
	}

	const struct td_pool_ask pa = {.pod = TD_POD_WAITING, .refused = p->refused};
	// A try that Slurm refuses preempts, where the QOS may: such a gang leaves it to Slurm's queue.
	if (r->wanted && r->l && !a->res_tag && td_pool_fast_due(&pa, pj) && td_now(b) >= a->retry_ms &&
	    !td_settings_preempts(r->s, r->want.ask.qos, NULL) && !td_want_early(&r->want, td_real_ms(b->clock)))
		p->fits_now = td_ask_fits_now(b, r->s, a, r->pod, &r->want);
	return 0;
}
