// Carries out what the pool decided about a gang. What concerns the job is done as for a lone pod
// (act.c); what concerns the pods is done to each member.
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/private.h"
#include "bridge/scheduler/victim.h"

#include "base/log.h"
#include "kube/fence.h"

#include <string.h>

enum {
	SWEEP_MS = 60000, // the job of a bound gang is read at least that often
	PER_THREAD = 4,   // Bindings
	THREADS = 8,
	BIND_READ_MS = 400, // a Binding is sent only so long after the look at the job (gate/pods.c, COMING_MS)
};

// The run of one member.
static struct td_bridge_run one(const struct td_bridge_run *r, struct td_gang_member *m)
{
	struct td_bridge_run x = *r;
	x.gang = NULL;
	x.pod = m->pod;
	x.p = m->p;
	x.seat = m->seated ? &m->seat : NULL;
	x.wanted = false;
	x.want = (struct td_want){0};
	return x;
}

int td_gang_show(struct td_bridge_run *r, const char *reason, const char *text, struct td_error *err)
{
	int all = 0;
	for (size_t i = 0; i < r->gang->n; i++) {
		if (r->gang->v[i].state != TD_POD_WAITING)
			continue;
		struct td_error e = TD_ERROR_INIT;
		struct td_bridge_run x = one(r, &r->gang->v[i]);
		int k = td_bridge_run_show(&x, reason, text, &e);
		if (k && !all)
			all = td_fail(err, k, "%.500s", e.msg);
	}
	return all;
}

int td_gang_raise_epoch(struct td_bridge_run *r, struct td_error *err)
{
	for (size_t i = 0; i < r->gang->n; i++) {
		const struct td_gang_member *m = &r->gang->v[i];
		int k = m->state == TD_POD_WAITING ? td_ask_raise_epoch(r->b, m->pod, NULL, r->c, err) : 0;
		if (k)
			return k;
	}
	return 0;
}

// ---- binding ----

// How other pods reach the pod: its name in DNS, else its own name.
static void host_name(const struct td_object *pod, struct td_buf *out)
{
	const char *host = td_jstr(pod->root, "spec.hostname"), *sub = td_jstr(pod->root, "spec.subdomain");
	if (sub && *sub)
		td_buf_printf(out, "%s.%s", host ? host : pod->name, sub);
	else
		td_buf_puts(out, pod->name);
}

static void hosts(struct td_gang_run *g, const struct td_ask *a)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t rank = 0; rank < a->size; rank++) {
		if (rank)
			td_buf_putc(&b, ',');
		for (size_t i = 0; i < g->n; i++)
			if (g->v[i].rank == (int64_t)rank && !g->v[i].left_out) {
				host_name(g->v[i].pod, &b);
				break;
			}
	}
	free(g->hosts);
	g->hosts = td_buf_take(&b);
	for (size_t i = 0; i < g->n; i++) {
		g->v[i].seat.hosts = g->hosts;
		g->v[i].seat.later = td_gang_leads(g->v[i].pod) ? a->later : NULL;
	}
}

void td_gang_notes(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_ask *a, const struct td_gang_seat *seat)
{
	td_auto_free char *rank = td_asprintf("%lld", (long long)seat->rank), *world = td_asprintf("%zu", a->size);
	const char *slash = strchr(a->key, '/');
	td_jm_key_str(d, o, TD_ANN_GANG_UID, a->uid);
	td_jm_key_str(d, o, TD_ANN_GANG_NAME, slash ? slash + 1 : "");
	td_jm_key_str(d, o, TD_ANN_GANG_RANK, rank);
	td_jm_key_str(d, o, TD_ANN_GANG_WORLD, world);
	td_jm_key_str(d, o, TD_ANN_GANG_HOSTS, seat->hosts);
	if (seat->later)
		td_jm_key_str(d, o, TD_ANN_GANG_LATER, seat->later);
	if (a->roles) {
		td_jm_key_str(d, o, TD_ANN_GANG_ROLES, a->roles);
		td_jm_key_str(d, o, TD_LABEL_GANG_ROLE, *seat->role ? seat->role : NULL);
	}
	if (a->most > (int64_t)a->size) {
		td_auto_free char *most = td_asprintf("%lld", (long long)a->most);
		td_jm_key_str(d, o, TD_ANN_GANG_MOST, most);
	}
}

// Can the member be bound now? Of several on one node the first asks for all of them.
static int ready(struct td_bridge_run *r, struct td_gang_member *m, const char **ret_reason, struct td_error *err)
{
	struct td_bridge *b = r->b;
	// The checks of a lone pod, with the member's part of the grant.
	struct td_ask part = {
		.start = r->a->start, .nodes = (char *)m->seat.node, .devices = m->seat.devices, .key = r->a->key};
	snprintf(part.uid, sizeof(part.uid), "%s", m->pod->uid);
	int k = td_ask_kubelet_room(b, &part, m->pod, r->c, err);
	*ret_reason = k ? "NodeFull" : "DevicesUnknown";
	if (!k)
		k = td_claims_any(m->pod->root) ? td_ask_claims_give(b, r->s, &part, m->pod, r->c, err)
						: td_ask_counted_room(b, r->s, &part, m->pod, err);
	return k;
}

// Others of it run, and go on without this one, and so do those who come for other places.
static int leave_out(struct td_bridge_run *r, struct td_gang_member *m, const char *reason, const char *text,
		     struct td_error *err)
{
	struct td_bridge_run x = one(r, m);
	m->left_out = true;
	r->a->bind_ms = 0; // its time begins anew with each try
	return td_bridge_run_show(&x, reason, text, err);
}

// Its place, which was lost, or kept, waits for another pod.
static int not_this_one(struct td_bridge_run *r, struct td_gang_member *m, const char *why, struct td_error *err)
{
	td_bridge_run_again(r, TD_REFUSED_AGAIN_MS);
	td_auto_free char *text = td_asprintf("Refused: the place of its gang %s that waits for a pod is not for this "
					      "one: %.400s. Delete it, or wait.",
					      r->gang->name, why);
	return leave_out(r, m, "Refused", text, err);
}

static bool goes_on_without(const struct td_gang_run *g)
{
	bool bound = false;
	for (size_t i = 0; i < g->n; i++)
		bound |= g->v[i].state == TD_POD_BOUND;
	return bound && g->says.on_loss == TD_GANG_REPLACE;
}

// Why the member can have no place of the grant; NULL: it can.
static const char *no_place(const struct td_bridge_run *r, const struct td_gang_member *m)
{
	const char *why = NULL;
	if (!m->seated)
		return "its Slurm job has none for what the pod asks for";
	td_auto(td_object_unref) struct td_object *node = td_informer_get(r->b->nodes, NULL, m->seat.node);
	if (!node)
		return "its node is gone";
	return td_bridge_pod_fits(m->pod->root, node->root, &why) ? NULL : why ? why : "the pod may not run there";
}

static bool is_due(const struct td_gang_member *m)
{
	return m->state == TD_POD_WAITING && !m->p->bound_sent && !m->left_out;
}

// Who comes for a place of a gang that goes on without the others is bound when he can be. *ret_bind: somebody can, or
// all are.
static int some_ready(struct td_bridge_run *r, bool *ret_bind, struct td_error *err)
{
	bool some = false, out = false;
	*ret_bind = false;
	for (size_t i = 0; i < r->gang->n; i++) {
		struct td_gang_member *m = &r->gang->v[i];
		if (!is_due(m))
			continue;
		struct td_error e = TD_ERROR_INIT;
		const char *reason = NULL, *no = no_place(r, m);
		int k = no ? 0 : ready(r, m, &reason, &e);
		enum td_pool_devices is = no ? TD_DEVICES_REFUSE : td_pool_devices(k);
		td_auto_free char *text = NULL;
		switch (is) {
		case TD_DEVICES_THERE:
			some = true;
			continue;
		case TD_DEVICES_AGAIN:
			td_bridge_run_again(r, TD_AGAIN_MS);
			return 0;
		case TD_DEVICES_WAIT: // it may wait longer than a gang that begins
			td_bridge_run_again(r, 1000);
			td_ask_str(r->b->asks, &r->a->why, e.msg);
			text = td_asprintf("Granted, and pod %s of its gang waits: %.400s.", m->pod->name, e.msg);
			k = leave_out(r, m, reason, text, err);
			break;
		case TD_DEVICES_REFUSE:
		case TD_DEVICES_GIVE_BACK:
			k = not_this_one(r, m, no ? no : e.msg, err);
			break;
		case TD_DEVICES_FAIL:
			return td_fail(err, k, "pod %s: %.450s", m->pod->name, e.msg);
		}
		if (k)
			return k;
		out = true;
	}
	*ret_bind = some || !out;
	return 0;
}

// All or nothing: every member must be ready before the first is bound. *ret_bind: they are.
static int all_ready(struct td_bridge_run *r, bool *ret_bind, bool *ret_go_on, struct td_error *err)
{
	struct td_ask *a = r->a;
	*ret_bind = false;
	for (size_t i = 0; i < r->gang->n; i++) {
		struct td_gang_member *m = &r->gang->v[i];
		if (!is_due(m))
			continue;
		struct td_error e = TD_ERROR_INIT;
		const char *reason;
		if (!m->seated) { // until it is late, or its job is read again
			td_bridge_run_again(r, 1000);
			return 0;
		}
		int k = ready(r, m, &reason, &e);
		td_auto_free char *text = NULL;
		switch (td_pool_devices(k)) {
		case TD_DEVICES_THERE:
			continue;
		case TD_DEVICES_AGAIN:
			td_bridge_run_again(r, TD_AGAIN_MS);
			return 0;
		case TD_DEVICES_WAIT:
			td_bridge_run_again(r, 1000);
			td_ask_str(r->b->asks, &a->why, e.msg);
			text = td_asprintf("Granted, and pod %s of its gang waits: %.400s.", m->pod->name, e.msg);
			return td_bridge_run_show(r, reason, text, err);
		case TD_DEVICES_REFUSE:
			a->retry_ms = td_now(r->b) + TD_REFUSED_AGAIN_MS;
			a->feas_gen = atomic_load(&r->b->feas_gen);
			td_ask_str(r->b->asks, &a->refused, e.msg);
			break;
		case TD_DEVICES_GIVE_BACK:
			break;
		case TD_DEVICES_FAIL:
			return td_fail(err, k, "pod %s: %.450s", m->pod->name, e.msg);
		}
		td_warn("gang %s: Slurm job %lld: pod %s: %s", r->gang->name, (long long)a->job, m->pod->name, e.msg);
		td_ask_str(r->b->asks, &a->why, e.msg);
		a->bind_ms = 1; // late: the whole grant goes back
		*ret_go_on = true;
		return 0;
	}
	*ret_bind = true;
	return 0;
}

struct gang_binding { // of all members that wait, by several threads
	struct td_bridge_run *r;
	pthread_mutex_t lock; // guards all below
	size_t next;          // member
	bool old;             // what is known of the job is too old to go on
	struct td_error err;
};

// The next member to be bound. NULL: there is none, or nobody may go on.
static struct td_gang_member *next_member(struct gang_binding *x)
{
	struct td_gang_run *g = x->r->gang;
	struct td_gang_member *found = NULL;
	pthread_mutex_lock(&x->lock);
	while (!x->old && !found && x->next < g->n) {
		struct td_gang_member *m = &g->v[x->next];
		if (!is_due(m))
			x->next++;
		else if (!x->r->b->o.own_kubelet && td_now(x->r->b) - x->r->a->read_ms > BIND_READ_MS)
			x->old = true;
		else
			found = &g->v[x->next++];
	}
	pthread_mutex_unlock(&x->lock);
	return found;
}

static void *bind_some(void *ctx)
{
	struct gang_binding *x = ctx;
	for (struct td_gang_member *m; (m = next_member(x));) {
		struct td_error e = TD_ERROR_INIT;
		struct td_bridge_run run = one(x->r, m);
		if (!td_bridge_run_bind(&run, &e))
			continue;
		pthread_mutex_lock(&x->lock);
		if (!x->err.code)
			x->err = e;
		pthread_mutex_unlock(&x->lock);
	}
	return NULL;
}

// Each thread waits for the API server most of the time. A fence makes a Binding read the job anew,
// which only one may do.
static size_t threads(const struct td_gang_run *g)
{
	size_t n = 0;
	for (size_t i = 0; i < g->n; i++) {
		int64_t job, start;
		if (td_fence_read(g->v[i].pod->root, &job, &start))
			return 1;
		n += g->v[i].state == TD_POD_WAITING;
	}
	n /= PER_THREAD;
	return n < 1 ? 1 : n > THREADS ? THREADS : n;
}

static int bind_all(struct td_bridge_run *r, bool *ret_go_on, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	bool bind;
	if (!r->l) { // unknown is not late
		a->bind_ms = 0;
		td_bridge_run_again(r, 1000);
		return 0;
	}
	if (!a->bind_ms)
		a->bind_ms = td_now(b);
	int k = goes_on_without(r->gang) ? some_ready(r, &bind, err) : all_ready(r, &bind, ret_go_on, err);
	if (k || !bind || (k = td_private_make(r, err)))
		return k;

	// The embedded kubelet asks the gate itself, so there a late Binding does no harm.
	if (!b->o.own_kubelet && td_now(b) - a->read_ms > BIND_READ_MS / 2) {
		int64_t start = a->start, restarts = a->restarts;
		k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
		if (k) {
			a->bind_ms = 0;
			return k;
		}
		if (td_ask_is(a->states) != TD_IS_RUNNING || a->start != start || a->restarts != restarts) {
			*ret_go_on = true;
			return 0;
		}
	}

	hosts(r->gang, a);
	if (a->queued_said && !a->granted_said)
		td_kube_record(b->recorder, TD_ABOUT(r->pod, &td_pods), "Normal", "Granted",
			       "Slurm job %lld starts its gang of %zu%s%s%s on %s", (long long)a->job, a->size,
			       a->roles ? " (" : "", a->roles ? a->roles : "", a->roles ? ")" : "", a->nodes);
	a->granted_said = true;

	struct gang_binding x = {.r = r, .err = TD_ERROR_INIT};
	pthread_mutex_init(&x.lock, NULL);
	pthread_t t[THREADS];
	size_t n = threads(r->gang), runs = 0;
	while (runs + 1 < n && !pthread_create(&t[runs], NULL, bind_some, &x))
		runs++;
	bind_some(&x);
	for (size_t i = 0; i < runs; i++)
		pthread_join(t[i], NULL);
	pthread_mutex_destroy(&x.lock);

	if (x.err.code)
		return td_fail(err, x.err.code, "%.500s", x.err.msg);
	if (x.old) {
		pthread_mutex_lock(&b->asks->lock);
		a->look = true;
		pthread_mutex_unlock(&b->asks->lock);
		*ret_go_on = true;
		return 0;
	}
	a->fails = 0;
	td_bridge_run_mark(r);
	td_bridge_run_again(r, 2000);
	return 0;
}

// ---- ends ----

int td_gang_end_each(const struct td_bridge_run *r, bool waits, td_gang_end_f end, const void *ctx,
		     struct td_error *err)
{
	int all = 0, led = -1;
	if (!r->gang) {
		struct td_bridge_run x = *r;
		return end(&x, ctx, err);
	}
	for (size_t i = 0; i < r->gang->n; i++) {
		struct td_gang_member *m = &r->gang->v[i];
		if (m->state != TD_POD_BOUND && !(m->state == TD_POD_WAITING && waits))
			continue;
		struct td_error e = TD_ERROR_INIT;
		struct td_bridge_run x = one(r, m);
		// Without its workers an MPIJob never makes a launcher that is late. One that is there is tried again, as
		// often as its Job says, and then they are made anew (gang_again.c).
		bool late = r->gang->says.most > r->gang->says.size && td_gang_stays(m->pod);
		if (late && led < 0)
			led = td_gang_led(r->b, r->gang->name, m->pod);
		late = late && !led;
		x.remove = m->state == TD_POD_BOUND && (late || r->gang->says.on_loss == TD_GANG_RESTART);
		int k = end(&x, ctx, &e);
		if (k && !all)
			all = td_fail(err, k, "%.500s", e.msg);
	}
	return all;
}

static int end_pod(struct td_bridge_run *x, const void *why, struct td_error *err)
{
	return td_bridge_run_end_pod(x, why, err);
}

static int end_pods(struct td_bridge_run *r, const char *why, struct td_error *err)
{
	// Who waits ends only with the job: its owner scancelled it, say. Else it stands in line again.
	bool over = td_ask_is(r->a->states) == TD_IS_ENDED || r->a->know == TD_JOB_GONE;
	return td_gang_end_each(r, over, end_pod, why, err);
}

// What members that run are due. *ret_goes: they make room for others.
static int tend(struct td_bridge_run *r, bool *ret_goes, bool *ret_go_on, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_goes = false;
	if (a->know != TD_JOB_READ || !a->job || !r->l)
		return 0;
	td_bridge_run_mark(r);
	int k = td_bridge_run_victim(r, ret_goes, err);
	if (k)
		return k;
	td_bridge_run_again(r, SWEEP_MS);
	if (td_now(b) - a->read_ms >= SWEEP_MS) {
		pthread_mutex_lock(&b->asks->lock);
		a->look = true;
		pthread_mutex_unlock(&b->asks->lock);
		*ret_go_on = true;
	}
	return *ret_goes ? 0 : td_bridge_run_hang(r, err);
}

int td_gang_act(struct td_bridge_run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_go_on = false;
	td_ask_str(b->asks, &a->why, st.why);
	if (a->res_tag && st.what != TD_DO_ALLOCATE)
		td_room_given(b, a, 0);

	switch (st.what) {
	case TD_DO_BIND: {
		// Those that run are looked after while one waits for a place, which may be for ever.
		bool goes = false;
		int k = goes_on_without(r->gang) ? tend(r, &goes, ret_go_on, err) : 0;
		return k || goes || *ret_go_on ? k : bind_all(r, ret_go_on, err);
	}
	case TD_DO_END_POD: {
		// Those who make room say so, also when one of them has ended first.
		bool goes;
		int k = td_bridge_run_victim(r, &goes, err);
		return k ? k : end_pods(r, st.why, err);
	}
	case TD_DO_NOTHING: {
		bool goes;
		return tend(r, &goes, ret_go_on, err);
	}
	default:
		return td_bridge_run_act(r, st, ret_go_on, err);
	}
}
