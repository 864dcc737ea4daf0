// What the leading operator shows at /metrics: the statuses that it keeps, as its caches hold them.
#include "operator/operator.h"

#include "metrics/metrics.h"

#include <pthread.h>
#include <string.h>

static struct {
	pthread_mutex_t lock; // guards op; held while it is read
	struct td_op *op;     // NULL: this process does not lead
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct td_metric *clusters, *ready, *sets, *nodes;

static void make(void)
{
	struct td_metrics *m = td_metrics_process();
	clusters = td_gauge(m, "tandem_operator_slurmclusters", "SlurmClusters by phase; none: not looked at yet.",
			    TD_LABELS("phase"));
	sets = td_gauge(m, "tandem_operator_nodesets", "NodeSets by their condition Ready.", TD_LABELS("ready"));
	ready = td_gauge(m, "tandem_operator_slurmcluster_ready", "1 while this SlurmCluster is ready, else 0.",
			 TD_LABELS("namespace", "slurmcluster"));
	nodes = td_gauge(m, "tandem_operator_nodeset_nodes",
			 "Nodes of this NodeSet: desired, matched, assigned, ready, updated, running, idle, allocated, "
			 "draining, drained, down (one node counts in several).",
			 TD_LABELS("namespace", "nodeset", "state"));
}

static void collect(void *ctx)
{
	static const char *const phases[] = {"none", "Starting", "Running", "Degraded", "Invalid"};
	static const char *const states[] = {"desired", "matched",   "assigned", "ready",   "updated", "running",
					     "idle",    "allocated", "draining", "drained", "down"};
	pthread_mutex_lock(&live.lock);
	struct td_op *op = live.op;
	td_metric_forget(ready, NULL);
	td_metric_forget(nodes, NULL);

	if (op) {
		td_auto_objects struct td_objects cs = {0}, ns = {0};
		td_informer_list(op->clusters, NULL, &cs);
		td_informer_list(op->nodesets, NULL, &ns);
		for (size_t i = 0; i < TD_LEN(phases); i++)
			td_metric_set(clusters, 0, TD_LABELS(phases[i]));
		for (size_t i = 0; i < cs.n; i++) {
			const char *phase = td_jstr_or(cs.v[i]->root, "status.phase", "none");
			size_t k = TD_LEN(phases) - 1;
			while (k > 0 && strcmp(phases[k], phase) != 0)
				k--;
			td_metric_add(clusters, 1, TD_LABELS(phases[k]));
			td_metric_set(ready, td_op_ready(cs.v[i]), TD_LABELS(cs.v[i]->ns, cs.v[i]->name));
		}
		td_metric_set(sets, 0, TD_LABELS("true"));
		td_metric_set(sets, 0, TD_LABELS("false"));
		for (size_t i = 0; i < ns.n; i++) {
			td_metric_add(sets, 1, TD_LABELS(td_op_ready(ns.v[i]) ? "true" : "false"));
			for (size_t k = 0; k < TD_LEN(states); k++) {
				td_auto_free char *path = td_asprintf("status.%s", states[k]);
				td_metric_set(nodes, (double)td_jint(ns.v[i]->root, path, 0),
					      TD_LABELS(ns.v[i]->ns, ns.v[i]->name, states[k]));
			}
		}
	} else {
		// A process that does not lead knows nothing of them.
		td_metric_forget(clusters, NULL);
		td_metric_forget(sets, NULL);
	}

	pthread_mutex_unlock(&live.lock);
}

static void once(void)
{
	make();
	td_metrics_on_collect(td_metrics_process(), collect, NULL);
}

void td_op_measure(struct td_op *op)
{
	static pthread_once_t o = PTHREAD_ONCE_INIT;
	pthread_once(&o, once);
	pthread_mutex_lock(&live.lock);
	live.op = op;
	pthread_mutex_unlock(&live.lock);
}
