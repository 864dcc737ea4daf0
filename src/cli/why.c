// tandem why: asks the bridge why a pod or a job waits, or where it runs; of a Deployment and the
// like it asks for each pod.
#include "api/condition.h"
#include "api/selector.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"
#include "http/client.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { PODS_NAMED = 10 };

struct asker {
	const char *ns;
	bool json;
	struct td_remote remote;
	// Of the home; of a cluster kube alone.
	struct td_instance instance;
	struct td_http_client *bridge;
	struct td_kube *kube; // NULL until needed
};

static void asker_done(struct asker *a)
{
	td_http_client_free(a->bridge);
	td_kube_free(a->kube);
	td_instance_done(&a->instance);
}

static int connect_kube(struct asker *a, struct td_error *err)
{
	if (a->kube)
		return 0;
	td_auto_free char *conf =
		a->remote.kubeconfig ? td_strdup(a->remote.kubeconfig) : td_instance_kubeconfig(&a->instance, "admin");
	return td_kube_new(conf, &a->kube, err);
}

// Asks the bridge. *ret_good: it knows what was asked for; else its text says what is wrong.
static int ask(struct asker *a, const char *path, bool *ret_good, struct td_json **ret, struct td_error *err)
{
	int r;
	if (a->remote.kubeconfig) {
		*ret_good = true;
		return (r = connect_kube(a, err)) ? r : td_remote_ask_bridge(a->kube, &a->remote, path, NULL, ret, err);
	}

	td_auto_free char *sock = td_asprintf("%s/bridge.sock", a->instance.run);
	const struct td_http_client_opts o = {.base_url = "http://bridge", .unix_socket = sock, .timeout_ms = 10000};
	const struct td_http_call call = {.method = "GET", .path = path};
	td_auto_reply struct td_http_reply rep = {0};

	r = a->bridge ? 0 : td_http_client_new(&o, &a->bridge, err);
	if (r || (r = td_http_do(a->bridge, &call, NULL, &rep, err)))
		return td_fail(err, r,
			       "the bridge does not answer: it waits for Slurm, or does not run. `tandem status` says "
			       "what is wrong");
	if ((r = td_json_parse(td_buf_str(&rep.body), rep.body.len, ret, err)))
		return td_wrap(err, "the bridge's answer is not readable");
	*ret_good = rep.status == 200;
	return 0;
}

static int failed(const struct td_error *err)
{
	fprintf(stderr, "tandem why: %s\n", err->msg);
	return 1;
}

static void print(bool json, yyjson_val *v, bool good)
{
	if (json) {
		td_auto_free char *text = td_json_pretty(v);
		puts(text);
	} else {
		fprintf(good ? stdout : stderr, "%s\n", td_jstr_or(v, "text", "no answer"));
	}
}

static int one(struct asker *a, const char *path)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *j = NULL;
	bool good;
	if (ask(a, path, &good, &j, &err))
		return failed(&err);
	print(a->json, td_json_root(j), good);
	return good ? 0 : 1;
}

static char *pod_path(const char *ns, const char *name)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "/why?pod=");
	td_url_escape(&b, ns);
	td_buf_puts(&b, "%2F");
	td_url_escape(&b, name);
	return td_buf_take(&b);
}

// ---- what has pods ----

static const struct td_gvr knative = {"serving.knative.dev", "v1", "services", "Knative Service", true},
			   revisions = {"serving.knative.dev", "v1", "revisions", "Revision", true},
			   kserve = {"serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService", true};

// A kind with spec.selector has no label: its pods are those that it selects.
struct why_kind {
	const char *word; // as kubectl takes it, without the plural's "s" and without a group
	const struct td_gvr *gvr;
	const char *label; // of its pods; its value is the object's name
};
static const struct why_kind kinds[] = {
	{"deployment", &td_deployments, NULL},
	{"deploy", &td_deployments, NULL},
	{"replicaset", &td_replicasets, NULL},
	{"rs", &td_replicasets, NULL},
	{"statefulset", &td_statefulsets, NULL},
	{"sts", &td_statefulsets, NULL},
	{"job", &td_jobs, NULL},
	{"ksvc", &knative, "serving.knative.dev/service"},
	{"kservice", &knative, "serving.knative.dev/service"},
	{"service.serving.knative.dev", &knative, "serving.knative.dev/service"},
	{"services.serving.knative.dev", &knative, "serving.knative.dev/service"},
	{"revision", &revisions, "serving.knative.dev/revision"},
	{"isvc", &kserve, "serving.kserve.io/inferenceservice"},
	{"inferenceservice", &kserve, "serving.kserve.io/inferenceservice"},
};

// What "deployment.apps/web" names; NULL: no kind that has pods.
static const struct why_kind *kind_of(const char *what)
{
	size_t n = strcspn(what, "./"), whole = strcspn(what, "/");
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		size_t len = strlen(kinds[i].word);
		if (!strncmp(what, kinds[i].word, len) &&
		    (n == len || (n == len + 1 && what[len] == 's') || whole == len))
			return &kinds[i];
	}
	return NULL;
}

static bool over(const struct td_object *pod)
{
	const char *phase = td_jstr_or(pod->root, "status.phase", "");
	return !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
}

static bool runs(const struct td_object *pod)
{
	return td_streq(td_jstr(pod->root, "status.phase"), "Running");
}

// Why it has no pods: the condition that says so.
static void no_pods(const struct td_object *o, struct td_buf *t)
{
	static const char *const bad[] = {"ReplicaFailure", "Failed", "Suspended"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		yyjson_val *c = td_condition(o->root, bad[i]);
		if (td_streq(td_jstr(c, "status"), "True")) {
			td_buf_printf(t, " %s: %s.", bad[i], td_jstr_or(c, "message", td_jstr_or(c, "reason", "?")));
			return;
		}
	}
}

// Appends the bridge's answers to the pods: first those that wait.
static int answers(struct asker *a, const struct td_objects *pods, yyjson_mut_doc *d, yyjson_mut_val *list,
		   struct td_buf *t, struct td_error *err)
{
	size_t named = 0;
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < pods->n && named < PODS_NAMED; i++) {
			if (over(pods->v[i]) || runs(pods->v[i]) != (round == 1))
				continue;
			td_auto_free char *path = pod_path(pods->v[i]->ns, pods->v[i]->name);
			td_auto(td_json_unref) struct td_json *j = NULL;
			bool good;
			int r = ask(a, path, &good, &j, err);
			if (r)
				return r;
			td_buf_printf(t, "\n%s", td_jstr_or(td_json_root(j), "text", "no answer"));
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, td_json_root(j)));
			named++;
		}

	size_t live = 0;
	for (size_t i = 0; i < pods->n; i++)
		live += !over(pods->v[i]);
	if (live > named)
		td_buf_printf(t, "\n… and %zu more.", live - named);
	return 0;
}

// What a service says of itself when it is not ready: its own conditions, each reason once.
static void says(const struct td_object *o, struct td_buf *t)
{
	const char *const types[] = {"Ready", "ConfigurationsReady", "PredictorReady", "ResourcesAvailable", "Active"};
	const char *last = "";
	for (size_t i = 0; i < TD_LEN(types); i++) {
		yyjson_val *c = td_condition(o->root, types[i]);
		const char *text = td_jstr_or(c, "message", td_jstr_or(c, "reason", ""));
		if (!*text || td_streq(td_jstr(c, "status"), "True") || !strcmp(text, last))
			continue;
		td_buf_printf(t, " %s: %s%s", types[i], text, td_ends(text, ".") ? "" : ".");
		last = text;
	}
}

static int of_workload(struct asker *a, const struct why_kind *k, const char *name, yyjson_mut_doc *d, struct td_buf *t,
		       struct td_error *err)
{
	const struct td_gvr *g = k->gvr;
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto(td_selector_free) struct td_selector *sel = NULL;
	td_auto_objects struct td_objects pods = {0};

	int r = connect_kube(a, err);
	if (r)
		return r;
	if ((r = td_kube_get(a->kube, g, a->ns, name, NULL, &o, err)))
		return r == TD_NOT_FOUND ? td_fail(err, r, "there is no %s %s/%s", g->kind, a->ns, name) : r;
	if (!k->label && (r = td_selector_from_object(td_jget(o->root, "spec.selector"), &sel, err)))
		return r;
	td_auto_free char *labels = k->label ? td_asprintf("%s=%s", k->label, name) : td_selector_text(sel);
	if ((r = td_kube_list(a->kube, &td_pods, a->ns, labels, NULL, NULL, &pods, err)))
		return r;

	size_t run = 0, end = 0;
	for (size_t i = 0; i < pods.n; i++) {
		run += runs(pods.v[i]);
		end += over(pods.v[i]);
	}
	long long want = td_jint(o->root, g == &td_jobs ? "spec.completions" : "spec.replicas", 1);
	td_buf_printf(t, "%s %s/%s ", g->kind, o->ns, o->name);
	if (k->label) // its autoscaler knows how many there are to be
		td_buf_printf(t, "has %zu pod%s: ", pods.n, pods.n == 1 ? "" : "s");
	else
		td_buf_printf(t, "wants %lld pod%s: ", want, want == 1 ? "" : "s");
	td_buf_printf(t, "%zu run%s", run, run == 1 ? "s" : "");
	if (end)
		td_buf_printf(t, ", %zu ended", end);
	td_buf_printf(t, ", %zu wait%s.", pods.n - run - end, pods.n - run - end == 1 ? "s" : "");
	if (k->label)
		says(o, t);
	else if ((long long)pods.n < want)
		no_pods(o, t);
	return answers(a, &pods, d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "pods"), t, err);
}

static int workload(struct asker *a, const struct why_kind *k, const char *name)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_buf struct td_buf t = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	if (of_workload(a, k, name, d, &t, &err))
		return failed(&err);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "text", td_buf_str(&t));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	print(a->json, td_json_root(j), true);
	return 0;
}

// ---- runs ----

// A number, or one with "_" and what follows: a job.
static bool is_job(const char *what)
{
	size_t digits = what ? strspn(what, "0123456789") : 0;
	return digits && (!what[digits] || what[digits] == '_');
}

// A job that no run has, such as one of sbatch.
static int of_job(struct td_client *c, const char *id, bool json)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf t = {0};
	td_auto_free char *number = td_strndup(id, strcspn(id, "_"));
	td_auto_free char *path = td_asprintf("/api/v1/jobs/%s", number);
	int r = td_client_call(c, "GET", path, NULL, &j, &err);
	if (r && r != TD_NOT_FOUND)
		return failed(&err);
	const char *task = strchr(id, '_');
	size_t i, n;
	yyjson_val *v;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *asked = td_jm_arr(d, root, "records");
	yyjson_val *key;
	yyjson_obj_foreach (td_json_root(j), i, n, key, v)
		if (!yyjson_equals_str(key, "records"))
			td_jm_copyval(d, root, yyjson_get_str(key), v);
	yyjson_arr_foreach (td_jget(td_json_root(j), "records"), i, n, v) {
		td_auto_free char *own = td_asprintf("%lld", td_jint(v, "task", -1));
		if (task && !td_jstr(v, "tasks") && strcmp(own, task + 1) != 0)
			continue;
		td_buf_puts(&t, t.len ? "\n" : "");
		td_client_job_says(v, &t);
		yyjson_mut_arr_append(asked, yyjson_val_mut_copy(d, v));
	}
	if (!t.len) {
		td_fail(&err, TD_NOT_FOUND, "there is no job %s: it never was, or ended a while ago", id);
		return failed(&err);
	}
	td_auto(td_json_unref) struct td_json *shown =
		td_json_from_mut(root); // of an array the task that was asked for
	if (json)
		print(true, td_json_root(shown), true);
	else
		puts(td_buf_str(&t));
	return 0;
}

// Asks the gateway where somebody has logged in about one of his runs, or a job.
static int of_run(const char *id, bool json)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_buf struct td_buf path = {0}, t = {0};
	td_auto_free char *run = NULL;
	if (td_client_open(&c, &err))
		return failed(&err);
	if (td_client_run_of(&c, id, false, &run, &err))
		return err.code == TD_NOT_FOUND && is_job(id) ? of_job(&c, id, json) : failed(&err);
	td_buf_puts(&path, "/api/v1/runs/");
	td_url_escape(&path, run);
	if (td_client_call(&c, "GET", td_buf_str(&path), NULL, &j, &err))
		return failed(&err);
	if (json) {
		print(true, td_json_root(j), true);
		return 0;
	}
	size_t i, n;
	yyjson_val *s;
	td_auto_free char *dir = td_client_run_dir(td_json_root(j));
	yyjson_arr_foreach (td_jget(td_json_root(j), "steps"), i, n, s) {
		const char *state = td_jstr_or(s, "state", "unknown"), *words = td_jstr_or(s, "words", "");
		long long expected = td_jint(s, "expected", 0);
		char when[32];
		td_buf_printf(&t, "%s%s", i ? "\n" : "", n > 1 ? td_jstr_or(s, "name", "") : "");
		td_buf_printf(&t, "%s%s", n > 1 ? " " : "", state);
		if (td_jint(s, "job", 0))
			td_buf_printf(&t, " (job %lld)", td_jint(s, "job", 0));
		td_buf_printf(&t, "%s%s", *words ? ": " : "", words);
		if (expected)
			td_buf_printf(&t, "; expected to start at %s", td_client_when(expected, when, sizeof(when)));
		td_auto_buf struct td_buf goes = {0};
		td_client_progress(s, dir, &goes);
		td_buf_printf(&t, "%s%s.", goes.len ? "; " : "", td_buf_str(&goes));
	}
	if (td_streq(td_jstr(td_json_root(j), "state"), "not-submitted"))
		td_buf_printf(&t, "not-submitted: %s.",
			      td_jstr_or(td_json_root(j), "refused", "it did not reach Slurm then: submit it again"));
	td_auto_free char *shown = td_client_run_shown(td_json_root(j));
	const yyjson_val *f = td_jget(td_json_root(j), "federation");
	printf("Run %s: %s\n", shown, td_buf_str(&t));
	if (td_jstr(f, "member"))
		printf("It is at cluster %s of federation %s: %s.\n", td_jstr(f, "member"), td_jstr_or(f, "name", "?"),
		       td_jstr_or(f, "why", "nobody knows why"));
	yyjson_val *refused;
	yyjson_arr_foreach (td_jget(f, "refused"), i, n, refused)
		printf("It was not taken by %s: %s\n", td_jstr_or(refused, "member", "?"),
		       td_jstr_or(refused, "why", "?"));
	return 0;
}

// ---- the command ----

static int of_words(struct asker *a, const char *what)
{
	const char *slash = strchr(what, '/'), *name = slash ? slash + 1 : what;
	if (slash && (td_starts(what, "pod/") || td_starts(what, "pods/") || td_starts(what, "po/")))
		slash = NULL;
	else if (!slash && is_job(what)) {
		td_auto_buf struct td_buf path = {0};
		td_buf_puts(&path, "/why?job=");
		td_url_escape(&path, what);
		return one(a, td_buf_str(&path));
	}

	const struct why_kind *k = slash ? kind_of(what) : NULL;
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
	bool no_ns = slash && !k && (slash == what || strspn(what, plain) != (size_t)(slash - what));
	if (!*name || strspn(name, plain) != strlen(name) || no_ns)
		return td_command_wrong(
			"why",
			"\"%s\" is neither a pod nor a job: give a pod's name, deployment/NAME, run/NAME of a run, "
			"or a job's id such as 12, 12_3 or 12_[4-7]",
			what);
	if (k)
		return workload(a, k, name);
	// Else what stands before the slash is a namespace, as in Tandem's own words.
	td_auto_free char *ns = slash ? td_strndup(what, slash - what) : td_strdup(a->ns), *path = pod_path(ns, name);
	int code = one(a, path);
	if (code == 1 && !slash && !a->json && td_client_known())
		fprintf(stderr, "(A run of yours is asked for by `tandem why run/%s`.)\n", name);
	else if (code == 1 && !slash && !a->json)
		fprintf(stderr,
			"(`kubectl get pods -A` lists pods, `tandem queue` jobs; -n NS names another namespace.)\n");
	if (code == 1 && slash && !a->json)
		fprintf(stderr,
			"(\"%s\" was taken for a namespace. Kinds that it knows are pod, deployment, replicaset, "
			"statefulset, job of Kubernetes, ksvc and revision of Knative, isvc of KServe.)\n",
			ns);
	return code;
}

int td_why_main(int argc, char **argv)
{
	__attribute__((cleanup(asker_done))) struct asker a = {.ns = "default"};
	const char *output = NULL;
	char **words;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "of the pod or of what has pods (default: default)",
		 TD_OPT_TEXT(&a.ns)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&a.remote),
	};
	const struct td_command line = {
		.name = "why",
		.about = "Says in plain words why a pod or a Slurm job waits, or where it runs:\n"
			 "  tandem why web-6c5f9d4b7-x2x7k      a pod; also pod/NAME, NS/NAME\n"
			 "  tandem why deployment/web           each of its pods; also rs, sts, job\n"
			 "  tandem why ksvc/hello               of a Knative Service; also revision\n"
			 "  tandem why isvc/llm                 of an InferenceService of KServe\n"
			 "  tandem why 12                       a job; of an array also 12_3 and 12_[4-7]\n"
			 "  tandem why run/train-3fa9c1         a run of yours, after `tandem login`",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 1,
		.args = "POD | KIND/NAME | JOBID | RUN",
		.exits = "0 answered, 1 no such pod or job, or no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool given = a.remote.kubeconfig;
	if (td_remote_check(&a.remote, &err))
		return td_command_wrong("why", "%s", err.msg);

	a.json = output != NULL;
	if (td_starts(words[0], "run/"))
		return of_run(words[0] + strlen("run/"), a.json);
	int r = a.remote.kubeconfig ? 0 : td_instance_load(&a.instance, &err);
	// Where there is no plane, but somebody has logged in, he means his runs.
	if ((r || (a.remote.kubeconfig && !given)) && td_client_known() && !strchr(words[0], '/'))
		return of_run(words[0], a.json);
	if (r)
		return failed(&err);
	return of_words(&a, words[0]);
}
