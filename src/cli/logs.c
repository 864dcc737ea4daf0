// tandem logs: what a run has written, also while it grows.
#include "cli/client.h"
#include "cmd/roles.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 20 };

struct log_reader {
	long long at;
};

static int show(void *ctx, const char *p, size_t n)
{
	struct log_reader *r = ctx;
	r->at += (long long)n;
	return td_write_all(STDOUT_FILENO, p, n, NULL);
}

struct log_wanted {
	const char *run, *step;
	int task;
	bool follow;
};

// Whether to ask once more, after a pause: who follows waits for a gateway that does not answer for a moment.
static bool once_more(const struct log_wanted *w, int rc, int *tries)
{
	if (!w->follow || (rc != TD_TRANSIENT && rc != TD_UNCERTAIN) || ++*tries >= TRIES)
		return false;
	td_cancel_wait(NULL, 500);
	return true;
}

// Reads on where it was cut, as often as it is.
static int read_log(struct td_client *c, const struct log_wanted *w, struct td_error *err)
{
	struct log_reader r = {0};
	for (int tries = 0;;) {
		long long before = r.at;
		td_auto_buf struct td_buf path = {0};
		td_buf_puts(&path, "/api/v1/runs/");
		td_url_escape(&path, w->run);
		td_buf_printf(&path, "/log?offset=%lld&follow=%d&task=%d", r.at, w->follow, w->task);
		if (w->step) {
			td_buf_puts(&path, "&step=");
			td_url_escape(&path, w->step);
		}
		int rc = td_client_stream(c, td_buf_str(&path), show, &r, err);
		if (r.at > before)
			tries = 0;
		if (!once_more(w, rc, &tries))
			return rc;
	}
}

// The run as it is.
static int run_of(struct td_client *c, const struct log_wanted *w, struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r, tries = 0;
	td_buf_puts(&path, "/api/v1/runs/");
	td_url_escape(&path, w->run);
	do
		r = td_client_call(c, "GET", td_buf_str(&path), NULL, ret, err);
	while (once_more(w, r, &tries));
	return r;
}

// Of a run with several steps the log of each, in their order, below a title; else the one log that is meant.
static int read_logs(struct td_client *c, const struct log_wanted *w, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = w->step || w->task ? 0 : run_of(c, w, &j, err);
	if (r == TD_TRANSIENT || r == TD_UNCERTAIN)
		return r; // how many steps it has is not known; of anything else the log's own answer tells
	yyjson_val *steps = td_jget(td_json_root(j), "steps"), *s;
	size_t i, n, own = 0;
	// What was made for the run, such as an environment, tells of itself where it fails.
	yyjson_arr_foreach (steps, i, n, s)
		own += !td_jget(s, "makes");
	if (own < 2)
		return read_log(c, w, err);
	bool first = true;
	yyjson_arr_foreach (steps, i, n, s) {
		struct log_wanted one = *w;
		one.step = td_jstr_or(s, "name", "");
		if (td_jget(s, "makes"))
			continue;
		td_auto_free char *tasks = td_jint(s, "tasks", 0)
						   ? td_asprintf(", task 0 of %lld", td_jint(s, "tasks", 0))
						   : td_strdup("");
		printf("%s==> %s%s <==\n", first ? "" : "\n", one.step, tasks);
		fflush(stdout); // the log is not written through stdio
		first = false;
		if ((r = read_log(c, &one, err)))
			return r;
	}
	return 0;
}

int td_client_follow(struct td_client *c, const char *command, const char *run, const char *step)
{
	struct td_error err = TD_ERROR_INIT;
	const struct log_wanted w = {.run = run, .step = step, .follow = true};
	if (read_logs(c, &w, &err))
		return td_client_failed(command, &err);
	td_auto(td_json_unref) struct td_json *j = NULL;
	run_of(c, &w, &j, &err); // without it, it has not ended well
	yyjson_val *root = td_json_root(j), *steps = td_jget(root, "steps"), *s, *l;
	const char *state = td_jstr(step ? td_jfind(steps, "name", step) : root, "state");
	if (td_streq(state, "done"))
		return 0;
	fprintf(stderr, "tandem %s: run %s: %s", command, run, state ? state : "its end is not known");
	size_t i, n, k, m;
	bool said = false;
	yyjson_arr_foreach (steps, i, n, s) {
		const char *name = td_jstr_or(s, "name", ""), *cause = td_jstr(s, "cause");
		bool makes = td_jget(s, "makes") != NULL;
		if (!cause || said || (step && strcmp(step, name) != 0))
			continue;
		said = true;
		fprintf(stderr, makes || (n > 1 && !step) ? " (%2$s: %1$s)" : " (%1$s)", cause, name);
		// The log of a step of one's own was just shown; what was made for it was not.
		yyjson_arr_foreach (makes ? td_jget(s, "lines") : NULL, k, m, l)
			fprintf(stderr, "\n  %s", yyjson_get_str(l));
	}
	fputc('\n', stderr);
	return 1;
}

int td_logs_main(int argc, char **argv)
{
	struct log_wanted w = {0};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "follow",
		 .letter = 'f',
		 TD_OPT_SWITCH(&w.follow),
		 .help = "goes on until the run has ended; fails if the run does"},
		{.name = "step",
		 .value = "NAME",
		 TD_OPT_TEXT(&w.step),
		 .help = "of a run with steps (default: each, one after the other)"},
		{.name = "task", .value = "N", TD_OPT_INT(&w.task, 0, 1000000), .help = "of a sweep (default 0)"},
	};
	const struct td_command line = {.name = "logs",
					.about = "Shows what a run has written: of a RUN by its id, by its name (the "
						 "newest so called) or by the number of a job of it; of the newest "
						 "run where none is given.",
					.options = options,
					.n = TD_LEN(options),
					.max_args = 1,
					.args = "RUN"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_client struct td_client c = {0};
	td_auto_free char *run = NULL;
	if (td_client_open(&c, &err) || td_client_run_of(&c, words[0], false, &run, &err))
		return td_client_failed("logs", &err);
	w.run = run;
	if (!words[0] || strcmp(words[0], run) != 0)
		fprintf(stderr, "note: run %s.\n", run);
	if (w.follow && !w.task)
		return td_client_follow(&c, "logs", w.run, w.step);
	return read_logs(&c, &w, &err) ? td_client_failed("logs", &err) : 0;
}
