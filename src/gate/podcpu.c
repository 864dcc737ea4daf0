#include "gate/podcpu.h"

#include "base/log.h"
#include "base/names.h"
#include "gate/cgroups.h"
#include "metrics/metrics.h"

#include <pthread.h>

static struct {
	pthread_mutex_t lock; // guards p; held while cgroups are read
	struct td_podcpu p;   // pods NULL: nothing is shown
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void collect(void *ctx)
{
	struct td_metric *used =
		td_counter(td_metrics_process(), "tandem_agent_pod_cpu_seconds_total",
			   "CPU time that the containers of a running pod have used.", TD_LABELS("namespace", "pod"));
	pthread_mutex_lock(&live.lock);
	td_metric_forget(used, NULL);
	td_auto_objects struct td_objects l = {0};
	if (live.p.pods)
		td_informer_list(live.p.pods, NULL, &l);
	for (size_t i = 0; i < l.n; i++) {
		const struct td_object *o = l.v[i];
		struct td_error e = TD_ERROR_INIT;
		int64_t us;
		if (!td_object_label(o, TD_LABEL_SESSION) || td_kube_pod_ended(o->root))
			continue;
		if (td_cg_pod_cpu(live.p.cgroups, o->uid, &us, &e)) // one whose figure is not known has none
			td_debug("pod %s/%s: %s", o->ns, o->name, e.msg);
		else
			td_metric_set(used, (double)us / 1e6, TD_LABELS(o->ns, o->name));
	}
	pthread_mutex_unlock(&live.lock);
}

void td_podcpu_show(const struct td_podcpu *p)
{
	if (p)
		td_metrics_on_collect(td_metrics_process(), collect, NULL);
	pthread_mutex_lock(&live.lock);
	live.p = p ? *p : (struct td_podcpu){0};
	pthread_mutex_unlock(&live.lock);
}
