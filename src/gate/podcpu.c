#include "gate/podcpu.h"

#include "base/log.h"
#include "base/names.h"
#include "gate/cgroups.h"
#include "gate/podres.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <string.h>

static struct {
	pthread_mutex_t lock; // guards p; held while cgroups are read, and the kubelet is asked
	struct td_podcpu p;   // pods NULL: nothing is shown
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Sessions whose GPUs a device plug-in gave: not by a claim (DRA), of which the gate knows the devices.
static bool counted(const struct td_object *o)
{
	const char *devices = td_object_annotation(o, TD_ANN_DEVICES);
	return td_object_label(o, TD_LABEL_SESSION) && devices && strcmp(devices, "{}") != 0 &&
	       !td_jget(o->root, "spec.resourceClaims.[0]") && !td_kube_pod_ended(o->root);
}

static void collect_gpus(const struct td_objects *pods)
{
	struct td_metric *used = td_gauge(
		td_metrics_process(), "tandem_agent_pod_gpu_use_ratio",
		"How much of the last moment the GPUs of a session's pod computed, 0 to 1: the one that did most. "
		"Of GPUs that a device plug-in gave.",
		TD_LABELS("namespace", "pod"));
	td_auto_podres struct td_podres_list l = {0};
	td_auto_free struct td_checkup_facts *f = NULL;
	struct td_error e = TD_ERROR_INIT;
	td_metric_forget(used, NULL);
	for (size_t i = 0; live.p.resources && i < pods->n; i++) {
		const struct td_object *o = pods->v[i];
		if (!counted(o))
			continue;
		if (!f) { // the first of them
			f = td_calloc(1, sizeof(*f));
			if (!live.p.facts(live.p.ctx, f))
				return;
			if (td_podres_ask(live.p.resources, live.p.cancel, &l, &e)) {
				td_debug("which pod has which device: %s", e.msg);
				return;
			}
		}
		const char *text = td_object_annotation(o, TD_ANN_DEVICES);
		td_auto(td_json_unref) struct td_json *j = NULL;
		double use = td_json_parse(text, strlen(text), &j, NULL)
				     ? -1
				     : td_podres_use(&l, o->ns, o->name, td_json_root(j), f);
		if (use >= 0)
			td_metric_set(used, use, TD_LABELS(o->ns, o->name));
	}
}

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
	collect_gpus(&l);
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
