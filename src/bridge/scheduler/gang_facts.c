// Reads what the decision about a gang needs: its members, where each sits in the grant, and what the
// gang wants while it has no job.
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/gang.h"

#include "api/selector.h"
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

static bool same_json(const struct td_object *x, const struct td_object *y, const char *path)
{
	yyjson_val *p = td_jget(x->root, path), *q = td_jget(y->root, path);
	return p && q ? yyjson_equals(p, q) : !p == !q;
}

static bool same_want(const struct td_want *x, const struct td_want *y)
{
	const char *const a[] = {x->ask.account,     x->ask.partition,     x->ask.qos,     x->ask.constraints,
				 x->ask.reservation, x->ask.tres_per_node, x->ask.licenses},
			  *const b[] = {y->ask.account,     y->ask.partition,     y->ask.qos,     y->ask.constraints,
					y->ask.reservation, y->ask.tres_per_node, y->ask.licenses};
	bool same = x->pool.cpus == y->pool.cpus && x->pool.memory_mb == y->pool.memory_mb &&
		    x->pool.exclusive == y->pool.exclusive && x->ask.time_limit_min == y->ask.time_limit_min;
	for (size_t i = 0; i < TD_LEN(a); i++)
		same = same && td_streq(a[i], b[i]);
	return same;
}

// What one member asks for.
static int one_want(struct td_bridge_run *r, const struct td_object *pod, struct td_want *ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf("SlurmCluster %s/%s", r->b->o.ns, r->b->o.cluster);
	td_auto_claims struct td_claims claims = {0};
	int k = td_ask_claims(r->b, r->s, pod, &claims, err);
	if (!k)
		k = td_want_read(r->s, name, pod->root, claims.count, ret, err);
	return k ? k : td_ask_types(r->b, ret, err);
}

// What all of them ask for: one job with a task for each.
static int all_want(struct td_bridge_run *r, struct td_error *err)
{
	static const char *const places[] = {"spec.nodeSelector", "spec.affinity", "spec.tolerations"};
	const struct td_gang_run *g = r->gang;
	for (size_t i = 0; i < g->n; i++) {
		const struct td_object *pod = g->v[i].pod;
		td_auto_want struct td_want w = {0};
		bool first = pod == r->pod;
		int k = one_want(r, pod, first ? &r->want : &w, err);
		if (k)
			return k == TD_INVALID ? td_wrap(err, "pod %s", pod->name) : k;
		if (first)
			continue;
		for (size_t p = 0; p < TD_LEN(places); p++)
			if (!same_json(pod, r->pod, places[p]))
				return td_fail(
					err, TD_INVALID,
					"pods %s and %s of one gang have different %s: give all of them the same",
					r->pod->name, pod->name, places[p]);
		if (!same_want(&w, &r->want))
			return td_fail(err, TD_INVALID,
				       "pods %s and %s of one gang ask for different things: give all of them the same "
				       "requests and the same annotations " TD_ANN_ASK_PREFIX "*",
				       r->pod->name, pod->name);
	}

	struct td_slurm_ask *a = &r->want.ask;
	const char *slash = strchr(g->name, '/');
	td_auto_free char *mark = td_asprintf(TD_GANG_KEY "%s", slash + 1),
			  *jn = td_bridge_job_name(slash + 1, r->a->uid),
			  *comment = td_comment(r->s->cluster_uid, r->pod->ns, mark, r->a->uid);
	a->name = td_arena_strdup(r->want.arena, jn);
	a->comment = td_arena_strdup(r->want.arena, comment);
	a->tasks = g->says.size;
	return 0;
}

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
	int k = all_want(r, &e);
	if (k == TD_NOT_FOUND) {
		td_bridge_run_again(r, TD_READ_PENDING_MS);
		return td_fail(err, k, "%.400s", e.msg);
	}
	if (!k) {
		r->wanted = true;
		td_auto_where struct td_where where = {0};
		k = td_bridge_run_where(r, &where, &e);
		if (k)
			return td_fail(err, k, "%.500s", e.msg);
		r->ever = where.fit == TD_FIT_SOME_DAY;
		r->want.ask.excluded_nodes = td_arena_strdup(r->want.arena, where.excluded);
		r->want.ask.exclusive_user =
			atomic_load(&r->b->kubelets) && !r->s->devices.shared && td_want_counted(r->s, r->pod->root);
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
	td_ask_waits_for(r->b->asks, a, &r->want);
	struct td_owner o;
	if (td_settings_owner(r->s, r->pod->ns, &o))
		td_ask_str(r->b->asks, &a->user, o.user);
	return 0;
}

// ---- where each sits ----

// The n-th up to the m-th index of a list; caller frees.
static char *slice(const char *list, int64_t n, int64_t m)
{
	struct td_ranges all, some = {0};
	int64_t at = 0;
	if (!list || td_ranges_parse(list, &all, NULL))
		return td_strdup("");
	for (size_t i = 0; i < TD_RANGE_MAX; i++) {
		if (!(all.bits[i / 64] >> (i % 64) & 1))
			continue;
		if (at >= n && at < m)
			some.bits[i / 64] |= UINT64_C(1) << (i % 64);
		at++;
	}
	return td_ranges_write(&some);
}

struct kinds { // the resources that a member asks for
	const char *resource[TD_POOL_KINDS];
	struct td_pool_want want;
};

static void kinds_read(struct td_bridge_run *r, const struct td_object *pod, struct kinds *ret)
{
	const yyjson_val *spec = td_jget(pod->root, "spec");
	int64_t milli = td_api_pod_request(spec, "cpu");
	*ret = (struct kinds){.want.cpus = milli > 0 ? (milli + 999) / 1000 : 1};
	int k = 0;
	for (size_t i = 0; i < r->s->n_gres && k < TD_POOL_KINDS; i++) {
		const char *name = r->s->gres[i].resource;
		int64_t n = td_api_pod_request(spec, name);
		n += strcmp(name, r->s->devices.resource) ? 0 : td_ask_claimed(r->b, r->s, pod);
		if (n <= 0)
			continue;
		ret->resource[k] = td_settings_key(r->s, r->s->gres[i].name);
		ret->want.gres[k++] = n;
	}
}

// The devices of one seat, in the form of td_devices_text().
static char *seat_devices(const struct kinds *kinds, const char *devices, int64_t slot)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf b = {0};
	td_buf_putc(&b, '{');
	if (!td_json_parse(devices, strlen(devices), &j, NULL))
		for (int k = 0; k < TD_POOL_KINDS && kinds->resource[k]; k++) {
			int64_t n = kinds->want.gres[k];
			td_auto_free char *own =
				slice(td_jkey_str(td_json_root(j), kinds->resource[k]), slot * n, (slot + 1) * n);
			td_buf_printf(&b, "%s\"%s\":\"%s\"", b.len > 1 ? "," : "", kinds->resource[k], own);
		}
	td_buf_putc(&b, '}');
	return td_buf_take(&b);
}

void td_gang_seat_done(struct td_gang_seat *s)
{
	free(s->node);
	free(s->devices);
	free(s->cores);
	*s = (struct td_gang_seat){0};
}

static void seat(struct td_gang_member *m, const struct td_ask_part *part, const struct td_pool_gang_seat *at,
		 const struct kinds *kinds)
{
	int64_t cores = td_devices_indexes(part->cores);
	td_gang_seat_done(&m->seat);
	m->seat = (struct td_gang_seat){
		.rank = m->rank,
		.node = td_strdup(part->node),
		.devices = seat_devices(kinds, part->devices, at->slot),
		.cores = slice(part->cores, cores * at->slot / at->of, cores * (at->slot + 1) / at->of)};
	m->seated = true;
}

// The order of the job's nodes for ranks.
static void order_parts(struct td_bridge_run *r, size_t *ret)
{
	const struct td_ask *a = r->a;
	td_auto_free struct td_pool_gang_place *v = td_calloc(a->n_parts, sizeof(*v));
	td_auto_objects struct td_objects nodes = {0};
	for (size_t i = 0; i < a->n_parts; i++) {
		struct td_object *o = td_informer_get(r->b->nodes, NULL, a->parts[i].node);
		yyjson_val *labels = o ? td_jget(o->root, "metadata.labels") : NULL;
		v[i] = (struct td_pool_gang_place){td_jkey_str(labels, TD_LABEL_BLOCK),
						   td_jkey_str(labels, TD_LABEL_RACK), a->parts[i].node};
		if (o)
			td_objects_add(&nodes, o);
	}
	td_pool_gang_order(v, a->n_parts, ret);
}

// Gives every member its rank and, when the job has its nodes, its seat. False: the job has too little.
static bool deal(struct td_bridge_run *r)
{
	struct td_gang_run *g = r->gang;
	struct td_ask *a = r->a;
	size_t size = a->size, n = 0;
	td_auto_free struct td_pool_gang_rank *ranks = td_calloc(g->n + 1, sizeof(*ranks));
	td_auto_free size_t *who = td_calloc(g->n + 1, sizeof(*who));
	for (size_t i = 0; i < g->n; i++) {
		// A member that failed has no place any more.
		if (g->v[i].state == TD_POD_DONE && !td_streq(td_jstr(g->v[i].pod->root, "status.phase"), "Succeeded"))
			continue;
		who[n] = i;
		struct td_gang_place_in in = td_gang_place_of(g->v[i].pod);
		ranks[n++] = (struct td_pool_gang_rank){in.fixed ? in.index : -1, g->v[i].rank};
	}
	if (!td_pool_gang_ranks(ranks, n, size))
		return false;
	for (size_t i = 0; i < n; i++)
		g->v[who[i]].rank = ranks[i].rank;

	if (!a->n_parts || !g->n)
		return false;
	struct kinds kinds;
	kinds_read(r, g->v[0].pod, &kinds);
	td_auto_free struct td_pool_gang_part *parts = td_calloc(a->n_parts, sizeof(*parts));
	td_auto_free struct td_pool_gang_seat *seats = td_calloc(size, sizeof(*seats));
	td_auto_free size_t *order = td_calloc(a->n_parts, sizeof(*order));
	order_parts(r, order);
	for (size_t i = 0; i < a->n_parts; i++) {
		const struct td_ask_part *part = &a->parts[order[i]];
		parts[i].cpus = part->cpus;
		for (int k = 0; k < TD_POOL_KINDS && kinds.resource[k]; k++)
			parts[i].gres[k] = td_devices_count(part->devices, kinds.resource[k]);
	}
	if (!td_pool_gang_deal(parts, a->n_parts, &kinds.want, size, seats))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct td_gang_member *m = &g->v[who[i]];
		if (m->rank >= 0 && m->rank < (int64_t)size)
			seat(m, &a->parts[order[seats[m->rank].part]], &seats[m->rank], &kinds);
	}
	return true;
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
		if (!node || !td_bridge_pod_fits(td_jget(m->pod->root, "spec"), node->root, NULL))
			return false;
	}
	return true;
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
	     runs = pj->ours && (phase == TD_PHASE_RUNNING || phase == TD_PHASE_STARTING), dealt = runs && deal(r);
	count(r, p);

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
		p->nodes_fit = nodes_fit(r);
		p->late = a->bind_ms && td_now(b) - a->bind_ms > LATE_MS;
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
