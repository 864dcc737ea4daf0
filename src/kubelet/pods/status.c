#include "kubelet/pods/status.h"

#include "api/condition.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { BACKOFF_FIRST_MS = 10000, BACKOFF_MAX_MS = 300000, BACKOFF_RESET_MS = 600000 };

int64_t td_backoff_wait(int64_t *backoff_ms, int64_t started_ms, int64_t finished_ms, int64_t now_ms)
{
	if (started_ms && finished_ms - started_ms >= BACKOFF_RESET_MS)
		*backoff_ms = 0;
	int64_t left = finished_ms + *backoff_ms - now_ms;
	// The cap keeps a clock that was set back from making the wait longer.
	return left > *backoff_ms ? *backoff_ms : left > 0 ? left : 0;
}

void td_backoff_next(int64_t *backoff_ms)
{
	*backoff_ms = *backoff_ms ? *backoff_ms * 2 : BACKOFF_FIRST_MS;
	if (*backoff_ms > BACKOFF_MAX_MS)
		*backoff_ms = BACKOFF_MAX_MS;
}

static bool policy(const yyjson_val *pod, const char *p)
{
	return !strcmp(td_jstr_or(pod, "spec.restartPolicy", "Always"), p);
}

bool td_kubelet_status_restarts(const struct td_pod *p, const struct td_ctr *c, const yyjson_val *pod)
{
	if (c->state != TD_CTR_TERMINATED)
		return false;
	switch (c->kind) {
	case TD_CTR_SIDECAR:
		return true;
	case TD_CTR_INIT:
		return c->end.exit_code && !policy(pod, "Never");
	case TD_CTR_MAIN:
		return policy(pod, "Always") || (c->end.exit_code && policy(pod, "OnFailure"));
	}
	return false;
}

const char *td_kubelet_status_waiting(const struct td_pod *p)
{
	return p->n_init ? "PodInitializing" : "ContainerCreating";
}

static bool started(const struct td_ctr *c)
{
	return c->state == TD_CTR_RUNNING && c->probe_started && c->post_start != TD_HOOK_RUNNING;
}

static bool ready(const struct td_ctr *c)
{
	if (c->kind == TD_CTR_INIT)
		return c->state == TD_CTR_TERMINATED && !c->end.exit_code;
	return started(c) && c->probe_ready;
}

bool td_kubelet_status_initialized(const struct td_pod *p)
{
	for (size_t i = 0; i < p->n_init; i++) {
		const struct td_ctr *c = &p->ctr[i];
		if (c->kind == TD_CTR_INIT ? c->state != TD_CTR_TERMINATED || c->end.exit_code : !started(c))
			break;
		if (i + 1 == p->n_init)
			return true;
	}

	// Once a main container has begun, the init containers are history, whatever a sidecar does
	// now.
	for (size_t i = p->n_init; i < p->n_ctr; i++)
		if (p->ctr[i].attempt >= 0)
			return true;
	return !p->n_init;
}

const char *td_kubelet_status_outcome(const struct td_pod *p, const yyjson_val *pod)
{
	size_t over = 0, failed = 0, begun = 0, mains = p->n_ctr - p->n_init;
	bool busy = false;
	for (size_t i = 0; i < p->n_ctr; i++)
		busy = busy || p->ctr[i].wanted;
	if (p->fail_reason && !busy)
		return "Failed";

	for (size_t i = 0; i < p->n_init; i++) {
		const struct td_ctr *c = &p->ctr[i];
		if (c->kind == TD_CTR_INIT && c->state == TD_CTR_TERMINATED && c->end.exit_code &&
		    !td_kubelet_status_restarts(p, c, pod))
			return "Failed";
	}

	for (size_t i = p->n_init; i < p->n_ctr; i++) {
		const struct td_ctr *c = &p->ctr[i];
		begun += c->attempt >= 0;
		if (c->state == TD_CTR_TERMINATED && (p->stopping || !td_kubelet_status_restarts(p, c, pod))) {
			over++;
			failed += c->end.exit_code != 0;
		} else if (p->stopping && c->attempt < 0) {
			over++, failed++; // never ran and never will
		}
	}

	if (!begun && !p->stopping)
		return "Pending";

	if (over < mains)
		return begun ? "Running" : "Pending";
	return failed ? "Failed" : "Succeeded";
}

const char *td_kubelet_status_phase(const struct td_pod *p, const yyjson_val *pod)
{
	const char *outcome = td_kubelet_status_outcome(p, pod);
	bool over = !strcmp(outcome, "Succeeded") || !strcmp(outcome, "Failed");
	for (size_t i = 0; i < p->n_ctr && over; i++)
		if (p->ctr[i].wanted)
			return "Running";
	return outcome;
}

static bool resources_of(const yyjson_val *c, bool *any, bool *guaranteed)
{
	const char *names[] = {"cpu", "memory"};
	for (size_t i = 0; i < TD_LEN(names); i++) {
		yyjson_val *l = td_jkey(td_jget(c, "resources.limits"), names[i]),
			   *q = td_jkey(td_jget(c, "resources.requests"), names[i]);
		*any = *any || l || q;
		if (!l || (q && !td_jequal(l, q)))
			*guaranteed = false;
	}
	return *any;
}

const char *td_kubelet_status_qos(const yyjson_val *pod)
{
	bool any = false, guaranteed = true;
	const char *lists[] = {"spec.containers", "spec.initContainers"};
	for (size_t k = 0; k < TD_LEN(lists); k++) {
		yyjson_val *c;
		size_t i, n;
		yyjson_arr_foreach (td_jget(pod, lists[k]), i, n, c) {
			resources_of(c, &any, &guaranteed);
		}
	}
	return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

// ---- the document ----

static void when(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, int64_t ms)
{
	char buf[TD_TIME_LEN];
	if (ms > 0)
		td_jm_str(d, o, key, td_time_format(ms, buf));
	else
		td_jm_set(d, o, key, yyjson_mut_null(d));
}

static void put_end(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_ctr_end *e)
{
	yyjson_mut_val *t = td_jm_obj(d, o, "terminated");
	td_jm_int(d, t, "exitCode", e->exit_code);
	if (e->signal)
		td_jm_int(d, t, "signal", e->signal);
	td_jm_str(d, t, "reason", e->reason);
	if (e->message && *e->message)
		td_jm_str(d, t, "message", e->message);
	when(d, t, "startedAt", e->started_ms ? e->started_ms : e->finished_ms);
	when(d, t, "finishedAt", e->finished_ms);
	if (e->id)
		td_jm_strf(d, t, "containerID", "tandem://%s", e->id);
}

static void put_ctr(yyjson_mut_doc *d, yyjson_mut_val *arr, const struct td_pod *p, const struct td_ctr *c,
		    const char *id)
{
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, arr), *st = td_jm_obj(d, o, "state"),
		       *last = td_jm_obj(d, o, "lastState");
	td_jm_str(d, o, "name", c->name);

	// A terminated container that waits to run again shows that it waits. How it ended is its
	// lastState.
	bool waits = c->state == TD_CTR_WAITING || (c->state == TD_CTR_TERMINATED && c->wait_reason);
	if (waits) {
		yyjson_mut_val *w = td_jm_obj(d, st, "waiting");
		const char *reason = c->wait_reason ? c->wait_reason : p->wait_reason ? p->wait_reason : NULL;
		const char *message = c->wait_reason ? c->wait_message : p->wait_message;
		td_jm_str(d, w, "reason", reason ? reason : td_kubelet_status_waiting(p));
		if (message)
			td_jm_str(d, w, "message", message);
	} else if (c->state == TD_CTR_RUNNING) {
		when(d, td_jm_obj(d, st, "running"), "startedAt", c->started_ms);
	} else {
		put_end(d, st, &c->end);
	}

	const struct td_ctr_end *before = waits && c->end.valid ? &c->end : c->last.valid ? &c->last : NULL;
	if (before)
		put_end(d, last, before);
	td_jm_bool(d, o, "ready", ready(c));
	td_jm_bool(d, o, "started", c->kind == TD_CTR_INIT ? false : started(c));
	td_jm_int(d, o, "restartCount", c->attempt > 0 ? c->attempt : 0);
	td_jm_str(d, o, "image", c->image);
	td_jm_str(d, o, "imageID", c->image_id ? c->image_id : "");
	if (id)
		td_jm_strf(d, o, "containerID", "tandem://%s", id);
}

// Sets the generation that this status is about. An object of an older version has none.
static void observed(yyjson_mut_doc *d, yyjson_mut_val *o, const yyjson_val *pod)
{
	int64_t generation = td_jint(pod, "metadata.generation", 0);
	if (generation > 0)
		td_jm_int(d, o, "observedGeneration", generation);
}

struct status_condition {
	int which; // TD_COND_…
	bool value;
	const char *reason, *message; // of false; NULL: none
};

// live: the pod's object, whose times stand where nothing changed.
static void condition(yyjson_mut_doc *d, yyjson_mut_val *arr, struct td_pod *p, const struct status_condition *c,
		      const yyjson_val *live, int64_t now_ms)
{
	static const char *const types[TD_CONDS] = {"PodScheduled", "Initialized", "ContainersReady", "Ready",
						    "PodReadyToStartContainers"};
	const char *status = c->value ? "True" : "False";
	if (!p->cond[c->which].known) {
		yyjson_val *v;
		size_t i, n;
		p->cond[c->which].since = now_ms;
		yyjson_arr_foreach (td_jget(live, "status.conditions"), i, n, v) {
			if (td_streq(td_jstr(v, "type"), types[c->which]) && td_streq(td_jstr(v, "status"), status))
				td_time_parse(td_jstr_or(v, "lastTransitionTime", ""), &p->cond[c->which].since);
		}
	} else if (p->cond[c->which].value != c->value) {
		p->cond[c->which].since = now_ms;
	}

	p->cond[c->which].known = true;
	p->cond[c->which].value = c->value;

	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, arr);
	td_jm_str(d, o, "type", types[c->which]);
	observed(d, o, live);
	td_jm_str(d, o, "status", status);
	td_jm_set(d, o, "lastProbeTime", yyjson_mut_null(d));
	when(d, o, "lastTransitionTime", p->cond[c->which].since);
	if (c->reason && !c->value) {
		td_jm_str(d, o, "reason", c->reason);
		if (c->message && *c->message)
			td_jm_str(d, o, "message", c->message);
	} else {
		// A merge would leave those of an earlier False.
		td_jm_set(d, o, "reason", yyjson_mut_null(d));
		td_jm_set(d, o, "message", yyjson_mut_null(d));
	}
}

static bool gates_open(const yyjson_val *pod)
{
	yyjson_val *g;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod, "spec.readinessGates"), i, n, g)
		if (!td_condition_true(pod, td_jstr_or(g, "conditionType", "")))
			return false;
	return true;
}

static void put_conditions(yyjson_mut_doc *d, yyjson_mut_val *o, struct td_pod *p, const yyjson_val *pod,
			   const char *phase, int64_t now)
{
	yyjson_mut_val *arr = td_jm_arr(d, o, "conditions");
	td_auto_buf struct td_buf unready = {0}, uninit = {0};
	size_t n = 0;

	for (size_t i = 0; i < p->n_ctr; i++) {
		const struct td_ctr *c = &p->ctr[i];
		if (c->kind != TD_CTR_INIT && !ready(c))
			td_buf_printf(&unready, "%s%s", n++ ? " " : "", c->name);
		if (i < p->n_init && (c->kind == TD_CTR_INIT ? !ready(c) : !started(c)))
			td_buf_printf(&uninit, "%s%s", uninit.len ? " " : "", c->name);
	}

	bool done = !strcmp(phase, "Succeeded"), failed = !strcmp(phase, "Failed"),
	     init = td_kubelet_status_initialized(p);
	bool ok = !n && init && !done && !failed, gates = gates_open(pod);
	td_auto_free char *why = td_asprintf("containers with unready status: [%s]", td_buf_str(&unready));
	td_auto_free char *why_init = td_asprintf("containers with incomplete status: [%s]", td_buf_str(&uninit));
	const char *reason = done     ? "PodCompleted"
			     : failed ? "PodFailed"
				      : "ContainersNotReady",
		   *msg = done || failed ? NULL : why;

	condition(d, arr, p, &(struct status_condition){TD_COND_READY_TO_START, p->net_up && !p->cleaned, NULL, NULL},
		  pod, now);
	condition(d, arr, p,
		  &(struct status_condition){TD_COND_INITIALIZED, init || done, "ContainersNotInitialized", why_init},
		  pod, now);
	condition(d, arr, p,
		  &(struct status_condition){TD_COND_READY, ok && gates, ok ? "ReadinessGatesNotReady" : reason,
					     ok ? NULL : msg},
		  pod, now);
	condition(d, arr, p, &(struct status_condition){TD_COND_CONTAINERS_READY, ok, reason, msg}, pod, now);
	condition(d, arr, p, &(struct status_condition){TD_COND_SCHEDULED, true, NULL, NULL}, pod, now);
}

struct td_json *td_kubelet_status_build(struct td_pod *p, const yyjson_val *pod, const char *host_ip, int64_t now_ms)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *arr;
	const char *phase = td_kubelet_status_phase(p, pod);

	observed(d, o, pod);
	td_jm_str(d, o, "phase", phase);
	td_jm_str(d, o, "reason", p->fail_reason);
	td_jm_str(d, o, "message", p->fail_message);
	td_jm_str(d, o, "qosClass", td_kubelet_status_qos(pod));
	td_jm_str(d, o, "hostIP", host_ip);
	arr = td_jm_arr(d, o, "hostIPs");
	td_jm_str(d, yyjson_mut_arr_add_obj(d, arr), "ip", host_ip);

	const char *ip = p->host_network ? host_ip : p->ip;
	if (*ip && p->admitted) {
		td_jm_str(d, o, "podIP", ip);
		arr = td_jm_arr(d, o, "podIPs");
		td_jm_str(d, yyjson_mut_arr_add_obj(d, arr), "ip", ip);
	}

	when(d, o, "startTime", p->start_ms);
	// A pod that was refused at admission never had containers.
	if (p->admitted) {
		put_conditions(d, o, p, pod, phase, now_ms);
		bool begun = td_pod_begun(p);
		// Containers of a pod that failed before its first one started wait for nothing:
		// the pod's reason says it all.
		for (size_t i = 0; i < p->n_ctr && (begun || !p->fail_reason); i++) {
			arr = td_jm_arr(d, o, i < p->n_init ? "initContainerStatuses" : "containerStatuses");
			put_ctr(d, arr, p, &p->ctr[i], p->ctr[i].id);
		}
	}

	return td_jm_done(d);
}

bool td_kubelet_status_shown(const yyjson_val *ours, const yyjson_val *live)
{
	yyjson_val *k, *v, *c, *x;
	size_t i, n, a, an, b, bn;
	yyjson_obj_foreach ((yyjson_val *)ours, i, n, k, v) {
		if (strcmp(yyjson_get_str(k), "conditions")) {
			if (!td_jequal(v, td_jkey(live, yyjson_get_str(k))))
				return false;
			continue;
		}

		yyjson_arr_foreach (v, a, an, c) {
			bool same = false;
			yyjson_arr_foreach (td_jget(live, "conditions"), b, bn, x) {
				same = same || (td_streq(td_jstr(c, "type"), td_jstr(x, "type")) &&
						td_streq(td_jstr(c, "status"), td_jstr(x, "status")) &&
						td_streq(td_jstr(c, "reason"), td_jstr(x, "reason")) &&
						td_streq(td_jstr(c, "message"), td_jstr(x, "message")));
			}
			if (!same)
				return false;
		}
	}
	return true;
}
