// Pods of this node: which job's grant each has (the gate's table is told, durably), and whether a
// pod that was given a device is done with it.
#include "gate/agent.h"

#include "api/grant.h"
#include "base/log.h"
#include "base/names.h"
#include "gate/devices.h"

#include <stdio.h>
#include <string.h>

// ---- what is known of pods that are gone ----

// How long a pod that cannot be fenced may still be bound. The bridge binds within 0.2 s of its
// look at the job; a Binding that takes longer than this is not waited for.
enum { COMING_MS = 1000 };

// Looks up a pod that is gone. What was read before a holder was last superseded counts only when
// the pod had ended.
static bool gone_look(struct td_gate_agent *a, const char *uid, bool *ret_ended)
{
	bool found = false;
	pthread_mutex_lock(&a->mu);
	for (size_t i = 0; i < TD_GONE && !found; i++)
		if (!strcmp(a->gone.v[i].uid, uid) && (a->gone.v[i].ended || a->gone.v[i].read_ms > a->since_ms)) {
			found = true;
			*ret_ended = a->gone.v[i].ended;
		}
	pthread_mutex_unlock(&a->mu);
	return found;
}

static void gone_add(struct td_gate_agent *a, const char *uid, bool ended, int64_t read_ms)
{
	pthread_mutex_lock(&a->mu);
	size_t i = 0;
	while (i < TD_GONE && strcmp(a->gone.v[i].uid, uid))
		i++;
	if (i == TD_GONE) {
		i = a->gone.next;
		a->gone.next = (i + 1) % TD_GONE;
		snprintf(a->gone.v[i].uid, sizeof(a->gone.v[i].uid), "%s", uid);
		a->gone.v[i].first_ms = read_ms;
		a->gone.v[i].ended = false;
	}
	a->gone.v[i].ended |= ended;
	a->gone.v[i].read_ms = read_ms;
	pthread_mutex_unlock(&a->mu);
}

// True when the pod was first found absent less than COMING_MS ago.
static bool gone_lately(struct td_gate_agent *a, const char *uid)
{
	bool lately = false;
	int64_t now = td_mono_ms(a->clock);
	pthread_mutex_lock(&a->mu);
	for (size_t i = 0; i < TD_GONE; i++)
		lately |= !strcmp(a->gone.v[i].uid, uid) && now - a->gone.v[i].first_ms < COMING_MS;
	pthread_mutex_unlock(&a->mu);
	return lately;
}

// ---- grants ----

static int64_t number(const struct td_object *o, const char *key)
{
	const char *s = td_object_annotation(o, key);
	long long v;
	return s && td_parse_i64(s, &v) && v > 0 ? v : 0;
}

static bool grant_of(const struct td_gate_agent *a, const struct td_object *o, struct td_holder *ret,
		     uint64_t *ret_mask)
{
	struct td_holder h = {.job = number(o, TD_ANN_JOB), .start = number(o, TD_ANN_START), .pod = true};
	if (!h.job)
		return false;
	snprintf(h.uid, sizeof(h.uid), "%s", o->uid);

	// The indexes are Slurm's, whatever the resource is called. Text that cannot be read names
	// no device, but the pod still belongs to the job.
	const char *text = td_object_annotation(o, TD_ANN_DEVICES);
	td_auto(td_json_unref) struct td_json *j = NULL;
	uint64_t mask = 0, m;
	yyjson_val *key, *v;
	size_t i, max;
	if (text && !td_json_parse(text, strlen(text), &j, NULL))
		yyjson_obj_foreach (td_json_root(j), i, max, key, v)
			mask |= yyjson_is_str(v) && td_api_grant_is_gpus(key) &&
						!td_dev_parse(yyjson_get_str(v), a->o.devices, &m, NULL)
					? m
					: 0;
	int share = td_api_grant_share(td_json_root(j));
	h.share = share > 0 ? share : 0;
	*ret = h;
	*ret_mask = mask;
	return true;
}

void td_gate_agent_uid_index(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, o->uid);
}

void td_gate_agent_job_index(const struct td_object *o, struct td_strv *ret)
{
	const char *job = td_object_annotation(o, TD_ANN_JOB);
	if (job)
		td_strv_add(ret, job);
}

bool td_gate_agent_comes(const struct td_object *old, const struct td_object *now)
{
	yyjson_val *x;
	size_t i, n;
	if (!now || (old && !strcmp(old->uid, now->uid) && td_jstr(old->root, "spec.nodeName")) ||
	    !td_jstr(now->root, "spec.nodeName") || td_kube_pod_ended(now->root) ||
	    td_object_annotation(now, "kubernetes.io/config.mirror"))
		return false;
	yyjson_arr_foreach (td_jget(now->root, "metadata.ownerReferences"), i, n, x)
		if (td_streq(td_jstr(x, "kind"), "DaemonSet"))
			return false;
	return true;
}

void td_gate_agent_on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_gate_agent *a = ctx;
	if (old && (!now || strcmp(old->uid, now->uid)) && td_kube_pod_ended(old->root))
		gone_add(a, old->uid, true, 0);
	// One with devices is seen by its claim; one without ends a test of the idle node by this.
	if (td_gate_agent_comes(old, now))
		td_nodehealth_beside(a->health, 0);
	td_auto_free char *key = td_key_of(now ? now : old);
	td_queue_add(a->grants, key);
}

int td_gate_agent_grant_sync(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *o = td_informer_get(a->pods, ns, name);
	struct td_holder h;
	uint64_t mask;
	int r = o && !td_kube_pod_ended(o->root) && grant_of(a, o, &h, &mask) ? td_gate_learn(a->gate, 0, mask, &h, err)
									      : 0;
	td_gate_kick(a->gate);
	return r;
}

// ---- busy ----

// Says what the API shows of the pod with that uid; *ret: the object, if there is one. A pod that
// the informer shows as not ended is active, however old that view is. One that it does not show
// may not have reached it yet. named: the holder, when only its job's comment names the pod.
static enum td_seen see(struct td_gate_agent *a, const char *uid, const struct td_holder *named, struct td_object **ret,
			struct td_error *err)
{
	bool was_ended = false;
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(a->pods, "uid", uid, &l);
	if (l.n) {
		*ret = td_object_ref(l.v[0]);
		return td_kube_pod_ended(l.v[0]->root) ? TD_SEEN_TERMINAL : TD_SEEN_ACTIVE;
	}
	if (gone_look(a, uid, &was_ended) && (was_ended || !named))
		return was_ended ? TD_SEEN_TERMINAL : TD_SEEN_ABSENT;

	int64_t now = td_mono_ms(a->clock);
	if (named) {
		enum td_seen seen = td_gate_agent_fence(a, named, ret, err);
		if (seen == TD_SEEN_WAITS)
			gone_add(a, uid, false, now);
		return seen;
	}

	if (td_gate_agent_read(a, uid, ret, err))
		return TD_SEEN_UNREAD;
	if (*ret)
		return td_kube_pod_ended((*ret)->root) ? TD_SEEN_TERMINAL : TD_SEEN_ACTIVE;
	gone_add(a, uid, false, now);
	return TD_SEEN_ABSENT;
}

// hint: only the job's comment names the pod, and the job's owner can write anything there.
static bool pod_busy(struct td_gate_agent *a, const char *uid, const struct td_holder *h, bool hint, char *why,
		     size_t n)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *o = NULL;
	bool named = hint && *h->ask_pod;
	struct td_sight s = {.pod = uid, .seen = see(a, uid, named ? h : NULL, &o, &e)};
	td_auto_free char *name = o ? td_key_of(o) : NULL;
	struct td_holder its;
	uint64_t mask;
	if (o && hint && (!grant_of(a, o, &its, &mask) || !td_holder_same(&its, h)))
		return false; // it has no grant, or one of another job
	if (name)
		s.pod = name;

	// Cgroups first: they answer most looks, and cost the kubelet nothing.
	if (s.seen == TD_SEEN_ABSENT)
		s.cg_code = td_cg_pod(a->o.cgroups, uid, &s.cg, &e);
	if (s.seen == TD_SEEN_ABSENT && !s.cg_code && s.cg != TD_CG_BUSY)
		s.known = td_gate_agent_ask(a, uid, &e);
	if (!s.cg_code && s.cg != TD_CG_BUSY) {
		struct td_error e2 = TD_ERROR_INIT;
		s.cg_code = td_cg_pod(a->o.cgroups, uid, &s.cg, &e2);
		if (s.cg_code)
			e = e2;
	}

	s.coming = hint && s.seen == (named ? TD_SEEN_WAITS : TD_SEEN_ABSENT) && gone_lately(a, uid);
	s.text = e.msg;
	if (s.seen == TD_SEEN_WAITS && !s.coming)
		td_warn("agent: job %lld: pod %s cannot be fenced, and has not come within %d s: %s", (long long)h->job,
			h->ask_pod, COMING_MS / 1000, e.msg);
	return td_sight_busy(&s, why, n);
}

bool td_gate_agent_busy(void *ctx, int node, const struct td_holder *h, char *why, size_t n)
{
	struct td_gate_agent *a = ctx;
	struct td_error e = TD_ERROR_INIT;
	enum td_cg_state job = TD_CG_NONE;
	if (h->job && td_cg_job(a->o.cgroups, h->job, h->sluid, &job, &e)) {
		snprintf(why, n, "whether processes of the job are left is not known: %s", e.msg);
		return true;
	}
	if (job == TD_CG_BUSY) {
		snprintf(why, n, "processes of the job are left on the node");
		return true;
	}
	if (h->pod)
		return pod_busy(a, h->uid, h, false, why, n);

	// We may know the job's pod a moment before the table is told of it.
	char id[24];
	snprintf(id, sizeof(id), "%lld", (long long)h->job);
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(a->pods, "job", id, &l);
	for (size_t i = 0; i < l.n; i++) {
		struct td_holder its;
		uint64_t mask;
		if (grant_of(a, l.v[i], &its, &mask) && td_holder_same(&its, h) &&
		    pod_busy(a, l.v[i]->uid, h, false, why, n))
			return true;
	}

	return *h->ask && pod_busy(a, h->ask, h, true, why, n);
}

void td_gate_agent_superseded(void *ctx, int node, uint64_t mask)
{
	// Nothing is stopped here: the bridge deletes pods whose grant has ended. What is read
	// about them must be newer than this moment.
	struct td_gate_agent *a = ctx;
	pthread_mutex_lock(&a->mu);
	a->since_ms = td_mono_ms(a->clock);
	pthread_mutex_unlock(&a->mu);
}

// The first pod of this node in the path decides. A pod around the whole node comes before it, and
// what a pod makes below itself comes after it.
bool td_gate_agent_may_claim(void *ctx, int node, const char *cgroups, char *why, size_t n)
{
	struct td_gate_agent *a = ctx;
	char uid[40] = "";
	bool any = false;
	for (const char *at = cgroups; td_cg_next_pod(&at, uid); any = true) {
		td_auto_objects struct td_objects l = {0};
		td_informer_by_index(a->pods, "uid", uid, &l);
		if (!l.n)
			continue;
		if (td_streq(td_object_annotation(l.v[0], TD_ANN_ALL_DEVICES), "true"))
			return true;
		snprintf(why, n, "pod %s/%s is no slurmd: only Slurm's Prolog claims devices", l.v[0]->ns,
			 l.v[0]->name);
		return false;
	}

	if (any)
		snprintf(why, n,
			 "pod %s is not known on this node: only Slurm's Prolog, in a slurmd pod, claims devices", uid);
	return !any;
}
