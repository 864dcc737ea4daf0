// The quick test of a job's devices before it starts.
#include "gate/preflight_priv.h"

#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "gate/devices.h"
#include "kube/kube.h"
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 30000, AGAIN_MS = 10000, POLL_MS = 20 };

void td_preflight_policy_done(struct td_preflight_policy *p)
{
	for (size_t i = 0; i < TD_LEN(p->lists); i++)
		td_strv_done(&p->lists[i]);
	td_json_unref(p->json);
}

static const char *const results[] = {"passed", "failed", "error"};

static void count(const char *node, const char *result, double n, double device_s)
{
	struct td_metrics *m = td_metrics_process();
	td_metric_add(
		td_counter(m, "tandem_preflight_total",
			   "Tests of jobs' devices before the jobs started; result: passed, failed, or error (no test "
			   "took place).",
			   TD_LABELS("node", "result")),
		1, TD_LABELS(node, result));
	td_metric_add(td_counter(m, "tandem_preflight_device_seconds_total",
				 "Seconds that devices spent in tests before jobs, added up over devices.",
				 TD_LABELS("node")),
		      device_s, TD_LABELS(node));
}

struct td_preflight *td_preflight_new(const struct td_preflight_opts *o)
{
	struct td_preflight *p = td_calloc(1, sizeof(*p));
	p->o = *o;
	p->node = td_calloc((size_t)o->n, sizeof(*p->node));
	pthread_mutex_init(&p->mu, NULL);
	for (int i = 0; i < o->n; i++) // so that they are there before the first test
		for (size_t k = 0; k < TD_LEN(results); k++) {
			count(o->names[i], results[k], 0, 0);
			td_preflight_count_several(o->names[i], results[k], 0);
		}
	return p;
}

struct td_preflight *td_preflight_free(struct td_preflight *p)
{
	if (!p)
		return NULL;
	pthread_mutex_destroy(&p->mu);
	free(p->node);
	free(p);
	return NULL;
}

bool td_preflight_policy_read(struct td_preflight *p, int node, struct td_preflight_policy *ret)
{
	static const char *const keys[] = {"partitions", "qos", "namespaces"};
	td_auto(td_object_unref) struct td_object *o = td_informer_get(p->o.nodes, NULL, p->o.names[node]);
	const char *text = o ? td_object_annotation(o, TD_ANN_PREFLIGHT) : NULL;
	if (!text || td_json_parse(text, strlen(text), &ret->json, NULL))
		return false;
	yyjson_val *root = td_json_root(ret->json);
	for (size_t k = 0; k < TD_LEN(keys); k++)
		td_jstrs(td_jget(root, keys[k]), &ret->lists[k]);
	ret->ms = td_jint(root, "milliseconds", 100);
	ret->tries = td_jint(root, "tries", 3);
	ret->limit_ms = td_jint(root, "timeoutSeconds", 30) * 1000;
	ret->must = td_streq(td_jstr(root, "untested"), "fail");
	ret->program = td_jstr(root, "program");
	ret->say = td_jbool(root, "say", false);
	ret->kib = td_jint(root, "exchange.megabytes", 0) * 1024;
	ret->storage = td_jstr(root, "exchange.storage");
	return true;
}

int td_preflight_wants(const struct td_preflight_policy *p, const struct td_preflight_ask *q, bool *ret,
		       struct td_error *err)
{
	const struct td_strv *l = p->lists;
	const struct td_pool_preflight_rule r = {.partitions = (const char *const *)l[0].v,
						 .n_partitions = l[0].n,
						 .qos = (const char *const *)l[1].v,
						 .n_qos = l[1].n,
						 .namespaces = (const char *const *)l[2].v,
						 .n_namespaces = l[2].n};
	const struct td_pool_preflight_job j = {q->partition, q->qos, q->ns};
	enum td_pool_preflight is = td_pool_preflight(&r, &j);
	if (is == TD_PREFLIGHT_QOS)
		return td_fail(err, TD_NOT_FOUND, "which QOS the job has decides whether it is tested");
	*ret = is == TD_PREFLIGHT_YES;
	return 0;
}

static bool passed(struct td_preflight *p, const struct td_preflight_ask *q)
{
	bool all = true;
	pthread_mutex_lock(&p->mu);
	for (int i = 0; i < TD_HEALTH_GPUS; i++)
		if (q->mask >> i & 1)
			all &= td_holder_same(&p->node[q->node].passed[i], q->h);
	pthread_mutex_unlock(&p->mu);
	return all;
}

struct tested {
	uint64_t bad;
	char why[128];
	double *gflops; // NULL: nobody asks
	int64_t limit_ms;
};

static int64_t least(int64_t a, int64_t b)
{
	return b > 0 && b < a ? b : a;
}

// A program that is not there says nothing of the devices: an error.
static int test_all(struct td_preflight *p, const struct td_preflight_ask *q, const struct td_preflight_policy *policy,
		    struct tested *ret, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *list = td_dev_format(q->mask), *program = NULL;
	if (policy->program) {
		// The API's schema keeps slashes out of the name.
		if (!p->o.actions || strchr(policy->program, '/') || policy->program[0] == '.')
			return td_fail(err, TD_INVALID,
				       "spec.preflight.program: this agent has no directory of actions");
		program = td_asprintf("%s/%s", p->o.actions, policy->program);
		if (access(program, X_OK) < 0)
			return td_fail(err, TD_INVALID, "spec.preflight.program: %s is no program on this node",
				       program);
	}
	for (size_t i = 0; q->know && i < q->know->n; i++) {
		const struct td_checkup_finding *f = &q->know->v[i];
		long long k;
		if (td_starts(f->device, "gpu") && td_parse_i64(f->device + 3, &k) && k >= 0 && k < TD_HEALTH_GPUS &&
		    q->mask >> k & 1 && strcmp(f->check, "preflight") != 0) {
			ret->bad |= UINT64_C(1) << k;
			snprintf(ret->why, sizeof(ret->why), "%.120s", f->message);
		}
	}
	if (ret->bad)
		return 0;
	const struct td_checkup_quick quick = {
		.selftest = p->o.selftest,
		.faults = p->o.faults ? p->o.faults[q->node] : NULL,
		.program = program,
		.gpus = p->o.test_gpus,
		.first = q->node * p->o.gpus_each,
		.node = p->o.names[q->node],
		.list = list,
		.devices = q->mask,
		.ms = policy->ms,
		.gflops = ret->gflops,
		.must = policy->must,
		.limit_ms = ret->limit_ms ? ret->limit_ms : least(least(LIMIT_MS, q->timeout_ms), policy->limit_ms)};
	return td_checkup_quick(&quick, c, &ret->bad, ret->why, sizeof(ret->why), err);
}

static int test(struct td_preflight *p, const struct td_preflight_ask *q, const struct td_preflight_policy *policy,
		struct tested *ret, struct td_cancel *c, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int r = test_all(p, q, policy, ret, c, &e);
	if (r && r != TD_CANCELLED && policy->must) { // of the policy's own: the devices are not known to be well
		ret->bad = q->mask;
		snprintf(ret->why, sizeof(ret->why), "not tested: %.100s", e.msg);
		return 0;
	}
	return r ? td_fail(err, r, "%s", e.msg) : 0;
}

static void keep(struct td_preflight *p, const struct td_preflight_ask *q, const struct tested *t)
{
	pthread_mutex_lock(&p->mu);
	struct td_preflight_node *n = &p->node[q->node];
	for (int i = 0; i < TD_HEALTH_GPUS; i++) {
		if (!(q->mask >> i & 1))
			continue;
		if (!(t->bad >> i & 1)) {
			n->sick[i].is = false;
			if (q->h && !t->bad)
				n->passed[i] = *q->h;
			continue;
		}
		struct td_preflight_sick *s = &n->sick[i];
		s->job = q->h ? q->h->job : s->job;
		s->is = true;
		s->at_ms = td_mono_ms(p->o.clock);
		snprintf(s->why, sizeof(s->why), "%s", t->why);
	}
	pthread_mutex_unlock(&p->mu);
}

int td_preflight_run(struct td_preflight *p, const struct td_preflight_ask *q, long long *ret_tries,
		     struct td_cancel *c, struct td_error *err)
{
	auto_preflight_policy struct td_preflight_policy policy = {0};
	bool wanted;
	if (!q->mask || !td_preflight_policy_read(p, q->node, &policy))
		return 0;
	int r = td_preflight_wants(&policy, q, &wanted, err);
	if (r || !wanted || passed(p, q))
		return r;

	struct tested t = {0};
	struct td_error e = TD_ERROR_INIT;
	const char *node = p->o.names[q->node];
	int64_t begun = td_mono_ms(p->o.clock);
	r = test(p, q, &policy, &t, c, &e);
	double took = (double)(td_mono_ms(p->o.clock) - begun) / 1000 * __builtin_popcountll(q->mask);
	count(node, r ? "error" : t.bad ? "failed" : "passed", 1, took);
	if (r == TD_CANCELLED)
		return td_fail(err, r, "%s", e.msg);
	if (r) {
		// What could not be tested says nothing of the devices: the jobs of a pool must not all fail for it.
		td_warn("node %s: no pre-flight for job %lld: %s", node, (long long)q->h->job, e.msg);
		return 0;
	}
	keep(p, q, &t);
	if (!t.bad)
		return 0;
	td_auto_free char *list = td_dev_format(t.bad);
	td_warn("node %s: pre-flight of job %lld failed on devices %s: %s%s", node, (long long)q->h->job, list, t.why,
		policy.say ? " (it starts all the same: dry run, or too many nodes are out of service)" : "");
	if (policy.say)
		return 0;
	*ret_tries = policy.tries;
	return td_fail(err, TD_DENIED, "devices %s of %s fail their test: %s", list, node, t.why);
}

void td_preflight_await_drain(struct td_preflight *p, int node, int64_t ms, struct td_cancel *c)
{
	for (int64_t end = td_mono_ms(p->o.clock) + ms; td_mono_ms(p->o.clock) < end;) {
		td_auto(td_object_unref) struct td_object *o = td_informer_get(p->o.nodes, NULL, p->o.names[node]);
		const char *reason = o ? td_object_annotation(o, TD_ANN_SLURM_REASON) : NULL;
		if (reason && td_object_annotation(o, TD_ANN_HOLD))
			return;
		if (td_cancel_wait(c, POLL_MS))
			return;
	}
}

void td_preflight_again(struct td_preflight *p, int node, struct td_cancel *c)
{
	struct td_preflight_ask q = {.node = node, .timeout_ms = LIMIT_MS};
	td_auto(td_object_unref) struct td_object *o = td_informer_get(p->o.nodes, NULL, p->o.names[node]);
	bool held = o && td_object_annotation(o, TD_ANN_HOLD);
	pthread_mutex_lock(&p->mu);
	for (int i = 0; i < TD_HEALTH_GPUS; i++) {
		const struct td_preflight_sick *s = &p->node[node].sick[i];
		if (s->is && (held || td_mono_ms(p->o.clock) - s->at_ms >= AGAIN_MS))
			q.mask |= UINT64_C(1) << i;
	}
	pthread_mutex_unlock(&p->mu);
	for (int i = 0; i < TD_HEALTH_GPUS; i++) {
		struct td_holder h;
		if (q.mask >> i & 1 && td_gate_holder(p->o.gate, node, i, &h))
			q.mask &= ~(UINT64_C(1) << i);
	}
	if (!q.mask)
		return;
	// Where the policy has no pre-flight any more, the test is as it was by default.
	auto_preflight_policy struct td_preflight_policy policy = {.ms = 100};
	td_preflight_policy_read(p, node, &policy);
	struct tested t = {0};
	if (!test(p, &q, &policy, &t, c, NULL))
		keep(p, &q, &t);
}

int td_preflight_probe(struct td_preflight *p, const struct td_preflight_probe *x, struct td_cancel *c,
		       struct td_preflight_figures *f, char *why, size_t n, struct td_error *err)
{
	const struct td_preflight_ask q = {.node = x->node, .mask = x->mask};
	auto_preflight_policy struct td_preflight_policy policy = {0};
	struct tested t = {.gflops = &f->gflops, .limit_ms = x->limit_ms};
	td_preflight_policy_read(p, x->node, &policy);
	policy.ms = x->ms;
	int r = test(p, &q, &policy, &t, c, err);
	if (r)
		return r;
	keep(p, &q, &t);
	if (!t.bad)
		return 0;
	snprintf(why, n, "%s", t.why);
	return td_fail(err, TD_DENIED, "%s", t.why);
}

void td_preflight_findings(struct td_preflight *p, int node, struct td_checkup_findings *ret)
{
	const struct td_checkup_check *check = td_checkup_check_named("preflight");
	pthread_mutex_lock(&p->mu);
	for (int i = 0; i < TD_HEALTH_GPUS && ret->n < TD_HEALTH_FINDINGS; i++) {
		const struct td_preflight_sick *s = &p->node[node].sick[i];
		if (!s->is)
			continue;
		struct td_checkup_finding *f = &ret->v[ret->n++];
		*f = (struct td_checkup_finding){.action = check->action};
		snprintf(f->check, sizeof(f->check), "%s", check->name);
		snprintf(f->condition, sizeof(f->condition), "%s", check->condition);
		snprintf(f->device, sizeof(f->device), "gpu%d", i);
		char whose[40] = "its test while the node was idle";
		if (s->job)
			snprintf(whose, sizeof(whose), "pre-flight of job %lld", (long long)s->job);
		snprintf(f->message, sizeof(f->message), "gpu%d: %s failed: %.100s", i, whose, s->why);
	}
	pthread_mutex_unlock(&p->mu);
	td_preflight_several_findings(p, node, ret);
}
