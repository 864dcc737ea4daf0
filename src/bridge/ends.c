// How runs of jobs went, for /metrics: what slurmdbd says of those that ended. Their number does not grow with the pool,
// and no label is a job's or a person's own.
#include "bridge/bridge.h"

#include "base/log.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow.h"
#include "metrics/metrics.h"
#include "slurm/history.h"

#include <ctype.h>
#include <string.h>
#include <uthash.h>

// slurmdbd learns of a run's end within LATE_S, else it is not counted.
enum { EVERY_MS = 5000, LATE_S = 120, NAME = 64, PARTITIONS_MAX = 64 };

static struct {
	struct td_metric *wait, *ran, *ended, *gpu;
} m;

static void make(void)
{
	static const double s[] = {1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200, 604800};
	struct td_metrics *r = td_metrics_process();
	m.wait = td_histogram(r, "tandem_pool_job_wait_seconds",
			      "How long runs of Slurm's jobs that have ended waited, from when they might start until "
			      "they did, by partition and kind (standin: for pods; native).",
			      TD_LABELS("partition", "kind"), s, TD_LEN(s));
	m.ran = td_histogram(r, "tandem_pool_job_run_seconds", "How long runs of Slurm's jobs took that have ended.",
			     TD_LABELS("partition", "kind"), s, TD_LEN(s));
	m.ended = td_counter(r, "tandem_pool_jobs_ended_total",
			     "Runs of Slurm's jobs that have ended, by how: completed, failed, timeout, cancelled, "
			     "requeued, preempted, node_fail, out_of_memory and others of Slurm's words.",
			     TD_LABELS("partition", "kind", "end"));
	m.gpu = td_counter(
		r, "tandem_pool_job_gpu_seconds_total",
		"GPU-seconds that runs of Slurm's jobs held which have ended, by Slurm account, kind and how "
		"they ended.",
		TD_LABELS("account", "kind", "end"));
}

static void count(const struct td_slurm_run *r)
{
	char end[NAME];
	size_t n = strcspn(r->state, " ");
	snprintf(end, sizeof(end), "%.*s", (int)n, *r->state ? r->state : "unknown");
	for (char *p = end; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (!strcmp(end, "pending")) // so it calls a run that has ended and whose job waits again
		snprintf(end, sizeof(end), "requeued");
	// Jobs of several partitions are counted by their list, as it was submitted, when they never started.
	const char *kind = td_starts(r->admin_comment, "tandem/") ? "standin" : "native",
		   *partition = strchr(r->partition, ',') ? "several" : r->partition;
	td_metric_add(m.ended, 1, TD_LABELS(partition, kind, end));
	if (!r->start || r->start > r->end)
		return; // it was cancelled while it waited
	if (r->eligible && r->eligible <= r->start)
		td_metric_observe(m.wait, (double)(r->start - r->eligible), TD_LABELS(partition, kind));
	td_metric_observe(m.ran, (double)(r->end - r->start), TD_LABELS(partition, kind));
	if (r->gpus)
		td_metric_add(m.gpu, (double)(r->gpus * (r->end - r->start)), TD_LABELS(r->account, kind, end));
}

// Series of all partitions, so that the first end is one that Prometheus sees. False: it is not known which there are.
static bool begin(struct td_bridge *b)
{
	static const char *const kinds[] = {"native", "standin"};
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	td_auto_strv struct td_strv names = {0};
	for (size_t i = 0; snap && i < snap->nodes.n; i++) {
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, snap->nodes.v[i].partitions ? snap->nodes.v[i].partitions : "", ',');
		for (size_t k = 0; k < l.n && names.n < PARTITIONS_MAX; k++)
			if (!td_strv_has(&names, l.v[k]))
				td_strv_add(&names, l.v[k]);
	}
	for (size_t i = 0; i < names.n; i++)
		for (size_t k = 0; k < TD_LEN(kinds); k++) {
			td_metric_zero(m.ended, TD_LABELS(names.v[i], kinds[k], "completed"));
			td_metric_zero(m.wait, TD_LABELS(names.v[i], kinds[k]));
			td_metric_zero(m.ran, TD_LABELS(names.v[i], kinds[k]));
		}
	td_metric_zero(m.gpu, TD_LABELS("", "native", "completed"));
	return snap;
}

static bool ours(const struct td_slurm_run *r)
{
	return td_starts(r->admin_comment, TD_ASIDE_MARK) || td_starts(r->admin_comment, TD_SHADOW_MARK);
}

// Those that were counted and may be met again: what slurmdbd learns late comes into a look that has been.
struct ends_seen {
	struct {
		int64_t id, start;
	} key;
	int64_t end;
	UT_hash_handle hh;
};

static bool is_new(struct ends_seen **all, const struct td_slurm_run *r)
{
	struct ends_seen *x = NULL, *n = td_calloc(1, sizeof(*n));
	n->key.id = r->id;
	n->key.start = r->start ? r->start : r->submit;
	n->end = r->end;
	HASH_FIND(hh, *all, &n->key, sizeof(n->key), x);
	if (x) {
		free(n);
		return false;
	}
	HASH_ADD(hh, *all, key, sizeof(n->key), n);
	return true;
}

static void forget(struct ends_seen **all, int64_t before)
{
	struct ends_seen *x, *tmp;
	HASH_ITER (hh, *all, x, tmp)
		if (x->end < before) {
			HASH_DEL(*all, x);
			free(x);
		}
}

// Counts the runs that ended in [from, to] and were not counted yet.
static int look(struct td_bridge *b, struct ends_seen **all, int64_t from, int64_t to, struct td_error *err)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return err->code;
	td_auto_runs struct td_slurm_runs runs = {0};
	int r = td_slurm_history_ended(l->slurm, b->o.cluster, from, to, b->cancel, &runs, err);
	for (size_t i = 0; !r && i < runs.n; i++)
		if (runs.v[i].end >= from && runs.v[i].end <= to && !ours(&runs.v[i]) && is_new(all, &runs.v[i]))
			count(&runs.v[i]);
	if (!r)
		forget(all, from);
	return r;
}

void *td_bridge_ends_thread(void *bridge)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct td_bridge *b = bridge;
	struct ends_seen *all = NULL;
	const int64_t since = td_real_ms(b->clock) / 1000;
	int64_t last = since; // up to here all is read, but for what comes late
	bool said = false, begun = false;
	pthread_once(&once, make);
	do {
		td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
		int64_t to = td_real_ms(b->clock) / 1000, from = last - LATE_S > since ? last - LATE_S : since;
		if (!s || !s->accounting || to < from)
			continue;
		begun = begun || begin(b);
		struct td_error e = TD_ERROR_INIT;
		int r = look(b, &all, from, to, &e);
		if (r == TD_UNSUPPORTED && from < last) // more than one reply holds: without those that come late
			r = look(b, &all, last, to, &e);
		if (r && r != TD_TRANSIENT && !said) // that it is away others say
			td_warn("how jobs ended cannot be read: %s", e.msg);
		said = r && r != TD_TRANSIENT;
		if (!r || r == TD_UNSUPPORTED) // what is too much to read at once is left out
			last = to;
	} while (!td_cancel_wait(b->cancel, EVERY_MS));
	forget(&all, INT64_MAX);
	return NULL;
}
