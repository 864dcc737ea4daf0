// One pod here and its copy there (docs/other-cluster.md). pool/far.h decides; here are its facts and acts.
#include "far/link.h"

#include "api/condition.h"
#include "api/kinds.h"
#include "api/selector.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"

#include <string.h>
#include <uthash.h>

#define BEGUN "Making"

enum { ROOM_MS = 2000 };

// Pods whose copy this process makes: the condition of one says so before it does, so that another process that finds
// the condition and no copy does not let it run again.
struct td_far_making {
	UT_hash_handle hh;
	int64_t next_ms; // mono: when it may be tried again, after the other cluster would not take it
	char uid[];
};

struct td_far_making *td_far_making_free(struct td_far_making *all)
{
	struct td_far_making *m, *tmp;
	HASH_ITER (hh, all, m, tmp) {
		HASH_DEL(all, m);
		free(m);
	}
	return NULL;
}

static bool making(struct td_far_link *l, const char *uid)
{
	struct td_far_making *m = NULL;
	pthread_mutex_lock(&l->making->lock);
	HASH_FIND_STR(l->making->all, uid, m);
	pthread_mutex_unlock(&l->making->lock);
	return m;
}

static void set_making(struct td_far_link *l, const char *uid, bool on)
{
	struct td_far_making *m = NULL;
	size_t n = strlen(uid) + 1;
	pthread_mutex_lock(&l->making->lock);
	HASH_FIND_STR(l->making->all, uid, m);
	if (m && !on) {
		HASH_DEL(l->making->all, m);
		free(m);
	} else if (!m && on) {
		m = td_calloc(1, sizeof(*m) + n);
		memcpy(m->uid, uid, n);
		HASH_ADD_STR(l->making->all, uid, m);
	}
	pthread_mutex_unlock(&l->making->lock);
}

// How long it must not be tried; ms > 0: from now on so long.
static int64_t held(struct td_far_link *l, const char *uid, int64_t ms)
{
	struct td_far_making *m = NULL;
	int64_t now = td_mono_ms(&td_clock_system), left = 0;
	pthread_mutex_lock(&l->making->lock);
	HASH_FIND_STR(l->making->all, uid, m);
	if (m && ms)
		m->next_ms = now + ms;
	if (m && m->next_ms > now)
		left = m->next_ms - now;
	pthread_mutex_unlock(&l->making->lock);
	return left;
}

struct pair {
	struct td_object *pod, *copy; // NULL: there is none
	struct td_object *node;       // here, that the pod is bound to; NULL: none of this link's
	bool watched;                 // the pod is in the cache
	bool not_made;                // what its condition says to be made surely is not
	const char *refused;          // into why
	struct td_error why;
};

static void pair_done(struct pair *p)
{
	td_object_unref(p->pod);
	td_object_unref(p->copy);
	td_object_unref(p->node);
}

// The pod of a copy, asked for now: the cache knows only pods that still have the label.
static int pod_now(struct td_far_link *l, const struct td_object *copy, const char *uid, struct td_cancel *c,
		   struct td_object **ret, struct td_error *err)
{
	const char *from = td_object_annotation(copy, TD_ANN_FROM_NAME);
	td_auto_free char *ns = NULL, *name = NULL;
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_key_split(from ? from : "", &ns, &name);
	if (!*ns || !*name)
		return 0; // nobody's
	int r = td_kube_get(l->here, &td_pods, ns, name, c, &o, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	if (!r && td_streq(o->uid, uid))
		*ret = td_steal(o);
	return 0;
}

// How long a copy has been looking for a node, by the clock here; 0: it has one.
static int64_t pending_ms(const struct td_object *pod, const struct td_object *copy)
{
	int64_t since = 0;
	yyjson_val *made = pod ? td_condition(pod->root, TD_COND_OTHER) : NULL;
	if (td_jstr(copy->root, "spec.nodeName") || td_kube_pod_ended(copy->root) ||
	    !td_streq(td_jstr(made, "status"), "True") ||
	    td_time_parse(td_jstr_or(made, "lastTransitionTime", ""), &since))
		return 0;
	int64_t ms = td_real_ms(&td_clock_system) - since;
	return ms > 0 ? ms : 1;
}

// Does what the pod asks for fit beside all that is on its node there now? Slurm has counted this pool's; somebody else's
// pod may have come since. *ret_why: what does not.
static bool room(const struct td_far_link *l, const struct pair *p, struct td_error *ret_why)
{
	const char *there = td_object_annotation(p->node, TD_ANN_OTHER_NODE);
	td_auto(td_object_unref) struct td_object *far = td_informer_get(l->far_nodes, NULL, there ? there : "");
	td_auto_objects struct td_objects pods = {0};
	td_auto_strv struct td_strv names = {0};
	if (!far || !atomic_load(&l->answers))
		return td_fail(ret_why, TD_TRANSIENT, "node %s is not known in the other cluster now",
			       there ? there : "?"),
		       false;
	td_informer_by_index(l->far_pods, "node", there, &pods);
	td_api_pod_request_names(td_jget(p->pod->root, "spec"), &names);
	for (size_t i = 0; i < names.n; i++) {
		int64_t all = td_api_pod_request(td_jget(p->pod->root, "spec"), names.v[i]);
		for (size_t k = 0; k < pods.n; k++)
			if (td_far_pod_holds(l, pods.v[k]))
				all = td_pool_far_add(all,
						      td_api_pod_request(td_jget(pods.v[k]->root, "spec"), names.v[i]));
		if (all > td_far_amount(td_jget(far->root, "status.allocatable"), names.v[i]))
			return td_fail(ret_why, TD_TRANSIENT,
				       "node %s of the other cluster has not enough %s free now: other pods there have "
				       "it",
				       there, names.v[i]),
			       false;
	}
	return true;
}

struct td_object *td_far_copy_of(const struct td_far_link *l, const char *uid)
{
	td_auto_objects struct td_objects copies = {0};
	td_informer_by_index(l->far_pods, "from", uid, &copies);
	for (size_t i = 0; i < copies.n; i++)
		if (td_far_pod_ours(l, copies.v[i]))
			return td_object_ref(copies.v[i]);
	return NULL;
}

static bool seated(const struct td_object *pod)
{
	return td_jstr(pod->root, "spec.nodeName") && td_object_annotation(pod, TD_ANN_GANG_UID) &&
	       td_object_annotation(pod, TD_ANN_JOB);
}

void td_far_gang_wake(struct td_far_link *l, const struct td_object *old, const struct td_object *now)
{
	td_auto_objects struct td_objects gang = {0};
	if (!now || !seated(now) || (old && seated(old)))
		return;
	const char *world = td_object_annotation(now, TD_ANN_GANG_WORLD);
	long long want = 0;
	td_informer_by_index(l->pods, "gang", td_object_annotation(now, TD_ANN_GANG_UID), &gang);
	// The last one wakes them: each that comes would be as many looks as there are, of which only the last does anything.
	if (!world || !td_parse_i64(world, &want) || (long long)gang.n >= want)
		for (size_t i = 0; i < gang.n; i++)
			td_queue_add(l->q, gang.v[i]->uid);
}

// Are all members of its gang where Slurm put them? None starts there before: the grant goes back whole when one cannot be
// bound. One that comes in the place of another, when the gang runs already, waits for nobody.
static bool gang_whole(const struct td_far_link *l, const struct td_object *pod, struct td_error *ret_why)
{
	const char *uid = td_object_annotation(pod, TD_ANN_GANG_UID),
		   *world = td_object_annotation(pod, TD_ANN_GANG_WORLD);
	long long want = 0;
	td_auto_objects struct td_objects gang = {0};
	if (!uid || !world || !td_parse_i64(world, &want))
		return true;
	td_informer_by_index(l->pods, "gang", uid, &gang);
	for (size_t i = 0; i < gang.n; i++)
		if (td_condition_true(gang.v[i]->root, TD_COND_OTHER))
			return true;
	if ((long long)gang.n >= want)
		return true;
	// Without a count, which each member would write each time that it changes.
	td_fail(ret_why, TD_TRANSIENT, "not all of the %lld pods of its gang have their nodes yet", want);
	return false;
}

// Which claims are there says the NodeSet as it is now: the link may be older. TD_INVALID: the pod names another one.
static int claims(struct td_far_link *l, const struct td_object *pod, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects now = {0};
	td_auto_free char *field = td_asprintf("metadata.name=%s", l->set->name);
	if (!td_far_claims_check(pod->root, l->set->root, NULL))
		return 0;
	int r = td_kube_list(l->here, &td_nodesets, l->set->ns, NULL, field, c, &now, err);
	if (r)
		return r == TD_INVALID ? TD_TRANSIENT : r;
	if (now.n && (r = td_far_claims_check(pod->root, now.v[0]->root, err)))
		return r;
	return td_fail(err, TD_TRANSIENT, "NodeSet %s has changed, and its link begins anew", l->set->name);
}

static int facts(struct td_far_link *l, const char *uid, struct pair *p, struct td_pool_far_pod *f, struct td_cancel *c,
		 struct td_error *err)
{
	td_auto_objects struct td_objects own = {0};
	td_informer_by_index(l->pods, "uid", uid, &own);
	p->copy = td_far_copy_of(l, uid);
	p->watched = own.n;
	p->pod = own.n ? td_object_ref(own.v[0]) : NULL;
	int r = !p->pod && p->copy ? pod_now(l, p->copy, uid, c, &p->pod, err) : 0;
	if (r)
		return td_wrap(err, "the pod of %s/%s there", p->copy->ns, p->copy->name);
	if (p->pod) {
		p->node = td_far_node_of(l, p->pod);
		// A copy is shown here however often the pod changes.
		if (!p->copy && !(r = td_far_copy_check(p->pod->root, &p->why)) && p->node &&
		    !td_object_deleting(p->pod) && !td_kube_pod_ended(p->pod->root))
			r = claims(l, p->pod, c, &p->why);
		if (r && r != TD_INVALID)
			return td_fail(err, r, "the claims of pod %s/%s: %s", p->pod->ns, p->pod->name, p->why.msg);
		p->refused = r ? p->why.msg : NULL;
	}
	bool begun = p->pod && td_streq(td_jstr(td_condition(p->pod->root, TD_COND_OTHER), "reason"), BEGUN);
	bool made = p->pod && td_condition_true(p->pod->root, TD_COND_OTHER);
	if (!p->pod || made || td_kube_pod_ended(p->pod->root))
		set_making(l, uid, false);
	*f = (struct td_pool_far_pod){.here = p->pod,
				      .bound = p->node,
				      .granted = p->pod && td_object_annotation(p->pod, TD_ANN_JOB),
				      .leaving = p->pod && td_object_deleting(p->pod),
				      .ended = p->pod && td_object_annotation(p->pod, TD_ANN_ENDED),
				      .over = p->pod && td_kube_pod_ended(p->pod->root),
				      .made = made,
				      .begun = begun && !making(l, uid),
				      .refused = p->refused,
				      .there = p->copy,
				      .there_leaving = p->copy && td_object_deleting(p->copy),
				      .there_over = p->copy && td_kube_pod_ended(p->copy->root),
				      .pending_ms = p->copy ? pending_ms(p->pod, p->copy) : 0};
	return 0;
}

int td_far_copy_gone(struct td_far_link *l, const struct td_object *pod, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *name = td_far_copy_name(pod->root), *field = td_asprintf("metadata.name=%s", name);
	td_auto_objects struct td_objects found = {0};
	int r = td_kube_list(l->there, &td_pods, l->ns, NULL, field, c, &found, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, TD_TRANSIENT, "whoever answers for the other cluster knows no pods");
	for (size_t i = 0; i < found.n && !r; i++)
		if (td_streq(found.v[i]->name, name) &&
		    td_streq(td_object_label(found.v[i], TD_LABEL_FROM_POD), pod->uid))
			r = td_fail(err, TD_TRANSIENT, "its copy is there still");
	return r;
}

// Writes why it has no copy yet, once.
static int say(struct td_far_link *l, const struct pair *p, const char *reason, const char *text, struct td_cancel *c,
	       struct td_error *err)
{
	yyjson_val *was = td_jget(p->pod->root, "status.conditions"), *x,
		   *now = td_condition(p->pod->root, TD_COND_OTHER);
	// While it is not known whether there is a copy, nothing else is said.
	if (td_streq(td_jstr(now, "message"), text) || (!p->not_made && td_streq(td_jstr(now, "reason"), BEGUN)))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "status.conditions");
	size_t i, n;
	yyjson_arr_foreach (was, i, n, x)
		if (!td_streq(td_jstr(x, "type"), TD_COND_OTHER))
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, x));
	td_condition_add(d, list, was, TD_CONDITION(TD_COND_OTHER, "False", reason, text),
			 td_real_ms(&td_clock_system));
	td_jm_str(d, root, "metadata.uid", p->pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", p->pod->rv);
	return td_kube_patch(l->here, TD_AT(&td_pods, p->pod->ns, p->pod->name, "status"), TD_PATCH_MERGE, root, c,
			     NULL, err);
}

static int fail(struct td_far_link *l, const struct pair *p, const char *reason, const char *text, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "status.phase", "Failed");
	td_jm_str(d, root, "status.reason", reason);
	td_jm_str(d, root, "status.message", text);
	td_far_copy_over(d, td_jm_obj(d, root, "status"), p->pod->root, p->copy ? p->copy->root : NULL,
			 td_real_ms(&td_clock_system));
	td_jm_str(d, root, "metadata.uid", p->pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", p->pod->rv);
	td_kube_record(l->events, TD_ABOUT(p->pod, &td_pods), "Warning", reason, "%s", text);
	return td_kube_patch(l->here, TD_AT(&td_pods, p->pod->ns, p->pod->name, "status"), TD_PATCH_MERGE, root, c,
			     NULL, err);
}

static int show(struct td_far_link *l, const struct td_object *pod, const struct td_object *copy, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_far_copy_status(pod->root, copy->root, td_real_ms(&td_clock_system));
	return d ? td_kube_patch(l->here, TD_AT(&td_pods, pod->ns, pod->name, "status"), TD_PATCH_MERGE,
				 yyjson_mut_doc_get_root(d), c, NULL, err)
		 : 0;
}

static int make(struct td_far_link *l, const struct pair *p, struct td_cancel *c, struct td_error *err)
{
	if (!td_lease_holds())
		return 0;
	if (!td_streq(td_jstr(td_condition(p->pod->root, TD_COND_OTHER), "reason"), BEGUN)) {
		set_making(l, p->pod->uid, true);
		return say(l, p, BEGUN, "its copy in the other cluster is being made", c, err); // and it comes again
	}
	const struct td_far_copy to = {l->ns, td_object_annotation(p->node, TD_ANN_OTHER_NODE), l->set->root};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_far_copy_make(p->pod->root, &to);
	td_auto(td_object_unref) struct td_object *copy = NULL;
	int r = td_kube_create(l->there, &td_pods, l->ns, yyjson_mut_doc_get_root(d), c, &copy, err);
	if (r == TD_EXISTS) { // an earlier try's, whose reply was lost
		td_auto_free char *name = td_far_copy_name(p->pod->root);
		r = td_kube_get(l->there, &td_pods, l->ns, name, c, &copy, err);
		if (!r && !td_streq(td_object_label(copy, TD_LABEL_FROM_POD), p->pod->uid))
			return fail(l, p, "NameTaken", "a pod of somebody else has its name in the other cluster", c,
				    err);
	}
	if (r == TD_INVALID || r == TD_DENIED) { // a rule of that cluster: its words say which
		td_auto_free char *text = td_asprintf("the other cluster refuses it: %.400s", err ? err->msg : "");
		return fail(l, p, "RefusedThere", text, c, err);
	}
	if (r && r != TD_UNCERTAIN && r != TD_CANCELLED && r != TD_EXISTS) {
		struct pair not = *p;
		not.not_made = true;
		held(l, p->pod->uid, TD_FAR_AGAIN_MS); // or what is said below would have it tried at once
		td_auto_free char *text = td_asprintf("its copy cannot be made now: %.400s", err ? err->msg : "");
		say(l, &not, "WaitsForCluster", text, c, NULL);
	}
	if (r)
		return td_wrap(err, "making its copy in the other cluster");
	td_kube_record(l->events, TD_ABOUT(p->pod, &td_pods), "Normal", "MadeThere",
		       "its copy in the other cluster is %s/%s on %s", copy->ns, copy->name, to.node);
	return show(l, p->pod, copy, c, err);
}

// What the bridge says of the end of the grant.
static struct td_json *ended_of(const struct td_object *pod)
{
	const char *text = td_object_annotation(pod, TD_ANN_ENDED);
	struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? j : NULL;
}

static int end(struct td_far_link *l, const struct pair *p, struct td_cancel *c, struct td_error *err)
{
	// As long as the pod here has: what the end of its grant or a deletion left it.
	td_auto(td_json_unref) struct td_json *ended = p->pod ? ended_of(p->pod) : NULL;
	long long grace = td_jint(td_json_root(ended), "graceSeconds", -1), own = -1;
	if (p->pod)
		own = td_jint(p->pod->root, "metadata.deletionGracePeriodSeconds", -1);
	grace = grace < 0 || (own >= 0 && own < grace) ? own : grace;
	const struct td_kube_delete_opts del = {.uid = p->copy->uid, .grace_s = grace > 86400 ? 86400 : (int)grace};
	if (!td_lease_holds())
		return 0;
	int r = td_kube_delete(l->there, &td_pods, p->copy->ns, p->copy->name, &del, c, err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "ending its copy %s/%s there", p->copy->ns, p->copy->name) : 0;
}

static int let_go(struct td_far_link *l, const struct pair *p, struct td_cancel *c, struct td_error *err)
{
	int r = td_far_copy_gone(l, p->pod, c, err);
	if (r)
		return r;
	const struct td_kube_delete_opts del = {.uid = p->pod->uid, .grace_s = 0};
	r = td_kube_delete(l->here, &td_pods, p->pod->ns, p->pod->name, &del, c, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

int td_far_pod_sync(struct td_far_link *l, const char *uid, int64_t *again_ms, struct td_cancel *c,
		    struct td_error *err)
{
	__attribute__((cleanup(pair_done))) struct pair p = {0};
	struct td_pool_far_pod f;
	struct td_error no_room = TD_ERROR_INIT;
	const char *why;
	if (!td_far_known(l)) {
		*again_ms = ROOM_MS;
		return 0;
	}
	int r = facts(l, uid, &p, &f, c, err);
	if (r)
		return r;
	f.room = f.bound && !f.there && room(l, &p, &no_room);
	// A copy that looks for a node is given up by time, and a pod that lost its label is in no watch.
	if (f.there && (!p.watched || !td_jstr(p.copy->root, "spec.nodeName")))
		*again_ms = TD_FAR_AGAIN_MS;
	switch (td_pool_far_decide(&f, &why)) {
	case TD_FAR_NOTHING:
		*again_ms = f.there ? TD_FAR_AGAIN_MS : *again_ms;
		return 0;
	case TD_FAR_MAKE:
		if ((*again_ms = held(l, uid, 0)))
			return 0;
		if (!gang_whole(l, p.pod, &no_room)) {
			*again_ms = TD_FAR_AGAIN_MS;
			return say(l, &p, "WaitsForGang", no_room.msg, c, err);
		}
		if (!(r = td_far_sources_ready(l, p.pod, &no_room)))
			return make(l, &p, c, err);
		if (r == TD_INVALID)
			return fail(l, &p, "NotForOtherCluster", no_room.msg, c, err);
		*again_ms = TD_FAR_AGAIN_MS;
		return say(l, &p, "WaitsForFiles", no_room.msg, c, err);
	case TD_FAR_WAIT:
		*again_ms = ROOM_MS;
		return say(l, &p, "WaitsForRoom", no_room.msg, c, err);
	case TD_FAR_SHOW:
		return show(l, p.pod, p.copy, c, err);
	case TD_FAR_END:
		*again_ms = TD_FAR_AGAIN_MS; // "it is not there" need not be true (td_far_copy_gone())
		return end(l, &p, c, err);
	case TD_FAR_LET_GO:
		return let_go(l, &p, c, err);
	case TD_FAR_FAIL:
		break;
	}
	bool ended = td_streq(why, "GrantEnded");
	if (!p.copy && (ended || f.made || f.begun) && (r = td_far_copy_gone(l, p.pod, c, err)))
		return r;
	if (ended) {
		td_auto(td_json_unref) struct td_json *j = ended_of(p.pod);
		return fail(l, &p, td_jstr_or(td_json_root(j), "reason", why),
			    td_jstr_or(td_json_root(j), "message", ""), c, err);
	}
	const char *waits = p.copy ? td_far_copy_waits(p.copy->root) : NULL;
	td_auto_free char *room = td_asprintf("its copy found no room in the other cluster for two minutes%s%.400s",
					      waits ? ": " : "", waits ? waits : "");
	return fail(l, &p, why,
		    td_streq(why, "GoneThere") ? "somebody removed its copy in the other cluster"
		    : td_streq(why, "LostThere")
			    ? "its copy in the other cluster was being made when the operator ended, and "
			      "is not there: nobody knows whether it ran"
		    : td_streq(why, "NoRoomThere") ? room
						   : p.refused,
		    c, err);
}
