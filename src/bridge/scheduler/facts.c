// Reads what the decision about an ask needs: the present state of the pod, of its claims and
// nodes, and of its job.
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/preempt.h"
#include "bridge/scheduler/turns.h"

#include "api/annotations.h"
#include "kube/fence.h"
#include "slurm/hostlist.h"

#include <string.h>

enum { SHORT_S = 60 }; // how long a grant may lack devices; nodes register again long before

enum td_pool_pod_state td_pod_state(const struct td_object *pod)
{
	if (!pod)
		return TD_POD_GONE;
	if (td_kube_pod_ended(pod->root))
		return TD_POD_DONE;

	bool bound = td_jstr(pod->root, "spec.nodeName");
	if (td_object_deleting(pod))
		return bound ? TD_POD_LEAVING : TD_POD_GONE; // of an unbound pod nothing runs
	return bound ? TD_POD_BOUND : TD_POD_WAITING;
}

bool td_bridge_pod_grant(const struct td_object *pod, struct td_grant *ret)
{
	const char *job = td_object_annotation(pod, TD_ANN_JOB), *start = td_object_annotation(pod, TD_ANN_START),
		   *restarts = td_object_annotation(pod, TD_ANN_RESTARTS);
	long long j, s = 0, n = 0;

	if (!job || !td_parse_i64(job, &j) || j <= 0)
		return false;

	if (start)
		td_parse_i64(start, &s);
	if (restarts)
		td_parse_i64(restarts, &n);

	*ret = (struct td_grant){.job = j,
				 .start = s,
				 .restarts = n,
				 .ask = pod->uid,
				 .nodes = td_jstr(pod->root, "spec.nodeName"),
				 .devices = td_object_annotation(pod, TD_ANN_DEVICES)};
	return true;
}

bool td_bridge_superseded(const struct td_object *pod)
{
	return pod && td_pod_state(pod) == TD_POD_DONE && td_streq(td_jstr(pod->root, "status.reason"), "GrantEnded") &&
	       !td_object_annotation(pod, TD_ANN_ENDED);
}

// Translates the pod into r->want, once per run, and computes where it may run. A refusal is no
// error: it goes to a->refused.
static int want(struct td_bridge_run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	uint64_t gen = atomic_load(&r->b->feas_gen);
	if (r->wanted)
		return 0;

	int k = td_ask_claims_back(r->b, r->pod, r->c, err);
	if (k) {
		td_bridge_run_again(r, TD_AGAIN_MS);
		return k;
	}

	// A refusal stands only for the version of the pod that was refused: a change may have
	// cured it.
	bool same = td_streq(a->read_rv, r->pod->rv) && a->feas_gen == gen;
	if (a->refused && same && td_now(r->b) < a->retry_ms)
		return 0;

	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *name = td_asprintf("SlurmCluster %s/%s", r->b->o.ns, r->b->o.cluster);
	{
		td_auto_claims struct td_claims claims = {0};
		k = td_ask_claims(r->b, r->s, r->pod, &claims, &e);
		if (!k)
			k = td_want_read(r->s, name, r->pod->root, claims.count, &r->want, &e);
		if (!k)
			k = td_ask_types(r, r->pod, &r->want, &e);
		if (!k)
			k = td_turns_want(r, &e);
		// A watch will tell when the claims come or are let go, and when the Tenant's account is in place; a GPU
		// that is to be cut, and what ran before, is looked at again.
		if (k == TD_NOT_FOUND) {
			td_ask_str(r->b->asks, &a->refused, NULL);
			td_bridge_run_again(r, TD_READ_PENDING_MS);
			return td_fail(err, k, "%.400s", e.msg);
		}
		if (!k && r->want.ask.segment)
			k = td_fail(&e, TD_INVALID,
				    "annotation " TD_ANN_ASK_PREFIX
				    "segment: it is for gangs: a pod alone has one node; "
				    "leave it out, or say by the label " TD_LABEL_GANG " which gang it is in");
	}

	if (!k) {
		r->wanted = true;
		td_auto_where struct td_where where = {0};
		k = td_bridge_run_where(r, &where, &e);
		if (k)
			return td_fail(err, k, "%.500s", e.msg);

		r->ever = where.fit == TD_FIT_SOME_DAY;
		r->want.ask.excluded_nodes = td_arena_strdup(r->want.arena, where.excluded);

		// A native job beside the pod could get from Slurm the very device that the kubelet
		// gave the pod (docs/design/0011-dra.md).
		r->want.ask.exclusive_user =
			atomic_load(&r->b->kubelets) && !r->s->devices.shared && td_want_counted(r->s, r->pod->root);

		if (!r->ever) {
			// Nodes that are just coming or going are no reason to refuse the pod.
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
	snprintf(a->read_rv, sizeof(a->read_rv), "%s", r->pod->rv ? r->pod->rv : "");

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
	if (td_owner_of(r, &o)) {
		td_ask_str(r->b->asks, &a->user, o.user);
		r->want.ask.uid = o.uid;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

bool td_bridge_run_same_names(const char *x, const char *y)
{
	td_auto_strv struct td_strv p = {0}, q = {0};
	if (td_hostlist_parse(x, &p, NULL) || td_hostlist_parse(y, &q, NULL) || p.n != q.n)
		return false;
	if (p.n) { // thousands, maybe
		qsort(p.v, p.n, sizeof(*p.v), by_text);
		qsort(q.v, q.n, sizeof(*q.v), by_text);
	}
	for (size_t i = 0; i < p.n; i++)
		if (strcmp(p.v[i], q.v[i]) != 0)
			return false;
	return true;
}

// A pod that wants to hear of its time limit by a signal: the end comes so early that there is time.
static void limit_near(struct td_bridge_run *r)
{
	struct td_ask *a = r->a;
	const char *text = r->pod ? td_object_annotation(r->pod, td_annotations[TD_ASKS_SIGNAL].name) : NULL;
	int signal;
	int64_t seconds;
	if (!text || a->batch || a->limit_min <= 0 || a->end <= 0 || a->warned ||
	    td_pod_state(r->pod) != TD_POD_BOUND || td_api_signal_read(text, &signal, &seconds, NULL))
		return;
	int64_t own = td_jint(r->pod->root, "spec.terminationGracePeriodSeconds", 30);
	int64_t left = (a->end - seconds - own) * 1000 - td_real_ms(r->b->clock);
	pthread_mutex_lock(&r->b->asks->lock);
	a->warned = left <= 0;
	pthread_mutex_unlock(&r->b->asks->lock);
	if (left > 0)
		td_bridge_run_again(r, left);
}

// Polls decide whether the job must be read: a poll costs 80 bytes a job, a read 8 to 14 KB
// (docs/facts/slurm.md S-W1, S-W2).
int td_bridge_run_look(struct td_bridge_run *r, bool *ret_wait, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_wait = false;

	if (!a->job || !r->l)
		return 0;
	limit_near(r);

	pthread_mutex_lock(&b->asks->lock);
	if (a->found && a->found == a->job)
		a->found = 0;
	if (a->knocked && a->knocked == a->job && !a->passed) {
		a->passed = true;
		a->not_before = 0;
	}

	bool usr1 = a->usr1;
	struct td_pool_look l = {.know = a->know,
				 .asked = a->look,
				 .changed = a->know != TD_JOB_NONE && a->polled != a->states,
				 .warned = usr1,
				 .named = a->named,
				 .polled = td_ask_is(a->polled),
				 .pod_waits = td_pod_state(r->pod) == TD_POD_WAITING,
				 .knocks = a->batch,
				 .knocked = a->passed,
				 .now_ms = td_now(b),
				 .not_before_ms = a->not_before,
				 .knock_ms = a->knock_ms};

	enum td_pool_look_do what = td_pool_look(&l);
	a->knock_ms = l.knock_ms;
	a->not_before = l.not_before_ms;
	if (what == TD_LOOK_POLL) {
		a->states = a->polled;
		a->has_cpus = a->has_memory_mb = 0;
	}
	pthread_mutex_unlock(&b->asks->lock);

	switch (what) {
	case TD_LOOK_NOT:
		return 0;
	case TD_LOOK_POLL:
		td_ask_pending(b->asks, a, false);
		return 0;
	case TD_LOOK_LATER:
		td_bridge_run_again(r, l.wait_ms);
		*ret_wait = true;
		return 0;
	case TD_LOOK_READ:
		break;
	}

	int k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
	if (k || !usr1)
		return k;

	bool limit = a->limit_min > 0 && a->end > 0;
	int64_t left = (a->end - td_real_ms(b->clock) / 1000 - r->s->end_grace_s) * 1000;
	enum td_pool_warning w = td_pool_warning(a->preempt > 0, limit, left);
	pthread_mutex_lock(&b->asks->lock);
	a->warned = w == TD_WARNING_NOW;
	a->usr1 = w == TD_WARNING_LATER;
	pthread_mutex_unlock(&b->asks->lock);
	if (w == TD_WARNING_LATER)
		td_bridge_run_again(r, left);
	return 0;
}

// Is there room now, or can it be taken from others?
static void room(struct td_bridge_run *r, struct td_pool_ask *pa)
{
	if (td_want_early(&r->want, td_real_ms(r->b->clock)))
		return; // it waits for its time in Slurm's queue
	pa->fits_now = td_ask_fits_now(r->b, r->s, r->a, r->pod, &r->want);
	if (pa->fits_now)
		td_preempt_begin(r);
	enum td_pool_preempt_do what = pa->fits_now ? TD_PREEMPT_QUEUE : td_preempt_next(r);
	pa->fits_now |= what == TD_PREEMPT_TRY;
	pa->takes = what == TD_PREEMPT_WAIT;
}

int td_bridge_run_facts(struct td_bridge_run *r, struct td_pool_ask *pa, struct td_pool_job *pj, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*pa = (struct td_pool_ask){
		.uid = a->uid, .pod = td_pod_state(r->pod), .node_fits = true, .lost_state = atomic_load(&b->lost)};

	if (r->pod) {
		pa->has_grant = td_bridge_pod_grant(r->pod, &pa->grant);
		pa->superseded = td_bridge_superseded(r->pod);
	}

	bool same_spec = true;
	enum td_job_phase phase = a->know == TD_JOB_READ ? td_job_phase(a->states) : TD_PHASE_UNKNOWN;

	td_ask_job(b, a, true, pj);

	if (pa->pod == TD_POD_WAITING && a->know != TD_JOB_UNSURE) {
		// A job of somebody else under this id does not count: a submit follows.
		bool waits = pj->ours && phase == TD_PHASE_WAITING,
		     runs = pj->ours && (phase == TD_PHASE_RUNNING || phase == TD_PHASE_STARTING);
		if (!runs && (!waits || a->feas_gen != atomic_load(&b->feas_gen))) {
			int k = want(r, err);
			if (k)
				return k;
			pa->refused = a->refused;
			if (waits && !a->refused && r->wanted)
				same_spec = td_bridge_run_same_names(a->excluded ? a->excluded : "",
								     r->want.ask.excluded_nodes);
		} else if (runs && a->nodes) {
			td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, a->nodes);
			r->unfit = NULL;
			pa->node_fits = node && td_bridge_pod_fits(r->pod->root, node->root, &r->unfit) &&
					!td_streq(a->devices, "?");
			pa->fenced = td_fence_is(r->pod->root, a->job, a->start);
			pa->short_of =
				!td_devices_cover(r->s, r->pod->root, td_ask_claimed(b, r->s, r->pod), a->devices);
			pa->waited = td_real_ms(b->clock) / 1000 - a->start > SHORT_S;
		}
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

	if (td_pool_fast_due(pa, pj) && r->wanted && r->l && !a->res_tag && td_now(b) >= a->retry_ms)
		room(r, pa);
	return 0;
}
