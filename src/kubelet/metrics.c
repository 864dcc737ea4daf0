// The embedded kubelet's metrics of pods and containers. They are computed when /metrics is read.
#include "kubelet/metrics.h"

#include "kubelet/pods/pod.h"
#include "metrics/metrics.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	pthread_mutex_t lock; // guards a; held during a collection
	struct td_kubelet *a; // NULL before the start and after the end of the role
} live = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const pod_states[] = {"starting", "running", "stopping", "ended"};
// In the order of enum td_ctr_state.
static const char *const ctr_states[] = {"waiting", "running", "terminated"};

void td_kubelet_running(struct td_kubelet *a, struct td_pod *p, struct td_strv *ret)
{
	pthread_mutex_lock(&p->mu);
	for (size_t i = 0; i < p->n_ctr; i++)
		if (p->ctr[i].state == TD_CTR_RUNNING) {
			td_auto_free char *id = td_pod_container_id(a, p, &p->ctr[i]);
			td_strv_add(ret, id);
		}
	pthread_mutex_unlock(&p->mu);
}

// What they have used of CPUs, in us; -1: not known, or none runs.
static int64_t cpu_used(struct td_kubelet *a, struct td_pod *p)
{
	td_auto_strv struct td_strv ids = {0};
	td_kubelet_running(a, p, &ids);
	int64_t sum = 0, one;
	for (size_t i = 0; i < ids.n; i++) {
		if ((one = td_oci_cpu_used(a->oci, ids.v[i])) < 0)
			return -1;
		sum += one;
	}
	return ids.n ? sum : -1;
}

// When those containers wrote last, and how often they began: a number that grows. -1: none runs.
static int64_t output_of(struct td_kubelet *a, struct td_pod *p)
{
	td_auto_strv struct td_strv paths = {0};
	int64_t sum = 0;
	pthread_mutex_lock(&p->mu);
	for (size_t i = 0; i < p->n_ctr; i++)
		if (p->ctr[i].state == TD_CTR_RUNNING) {
			td_auto_free char *path = td_pod_log_path(a, p, &p->ctr[i], p->ctr[i].attempt);
			td_strv_add(&paths, path);
			sum += p->ctr[i].attempt;
		}
	pthread_mutex_unlock(&p->mu);
	for (size_t i = 0; i < paths.n; i++) {
		struct stat st;
		if (!stat(paths.v[i], &st)) // one that never wrote has none
			sum += st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	}
	return paths.n ? sum : -1;
}

void td_kubelet_progress(void *kubelet, int node, const struct td_object *pod, struct td_podhangs_signs *ret)
{
	struct td_kubelet *a = kubelet;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, pod->uid);
	*ret = p ? (struct td_podhangs_signs){cpu_used(a, p), output_of(a, p)} : (struct td_podhangs_signs){-1, -1};
}

int td_kubelet_log(void *kubelet, const struct td_object *pod, const char *container)
{
	struct td_kubelet *a = kubelet;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, pod->uid);
	struct td_ctr *c = p ? td_pod_ctr(p, container) : NULL;
	if (!c)
		return -1;
	pthread_mutex_lock(&p->mu);
	td_auto_free char *path = c->attempt < 0 ? NULL : td_pod_log_path(a, p, c, c->attempt);
	pthread_mutex_unlock(&p->mu);
	return path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

size_t td_kubelet_pids(void *kubelet, const struct td_object *pod, pid_t *v, size_t max)
{
	struct td_kubelet *a = kubelet;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, pod->uid);
	td_auto_strv struct td_strv ids = {0};
	size_t n = 0;
	if (p)
		td_kubelet_running(a, p, &ids);
	for (size_t i = 0; i < ids.n; i++)
		n += td_oci_pids(a->oci, ids.v[i], v + n, max - n);
	return n;
}

static void count_pod(struct td_pod *p, size_t *pods, size_t *ctrs)
{
	bool runs = false;

	pthread_mutex_lock(&p->mu);
	for (size_t i = 0; i < p->n_ctr; i++) {
		ctrs[p->ctr[i].state]++;
		runs |= p->ctr[i].state == TD_CTR_RUNNING;
	}

	pods[p->terminal ? 3 : p->stopping ? 2 : runs ? 1 : 0]++;
	pthread_mutex_unlock(&p->mu);
}

static void collect(void *ctx)
{
	struct td_metrics *m = td_metrics_process();
	struct td_metric *pods = td_gauge(m, "tandem_agent_pods",
					  "Pods on this agent's nodes: starting, running (a container runs), stopping, "
					  "ended (not removed yet).",
					  TD_LABELS("state")),
			 *ctrs = td_gauge(m, "tandem_agent_containers", "Containers of these pods by state.",
					  TD_LABELS("state")),
			 *used = td_counter(m, "tandem_agent_pod_cpu_seconds_total",
					    "CPU time that the containers of a running pod have used.",
					    TD_LABELS("namespace", "pod"));
	size_t n_pods[TD_LEN(pod_states)] = {0}, n_ctrs[TD_LEN(ctr_states)] = {0};

	pthread_mutex_lock(&live.lock);
	struct td_kubelet *a = live.a;
	if (a) {
		td_auto_pods struct td_pods all = {0};
		td_pod_table_all(a->table, &all);
		td_metric_forget(used, NULL);
		for (size_t i = 0; i < all.n; i++) {
			count_pod(all.v[i], n_pods, n_ctrs);
			int64_t us = cpu_used(a, all.v[i]); // one whose figure is not known has none
			if (us >= 0)
				td_metric_set(used, (double)us / 1e6, TD_LABELS(all.v[i]->ns, all.v[i]->name));
		}
		for (size_t i = 0; i < TD_LEN(pod_states); i++)
			td_metric_set(pods, (double)n_pods[i], TD_LABELS(pod_states[i]));
		for (size_t i = 0; i < TD_LEN(ctr_states); i++)
			td_metric_set(ctrs, (double)n_ctrs[i], TD_LABELS(ctr_states[i]));
	}
	pthread_mutex_unlock(&live.lock);
}

void td_kubelet_measure(struct td_kubelet *a)
{
	if (a)
		td_metrics_on_collect(td_metrics_process(), collect, NULL);
	pthread_mutex_lock(&live.lock);
	live.a = a;
	pthread_mutex_unlock(&live.lock);
}
