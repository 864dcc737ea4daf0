// What the agent says about jobs that hang.
#include "gate/stragglers.h"

#include "base/log.h"
#include "base/names.h"
#include "metrics/metrics.h"
#include "pool/hang.h"
#include "pool/preflight.h"
#include "json/json.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { JOBS = 256, FORGET_MS = 90000, EVERY_MIN_MS = 500, EVERY_MAX_MS = 10000, GPU_NONE = -1, GPU_UNKNOWN = -2 };

struct hangs_job {
	int64_t id, seen_ms; // id 0: free
	struct td_pool_hang state;
};
struct td_hangs {
	struct td_hangs_opts o;
	pthread_mutex_t mu; // guards v
	struct hangs_job (*v)[JOBS];
};

static void count(const char *node, const char *action, double n)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_job_hangs_total",
				 "Slurm's jobs that made no progress for as long as the policy says, by what was done.",
				 TD_LABELS("node", "action")),
		      n, TD_LABELS(node, action));
}

struct td_hangs *td_hangs_new(const struct td_hangs_opts *o)
{
	struct td_hangs *h = td_calloc(1, sizeof(*h));
	h->o = *o;
	h->v = td_calloc((size_t)o->n, sizeof(*h->v));
	pthread_mutex_init(&h->mu, NULL);
	for (int i = 0; i < o->n; i++) {
		count(o->names[i], "tell", 0);
		count(o->names[i], "requeue", 0);
	}
	return h;
}

struct td_hangs *td_hangs_free(struct td_hangs *h)
{
	if (!h)
		return NULL;
	pthread_mutex_destroy(&h->mu);
	free(h->v);
	free(h);
	return NULL;
}

bool td_hangs_named(const yyjson_val *policy, const struct td_gate_request *q)
{
	td_auto_strv struct td_strv partitions = {0}, qos = {0};
	td_jstrs(td_jget(policy, "partitions"), &partitions);
	td_jstrs(td_jget(policy, "qos"), &qos);
	const struct td_pool_preflight_rule r = {.partitions = (const char *const *)partitions.v,
						 .n_partitions = partitions.n,
						 .qos = (const char *const *)qos.v,
						 .n_qos = qos.n};
	return td_pool_preflight(&r, &(struct td_pool_preflight_job){q->partition, q->qos, NULL}) == TD_PREFLIGHT_YES;
}

unsigned td_hangs_signs(const yyjson_val *policy)
{
	td_auto_strv struct td_strv signs = {0};
	td_jstrs(td_jget(policy, "signs"), &signs);
	unsigned mask = 0;
	for (size_t i = 0; i < signs.n; i++)
		for (unsigned k = 0; k < TD_SIGNS; k++)
			if (!strcmp(signs.v[i], td_pool_sign_names[k]))
				mask |= 1U << k;
	return mask;
}

// The signs that count for this job; 0: it is not watched. Who beats says by that that he wants to be watched.
static unsigned signs_of(yyjson_val *policy, const struct td_gate_request *q)
{
	if (!td_hangs_named(policy, q))
		return q->heartbeat != -1 ? TD_SIGN_HEARTBEAT : 0;
	return td_hangs_signs(policy);
}

double td_hangs_gpu(struct td_gate *gate, int node, int64_t job, const struct td_checkup_facts *f)
{
	double most = GPU_NONE;
	for (int i = 0; i < TD_HEALTH_GPUS && (!f || i < f->gpus); i++) {
		if (!td_gate_job_holds(gate, node, i, job))
			continue;
		if (!f || f->gpu[i].lost || f->gpu[i].use_percent < 0)
			return GPU_UNKNOWN;
		most = f->gpu[i].use_percent > most ? f->gpu[i].use_percent : most;
	}
	return most;
}

// The same of all its nodes. Below 0: it has no device, or one does not say.
static double gpu_of_all(struct td_hangs *h, int node, const struct td_gate_request *q,
			 const struct td_checkup_facts *f)
{
	double here = td_hangs_gpu(h->o.gate, node, q->h.job, f), there = q->others ? (double)q->gpu_others : GPU_NONE;
	if (here == GPU_UNKNOWN || there == GPU_UNKNOWN)
		return -1;
	return here > there ? here : there;
}

static bool judge(struct td_hangs *h, int node, int64_t job, const struct td_pool_hang_rule *r,
		  const struct td_pool_hang_look *look)
{
	pthread_mutex_lock(&h->mu);
	struct hangs_job *free_one = NULL, *mine = NULL;
	for (int i = 0; i < JOBS; i++) {
		struct hangs_job *j = &h->v[node][i];
		if (j->id && look->at_ms - j->seen_ms > FORGET_MS)
			j->id = 0;
		if (j->id == job)
			mine = j;
		else if (!j->id && !free_one)
			free_one = j;
	}
	if (!mine && free_one) {
		*free_one = (struct hangs_job){.id = job};
		mine = free_one;
	}
	bool hangs = false;
	if (mine) {
		mine->seen_ms = look->at_ms;
		hangs = td_pool_hang(r, &mine->state, look);
		if (hangs)
			mine->id = 0; // what comes after is another run of it
	}
	pthread_mutex_unlock(&h->mu);
	return hangs;
}

int td_hangs_signal(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} table[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"QUIT", SIGQUIT}, {"ABRT", SIGABRT}};
	for (size_t i = 0; i < TD_LEN(table); i++)
		if (td_streq(name, table[i].name))
			return table[i].number;
	return 0;
}

// The jobs that the bridge wants to be queued again, "12:0,17_3:1"; NULL: none. Caller frees.
static char *moves_of(const struct td_object *node)
{
	enum { MOST = 1024 };
	static const char *const keys[] = {TD_ANN_REQUEUE, TD_ANN_REQUEUE_DEVICES};
	td_auto_buf struct td_buf list = {0};
	for (size_t i = 0; node && i < TD_LEN(keys); i++) {
		const char *wish = td_object_annotation(node, keys[i]);
		size_t n = wish ? strlen(wish) : 0;
		if (n && n <= MOST && strspn(wish, "0123456789_: ") == n)
			td_buf_printf(&list, "%s%s", list.len ? "," : "", wish);
	}
	for (size_t i = 0; i < list.len; i++)
		if (list.s[i] == ' ')
			list.s[i] = ',';
	return list.len ? td_buf_take(&list) : NULL;
}

// Which looks are wanted, "every=3000 pace=10000 requeue=12:0"; NULL: none. every_ms 0: not for jobs that hang.
static char *looks(struct td_hangs *h, int node, int64_t every_ms, const char *moves)
{
	td_auto_buf struct td_buf b = {0};
	int64_t pace = h->o.stragglers ? td_stragglers_every_ms(h->o.stragglers, node) : 0;
	if (every_ms)
		td_buf_printf(&b, "every=%lld",
			      (long long)(every_ms < EVERY_MIN_MS   ? EVERY_MIN_MS
					  : every_ms > EVERY_MAX_MS ? EVERY_MAX_MS
								    : every_ms));
	if (pace)
		td_buf_printf(&b, "%space=%lld", b.len ? " " : "", (long long)pace);
	if (moves)
		td_buf_printf(&b, "%srequeue=%s", b.len ? " " : "", moves);
	return b.len ? td_strdup(td_buf_str(&b)) : NULL;
}

void td_hangs_ask(struct td_hangs *h, int node, const struct td_gate_request *q, const struct td_checkup_facts *f,
		  char **ret)
{
	*ret = NULL;
	if (q->use) {
		*ret = td_asprintf("gpu=%d", (int)td_hangs_gpu(h->o.gate, node, q->h.job, f));
		return;
	}
	td_auto(td_object_unref) struct td_object *o = td_informer_get(h->o.nodes, NULL, h->o.names[node]);
	const char *text = o ? td_object_annotation(o, TD_ANN_HANG) : NULL;
	td_auto_free char *moves = q->hangs ? moves_of(o) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	bool none = !text || td_json_parse(text, strlen(text), &j, NULL);
	yyjson_val *policy = none ? NULL : td_json_root(j);
	int64_t after = td_jint(policy, "afterSeconds", 600) * 1000;
	if (q->hangs) {
		*ret = looks(h, node, none ? 0 : after / 10, moves);
		return;
	}
	if (none)
		return;

	const struct td_pool_hang_rule r = {signs_of(policy, q), after};
	const struct td_pool_hang_look look = {.at_ms = td_mono_ms(h->o.clock),
					       .heartbeat = q->heartbeat,
					       .output = q->output,
					       .cpu_ms = q->cpu_ms,
					       .gpu_percent = r.signs & TD_SIGN_GPU ? gpu_of_all(h, node, q, f) : -1};
	if (r.signs && q->nodes > 1 && !q->others) {
		*ret = td_strdup("ask");
		return;
	}
	if (!r.signs || !judge(h, node, q->h.job, &r, &look))
		return;
	char why[128];
	const char *action = td_jstr_or(policy, "action", "tell");
	bool requeue = !strcmp(action, "requeue");
	td_pool_hang_words(&r, why, sizeof(why));
	td_warn("node %s: job %lld hangs: %s", h->o.names[node], (long long)q->h.job, why);
	count(h->o.names[node], requeue ? "requeue" : "tell", 1);
	for (char *p = why; *p; p++)
		if (*p == ' ')
			*p = '_';
	*ret = td_asprintf("action=%s signal=%d dump=%d why=%s", requeue ? "requeue" : "tell",
			   td_hangs_signal(td_jstr(policy, "signal")), td_jbool(policy, "stacks", true), why);
}
