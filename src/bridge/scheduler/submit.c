// From a waiting pod to a job: on which nodes it may run, and the submit itself (docs/protocols.md
// 1.3).
#include "bridge/scheduler/feasible.h"
#include "bridge/scheduler/gang.h"

#include "bridge/scheduler/blocks.h"
#include "bridge/scheduler/passes.h"
#include "bridge/scheduler/preempt.h"

#include "api/annotations.h"
#include "api/selector.h"
#include "api/taint.h"
#include "base/log.h"
#include "http/pki.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"
#include "slurm/tocome.h"
#include "standin/wire.h"

#include <string.h>

// Taints that say nothing about a pod which Slurm places: the bridge's own, and that of a node of another cluster, where a
// pod's label says that it may go there.
static bool no_matter(const char *taint)
{
	return td_taint_ours(taint) || td_streq(taint, TD_LABEL_OTHER);
}

bool td_bridge_pod_fits(const yyjson_val *pod, const yyjson_val *node, const char **ret_why)
{
	const yyjson_val *spec = td_jget(pod, "spec");
	bool tainted = false;
	yyjson_val *t;
	size_t i, n;
	if (!td_streq(td_jkey_str(td_jget(pod, "metadata.labels"), TD_LABEL_OTHER),
		      td_jkey_str(td_jget(node, "metadata.labels"), TD_LABEL_OTHER))) {
		if (ret_why)
			*ret_why = "node(s) didn't match the pod's label " TD_LABEL_OTHER;
		return false;
	}
	if (td_jkey_str(td_jget(node, "metadata.labels"), TD_LABEL_HOST)) {
		if (ret_why)
			*ret_why = "node(s) had no kubelet";
		return false;
	}
	yyjson_arr_foreach (td_jget(node, "spec.taints"), i, n, t)
		tainted |= no_matter(td_jstr(t, "key"));

	if (!tainted)
		return td_api_pod_fits_node(spec, node, true, ret_why);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(node);
	yyjson_mut_val *taints = td_jm_get(yyjson_mut_doc_get_root(d), "spec.taints");
	for (size_t k = yyjson_mut_arr_size(taints); k--;)
		if (no_matter(td_jm_getstr(yyjson_mut_arr_get(taints, k), "key")))
			yyjson_mut_arr_remove(taints, k);

	td_auto(td_json_unref) struct td_json *copy = td_jm_done(td_steal(d));
	return td_api_pod_fits_node(spec, td_json_root(copy), true, ret_why);
}

// True when a node has parts of GPUs (MIG). Slurm gives these, too, to who asks for GPUs of any type.
static bool has_parts(const struct td_slurm_node *n)
{
	struct td_gres g[16];
	size_t k = 0;
	if (td_gres_parse(n->gres, g, TD_LEN(g), &k, NULL))
		return false;
	for (size_t i = 0; i < k; i++)
		if (!strcmp(g[i].name, "gpu") && td_gres_is_part(g[i].type))
			return true;
	return false;
}

// True when the pod asks for whole GPUs of any type.
static bool any_whole(const struct td_settings *s, const struct td_object *pod)
{
	if (!s || td_object_annotation(pod, td_annotations[TD_ASKS_GPU_TYPE].name))
		return false;
	for (size_t i = 0; i < s->n_gres; i++)
		if (!strcmp(s->gres[i].name, "gpu") && !*s->gres[i].type &&
		    td_api_pod_request(td_jget(pod->root, "spec"), s->gres[i].resource) > 0)
			return true;
	return false;
}

static bool may_come(const struct td_object *pod, yyjson_val *sets, const char *features)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (sets, i, n, x) {
		td_auto_free char *mark = td_slurm_set_feature(td_jstr_or(x, "nodeSet", ""));
		if (td_bridge_lists(features, mark))
			return td_feasible_to_come(pod, x);
	}
	return td_feasible_to_come(pod, NULL);
}

bool *td_room_feasible(struct td_bridge *b, const struct td_object *pod, const struct td_slurm_nodes *l)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	// Where there are devices of several vendors, all are the GRES gpu: the pod may run where its own are.
	const char *asked = s && s->devices.n_several ? td_settings_asked(s, pod->root) : NULL;
	const bool gds = td_want_gds(pod->root), whole = any_whole(s, pod);
	// A change of what these two read makes feas_gen no larger.
	const bool may_know = b->feasibles && l->print && !asked && !gds;
	const uint64_t gen = atomic_load(&b->feas_gen);
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	yyjson_val *sets = td_jget(sc ? sc->root : NULL, "status.autoscale");
	td_auto_free char *kind = may_know ? td_feasible_kind(pod, whole, sets) : NULL;
	bool *v = kind ? td_feasible_known(b->feasibles, kind, gen, l) : NULL;
	if (v)
		return v;
	v = td_calloc(l->n + 1, sizeof(*v));
	for (size_t i = 0; i < l->n; i++) {
		if (td_slurm_is_to_come(l->v[i].features)) {
			v[i] = !gds && may_come(pod, sets, l->v[i].features);
			continue;
		}
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, l->v[i].name);
		v[i] = node && td_bridge_pod_fits(pod->root, node->root, NULL) &&
		       (!asked || (td_object_annotation(node, TD_ANN_SHARE) &&
				   td_streq(asked, td_settings_resource(s, node->root)))) &&
		       (!gds || td_object_annotation(node, TD_ANN_GDS)) && !(whole && has_parts(&l->v[i]));
	}
	if (kind)
		td_feasible_learn(b->feasibles, kind, gen, l, v);
	return v;
}

void td_where_done(struct td_where *w)
{
	free(w->excluded);
}

int td_bridge_run_where(const struct td_bridge_run *r, struct td_where *ret, struct td_error *err)
{
	const struct td_want *w = &r->want;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(r->b->view);
	if (!snap)
		return td_fail(err, TD_TRANSIENT, "Slurm's nodes are not known yet");

	td_auto_free bool *ok = td_room_feasible(r->b, r->pod, &snap->nodes);
	// Pods of different roles may sit on one node.
	for (size_t k = 1; r->gang && w->apart && k < r->gang->roles.n; k++) {
		td_auto_free bool *its = td_room_feasible(r->b, r->gang->roles.v[k].pod, &snap->nodes);
		for (size_t i = 0; i < snap->nodes.n; i++)
			ok[i] = ok[i] && its[i];
	}
	td_auto_free struct td_pool_node *nodes = NULL;
	td_auto_strv struct td_strv no = {0};

	for (size_t i = 0; i < snap->nodes.n; i++)
		if (!ok[i])
			td_strv_add(&no, snap->nodes.v[i].name);

	td_bridge_pool_nodes(&snap->nodes, ok, w->kinds, w->ask.partition, &nodes);
	ret->fit = r->gang ? td_pool_gang_fits_ever(nodes, snap->nodes.n, &w->pool, w->ask.tasks, w->kinds, ret->why,
						    sizeof(ret->why))
			   : td_pool_fits_ever(nodes, snap->nodes.n, &w->pool, w->kinds, ret->why, sizeof(ret->why));

	const struct td_blocks_ask in = {nodes, snap->nodes.n, w->ask.tasks, w->ask.segment};
	if (w->ask.segment && ret->fit == TD_FIT_SOME_DAY &&
	    !td_blocks_hold(r->b, r->s, &in, ret->why, sizeof(ret->why)))
		ret->fit = TD_FIT_NEVER;

	ret->fewest = r->gang && w->pack ? td_pool_gang_fewest(nodes, snap->nodes.n, &w->pool, w->ask.tasks) : 0;

	bool any = false;
	for (size_t i = 0; i < snap->nodes.n; i++)
		any |= nodes[i].feasible;
	if (!any && no.n < snap->nodes.n && w->ask.partition)
		snprintf(ret->why, sizeof(ret->why), "no node that it may use is in partition %s", w->ask.partition);
	if (!any && td_want_gds(r->pod->root))
		snprintf(ret->why, sizeof(ret->why),
			 "no node that it may use has GPUDirect Storage, for which it asks (annotation %s): `tandem "
			 "gds-check` on a node says what is missing there",
			 td_annotations[TD_ASKS_GDS].name);

	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(r->b);
	bool parts = false;
	for (size_t i = 0; !any && i < snap->nodes.n; i++)
		parts |= has_parts(&snap->nodes.v[i]);
	if (parts && any_whole(s, r->pod))
		snprintf(
			ret->why, sizeof(ret->why),
			"no node that it may use has whole GPUs only, and who names no type gets no part of one (MIG): "
			"name the type of the whole ones (annotation %s), or ask for a part",
			td_annotations[TD_ASKS_GPU_TYPE].name);

	ret->excluded = td_hostlist_write(&no);
	return 0;
}

// ---- submit ----

void td_knock_token(const struct td_link *l, const char *uid, char ret[33])
{
	char hex[65];
	td_auto_free char *text = td_asprintf("%s knock %s", l->secret, uid);
	td_sha256_hex(text, strlen(text), hex);
	memcpy(ret, hex, 32);
	ret[32] = '\0';
}

char *td_bridge_standin_script(const struct td_bridge_opts *o, const char *uid, const char *token)
{
	td_auto_free char *name = NULL;
	if (o->knock_name)
		name = td_asprintf("export " TD_WIRE_NAME_ENV "=%s%s\n", o->knock_name, strrchr(o->knock, ':'));
	return td_asprintf("#!/bin/sh\n%sexec " TD_WIRE_BINARY " run --knock %s --ask %s --token %s\n",
			   name ? name : "", o->knock, uid, token);
}

// Writes what takes an operator's rights: the mark, and the place in the queue.
static void set_admin_comment(const struct td_bridge_run *r)
{
	struct td_ask *a = r->a;
	td_auto_free char *text = td_ask_mark(r, false);
	int nice = r->pod && a->batch ? td_want_nice(r->pod->root) : 0;
	const struct td_slurm_job_change ch = {.admin_comment = text, .nice = nice < 0 ? nice : 0};
	struct td_error e = TD_ERROR_INIT;
	if (td_slurm_job_update(r->l->slurm, a->job, &ch, r->c, &e)) {
		if (e.code != TD_NOT_FOUND && e.code != TD_CANCELLED)
			td_debug("marking job %lld: %s", (long long)a->job, e.msg);
		return;
	}
	a->admin_set = true;
}

void td_bridge_run_mark(const struct td_bridge_run *r)
{
	const struct td_ask *a = r->a;
	if (r->l && !a->admin_set && a->job && a->know == TD_JOB_READ && a->named)
		set_admin_comment(r);
}

// Slurm has accepted the submit: the ask has this job, as a read would show it.
static void took(struct td_bridge *b, struct td_ask *a, const char *name, int64_t job, uint64_t states, bool batch)
{
	td_ask_set_job(b->asks, a, job);

	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_READ;
	a->states = a->polled = states;
	a->batch = batch;
	a->named = true;
	a->started = a->warned = a->usr1 = false;
	td_ask_unbound(a);
	a->admin_set = a->end_noted = false;
	a->start = a->restarts = a->end = a->preempt = a->expect = 0;
	a->waits = 0;
	a->ended_ms = a->knock_ms = a->not_before = 0;
	a->prolog = true;
	a->passed = false;
	a->look = !batch;
	a->born_s = td_real_ms(b->clock) / 1000;
	a->read_ms = td_now(b);
	pthread_mutex_unlock(&b->asks->lock);

	td_ask_str(b->asks, &a->job_user, a->user);
	td_ask_str(b->asks, &a->job_name, name);
	td_ask_str(b->asks, &a->reason, batch ? "None" : "Prolog");
	td_slurm_view_watch(b->view, job, states);
}

// The job of a reply that this process read after another may have begun to lead: it was frozen. Whoever leads has the
// job from its first listings, and its pod may run by now; one that came later is found by a knock or the next listing
// (1.9). If this process leads all the same, it looks for it.
static int left_to_leader(const struct td_ask *a, int64_t *io_job, struct td_error *err)
{
	int64_t job = *io_job;
	*io_job = 0;
	return td_fail(err, TD_CANCELLED, "pod %s: another leads now, and Slurm job %lld is left to it", a->key,
		       (long long)job);
}

// How many asks have an allocation whose prolog has not passed. The queue of keys says less: right
// after a burst it is long, and nobody waits.
static size_t preparing(struct td_asks *t)
{
	struct td_ask *a, *tmp;
	size_t n = 0;
	pthread_mutex_lock(&t->lock);
	HASH_ITER (hh, t->by_uid, a, tmp)
		n += a->know == TD_JOB_READ && a->prolog && !a->batch && td_ask_is(a->states) == TD_IS_RUNNING;
	pthread_mutex_unlock(&t->lock);
	return n;
}

static int allocate(struct td_bridge_run *r, int64_t *ret_job, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_slurm_ask ask = r->want.ask;
	td_auto_free char *comment = td_passes_comment(b, r->l, a, ask.comment, r->want.raise, r->want.elsewhere);
	ask.comment = comment;
	if (r->want.avoid)
		ask.excluded_nodes = r->want.avoid;
	ask.required_nodes = r->want.on;
	int k = td_slurm_allocate(r->l->slurm, a->user, &ask, r->c, ret_job, err);
	// Of an immediate allocation Slurm tries the first QOS of a list only. Beyond its quota it borrows.
	const char *rest = ask.qos ? strchr(ask.qos, ',') : NULL;
	if (k && rest && err->detail == TD_SLURM_ERR_POLICY && td_lease_holds()) {
		ask.qos = rest + 1;
		k = td_slurm_allocate(r->l->slurm, a->user, &ask, r->c, ret_job, err);
	}
	if (!k && !td_lease_holds())
		return left_to_leader(a, ret_job, err);
	if (!k && (k = td_owner_check(r, *ret_job, err)))
		*ret_job = 0;

	if (!k || k != TD_THROTTLED)
		td_preempt_over(b, a);
	if (!k) {
		atomic_fetch_add(&b->n_allocated, 1);
		td_room_given(b, a, *ret_job);
		took(b, a, r->want.ask.name, *ret_job, TD_JOB(RUNNING), false);
		td_ask_pending(b->asks, a, false);
		a->allocated_ms = td_now(b);
		a->not_before = a->allocated_ms;
		if (!b->o.own_kubelet) { // else there is no prolog to wait for
			a->burst = td_pool_burst(preparing(b->asks));
			a->not_before += (atomic_load(&b->prolog_us[a->burst]) + 500) / 1000;
		}
		return 0;
	}

	if (k != TD_UNCERTAIN)
		td_room_given(b, a, 0);

	// Error 2014, too, leads to the queue: there the job may wait for a node that is down now.
	if (td_pool_submitted(k, true) == TD_SUBMITTED_QUEUE) {
		td_debug("%s: no immediate allocation: %s", a->key, err->msg);
		if (r->want.on)
			td_preempt_refused(b, a, err);
		td_room_refused(b, a, r->want.raise, err);
	}
	return k;
}

static int queue(struct td_bridge_run *r, int64_t *ret_job, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	struct td_want *w = &r->want;
	char token[33];
	td_knock_token(r->l, a->uid, token);
	td_auto_free char *script = td_bridge_standin_script(&b->o, a->uid, token);

	const char *comment = w->ask.comment;
	td_auto_free char *probe = td_passes_comment(b, r->l, a, comment, false, w->elsewhere);
	w->ask.comment = probe;
	w->ask.script = script;
	w->ask.warn_usr1 = true;
	w->ask.warn_delay_s = r->s->end_grace_s + 60;

	int k = td_slurm_submit(r->l->slurm, a->user, &w->ask, r->c, ret_job, err);
	w->ask.script = NULL;
	w->ask.comment = comment;

	if (!k && !td_lease_holds())
		return left_to_leader(a, ret_job, err);
	if (!k && (k = td_owner_check(r, *ret_job, err))) // before it has a mark, which says that it is his
		*ret_job = 0;
	if (k)
		return k;

	atomic_fetch_add(&b->n_submitted, 1);
	td_info("pod %s: waits as Slurm job %lld", a->key, (long long)*ret_job);
	took(b, a, w->ask.name, *ret_job, TD_JOB(PENDING), true);
	td_ask_pending(b->asks, a, true);
	td_ask_str(b->asks, &a->excluded, w->ask.excluded_nodes);
	set_admin_comment(r);

	return 0;
}

int td_bridge_run_submit(struct td_bridge_run *r, bool immediate, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	a->asked_ms = td_now(b);
	if (!r->want.ask.name || !r->want.ask.comment)
		return td_fail(err, TD_INTERNAL, "pod %s: a submit without what it wants", a->key);
	if (!td_lease_holds())
		return td_fail(err, TD_CANCELLED, "pod %s: another leads now", a->key);

	td_owner_leave(r);
	struct td_error e = TD_ERROR_INIT;
	int64_t job = 0;
	int k = immediate ? allocate(r, &job, &e) : queue(r, &job, &e);
	if (!k)
		return 0;

	if (!job && (k == TD_UNCERTAIN || k == TD_CANCELLED)) {
		// Slurm may have the job: a listing must look for it before the submit is repeated.
		pthread_mutex_lock(&b->asks->lock);
		a->know = TD_JOB_UNSURE;
		pthread_mutex_unlock(&b->asks->lock);
		td_ask_set_job(b->asks, a, 0);
		td_bridge_want_list(b, 0);
		td_bridge_want_list(b, 5000); // finds a submit that lands after the first listing
	}

	if (k == TD_DENIED && e.detail == TD_SLURM_ERR_USER)
		return td_fail_detail(err, TD_THROTTLED, TD_SLURM_ERR_USER,
				      "Slurm does not know user %s yet: it can take a minute after spec.users of the "
				      "SlurmCluster or the directory service was changed",
				      a->user ? a->user : "?");
	return td_fail_detail(err, k, e.detail, "%.500s", e.msg);
}
