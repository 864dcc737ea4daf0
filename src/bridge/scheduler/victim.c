// Pods that make room for another one (victim.h).
#include "bridge/scheduler/victim.h"

#include "base/clock.h"
#include "bridge/scheduler/gang.h"
#include "pool/leave.h"

#include <string.h>

// WISH_MS: for so long a wish stands. OWN_MOST_S: a pod that somebody deletes goes soon when it has to within this time;
// its owner chooses its grace.
enum { WISH_MS = 60000, OWN_MOST_S = 300 };

int64_t td_victim_told(const struct td_object *pod, char **ret_why)
{
	td_auto(td_json_unref) struct td_json *j = td_bridge_pod_ended(pod);
	int64_t waiter = td_jint(td_json_root(j), "for", 0);
	if (waiter > 0 && ret_why)
		*ret_why = td_strdup(td_jstr_or(td_json_root(j), "why", ""));
	return waiter > 0 ? waiter : 0;
}

static bool ends(const struct td_object *pod)
{
	return td_pod_state(pod) != TD_POD_BOUND || td_object_annotation(pod, TD_ANN_ENDED);
}

// Does a pod that ends do so soon? *ret_for: as td_victim_look().
static bool goes_soon(struct td_bridge *b, const struct td_object *pod, int64_t *ret_for)
{
	const char *deleted = td_jstr(pod->root, "metadata.deletionTimestamp");
	int64_t now_s = td_real_ms(b->clock) / 1000, ms = 0;
	if (td_pod_state(pod) == TD_POD_DONE)
		return true;
	bool soon = false;
	td_auto(td_json_unref) struct td_json *j = td_bridge_pod_ended(pod);
	if (j) {
		int64_t grace = td_jint(td_json_root(j), "graceSeconds", 0);
		// Its grace is Tandem's, of whatever length.
		soon = td_pool_leave_soon(td_jint(td_json_root(j), "at", 0) + grace, now_s, INT64_MAX);
	}
	if (!soon && deleted && !td_time_parse(deleted, &ms))
		soon = td_pool_leave_soon(ms / 1000, now_s, OWN_MOST_S);
	if (soon && !*ret_for)
		*ret_for = td_victim_told(pod, NULL);
	return soon;
}

static enum td_victim_is look_gang(struct td_bridge *b, const char *name, const char *uid, size_t size,
				   int64_t *ret_for)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_by_index(b->pods, "gang", name, &all);
	size_t there = 0, goes = 0, over = 0;
	bool replaced = false, later = false, soon = true;
	for (size_t i = 0; i < all.n; i++) {
		const struct td_object *pod = all.v[i];
		if (!td_streq(td_object_annotation(pod, TD_ANN_GANG_UID), uid))
			continue;
		replaced |= td_streq(td_gang_on_loss(pod), "replace");
		later |= td_object_annotation(pod, TD_ANN_GANG_LATER) != NULL;
		bool well = td_streq(td_jstr(pod->root, "status.phase"), "Succeeded");
		over += well;
		there += !well && !ends(pod);
		goes += !well && ends(pod);
		if (!well && ends(pod))
			soon &= goes_soon(b, pod, ret_for);
	}
	if (!soon) {
		*ret_for = 0;
		return TD_VICTIM_NOT;
	}
	// One that ends takes the others with it, where nobody replaces it.
	if (*ret_for || (goes && (!there || !replaced)))
		return TD_VICTIM_GOES;
	// Who keeps places, and lets nobody take them, is spared no more than others.
	return there && (later || there + over >= size) ? TD_VICTIM_MAY : TD_VICTIM_NOT;
}

enum td_victim_is td_victim_look(struct td_bridge *b, int64_t job, int64_t *ret_for)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, job);
	*ret_for = 0;
	if (!a)
		return TD_VICTIM_NONE;
	pthread_mutex_lock(&b->asks->lock);
	td_auto_free char *key = td_strdup(a->key);
	size_t size = a->size;
	pthread_mutex_unlock(&b->asks->lock);
	if (td_starts(key, TD_GANG_KEY))
		return look_gang(b, key + strlen(TD_GANG_KEY), a->uid, size, ret_for);

	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *pod = name ? td_informer_get(b->pods, ns, name) : NULL;
	if (!pod || strcmp(pod->uid, a->uid) != 0 || td_pod_state(pod) == TD_POD_WAITING)
		return TD_VICTIM_NOT;
	return !ends(pod) ? TD_VICTIM_MAY : goes_soon(b, pod, ret_for) ? TD_VICTIM_GOES : TD_VICTIM_NOT;
}

bool td_victim_again(struct td_bridge *b, int64_t job)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, job);
	td_auto_objects struct td_objects all = {0};
	if (!a)
		return false;
	pthread_mutex_lock(&b->asks->lock);
	td_auto_free char *key = td_strdup(a->key);
	pthread_mutex_unlock(&b->asks->lock);
	bool gang = td_starts(key, TD_GANG_KEY), any = false;
	if (gang)
		td_informer_by_index(b->pods, "gang", key + strlen(TD_GANG_KEY), &all);
	else
		td_informer_by_index(b->pods, "uid", a->uid, &all);
	for (size_t i = 0; i < all.n; i++) {
		if (gang && !td_streq(td_object_annotation(all.v[i], TD_ANN_GANG_UID), a->uid))
			continue;
		any = true;
		if (!td_object_owner(all.v[i]))
			return false;
	}
	return any;
}

char *td_victim_name(struct td_bridge *b, int64_t job)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, job);
	if (!a)
		return NULL;
	pthread_mutex_lock(&b->asks->lock);
	bool gang = td_starts(a->key, TD_GANG_KEY);
	char *name = td_asprintf("%s %s", gang ? "gang" : "pod", a->key + (gang ? strlen(TD_GANG_KEY) : 0));
	pthread_mutex_unlock(&b->asks->lock);
	return name;
}

void td_victim_tell(struct td_bridge *b, const struct td_victim_wish *w)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, w->job);
	if (!a)
		return;
	pthread_mutex_lock(&b->asks->lock);
	free(a->yields.why);
	a->yields = (struct td_ask_yields){.grant = {.job = w->job, .start = w->start, .restarts = w->restarts},
					   .waiter = w->waiter,
					   .told_ms = td_now(b),
					   .why = td_strdup(w->why)};
	td_auto_free char *key = td_strdup(a->key);
	pthread_mutex_unlock(&b->asks->lock);
	td_queue_add(b->pod_queue, key);
}

// What the ask was told, if its grant is still the one that was chosen; else that is forgotten. *ret_why: caller frees.
static int64_t wish(struct td_bridge_run *r, char **ret_why)
{
	struct td_ask *a = r->a;
	struct td_pool_job now;
	int64_t waiter = 0;
	td_ask_job(r->b, a, true, &now);
	pthread_mutex_lock(&r->b->asks->lock);
	if (a->yields.waiter && td_now(r->b) - a->yields.told_ms <= WISH_MS &&
	    td_pool_leave_may(&a->yields.grant, &now)) {
		waiter = a->yields.waiter;
		*ret_why = td_strdup(a->yields.why);
	} else {
		free(a->yields.why);
		a->yields = (struct td_ask_yields){0};
	}
	pthread_mutex_unlock(&r->b->asks->lock);
	return waiter;
}

static int makes_room(struct td_bridge_run *x, const void *yields, struct td_error *err)
{
	x->yields = yields;
	return td_bridge_run_end_pod(x, "it makes room", err);
}

int td_bridge_run_victim(struct td_bridge_run *r, bool *ret_goes, struct td_error *err)
{
	struct td_gang_member lone = {.pod = r->pod, .state = TD_POD_BOUND, .p = r->p};
	struct td_gang_member *v = r->gang ? r->gang->v : &lone;
	size_t n = r->gang ? r->gang->n : 1;
	td_auto_free char *why = NULL;
	int64_t waiter = wish(r, &why);
	for (size_t i = 0; i < n && !waiter; i++)
		if (v[i].state == TD_POD_BOUND)
			waiter = td_victim_told(v[i].pod, &why);
	*ret_goes = waiter > 0;
	if (!waiter)
		return 0;

	int64_t grace = td_settings_grace_s(r->s, r->a->qos);
	const struct td_victim y = {waiter, why, grace > 0 ? grace : r->s->end_grace_s};
	return td_gang_end_each(r, false, makes_room, &y, err);
}
