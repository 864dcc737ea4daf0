// StatefulSet: pods with stable names, made and ended in order (OrderedReady) or at once
// (Parallel), and updated from the highest ordinal down (RollingUpdate) or when they are deleted
// (OnDelete).
//
// A revision is the hash of the template. It is kept in the pods' label controller-revision-hash.
// Old templates are not kept, so there is no partition and no history to go back to.
#include "controllers/ctl.h"

#include <stdio.h>
#include <string.h>

#define REVISION "controller-revision-hash"

struct set {
	struct ctl *c;
	struct td_object *s; // borrowed
	long long start, want, min_ready;
	bool parallel, on_delete;
	struct td_objects pods; // every pod of the set
	// The pods by ordinal - start, `want` of them; NULL: the pod is missing.
	struct td_object **slot;
	struct td_objects excess; // pods outside the wanted ordinals, highest first
	char revision[300];       // "<name>-<hash>"
	int64_t now, wait;
	struct td_cancel *cancel;
};

static void set_done(struct set *x)
{
	td_objects_done(&x->pods);
	td_objects_done(&x->excess);
	free(x->slot);
}

// The pod's ordinal. -1: its name is not one of this set.
static long long ordinal(const struct td_object *s, const struct td_object *p)
{
	size_t n = strlen(s->name);
	long long o;
	if (strncmp(p->name, s->name, n) != 0 || p->name[n] != '-' || !td_parse_i64(p->name + n + 1, &o) || o < 0)
		return -1;
	return o;
}

static bool up_to_date(const struct set *x, const struct td_object *p)
{
	return td_streq(td_object_label(p, REVISION), x->revision);
}

static bool available(struct set *x, const struct td_object *p)
{
	return p && ctl_pod_active(p) && ctl_pod_available(p, x->min_ready, x->now, &x->wait);
}

static int make(struct set *x, long long i, struct td_error *err)
{
	char text[32];
	td_auto_free char *name = td_asprintf("%s-%lld", x->s->name, x->start + i);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = ctl_pod_from(x->s, &td_statefulsets, name);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, o, "metadata.labels");

	td_jm_key_str(d, labels, "statefulset.kubernetes.io/pod-name", name);
	snprintf(text, sizeof(text), "%lld", x->start + i);
	td_jm_key_str(d, labels, "apps.kubernetes.io/pod-index", text);
	td_jm_key_str(d, labels, REVISION, x->revision);
	td_jm_str(d, o, "spec.hostname", name);
	td_jm_str(d, o, "spec.subdomain", td_jstr(x->s->root, "spec.serviceName"));

	int r = ctl_create_pod(x->c, x->c->sts_expect, x->s, &td_statefulsets, d, x->cancel, err);
	return r == TD_EXISTS ? td_fail(err, TD_CONFLICT, "pod %s exists and is not (yet) seen as this set's", name)
			      : r;
}

static int end(struct set *x, const struct td_object *p, struct td_error *err)
{
	return ctl_delete_pod(x->c, x->c->sts_expect, x->s, &td_statefulsets, p, x->cancel, err);
}

static int by_ordinal_down(const void *a, const void *b)
{
	// The prefixes are equal, so the longer number is the greater one.
	const char *x = (*(struct td_object *const *)a)->name, *y = (*(struct td_object *const *)b)->name;
	size_t lx = strlen(x), ly = strlen(y);
	return lx != ly ? (lx < ly ? 1 : -1) : strcmp(y, x);
}

static void sort_pods(struct set *x)
{
	x->slot = td_calloc((size_t)x->want + 1, sizeof(*x->slot));
	for (size_t n = 0; n < x->pods.n; n++) {
		struct td_object *p = x->pods.v[n];
		long long o = ordinal(x->s, p);
		if (o >= x->start && o < x->start + x->want)
			x->slot[o - x->start] = p;
		else if (o >= 0)
			td_objects_add(&x->excess, td_object_ref(p));
	}
	ctl_sort(&x->excess, by_ordinal_down);
}

// Does everything but updates. *ret_settled: all wanted pods exist and are healthy, and no excess
// pod is left, so updates may go on.
static int keep(struct set *x, bool *ret_settled, struct td_error *err)
{
	*ret_settled = false;
	bool settled = true;

	for (long long i = 0; i < x->want; i++) {
		struct td_object *p = x->slot[i];
		int r = 0;
		if (p && ctl_pod_finished(p) && !td_object_deleting(p)) {
			td_record(x->c->rec, TD_ABOUT(x->s, &td_statefulsets), "Warning", "RecreatingFailedPod",
				  "StatefulSet %s/%s is recreating %s Pod %s", x->s->ns, x->s->name,
				  td_jstr_or(p->root, "status.phase", ""), p->name);
			settled = false;
			if ((r = end(x, p, err)))
				return r;
			if (!x->parallel)
				return 0;
		} else if (!p) {
			settled = false;
			if ((r = make(x, i, err)))
				return r;
			if (!x->parallel)
				return 0;
		} else if (!available(x, p)) {
			settled = false;
			// Its successors wait for it, alive or dying.
			if (!x->parallel)
				return 0;
		}
	}
	// End excess pods from the top. The ordered policy ends one at a time, and of those that
	// are not available only the lowest: nobody knows what is wrong with the others.
	const struct td_object *lowest = NULL;
	for (size_t n = 0; n < x->excess.n; n++)
		if (!available(x, x->excess.v[n]))
			lowest = x->excess.v[n];

	for (size_t n = 0; n < x->excess.n; n++) {
		struct td_object *p = x->excess.v[n];
		settled = false;
		if (!x->parallel && p != lowest && !available(x, p))
			return 0;
		if (td_object_deleting(p)) {
			if (!x->parallel)
				return 0;
			continue;
		}
		int r = end(x, p, err);
		if (r || !x->parallel)
			return r;
	}

	*ret_settled = settled || x->parallel;
	return 0;
}

static int update(struct set *x, struct td_error *err)
{
	if (x->on_delete)
		return 0;

	long long max = ctl_int_or_percent(td_jget(x->s->root, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
					   x->want, false, "1");
	if (max < 1)
		max = 1;

	long long down = 0;
	for (long long i = 0; i < x->want; i++)
		down += !available(x, x->slot[i]);

	for (long long i = x->want - 1; i >= 0; i--) {
		struct td_object *p = x->slot[i];
		if (!p || td_object_deleting(p))
			continue;
		if (up_to_date(x, p)) {
			if (!available(x, p) && max == 1)
				return 0; // the update waits for it
			continue;
		}

		// A pod that is down already costs nothing, so a broken template can be mended.
		bool costs = available(x, p);
		if (costs && down >= max)
			return 0;

		int r = end(x, p, err);
		if (r)
			return r;

		down += costs;
		if (max == 1)
			return 0;
	}
	return 0;
}

static int write_status(struct set *x, struct td_error *err)
{
	long long ready = 0, avail = 0, updated = 0, current = 0, live = 0;
	const char *cur = td_jstr_or(x->s->root, "status.currentRevision", "");
	for (size_t n = 0; n < x->pods.n; n++) {
		const struct td_object *p = x->pods.v[n];
		if (ctl_pod_finished(p))
			continue;
		live++;
		ready += ctl_pod_ready(p) && !td_object_deleting(p);
		avail += available(x, p);
		if (!td_object_deleting(p)) {
			updated += up_to_date(x, p);
			current += td_streq(td_object_label(p, REVISION), cur);
		}
	}

	// The update is complete, so its revision is the current one.
	if (!*cur || (updated == x->want && ready == x->want && live == x->want)) {
		cur = x->revision;
		current = updated;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d);

	td_jm_int(d, s, "observedGeneration", td_jint(x->s->root, "metadata.generation", 0));
	td_jm_int(d, s, "replicas", live);
	td_jm_int(d, s, "readyReplicas", ready);
	td_jm_int(d, s, "availableReplicas", avail);
	td_jm_int(d, s, "currentReplicas", current);
	td_jm_int(d, s, "updatedReplicas", updated);
	td_jm_str(d, s, "currentRevision", cur);
	td_jm_str(d, s, "updateRevision", x->revision);

	return ctl_write_status(x->c, &td_statefulsets, x->s, s, x->cancel, err);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *s = td_informer_get(c->statefulsets, ns, name);
	if (!s)
		return 0;

	bool seen_all = ctl_expect_done(c->sts_expect, s->uid);

	struct set x
		__attribute__((cleanup(set_done))) = {.c = c, .s = s, .cancel = cancel, .now = td_real_ms(c->clock)};

	x.want = td_jint(s->root, "spec.replicas", 1);
	if (x.want < 0 || x.want > 100000)
		return td_fail(err, TD_INVALID, "spec.replicas: %lld is out of range", x.want);

	x.start = td_jint(s->root, "spec.ordinals.start", 0);
	x.min_ready = td_jint(s->root, "spec.minReadySeconds", 0);
	x.parallel = td_streq(td_jstr(s->root, "spec.podManagementPolicy"), "Parallel");
	x.on_delete = td_streq(td_jstr(s->root, "spec.updateStrategy.type"), "OnDelete");

	char hash[CTL_HASH_LEN];
	snprintf(x.revision, sizeof(x.revision), "%.200s-%s", s->name,
		 ctl_hash(td_jget(s->root, "spec.template"), 0, hash));
	if (strlen(x.revision) > 63) // it is a label
		snprintf(x.revision, sizeof(x.revision), "%.52s-%s", s->name, hash);

	int r = ctl_claim(c, c->pods, &td_pods, s, &td_statefulsets, cancel, &x.pods, err);
	if (r)
		return r;

	sort_pods(&x);

	struct td_error why = TD_ERROR_INIT;
	bool settled = false;
	if (seen_all && !td_object_deleting(s)) {
		r = keep(&x, &settled, &why);
		if (!r && settled)
			r = update(&x, &why);
	}

	int w = r == TD_CANCELLED ? r : write_status(&x, err);

	*again = x.wait;
	if (!w && r && err)
		*err = why;
	return w ? w : r;
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl *c = ctx;
	ctl_expect_pod(c->sts_expect, "StatefulSet", old, now);
}

static void on_gone(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl *c = ctx;
	if (!now)
		ctl_expect_forget(c->sts_expect, old->uid);
}

static struct sts_orphans { // one per process, like the controller
	struct ctl *c;
	struct td_queue *queue;
} orphans;

// A pod without an owner appeared, changed or went away, and its name is one of a set: the set
// waits to make or adopt it.
static void on_other(void *ctx, struct td_object *old, struct td_object *now)
{
	struct sts_orphans *x = ctx;
	const struct td_object *o = now ? now : old;
	const char *dash = strrchr(o->name, '-');
	if (td_object_owner(o) || !dash)
		return;
	td_auto_free char *key = td_asprintf("%s/%.*s", o->ns, (int)(dash - o->name), o->name);
	td_queue_add(x->queue, key);
}

void ctl_statefulset(struct ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"statefulset", 2, td_queue_new(c->clock), reconcile, c};
	orphans = (struct sts_orphans){c, ret->queue};
	td_informer_on_change(c->statefulsets, on_gone, c);
	td_informer_on_change(c->statefulsets, td_enqueue_self, ret->queue);
	td_informer_on_change(c->pods, on_pod, c);
	td_informer_on_change(c->pods, td_enqueue_owner, ret->queue);
	td_informer_on_change(c->pods, on_other, &orphans);
}
