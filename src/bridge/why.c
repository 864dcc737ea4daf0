// Why does it wait, where does it run: GET /why?pod=ns/name and /why?job=ID → {"text": "…", …}; and /metrics.
#include "bridge/scheduler/ask.h"

#include "http/server.h"

#include <string.h>

static void answer(struct td_http_x *x, int status, yyjson_mut_doc *d)
{
	size_t n;
	td_auto_free char *s = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
	td_http_send(x, status, "application/json", s, n);
}

static void say(struct td_http_x *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct td_http_x *x, int status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *text = td_vasprintf(fmt, ap);
	va_end(ap);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "text", text);
	answer(x, status, d);
}

static void device_words(const char *devices, struct td_buf *out)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *k, *v;
	size_t i, n;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return;
	yyjson_obj_foreach (td_json_root(j), i, n, k, v)
		td_buf_printf(out, ", %s %s", yyjson_get_str(k), yyjson_get_str(v) ? yyjson_get_str(v) : "");
}

static const char *decided(const struct td_ask *a)
{
	return a->why && *a->why ? a->why : "it was not looked at yet";
}

// A pod that is ours, with its ask (NULL: none).
static void why_pod(struct td_bridge *b, struct td_http_x *x, const struct td_object *pod, struct td_ask *a)
{
	td_auto_buf struct td_buf t = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	const char *node = td_jstr(pod->root, "spec.nodeName"), *phase = td_jstr_or(pod->root, "status.phase", "");
	int64_t job = 0;
	td_buf_printf(&t, "Pod %s/%s ", pod->ns, pod->name);
	if (a) {
		pthread_mutex_lock(&b->asks->lock);
		job = a->job;
		pthread_mutex_unlock(&b->asks->lock);
	}
	if (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed")) {
		td_buf_printf(&t, "has ended (%s).", phase);
	} else if (td_object_deleting(pod)) {
		td_buf_puts(&t, "is being deleted; Slurm gives its devices away when its last process is gone.");
	} else if (node) {
		const char *id = td_object_annotation(pod, TD_ANN_JOB);
		td_buf_printf(&t, "%s on %s", !strcmp(phase, "Running") ? "runs" : "is starting", node);
		if (id)
			td_buf_printf(&t, " as Slurm job %s", id);
		device_words(td_object_annotation(pod, TD_ANN_DEVICES), &t);
		td_buf_putc(&t, '.');
		long long n;
		if (id && td_parse_i64(id, &n))
			job = n;
	} else if (!a) {
		td_buf_puts(&t, "was not looked at yet.");
	} else {
		pthread_mutex_lock(&b->asks->lock);
		if (a->refused) {
			td_buf_printf(&t, "will not run: %s.", a->refused);
		} else if (a->know == TD_JOB_READ && a->job && td_job_phase(a->states) == TD_PHASE_WAITING) {
			td_auto_free char *w = td_ask_waits_text(a, td_real_ms(b->clock) / 1000);
			td_buf_printf(&t, "waits. %s", w);
			td_jm_str(d, root, "reason", a->reason);
		} else if (a->job) {
			td_buf_printf(&t, "waits: %s (Slurm job %lld).", decided(a), (long long)a->job);
		} else {
			td_buf_printf(&t, "waits: %s.", decided(a));
		}
		pthread_mutex_unlock(&b->asks->lock);
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
		if (!l)
			td_buf_printf(&t, " Slurm cannot be asked now: %s.", e.msg);
	}
	if (atomic_load(&b->lost))
		td_buf_puts(&t, " Slurm seems to have lost its state; nothing is ended or started until that is settled.");
	td_jm_str(d, root, "text", td_buf_str(&t));
	td_jm_strf(d, root, "pod", "%s/%s", pod->ns, pod->name);
	td_jm_str(d, root, "phase", phase);
	td_jm_str(d, root, "node", node);
	if (job)
		td_jm_int(d, root, "job", job);
	answer(x, 200, d);
}

static void by_pod(struct td_bridge *b, struct td_http_x *x, const char *key)
{
	char *ns, *name;
	td_key_split(key, &ns, &name);
	td_auto_free char *own_ns = ns, *own_name = name;
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(b->pods, ns, name);
	if (pod) {
		td_auto(td_ask_unref) struct td_ask *a = td_ask_get(b->asks, pod->uid);
		why_pod(b, x, pod, a);
		return;
	}
	struct td_error e = TD_ERROR_INIT;
	int r = *ns ? td_kube_get(b->kube, &td_pods, ns, name, td_http_cancel(x), &pod, &e) : TD_NOT_FOUND;
	if (!r)
		say(x, 200, "Pod %s is not Slurm's: its spec.schedulerName is \"%s\".%s%s", key,
		    td_jstr_or(pod->root, "spec.schedulerName", "default-scheduler"),
		    td_jstr(pod->root, "spec.nodeName") ? " It runs on " : " It waits for that scheduler.",
		    td_jstr_or(pod->root, "spec.nodeName", ""));
	else if (r == TD_NOT_FOUND)
		say(x, 404, "There is no pod %s.", key);
	else
		say(x, 503, "The API server did not answer: %s", e.msg);
}

static void by_job(struct td_bridge *b, struct td_http_x *x, int64_t id)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, id);
	if (a) {
		td_auto_objects struct td_objects pods = {0};
		td_informer_by_index(b->pods, "uid", a->uid, &pods);
		if (pods.n) {
			why_pod(b, x, pods.v[0], a);
			return;
		}
	}
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
	td_auto_job struct td_slurm_job j = {0};
	int r = l ? td_slurm_job(l->slurm, id, td_http_cancel(x), &j, &e) : e.code;
	if (r) {
		if (r == TD_NOT_FOUND)
			say(x, 404, "Slurm does not know job %lld.", (long long)id);
		else
			say(x, 503, "Slurm did not answer: %s", e.msg);
		return;
	}
	char states[128];
	const char *words = td_pool_reason_words(j.reason);
	td_job_states_text(j.states, states, sizeof(states));
	switch (td_job_phase(j.states)) {
	case TD_PHASE_WAITING:
		say(x, 200, "Job %lld (%s, user %s) waits: %s (%s).", (long long)id, j.name, j.user, words ? words : j.reason, j.reason);
		break;
	case TD_PHASE_RUNNING:
	case TD_PHASE_STARTING: {
		td_auto_buf struct td_buf t = {0};
		for (size_t i = 0; i < j.n_nodes; i++)
			td_buf_printf(&t, "%s%s%s%s%s", i ? "; " : "", j.nodes[i].name, *j.nodes[i].gres ? " (" : "", j.nodes[i].gres,
				      *j.nodes[i].gres ? ")" : "");
		say(x, 200, "Job %lld (%s, user %s) runs on %s.%s", (long long)id, j.name, j.user, td_buf_str(&t),
		    td_streq(j.reason, "Prolog") ? " Its nodes are being prepared." : "");
		break;
	}
	default:
		say(x, 200, "Job %lld (%s, user %s) is over: %s (%s).", (long long)id, j.name, j.user, td_job_end_words(j.states), states);
	}
}

static void slurm_metrics(struct td_bridge *b, struct td_buf *t)
{
	static const char *const names[] = {"requests", "bytes"}, *const help[] = {"Requests to slurmrestd.",
										   "Bytes received from slurmrestd."};
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
	for (size_t k = 0; l && k < TD_LEN(names); k++) {
		td_buf_printf(t, "# HELP tandem_bridge_slurm_%s_total %s\n# TYPE tandem_bridge_slurm_%s_total counter\n", names[k], help[k],
			      names[k]);
		for (enum td_slurm_op op = 0; op < TD_SLURM_OPS; op++) {
			uint64_t v[2];
			td_slurm_stats(l->slurm, op, &v[0], &v[1]);
			td_buf_printf(t, "tandem_bridge_slurm_%s_total{op=\"%s\"} %llu\n", names[k], td_slurm_op_name(op),
				      (unsigned long long)v[k]);
		}
	}
}

static void metrics(struct td_bridge *b, struct td_http_x *x)
{
	td_auto_buf struct td_buf t = {0};
	uint64_t kr, kb;
	td_kube_stats(b->kube, &kr, &kb);
	pthread_mutex_lock(&b->asks->lock);
	size_t asks = HASH_COUNT(b->asks->by_uid), pending = b->asks->pending;
	pthread_mutex_unlock(&b->asks->lock);
	const struct {
		const char *name, *type, *help;
		uint64_t v;
	} rows[] = {
		{"tandem_bridge_asks", "gauge", "Pods that the bridge follows.", asks},
		{"tandem_bridge_asks_pending", "gauge", "Of them, those whose job waits in Slurm's queue.", pending},
		{"tandem_bridge_allocations_total", "counter", "Immediate allocations.", atomic_load(&b->n_allocated)},
		{"tandem_bridge_submits_total", "counter", "Batch stand-ins submitted.", atomic_load(&b->n_submitted)},
		{"tandem_bridge_allocations_refused_total", "counter", "Immediate allocations that Slurm refused.",
		 atomic_load(&b->n_refused_fast)},
		{"tandem_bridge_bound_total", "counter", "Pods bound.", atomic_load(&b->n_bound)},
		{"tandem_bridge_pods_ended_total", "counter", "Pods ended because their grant ended.", atomic_load(&b->n_ended_pods)},
		{"tandem_bridge_jobs_ended_total", "counter", "Jobs ended because their pod ended.", atomic_load(&b->n_ended_jobs)},
		{"tandem_bridge_job_lists_total", "counter", "Complete listings of Slurm's jobs.", atomic_load(&b->n_lists)},
		{"tandem_bridge_kube_requests_total", "counter", "Requests to the API server.", kr},
		{"tandem_bridge_kube_bytes_total", "counter", "Bytes received from the API server.", kb},
		{"tandem_bridge_slurm_state_lost", "gauge", "1 while Slurm seems to have lost its state.", atomic_load(&b->lost)},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++)
		td_buf_printf(&t, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", rows[i].name, rows[i].help, rows[i].name, rows[i].type,
			      rows[i].name, (unsigned long long)rows[i].v);
	slurm_metrics(b, &t);
	td_http_send(x, 200, "text/plain; version=0.0.4", td_buf_str(&t), t.len);
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct td_bridge *b = ctx;
	const char *path = td_http_path(x), *pod = td_http_query(x, "pod"), *job = td_http_query(x, "job");
	long long id;
	if (strcmp(td_http_method(x), "GET") != 0)
		say(x, 405, "only GET");
	else if (!strcmp(path, "/metrics"))
		metrics(b, x);
	else if (!strcmp(path, "/healthz"))
		td_http_send(x, 200, "text/plain", "ok\n", 3);
	else if (strcmp(path, "/why") != 0)
		say(x, 404, "GET /why?pod=NAMESPACE/NAME or /why?job=ID");
	else if (pod && *pod)
		by_pod(b, x, pod);
	else if (job && td_parse_i64(job, &id) && id > 0)
		by_job(b, x, id);
	else
		say(x, 400, "name a pod (?pod=NAMESPACE/NAME) or a job (?job=ID)");
}

int td_why_run(struct td_bridge *b, struct td_cancel *c, struct td_error *err)
{
	const char *listen[3] = {0};
	int n = 0;
	if (b->o.why)
		listen[n++] = b->o.why;
	if (b->o.metrics)
		listen[n++] = b->o.metrics;
	if (!n)
		return 0;
	const struct td_http_server_opts o = {.listen = listen, .handler = handle, .ctx = b, .max_conns = 32};
	struct td_http_server *s;
	int r = td_http_server_new(&o, &s, err);
	if (r)
		return r;
	r = td_http_server_run(s, c, err);
	td_http_server_free(s);
	return r;
}
