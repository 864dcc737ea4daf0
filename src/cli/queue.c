// tandem queue: all jobs that run and wait, as squeue shows them, from anywhere.
#include "cli/client.h"
#include "cmd/roles.h"

#include "base/clock.h"
#include "base/term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FURTHER = 12 }; // where the further lines of a row begin

struct queue_wanted {
	const char *user, *partition, *output;
};

static bool is_meant(const struct queue_wanted *w, const yyjson_val *job)
{
	const char *state = td_jstr_or(job, "state", "");
	bool live = !strcmp(state, "waiting") || !strcmp(state, "running") || !strcmp(state, "starting") ||
		    !strcmp(state, "suspended");
	return live && (!w->user || td_streq(td_jstr(job, "user"), w->user)) &&
	       (!w->partition || td_streq(td_jstr(job, "partition"), w->partition));
}

// Where it runs and since when, or why it waits and until when.
static void detail(yyjson_val *job, struct td_buf *b)
{
	char age[32];
	long long started = td_jint(job, "started", 0), now = td_real_ms(&td_clock_system) / 1000;
	size_t i, n;
	yyjson_val *o;
	if (td_streq(td_jstr(job, "state"), "waiting")) {
		td_client_waits(job, b);
		return;
	}
	if (started)
		td_buf_printf(b, "%s", td_time_age((now - started) * 1000, age, sizeof(age)));
	yyjson_arr_foreach (td_jget(job, "on"), i, n, o)
		td_buf_printf(b, "%s%s", i ? "," : " on ", td_jstr_or(o, "node", ""));
	td_client_progress(job, "", b);
}

// An array's jobs as Slurm calls them: 12_3, and 12_[4-7] for those that wait.
static char *number(const yyjson_val *job)
{
	if (!td_jint(job, "array", 0))
		return td_asprintf("%lld", td_jint(job, "id", 0));
	if (td_jstr(job, "tasks"))
		return td_asprintf("%lld_[%s]", td_jint(job, "array", 0), td_jstr(job, "tasks"));
	return td_asprintf("%lld_%lld", td_jint(job, "array", 0), td_jint(job, "task", 0));
}

static void show(yyjson_val *jobs, const struct queue_wanted *w)
{
	bool colors = td_term_colors(STDOUT_FILENO);
	size_t i, n;
	yyjson_val *v;
	printf("%-9s %-10s %-16s %-9s %5s %s\n", "JOB", "USER", "NAME", "STATE", "NODES", "WHERE, OR WHY NOT YET");
	yyjson_arr_foreach (jobs, i, n, v) {
		if (!is_meant(w, v))
			continue;
		const char *state = td_client_state(v), *name = td_jstr_or(v, "name", "");
		// A pod's job has the pod's UID behind its name.
		size_t len = strcspn(name, ".");
		td_auto_free char *id = number(v), *user = td_strdup(td_jstr_or(v, "user", "?"));
		td_auto_buf struct td_buf d = {0};
		detail(v, &d);
		td_auto_free char *line =
			td_asprintf("%-9s %-10.10s %-16.*s %s%-9s%s %5lld %s", id, user, (int)(len < 16 ? len : 16),
				    name, td_term_color(colors, td_client_color(state)), state,
				    td_term_color(colors, TD_TERM_PLAIN), td_jint(v, "nodes", 0), td_buf_str(&d));
		td_term_wrap(line, FURTHER, td_term_columns(STDOUT_FILENO));
	}
}

static void show_json(yyjson_val *jobs, const struct queue_wanted *w)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *l = td_jm_arr(d, yyjson_mut_doc_get_root(d), "jobs");
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (jobs, i, n, v)
		if (is_meant(w, v))
			yyjson_mut_arr_append(l, yyjson_val_mut_copy(d, v));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

int td_queue_main(int argc, char **argv)
{
	struct queue_wanted w = {0};
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "user",
		 .letter = 'u',
		 .value = "NAME",
		 TD_OPT_TEXT(&w.user),
		 .help = "only jobs of this user"},
		{.name = "partition",
		 .letter = 'p',
		 .value = "NAME",
		 TD_OPT_TEXT(&w.partition),
		 .help = "only jobs in this partition"},
		TD_CLIENT_OUTPUT(&w.output),
	};
	const struct td_command line = {
		.name = "queue",
		.about =
			"Lists all jobs and pods that run and wait, as Slurm's squeue does: where each runs, or why it "
			"waits, in words, and when it is expected to begin. What Slurm hides from you is not there. "
			"`tandem ps` shows your own runs.",
		.options = options,
		.n = TD_LEN(options)};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_client_open(&c, &err) || td_client_call(&c, "GET", "/api/v1/jobs", NULL, &j, &err))
		return td_client_failed("queue", &err);
	if (w.output)
		show_json(td_jget(td_json_root(j), "jobs"), &w);
	else
		show(td_jget(td_json_root(j), "jobs"), &w);
	return 0;
}
