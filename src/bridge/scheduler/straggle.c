// Gangs of pods of which one is slower than the others (docs/health.md), by what their agents say on the pods: how long the
// steps take of which the pods themselves say it (gate/podbeats.h); where they do not, by how much their GPUs computed. The
// latter is only told of: that a GPU idles may be its user's program.
#include "bridge/scheduler/gang.h"

#include "api/condition.h"
#include "base/log.h"
#include "kube/service.h"
#include "metrics/metrics.h"
#include "pool/preflight.h"
#include "pool/straggle.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A run of a gang is told of at most so often: what its pods say is their user's.
enum { PERCENT = 150, TIMES = 2, EVERY_S = 10, TELLS = 8, AGAIN_MS = 1000 };

// The policy, as the operator writes it on the pod's node. NULL: there is none.
static struct td_json *policy_of(struct td_bridge *b, const struct td_object *pod)
{
	const char *name = td_jstr(pod->root, "spec.nodeName");
	td_auto(td_object_unref) struct td_object *node = name ? td_informer_get(b->nodes, NULL, name) : NULL;
	const char *text = node ? td_object_annotation(node, TD_ANN_STRAGGLER) : NULL;
	struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? j : NULL;
}

// What is new of one member. True: its agent has said it since all were compared last.
static bool fresh(struct td_ask_pod *p, const struct td_object *pod)
{
	struct td_kube_use u;
	if (!td_kube_use_read(pod->root, &u))
		return false;
	double busy = u.busy - p->use_busy, all = u.busy + u.idle - p->use_all;
	if (all > 0 && busy >= 0)
		p->use = busy / all > 1 ? 1 : busy / all;
	p->use_busy = u.busy;
	p->use_all = u.busy + u.idle;
	p->use_fresh = p->use_fresh || all > 0;
	return p->use_fresh;
}

static void count(void)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_pod_stragglers_total",
				 "Pods of gangs that were slower than the others, or whose devices computed less.",
				 NULL),
		      1, NULL);
}

static void tell(struct td_bridge_run *r, const struct td_gang_member *m, double median)
{
	const char *node = td_jstr_or(m->pod->root, "spec.nodeName", "");
	count();
	td_kube_record(r->b->recorder, TD_ABOUT(m->pod, &td_pods), "Warning", "Straggler",
		       "its GPUs on %s compute %.0f %% of the time, those of the other pods of its gang %.0f %%: they "
		       "wait for it, and it waits for something else than its GPUs",
		       node, m->p->use * 100, median * 100);
}

static void by_use(struct td_bridge_run *r, int percent)
{
	struct td_gang_run *g = r->gang;
	bool all = r->a->size == g->n;
	for (size_t i = 0; i < g->n; i++) {
		bool runs = g->v[i].state == TD_POD_BOUND && fresh(g->v[i].p, g->v[i].pod);
		all = all && runs;
	}
	if (!all)
		return;
	td_auto_free double *use = td_calloc(g->n, sizeof(*use));
	td_auto_free bool *slow = td_calloc(g->n, sizeof(*slow));
	for (size_t i = 0; i < g->n; i++) {
		use[i] = g->v[i].p->use;
		g->v[i].p->use_fresh = false;
	}
	double median = td_pool_straggle_use(percent, use, g->n, slow);
	for (size_t i = 0; i < g->n; i++) {
		struct td_ask_pod *p = g->v[i].p;
		p->use_slow = slow[i] ? p->use_slow + 1 : 0;
		if (p->use_slow == TIMES)
			tell(r, &g->v[i], median);
	}
}

// ---- by what the pods say of their steps ----

// Writes on the pod that it is slow, or is not any more.
static bool say(struct td_bridge_run *r, const struct td_object *pod, const struct td_condition_want *w)
{
	struct td_error err = TD_ERROR_INIT;
	int k = td_kube_pod_condition(r->b->kube, pod, w, r->b->clock, r->c, &err);
	if (k && k != TD_NOT_FOUND && k != TD_CONFLICT && k != TD_CANCELLED)
		td_warn("pod %s/%s: saying whether it is slow: %s", pod->ns, pod->name, err.msg);
	return !k;
}

// Says on the node that it shall be tested, as the agents of native jobs do; the operator decides. What is there counts.
static bool accuse(struct td_bridge_run *r, const char *name, const char *words)
{
	td_auto(td_object_unref) struct td_object *node = td_informer_get(r->b->nodes, NULL, name);
	if (!node || td_object_annotation(node, TD_ANN_SLOW))
		return node;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *what = td_jm_new(), *d = td_jm_new();
	yyjson_mut_val *w = yyjson_mut_doc_get_root(what), *root = yyjson_mut_doc_get_root(d);
	struct td_error err = TD_ERROR_INIT;
	td_jm_int(what, w, "job", r->a->job);
	td_jm_str(what, w, "by", "bridge");
	td_jm_str(what, w, "why", words);
	td_auto_free char *text = td_json_mut_text(w, NULL);
	td_jm_str(d, root, "metadata.uid", node->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_SLOW, text);
	int k = td_kube_patch(r->b->kube, TD_AT(&td_nodes, NULL, name), TD_PATCH_MERGE, root, r->c, NULL, &err);
	if (k && k != TD_CANCELLED)
		td_warn("node %s, on which a pod is slow: %s", name, err.msg);
	return !k;
}

// Does a list of the policy name the namespace? Then the word of its pods counts for more than telling.
static bool drains(const yyjson_val *policy, const char *ns)
{
	td_auto_strv struct td_strv names = {0};
	td_jstrs(td_jget(policy, "namespaces"), &names);
	const struct td_pool_preflight_rule lists = {.namespaces = (const char *const *)names.v,
						     .n_namespaces = names.n};
	return td_streq(td_jstr(policy, "action"), "drain") &&
	       td_pool_preflight(&lists, &(struct td_pool_preflight_job){NULL, NULL, ns}) == TD_PREFLIGHT_YES;
}

// False: it could not be said.
static bool slow(struct td_bridge_run *r, const struct td_gang_member *m, const struct td_pool_straggler *who,
		 const yyjson_val *policy)
{
	struct td_ask *a = r->a;
	char words[480];
	td_pool_straggle_pod_words(who, m->pod->name, words, sizeof(words));
	if (!say(r, m->pod, TD_CONDITION(TD_COND_SLOW, "True", "Slow", words)))
		return false;
	a->pace_tells++;
	count();
	bool drain = !a->pace_drained && drains(policy, m->pod->ns);
	td_kube_record(r->b->recorder, TD_ABOUT(m->pod, &td_pods), "Warning", "Straggler", "Slurm job %lld: %s%s",
		       (long long)a->job, words, drain ? "; the node is to be tested" : "");
	// One run of a gang takes one node out of service at most.
	if (drain)
		a->pace_drained = accuse(r, who->pace.node, words);
	return true;
}

// What the members say, in v. Returns how many say anything; *ret_since: when the last one said something else (mono).
static size_t paces(struct td_bridge_run *r, struct td_pool_pace *v, int64_t *ret_since)
{
	const struct td_gang_run *g = r->gang;
	size_t n = 0;
	*ret_since = 0;
	for (size_t i = 0; i < g->n && i < TD_STRAGGLE_RANKS; i++) {
		struct td_ask_pod *p = g->v[i].p;
		struct td_kube_pace is;
		bool says = g->v[i].state == TD_POD_BOUND && td_kube_pace_read(g->v[i].pod->root, &is);
		if (p->pace_us != (says ? is.us : 0)) {
			p->pace_us = says ? is.us : 0;
			p->pace_ms = td_now(r->b);
		}
		*ret_since = p->pace_ms > *ret_since ? p->pace_ms : *ret_since;
		if (!says)
			continue;
		// A bridge that is new goes on with what was told before.
		if (!p->pace.begun)
			p->pace.told = td_condition_true(g->v[i].pod->root, TD_COND_SLOW);
		v[n] = (struct td_pool_pace){.rank = (int)i, .step = r->a->pace_looks, .us = is.us, .gpu = -1};
		snprintf(v[n++].node, sizeof(v->node), "%s", td_jstr_or(g->v[i].pod->root, "spec.nodeName", ""));
	}
	return n;
}

// Each pod's word holds until it says another one. When all change, as with longer inputs, they do not say it at the same
// moment: so they are compared when none has said anything new for two looks of the agents. True: they say enough.
static bool by_pace(struct td_bridge_run *r, const yyjson_val *policy)
{
	struct td_gang_run *g = r->gang;
	struct td_ask *a = r->a;
	td_auto_free struct td_pool_pace *v = td_calloc(g->n, sizeof(*v));
	int64_t since, quiet = td_jint(policy, "everySeconds", EVERY_S) * 2000, now = td_now(r->b);
	size_t n = paces(r, v, &since);
	if (n < TD_STRAGGLE_LEAST)
		return false;
	if (a->pace_judged_ms > since)
		return true;
	if (now - since <= quiet) {
		td_bridge_run_again(r, since + quiet + 1 - now);
		return true;
	}
	a->pace_judged_ms = now;
	a->pace_looks++;
	td_auto_free struct td_pool_straggle_rank *state = td_calloc(g->n, sizeof(*state));
	for (size_t i = 0; i < g->n; i++)
		state[i] = g->v[i].p->pace;
	// Steps were counted by the agents: a word is the shortest of so many.
	const struct td_pool_straggle_rule rule = {(int)td_jint(policy, "percent", PERCENT), 1};
	struct td_pool_straggler who;
	td_auto_free bool *again = td_calloc(g->n, sizeof(*again));
	while (td_pool_straggle(&rule, state, v, n, &who)) {
		if (a->pace_tells >= TELLS)
			continue; // who was told of before is still seen to keep up
		const struct td_gang_member *m = &g->v[who.pace.rank];
		struct td_kube_pace is = {0};
		td_kube_pace_read(m->pod->root, &is);
		who.pace.step = is.step;
		again[who.pace.rank] = !slow(r, m, &who, policy);
	}
	for (size_t i = 0; i < g->n; i++) {
		const struct td_gang_member *m = &g->v[i];
		m->p->pace = state[i];
		if (again[i]) {
			m->p->pace.told = false;
			a->pace_judged_ms = 0;
			td_bridge_run_again(r, AGAIN_MS);
		} else if (!state[i].told && m->state == TD_POD_BOUND &&
			   td_condition_true(m->pod->root, TD_COND_SLOW)) {
			say(r, m->pod, TD_CONDITION(TD_COND_SLOW, "False", "KeepsUp", "it is as fast as the others"));
		}
	}
	return true;
}

void td_bridge_run_straggle(struct td_bridge_run *r)
{
	struct td_gang_run *g = r->gang;
	td_auto(td_json_unref) struct td_json *j = g && g->n >= TD_STRAGGLE_LEAST ? policy_of(r->b, g->v[0].pod) : NULL;
	if (j && !by_pace(r, td_json_root(j)))
		by_use(r, (int)td_jint(td_json_root(j), "percent", PERCENT));
}
