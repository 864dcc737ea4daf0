// pods/eviction: a delete that first asks the pod's PodDisruptionBudget. Steps, codes and words are
// those of a real API server.
//
// The disruption is written into the budget's status (disruptionsAllowed less one, the pod added to
// disruptedPods) before the pod is touched: a crash in between costs the budget one disruption for
// two minutes, but never evicts a pod too many.
#include "apiserver/srv.h"

#include "api/condition.h"
#include "api/selector.h"

#include <string.h>

#define TRIES 20
#define DISRUPTED_MAX 2000

struct eviction {
	struct td_req *q;
	struct td_delete_opts o;
	struct td_table *budgets;
	bool asked;   // the budget (or its absence) has allowed this eviction: it is asked once
	bool unready; // allowed because the pod is not healthy: holds for the checked version only
	char *budget; // name of the budget that was asked
};

static int too_many(struct td_refusal *r, int retry_after_s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int too_many(struct td_refusal *r, int retry_after_s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *why = td_vasprintf(fmt, ap);
	va_end(ap);
	td_refusal_done(r);
	td_refuse(r, 429, NULL, "Cannot evict pod as it would violate the pod's disruption budget.");
	td_cause_add(&r->causes, "DisruptionBudget", "", "%s", why);
	r->retry_after_s = retry_after_s;
	return TD_THROTTLED;
}

static int in_process(struct td_refusal *r, const char *budget)
{
	return too_many(r, 10, "The disruption budget %s is still being processed by the server.", budget);
}

// Finds the budget that selects the pod; *ret NULL: there is none.
static int budget_of(struct eviction *e, const struct td_item *pod, struct td_item **ret, struct td_refusal *r)
{
	td_auto_items struct td_items l = {0};
	td_auto(td_item_unref) struct td_item *found = NULL;
	struct td_error err = TD_ERROR_INIT;
	uint64_t rv;

	if (td_store_list(e->q->s->store, e->budgets, pod->ns, 0, &l, &rv, &err) < 0)
		return td_refuse_err(r, &err);
	for (size_t i = 0; i < l.n; i++) {
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(l.v[i]);
		td_auto(td_selector_free) struct td_selector *s = NULL;
		yyjson_val *sel = td_jget(td_json_root(doc), "spec.selector");
		if (!sel || td_selector_from_object(sel, &s, NULL) < 0 ||
		    !td_selector_matches(s, td_jget(td_item_root(pod), "metadata.labels")))
			continue;
		if (found)
			return td_refuse(r, 500, "",
					 "This pod has more than one PodDisruptionBudget, which the eviction "
					 "subresource does not support.");
		found = td_item_copy(l.v[i]);
	}

	*ret = td_steal(found);
	return 0;
}

// Checks that the budget allows one more disruption, and writes this pod into d, a copy of the
// budget.
static int take_one(struct eviction *e, const struct td_item *b, yyjson_mut_doc *d, struct td_refusal *r)
{
	yyjson_val *v = td_item_root(b), *status = td_jget(v, "status"), *c;
	long long allowed = td_jint(status, "disruptionsAllowed", 0);
	size_t i, n;

	if (td_jint(status, "observedGeneration", 0) < td_jint(v, "metadata.generation", 0))
		return in_process(r, b->name);
	const char *broken = allowed < 0 ? "pdb disruptions allowed is negative"
			     : yyjson_obj_size(td_jget(status, "disruptedPods")) > DISRUPTED_MAX
				     ? "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
				     : NULL;
	if (broken) {
		td_refuse(r, 403, NULL, "poddisruptionbudget.policy \"%s\" is forbidden: %s", b->name, broken);
		return td_refuse_about(r, "policy", "poddisruptionbudget", b->name);
	}
	if (!allowed) {
		yyjson_arr_foreach (td_jget(status, "conditions"), i, n, c)
			if (td_streq(td_jstr(c, "type"), "DisruptionAllowed") &&
			    td_streq(td_jstr(c, "reason"), "SyncFailed"))
				return too_many(r, 0,
						"The disruption budget %s does not allow evicting pods currently "
						"because it failed sync: %s",
						b->name, td_jstr_or(c, "message", ""));
		return too_many(r, 0, "The disruption budget %s needs %lld healthy pods and has %lld currently",
				b->name, td_jint(status, "desiredHealthy", 0), td_jint(status, "currentHealthy", 0));
	}

	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *m;
	char t[TD_TIME_LEN];
	td_time_format(e->q->now, t);
	td_jm_int(d, o, "status.disruptionsAllowed", allowed - 1);
	td_jm_key_str(d, td_jm_obj(d, o, "status.disruptedPods"), e->q->name, t);
	yyjson_mut_arr_foreach (td_jm_arr(d, o, "status.conditions"), i, n, m)
		if (allowed == 1 && td_streq(td_jm_getstr(m, "type"), "DisruptionAllowed")) {
			td_jm_str(d, m, "status", "False");
			td_jm_str(d, m, "reason", "InsufficientPods");
			td_jm_str(d, m, "lastTransitionTime", t);
		}

	return 0;
}

static int ask_budget(struct eviction *e, const struct td_item *pod, struct td_refusal *r)
{
	for (int tries = 0; tries < TRIES; tries++) {
		td_auto(td_item_unref) struct td_item *b = NULL;
		td_refusal_done(r);
		int rc = budget_of(e, pod, &b, r);
		if (rc < 0 || !b)
			return rc;

		free(e->budget);
		e->budget = td_strdup(b->name);
		yyjson_val *v = td_item_root(b);
		long long desired = td_jint(v, "status.desiredHealthy", 0);

		if (!td_condition_true(td_item_root(pod), "Ready") &&
		    (td_streq(td_jstr(v, "spec.unhealthyPodEvictionPolicy"), "AlwaysAllow") ||
		     (desired > 0 && td_jint(v, "status.currentHealthy", 0) >= desired))) {
			e->unready = true;
			return 0;
		}

		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(v);
		if ((rc = take_one(e, b, d, r)) < 0 || e->q->dry_run)
			return rc;

		const struct td_srv_write w = {
			.table = e->budgets, .ns = b->ns, .name = b->name, .base = b->rv, .doc = d};
		struct td_error err = TD_ERROR_INIT;
		if ((rc = td_store_write(e->q->s->store, &w, NULL, &err)) == 0)
			return 0;
		// Otherwise it changed meanwhile: look again.
		if (rc != TD_CONFLICT && rc != TD_NOT_FOUND)
			return td_refuse_err(r, &err);
	}

	r->retry_after_s = 10;
	return td_refuse(r, 504, "Timeout", "Timeout: couldn't update PodDisruptionBudget \"%s\" due to conflicts",
			 e->budget);
}

static int mark(struct td_req *q, const struct td_item *old, struct td_item **ret, struct td_refusal *r)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	td_srv_pod_condition(q, d, "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting");
	return td_srv_object_commit(q, (struct td_item *)(uintptr_t)old, d, ret, r);
}

// Returns TD_CONFLICT when the pod changed meanwhile: the caller tries again.
static int evict_once(struct eviction *e, struct td_deleted *ret, struct td_refusal *r)
{
	struct td_req *q = e->q;
	td_auto(td_item_unref) struct td_item *pod = td_store_get(q->s->store, q->res->table, q->ns, q->name),
					      *marked = NULL;

	if (!pod)
		return td_refuse_not_found(q, q->name, r);
	struct td_delete_opts o = e->o;
	const char *rv = td_jstr_or(td_item_root(pod), "metadata.resourceVersion", ""),
		   *phase = td_jstr_or(td_item_root(pod), "status.phase", "");

	// td_delete_item reports an unmet precondition in its own words.
	bool unmet = (o.uid && strcmp(o.uid, pod->uid) != 0) || (o.rv && strcmp(o.rv, rv) != 0);
	if (unmet || !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed") ||
	    td_jget(td_item_root(pod), "metadata.deletionTimestamp"))
		return td_delete_item(q, q->ns, q->name, &o, ret, r);
	bool pending = !strcmp(phase, "Pending");
	int rc;
	if (!pending && !e->asked && (rc = ask_budget(e, pod, r)) < 0)
		return rc;
	e->asked |= !pending;
	rc = mark(q, pod, &marked, r);
	if (rc == 0) {
		// A pod that may go because it is not ready must not have become ready since.
		if (pending || e->unready || o.rv)
			o.rv = td_jstr_or(td_item_root(marked), "metadata.resourceVersion", "");
		if (q->dry_run)
			o.rv = NULL; // the mark was not stored
		rc = td_delete_item(q, q->ns, q->name, &o, ret, r);
	}

	if (rc == 0 || r->http != 409 || e->o.rv)
		return rc;
	return e->unready ? in_process(r, e->budget) : TD_CONFLICT;
}

int td_do_eviction(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	struct eviction e = {.q = q, .o = {.grace = -1}};

	int rc = td_body_read(q, true, &body, r);
	if (rc < 0)
		return rc;
	yyjson_val *b = td_json_root(body);
	const char *name = td_jstr_or(b, "metadata.name", "");
	if (!td_streq(td_jstr_or(b, "kind", "Eviction"), "Eviction"))
		return td_refuse(r, 400, NULL, "the body of an eviction has kind Eviction, not %.100s",
				 td_jstr_or(b, "kind", ""));
	if (*name && strcmp(name, q->name) != 0)
		return td_refuse(r, 400, NULL, "name in URL does not match name in Eviction object");
	yyjson_val *opts = td_jget(b, "deleteOptions");
	if (opts && (rc = td_delete_opts(q, opts, &e.o, r)) < 0)
		return rc;
	e.budgets = td_store_table(q->s->store, "policy", "poddisruptionbudgets");
	struct td_deleted d = {0};
	for (int tries = 0; tries < TRIES; tries++) {
		td_refusal_done(r);
		rc = evict_once(&e, &d, r);
		if (rc != TD_CONFLICT)
			break;
	}

	free(e.budget);
	if (rc < 0)
		return rc;

	td_item_unref(d.left);

	td_reply_success(q, 201, NULL, NULL);
	return 0;
}
