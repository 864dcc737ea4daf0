// Elastic gangs: what the pods say about the core that runs, and which of those that wait are beyond
// it. Nothing is kept in memory: the members of a core carry how many pods there may be, and pods
// beyond it carry its UID.
#include "bridge/scheduler/gang.h"

#include <stdlib.h>
#include <string.h>

static const char *core_of(const struct td_object *pod)
{
	return td_object_annotation(pod, TD_ANN_GANG_CORE);
}

static const char *granted_uid(const struct td_object *pod)
{
	return td_object_annotation(pod, TD_ANN_GANG_UID);
}

enum { OWN_MS = 500 };

static bool succeeded(const struct td_object *pod)
{
	return td_streq(td_jstr(pod->root, "status.phase"), "Succeeded");
}

static int64_t time_ms(const char *text)
{
	int64_t ms;
	return text && !td_time_parse(text, &ms) ? ms : 0;
}

// When the last of its containers ended.
static int64_t ended_ms(const struct td_object *pod)
{
	yyjson_val *c;
	size_t i, n;
	int64_t last = 0;
	yyjson_arr_foreach (td_jget(pod->root, "status.containerStatuses"), i, n, c) {
		int64_t ms = time_ms(td_jstr(c, "state.terminated.finishedAt"));
		last = ms > last ? ms : last;
	}
	return last;
}

void td_gang_core_done(struct td_gang_core *c)
{
	free(c->hosts);
	free(c->owner);
	*c = (struct td_gang_core){0};
}

// The core that pods may join: the one that runs, else the one that was done last.
static const char *which(const struct td_objects *pods)
{
	const char *found = NULL;
	int64_t last = -1;
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *pod = pods->v[i];
		const char *uid = td_object_annotation(pod, TD_ANN_GANG_MOST) ? granted_uid(pod) : NULL;
		enum td_pool_pod_state is = uid ? td_pod_state(pod) : TD_POD_GONE;
		bool runs = is == TD_POD_BOUND;
		int64_t at = runs ? INT64_MAX : is == TD_POD_DONE && succeeded(pod) ? ended_ms(pod) : -1;
		if (at > last || (at == last && runs && strcmp(uid, found) < 0)) {
			found = uid;
			last = at;
		}
	}
	return found;
}

static const char *owner_of(const struct td_object *pod)
{
	return td_jstr(td_object_owner(pod), "uid");
}

static void count(const struct td_object *pod, struct td_pool_core *c)
{
	long long size, most;
	const char *world = td_object_annotation(pod, TD_ANN_GANG_WORLD),
		   *limit = td_object_annotation(pod, TD_ANN_GANG_MOST);
	if (world && td_parse_i64(world, &size))
		c->size = size;
	if (limit && td_parse_i64(limit, &most))
		c->most = most;
	// Of a gang that keeps places only the one that leads may say it.
	c->replace |= td_streq(td_gang_on_loss(pod), "replace");
	c->restart |= td_streq(td_gang_on_loss(pod), "restart");
	switch (td_pod_state(pod)) {
	case TD_POD_BOUND:
		c->bound++;
		break;
	case TD_POD_LEAVING:
		c->leaving++;
		break;
	case TD_POD_DONE: {
		int64_t at = ended_ms(pod);
		c->done_ms = at > c->done_ms ? at : c->done_ms;
		*(succeeded(pod) ? &c->succeeded : &c->failed) += 1;
		break;
	}
	case TD_POD_WAITING:
	case TD_POD_GONE:
		break;
	}
}

// uid NULL: which().
static void core_read(const struct td_objects *pods, const char *uid, struct td_gang_core *ret)
{
	*ret = (struct td_gang_core){0};
	if (!uid && !(uid = which(pods)))
		return;
	snprintf(ret->uid, sizeof(ret->uid), "%s", uid);
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *pod = pods->v[i];
		enum td_pool_pod_state is = td_pod_state(pod);
		if (td_streq(granted_uid(pod), uid)) {
			count(pod, &ret->is);
			if (!ret->hosts)
				ret->hosts = td_strdup(td_object_annotation(pod, TD_ANN_GANG_HOSTS));
			if (!ret->owner)
				ret->owner = td_strdup(owner_of(pod));
		} else if (td_streq(core_of(pod), uid)) {
			ret->joined += is == TD_POD_BOUND || is == TD_POD_LEAVING;
		}
	}
}

static bool waits(const struct td_object *pod)
{
	return !granted_uid(pod) && td_pod_state(pod) == TD_POD_WAITING;
}

static enum td_pool_beyond_do decide(const struct td_gang_core *c, const struct td_object *pod, size_t ahead)
{
	bool same = c->owner && td_streq(owner_of(pod), c->owner);
	const struct td_pool_beyond p = {.joined = core_of(pod),
					 .ahead = (int64_t)ahead,
					 .others = c->joined,
					 .made_ms =
						 same ? 0 : time_ms(td_jstr(pod->root, "metadata.creationTimestamp"))};
	return td_pool_beyond(&c->is, &p);
}

enum td_pool_beyond_do td_gang_beyond(struct td_bridge *b, const char *gang, const struct td_object *pod,
				      struct td_gang_core *ret)
{
	*ret = (struct td_gang_core){0};
	if (!core_of(pod) && (!td_gang_stretches(pod) || !waits(pod)))
		return TD_BEYOND_NOT;
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(b->pods, "gang", gang, &pods);
	core_read(&pods, core_of(pod), ret);
	// The members of a core that restarts are deleted: when the last one is gone only this pod says so.
	if (core_of(pod) && !ret->is.size)
		ret->is.restart = td_streq(td_gang_on_loss(pod), "restart");
	size_t ahead = 0;
	for (size_t i = 0; i < pods.n; i++)
		ahead += waits(pods.v[i]) && td_gang_before(pods.v[i], pod);
	return decide(ret, pod, ahead);
}

static void look_at(struct td_bridge *b, const struct td_object *pod, int64_t in_ms)
{
	td_auto_free char *key = td_key_of(pod);
	td_queue_add_after(b->pod_queue, key, in_ms);
}

// A pod that joined hears of the end of its core here: nothing of its own changes.
static void tell_joined(struct td_bridge *b, const struct td_objects *pods)
{
	struct td_gang_core c = {0};
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *pod = pods->v[i];
		if (!core_of(pod) || td_pod_state(pod) != TD_POD_BOUND)
			continue;
		if (strcmp(c.uid, core_of(pod)) != 0) { // most often all are of one core
			td_gang_core_done(&c);
			core_read(pods, core_of(pod), &c);
		}
		if (decide(&c, pod, 0) == TD_BEYOND_END)
			look_at(b, pod, 0);
	}
	td_gang_core_done(&c);
}

size_t td_gang_let_join(struct td_bridge *b, const struct td_objects *pods, const struct td_object **waiting, size_t n)
{
	tell_joined(b, pods);
	struct td_gang_core c;
	core_read(pods, NULL, &c);
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		td_auto(td_ask_unref) struct td_ask *own = td_ask_get(b->asks, waiting[i]->uid);
		enum td_pool_beyond_do d = decide(&c, waiting[i], i);
		if (d == TD_BEYOND_NOT)
			waiting[left++] = waiting[i];
		// Its look queues the gang again, and its own ask is there until Slurm has ended the job.
		if (d == TD_BEYOND_NOT && own)
			look_at(b, waiting[i], OWN_MS);
		else if (d == TD_BEYOND_JOIN && !own)
			look_at(b, waiting[i], 0);
	}
	td_gang_core_done(&c);
	return left;
}

void td_gang_core_notes(yyjson_mut_doc *d, yyjson_mut_val *o, const char *gang, const struct td_gang_core *c)
{
	td_auto_free char *world = td_asprintf("%lld", (long long)c->is.size);
	td_jm_key_str(d, o, TD_ANN_GANG_CORE, c->uid);
	td_jm_key_str(d, o, TD_ANN_GANG_NAME, gang);
	td_jm_key_str(d, o, TD_ANN_GANG_WORLD, world);
	td_jm_key_str(d, o, TD_ANN_GANG_HOSTS, c->hosts);
}

size_t td_gang_there(const struct td_objects *pods, const struct td_object *const *waiting, size_t n,
		     const struct td_gang_says *says)
{
	if (says->most <= says->size)
		return n;
	size_t all = 0;
	td_auto_free const struct td_object **v = td_calloc(n + pods->n + 1, sizeof(*v));
	td_auto_free struct td_pool_core_place *places = td_calloc(n + pods->n + 1, sizeof(*places));
	for (size_t i = 0; i < n; i++)
		if (!says->late || !td_gang_leads(waiting[i]))
			v[all++] = waiting[i];
	for (size_t i = 0; i < pods->n; i++)
		if (succeeded(pods->v[i]) && !(says->late && td_gang_leads(pods->v[i])))
			v[all++] = pods->v[i];
	td_gang_sort(v, all);
	for (size_t i = 0; i < all; i++) {
		struct td_gang_place_in at = td_gang_place_of(v[i]);
		places[i] = (struct td_pool_core_place){at.group, at.index, succeeded(v[i])};
	}
	return td_pool_core_there(places, all, says->first, (size_t)says->size);
}
