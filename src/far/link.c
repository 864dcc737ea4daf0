// One link: from the Secret to its caches, its workers and its clock.
#include "far/link.h"

#include "api/selector.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "http/pki.h"

#include <string.h>

enum { BEAT_MS = 5000, LOST_BEAT_MS = 1000, FIRST_MS = 200, LEASE_MS = 10000, WORKERS = 4, SHOW_MS = 50 };

void td_far_link_say(struct td_far_link *l, enum td_far_of of, const char *problem)
{
	pthread_mutex_lock(&l->lock);
	bool news = problem && strcmp(l->problem[of], problem) != 0;
	snprintf(l->problem[of], sizeof(l->problem[of]), "%s", problem ? problem : "");
	pthread_mutex_unlock(&l->lock);
	if (news)
		td_warn("NodeSet %s: %s", l->own, problem);
}

const char *td_far_pod_node(const struct td_object *far)
{
	const char *n = td_jstr(far->root, "spec.nodeName");
	return n ? n : td_object_label(far, TD_LABEL_FROM_POD) ? td_object_annotation(far, TD_ANN_OTHER_NODE) : NULL;
}

bool td_far_pod_ours(const struct td_far_link *l, const struct td_object *far)
{
	return td_streq(far->ns, l->ns) && td_streq(td_object_label(far, TD_LABEL_FROM_SET), l->set->uid);
}

bool td_far_node_ours(const struct td_far_link *l, const struct td_object *node)
{
	return td_streq(td_object_annotation(node, TD_ANN_OTHER_SET), l->own);
}

struct td_object *td_far_node_of(const struct td_far_link *l, const struct td_object *pod)
{
	const char *name = td_jstr(pod->root, "spec.nodeName");
	td_auto(td_object_unref) struct td_object *node = name ? td_informer_get(l->nodes, NULL, name) : NULL;
	return node && td_far_node_ours(l, node) ? td_steal(node) : NULL;
}

bool td_far_pod_holds(const struct td_far_link *l, const struct td_object *far)
{
	return !td_kube_pod_ended(far->root) && (td_jstr(far->root, "spec.nodeName") || td_far_pod_ours(l, far));
}

static void index_node(const struct td_object *o, struct td_strv *ret)
{
	const char *n = td_far_pod_node(o);
	if (n)
		td_strv_add(ret, n);
}

static void index_from(const struct td_object *o, struct td_strv *ret)
{
	const char *uid = td_object_label(o, TD_LABEL_FROM_POD);
	if (uid)
		td_strv_add(ret, uid);
}

static void index_gang(const struct td_object *o, struct td_strv *ret)
{
	const char *gang = td_object_annotation(o, TD_ANN_GANG_UID);
	if (gang && td_jstr(o->root, "spec.nodeName") && td_object_annotation(o, TD_ANN_JOB))
		td_strv_add(ret, gang);
}

static void index_uid(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, o->uid);
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_far_link *l = ctx;
	td_queue_add(l->q, (now ? now : old)->uid);
	td_far_gang_wake(l, old, now);
	if (old && (!now || td_kube_pod_ended(now->root)))
		td_far_sources_look(l, old, false);
}

static void on_far_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_far_link *l = ctx;
	const struct td_object *o = now ? now : old;
	const char *uid = td_object_label(o, TD_LABEL_FROM_POD);
	if (td_far_pod_ours(l, o)) {
		if (uid) // however often it says something else
			td_queue_add_after(l->q, uid, SHOW_MS);
		if (old && (!now || td_kube_pod_ended(now->root)))
			td_far_sources_look(l, old, true);
		return;
	}
	// What others hold there, where there is a Node of it here: the other cluster may have many more.
	const char *was = old ? td_far_pod_node(old) : NULL, *is = now ? td_far_pod_node(now) : NULL;
	if ((!old || !now || !td_streq(was, is) || td_kube_pod_ended(old->root) != td_kube_pod_ended(now->root)) &&
	    (td_far_node_here(l, was) || td_far_node_here(l, is))) {
		td_far_node_add(l, was, 500);
		td_far_node_add(l, is, 500);
	}
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_far_link *l = ctx;
	// Heartbeats change nothing of interest.
	if (old && now && td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")) &&
	    td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")) &&
	    td_jequal(td_jget(old->root, "status.allocatable"), td_jget(now->root, "status.allocatable")) &&
	    td_jequal(td_jfind(td_jget(old->root, "status.conditions"), "type", "Ready"),
		      td_jfind(td_jget(now->root, "status.conditions"), "type", "Ready")))
		return;
	const struct td_object *o = now ? now : old;
	const char *set = td_object_annotation(o, TD_ANN_OTHER_SET);
	td_far_node_add(l, set ? td_object_annotation(o, TD_ANN_OTHER_NODE) : o->name, 100);
}

static int reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	if (td_streq(key, TD_FAR_NODES_KEY)) {
		td_far_nodes_look(ctx, again_ms);
		return 0;
	}
	return td_starts(key, "n/")              ? td_far_node_sync(ctx, key, again_ms, c, err)
	       : td_streq(key, TD_FAR_SWEEP_KEY) ? td_far_sources_sweep(ctx, again_ms, c)
	       : strchr(key, '/')                ? td_far_source_sync(ctx, key, again_ms, c, err)
						 : td_far_pod_sync(ctx, key, again_ms, c, err);
}

bool td_far_known(const struct td_far_link *l)
{
	return td_informer_synced(l->far_pods) && td_informer_synced(l->far_nodes) && !atomic_load(&l->wrong);
}

static void *work(void *arg)
{
	struct td_far_link *l = arg;
	// Without the other cluster's its Nodes are said to be unknown, and nothing is done with pods (td_far_known()).
	struct td_informer *const all[] = {l->pods, l->nodes};
	td_auto_free char *meanwhile = td_asprintf("NodeSet %s waits for its other cluster", l->own);
	if (td_informers_fill(all, TD_LEN(all), meanwhile, l->stop, NULL))
		return NULL;
	const struct td_controller ctl = {"othercluster", WORKERS, l->q, reconcile, l};
	struct td_error err = TD_ERROR_INIT;
	td_queue_add(l->q, TD_FAR_NODES_KEY);
	td_queue_add(l->q, TD_FAR_SWEEP_KEY);
	int r = td_controller_run(&ctl, l->stop, &err);
	if (r && r != TD_CANCELLED)
		td_err("NodeSet %s: %s", l->own, err.msg);
	return NULL;
}

// Is it the cluster in which this NodeSet's pods run? A Secret may lead elsewhere since. What an account may not read is not
// compared.
static char *whose(struct td_far_link *l)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *ns = NULL;
	if (!l->id && !l->id_denied) {
		int r = td_kube_get(l->there, &td_namespaces, NULL, l->ns, l->stop, &ns, &e);
		l->id_denied = r == TD_DENIED;
		if (r && !l->id_denied)
			return td_asprintf("namespace %s in the other cluster: %.400s", l->ns, e.msg);
		if (!r) {
			pthread_mutex_lock(&l->lock);
			l->id = td_strdup(ns->uid);
			pthread_mutex_unlock(&l->lock);
		}
	}
	size_t n = l->id ? td_far_nodes_astray(l) : 0;
	return n ? td_asprintf("the kubeconfig leads to another cluster than the one in which pods of %zu of its Nodes "
			       "run: "
			       "nothing is done with these until it leads there again; to change the cluster, end its "
			       "pods first",
			       n)
		 : NULL;
}

// Asks whether the other cluster is there, and renews the Leases as long as it is: so a Node is unknown here when its
// cluster does not answer, and when this process is gone.
static void *watch_clock(void *arg)
{
	struct td_far_link *l = arg;
	int64_t leased = 0, next = BEAT_MS;
	do {
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_json_unref) struct td_json *j = NULL;
		int r = td_kube_raw(l->there, "GET", "/version", NULL, l->stop, &j, &e);
		if (r == TD_CANCELLED)
			break;
		td_auto_free char *astray = r ? NULL : whose(l);
		if (!r)
			atomic_store(&l->wrong, astray != NULL);
		bool up = !r && td_far_known(l), was = atomic_exchange(&l->answers, up);
		td_auto_free char *text =
			astray ? td_strdup(astray)
			: r    ? td_asprintf("the other cluster does not answer: %.400s", e.msg)
			: td_far_known(l)
				? NULL
				: td_asprintf(
					  "the other cluster is not read yet: may its account list and watch nodes and "
					  "pods there? (docs/other-cluster.md)");
		td_far_link_say(l, TD_FAR_OF_LINK, text);
		if (up)
			atomic_store(&l->answered_ms, td_mono_ms(&td_clock_system));
		if (was != up)
			td_queue_add(l->q, TD_FAR_NODES_KEY);
		int64_t now = td_mono_ms(&td_clock_system);
		if (up && (!leased || now - leased >= LEASE_MS)) {
			td_far_nodes_beat(l, l->stop);
			leased = now;
		}
		next = r ? LOST_BEAT_MS : up ? BEAT_MS : FIRST_MS;
	} while (!td_cancel_wait(l->stop, next));
	return NULL;
}

// The client of the kubeconfig in the NodeSet's Secret.
static int connect_there(struct td_far_link *l, struct td_cancel *c, struct td_error *err)
{
	const char *name = td_jstr_or(l->set->root, "spec.otherCluster.kubeconfigSecret", "");
	td_auto(td_object_unref) struct td_object *secret = NULL;
	int r = td_kube_get(l->here, &td_secrets, l->set->ns, name, c, &secret, err);
	if (r)
		return td_wrap(err, "spec.otherCluster.kubeconfigSecret");
	const char *data = td_jkey_str(td_jget(secret->root, "data"), "kubeconfig");
	td_auto_buf struct td_buf text = {0};
	if (!data)
		return td_fail(err, TD_INVALID,
			       "spec.otherCluster.kubeconfigSecret: Secret %s/%s has no key kubeconfig: add it",
			       l->set->ns, name);
	r = td_base64_decode(data, &text, err);
	if (!r)
		r = td_far_client(td_buf_str(&text), text.len, &l->there, err);
	if (text.s)
		explicit_bzero(text.s, text.len);
	if (r)
		return td_wrap(err, "spec.otherCluster.kubeconfigSecret: key kubeconfig of Secret %s/%s", l->set->ns,
			       name);
	l->secret_rv = td_strdup(secret->rv);
	return 0;
}

static int start(struct td_far_link *l, struct td_error *err)
{
	td_auto_free char *mark = td_asprintf(TD_LABEL_OTHER "=%s", l->set->name);
	const struct {
		struct td_informer **slot;
		struct td_kube *k;
		struct td_informer_opts o;
		void (*fn)(void *, struct td_object *, struct td_object *);
	} table[] = {
		{&l->nodes, l->here, {&td_nodes, .labels = mark, .apart = true, .name = "othernodes"}, on_node},
		{&l->pods, l->here, {&td_pods, .labels = mark, .apart = true, .name = "otherpods"}, on_pod},
		{&l->far_nodes, l->there, {&td_nodes, .apart = true, .name = "farnodes"}, on_node},
		{&l->far_pods, l->there, {&td_pods, .apart = true, .name = "farpods"}, on_far_pod},
	};
	int r = 0;
	for (size_t i = 0; i < TD_LEN(table); i++) {
		*table[i].slot = td_informer_new(table[i].k, &table[i].o);
		td_informer_on_change(*table[i].slot, table[i].fn, l);
	}
	td_informer_add_index(l->pods, "uid", index_uid);
	td_informer_add_index(l->pods, "node", index_node);
	td_informer_add_index(l->pods, "gang", index_gang);
	td_informer_add_index(l->pods, "source", td_far_index_source);
	td_informer_add_index(l->far_pods, "from", index_from);
	td_informer_add_index(l->far_pods, "source", td_far_index_source_there);
	td_informer_add_index(l->far_pods, "node", index_node);
	for (size_t i = 0; i < TD_LEN(table) && !r; i++)
		r = td_informer_start(*table[i].slot, l->stop, err);
	if (!r)
		l->working = !pthread_create(&l->work, NULL, work, l);
	if (!r)
		l->clocked = !pthread_create(&l->clock, NULL, watch_clock, l);
	return r ? r : l->working && l->clocked ? 0 : td_fail(err, TD_INTERNAL, "no thread");
}

int td_far_link_new(const struct td_far_want *w, const struct td_far_here *here, struct td_cancel *c,
		    struct td_far_link **ret, struct td_error *err)
{
	struct td_far_link *l = td_calloc(1, sizeof(*l));
	*l = (struct td_far_link){.here = here->here,
				  .events = here->events,
				  .making = here->making,
				  .address = here->address,
				  .port = here->port,
				  .set = td_object_ref(w->set),
				  .own = td_asprintf("%s/%s", w->set->ns, w->set->name),
				  .ns = td_strdup(td_jstr_or(w->set->root, "spec.otherCluster.namespace", "tandem")),
				  .reserve_milli = w->reserve_milli,
				  .reserve_memory = w->reserve_memory,
				  .answered_ms = td_mono_ms(&td_clock_system),
				  .q = td_queue_new(&td_clock_system),
				  .stop = td_cancel_new()};
	atomic_store(&l->wrong, true); // until it is known which one it is
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->quiet, NULL);
	yyjson_val *labels = td_jget(w->set->root, "spec.otherCluster.nodeSelector");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_copyval(d, yyjson_mut_doc_get_root(d), "matchLabels", labels);
	td_auto(td_json_unref) struct td_json *selector = td_json_from_mut(yyjson_mut_doc_get_root(d));
	int r = td_selector_from_object(td_json_root(selector), &l->selector, err);
	if (r)
		td_wrap(err, "spec.otherCluster.nodeSelector");
	if (!r)
		r = connect_there(l, c, err);
	if (!r)
		r = start(l, err);
	if (r)
		td_far_link_free(l);
	else
		*ret = l;
	return r;
}

// Its workers and its clock do nothing any more; what its caches knew last stays.
static void halt(struct td_far_link *l)
{
	td_cancel_fire(l->stop);
	if (l->working)
		pthread_join(l->work, NULL);
	if (l->clocked)
		pthread_join(l->clock, NULL);
	l->working = l->clocked = false;
}

struct td_far_link *td_far_link_free(struct td_far_link *l)
{
	if (!l)
		return NULL;
	halt(l);
	pthread_mutex_lock(&l->lock);
	while (l->users)
		pthread_cond_wait(&l->quiet, &l->lock);
	pthread_mutex_unlock(&l->lock);
	td_informer_free(l->far_pods);
	td_informer_free(l->far_nodes);
	td_informer_free(l->pods);
	td_informer_free(l->nodes);
	td_kube_free(l->there);
	td_far_offers_free(l->offers);
	td_far_sources_free(l);
	free(l->id);
	td_queue_free(l->q);
	td_cancel_unref(l->stop);
	td_selector_free(l->selector);
	td_object_unref(l->set);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->quiet);
	free(l->own);
	free(l->ns);
	free(l->secret_rv);
	free(l);
	return NULL;
}

// What it has made there of this kind.
static void remove_there(struct td_far_link *l, const struct td_gvr *gvr, struct td_cancel *c)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *labels = td_asprintf(TD_LABEL_FROM_SET "=%s", l->set->uid);
	td_auto_objects struct td_objects v = {0};
	int r = td_kube_list(l->there, gvr, l->ns, labels, NULL, c, &v, &e);
	for (size_t i = 0; i < v.n && !r; i++) {
		const struct td_kube_delete_opts del = {.uid = v.v[i]->uid, .grace_s = -1};
		r = td_kube_delete(l->there, gvr, l->ns, v.v[i]->name, &del, c, &e);
		r = r == TD_NOT_FOUND ? 0 : r;
	}
	if (r)
		td_warn("NodeSet %s is gone, and %s of it may be left in its other cluster: kubectl delete %s -n %s -l "
			"%s there (%s)",
			l->own, gvr->resource, gvr->resource, l->ns, labels, e.msg);
}

void td_far_link_leave(struct td_far_link *l, struct td_cancel *c)
{
	static const struct td_gvr *const kinds[] = {&td_pods, &td_secrets, &td_configmaps};
	td_auto_objects struct td_objects nodes = {0};
	halt(l); // or they would make anew what goes
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		remove_there(l, kinds[i], c);
	td_informer_list(l->nodes, NULL, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		const struct td_kube_delete_opts del = {.uid = nodes.v[i]->uid, .grace_s = -1};
		struct td_error e = TD_ERROR_INIT;
		int r;
		if (td_far_node_ours(l, nodes.v[i]) &&
		    (r = td_kube_delete(l->here, &td_nodes, NULL, nodes.v[i]->name, &del, c, &e)) && r != TD_NOT_FOUND)
			td_warn("node %s, whose NodeSet %s is gone: %s", nodes.v[i]->name, l->own, e.msg);
	}
}
