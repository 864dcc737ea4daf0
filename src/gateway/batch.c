// How a job of a person reaches Slurm.
#include "gateway/batch.h"

#include "base/clock.h"
#include "base/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A new person reaches slurmctld within 2 s after Kubernetes has brought the file there.
enum { KNOWN_MS = 8000, EACH_MS = 500, LATER_MS = 5000 };

// ---- what no node has (pure) ----

// Devices of one type in "gpu:8", "gpu:h100:8(S:0-1)", "gpu:a:2,gpu:b:2"; type NULL: of all of them.
static int64_t gpus_of(const char *gres, const char *type)
{
	int64_t sum = 0;
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, gres ? gres : "", ',');
	for (size_t i = 0; i < l.n; i++) {
		char *name = l.v[i] + strlen("gpu:"), *last;
		long long n;
		if (!td_starts(l.v[i], "gpu:"))
			continue;
		l.v[i][strcspn(l.v[i], "(")] = '\0';
		last = strrchr(l.v[i], ':');
		if (!td_parse_i64(last + 1, &n) || n < 0)
			continue;
		*last = '\0';
		if (!type || (last > name && !strcmp(name, type)))
			sum += n;
	}
	return sum;
}

static bool in_partition(const struct td_slurm_node *n, const char *partition)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, n->partitions ? n->partitions : "", ',');
	return !partition || td_strv_has(&l, partition);
}

struct most {
	int64_t n;
	const char *node;
};

static void take(struct most *m, int64_t n, const struct td_slurm_node *node)
{
	if (!m->node || n > m->n)
		*m = (struct most){n, node->name};
}

char *td_gateway_too_big(const struct td_slurm_nodes *nodes, const struct td_slurm_batch *b)
{
	struct most gpus = {0}, cpus = {0}, memory = {0};
	int64_t n = 0;
	for (size_t i = 0; i < nodes->n; i++) {
		const struct td_slurm_node *x = &nodes->v[i];
		if (!in_partition(x, b->partition))
			continue;
		n++;
		take(&gpus, gpus_of(x->gres, b->gpu_type), x);
		take(&cpus, x->cpus, x);
		take(&memory, x->memory_mb, x);
	}
	td_auto_free char *of = b->partition ? td_asprintf(" of partition %s", b->partition) : td_strdup("");
	if (!n)
		return NULL;
	if (b->gpus > gpus.n && !gpus.n)
		return td_asprintf(
			"gpus: no node%s has a GPU%s%s: leave gpus out, or ask for another type or partition", of,
			b->gpu_type ? " of type " : "", b->gpu_type ? b->gpu_type : "");
	if (b->gpus > gpus.n)
		return td_asprintf("gpus: it asks for %" PRId64 "%s%s of each node; no node%s has more than %" PRId64
				   " (%s): ask for %" PRId64 " or less, and for more in all with nodes",
				   b->gpus, b->gpu_type ? " " : "", b->gpu_type ? b->gpu_type : "", of, gpus.n,
				   gpus.node, gpus.n);
	if (b->memory_mb > memory.n)
		return td_asprintf("memory: it asks for %" PRId64 " MB of each node; no node%s has more than %" PRId64
				   " (%s): ask for %" PRId64 "M or less",
				   b->memory_mb, of, memory.n, memory.node, memory.n);
	if (b->cpus > cpus.n)
		return td_asprintf("cpus: it asks for %" PRId64 " for each task; no node%s has more than %" PRId64
				   " (%s): ask for %" PRId64 " or less",
				   b->cpus, of, cpus.n, cpus.node, cpus.n);
	if (b->nodes > n)
		return td_asprintf("nodes: it asks for %" PRId64 "; there %s %" PRId64 "%s: ask for %" PRId64
				   " or less",
				   b->nodes, n == 1 ? "is" : "are", n, of, n);
	return NULL;
}

char *td_gateway_data_nowhere(const struct td_slurm_nodes *nodes, const struct td_slurm_batch *b)
{
	const char *all = b->constraints ? b->constraints : "", *behind = strrchr(all, ')');
	td_auto_strv struct td_strv l = {0};
	if (strchr(behind ? behind : all, '|'))
		return NULL; // one of several will do
	td_strv_split(&l, behind ? behind + 1 : all, '&');
	for (size_t i = 0; i < l.n; i++) {
		const char *name = l.v[i] + strlen(TD_DATA_FEATURE);
		bool held = !td_starts(l.v[i], TD_DATA_FEATURE);
		for (size_t k = 0; k < nodes->n && !held; k++) {
			td_auto_strv struct td_strv have = {0};
			td_strv_split(&have, nodes->v[k].features ? nodes->v[k].features : "", ',');
			held = in_partition(&nodes->v[k], b->partition) && td_strv_has(&have, l.v[i]);
		}
		if (!held)
			return td_asprintf(
				"data: no node%s%s holds %.63s at /datasets/%.63s yet. `kubectl get dataset` says "
				"how far it is; what an administrator has laid on machines himself he names "
				"data.%.63s in spec.slurm.features of their NodeSet. Without that name another "
				"partition, or a path on storage that they share",
				b->partition ? " of partition " : "", b->partition ? b->partition : "", name, name,
				name);
	}
	return NULL;
}

// ---- submitting ----

int td_gateway_batch(struct td_gateway_ask *q, struct td_slurm *client, struct td_slurm_batch *b, int64_t *ret_job,
		     struct td_error *err)
{
	int64_t until = td_mono_ms(&td_clock_system) + KNOWN_MS;
	int r;
	b->uid = q->user.uid;
	while ((r = td_slurm_batch(client, q->user.name, b, td_gateway_cancel(q), ret_job, err)) == TD_DENIED &&
	       err->detail == TD_SLURM_ERR_USER && td_mono_ms(&td_clock_system) < until)
		if ((r = td_cancel_wait(td_gateway_cancel(q), EACH_MS)))
			return td_fail(err, TD_CANCELLED, "nobody waits for the answer any more");
	if (r == TD_DENIED && err->detail == TD_SLURM_ERR_USER) {
		td_fail(err, TD_TRANSIENT,
			"Slurm does not know you yet (user %s with uid %" PRId64
			"): it can take a minute after spec.users or the directory service was changed; try again then",
			q->user.name, q->user.uid);
		err->retry_after_ms = LATER_MS;
		return TD_TRANSIENT;
	}
	if (r == TD_INVALID || (r && err->detail == TD_SLURM_ERR_CONFIG)) {
		int detail = err->detail;
		td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, NULL);
		td_auto_free char *words = s ? td_gateway_data_nowhere(&s->nodes->nodes, b) : NULL;
		if (s && !words && detail == TD_SLURM_ERR_CONFIG)
			words = td_gateway_too_big(&s->nodes->nodes, b);
		if (words)
			td_fail_detail(err, r, detail, "%s", words);
	}
	return r;
}
