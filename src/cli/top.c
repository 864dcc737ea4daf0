// tandem top: who uses the pool and who waits, from the gateway.
#include "cli/client.h"
#include "cmd/roles.h"

#include "base/term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EACH_MS = 2000 };

// What one user has, and waits for.
struct top_user {
	const char *name;
	double gpus; // a part of one counts as what it is of it
	long long cpus, running, waiting;
};
struct top {
	struct top_user *v;
	size_t n;
	long long gpus, used, nodes, out;
};

static void top_done(struct top *t)
{
	free(t->v);
}

static struct top_user *of(struct top *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].name, name))
			return &t->v[i];
	t->v = td_realloc(t->v, (t->n + 1) * sizeof(*t->v));
	t->v[t->n] = (struct top_user){.name = name};
	return &t->v[t->n++];
}

static int most_first(const void *a, const void *b)
{
	const struct top_user *x = a, *y = b;
	if (x->gpus != y->gpus)
		return (x->gpus < y->gpus) - (x->gpus > y->gpus);
	return x->cpus != y->cpus ? (x->cpus < y->cpus) - (x->cpus > y->cpus) : strcmp(x->name, y->name);
}

static void count(yyjson_val *pool, yyjson_val *jobs, struct top *t)
{
	size_t i, n, k, m, s, all;
	yyjson_val *v, *g, *x;
	yyjson_arr_foreach (td_jget(pool, "nodes"), i, n, v) {
		t->nodes++;
		t->out += !td_jbool(v, "usable", true);
		yyjson_arr_foreach (td_jget(v, "gpus"), k, m, g) {
			t->gpus++;
			t->used += td_jbool(g, "used", false);
			if (td_jstr(g, "user"))
				of(t, td_jstr(g, "user"))->gpus++;
			yyjson_arr_foreach (td_jget(g, "shares"), s, all, x)
				of(t, td_jstr_or(x, "user", "?"))->gpus += (double)td_jint(x, "share", 0) / 100;
		}
	}
	yyjson_arr_foreach (td_jget(jobs, "jobs"), i, n, v) {
		const char *state = td_jstr_or(v, "state", ""), *user = td_jstr_or(v, "user", "?");
		// One that is suspended has its devices.
		bool runs = !strcmp(state, "running") || !strcmp(state, "starting") || !strcmp(state, "suspended");
		if (!runs && strcmp(state, "waiting") != 0)
			continue;
		struct top_user *u = of(t, user);
		u->running += runs;
		u->waiting += !runs;
		u->cpus += runs ? td_jint(v, "cpus", 0) : 0;
	}
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), most_first);
}

// Jobs that hang or wait for a slow rank, a line each; what began again is its owner's to see (tandem ps).
static bool ails(const yyjson_val *job)
{
	return td_streq(td_jstr(job, "state"), "running") && (td_jget(job, "hangs") || td_jget(job, "straggler"));
}

static void print_ailing(yyjson_val *jobs)
{
	enum { LINES = 20 };
	size_t i, n, shown = 0;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(jobs, "jobs"), i, n, v) {
		if (!ails(v) || ++shown > LINES)
			continue;
		td_auto_buf struct td_buf b = {0};
		td_client_progress(v, "", &b);
		if (shown == 1)
			puts("\nDO NOT GET ON");
		printf("job %lld (%s, %s): %s\n", td_jint(v, "id", 0), td_jstr_or(v, "user", "?"),
		       td_jstr_or(v, "name", ""), td_buf_str(&b));
	}
	if (shown > LINES)
		printf("… and %zu more\n", shown - LINES);
}

static void print(const struct top *t, yyjson_val *jobs)
{
	printf("%lld nodes, %lld of them out of use; %lld of %lld GPUs in use\n\n", t->nodes, t->out, t->used, t->gpus);
	printf("%-20s %6s %6s %8s %8s\n", "USER", "GPUS", "CPUS", "RUNNING", "WAITING");
	for (size_t i = 0; i < t->n; i++)
		printf("%-20s %6.6g %6lld %8lld %8lld\n", t->v[i].name, t->v[i].gpus, t->v[i].cpus, t->v[i].running,
		       t->v[i].waiting);
	print_ailing(jobs);
}

// Who holds each GPU, a line each. The user of a pod is who made it, where that is known.
static void print_gpus(yyjson_val *pool)
{
	size_t i, n, k, m;
	yyjson_val *v, *g;
	printf("%-16s %4s %8s %-12s %-12s %s\n", "NODE", "GPU", "JOB", "USER", "TENANT", "POD OR JOB'S NAME");
	yyjson_arr_foreach (td_jget(pool, "nodes"), i, n, v)
		yyjson_arr_foreach (td_jget(v, "gpus"), k, m, g) {
			bool used = td_jbool(g, "used", false);
			char job[24] = "-";
			if (td_jint(g, "job", 0))
				snprintf(job, sizeof(job), "%lld", td_jint(g, "job", 0));
			const char *user = td_jstr_or(g, "person", td_jstr_or(g, "user", used ? "(hidden)" : "-")),
				   *gang = td_jstr(g, "gang"),
				   *what = td_jstr_or(g, "pod",
						      gang ? gang : td_jstr_or(g, "name", used ? "" : "idle"));
			printf("%-16.16s %4lld %8s %-12.12s %-12.12s %s%s\n", td_jstr_or(v, "name", "?"),
			       td_jint(g, "index", 0), job, user, td_jstr_or(g, "account", "-"), gang ? "gang " : "",
			       what);
		}
}

static void print_json(const struct top *t, yyjson_val *jobs)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *l;
	td_jm_int(d, o, "nodes", t->nodes);
	td_jm_int(d, o, "nodesOut", t->out);
	td_jm_int(d, o, "gpus", t->gpus);
	td_jm_int(d, o, "gpusUsed", t->used);
	l = td_jm_arr(d, o, "users");
	for (size_t i = 0; i < t->n; i++) {
		yyjson_mut_val *u = yyjson_mut_arr_add_obj(d, l);
		td_jm_str(d, u, "user", t->v[i].name);
		const long long whole = (long long)t->v[i].gpus;
		if ((double)whole == t->v[i].gpus)
			td_jm_int(d, u, "gpus", whole);
		else
			yyjson_mut_obj_add_real(d, u, "gpus", t->v[i].gpus);
		td_jm_int(d, u, "cpus", t->v[i].cpus);
		td_jm_int(d, u, "running", t->v[i].running);
		td_jm_int(d, u, "waiting", t->v[i].waiting);
	}
	l = td_jm_arr(d, o, "ailing");
	size_t k, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(jobs, "jobs"), k, n, v)
		if (ails(v))
			yyjson_mut_arr_append(l, yyjson_val_mut_copy(d, v));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(o);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

int td_top_main(int argc, char **argv)
{
	const char *output = NULL;
	bool once = false, gpus = false;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "once", TD_OPT_SWITCH(&once), .help = "prints it once; so it does where there is no terminal"},
		{.name = "gpus",
		 TD_OPT_SWITCH(&gpus),
		 .help = "each GPU with its pod, job, user and tenant (the Slurm account, which is\na Tenant's)"},
		TD_CLIENT_OUTPUT(&output),
	};
	const struct td_command line = {.name = "top",
					.about = "Shows who uses the pool and who waits, anew every two seconds.",
					.options = options,
					.n = TD_LEN(options)};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_auto_client struct td_client c = {0};
	if (td_client_open(&c, &err))
		return td_client_failed("top", &err);
	once = once || output || !isatty(STDOUT_FILENO);
	do {
		td_auto(td_json_unref) struct td_json *pool = NULL, *jobs = NULL;
		__attribute__((cleanup(top_done))) struct top t = {0};
		if (td_client_call(&c, "GET", "/api/v1/pool", NULL, &pool, &err) ||
		    td_client_call(&c, "GET", "/api/v1/jobs", NULL, &jobs, &err))
			return td_client_failed("top", &err);
		count(td_json_root(pool), td_json_root(jobs), &t);
		if (!once)
			fputs("\033[H\033[J", stdout);
		if (gpus && output) {
			td_auto_free char *text = td_json_pretty(td_jget(td_json_root(pool), "nodes"));
			puts(text);
		} else if (gpus) {
			print_gpus(td_json_root(pool));
		} else if (output) {
			print_json(&t, td_json_root(jobs));
		} else {
			print(&t, td_json_root(jobs));
		}
		fflush(stdout);
	} while (!once && !td_cancel_wait(NULL, EACH_MS));
	return 0;
}
