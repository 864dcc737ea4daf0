#include "gate/probe.h"

#include "base/log.h"
#include "base/names.h"
#include "gate/out.h"
#include "kube/kube.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ARRIVE_MS = 2000, BESIDE_MS = 3000, MEMORY_MS = 200, MORE_MS = 20000, MOST_MS = 600000 };

struct probe_node {
	atomic_bool running;
	atomic_llong arrived_ms; // mono: somebody came last
	bool seen;               // of the informer's thread
	struct td_cancel *cancel;
	char id[64]; // of the one that was begun last
};
struct td_gate_probes {
	struct td_gate_probes_opts o;
	pthread_mutex_t mu; // guards node and live
	pthread_cond_t ended;
	int live; // threads
	struct probe_node *node;
};
struct probe_run {
	struct td_gate_probes *p;
	int node;
	struct td_cancel *cancel;
	char id[64];
	int64_t ms;
};

static void count(const char *node, const char *result, double n)
{
	td_metric_add(
		td_counter(
			td_metrics_process(), "tandem_idle_tests_total",
			"Tests of nodes while they were idle; result: passed, failed, ended (work came), or error (no "
			"test took place).",
			TD_LABELS("node", "result")),
		n, TD_LABELS(node, result));
}

static void figure(const char *node, const char *what, double v)
{
	if (v > 0)
		td_metric_set(
			td_gauge(td_metrics_process(), "tandem_node_measured",
				 "What the last test of the idle node measured: gflops (of its devices), memory-MBps, "
				 "disk-write-MBps, disk-read-MBps.",
				 TD_LABELS("node", "figure")),
			v, TD_LABELS(node, what));
}

struct td_gate_probes *td_gate_probes_new(const struct td_gate_probes_opts *o)
{
	static const char *const results[] = {"passed", "failed", "ended", "error"};
	struct td_gate_probes *p = td_calloc(1, sizeof(*p));
	pthread_condattr_t a;
	p->o = *o;
	p->node = td_calloc((size_t)o->n, sizeof(*p->node));
	for (int i = 0; i < o->n; i++)
		atomic_init(&p->node[i].arrived_ms, td_mono_ms(o->clock) - BESIDE_MS);
	pthread_mutex_init(&p->mu, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&p->ended, &a);
	pthread_condattr_destroy(&a);
	for (int i = 0; i < o->n; i++)
		for (size_t k = 0; k < TD_LEN(results); k++)
			count(o->names[i], results[k], 0);
	return p;
}

struct td_gate_probes *td_gate_probes_free(struct td_gate_probes *p)
{
	if (!p)
		return NULL;
	pthread_mutex_lock(&p->mu);
	for (int i = 0; i < p->o.n; i++)
		if (p->node[i].cancel)
			td_cancel_fire(p->node[i].cancel);
	while (p->live)
		pthread_cond_wait(&p->ended, &p->mu);
	pthread_mutex_unlock(&p->mu);
	for (int i = 0; i < p->o.n; i++)
		td_cancel_unref(p->node[i].cancel);
	pthread_mutex_destroy(&p->mu);
	pthread_cond_destroy(&p->ended);
	free(p->node);
	free(p);
	return NULL;
}

// Those of the node's devices that are in service and that nobody holds.
static uint64_t free_devices(struct td_gate_probes *p, int node)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(p->o.nodes, NULL, p->o.names[node]);
	int n = p->o.devices(p->o.ctx, node);
	struct td_holder h;
	uint64_t mask = 0;
	for (int i = 0; i < n && i < TD_HEALTH_GPUS; i++)
		if (!td_gate_holder(p->o.gate, node, i, &h))
			mask |= UINT64_C(1) << i;
	return td_out_less(o, mask);
}

static const char *measure(struct probe_run *x, struct td_preflight_figures *f, char *why, size_t n)
{
	struct td_error e = TD_ERROR_INIT;
	if (td_cancelled(x->cancel))
		return "ended";
	const struct td_preflight_probe q = {
		.node = x->node, .mask = free_devices(x->p, x->node), .ms = x->ms, .limit_ms = x->ms + MORE_MS};
	int r = q.mask ? td_preflight_probe(x->p->o.preflight, &q, x->cancel, f, why, n, &e) : 0;
	bool bad = r == TD_DENIED;
	if (bad)
		r = 0;
	if (!r)
		r = td_checkup_memory(MEMORY_MS, x->cancel, &f->memory, &e);
	if (!r && (r = td_checkup_disk(x->p->o.state, x->cancel, &f->disk_write, &f->disk_read, &e)) == TD_UNSUPPORTED)
		r = 0; // a file system without files that have no name
	if (r && !bad)
		snprintf(why, n, "%.120s", e.msg);
	return bad ? "failed" : td_cancelled(x->cancel) ? "ended" : r ? "error" : "passed";
}

static void add_real(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, double v)
{
	if (v > 0)
		yyjson_mut_obj_add_real(d, o, key, (double)(int64_t)(v * 10 + 0.5) / 10);
}

static void tell(struct probe_run *x, const char *result, double took_s, const struct td_preflight_figures *f,
		 const char *why)
{
	const char *node = x->p->o.names[x->node];
	char when[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *patch = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *root = yyjson_mut_doc_get_root(patch);
	td_jm_str(d, o, "id", x->id);
	td_jm_str(d, o, "at", td_time_format(td_real_ms(x->p->o.clock), when));
	td_jm_str(d, o, "result", result);
	td_jm_int(d, o, "milliseconds", (long long)(took_s * 1000));
	td_jm_str(d, o, "message", *why ? why : NULL);
	add_real(d, o, "gflops", f->gflops);
	add_real(d, o, "memoryMBps", f->memory);
	add_real(d, o, "diskWriteMBps", f->disk_write);
	add_real(d, o, "diskReadMBps", f->disk_read);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	td_jm_key_str(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_PROBED, text);
	struct td_error e = TD_ERROR_INIT;
	if (td_kube_patch(x->p->o.kube, TD_AT(&td_nodes, NULL, node), TD_PATCH_MERGE, root, NULL, NULL, &e))
		td_warn("node %s: what its test found is not told: %s", node, e.msg); // it is asked for again
	count(node, result, 1);
	figure(node, "gflops", f->gflops);
	figure(node, "memory-MBps", f->memory);
	figure(node, "disk-write-MBps", f->disk_write);
	figure(node, "disk-read-MBps", f->disk_read);
	if (!strcmp(result, "failed") || !strcmp(result, "error"))
		td_warn("node %s: its test while idle: %s: %s", node, result, why);
}

static void *run(void *ctx)
{
	struct probe_run *x = ctx;
	struct td_gate_probes *p = x->p;
	struct td_preflight_figures f = {0};
	char why[128] = "";
	int64_t begun = td_mono_ms(p->o.clock);
	const char *result = measure(x, &f, why, sizeof(why));
	double took = (double)(td_mono_ms(p->o.clock) - begun) / 1000;
	// From here on nothing of it is left on the node.
	pthread_mutex_lock(&p->mu);
	atomic_store(&p->node[x->node].running, false);
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->mu);
	if (!strcmp(result, "ended"))
		f = (struct td_preflight_figures){0}; // halves
	tell(x, result, took, &f, why);
	if (!strcmp(result, "failed") && p->o.found)
		p->o.found(p->o.ctx, x->node);
	td_cancel_unref(x->cancel);
	free(x);
	pthread_mutex_lock(&p->mu);
	p->live--;
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->mu);
	return NULL;
}

// over: it has been ended before it began, and says so.
static void begin(struct td_gate_probes *p, int node, const char *id, int64_t ms, bool over)
{
	struct probe_node *n = &p->node[node];
	pthread_mutex_lock(&p->mu);
	bool begins = !atomic_load(&n->running) && strcmp(n->id, id) != 0;
	if (begins) {
		pthread_t thread;
		struct probe_run *x = td_calloc(1, sizeof(*x));
		td_cancel_unref(n->cancel);
		n->cancel = td_cancel_new();
		if (over)
			td_cancel_fire(n->cancel);
		*x = (struct probe_run){p, node, td_cancel_ref(n->cancel), "", ms};
		snprintf(x->id, sizeof(x->id), "%s", id);
		snprintf(n->id, sizeof(n->id), "%s", id);
		atomic_store(&n->running, true);
		p->live++;
		if (!pthread_create(&thread, NULL, run, x)) {
			pthread_detach(thread);
		} else {
			p->live--;
			atomic_store(&n->running, false);
			td_cancel_unref(x->cancel);
			free(x);
		}
	}
	pthread_mutex_unlock(&p->mu);
}

static void end(struct td_gate_probes *p, int node)
{
	pthread_mutex_lock(&p->mu);
	if (atomic_load(&p->node[node].running))
		td_cancel_fire(p->node[node].cancel);
	pthread_mutex_unlock(&p->mu);
}

void td_gate_probes_on_node(struct td_gate_probes *p, int node, const struct td_object *now)
{
	// What says that it is drained, or has jobs.
	static const char *const not[] = {TD_ANN_HOLD, TD_ANN_SLURM_STATE, TD_ANN_SLURM_USE, TD_ANN_SLURM_JOBS};
	const char *text = td_object_annotation(now, TD_ANN_PROBE), *said = td_object_annotation(now, TD_ANN_PROBED);
	td_auto(td_json_unref) struct td_json *j = NULL, *k = NULL;
	struct probe_node *n = &p->node[node];
	// What was asked of the agent before this one, or came as somebody did, would come too late.
	bool over = !n->seen || td_mono_ms(p->o.clock) - atomic_load(&n->arrived_ms) < BESIDE_MS;
	n->seen = true;
	for (size_t i = 0; i < TD_LEN(not); i++)
		over |= td_object_annotation(now, not[i]) != NULL;
	if (!text || over) // it is not wanted any more
		end(p, node);
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return;
	const char *id = td_jstr(td_json_root(j), "id");
	int64_t ms = td_jint(td_json_root(j), "milliseconds", 200);
	if (!id || !*id || strlen(id) >= sizeof(p->node[0].id) ||
	    (said && !td_json_parse(said, strlen(said), &k, NULL) && td_streq(td_jstr(td_json_root(k), "id"), id)))
		return;
	begin(p, node, id, ms < 1 ? 1 : ms > MOST_MS ? MOST_MS : ms, over);
}

void td_gate_probes_beside(struct td_gate_probes *p, int node)
{
	atomic_store(&p->node[node].arrived_ms, td_mono_ms(p->o.clock));
	end(p, node);
}

bool td_gate_probes_arrive(struct td_gate_probes *p, int node)
{
	struct probe_node *n = &p->node[node];
	atomic_store(&n->arrived_ms, td_mono_ms(p->o.clock));
	if (!atomic_load(&n->running)) // as nearly always
		return true;
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ARRIVE_MS / 1000;
	pthread_mutex_lock(&p->mu);
	if (atomic_load(&n->running))
		td_cancel_fire(n->cancel);
	while (atomic_load(&n->running))
		if (pthread_cond_timedwait(&p->ended, &p->mu, &until)) {
			td_warn("node %s: its test did not end at once", p->o.names[node]);
			break;
		}
	bool over = !atomic_load(&n->running);
	pthread_mutex_unlock(&p->mu);
	return over;
}
