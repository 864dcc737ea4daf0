// Carries out what the pool decided about an ask.
#include "bridge/scheduler/claims.h"
#include "bridge/scheduler/preempt.h"
#include "bridge/scheduler/victim.h"

#include "base/log.h"

#include <string.h>

enum {
	SWEEP_MS = 60000,  // the job of a bound pod is read at least that often
	UNKNOWN_MS = 2000, // so long Slurm's own pods take to see a user who was added
};

// How long Slurm's refusal of this ask stands.
static int64_t stands_ms(struct td_asks *t, const struct td_error *e)
{
	struct td_ask *a, *tmp;
	size_t n = 1;
	pthread_mutex_lock(&t->lock);
	HASH_ITER (hh, t->by_uid, a, tmp)
		n += a->refused != NULL;
	pthread_mutex_unlock(&t->lock);
	return td_pool_refused_ms(e->detail == TD_SLURM_ERR_ACCOUNT || e->detail == TD_SLURM_ERR_QOS, n);
}

// The job of a pod that waits is over through no fault of the pod, which goes on in another one. Says why, once for
// each job.
static void goes_on(struct td_bridge_run *r, int64_t job, const char *why)
{
	struct td_ask *a = r->a;
	if (!r->pod || td_pod_state(r->pod) != TD_POD_WAITING || job == a->over_said)
		return;
	a->over_said = job;
	td_warn("pod %s: Slurm job %lld: %s: it is queued again", a->key, (long long)job, why);
	td_kube_record(r->b->recorder, TD_ABOUT(r->pod, &td_pods), "Warning", "QueuedAgain",
		       "Slurm job %lld: %s; the pod waits on with another one", (long long)job, why);
}

static int submit(struct td_bridge_run *r, bool immediate, bool *ret_go_on, struct td_error *err)
{
	struct td_ask *a = r->a;
	if (a->job && a->know == TD_JOB_GONE)
		goes_on(r, a->job, "Slurm does not know it any more");
	else if (a->job && a->know == TD_JOB_READ && td_slurm_job_ended(a->states))
		goes_on(r, a->job,
			a->states & TD_JOB(CANCELLED) ? "cancelled after it had begun, as by a Prolog that failed"
						      : td_slurm_job_end_words(a->states));
	int64_t now = td_now(r->b);
	bool soon = r->l && now < a->retry_ms && !a->refused;
	if (immediate && (!r->l || soon))
		td_room_given(r->b, a, 0);

	if (!r->l) {
		td_bridge_run_again(r, 1000);
		return td_bridge_run_show(r, "SlurmUnavailable",
					  "Slurm cannot be asked now; it will be queued as soon as it answers.", err);
	}

	if (soon) {
		td_bridge_run_again(r, a->retry_ms - now);
		return 0;
	}

	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *text = NULL;
	int k = td_bridge_run_submit(r, immediate, &e);
	switch (td_pool_submitted(k, immediate)) {
	case TD_SUBMITTED:
		a->fails++;
		a->retry_ms = td_pool_backoff_ms(a->fails) ? now + td_pool_backoff_ms(a->fails) : 0;
		*ret_go_on = immediate;
		if (!immediate)
			td_bridge_run_again(r, TD_SHOW_AFTER_MS);
		return 0;
	case TD_SUBMITTED_QUEUE:
		*ret_go_on = true;
		return 0;
	case TD_SUBMITTED_NEVER:
		a->retry_ms = now + stands_ms(r->b->asks, &e);
		text = td_asprintf("%.400s", e.msg);
		td_ask_str(r->b->asks, &a->refused, text);
		*ret_go_on = true;
		return 0;
	case TD_SUBMITTED_LATER:
		if (e.detail == TD_SLURM_ERR_USER) {
			a->retry_ms = now + UNKNOWN_MS;
			td_bridge_run_again(r, UNKNOWN_MS);
			return td_bridge_run_show(r, "SlurmUnavailable", e.msg, err);
		}
		a->retry_ms = now + 5000;
		td_bridge_run_again(r, 5000);
		text = td_asprintf("Slurm takes no more jobs of this user now: %.400s", e.msg);
		return td_bridge_run_show(r, "SlurmLimit", text, err);
	case TD_SUBMITTED_FAIL:
		break;
	}

	return td_fail(err, k, "%.500s", e.msg);
}

static int show_pending(struct td_bridge_run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	bool none = td_streq(a->reason, "None");
	int64_t now = td_now(b);

	pthread_mutex_lock(&b->asks->lock);
	size_t pending = b->asks->pending;
	pthread_mutex_unlock(&b->asks->lock);

	int64_t every = td_pool_pending_ms(pending, false);

	if (a->know == TD_JOB_READ && td_job_phase(a->states) == TD_PHASE_WAITING) {
		td_bridge_run_mark(r); // unless the submit has done so
		if (!a->queued_said) {
			a->queued_said = true;
			td_kube_record(b->recorder, TD_ABOUT(r->pod, &td_pods), "Normal", "Queued",
				       "Slurm job %lld waits for user %s", (long long)a->job, a->user ? a->user : "?");
		}

		int64_t due = a->read_ms + td_pool_pending_ms(pending, none) - now;
		if (due <= 0 && r->l) {
			int k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
			if (k)
				return k;
			due = every;
		}

		td_bridge_run_again(r, due > 0 ? due : every);
		if (td_streq(a->reason, "None") && now - a->asked_ms < TD_SHOW_AFTER_MS)
			return 0; // most start before a condition would be of use
	}

	td_auto_free char *text = td_ask_waits_text(a, td_real_ms(b->clock) / 1000);
	return td_bridge_run_show(r, "SlurmPending", text, err);
}

static int update_excluded(struct td_bridge_run *r, struct td_error *err)
{
	const struct td_slurm_job_change ch = {.excluded_nodes = r->want.ask.excluded_nodes};
	struct td_error e = TD_ERROR_INIT;
	int k = td_slurm_job_update(r->l->slurm, r->a->job, &ch, r->c, &e);

	// "No longer pending" is a race with the job's start, not a failure: read the job again.
	if (!k || k == TD_CONFLICT || k == TD_NOT_FOUND)
		return td_ask_read(r->b, r->s, r->l->slurm, r->a, r->c, err);
	if (k == TD_INVALID) {
		// The job excludes a node that was deleted since. slurmctld then takes no new list
		// at all (error 2018), and the job runs on with the old one (docs/facts/slurm.md
		// S-J7). A node that the new list would exclude is caught before the Binding.
		td_debug("%s: %s", r->a->key, e.msg);
		td_ask_str(r->b->asks, &r->a->excluded, r->want.ask.excluded_nodes);
		return 0;
	}

	return td_fail(err, k, "%.500s", e.msg);
}

static int refuse(struct td_bridge_run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	td_auto_free char *text = td_asprintf("Refused: %s", a->refused);
	if (!td_streq(r->p->said, text)) {
		td_info("pod %s: refused: %s", a->key, a->refused);
		td_kube_record(r->b->recorder, TD_ABOUT(r->pod, &td_pods), "Warning", "Refused", "%s", a->refused);
	}
	td_bridge_run_again(r, a->retry_ms - td_now(r->b));
	return td_bridge_run_show(r, "Refused", text, err);
}

// Gives the pod its devices, before the Binding: a kubelet that sees a pod whose claims are not
// allocated does not start it, and a kubelet that has fewer devices than the pod asks for fails it.
// *ret_bind: the devices are there.
static int give_devices(struct td_bridge_run *r, bool *ret_bind, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_error e = TD_ERROR_INIT;
	int k = td_ask_kubelet_room(b, a, r->pod, r->c, &e);
	const char *reason = k ? "NodeFull" : "DevicesUnknown";
	if (!k)
		k = td_claims_any(r->pod->root) ? td_ask_claims_give(b, r->s, a, r->pod, r->c, &e)
						: td_ask_counted_room(b, r->s, a, r->pod, &e);

	enum td_pool_devices d = td_pool_devices(k);
	td_auto_free char *text = NULL;
	*ret_bind = false;

	switch (d) {
	case TD_DEVICES_THERE:
		*ret_bind = true;
		return 0;
	case TD_DEVICES_AGAIN:
		td_bridge_run_again(r, TD_AGAIN_MS);
		return 0;
	case TD_DEVICES_WAIT:
		td_bridge_run_again(r, 1000);
		td_ask_str(b->asks, &a->why, e.msg);
		text = td_asprintf("Granted, and it waits: %.400s.", e.msg);
		return td_bridge_run_show(r, reason, text, err);
	case TD_DEVICES_GIVE_BACK:
	case TD_DEVICES_REFUSE:
		break;
	case TD_DEVICES_FAIL:
		return td_fail(err, k, "%.500s", e.msg);
	}

	// The grant is given back. What it lacked is found again before the next submit.
	td_warn("pod %s: Slurm job %lld: %s", a->key, (long long)a->job, e.msg);
	td_ask_str(b->asks, &a->why, e.msg);

	if (d == TD_DEVICES_REFUSE) {
		a->retry_ms = td_now(b) + TD_REFUSED_AGAIN_MS;
		a->feas_gen = atomic_load(&b->feas_gen);
		td_ask_str(b->asks, &a->refused, e.msg);
	}

	int64_t wait = 0, job = a->job;
	k = r->l ? td_bridge_run_end_job(r, &wait, err) : 0;
	if (!k && !a->job && d == TD_DEVICES_GIVE_BACK)
		goes_on(r, job, e.msg);
	td_bridge_run_again(r, wait ? wait : TD_AGAIN_MS);
	return k;
}

static int bind_pod(struct td_bridge_run *r, struct td_error *err)
{
	struct td_ask *a = r->a;
	bool bind;
	if (r->p->bound_sent)
		return 0; // the watch will show the bound pod

	int k = give_devices(r, &bind, err);
	if (k || !bind)
		return k;

	if (a->queued_said)
		td_kube_record(r->b->recorder, TD_ABOUT(r->pod, &td_pods), "Normal", "Granted",
			       "Slurm job %lld starts on %s", (long long)a->job, a->nodes);

	k = td_bridge_run_bind(r, err);
	if (k)
		return k;

	a->fails = 0;
	td_bridge_run_mark(r);
	td_bridge_run_again(r, 2000);
	return 0;
}

int td_bridge_run_act(struct td_bridge_run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	*ret_go_on = false;
	td_ask_str(b->asks, &a->why, st.why);
	if (a->res_tag && st.what != TD_DO_ALLOCATE)
		td_room_given(b, a, 0);

	switch (st.what) {
	case TD_DO_NOTHING:
		if (r->pod && td_pod_state(r->pod) == TD_POD_BOUND && a->know == TD_JOB_READ && r->l) {
			td_bridge_run_mark(r);
			bool goes;
			int k = td_bridge_run_victim(r, &goes, err);
			if (k)
				return k;
			int64_t every = td_preempt_look_ms(b, r->s, a);
			every = every < SWEEP_MS ? every : SWEEP_MS;
			td_bridge_run_again(r, every);
			if (td_now(b) - a->read_ms >= every) {
				pthread_mutex_lock(&b->asks->lock);
				a->look = true;
				pthread_mutex_unlock(&b->asks->lock);
				*ret_go_on = true;
			}
			return goes ? 0 : td_bridge_run_hang(r, err);
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
		td_bridge_run_again(r, 1000);
		return 0;
	case TD_DO_SHOW:
		return show_pending(r, err);
	case TD_DO_WAIT: {
		const struct td_pool_prepare p = {a->batch, a->burst, a->waits, td_now(b) - a->allocated_ms};
		int64_t ms = td_pool_prepare_ms(&p);
		a->waits++;
		pthread_mutex_lock(&b->asks->lock);
		a->look = true;
		a->not_before = td_now(b) + ms;
		pthread_mutex_unlock(&b->asks->lock);
		td_bridge_run_again(r, ms);
		return 0;
	}
	case TD_DO_UPDATE:
		*ret_go_on = true;
		return r->l ? update_excluded(r, err) : 0;
	case TD_DO_BIND:
		return bind_pod(r, err);
	case TD_DO_END_JOB:
		if (!r->l) {
			td_bridge_run_again(r, 1000);
			return 0;
		} else {
			int64_t wait = 0, job = a->job;
			int k = td_bridge_run_end_job(r, &wait, err);
			td_auto_free char *why =
				td_asprintf("%s%s%s", st.why, r->unfit ? ": " : "", r->unfit ? r->unfit : "");
			if (!k && !a->job && !a->refused)
				goes_on(r, job, why);
			if (wait)
				td_bridge_run_again(r, wait);
			*ret_go_on = !k && !wait;
			return k;
		}
	case TD_DO_END_POD:
		return td_bridge_run_end_pod(r, st.why, err);
	case TD_DO_REFUSE:
		return refuse(r, err);
	case TD_DO_FORGET:
		td_preempt_over(b, a);
		td_ask_forget(b->asks, a);
		return 0;
	}
	return 0;
}
