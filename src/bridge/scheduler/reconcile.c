// The loop of one ask: read what is, let pool/ decide, act, look again.
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/orphans.h"

#include "base/log.h"

#include <string.h>

enum { STEPS_MAX = 8, KEY_ASKS = 16, HOLD_MS = 1000, ORPHAN_MS = 50 };

void td_bridge_run_again(struct td_bridge_run *r, int64_t ms)
{
	if (ms < 1)
		ms = 1;
	if (!*r->again_ms || ms < *r->again_ms)
		*r->again_ms = ms;
}

int td_bridge_run_exit_code(const struct td_object *pod)
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

void td_bridge_run_intake(struct td_bridge_run *r)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	td_owner_read(r);

	pthread_mutex_lock(&b->asks->lock);
	int64_t found = a->found;
	bool none = a->know == TD_JOB_UNSURE && !a->job && a->listed_ms > a->asked_ms;
	a->found = 0;
	if (none && !found)
		// The listing was asked for after the submit and has no such job.
		a->know = TD_JOB_NONE;
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

static int run_ask(struct td_bridge_run *r, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_grant g;

	td_bridge_run_intake(r);
	if (r->pod) {
		pthread_mutex_lock(&b->asks->lock);
		a->exit_code = td_pod_state(r->pod) == TD_POD_DONE ? td_bridge_run_exit_code(r->pod) : 143;
		pthread_mutex_unlock(&b->asks->lock);

		// The annotations of a bound pod are the truth about its grant. Another job is an
		// extra.
		if (td_jstr(r->pod->root, "spec.nodeName") && td_bridge_pod_grant(r->pod, &g) && g.job != a->job &&
		    td_pod_state(r->pod) != TD_POD_DONE) {
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

		int k = td_bridge_run_look(r, &wait, err);
		if (k || wait)
			return k;

		k = td_bridge_run_facts(r, &pa, &pj, err);
		if (k == TD_EXPIRED)
			return 0;
		if (k == TD_NOT_FOUND) { // no nodes yet, or a claim is missing or another pod's
			int64_t now = td_now(b);
			if (!r->p->said && !r->p->said_ms)
				r->p->said_ms = now; // most claims are there a moment later
			if (!r->p->said && now - r->p->said_ms < TD_SHOW_AFTER_MS) {
				td_bridge_run_again(r, TD_SHOW_AFTER_MS);
				return 0;
			}
			td_auto_free char *text = td_asprintf("It waits: %.300s.", err->msg);
			return td_bridge_run_show(r, "SlurmPending", text, err);
		}

		if (k)
			return k;

		struct td_pool_step st = r->core ? td_pool_reconcile_beyond(&pa, &pj, (enum td_pool_beyond_do)r->beyond)
						 : td_pool_reconcile_ask(&pa, &pj);
		td_debug("%s: %s (%s)", a->key, td_pool_do_name(st.what), st.why);

		k = td_bridge_run_act(r, st, &go_on, err);
		if (k || !go_on)
			return k;
		td_want_done(&r->want);
		r->wanted = false;
	}

	td_bridge_run_again(r, 100);
	return 0;
}

// A job of Tandem's whose pod is not in the cache. The pod is gone only when a list says so that
// began after the job was there (docs/protocols.md 1.9); else *ret is the pod. *ret_later: nothing
// more is to do now, because the job is a gang's, whose key is queued, or another worker lists.
static int orphan(struct td_bridge *b, const char *uid, struct td_settings *s, struct td_object **ret, bool *ret_later,
		  struct td_cancel *c, struct td_error *err)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_get(b->asks, uid);
	td_auto_objects struct td_objects l = {0}, all = {0};

	td_informer_by_index(b->pods, "uid", uid, &l);
	*ret_later = !a; // it has ended
	if (!a)
		return 0;
	if (!l.n) {
		// After a restart all jobs of gangs come here. Most find their pods in the cache, without a list for each.
		// That goes over all pods, so once: who waits for another worker's list comes here again and again.
		td_auto_objects struct td_objects here = {0};
		struct td_error e = TD_ERROR_INIT;
		if (!a->cache_said)
			td_informer_list(b->pods, NULL, &here);
		if (here.n && !td_gang_adopt(b, uid, &here, ret_later, c, &e) && *ret_later)
			return 0;
		a->cache_said = true;
		int r = td_orphans_pods(b, s->scheduler, a->made_ms, &all, ret_later, c, err);
		if (!r && *ret_later) {
			td_auto_free char *key = td_asprintf("uid:%s", uid);
			td_queue_add_after(b->pod_queue, key, ORPHAN_MS);
			return 0;
		}
		for (size_t i = 0; !r && i < all.n; i++)
			if (!strcmp(all.v[i]->uid, uid))
				td_objects_add(&l, td_object_ref(all.v[i]));
		if (!r && !l.n)
			r = td_gang_adopt(b, uid, &all, ret_later, c, err);
		if (r)
			return r;
	}

	*ret = l.n ? td_object_ref(l.v[0]) : NULL;
	return 0;
}

// A new ask of a bound pod starts with the job that the pod's grant names.
static void ask_init(struct td_bridge *b, struct td_ask *a, const struct td_object *pod)
{
	struct td_grant g;
	if (!td_jstr(pod->root, "spec.nodeName") || td_pod_state(pod) == TD_POD_DONE || !td_bridge_pod_grant(pod, &g))
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
	// While slurmctld is away a call would wait for its time-out; its return queues the key.
	td_auto(td_link_unref) struct td_link *l = atomic_load(&b->away) ? NULL : td_bridge_link(b, &le);
	td_auto(td_object_unref) struct td_object *pod = NULL;

	if (!s || !atomic_load(&b->listed)) {
		*again_ms = 200; // which jobs Slurm has already is not known yet
		return 0;
	}

	if (td_starts(key, TD_GANG_KEY))
		return td_gang_reconcile(b, s, l, key, again_ms, c, err);

	int r = 0;
	if (td_starts(key, "uid:")) {
		bool later;
		r = orphan(b, key + 4, s, &pod, &later, c, err);
		if (r || later)
			return r;

		if (pod) { // the ask gets its pod's key
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

	// A member of a gang is no ask of its own, but for a pod beyond the core of an elastic one. If it was one
	// before, that one ends.
	td_auto_free char *gang = pod ? td_gang_of(pod) : NULL;
	td_auto_core struct td_gang_core core = {0};
	enum td_pool_beyond_do beyond = gang ? td_gang_beyond(b, gang, pod, &core) : TD_BEYOND_NOT;
	if (gang && beyond == TD_BEYOND_NOT) {
		td_auto_free char *its = td_asprintf(TD_GANG_KEY "%s", gang);
		td_queue_add(b->pod_queue, its);
		pod = td_object_unref(pod);
	}

	bool hold = gang && beyond == TD_BEYOND_HOLD;
	if (hold)
		*again_ms = HOLD_MS;
	if (pod && !hold) {
		bool is_new;
		struct td_ask *a = td_ask_ensure(b->asks, pod->uid, key, &is_new);
		if (is_new)
			ask_init(b, a, pod);
		pthread_mutex_lock(&b->asks->lock);
		a->beyond = gang ? core.is.size : 0;
		pthread_mutex_unlock(&b->asks->lock);
		td_ask_unref(a);
	}

	struct td_ask *asks[KEY_ASKS];
	size_t n = td_asks_of_key(b->asks, key, asks, KEY_ASKS);
	for (size_t i = 0; i < n; i++) {
		struct td_error e = TD_ERROR_INIT;
		bool its = pod && !strcmp(pod->uid, asks[i]->uid);
		if (its && hold) {
			td_ask_unref(asks[i]);
			continue;
		}
		struct td_bridge_run run = {.b = b,
					    .s = s,
					    .l = l,
					    .a = asks[i],
					    .pod = its ? pod : NULL,
					    .p = &asks[i]->own,
					    .core = its && gang ? &core : NULL,
					    .beyond = (int)beyond,
					    .gang_name = gang ? strchr(gang, '/') + 1 : NULL,
					    .remove = its && beyond == TD_BEYOND_END && core.is.restart,
					    .again_ms = again_ms,
					    .c = c};
		int k = run_ask(&run, &e);
		td_want_done(&run.want);
		if (asks[i]->res_tag)
			td_room_given(b, asks[i], 0);
		td_ask_unref(asks[i]);
		if (k && !r)
			r = td_fail(err, k, "%.500s", e.msg);
	}

	return r;
}
