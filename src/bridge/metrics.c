// What the leading bridge shows of the pool at /metrics. A scrape reads what the bridge knows
// already; nothing asks Slurm or the API server for it.
#include "bridge/again.h"
#include "bridge/policy/policies.h"
#include "bridge/ready.h"
#include "bridge/scheduler/gang.h"

#include "kube/service.h"
#include "metrics/metrics.h"
#include "slurm/hostlist.h"
#include "slurm/tocome.h"

#include <pthread.h>
#include <string.h>

enum { KINDS_MAX = 32, GRES_PER_NODE = 16 };

static struct {
	pthread_mutex_t lock; // guards b; held during a whole scrape
	struct td_bridge *b;  // NULL: this process does not lead
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	struct td_metric *asks, *jobs, *nodes, *devices, *cpus, *memory, *view_age, *lost, *gate_alarm, *bind, *ready,
		*held, *services;
	struct td_metric *allocated, *refused, *submits, *bound, *pods_ended, *jobs_ended, *lists;
	struct td_metric *passes, *reads, *moves, *again, *fragmented;
} m;

static void make(void)
{
	static const double bind[] = {.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400};
	struct td_metrics *r = td_metrics_process();

	m.asks = td_gauge(r, "tandem_bridge_asks",
			  "Pods of this scheduler that have not ended: new (no Slurm job yet), queued (the job waits), "
			  "starting (Slurm prepares the node), granted (the job runs, the pod is not bound yet), "
			  "bound, ending, refused (will never run).",
			  TD_LABELS("state"));
	m.jobs = td_gauge(r, "tandem_pool_jobs",
			  "Slurm's jobs that have not ended, as last seen: standin (for pods) or native; pending, "
			  "starting, running, ending or other.",
			  TD_LABELS("kind", "state"));

	m.nodes = td_gauge(r, "tandem_pool_nodes", "Slurm's nodes by state, in sinfo's words.", TD_LABELS("state"));
	m.devices = td_gauge(r, "tandem_pool_devices",
			     "Devices of Slurm's nodes: given to pods, given to native jobs, idle, or unavailable "
			     "(free, on a node that starts no job). The states add up to all.",
			     TD_LABELS("device", "state"));
	m.cpus = td_gauge(r, "tandem_pool_cpus",
			  "CPUs of Slurm's nodes: allocated, idle, or unavailable. The states add up to all.",
			  TD_LABELS("state"));
	m.memory = td_gauge(
		r, "tandem_pool_memory_bytes",
		"Memory of Slurm's nodes, in bytes: allocated, idle, or unavailable. The states add up to all.",
		TD_LABELS("state"));

	m.view_age = td_gauge(r, "tandem_bridge_view_age_seconds",
			      "How old the bridge's last look at Slurm's nodes is, in seconds.", NULL);
	m.lost = td_gauge(r, "tandem_bridge_slurm_state_lost",
			  "1 while Slurm seems to have lost its state: no pod is ended, the pool is drained.", NULL);
	m.gate_alarm = td_gauge(
		r, "tandem_bridge_gate_alarm",
		"1 after so many nodes were held up by their last holders that no more are drained for it.", NULL);
	m.bind = td_histogram(r, "tandem_bridge_bind_duration_seconds",
			      "From a pod's creation, as the bridge saw it, to its binding, in seconds.", NULL, bind,
			      TD_LEN(bind));
	m.ready = td_histogram(r, "tandem_bridge_ready_duration_seconds",
			       "From a pod's creation until it was ready for the first time, in seconds.",
			       TD_LABELS("namespace"), bind, TD_LEN(bind));
	m.held = td_gauge(r, "tandem_pool_namespace_devices", "Devices that the bound pods of a namespace hold.",
			  TD_LABELS("namespace", "device"));
	m.services = td_gauge(r, "tandem_pool_service_devices",
			      "Devices that the bound pods of a service (Deployment, StatefulSet, InferenceService, "
			      "endpoint, …) hold.",
			      TD_LABELS("namespace", "kind", "service", "device"));

	m.allocated = td_counter(r, "tandem_bridge_allocations_total", "Pods that Slurm gave resources to in one call.",
				 NULL);
	m.refused = td_counter(r, "tandem_bridge_allocations_refused_total",
			       "Such calls that Slurm refused: the pod stands in line.", NULL);
	m.submits = td_counter(r, "tandem_bridge_submits_total", "Stand-in jobs submitted to Slurm's queue.", NULL);
	m.bound = td_counter(r, "tandem_bridge_bound_total", "Pods bound to a node.", NULL);
	m.pods_ended =
		td_counter(r, "tandem_bridge_pods_ended_total", "Pods ended because Slurm ended their job.", NULL);
	m.jobs_ended =
		td_counter(r, "tandem_bridge_jobs_ended_total", "Slurm jobs ended because their pod ended.", NULL);
	m.fragmented = td_gauge(r, "tandem_pool_fragmented_devices",
				"Devices that are free on nodes which have too few free: for a whole node, or for the "
				"largest request of one node that waits, as far as the bridge knows it.",
				TD_LABELS("partition", "device", "for"));
	td_metric_zero(td_counter(r, "tandem_pod_stragglers_total",
				  "Pods of gangs whose devices computed less than those of the others.", NULL),
		       NULL);
	m.passes = td_counter(r, "tandem_bridge_policy_passes_total",
			      "Looks at all waiting jobs, in which order their policies want them.", NULL);
	m.reads =
		td_counter(r, "tandem_bridge_policy_reads_total", "Records of jobs that were read for policies.", NULL);
	m.moves = td_counter(r, "tandem_bridge_policy_moves_total",
			     "Jobs whose priority was changed for the order of their policy.", NULL);
	m.again =
		td_counter(r, "tandem_bridge_jobs_begun_again_total",
			   "Native jobs that were queued again and began before Slurm's two minutes were over.", NULL);
	m.lists = td_counter(r, "tandem_bridge_job_listings_total", "Complete listings of Slurm's jobs.", NULL);
}

// ---- asks ----

static const char *const ask_states[] = {"new", "queued", "starting", "granted", "bound", "ending", "refused"};

// One of ask_states; NULL: the pod has ended.
static const char *ask_state(struct td_bridge *b, const struct td_object *pod)
{
	if (td_kube_pod_ended(pod->root))
		return NULL;
	if (td_object_deleting(pod))
		return "ending";
	if (td_jstr(pod->root, "spec.nodeName"))
		return "bound";

	const char *s = "new";
	td_auto(td_ask_unref) struct td_ask *lone = td_ask_get(b->asks, pod->uid);
	td_auto(td_ask_unref) struct td_ask *gang = lone ? NULL : td_gang_ask(b, pod),
					    *a = td_ask_ref(lone ? lone : gang);
	if (!a)
		return s;

	pthread_mutex_lock(&b->asks->lock);
	enum td_job_phase p = td_job_phase(a->states);
	if (a->refused)
		s = "refused";
	else if (a->job && a->know == TD_JOB_READ)
		s = p == TD_PHASE_WAITING    ? "queued"
		    : p == TD_PHASE_STARTING ? "starting"
		    : p == TD_PHASE_RUNNING  ? "granted"
					     : "ending";
	pthread_mutex_unlock(&b->asks->lock);

	return s;
}

// Adds what a bound pod was granted to its namespace and its service.
static void add_held(const struct td_settings *s, const struct td_object *pod)
{
	const char *granted = td_object_annotation(pod, TD_ANN_DEVICES);
	struct td_service of;
	bool service = granted && td_service_of(pod, &of);
	for (size_t i = 0; s && granted && i < s->n_gres; i++) {
		int64_t n = td_devices_count(granted, s->gres[i].resource);
		double devices = (double)(n * td_devices_units(granted)) / TD_GPU_UNITS;
		if (n <= 0)
			continue;
		td_metric_add(m.held, devices, TD_LABELS(pod->ns, s->gres[i].name));
		if (service)
			td_metric_add(m.services, devices, TD_LABELS(pod->ns, of.kind, of.name, s->gres[i].name));
	}
}

static void collect_asks(struct td_bridge *b)
{
	td_auto(td_settings_unref) struct td_settings *settings = td_bridge_settings(b);

	td_metric_forget(m.held, NULL);
	td_metric_forget(m.services, NULL);
	for (size_t i = 0; i < TD_LEN(ask_states); i++)
		td_metric_set(m.asks, 0, TD_LABELS(ask_states[i]));

	td_auto_objects struct td_objects pods = {0};
	td_informer_list(b->pods, NULL, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const char *s = ask_state(b, pods.v[i]);
		if (s)
			td_metric_add(m.asks, 1, TD_LABELS(s));
		if (s && td_jstr(pods.v[i]->root, "spec.nodeName"))
			add_held(settings, pods.v[i]);
	}
}

// ---- devices ----

// What the stand-in job of one ask holds on its node.
struct held {
	char *node, *devices; // JSON: {"nvidia.com/gpu":"0-1"}
};

// Caller frees the array and its strings.
static struct held *held_by_asks(struct td_bridge *b, size_t *ret_n)
{
	struct td_ask **v;
	size_t n, k = 0;
	td_asks_all(b->asks, &v, &n);
	size_t parts = 0;
	pthread_mutex_lock(&b->asks->lock);
	for (size_t i = 0; i < n; i++)
		parts += 1 + v[i]->n_parts;
	pthread_mutex_unlock(&b->asks->lock);
	struct held *h = td_calloc(parts + 1, sizeof(*h));

	for (size_t i = 0; i < n; i++) {
		pthread_mutex_lock(&b->asks->lock);
		enum td_job_phase p = td_job_phase(v[i]->states);
		bool holds = v[i]->job && (p == TD_PHASE_STARTING || p == TD_PHASE_RUNNING || p == TD_PHASE_LOST ||
					   p == TD_PHASE_ENDING);
		for (size_t j = 0; holds && j < v[i]->n_parts && k < parts; j++)
			h[k++] = (struct held){td_strdup(v[i]->parts[j].node), td_strdup(v[i]->parts[j].devices)};
		if (holds && !v[i]->n_parts && v[i]->nodes && v[i]->devices && k < parts)
			h[k++] = (struct held){td_strdup(v[i]->nodes), td_strdup(v[i]->devices)};
		pthread_mutex_unlock(&b->asks->lock);
		td_ask_unref(v[i]);
	}

	free(v);
	*ret_n = k;
	return h;
}

static int by_node(const void *a, const void *b)
{
	return strcmp(((const struct held *)a)->node, ((const struct held *)b)->node);
}

// `h` is sorted by node.
static int64_t held_on(const struct held *h, size_t n, const struct td_settings *s, const char *node,
		       const char *device)
{
	int64_t sum = 0;
	const struct held key = {.node = (char *)(uintptr_t)node};
	const struct held *x = n ? bsearch(&key, h, n, sizeof(*h), by_node) : NULL;
	while (x && x > h && !strcmp(x[-1].node, node))
		x--;

	for (; x && x < h + n && !strcmp(x->node, node); x++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		if (td_json_parse(x->devices, strlen(x->devices), &j, NULL))
			continue;
		for (size_t k = 0; k < s->n_gres; k++) {
			struct td_ranges r = {0};
			const char *text = td_jkey_str(td_json_root(j), s->gres[k].resource);
			if (text && !strcmp(s->gres[k].name, device) && td_ranges_parse(text, &r, NULL) == 0)
				sum += td_ranges_count(&r);
		}
	}
	return sum;
}

static int64_t count_of(const struct td_gres *g, size_t n, const char *name)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += strcmp(g[i].name, name) == 0 ? g[i].count : 0;
	return sum;
}

static void node_devices(const struct td_slurm_node *x, const struct td_settings *s, const struct held *h,
			 size_t n_held)
{
	struct td_gres all[GRES_PER_NODE], used[GRES_PER_NODE];
	size_t n = 0, n_used = 0;

	if (!x->gres || td_gres_parse(x->gres, all, TD_LEN(all), &n, NULL))
		return;
	if (x->gres_used && td_gres_parse(x->gres_used, used, TD_LEN(used), &n_used, NULL))
		n_used = 0;

	for (size_t i = 0; i < n; i++) {
		const char *d = all[i].name;
		bool first = true;
		for (size_t k = 0; k < i; k++)
			first &= strcmp(all[k].name, d) != 0;
		if (!first)
			continue; // another type of the same device

		int64_t total = count_of(all, n, d), given = count_of(used, n_used, d),
			pods = held_on(h, n_held, s, x->name, d);
		given = given > total ? total : given < pods ? pods : given;
		pods = pods > total ? total : pods;

		int64_t rest = total > given ? total - given : 0;
		bool usable = td_slurm_node_usable(x->states);

		td_metric_add(m.devices, (double)pods, TD_LABELS(d, "pod"));
		td_metric_add(m.devices, (double)(given > pods ? given - pods : 0), TD_LABELS(d, "native"));
		td_metric_add(m.devices, usable ? (double)rest : 0, TD_LABELS(d, "idle"));
		td_metric_add(m.devices, usable ? 0 : (double)rest, TD_LABELS(d, "unavailable"));
	}
}

// Adds `given` as allocated, and what is left of `total` as idle or unavailable, each times `unit`.
static void amount(struct td_metric *f, int64_t total, int64_t given, bool usable, double unit)
{
	given = given > total ? total : given < 0 ? 0 : given;
	td_metric_add(f, (double)given * unit, TD_LABELS("allocated"));
	td_metric_add(f, usable ? (double)(total - given) * unit : 0, TD_LABELS("idle"));
	td_metric_add(f, usable ? 0 : (double)(total - given) * unit, TD_LABELS("unavailable"));
}

static void collect_nodes(struct td_bridge *b)
{
	struct td_metric *const fresh[] = {m.nodes, m.devices, m.cpus, m.memory, m.fragmented};
	for (size_t i = 0; i < TD_LEN(fresh); i++)
		td_metric_forget(fresh[i], NULL);

	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	if (!snap || !s)
		return;

	td_metric_set(m.view_age, (double)(td_now(b) - snap->asked_ms) / 1000, NULL);

	size_t n;
	struct held *h = held_by_asks(b, &n);
	if (n)
		qsort(h, n, sizeof(*h), by_node);

	static const char *const always[] = {"idle", "mixed", "allocated", "draining", "drained", "down"};
	for (size_t i = 0; i < TD_LEN(always); i++)
		td_metric_set(m.nodes, 0, TD_LABELS(always[i]));

	for (size_t i = 0; i < snap->nodes.n; i++) {
		const struct td_slurm_node *x = &snap->nodes.v[i];
		if (td_slurm_is_to_come(x->features))
			continue;
		bool usable = td_slurm_node_usable(x->states);
		td_metric_add(m.nodes, 1, TD_LABELS(td_slurm_node_words(x->states)));
		amount(m.cpus, x->cpus, x->alloc_cpus, usable, 1);
		amount(m.memory, x->memory_mb, x->alloc_memory_mb, usable, 1 << 20);
		node_devices(x, s, h, n);
	}

	for (size_t i = 0; i < n; i++) {
		free(h[i].node);
		free(h[i].devices);
	}
	free(h);
	td_bridge_measure_fragments(b, m.fragmented, snap);
}

// ---- jobs ----

static void collect_jobs(struct td_bridge *b)
{
	static const char *const kinds[] = {"native", "standin"}, *const states[] = {"pending", "starting", "running",
										     "ending", "other"};
	struct td_slurm_job_counts c;

	td_slurm_view_counts(b->view, &c);

	for (size_t mine = 0; mine < 2; mine++) {
		const size_t v[] = {c.n[mine][TD_PHASE_WAITING], c.n[mine][TD_PHASE_STARTING],
				    c.n[mine][TD_PHASE_RUNNING], c.n[mine][TD_PHASE_ENDING],
				    c.n[mine][TD_PHASE_LOST] + c.n[mine][TD_PHASE_UNKNOWN]};
		for (size_t k = 0; k < TD_LEN(v); k++)
			td_metric_set(m.jobs, (double)v[k], TD_LABELS(kinds[mine], states[k]));
	}
}

static void collect(void *ctx)
{
	pthread_mutex_lock(&live.lock);
	struct td_bridge *b = live.b;
	if (b) {
		collect_asks(b);
		collect_nodes(b);
		collect_jobs(b);
		const struct td_policies_counts policies = td_policies_counts(b);
		const struct {
			struct td_metric *f;
			uint64_t v;
		} rows[] = {{m.allocated, atomic_load(&b->n_allocated)},
			    {m.refused, atomic_load(&b->n_refused_fast)},
			    {m.submits, atomic_load(&b->n_submitted)},
			    {m.bound, atomic_load(&b->n_bound)},
			    {m.pods_ended, atomic_load(&b->n_ended_pods)},
			    {m.jobs_ended, atomic_load(&b->n_ended_jobs)},
			    {m.lists, atomic_load(&b->n_lists)},
			    {m.lost, atomic_load(&b->lost)},
			    {m.gate_alarm, atomic_load(&b->gate_alarm)},
			    {m.passes, policies.passes},
			    {m.reads, policies.reads},
			    {m.moves, policies.moves},
			    {m.again, td_agains_count(b)}};

		for (size_t i = 0; i < TD_LEN(rows); i++)
			td_metric_set(rows[i].f, (double)rows[i].v, NULL);
	}
	pthread_mutex_unlock(&live.lock);
}

static void once(void)
{
	make();
	td_metrics_on_collect(td_metrics_process(), collect, NULL);
}

void td_bridge_measure(struct td_bridge *b)
{
	static pthread_once_t o = PTHREAD_ONCE_INIT;
	pthread_once(&o, once);

	pthread_mutex_lock(&live.lock);
	live.b = b;

	struct td_metric *const gauges[] = {m.asks,     m.jobs, m.nodes,      m.devices, m.cpus,     m.memory,
					    m.view_age, m.lost, m.gate_alarm, m.held,    m.services, m.fragmented};
	for (size_t i = 0; !b && i < TD_LEN(gauges); i++)
		// A bridge that does not lead knows nothing of the pool.
		td_metric_forget(gauges[i], NULL);
	pthread_mutex_unlock(&live.lock);
}

void td_bridge_measure_bound(struct td_bridge *b, const struct td_ask *a, const struct td_object *pod)
{
	int64_t now = td_real_ms(b->clock), created = now;
	(void)td_time_parse(td_jstr_or(pod->root, "metadata.creationTimestamp", ""), &created);

	// creationTimestamp has whole seconds. A bridge that saw the pod as it was created knows
	// the time better.
	bool saw = a->seen_ms >= created && a->seen_ms - created < 2000;
	int64_t ms = now - (saw ? a->seen_ms : created);
	td_metric_observe(m.bind, ms > 0 ? (double)ms / 1000 : 0, NULL);
}

void td_bridge_measure_ready(void *bridge, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = bridge;
	int64_t ms = td_readies_look(b->readies, old, now, td_real_ms(b->clock));
	if (ms >= 0 && m.ready)
		td_metric_observe(m.ready, (double)ms / 1000, TD_LABELS(now->ns));
}
