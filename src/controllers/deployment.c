// Deployment: one ReplicaSet per template, rolled over within maxSurge and maxUnavailable, or by
// Recreate. The rules are Kubernetes' (pkg/controller/deployment), so that `kubectl rollout`
// status, undo, history, pause and restart mean the same.
//
// Every change of a ReplicaSet carries its resourceVersion: a decision made on a stale copy is
// refused and made again. In one thing this controller is stricter than Kubernetes: pods that a
// ReplicaSet was told to end and has not yet ended count for maxSurge, and do not count as
// available. (Kubernetes counts what was told for the one and the status for the other. So it is
// outside its bounds for as long as the ReplicaSet's controller lags.)
#include "controllers/deployment.h"

#include "api/condition.h"

#include <stdio.h>
#include <string.h>

#define REVISION "deployment.kubernetes.io/revision"
#define HISTORY "deployment.kubernetes.io/revision-history"
#define HASH_LABEL "pod-template-hash"

static long long annotation_int(const struct td_object *o, const char *key, long long def)
{
	long long n = def;
	const char *s = td_object_annotation(o, key);
	if (s)
		td_parse_i64(s, &n);
	return n;
}

long long td_ctl_rs_spec(const struct td_object *rs)
{
	return rs ? td_jint(rs->root, "spec.replicas", 1) : 0;
}

// How many of its pods are available and stay. Pods that it was told to end are not counted,
// although its status may still do so.
static long long available_of(const struct td_object *rs)
{
	long long told = td_ctl_rs_spec(rs), has = rs ? td_jint(rs->root, "status.availableReplicas", 0) : 0;
	return told < has ? told : has;
}

// ---- which is which ----

static bool same_template(const struct td_object *rs, const struct td_object *d)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *doc = td_jm_copy(td_jget(rs->root, "spec.template"));
	yyjson_mut_val *labels = td_jm_get(yyjson_mut_doc_get_root(doc), "metadata.labels");
	yyjson_mut_obj_remove_key(labels, HASH_LABEL);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(doc));
	yyjson_val *a = td_json_root(j), *b = td_jget(d->root, "spec.template");
	return td_jequal(td_jget(a, "spec"), td_jget(b, "spec")) &&
	       td_jequal(td_jget(a, "metadata.labels"), td_jget(b, "metadata.labels")) &&
	       td_jequal(td_jget(a, "metadata.annotations"), td_jget(b, "metadata.annotations"));
}

static void split(struct roll *x, struct td_objects *all)
{
	td_ctl_sort(all, td_ctl_by_creation);
	for (size_t i = 0; i < all->n; i++) {
		if (!x->now && same_template(all->v[i], x->d)) // if two match, the oldest
			x->now = td_object_ref(all->v[i]);
		else
			td_objects_add(&x->old, td_object_ref(all->v[i]));
	}
}

static void roll_done(struct roll *x)
{
	td_object_unref(x->now);
	td_objects_done(&x->old);
}

// ---- writes ----

// Sets the replicas, and the annotations that proportional scaling needs. Writes nothing if all is
// as wanted.
static int scale_rs(struct roll *x, const struct td_object *rs, long long want, struct td_error *err)
{
	long long max = x->want + (x->rolling ? x->surge : 0);
	bool size = td_ctl_rs_spec(rs) != want;
	if (!size && annotation_int(rs, CTL_DESIRED, -1) == x->want && annotation_int(rs, CTL_MAX, -1) == max)
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	char n[32];

	td_jm_str(d, p, "metadata.uid", rs->uid);
	td_jm_str(d, p, "metadata.resourceVersion", rs->rv);
	yyjson_mut_val *notes = td_jm_obj(d, p, "metadata.annotations");
	snprintf(n, sizeof(n), "%lld", x->want);
	td_jm_key_str(d, notes, CTL_DESIRED, n);
	snprintf(n, sizeof(n), "%lld", max);
	td_jm_key_str(d, notes, CTL_MAX, n);
	if (size)
		td_jm_int(d, p, "spec.replicas", want);

	int r = td_kube_patch(x->c->kube, TD_AT(&td_replicasets, rs->ns, rs->name), TD_PATCH_MERGE, p, x->cancel, NULL,
			      err);

	if (!r && size) {
		x->changed = true;
		td_kube_record(x->c->rec, TD_ABOUT(x->d, &td_deployments), "Normal", "ScalingReplicaSet",
			       "Scaled %s replica set %s from %lld to %lld", want > td_ctl_rs_spec(rs) ? "up" : "down",
			       rs->name, td_ctl_rs_spec(rs), want);
	}
	return r;
}

static long long max_revision(const struct roll *x)
{
	long long most = 0;
	for (size_t i = 0; i < x->old.n; i++)
		if (annotation_int(x->old.v[i], REVISION, 0) > most)
			most = annotation_int(x->old.v[i], REVISION, 0);
	return most;
}

static bool is_copied(const char *key)
{
	static const char *const not[] = {"kubectl.kubernetes.io/last-applied-configuration",
					  REVISION,
					  HISTORY,
					  CTL_DESIRED,
					  CTL_MAX,
					  "deprecated.deployment.rollback.to"};
	for (size_t i = 0; i < TD_LEN(not); i++)
		if (!strcmp(key, not[i]))
			return false;
	return true;
}

// Puts the Deployment's annotations and the revision into `notes`. True: that changes what `rs`
// (may be NULL) has.
static bool rs_annotations(const struct roll *x, const struct td_object *rs, long long revision, yyjson_mut_doc *doc,
			   yyjson_mut_val *notes)
{
	bool differs = false;
	size_t i, n;
	yyjson_val *k, *v, *from = td_jget(x->d->root, "metadata.annotations");

	yyjson_obj_foreach (from, i, n, k, v) {
		if (!is_copied(yyjson_get_str(k)) ||
		    td_streq(td_object_annotation(rs, yyjson_get_str(k)), yyjson_get_str(v)))
			continue;
		td_jm_key_str(doc, notes, yyjson_get_str(k), yyjson_get_str(v));
		differs = true;
	}

	long long was = annotation_int(rs, REVISION, 0);
	if (was < revision) {
		char text[32];
		snprintf(text, sizeof(text), "%lld", revision);
		td_jm_key_str(doc, notes, REVISION, text);
		if (was) {
			// It was rolled back to. Its older numbers are kept for `kubectl rollout
			// history`.
			const char *h = td_object_annotation(rs, HISTORY);
			td_auto_free char *list =
				h && *h ? td_asprintf("%.200s,%lld", h, was) : td_asprintf("%lld", was);
			td_jm_key_str(doc, notes, HISTORY, list);
		}
		differs = true;
	}

	return differs;
}

static int set_revision(struct roll *x, const char *revision, struct td_error *err)
{
	if (td_streq(td_object_annotation(x->d, REVISION), revision))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_str(d, p, "metadata.uid", x->d->uid);
	td_jm_key_str(d, td_jm_obj(d, p, "metadata.annotations"), REVISION, revision);
	return td_kube_patch(x->c->kube, TD_AT(&td_deployments, x->d->ns, x->d->name), TD_PATCH_MERGE, p, x->cancel,
			     NULL, err);
}

static int refresh_now(struct roll *x, long long revision, struct td_error *err)
{
	char text[32];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	long long min_ready = td_jint(x->d->root, "spec.minReadySeconds", 0);

	bool differs = rs_annotations(x, x->now, revision, d, td_jm_obj(d, p, "metadata.annotations"));
	if (td_jint(x->now->root, "spec.minReadySeconds", 0) != min_ready) {
		td_jm_int(d, p, "spec.minReadySeconds", min_ready);
		differs = true;
	}

	long long have = annotation_int(x->now, REVISION, 0);

	if (differs) {
		td_jm_str(d, p, "metadata.uid", x->now->uid);
		td_jm_str(d, p, "metadata.resourceVersion", x->now->rv);
		struct td_object *o = NULL;
		int r = td_kube_patch(x->c->kube, TD_AT(&td_replicasets, x->now->ns, x->now->name), TD_PATCH_MERGE, p,
				      x->cancel, &o, err);
		if (r)
			return r;
		td_object_unref(x->now);
		x->now = o;
	}

	snprintf(text, sizeof(text), "%lld", have > revision ? have : revision);
	x->found = !td_condition(x->d->root, "Progressing");
	return set_revision(x, text, err);
}

// How many pods it may have now: as many as it was told, or as it still has.
static long long pods_of(const struct td_object *rs)
{
	long long told = td_ctl_rs_spec(rs), has = td_jint(rs->root, "status.replicas", 0);
	return told > has ? told : has;
}

// How many replicas the new ReplicaSet should have, if it has `have`.
static long long wanted_of_new(const struct roll *x, long long have)
{
	if (!x->rolling)
		return x->want;
	long long total = x->now ? pods_of(x->now) : 0;
	for (size_t i = 0; i < x->old.n; i++)
		total += pods_of(x->old.v[i]);
	long long max = x->want + x->surge;
	if (total >= max || have >= x->want)
		return have;
	return have + (max - total < x->want - have ? max - total : x->want - have);
}

static int make_now(struct roll *x, long long revision, struct td_error *err)
{
	char hash[CTL_HASH_LEN], text[32];
	const struct td_object *o = x->d;
	yyjson_val *template = td_jget(o->root, "spec.template");
	td_ctl_hash(template, (int)td_jint(o->root, "status.collisionCount", 0), hash);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_auto_free char *name = td_asprintf("%.240s-%s", o->name, hash);

	td_jm_str(d, p, "apiVersion", "apps/v1");
	td_jm_str(d, p, "kind", "ReplicaSet");
	td_jm_str(d, p, "metadata.name", name);
	td_jm_str(d, p, "metadata.namespace", o->ns);
	td_jm_copyval(d, p, "metadata.labels", td_jget(template, "metadata.labels"));
	td_jm_key_str(d, td_jm_obj(d, p, "metadata.labels"), HASH_LABEL, hash);

	yyjson_mut_val *notes = td_jm_obj(d, p, "metadata.annotations");
	rs_annotations(x, NULL, revision, d, notes);
	snprintf(text, sizeof(text), "%lld", x->want);
	td_jm_key_str(d, notes, CTL_DESIRED, text);
	snprintf(text, sizeof(text), "%lld", x->want + (x->rolling ? x->surge : 0));
	td_jm_key_str(d, notes, CTL_MAX, text);

	td_ctl_set_owner(d, p, o, &td_deployments);
	long long replicas = wanted_of_new(x, 0);
	td_jm_int(d, p, "spec.replicas", replicas);
	if (td_jint(o->root, "spec.minReadySeconds", 0))
		td_jm_int(d, p, "spec.minReadySeconds", td_jint(o->root, "spec.minReadySeconds", 0));
	td_jm_copyval(d, p, "spec.selector", td_jget(o->root, "spec.selector"));
	td_jm_key_str(d, td_jm_obj(d, p, "spec.selector.matchLabels"), HASH_LABEL, hash);
	td_jm_copyval(d, p, "spec.template", template);
	td_jm_key_str(d, td_jm_obj(d, p, "spec.template.metadata.labels"), HASH_LABEL, hash);

	struct td_error why = TD_ERROR_INIT;
	struct td_object *made = NULL;
	int r = td_kube_create(x->c->kube, &td_replicasets, o->ns, p, x->cancel, &made, &why);
	if (r == TD_EXISTS) {
		r = td_kube_get(x->c->kube, &td_replicasets, o->ns, name, x->cancel, &made, err);
		if (r)
			return r;
		if (!td_streq(td_jstr(td_object_owner(made), "uid"), o->uid) || !same_template(made, o)) {
			// Another template has this hash: the next round salts it.
			td_object_unref(made);
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *sd = td_jm_new();
			yyjson_mut_val *s = yyjson_mut_doc_get_root(sd);
			td_jm_int(sd, s, "collisionCount", td_jint(o->root, "status.collisionCount", 0) + 1);
			r = td_ctl_write_status(x->c, &td_deployments, o, s, x->cancel, err);
			return r ? r
				 : td_fail(err, TD_CONFLICT, "ReplicaSet %s has another template; hashing again", name);
		}
		x->now = made; // it was made before and is not yet seen
		return 0;
	}

	if (r) {
		if (err)
			*err = why;
		if (r == TD_INVALID || r == TD_DENIED)
			snprintf(x->failed, sizeof(x->failed), "%s", why.msg);
		return r;
	}

	x->now = made;
	x->made = x->changed = true;
	td_kube_record(x->c->rec, TD_ABOUT(o, &td_deployments), "Normal", "ScalingReplicaSet",
		       "Scaled up replica set %s from 0 to %lld", name, replicas);
	snprintf(text, sizeof(text), "%lld", revision);
	return set_revision(x, text, err);
}

// Finds the ReplicaSet of the current template and brings its revision up to date. If there is
// none, makes it if `create`.
static int sync_now(struct roll *x, bool create, struct td_error *err)
{
	long long revision = max_revision(x) + 1;
	if (x->now)
		return refresh_now(x, revision, err);
	return create ? make_now(x, revision, err) : 0;
}

// ---- rolling update ----

static long long sum(const struct roll *x, bool with_new, bool available)
{
	long long n = with_new && x->now ? (available ? available_of(x->now) : td_ctl_rs_spec(x->now)) : 0;
	for (size_t i = 0; i < x->old.n; i++)
		n += available ? available_of(x->old.v[i]) : td_ctl_rs_spec(x->old.v[i]);
	return n;
}

static int shrink_old(struct roll *x, struct td_error *err)
{
	if (sum(x, false, false) == 0)
		return 0;

	long long min_available = x->want - x->unavailable;
	long long new_unavailable = td_ctl_rs_spec(x->now) - available_of(x->now);
	long long room = sum(x, true, false) - min_available - new_unavailable;
	if (room <= 0)
		return 0;

	td_auto_free long long *want = td_calloc(x->old.n + 1, sizeof(*want));

	// Pods that are not available cost nothing, so they go first.
	for (size_t i = 0; i < x->old.n; i++) {
		long long spec = td_ctl_rs_spec(x->old.v[i]), sick = spec - available_of(x->old.v[i]);
		long long n = sick < room ? sick : room;
		want[i] = spec - (n > 0 ? n : 0);
		room -= spec - want[i];
	}

	long long spare = sum(x, true, true) - min_available;
	for (size_t i = 0; i < x->old.n && spare > 0; i++) {
		long long n = want[i] < spare ? want[i] : spare;
		want[i] -= n;
		spare -= n;
	}

	for (size_t i = 0; i < x->old.n; i++) {
		int r = td_ctl_rs_spec(x->old.v[i]) || want[i] ? scale_rs(x, x->old.v[i], want[i], err) : 0;
		if (r)
			return r;
	}
	return 0;
}

static int rolling(struct roll *x, struct td_error *err)
{
	int r = sync_now(x, true, err);
	if (r || x->made)
		return r;

	long long have = td_ctl_rs_spec(x->now);
	r = scale_rs(x, x->now, have > x->want ? x->want : wanted_of_new(x, have), err);
	if (r || x->changed)
		return r;
	return shrink_old(x, err);
}

static bool old_pods_run(const struct roll *x)
{
	for (size_t i = 0; i < x->old.n; i++) {
		td_auto_objects struct td_objects pods = {0};
		td_informer_by_index(x->c->pods, "owner", x->old.v[i]->uid, &pods);
		for (size_t j = 0; j < pods.n; j++)
			if (!td_ctl_pod_finished(pods.v[j]))
				return true;
	}
	return false;
}

static int recreate(struct roll *x, struct td_error *err)
{
	int r = sync_now(x, false, err);
	for (size_t i = 0; !r && i < x->old.n; i++)
		if (td_ctl_rs_spec(x->old.v[i]))
			r = scale_rs(x, x->old.v[i], 0, err);
	if (r || x->changed || old_pods_run(x))
		return r;
	if (!x->now)
		r = sync_now(x, true, err);
	return r || x->made ? r : scale_rs(x, x->now, x->want, err);
}

// ---- scaling while a rollout is under way, or paused ----

// The part of to_add that this ReplicaSet gets, in proportion to its size; `added` has been given
// to others.
static long long share_of(const struct roll *x, const struct td_object *rs, long long to_add, long long added)
{
	long long spec = td_ctl_rs_spec(rs);
	if (!spec || !to_add || to_add == added)
		return 0;
	long long part = -spec;
	if (x->want) {
		long long total = x->want + x->surge,
			  was = annotation_int(rs, CTL_MAX, td_jint(x->d->root, "status.replicas", 1));
		part = was > 0 ? (spec * total * 2 + was) / (was * 2) - spec : 0; // rounded
	}
	long long left = to_add - added;
	return to_add > 0 ? (part < left ? part : left) : (part > left ? part : left);
}

static int scale_all(struct roll *x, struct td_error *err)
{
	td_auto_objects struct td_objects active = {0};
	struct td_object *latest = x->now;
	for (size_t i = 0; i < x->old.n; i++) {
		if (td_ctl_rs_spec(x->old.v[i]) > 0)
			td_objects_add(&active, td_object_ref(x->old.v[i]));
		if (!x->now)
			latest = x->old.v[i]; // they are sorted: the newest is last
	}
	if (x->now && td_ctl_rs_spec(x->now) > 0)
		td_objects_add(&active, td_object_ref(x->now));

	if (active.n <= 1) {
		const struct td_object *only = active.n ? active.v[0] : latest;
		return only ? scale_rs(x, only, x->want, err) : 0;
	}

	int r = 0;
	if (x->now && td_ctl_rs_spec(x->now) == x->want && available_of(x->now) == x->want &&
	    annotation_int(x->now, CTL_DESIRED, -1) == x->want) {
		for (size_t i = 0; !r && i < x->old.n; i++)
			if (td_ctl_rs_spec(x->old.v[i]) > 0)
				r = scale_rs(x, x->old.v[i], 0, err);
		return r;
	}

	if (!x->rolling)
		return 0;

	long long to_add = (x->want > 0 ? x->want + x->surge : 0) - sum(x, true, false), added = 0;
	td_auto_free long long *want = td_calloc(active.n, sizeof(*want));
	for (size_t i = active.n; i-- > 0;) { // the newest first
		long long part = share_of(x, active.v[i], to_add, added);
		want[i] = td_ctl_rs_spec(active.v[i]) + part;
		added += part;
	}

	size_t first = active.n - 1;
	want[first] += to_add - added;

	for (size_t i = 0; !r && i < active.n; i++)
		r = scale_rs(x, active.v[i], want[i] > 0 ? want[i] : 0, err);
	return r;
}

static bool was_scaled(const struct roll *x)
{
	if (x->now && td_ctl_rs_spec(x->now) > 0 && annotation_int(x->now, CTL_DESIRED, x->want) != x->want)
		return true;
	for (size_t i = 0; i < x->old.n; i++)
		if (td_ctl_rs_spec(x->old.v[i]) > 0 && annotation_int(x->old.v[i], CTL_DESIRED, x->want) != x->want)
			return true;
	return false;
}

// ---- history ----

static int by_revision(const void *a, const void *b)
{
	long long x = annotation_int(*(struct td_object *const *)a, REVISION, 0),
		  y = annotation_int(*(struct td_object *const *)b, REVISION, 0);
	return x < y ? -1 : x > y ? 1 : td_ctl_by_creation(a, b);
}

static int trim_history(struct roll *x, struct td_error *err)
{
	long long keep = td_jint(x->d->root, "spec.revisionHistoryLimit", 10);
	td_auto_objects struct td_objects idle = {0};
	for (size_t i = 0; i < x->old.n; i++) {
		const struct td_object *rs = x->old.v[i];
		if (!td_ctl_rs_spec(rs) && !td_jint(rs->root, "status.replicas", 0) && !td_object_deleting(rs) &&
		    td_jint(rs->root, "status.observedGeneration", 0) >= td_jint(rs->root, "metadata.generation", 0))
			td_objects_add(&idle, td_object_ref(x->old.v[i]));
	}

	td_ctl_sort(&idle, by_revision);
	for (size_t i = 0; (long long)(idle.n - i) > keep && i < idle.n; i++) {
		const struct td_kube_delete_opts opts = {
			.uid = idle.v[i]->uid, .rv = idle.v[i]->rv, .grace_s = -1, .propagation = "Background"};
		int r = td_kube_delete(x->c->kube, &td_replicasets, idle.v[i]->ns, idle.v[i]->name, &opts, x->cancel,
				       err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
	}
	return 0;
}

// ---- reconcile ----

static int act(struct roll *x, struct td_error *err)
{
	if (td_object_deleting(x->d))
		return 0;
	if (x->paused || was_scaled(x)) {
		int r = sync_now(x, false, err);
		return r ? r : scale_all(x, err);
	}
	return x->rolling ? rolling(x, err) : recreate(x, err);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl *c = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);

	td_auto(td_object_unref) struct td_object *d = td_informer_get(c->deployments, ns, name);
	if (!d)
		return 0;

	struct roll x __attribute__((cleanup(roll_done))) = {.c = c, .d = d, .cancel = cancel};
	x.want = td_jint(d->root, "spec.replicas", 1);
	x.paused = td_jbool(d->root, "spec.paused", false);
	x.rolling = !td_streq(td_jstr(d->root, "spec.strategy.type"), "Recreate");
	x.surge = td_ctl_int_or_percent(td_jget(d->root, "spec.strategy.rollingUpdate.maxSurge"), x.want, true, "25%");
	x.unavailable = td_ctl_int_or_percent(td_jget(d->root, "spec.strategy.rollingUpdate.maxUnavailable"), x.want,
					      false, "25%");

	if (x.rolling && !x.surge && !x.unavailable)
		x.unavailable = 1; // otherwise nothing could ever move
	if (!x.rolling)
		x.surge = 0, x.unavailable = 0;
	if (x.unavailable > x.want)
		x.unavailable = x.want;

	td_auto_objects struct td_objects all = {0};
	int r = td_ctl_claim(c, c->replicasets, &td_replicasets, d, &td_deployments, cancel, &all, err);
	if (r)
		return r;

	split(&x, &all);

	struct td_error why = TD_ERROR_INIT;
	r = act(&x, &why);
	if (r == TD_CANCELLED || r == TD_CONFLICT || r == TD_NOT_FOUND) {
		if (err)
			*err = why;
		return r;
	}

	bool complete = false;
	int s = td_ctl_deployment_status(&x, again, &complete, err);
	if (!s && !r && complete && !x.paused && !td_object_deleting(d))
		s = trim_history(&x, err);
	if (!s && r && err)
		*err = why;
	return s ? s : r;
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl_deployment_pods *x = ctx;
	// Recreate waits until the last old pod has ended.
	if (now && !(td_ctl_pod_finished(now) && old && !td_ctl_pod_finished(old)))
		return;

	const struct td_object *pod = now ? now : old;
	yyjson_val *ref = td_object_owner(pod);
	if (!td_streq(td_jstr(ref, "kind"), "ReplicaSet"))
		return;
	td_auto(td_object_unref) struct td_object *rs =
		td_informer_get(x->c->replicasets, pod->ns, td_jstr(ref, "name"));
	if (rs)
		td_enqueue_owner(x->queue, NULL, rs);
}

void td_ctl_deployment(struct td_ctl *c, struct td_controller *ret)
{
	static struct ctl_deployment_pods pods; // one per process, like the controller
	*ret = (struct td_controller){"deployment", 4, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->deployments, td_enqueue_self, ret->queue);
	td_informer_on_change(c->replicasets, td_enqueue_owner, ret->queue);
	pods = (struct ctl_deployment_pods){c, ret->queue};
	td_informer_on_change(c->pods, on_pod, &pods);
}
