// tandem ps, tandem cancel: one's runs.
#include "cli/client.h"
#include "cmd/roles.h"

#include "base/clock.h"
#include "base/term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FURTHER = 6 }; // where the further lines of a row begin

// What there is to say of a step besides its state.
static void detail(yyjson_val *s, const char *state, const char *dir, struct td_buf *b)
{
	char when[32], age[32];
	long long started = td_jint(s, "started", 0), ended = td_jint(s, "ended", 0),
		  now = td_real_ms(&td_clock_system) / 1000;
	if (td_jint(s, "tasks", 0))
		td_buf_printf(b, "%lld tasks: %lld done, %lld failed, %lld running; ", td_jint(s, "tasks", 0),
			      td_jint(s, "tasksDone", 0), td_jint(s, "tasksFailed", 0), td_jint(s, "tasksRunning", 0));
	if (!strcmp(state, "waiting")) {
		td_client_waits(s, b);
	} else if ((!strcmp(state, "running") || !strcmp(state, "suspended")) && started) {
		td_buf_printf(b, "since %s", td_time_age((now - started) * 1000, age, sizeof(age)));
		size_t i, n;
		yyjson_val *o;
		yyjson_arr_foreach (td_jget(s, "on"), i, n, o)
			td_buf_printf(b, "%s%s", i ? ", " : " on ", td_jstr_or(o, "node", ""));
	} else if (ended) {
		td_buf_printf(b, "at %s", td_client_when(ended, when, sizeof(when)));
		if (started)
			td_buf_printf(b, " after %s", td_time_age((ended - started) * 1000, age, sizeof(age)));
		if (td_jstr(s, "cause"))
			td_buf_printf(b, ": %s", td_jstr(s, "cause"));
	}
	while (b->len && strchr("; ", b->s[b->len - 1]))
		b->s[--b->len] = '\0';
	td_client_progress(s, dir, b);
}

static void row(bool colors, const char *before, const char *name, const char *state, const char *job, const char *text)
{
	td_auto_free char *line =
		td_asprintf("%s%-28s %s%-13s%s %-8s %s", before, name, td_term_color(colors, td_client_color(state)),
			    state, td_term_color(colors, TD_TERM_PLAIN), job, text);
	td_term_wrap(line, FURTHER, td_term_columns(STDOUT_FILENO));
}

// The last that a step wrote before it failed.
static void lines(yyjson_val *s)
{
	size_t i, n;
	yyjson_val *l;
	yyjson_arr_foreach (td_jget(s, "lines"), i, n, l)
		printf("      | %s\n", yyjson_get_str(l));
}

static void show(yyjson_val *run, bool colors)
{
	yyjson_val *steps = td_jget(run, "steps"), *s;
	const char *state = td_jstr_or(run, "state", "unknown");
	td_auto_free char *id = td_client_run_shown(run);
	bool one = yyjson_arr_size(steps) == 1;
	size_t i, n;
	td_auto_buf struct td_buf d = {0};
	td_auto_free char *dir = td_client_run_dir(run);
	if (one)
		detail(yyjson_arr_get_first(steps), state, dir, &d);
	if (!strcmp(state, "not-submitted"))
		td_buf_printf(&d, "%s%s", td_jget(run, "refused") ? "refused: " : "",
			      td_jstr_or(run, "refused", "it did not reach Slurm then: submit it again"));
	long long only = td_jint(yyjson_arr_get_first(steps), "job", 0); // 0: none yet
	td_auto_free char *job = one && only ? td_asprintf("%lld", only) : td_strdup("");
	row(colors, "", id, one ? td_client_state(yyjson_arr_get_first(steps)) : state, job, td_buf_str(&d));
	if (one)
		lines(yyjson_arr_get_first(steps));
	yyjson_arr_foreach (steps, i, n, s) {
		if (one)
			break;
		const char *st = td_jstr_or(s, "state", "unknown");
		td_auto_buf struct td_buf t = {0};
		td_auto_free char *name = td_asprintf("  %s%s", i + 1 < n ? "├ " : "└ ", td_jstr_or(s, "name", "?")),
				  *number = td_asprintf("%lld", td_jint(s, "job", 0));
		detail(s, st, dir, &t);
		// The tree's letters are three bytes and one column wide.
		row(colors, "  ", name, td_client_state(s), number, td_buf_str(&t));
		lines(s);
	}
}

// Sessions of one's own: they hold devices too, and say when they will be ended.
static int sessions(struct td_client *c, bool colors, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	char when[32];
	int r = td_client_call(c, "GET", "/api/v1/sessions", NULL, &j, err);
	size_t i, n;
	yyjson_val *s;
	yyjson_arr_foreach (td_jget(td_json_root(j), "sessions"), i, n, s) {
		td_auto_buf struct td_buf b = {0};
		long long begins = td_jint(s, "begins", 0), ends = td_jint(s, "ends", 0),
			  ended = td_jint(s, "ended", 0);
		if (!i)
			printf("\n%-28s %-13s %s\n", "SESSION", "STATE", "JOB");
		const char *words = td_jstr_or(s, "words", "");
		if (!td_jint(s, "replicas.asked", 0)) // else they stand at the replica that says them
			td_buf_printf(&b, "%.*s", (int)strcspn(words, "\n"), words); // of last words the first
		td_auto_buf struct td_buf asked = {0};
		td_client_replicas(s, &asked);
		td_client_nodes(s, &asked);
		if (asked.len)
			td_buf_printf(&b, "%s%s", b.len ? "; " : "",
				      td_buf_str(&asked) + strspn(td_buf_str(&asked), " ;"));
		td_buf_reset(&asked);
		td_client_requests(s, &asked);
		if (asked.len)
			td_buf_printf(&b, "%s%s", b.len ? "; " : "", td_buf_str(&asked));
		if (begins)
			td_buf_printf(&b, "%sbegins at %s", b.len ? "; " : "",
				      td_client_when(begins, when, sizeof(when)));
		if (ended)
			td_buf_printf(&b, "%sended at %s", b.len ? "; " : "",
				      td_client_when(ended, when, sizeof(when)));
		if (ends)
			td_buf_printf(&b, "%sends at %s unless that changes: %s", b.len ? "; " : "",
				      td_client_when(ends, when, sizeof(when)), td_jstr_or(s, "endsBecause", ""));
		row(colors, "", td_jstr_or(s, "id", "?"), td_jstr_or(s, "state", "unknown"), td_jstr_or(s, "job", ""),
		    td_buf_str(&b));
	}
	return r;
}

int td_ps_main(int argc, char **argv)
{
	const char *output = NULL;
	bool all = false;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "all", .letter = 'a', TD_OPT_SWITCH(&all), .help = "also what ended more than a day ago"},
		TD_CLIENT_OUTPUT(&output),
	};
	const struct td_command line = {.name = "ps",
					.about =
						"Lists your runs, newest first: what each does, or waits for; and your "
						"sessions: when each will be ended, and why.",
					.options = options,
					.n = TD_LEN(options)};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_client_open(&c, &err) || td_client_call(&c, "GET", "/api/v1/runs", NULL, &j, &err))
		return td_client_failed("ps", &err);
	if (output) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
		return 0;
	}
	const char *problem = td_jstr(td_json_root(j), "problem");
	if (problem)
		fprintf(stderr, "note: states are as they were last seen: %s\n", problem);
	printf("%-28s %-13s %s\n", "RUN", "STATE", "JOB");
	bool colors = td_term_colors(STDOUT_FILENO);
	int64_t day = td_real_ms(&td_clock_system) / 1000 - 86400;
	size_t i, n;
	yyjson_val *run;
	yyjson_arr_foreach (td_jget(td_json_root(j), "runs"), i, n, run) {
		const char *state = td_jstr_or(run, "state", "");
		bool live = !strcmp(state, "running") || !strcmp(state, "waiting") || !strcmp(state, "suspended");
		if (all || live || td_jint(run, "created", 0) > day)
			show(run, colors);
	}
	return sessions(&c, colors, &err) ? td_client_failed("ps", &err) : 0;
}

static int cancel(struct td_client *c, const char *what, struct td_error *err)
{
	long long number;
	bool job = td_parse_i64(what, &number);
	td_auto_buf struct td_buf path = {0};
	td_auto_free char *id = job ? td_strdup(what) : NULL;
	int r;
	// Of a name only the one run that has not ended is meant: nothing is cancelled by a guess.
	if (!job && (r = td_client_run_of(c, what, true, &id, err)))
		return r;
	td_buf_puts(&path, job ? "/api/v1/jobs/" : "/api/v1/runs/");
	td_url_escape(&path, id);
	if (!job)
		td_buf_puts(&path, "/cancel");
	if ((r = td_client_call(c, job ? "DELETE" : "POST", td_buf_str(&path), NULL, NULL, err)))
		return r;
	printf("%s %s is cancelled.\n", job ? "Job" : "Run", id);
	return 0;
}

int td_cancel_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code = 0;
	const struct td_command line = {
		.name = "cancel",
		.about = "Cancels what is left of a run, by its id or, where one of that name has "
			 "not ended, by its name; or a job of yours by its number. Several may be named.",
		.min_args = 1,
		.max_args = 1000,
		.args = "RUN | JOBID…"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_client struct td_client c = {0};
	if (td_client_open(&c, &err))
		return td_client_failed("cancel", &err);
	for (int i = 0; words[i]; i++) // what cannot be cancelled does not keep the others
		if (cancel(&c, words[i], &err))
			code = td_client_failed("cancel", &err);
	return code;
}
