// tandem session: pods of one's own with an HTTP server in them, behind the gateway.
#include "cli/client.h"
#include "cli/jobfile.h"
#include "cmd/roles.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 500 };

struct wish {
	const char *name, *image, *memory, *output, *env;
	int gpus, cpus, idle_min;
	bool no_wait;
};

static char *path_of(const char *id)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "/api/v1/sessions/");
	td_url_escape(&b, id);
	return td_buf_take(&b);
}

static void print(const struct td_client *c, yyjson_val *s, bool json)
{
	char when[32];
	if (json) {
		td_auto_free char *text = td_json_pretty(s);
		puts(text);
		return;
	}
	bool served = td_jstr(s, "path") != NULL;
	printf("%-28s %-9s %s%s", td_jstr_or(s, "id", "?"), td_jstr_or(s, "state", "?"), served ? c->url : "",
	       td_jstr_or(s, "path", td_jstr_or(s, "command", "")));
	if (td_jstr(s, "words"))
		printf("  %s", td_jstr(s, "words"));
	if (td_jint(s, "ends", 0))
		printf("  ends at %s if it is not used", td_client_when(td_jint(s, "ends", 0), when, sizeof(when)));
	putchar('\n');
}

// Waiting in the queue is never a failure: it goes on until the session is ready, or is over.
static int wait_for(struct td_client *c, const char *id, struct td_json **ret, struct td_error *err)
{
	td_auto_free char *path = path_of(id), *said = NULL;
	for (;;) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		int r = td_client_call(c, "GET", path, NULL, &j, err);
		if (r)
			return r;
		const char *state = td_jstr_or(td_json_root(j), "state", ""),
			   *words = td_jstr_or(td_json_root(j), "words", state);
		bool batch = td_streq(td_jstr(td_json_root(j), "kind"), "batch");
		if (!strcmp(state, "ready") || !strcmp(state, "running") || (batch && !strcmp(state, "done"))) {
			*ret = td_steal(j);
			return 0;
		}
		if (!strcmp(state, "failed") || !strcmp(state, "done") || !strcmp(state, "stopping"))
			return td_fail(err, TD_INVALID, "session %s has ended before it could be used: %s", id, words);
		if (!td_streq(words, said))
			fprintf(stderr, "%s: %s\n", state, words);
		free(said);
		said = td_strdup(words);
		td_cancel_wait(NULL, WAIT_MS);
	}
}

// The kind that the first word names; NULL: it is the command of an endpoint.
static const char *kind_of(const char *word)
{
	static const char *const kinds[] = {"jupyter", "shell", "endpoint", "batch"};
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (td_streq(kinds[i], word))
			return kinds[i];
	return NULL;
}

static int start(struct td_client *c, const struct wish *w, char **command, struct td_error *err)
{
	td_auto_buf struct td_buf line = {0};
	long long memory = 0;
	const char *kind = kind_of(command[0]);
	if (kind)
		command++;
	bool own = td_streq(kind, "jupyter") || td_streq(kind, "shell");
	if (!command[0] && !own)
		return td_fail(err, TD_INVALID, "say behind \"--\" what %s",
			       td_streq(kind, "batch") ? "runs" : "serves HTTP at port $PORT");
	if (command[0] && own)
		return td_fail(err, TD_INVALID, "a session \"%s\" brings its own program: leave \"%.40s\" out", kind,
			       command[0]);
	if (command[0] && !command[1])
		td_buf_puts(&line, command[0]); // a line of shell
	for (size_t i = 0; command[0] && command[1] && command[i]; i++) {
		if (i)
			td_buf_putc(&line, ' ');
		// $PORT is the session's, so it is not quoted away.
		if (!strcmp(command[i], "$PORT"))
			td_buf_puts(&line, command[i]);
		else
			td_jobfile_quote(&line, command[i]);
	}
	int r = w->memory ? td_jobfile_memory(w->memory, &memory, err) : 0;
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "name", w->name);
	td_jm_str(d, o, "image", w->image);
	td_jm_str(d, o, "kind", kind);
	td_jm_str(d, o, "env", w->env);
	if (line.len)
		td_jm_str(d, o, "command", td_buf_str(&line));
	if (w->gpus)
		td_jm_int(d, o, "gpus", w->gpus);
	if (w->cpus)
		td_jm_int(d, o, "cpus", w->cpus);
	if (memory)
		td_jm_int(d, o, "memoryMiB", memory);
	if (w->idle_min)
		td_jm_int(d, o, "idle", w->idle_min * 60LL);
	td_auto(td_json_unref) struct td_json *j = NULL, *ready = NULL;
	if ((r = td_client_call(c, "POST", "/api/v1/sessions", d, &j, err)))
		return r;
	if (!w->no_wait && (r = wait_for(c, td_jstr_or(td_json_root(j), "id", ""), &ready, err)))
		return r;
	print(c, td_json_root(ready ? ready : j), w->output != NULL);
	return 0;
}

static int list(struct td_client *c, bool json, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/sessions", NULL, &j, err);
	size_t i, n;
	yyjson_val *s;
	if (!r && json)
		print(c, td_json_root(j), true);
	yyjson_arr_foreach (json ? NULL : td_jget(td_json_root(j), "sessions"), i, n, s)
		print(c, s, false);
	return r;
}

int td_session_main(int argc, char **argv)
{
	struct wish w = {0};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "name", .value = "NAME", TD_OPT_TEXT(&w.name), .help = "of the session"},
		{.name = "gpus", .value = "N", TD_OPT_INT(&w.gpus, 0, 64), .help = "GPUs (default 0)"},
		{.name = "cpus", .value = "N", TD_OPT_INT(&w.cpus, 1, 1024), .help = "CPUs (default 1)"},
		{.name = "memory", .value = "SIZE", TD_OPT_TEXT(&w.memory), .help = "memory (default 1G)"},
		{.name = "image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&w.image),
		 .help = "container image (default: the one of Slurm's nodes)"},
		{.name = "env",
		 .value = "PATH",
		 TD_OPT_TEXT(&w.env),
		 .help = "jupyter and shell: the directory of an environment there, below your home or absolute"},
		{.name = "idle",
		 .value = "MINUTES",
		 TD_OPT_INT(&w.idle_min, 1, 60),
		 .help = "ends when it was not used for so long (default 60)"},
		{.name = "no-wait", TD_OPT_SWITCH(&w.no_wait), .help = "start: does not wait until it can be used"},
		TD_CLIENT_OUTPUT(&w.output),
	};
	const struct td_command line = {.name = "session",
					.about = "A pod of yours in the one queue, reached through the gateway by you "
						 "alone:\n"
						 "  tandem session start shell\n"
						 "  tandem session start jupyter --gpus 1 --env jupyter\n"
						 "  tandem session start endpoint -- 'python3 -m http.server $PORT'\n"
						 "  tandem session start batch -- python3 train.py\n"
						 "  tandem session list\n"
						 "  tandem session stop ID\n"
						 "Your home is there. Whoever waits in the queue waits: that is no "
						 "failure. A session ends with its program, after 12 hours, or when "
						 "nobody used it for an hour.",
					.options = options,
					.n = TD_LEN(options),
					.min_args = 1,
					.max_args = 1000,
					.args = "start|list|stop",
					.choices = "start|list|stop"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool begin = !strcmp(words[0], "start"), show = !strcmp(words[0], "list"), stop = !strcmp(words[0], "stop");
	if (!begin && !show && !stop)
		return td_command_wrong("session", "\"%s\": give start, list or stop", words[0]);
	if (stop && (!words[1] || words[2]))
		return td_command_wrong("session", "stop: which one?");

	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (!r && begin)
		r = start(&c, &w, words + 1, &err);
	else if (!r && show)
		r = list(&c, w.output != NULL, &err);
	else if (!r) {
		td_auto_free char *path = path_of(words[1]);
		r = td_client_call(&c, "DELETE", path, NULL, NULL, &err);
	}
	return r ? td_client_failed("session", &err) : 0;
}
