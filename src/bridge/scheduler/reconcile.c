// One ask at a time: read what is, let pool/ decide, do it, look again.
#include "bridge/scheduler/ask.h"

#include "base/log.h"
#include "slurm/hostlist.h"

#include <string.h>

enum {
	STEPS_MAX = 8,
	KEY_ASKS = 16,
	REFUSED_AGAIN_MS = 60000,
	SHOW_AFTER_MS = 700,
	READ_PENDING_MS = 10000,
	SWEEP_MS = 60000,
	SHORT_S = 60,  // how long a grant may lack devices: nodes register again long before
	KNOCK_MS = 500 // a stand-in that runs and has not knocked by then is looked at all the same
};

struct run {
	struct td_bridge *b;
	struct td_settings *s;
	struct td_link *l; // NULL: slurmrestd cannot be reached
	struct td_ask *a;
	const struct td_object *pod; // NULL: gone
	struct td_want want;
	bool wanted, ever;
	int64_t *again_ms;
	struct td_cancel *c;
	struct td_error *link_err;
};

static void again(struct run *r, int64_t ms)
{
	if (ms < 1)
		ms = 1;
	if (!*r->again_ms || ms < *r->again_ms)
		*r->again_ms = ms;
}

static enum td_pod_state pod_state(const struct td_object *pod)
{
	if (!pod)
		return TD_POD_GONE;
	const char *phase = td_jstr_or(pod->root, "status.phase", "");
	if (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed"))
		return TD_POD_DONE;
	bool bound = td_jstr(pod->root, "spec.nodeName");
	if (td_object_deleting(pod))
		return bound ? TD_POD_LEAVING : TD_POD_GONE; // unbound: nothing of it runs
	return bound ? TD_POD_BOUND : TD_POD_WAITING;
}

// The grant that the pod carries; false: none.
static bool pod_grant(const struct td_object *pod, struct td_grant *ret)
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

static int exit_code(const struct td_object *pod)
{
	yyjson_val *c;
	size_t i, n;
	long long code = 0;
	yyjson_arr_foreach (td_jget(pod->root, "status.containerStatuses"), i, n, c) {
		code = td_jint(c, "state.terminated.exitCode", 0);
		if (code)
			break;
	}
	return (int)(code < 0 || code > 255 ? 1 : code);
}

// What the pod asks for, in Slurm's words; once per run. A refusal is kept in a->refused.
static int want(struct run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	uint64_t gen = atomic_load(&r->b->feas_gen);
	if (r->wanted)
		return 0;
	if (a->refused && a->feas_gen == gen && td_now(r->b) < a->retry_ms)
		return 0;
	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *name = td_asprintf("SlurmCluster %s/%s", r->b->o.ns, r->b->o.cluster), *excluded = NULL;
	char why[300] = "";
	int k = td_want_read(r->s, name, r->pod->root, &r->want, &e);
	if (!k) {
		r->wanted = true;
		k = td_ask_excluded(r->b, r->pod, &r->want, &excluded, &r->ever, why, sizeof(why), &e);
		if (k)
			return td_fail(err, k, "%.500s", e.msg);
		r->want.ask.excluded_nodes = td_arena_strdup(r->want.arena, excluded);
		if (!r->ever) {
			// Nodes that are just coming or going are no reason to refuse.
			pthread_mutex_lock(&r->b->lock);
			int64_t settled = r->b->nodes_changed_ms + 3000 - td_now(r->b);
			pthread_mutex_unlock(&r->b->lock);
			if (settled > 0 || !strcmp(why, "Slurm has no nodes")) {
				again(r, settled > 0 ? settled : 1000);
				return td_fail(err, TD_NOT_FOUND, "%s", why);
			}
			snprintf(e.msg, sizeof(e.msg), "%s", why);
		}
	}
	a->feas_gen = gen;
	if (k || !r->ever) {
		a->retry_ms = td_now(r->b) + REFUSED_AGAIN_MS;
		td_ask_str(r->b->asks, &a->refused, e.msg);
		return 0;
	}
	td_ask_str(r->b->asks, &a->refused, NULL);
	struct td_owner o;
	if (td_settings_owner(r->s, r->pod->ns, &o))
		td_ask_str(r->b->asks, &a->user, o.user);
	return 0;
}

static bool same_names(const char *x, const char *y)
{
	td_auto_strv struct td_strv p = {0}, q = {0};
	if (td_hostlist_parse(x, &p, NULL) || td_hostlist_parse(y, &q, NULL) || p.n != q.n)
		return false;
	for (size_t i = 0; i < p.n; i++)
		if (!td_strv_has(&q, p.v[i]))
			return false;
	return true;
}

// What the last poll says, where that is enough and no read is needed (one read is 6 KB, a state in a poll 40 bytes). False: read it.
static bool poll_is_enough(struct run *r)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	bool enough = false;
	pthread_mutex_lock(&b->asks->lock);
	enum td_job_phase now = td_job_phase(a->polled);
	if (a->know != TD_JOB_READ || a->look || a->usr1 || !a->named)
		;
	else if ((now == TD_PHASE_ENDED || now == TD_PHASE_ENDING) && pod_state(r->pod) != TD_POD_WAITING) {
		// Its grant is over, and so it is if the id was another's by then. (A pod that still waits may be submitted again or not:
		// that needs to be sure.)
		a->states = a->polled;
		a->has_cpus = a->has_memory_mb = 0;
		enough = true;
	} else if (a->batch && now == TD_PHASE_RUNNING && !a->passed) {
		// It may be bound when its stand-in has knocked: a look before would only show the prolog.
		int64_t t = td_now(b);
		a->knock_ms = a->knock_ms ? a->knock_ms : t + KNOCK_MS;
		a->not_before = a->knock_ms;
	}
	pthread_mutex_unlock(&b->asks->lock);
	if (enough)
		td_ask_pending(b->asks, a, false);
	return enough;
}

// Reads the job when something says that it may have changed. False: not yet (again is set).
static int refresh(struct run *r, bool *ret_wait, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_wait = false;
	if (!a->job || !r->l)
		return 0;
	pthread_mutex_lock(&b->asks->lock);
	if (a->found && a->found == a->job)
		a->found = 0;
	if (a->knocked && a->knocked == a->job && !a->passed) {
		a->passed = true;
		a->not_before = 0;
	}
	bool changed = a->know != TD_JOB_NONE && a->polled != a->states, need = a->know == TD_JOB_UNSURE || a->look || changed;
	bool usr1 = a->usr1;
	pthread_mutex_unlock(&b->asks->lock);
	if ((!need && !usr1) || poll_is_enough(r))
		return 0;
	int64_t now = td_now(b), before = a->not_before;
	if (now < before) {
		again(r, before - now);
		*ret_wait = true;
		return 0;
	}
	int k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
	if (k)
		return k;
	if (usr1) {
		// Preemption is announced by preempt_time; the time limit by its nearness; any other USR1 was somebody's own idea.
		int64_t left = (a->end - td_real_ms(b->clock) / 1000 - r->s->end_grace_s) * 1000;
		bool limit = a->limit_min > 0 && a->end > 0;
		pthread_mutex_lock(&b->asks->lock);
		a->warned = a->preempt > 0 || (limit && left <= 0);
		a->usr1 = !a->warned && limit && left < 600000;
		pthread_mutex_unlock(&b->asks->lock);
		if (a->usr1)
			again(r, left);
		*ret_wait = false;
	}
	return 0;
}

static int submit(struct run *r, bool immediate, bool *ret_go_on, struct td_error *err)
{
	struct td_ask *a = r->a;
	int64_t now = td_now(r->b);
	if (!r->l) {
		if (immediate)
			td_room_given(r->b, a, 0);
		again(r, 1000);
		return td_ask_show(r->b, a, r->pod, "SlurmUnavailable",
				   "Slurm cannot be asked now; it will be queued as soon as it answers.", r->c, err);
	}
	if (now < a->retry_ms && !a->refused) {
		if (immediate)
			td_room_given(r->b, a, 0);
		again(r, a->retry_ms - now);
		return 0;
	}
	struct td_error e = TD_ERROR_INIT;
	int k = td_ask_submit(r->b, r->s, r->l, a, r->pod, &r->want, immediate, r->c, &e);
	if (!k) {
		// A job that ends again and again before its pod is bound must not become a storm.
		a->fails++;
		a->retry_ms = a->fails < 3 ? 0 : now + (a->fails > 10 ? 30000 : 250 << (a->fails - 3));
		*ret_go_on = immediate;
		if (!immediate)
			again(r, SHOW_AFTER_MS);
		return 0;
	}
	if (immediate && (k == TD_THROTTLED || k == TD_INVALID)) {
		*ret_go_on = true; // through the queue
		return 0;
	}
	if (k == TD_INVALID || k == TD_DENIED) {
		a->retry_ms = now + REFUSED_AGAIN_MS;
		td_auto_free char *text = td_asprintf("%.400s", e.msg);
		td_ask_str(r->b->asks, &a->refused, text);
		*ret_go_on = true;
		return 0;
	}
	if (k == TD_THROTTLED) {
		a->retry_ms = now + 5000;
		again(r, 5000);
		td_auto_free char *text = td_asprintf("Slurm takes no more jobs of this user now: %.400s", e.msg);
		return td_ask_show(r->b, a, r->pod, "SlurmLimit", text, r->c, err);
	}
	return td_fail(err, k, "%.500s", e.msg);
}

static int show_pending(struct run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	int64_t now = td_now(b), every = READ_PENDING_MS, first = SHOW_AFTER_MS;
	pthread_mutex_lock(&b->asks->lock);
	int64_t slow = (int64_t)b->asks->pending * 20; // the more wait, the slower each one's words
	pthread_mutex_unlock(&b->asks->lock);
	every = slow > every ? slow : every;
	first = slow > first ? slow : first;
	if (a->know == TD_JOB_READ && td_job_phase(a->states) == TD_PHASE_WAITING) {
		if (!a->queued_said) {
			a->queued_said = true;
			td_record(b->recorder, r->pod, &td_pods, "Normal", "Queued", "Slurm job %lld waits for user %s", (long long)a->job,
				  a->user ? a->user : "?");
		}
		int64_t due = a->read_ms + (td_streq(a->reason, "None") ? first : every) - now;
		if (due <= 0 && r->l) {
			int k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
			if (k)
				return k;
			due = every;
		}
		again(r, due > 0 ? due : every);
		if (td_streq(a->reason, "None") && now - a->asked_ms < SHOW_AFTER_MS)
			return 0; // most start before there is anything to say
	}
	td_auto_free char *text = td_ask_waits_text(a, td_real_ms(b->clock) / 1000);
	return td_ask_show(b, a, r->pod, "SlurmPending", text, r->c, err);
}

static int update_excluded(struct run *r, struct td_error *err)
{
	const struct td_slurm_job_change ch = {.excluded_nodes = r->want.ask.excluded_nodes};
	struct td_error e = TD_ERROR_INIT;
	int k = td_slurm_job_update(r->l->slurm, r->a->job, &ch, r->c, &e);
	// "no longer pending" is a race with its start, not a failure: look again.
	if (!k || k == TD_CONFLICT || k == TD_NOT_FOUND)
		return td_ask_read(r->b, r->s, r->l->slurm, r->a, r->c, err);
	if (k == TD_INVALID) {
		// The job excludes a node that was deleted since: slurmctld then takes no new list at all (2018), and the job goes on well
		// with the old one. A node that the new list would exclude is caught before the bind.
		td_debug("%s: %s", r->a->key, e.msg);
		td_ask_str(r->b->asks, &r->a->excluded, r->want.ask.excluded_nodes);
		return 0;
	}
	return td_fail(err, k, "%.500s", e.msg);
}

static int refuse(struct run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	td_auto_free char *text = td_asprintf("Refused: %s", a->refused);
	if (!td_streq(a->said, text)) {
		td_info("pod %s: refused: %s", a->key, a->refused);
		td_record(r->b->recorder, r->pod, &td_pods, "Warning", "Refused", "%s", a->refused);
	}
	again(r, a->retry_ms - td_now(r->b));
	return td_ask_show(r->b, a, r->pod, "Refused", text, r->c, err);
}

// Everything that the decision needs; may ask for another round only.
static int facts(struct run *r, struct td_pool_ask *pa, struct td_pool_job *pj, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*pa = (struct td_pool_ask){.uid = a->uid, .pod = pod_state(r->pod), .node_fits = true, .lost_state = atomic_load(&b->lost)};
	if (r->pod) {
		pa->has_grant = pod_grant(r->pod, &pa->grant);
		pa->superseded = pa->pod == TD_POD_DONE && td_streq(td_jstr(r->pod->root, "status.reason"), "GrantEnded");
	}
	bool same_spec = true;
	enum td_job_phase phase = a->know == TD_JOB_READ ? td_job_phase(a->states) : TD_PHASE_UNKNOWN;
	td_ask_job(b, a, true, pj);
	if (pa->pod == TD_POD_WAITING && a->know != TD_JOB_UNSURE) {
		// Another's job under this id is none of ours: a submit follows.
		bool waits = pj->ours && phase == TD_PHASE_WAITING,
		     runs = pj->ours && (phase == TD_PHASE_RUNNING || phase == TD_PHASE_STARTING);
		if (!runs && (!waits || a->feas_gen != atomic_load(&b->feas_gen))) {
			int k = want(r, err);
			if (k)
				return k;
			pa->refused = a->refused;
			if (waits && !a->refused && r->wanted)
				same_spec = same_names(a->excluded ? a->excluded : "", r->want.ask.excluded_nodes);
		} else if (runs && a->nodes) {
			td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, a->nodes);
			pa->node_fits =
				node && td_bridge_pod_fits(td_jget(r->pod->root, "spec"), node->root, NULL) && !td_streq(a->devices, "?");
			pa->short_of = !td_devices_cover(r->s, r->pod->root, a->devices);
			pa->waited = td_real_ms(b->clock) / 1000 - a->start > SHORT_S;
		}
	}
	td_ask_job(b, a, same_spec, pj);
	pthread_mutex_lock(&b->asks->lock);
	bool unproven = a->know == TD_JOB_GONE && !a->gone_seen;
	pthread_mutex_unlock(&b->asks->lock);
	if (unproven) { // absent in one read: the poll decides first whether all of Slurm's state is gone
		pj->know = TD_JOB_READ;
		pj->is = TD_IS_UNKNOWN;
		pj->ours = true;
		td_bridge_poll_now(b);
		again(r, 250);
		pthread_mutex_lock(&b->asks->lock);
		a->look = true; // its id may be another's by then
		pthread_mutex_unlock(&b->asks->lock);
		return 0;
	}
	if (pa->pod == TD_POD_WAITING && !pa->refused && r->wanted && r->l && !a->res_tag && td_now(b) >= a->retry_ms &&
	    (pj->know == TD_JOB_NONE || pj->know == TD_JOB_GONE || (pj->know == TD_JOB_READ && (!pj->ours || pj->is == TD_IS_ENDED))))
		pa->fits_now = td_ask_fits_now(b, r->s, a, r->pod, &r->want);
	return 0;
}

static int act(struct run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_go_on = false;
	td_ask_str(b->asks, &a->why, st.why);
	if (a->res_tag && st.what != TD_DO_ALLOCATE)
		td_room_given(b, a, 0);
	switch (st.what) {
	case TD_DO_NOTHING:
		if (r->pod && pod_state(r->pod) == TD_POD_BOUND && a->know == TD_JOB_READ && r->l) {
			td_ask_mark(b, r->s, r->l, a, r->c);
			again(r, SWEEP_MS); // bound grants are read again at least that often
			if (td_now(b) - a->read_ms >= SWEEP_MS) {
				pthread_mutex_lock(&b->asks->lock);
				a->look = true;
				pthread_mutex_unlock(&b->asks->lock);
				*ret_go_on = true;
			}
		}
		return 0;
	case TD_DO_ALLOCATE:
		return submit(r, true, ret_go_on, err);
	case TD_DO_SUBMIT:
		return submit(r, false, ret_go_on, err);
	case TD_DO_LOOK:
		if (a->job && r->l) {
			pthread_mutex_lock(&b->asks->lock);
			a->look = true;
			pthread_mutex_unlock(&b->asks->lock);
			*ret_go_on = true;
			return 0;
		}
		if (!a->job)
			td_bridge_want_list(b, 0);
		again(r, 1000);
		return 0;
	case TD_DO_SHOW:
		return show_pending(r, err);
	case TD_DO_WAIT: {
		// A look is 6 KB. A lone pod is looked at again soon; of many, each after as long again as it has waited.
		int64_t waited = td_now(b) - a->allocated_ms;
		int64_t ms = a->batch        ? KNOCK_MS // its knock goes before it
			     : a->burst      ? (waited < 30     ? 30
						: waited < 1000 ? waited
								: 1000)
			     : a->waits < 2  ? 4
			     : a->waits < 6  ? 12
			     : a->waits < 12 ? 50
					     : 250;
		a->waits++;
		pthread_mutex_lock(&b->asks->lock);
		a->look = true;
		a->not_before = td_now(b) + ms;
		pthread_mutex_unlock(&b->asks->lock);
		again(r, ms);
		return 0;
	}
	case TD_DO_UPDATE:
		*ret_go_on = true;
		return r->l ? update_excluded(r, err) : 0;
	case TD_DO_BIND:
		if (a->bound_sent)
			return 0; // the watch will show it
		if (a->queued_said)
			td_record(b->recorder, r->pod, &td_pods, "Normal", "Granted", "Slurm job %lld starts on %s", (long long)a->job,
				  a->nodes);
		{
			int k = td_ask_bind(b, a, r->pod, r->c, err);
			if (k)
				return k;
		}
		a->fails = 0;
		if (r->l)
			td_ask_mark(b, r->s, r->l, a, r->c);
		again(r, 2000);
		return 0;
	case TD_DO_END_JOB:
		if (!r->l) {
			again(r, 1000);
			return 0;
		} else {
			int64_t wait = 0;
			int k = td_ask_end_job(b, r->s, r->l, a, r->pod, &wait, r->c, err);
			if (wait)
				again(r, wait);
			*ret_go_on = !k && !wait;
			return k;
		}
	case TD_DO_END_POD:
		return td_ask_end_pod(b, r->s, a, r->pod, st.why, r->c, err);
	case TD_DO_REFUSE:
		return refuse(r, err);
	case TD_DO_FORGET:
		td_ask_forget(b->asks, a);
		return 0;
	}
	return 0;
}

// What others left for the worker: a listing's findings.
static void intake(struct run *r)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	pthread_mutex_lock(&b->asks->lock);
	int64_t found = a->found;
	bool none = a->know == TD_JOB_UNSURE && !a->job && a->listed_ms > a->asked_ms;
	a->found = 0;
	if (none && !found)
		a->know = TD_JOB_NONE; // the list was asked for after the submit, and does not have it
	pthread_mutex_unlock(&b->asks->lock);
	if (!found || found == a->job)
		return;
	int64_t extra = a->job;
	td_ask_set_job(b->asks, a, found);
	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_UNSURE;
	pthread_mutex_unlock(&b->asks->lock);
	if (extra && r->l)
		td_end_extra(b, r->s, r->l->slurm, extra, a->uid, r->c);
}

static int run_ask(struct run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_grant g;
	intake(r);
	if (r->pod) {
		pthread_mutex_lock(&b->asks->lock);
		a->exit_code = pod_state(r->pod) == TD_POD_DONE ? exit_code(r->pod) : 143;
		pthread_mutex_unlock(&b->asks->lock);
		// The pod carries the truth about its grant; another job of ours is an extra.
		if (td_jstr(r->pod->root, "spec.nodeName") && pod_grant(r->pod, &g) && g.job != a->job &&
		    pod_state(r->pod) != TD_POD_DONE) {
			int64_t extra = a->job;
			td_ask_set_job(b->asks, a, g.job);
			pthread_mutex_lock(&b->asks->lock);
			a->know = TD_JOB_UNSURE;
			pthread_mutex_unlock(&b->asks->lock);
			if (extra && r->l)
				td_end_extra(b, r->s, r->l->slurm, extra, a->uid, r->c);
		}
	}
	for (int i = 0; i < STEPS_MAX; i++) {
		bool go_on, wait;
		struct td_pool_ask pa;
		struct td_pool_job pj;
		int k = refresh(r, &wait, err);
		if (k || wait)
			return k;
		k = facts(r, &pa, &pj, err);
		if (k == TD_NOT_FOUND) { // no nodes yet
			td_auto_free char *text = td_asprintf("It waits: %.300s.", err->msg);
			return td_ask_show(b, a, r->pod, "SlurmPending", text, r->c, err);
		}
		if (k)
			return k;
		struct td_pool_step st = td_pool_reconcile_ask(&pa, &pj);
		td_debug("%s: %s (%s)", a->key, td_pool_do_name(st.what), st.why);
		k = act(r, st, &go_on, err);
		if (k || !go_on)
			return k;
		td_want_done(&r->want);
		r->wanted = false;
	}
	again(r, 100);
	return 0;
}

static int run_one(struct td_bridge *b, struct td_settings *s, struct td_link *l, struct td_ask *a, const struct td_object *pod,
		   int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct run r = {.b = b, .s = s, .l = l, .a = a, .pod = pod, .again_ms = again_ms, .c = c};
	int k = run_ask(&r, err);
	td_want_done(&r.want);
	if (a->res_tag)
		td_room_given(b, a, 0);
	return k;
}

// A job of ours without a pod in the cache: gone only when a list that was asked for now says so.
static int orphan(struct td_bridge *b, const char *uid, struct td_settings *s, struct td_object **ret, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(b->pods, "uid", uid, &l);
	if (!l.n) {
		td_auto_free char *sel = td_asprintf("spec.schedulerName=%s", s->scheduler);
		struct td_objects all = {0};
		int r = td_kube_list(b->kube, &td_pods, NULL, NULL, sel, c, &all, err);
		for (size_t i = 0; !r && i < all.n; i++)
			if (!strcmp(all.v[i]->uid, uid))
				td_objects_add(&l, td_object_ref(all.v[i]));
		td_objects_done(&all);
		if (r)
			return r;
	}
	*ret = l.n ? td_object_ref(l.v[0]) : NULL;
	return 0;
}

static void ask_init(struct td_bridge *b, struct td_ask *a, const struct td_object *pod)
{
	struct td_grant g;
	if (!td_jstr(pod->root, "spec.nodeName") || pod_state(pod) == TD_POD_DONE || !pod_grant(pod, &g))
		return;
	td_ask_set_job(b->asks, a, g.job);
	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_UNSURE;
	a->born_s = g.start;
	pthread_mutex_unlock(&b->asks->lock);
	td_slurm_view_watch(b->view, g.job, 0);
}

int td_scheduler_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_bridge *b = bridge;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	struct td_error le = TD_ERROR_INIT;
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &le);
	td_auto(td_object_unref) struct td_object *pod = NULL;
	if (!s || !atomic_load(&b->listed)) {
		*again_ms = 200; // what is in Slurm already is not known yet
		return 0;
	}
	int r = 0;
	if (td_starts(key, "uid:")) {
		r = orphan(b, key + 4, s, &pod, c, err);
		if (r)
			return r;
		if (pod) { // from now on under its own key
			bool is_new;
			td_auto_free char *own = td_key_of(pod);
			td_ask_unref(td_ask_ensure(b->asks, pod->uid, own, &is_new));
			td_queue_add(b->pod_queue, own);
			return 0;
		}
	} else {
		char *ns, *name;
		td_key_split(key, &ns, &name);
		pod = td_informer_get(b->pods, ns, name);
		free(ns);
		free(name);
	}
	if (pod) {
		bool is_new;
		struct td_ask *a = td_ask_ensure(b->asks, pod->uid, key, &is_new);
		if (is_new)
			ask_init(b, a, pod);
		td_ask_unref(a);
	}
	struct td_ask *asks[KEY_ASKS];
	size_t n = td_asks_of_key(b->asks, key, asks, KEY_ASKS);
	for (size_t i = 0; i < n; i++) {
		struct td_error e = TD_ERROR_INIT;
		bool its = pod && !strcmp(pod->uid, asks[i]->uid);
		int k = run_one(b, s, l, asks[i], its ? pod : NULL, again_ms, c, &e);
		td_ask_unref(asks[i]);
		if (k && !r)
			r = td_fail(err, k, "%.500s", e.msg);
	}
	return r;
}
