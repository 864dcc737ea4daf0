// What an agent shows of its gates at /metrics, read on demand.
#include "gate/metrics.h"

#include "metrics/metrics.h"

#include <pthread.h>

static struct {
	pthread_mutex_t lock; // guards g; held while it is read
	struct td_gate *g;    // NULL: it does not run

} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void collect(void *ctx)
{
	struct td_metrics *m = td_metrics_process();
	struct td_metric *nodes = td_gauge(m, "tandem_agent_nodes", "Nodes of this agent.", NULL),
			 *held = td_gauge(
				 m, "tandem_gate_held_nodes",
				 "Nodes where a device was handed on and its last holder has not let it go yet.", NULL);
	pthread_mutex_lock(&live.lock);
	if (live.g) {
		int n = td_gate_nodes(live.g), n_held = 0;
		char why[256];
		for (int i = 0; i < n; i++)
			n_held += td_gate_held_up(live.g, i, why, sizeof(why));
		td_metric_set(nodes, n, NULL);
		td_metric_set(held, n_held, NULL);
	}
	pthread_mutex_unlock(&live.lock);
}

void td_gate_measure(struct td_gate *g)
{
	if (g)
		td_metrics_on_collect(td_metrics_process(), collect, NULL);
	pthread_mutex_lock(&live.lock);
	live.g = g;
	pthread_mutex_unlock(&live.lock);
}
