// Gangs of pods of which one computes less than the others (docs/health.md), by how much their GPUs computed as their
// agents say on the pods. It is only told of: that a GPU idles may be its user's program.
#include "bridge/scheduler/gang.h"

#include "kube/service.h"
#include "metrics/metrics.h"
#include "pool/straggle.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

enum { PERCENT = 150, TIMES = 2 };

// The percent of the policy of the pod's node; 0: there is none.
static int percent_of(struct td_bridge *b, const struct td_object *pod)
{
	const char *name = td_jstr(pod->root, "spec.nodeName");
	td_auto(td_object_unref) struct td_object *node = name ? td_informer_get(b->nodes, NULL, name) : NULL;
	const char *text = node ? td_object_annotation(node, TD_ANN_STRAGGLER) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? (int)td_jint(td_json_root(j), "percent", PERCENT)
								    : 0;
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

static void tell(struct td_bridge_run *r, const struct td_gang_member *m, double median)
{
	const char *node = td_jstr_or(m->pod->root, "spec.nodeName", "");
	td_metric_add(td_counter(td_metrics_process(), "tandem_pod_stragglers_total",
				 "Pods of gangs whose devices computed less than those of the others.", NULL),
		      1, NULL);
	td_kube_record(r->b->recorder, TD_ABOUT(m->pod, &td_pods), "Warning", "Straggler",
		       "its GPUs on %s compute %.0f %% of the time, those of the other pods of its gang %.0f %%: they "
		       "wait for it, and it waits for something else than its GPUs",
		       node, m->p->use * 100, median * 100);
}

void td_bridge_run_straggle(struct td_bridge_run *r)
{
	struct td_gang_run *g = r->gang;
	int percent = g && g->n >= TD_STRAGGLE_LEAST && r->a->size == g->n ? percent_of(r->b, g->v[0].pod) : 0;
	if (!percent)
		return;
	bool all = true;
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
