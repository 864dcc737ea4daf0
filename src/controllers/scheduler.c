// The embedded scheduler of pods that are not Slurm's (schedulerName default-scheduler). It takes
// the first node, by name, that the pod fits on.
//
// Room on a node = allocatable − what Slurm gives out there (annotation tandem.dev/slurm-share) −
// requests of the pods there that Slurm did not place. There is one worker. A pod that was bound
// counts on its node from that moment on (assumed), not only when the cache shows it. Inter-pod
// affinity, topology spread and preemption are not looked at.
#include "controllers/ctl.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define NAME "default-scheduler"
#define SLURMS "tandem" // pods of this scheduler are in Slurm's share
#define ALL "~all"      // key: look at every waiting pod again
#define RETRY_MS 60000

struct assumed {
	char *uid, *node;
	struct td_object *pod;
	UT_hash_handle hh;
};
struct td_ctl_scheduler {
	struct td_ctl *c;
	struct td_queue *queue;
	struct assumed *assumed; // used by the one worker only
};

static void assumed_free(struct td_ctl_scheduler *s, struct assumed *a)
{
	HASH_DEL(s->assumed, a);
	td_object_unref(a->pod);
	free(a->uid);
	free(a->node);
	free(a);
}

void td_ctl_scheduler_free(struct td_ctl_scheduler *s)
{
	if (!s)
		return;
	struct assumed *a, *tmp;
	HASH_ITER (hh, s->assumed, a, tmp)
		assumed_free(s, a);
	free(s);
}

// Drops the assumed pods that the cache shows bound, or gone.
static void trim_assumed(struct td_ctl_scheduler *s)
{
	struct assumed *a, *tmp;
	HASH_ITER (hh, s->assumed, a, tmp) {
		td_auto(td_object_unref) struct td_object *p = td_informer_get(s->c->pods, a->pod->ns, a->pod->name);
		if (!p || !td_streq(p->uid, a->uid) || *td_jstr_or(p->root, "spec.nodeName", ""))
			assumed_free(s, a);
	}
}

// ---- room ----

static int64_t quantity(const yyjson_val *map, const char *resource)
{
	yyjson_val *v = td_jkey(map, resource);
	int64_t n = 0;
	char text[32];
	const char *s = yyjson_get_str(v);

	if (yyjson_is_int(v)) {
		snprintf(text, sizeof(text), "%lld", (long long)yyjson_get_sint(v));
		s = text;
	}

	if (!s)
		return 0;
	int r = !strcmp(resource, "cpu") ? td_quantity_milli(s, &n, NULL) : td_quantity_ceil(s, &n, NULL);
	return r ? 0 : n;
}

struct node_view {
	const struct td_object *node;
	struct td_objects pods; // those there now, and those assumed there
	struct td_json *share;
};

static void view_done(struct node_view *v)
{
	td_objects_done(&v->pods);
	td_json_unref(v->share);
}

static void view(struct td_ctl_scheduler *s, const struct td_object *node, struct node_view *ret)
{
	ret->node = node;

	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(s->c->pods, "node", node->name, &l);

	for (size_t i = 0; i < l.n; i++)
		if (!td_ctl_pod_finished(l.v[i]))
			td_objects_add(&ret->pods, td_object_ref(l.v[i]));

	for (struct assumed *a = s->assumed; a; a = a->hh.next)
		if (td_streq(a->node, node->name))
			td_objects_add(&ret->pods, td_object_ref(a->pod));

	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	if (share && td_json_parse(share, strlen(share), &ret->share, NULL))
		ret->share = NULL;
}

static int64_t room(const struct node_view *v, const char *resource)
{
	int64_t n = quantity(td_jget(v->node->root, "status.allocatable"), resource) -
		    quantity(td_json_root(v->share), resource);
	for (size_t i = 0; i < v->pods.n; i++)
		if (!td_streq(td_jstr(v->pods.v[i]->root, "spec.schedulerName"), SLURMS))
			n -= td_api_pod_request(td_jget(v->pods.v[i]->root, "spec"), resource);
	return n;
}

// ---- why not ----

struct reasons {
	struct {
		char *text;
		size_t n;
	} v[32];
	size_t n;
};

static void reason(struct reasons *r, const char *text)
{
	size_t i = 0;
	while (i < r->n && strcmp(r->v[i].text, text) != 0)
		i++;
	if (i == TD_LEN(r->v))
		return;
	if (i == r->n)
		r->v[r->n++].text = td_strdup(text);
	r->v[i].n++;
}

static void reasons_done(struct reasons *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].text);
}

// Does the pod fit on the node? If not, adds to `why`.
static bool fits(const struct node_view *v, const struct td_object *pod, const struct td_strv *names,
		 struct reasons *why)
{
	yyjson_val *spec = td_jget(pod->root, "spec");
	const char *text = NULL;
	if (!td_api_pod_fits_node(spec, v->node->root, false, &text)) {
		reason(why, text ? text : "node(s) didn't match Pod's node affinity/selector");
		return false;
	}

	if (!td_ctl_apart(pod, &v->pods)) {
		reason(why, "node(s) didn't match pod anti-affinity rules");
		return false;
	}

	bool ok = true;
	int64_t pods = quantity(td_jget(v->node->root, "status.allocatable"), "pods");
	if (pods > 0 && (int64_t)v->pods.n >= pods) {
		reason(why, "Too many pods");
		ok = false;
	}

	for (size_t i = 0; i < names->n; i++) {
		int64_t ask = td_api_pod_request(spec, names->v[i]);
		if (ask > 0 && ask > room(v, names->v[i])) {
			char msg[300];
			snprintf(msg, sizeof(msg), "Insufficient %s", names->v[i]);
			reason(why, msg);
			ok = false;
		}
	}

	return ok;
}

static int by_name(const void *a, const void *b)
{
	const char *x = (*(struct td_object *const *)a)->name, *y = (*(struct td_object *const *)b)->name;
	// Numbers in order: n2 comes before n10.
	size_t lx = strlen(x), ly = strlen(y);
	return lx != ly ? (lx < ly ? -1 : 1) : strcmp(x, y);
}

static char *message(struct reasons *r, size_t nodes)
{
	struct td_buf b = {0};
	td_buf_printf(&b, "0/%zu nodes are available", nodes);

	td_auto_strv struct td_strv l = {0};
	for (size_t i = 0; i < r->n; i++) {
		size_t k = l.n;
		td_strv_addf(&l, "%zu %s", r->v[i].n, r->v[i].text);
		for (; k > 0 && strcmp(l.v[k - 1], l.v[k]) > 0; k--) {
			char *t = l.v[k];
			l.v[k] = l.v[k - 1];
			l.v[k - 1] = t;
		}
	}

	for (size_t i = 0; i < l.n; i++)
		td_buf_printf(&b, "%s%s", i ? ", " : ": ", l.v[i]);
	td_buf_putc(&b, '.');
	return td_buf_take(&b);
}

// ---- acts ----

static int say_unschedulable(struct td_ctl *c, const struct td_object *pod, const char *msg, struct td_cancel *cancel,
			     struct td_error *err)
{
	yyjson_val *old = td_jget(pod->root, "status.conditions"), *was = td_jfind(old, "type", "PodScheduled"), *e;
	if (td_streq(td_jstr(was, "status"), "False") && td_streq(td_jstr(was, "reason"), "Unschedulable") &&
	    td_streq(td_jstr(was, "message"), msg) &&
	    td_jint(was, "observedGeneration", 0) == td_jint(pod->root, "metadata.generation", 0))
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *conds = td_jm_arr(d, p, "status.conditions");

	size_t i, n;
	yyjson_arr_foreach (old, i, n, e)
		if (!td_streq(td_jstr(e, "type"), "PodScheduled"))
			yyjson_mut_arr_append(conds, yyjson_val_mut_copy(d, e));

	td_ctl_pod_condition(d, conds, pod, TD_CONDITION("PodScheduled", "False", "Unschedulable", msg),
			     td_real_ms(c->clock));
	td_jm_str(d, p, "metadata.uid", pod->uid);
	td_jm_str(d, p, "metadata.resourceVersion", pod->rv);

	int r = td_kube_patch(c->kube, TD_AT(&td_pods, pod->ns, pod->name, "status"), TD_PATCH_MERGE, p, cancel, NULL,
			      err);
	if (!r)
		td_kube_record(c->rec, TD_ABOUT(pod, &td_pods), "Warning", "FailedScheduling", "%s", msg);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int place(struct td_ctl_scheduler *s, struct td_object *pod, const char *node, struct td_cancel *cancel,
		 struct td_error *err)
{
	struct td_ctl *c = s->c;
	struct td_error why = TD_ERROR_INIT;
	int r = td_kube_bind(c->kube,
			     &(struct td_kube_binding){.ns = pod->ns, .pod = pod->name, .node = node, .uid = pod->uid},
			     cancel, &why);
	if (r == TD_UNCERTAIN) { // look
		td_auto(td_object_unref) struct td_object *live = NULL;
		if (!td_kube_get(c->kube, &td_pods, pod->ns, pod->name, cancel, &live, NULL) &&
		    td_streq(live->uid, pod->uid) && td_streq(td_jstr(live->root, "spec.nodeName"), node))
			r = 0;
	}

	if (r == TD_NOT_FOUND || r == TD_CONFLICT) {
		// It is gone, or somebody else bound it. The cache will say so.
		td_debug("binding %s/%s: %s", pod->ns, pod->name, why.msg);
		return 0;
	}

	if (r && r != TD_UNCERTAIN) {
		if (err)
			*err = why;
		return r;
	}

	// Assume it also if nobody knows: to count it twice for a moment is better than never. The
	// cache decides.
	struct assumed *a = td_calloc(1, sizeof(*a));
	a->uid = td_strdup(pod->uid);
	a->node = td_strdup(node);
	a->pod = td_object_ref(pod);
	HASH_ADD_KEYPTR(hh, s->assumed, a->uid, strlen(a->uid), a);

	if (r) {
		if (err)
			*err = why;
		return r;
	}

	td_kube_record(c->rec, TD_ABOUT(pod, &td_pods), "Normal", "Scheduled", "Successfully assigned %s/%s to %s",
		       pod->ns, pod->name, node);
	return 0;
}

static bool waits(const struct td_object *p)
{
	return !*td_jstr_or(p->root, "spec.nodeName", "") &&
	       td_streq(td_jstr_or(p->root, "spec.schedulerName", NAME), NAME) && !td_object_deleting(p) &&
	       !td_ctl_pod_finished(p) && !yyjson_arr_size(td_jget(p->root, "spec.schedulingGates"));
}

static void all_waiting(struct td_ctl_scheduler *s)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(s->c->pods, "unbound", "1", &l);
	td_ctl_sort(&l, td_ctl_by_creation);
	for (size_t i = 0; i < l.n; i++)
		if (waits(l.v[i]))
			td_enqueue_self(s->queue, NULL, l.v[i]);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl_scheduler *s = ctx;
	if (!strcmp(key, ALL)) {
		all_waiting(s);
		return 0;
	}

	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(s->c->pods, ns, name);
	if (!pod || !waits(pod))
		return 0;

	trim_assumed(s);

	struct assumed *a = NULL;
	HASH_FIND_STR(s->assumed, pod->uid, a);
	if (a) {
		td_auto(td_object_unref) struct td_object *live = NULL;
		int r = td_kube_get(s->c->kube, &td_pods, ns, name, cancel, &live, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		if (r || *td_jstr_or(live->root, "spec.nodeName", ""))
			return 0; // the cache is behind
		assumed_free(s, a);
	}

	yyjson_val *spec = td_jget(pod->root, "spec");
	td_auto_strv struct td_strv names = {0};
	td_api_pod_request_names(spec, &names);

	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(s->c->nodes, NULL, &nodes);
	td_ctl_sort(&nodes, by_name);

	struct reasons why __attribute__((cleanup(reasons_done))) = {0};

	for (size_t i = 0; i < nodes.n; i++) {
		struct node_view v __attribute__((cleanup(view_done))) = {0};
		view(s, nodes.v[i], &v);
		if (fits(&v, pod, &names, &why))
			return place(s, pod, nodes.v[i]->name, cancel, err);
	}

	td_auto_free char *msg = nodes.n ? message(&why, nodes.n) : td_strdup("no nodes available to schedule pods");
	*again = RETRY_MS;
	return say_unschedulable(s->c, pod, msg, cancel, err);
}

// ---- changes ----

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl_scheduler *s = ctx;

	if (now && waits(now)) {
		// Our own condition is no news.
		if (!old || !waits(old) || !td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")))
			td_enqueue_self(s->queue, old, now);
		return;
	}

	bool held = old && *td_jstr_or(old->root, "spec.nodeName", "") && !td_ctl_pod_finished(old);
	if (held && (!now || td_ctl_pod_finished(now)))
		td_queue_add(s->queue, ALL);
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl_scheduler *s = ctx;
	if (!now)
		return;

	if (old && td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")) &&
	    td_jequal(td_jget(old->root, "status.allocatable"), td_jget(now->root, "status.allocatable")) &&
	    td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")) &&
	    td_streq(td_object_annotation(old, TD_ANN_SHARE), td_object_annotation(now, TD_ANN_SHARE)))
		return;
	td_queue_add(s->queue, ALL);
}

void td_ctl_scheduler(struct td_ctl *c, struct td_controller *ret)
{
	struct td_ctl_scheduler *s = c->scheduler = td_calloc(1, sizeof(*s));
	s->c = c;
	s->queue = td_queue_new(c->clock);
	*ret = (struct td_controller){"scheduler", 1, s->queue, reconcile, s};
	td_informer_on_change(c->pods, on_pod, s);
	td_informer_on_change(c->nodes, on_node, s);
}
