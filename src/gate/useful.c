// What devices do with their time.
#include "gate/useful.h"

#include "gate/jobuse.h"
#include "gate/telemetry.h"
#include "gate/used.h"
#include "metrics/metrics.h"

#include <string.h>

// Who holds a device is asked of the node's processes, which costs something: not at every look. An agent that was
// stopped, or a machine that slept, adds no more than LONG_MS.
enum { EVERY_MS = 5000, LONG_MS = 60000 };

struct td_useful_part td_useful_split(bool held, const struct td_checkup_gpu *gpu)
{
	if (!held)
		return (struct td_useful_part){.free = 1};
	if (gpu->lost || gpu->use_percent < 0)
		return (struct td_useful_part){.unknown = 1};
	double use = gpu->use_percent > 100 ? 1 : gpu->use_percent / 100;
	return (struct td_useful_part){.busy = use, .idle = 1 - use};
}

void td_useful_look(struct td_useful *u, struct td_gate *gate, int node, const struct td_checkup_facts *f,
		    int64_t now_ms)
{
	if (!gate || (u->at_ms && now_ms - u->at_ms < EVERY_MS))
		return;
	int64_t ms = u->at_ms ? now_ms - u->at_ms : 0;
	double s = (double)(ms < LONG_MS ? ms : LONG_MS) / 1000;
	u->at_ms = now_ms;
	const char *name = td_gate_node_name(gate, node);
	struct td_metric *m = td_counter(
		td_metrics_process(), "tandem_device_time_seconds_total",
		"Seconds of devices: free, or held by a job and busy (as far as they computed), idle, "
		"or unknown (the device does not say). They add up to all. tenant: the job's Tenant, else its "
		"Slurm account.",
		TD_LABELS("node", "state", "tenant"));
	td_metric_zero(m, TD_LABELS(name, "free", ""));
	for (int i = 0; i < f->gpus; i++) {
		struct td_holder h = {0};
		bool held = td_gate_holder(gate, node, i, &h);
		struct td_useful_part p = td_useful_split(held, &f->gpu[i]);
		p = (struct td_useful_part){p.free * s, p.busy * s, p.idle * s, p.unknown * s};
		if (!held) {
			td_metric_add(m, p.free, TD_LABELS(name, "free", ""));
			continue;
		}
		char tenant[TD_TELEMETRY_NAME];
		td_telemetry_tenant(&h, name, tenant);
		td_metric_add(m, p.busy, TD_LABELS(name, "busy", tenant));
		td_metric_add(m, p.idle, TD_LABELS(name, "idle", tenant));
		td_metric_add(m, p.unknown, TD_LABELS(name, "unknown", tenant));
		if (h.pod)
			td_used_add(h.uid, &p);
		else if (u->jobs)
			td_jobuse_add(u->jobs, &h, &p, now_ms);
	}
	if (u->jobs)
		td_jobuse_keep(u->jobs, now_ms);
}
