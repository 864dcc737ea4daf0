// The cells of a Pod. Their rules are those of printPod in kubernetes/pkg/printers/internalversion.
#include "apiserver/cells.h"

#include "api/condition.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

struct summary {
	char reason[128];
	size_t ready, total;
	long long restarts;
	int64_t last; // last restart, ms; 0: none
};

static void count_restarts(const yyjson_val *c, struct summary *s)
{
	int64_t t;
	const char *f = td_jstr(c, "lastState.terminated.finishedAt");
	s->restarts += td_jint(c, "restartCount", 0);
	if (f && td_time_parse(f, &t) == 0 && t > s->last)
		s->last = t;
}

// Sets the reason of a terminated container: the prefix, then its reason, its signal or its exit
// code.
static void ended(const yyjson_val *t, const char *prefix, struct summary *s)
{
	const char *why = td_jstr_or(t, "reason", "");
	if (*why)
		snprintf(s->reason, sizeof(s->reason), "%s%s", prefix, why);
	else if (td_jint(t, "signal", 0))
		snprintf(s->reason, sizeof(s->reason), "%sSignal:%lld", prefix, td_jint(t, "signal", 0));
	else
		snprintf(s->reason, sizeof(s->reason), "%sExitCode:%lld", prefix, td_jint(t, "exitCode", 0));
}

// Whether the container of that name is an init container that runs beside the others.
static bool is_sidecar(const yyjson_val *o, const char *name)
{
	yyjson_val *c;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "spec.initContainers"), i, n, c)
		if (td_streq(td_jstr(c, "name"), name))
			return td_streq(td_jstr(c, "restartPolicy"), "Always");
	return false;
}

// Reads the init containers up to the first that is not done. Returns false when all are. *side:
// the restarts of the sidecars alone.
static bool initializing(const yyjson_val *o, struct summary *s, struct summary *side)
{
	yyjson_val *c;
	size_t i, n, total = yyjson_arr_size(td_jget(o, "spec.initContainers"));
	yyjson_arr_foreach (td_jget(o, "status.initContainerStatuses"), i, n, c) {
		yyjson_val *t = td_jget(c, "state.terminated");
		const char *why = td_jstr_or(c, "state.waiting.reason", "");
		bool sidecar = is_sidecar(o, td_jstr(c, "name"));
		count_restarts(c, s);
		if (sidecar)
			count_restarts(c, side);
		if (t && td_jint(t, "exitCode", 0) == 0)
			continue;
		if (sidecar && td_jbool(c, "started", false)) {
			s->ready += td_jbool(c, "ready", false);
			continue;
		}
		if (t)
			ended(t, "Init:", s);
		else if (*why && strcmp(why, "PodInitializing") != 0)
			snprintf(s->reason, sizeof(s->reason), "Init:%s", why);
		else
			snprintf(s->reason, sizeof(s->reason), "Init:%zu/%zu", i, total);
		return true;
	}

	return false;
}

static void containers(const yyjson_val *o, struct summary *s)
{
	yyjson_val *list = td_jget(o, "status.containerStatuses");
	bool running = false;

	for (size_t i = yyjson_arr_size(list); i-- > 0;) {
		yyjson_val *c = yyjson_arr_get(list, i), *t = td_jget(c, "state.terminated");
		const char *w = td_jstr_or(c, "state.waiting.reason", "");
		count_restarts(c, s);
		if (*w) {
			snprintf(s->reason, sizeof(s->reason), "%s", w);
		} else if (t) {
			ended(t, "", s);
		} else if (td_jbool(c, "ready", false) && td_jget(c, "state.running")) {
			running = true;
			s->ready++;
		}
	}

	if (running && !strcmp(s->reason, "Completed"))
		snprintf(s->reason, sizeof(s->reason), "%s", td_condition_true(o, "Ready") ? "Running" : "NotReady");
}

static void summarise(const yyjson_val *o, struct summary *s)
{
	const char *r = td_jstr_or(o, "status.reason", ""), *phase = td_jstr_or(o, "status.phase", "");
	struct summary side = {0};
	yyjson_val *c;
	size_t i, n;

	*s = (struct summary){.total = yyjson_arr_size(td_jget(o, "spec.containers"))};
	yyjson_arr_foreach (td_jget(o, "spec.initContainers"), i, n, c)
		s->total += td_streq(td_jstr(c, "restartPolicy"), "Always");
	snprintf(s->reason, sizeof(s->reason), "%s", *r ? r : phase);
	if (td_streq(td_jstr(td_condition(o, "PodScheduled"), "reason"), "SchedulingGated"))
		snprintf(s->reason, sizeof(s->reason), "SchedulingGated");
	if (!initializing(o, s, &side) || td_condition_true(o, "Initialized")) {
		s->restarts = side.restarts;
		s->last = side.last;
		containers(o, s);
	}

	if (!td_jget(o, "metadata.deletionTimestamp"))
		return;
	if (!strcmp(r, "NodeLost"))
		snprintf(s->reason, sizeof(s->reason), "Unknown");
	else if (strcmp(phase, "Failed") != 0 && strcmp(phase, "Succeeded") != 0)
		snprintf(s->reason, sizeof(s->reason), "Terminating");
}

static void ready(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct summary s;
	summarise(o, &s);
	td_buf_printf(out, "\"%zu/%zu\"", s.ready, s.total);
}

static void status(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct summary s;
	summarise(o, &s);
	td_cell_str(out, s.reason);
}

static void restarts(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct summary s;
	char ago[32];
	summarise(o, &s);
	if (s.restarts && s.last)
		td_buf_printf(out, "\"%lld (%s ago)\"", s.restarts,
			      td_time_age(now - s.last < 0 ? 0 : now - s.last, ago, sizeof(ago)));
	else
		td_buf_printf(out, "\"%lld\"", s.restarts);
}

// clang-format off
const struct td_cellspec td_pod_cells[] = {
	TD_CELL_NAME,
	{"Ready", "string", "", "The aggregate readiness state of this pod for accepting traffic.", 0, ready, NULL,
	 NULL},
	{"Status", "string", "", "The aggregate status of the containers in this pod.", 0, status, NULL, NULL},
	{"Restarts", "string", "",
	 "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
	 0, restarts, NULL, NULL},
	TD_CELL_AGE,
	{"IP", "string", "", "The pod's address.", 1, td_cell_text, "status.podIP", "<none>"},
	{"Node", "string", "", "The node that the pod is on.", 1, td_cell_text, "spec.nodeName", "<none>"},
	{"Nominated Node", "string", "", "The node that the pod may get.", 1, td_cell_text, "status.nominatedNodeName",
	 "<none>"},
	{"Readiness Gates", "string", "", "Conditions that count for readiness.", 1, td_cell_text, "", "<none>"},
	{0},
};
