// Waits for workloads, and says why they do not get ready.
#include "base/clock.h"
#include "cli/apply.h"

#include <string.h>

enum { LOOK_MS = 200 };

// Returns true when every pod runs the newest template and is available.
static bool done(const yyjson_val *o, long long *ret_ready, long long *ret_want)
{
	yyjson_val *st = td_jget(o, "status");
	bool daemons = td_streq(td_jstr(o, "kind"), "DaemonSet");
	long long want = daemons ? td_jint(st, "desiredNumberScheduled", 0) : td_jint(o, "spec.replicas", 1),
		  updated = td_jint(st, daemons ? "updatedNumberScheduled" : "updatedReplicas", 0),
		  ready = td_jint(st, daemons ? "numberAvailable" : "availableReplicas", 0),
		  all = td_jint(st, "replicas", 0);
	*ret_want = want;
	*ret_ready = ready < updated ? ready : updated;
	return td_jint(st, "observedGeneration", 0) >= td_jint(o, "metadata.generation", 1) && updated >= want &&
	       ready >= want && (daemons || all <= want);
}

// Says what the kubelet or the scheduler reports about the first pod that is not ready. The caller
// frees the text.
static char *trouble(struct td_kube *k, const struct td_object *o, struct td_cancel *c)
{
	const char *app = td_jkey_str(td_jget(o->root, "spec.selector.matchLabels"), "app.kubernetes.io/name");
	td_auto_free char *labels = td_asprintf("app.kubernetes.io/name=%s", app ? app : "");
	td_auto_objects struct td_objects pods = {0};
	if (!app || td_kube_list(k, &td_pods, o->ns, labels, NULL, c, &pods, NULL))
		return NULL;

	for (size_t i = 0; i < pods.n; i++) {
		yyjson_val *conds = td_jget(pods.v[i]->root, "status.conditions"), *x;
		size_t j, n;
		bool ready = false;
		const char *why = NULL;
		yyjson_arr_foreach (conds, j, n, x) {
			ready |= td_streq(td_jstr(x, "type"), "Ready") && td_streq(td_jstr(x, "status"), "True");
			if (td_streq(td_jstr(x, "status"), "False") && td_jstr(x, "message") && !why)
				why = td_jstr(x, "message");
		}

		if (ready)
			continue;

		yyjson_val *cs = td_jget(pods.v[i]->root, "status.containerStatuses.[0]"),
			   *w = td_jget(cs, "state.waiting");
		if (w)
			return td_asprintf("pod %s: %s: %s", pods.v[i]->name, td_jstr_or(w, "reason", "waiting"),
					   td_jstr_or(w, "message", td_jstr_or(cs, "image", "")));
		return td_asprintf("pod %s: %s", pods.v[i]->name,
				   why ? why : td_jstr_or(pods.v[i]->root, "status.phase", "unknown"));
	}

	return td_strdup("it has no pods: `kubectl describe` it");
}

int td_cli_rollout_one(struct td_kube *k, const struct td_gvr *g, const char *ns, const char *name, int64_t end_ms,
		       struct td_progress *p, struct td_cancel *c, struct td_error *err)
{
	if (p)
		td_progress_step(p, "%s", name);
	for (;;) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		long long ready = 0, want = 0;
		struct td_error e = TD_ERROR_INIT;
		int r = td_kube_get(k, g, ns, name, c, &o, &e);
		if (r && r != TD_TRANSIENT && r != TD_NOT_FOUND)
			return td_fail(err, r, "%s %s: %s", g->kind, name, e.msg);

		if (o && done(o->root, &ready, &want)) {
			if (p)
				td_progress_done(p, "%s: %lld of %lld ready", name, ready, want);
			return 0;
		}

		if (want && p)
			td_progress_bar(p, (int)(ready * 100 / want), "ready");

		if (td_mono_ms(&td_clock_system) > end_ms) {
			if (p)
				td_progress_fail(p);
			td_auto_free char *why = o ? trouble(k, o, c) : NULL;
			return td_fail(err, TD_TRANSIENT, "%s %s/%s: %lld of %lld pods are ready; %s", g->kind, ns,
				       name, ready, want,
				       why ? why
				       : r ? e.msg
					   : "");
		}

		if (td_cancel_wait(c, LOOK_MS))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

int td_cli_rollout(struct td_kube *k, const struct td_cli_manifests *m, int64_t end_ms, struct td_progress *p,
		   struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < m->docs.n; i++) {
		yyjson_val *v = td_json_root(m->docs.v[i]);
		const char *kind = td_jstr(v, "kind");
		if (!td_streq(kind, "Deployment") && !td_streq(kind, "DaemonSet"))
			continue;
		int r = td_cli_rollout_one(k, td_cli_gvr(v), td_jstr(v, "metadata.namespace"),
					   td_jstr(v, "metadata.name"), end_ms, p, c, err);
		if (r)
			return r;
	}
	return 0;
}
