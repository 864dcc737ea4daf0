// tandem session: pods of one's own with an HTTP server in them, behind the gateway.
#include "cli/client.h"
#include "cli/jobfile.h"
#include "cmd/roles.h"

#include "base/clock.h"
#include "base/near.h"
#include "base/term.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	WAIT_MS = 500,
	FURTHER = 6,
	REPLICAS_MOST = 16,
	NODES_MOST = 16
}; // FURTHER: where the further lines of a session begin

struct wish {
	const char *name, *image, *memory, *disk, *output, *env, *run, *cluster, *account, *other, *machines;
	int gpus, cpus, idle_min, low_min, replicas, nodes;
	int64_t begin;
	bool no_wait;
	const char *kind; // what read_start() found in the words
	char **command;
	long long memory_mib, disk_mib; // what memory and disk say
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
	td_auto_buf struct td_buf b = {0}, asked = {0};
	td_buf_printf(&b, "%-28s %-9s %s%s", td_jstr_or(s, "id", "?"), td_jstr_or(s, "state", "?"),
		      served ? c->url : "", td_jstr_or(s, "path", td_jstr_or(s, "command", "")));
	if (td_jstr(s, "cluster"))
		td_buf_printf(&b, "  at cluster %s", td_jstr(s, "cluster"));
	if (td_jstr(s, "machines"))
		td_buf_printf(&b, "  on machine %s", td_jstr_or(s, "node", td_jstr(s, "machines")));
	if (td_jstr(s, "otherCluster"))
		td_buf_printf(&b, "  in the other cluster %s%s", td_jstr(s, "otherCluster"),
			      td_streq(td_jstr(s, "home"), "empty") ? ", where its home is empty and ends with it"
								    : "");
	const char *words = td_jstr_or(s, "words", "");
	size_t len = strlen(words);
	while (len && words[len - 1] == '\n')
		len--;
	if (len && !td_jint(s, "replicas.asked", 0)) // else they stand at the replica that says them
		td_buf_printf(&b, "  %.*s", (int)len, words);
	td_client_replicas(s, &b);
	td_client_nodes(s, &b);
	td_client_requests(s, &asked);
	if (asked.len)
		td_buf_printf(&b, "  %s", td_buf_str(&asked));
	if (td_jint(s, "begins", 0))
		td_buf_printf(&b, "  begins at %s", td_client_when(td_jint(s, "begins", 0), when, sizeof(when)));
	if (td_jint(s, "ended", 0))
		td_buf_printf(&b, "  ended at %s; tandem session resume %s",
			      td_client_when(td_jint(s, "ended", 0), when, sizeof(when)), td_jstr_or(s, "id", "?"));
	if (td_jint(s, "ends", 0))
		td_buf_printf(&b, "  ends at %s unless that changes: %s",
			      td_client_when(td_jint(s, "ends", 0), when, sizeof(when)),
			      td_jstr_or(s, "endsBecause", ""));
	if (td_jstr(s, "useUnknown"))
		td_buf_printf(&b, "  not ended for low use, for that is not known: %s", td_jstr(s, "useUnknown"));
	td_term_wrap(td_buf_str(&b), FURTHER, td_term_columns(STDOUT_FILENO));
}

// Waiting in the queue is never a failure: it goes on until the session is ready, is over, or is refused.
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
		size_t len = strlen(words);
		while (len && words[len - 1] == '\n') // last words of a program
			len--;
		bool batch = td_streq(td_jstr(td_json_root(j), "kind"), "batch");
		if (!strcmp(state, "ready") || !strcmp(state, "running") || (batch && !strcmp(state, "done"))) {
			*ret = td_steal(j);
			return 0;
		}
		if (!strcmp(state, "failed") || !strcmp(state, "done") || !strcmp(state, "stopping"))
			return td_jint(td_json_root(j), "replicas.asked", 0)
				       ? td_fail(err, TD_INVALID,
						 "session %s has ended before it could be used: %.*s. It is tried "
						 "again until `tandem session stop %s`",
						 id, (int)strcspn(words, "\n"), words, id)
				       : td_fail(err, TD_INVALID, "session %s has ended before it could be used: %.*s",
						 id, (int)len, words);
		if (td_jbool(td_json_root(j), "refused", false))
			return td_fail(err, TD_INVALID, "%s. `tandem session stop %s` takes it back", words, id);
		if (!td_streq(words, said))
			fprintf(stderr, td_streq(words, state) ? "%s\n" : "%s: %s\n", state, words);
		free(said);
		said = td_strdup(words);
		td_cancel_wait(NULL, WAIT_MS);
	}
}

static const char *const kinds[] = {"jupyter", "vscode", "tensorboard", "shell", "endpoint", "batch"};

// The kind that the first word names; NULL: it is the command of an endpoint.
static const char *kind_of(const char *word)
{
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (td_streq(kinds[i], word))
			return kinds[i];
	return NULL;
}

// Reads the words behind `start`, and the sizes. TD_INVALID says what is wrong with them.
static int read_start(struct wish *w, char **command, struct td_error *err)
{
	const char *kind = w->kind = command[0] ? kind_of(command[0]) : NULL;
	if (kind)
		command++;
	w->command = command;
	bool own = kind && strcmp(kind, "endpoint") != 0 && strcmp(kind, "batch") != 0;
	if (w->replicas && kind && strcmp(kind, "endpoint") != 0)
		return td_fail(
			err, TD_INVALID,
			"--replicas: only for endpoints, whose requests are spread; a session \"%s\" has one pod",
			kind);
	const char *near = kind || !command[0] || command[1] ? NULL : td_nearest(command[0], kinds, TD_LEN(kinds));
	if (near)
		return td_fail(err, TD_INVALID,
			       "there is no kind of session \"%s\": did you mean %s? A program of that name is started "
			       "by `tandem session start endpoint -- %s`",
			       command[0], near, command[0]);
	if (!kind && !command[0])
		return td_fail(err, TD_INVALID,
			       "start what? Give shell, jupyter, vscode, tensorboard, endpoint or batch");
	if (!command[0] && !own)
		return td_fail(err, TD_INVALID, "say behind \"--\" what %s",
			       td_streq(kind, "batch") ? "runs" : "serves HTTP at port $PORT");
	if (command[0] && own)
		return td_fail(err, TD_INVALID, "a session \"%s\" brings its own program: leave \"%.40s\" out", kind,
			       command[0]);
	if (w->memory && td_jobfile_memory(w->memory, &w->memory_mib, err))
		return td_wrap(err, "--memory");
	return w->disk && td_jobfile_memory(w->disk, &w->disk_mib, err) ? td_wrap(err, "--disk") : 0;
}

static int start(struct td_client *c, const struct wish *w, struct td_error *err)
{
	td_auto_buf struct td_buf line = {0};
	char **command = w->command;
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
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "name", w->name);
	td_jm_str(d, o, "image", w->image);
	td_jm_str(d, o, "account", w->account);
	td_jm_str(d, o, "kind", w->kind);
	td_jm_str(d, o, "env", w->env);
	td_jm_str(d, o, "run", w->run);
	td_jm_str(d, o, "cluster", w->cluster);
	td_jm_str(d, o, "otherCluster", w->other);
	td_jm_str(d, o, "machines", w->machines);
	if (line.len)
		td_jm_str(d, o, "command", td_buf_str(&line));
	if (w->gpus)
		td_jm_int(d, o, "gpus", w->gpus);
	if (w->replicas)
		td_jm_int(d, o, "replicas", w->replicas);
	if (w->nodes)
		td_jm_int(d, o, "nodes", w->nodes);
	if (w->cpus)
		td_jm_int(d, o, "cpus", w->cpus);
	if (w->memory)
		td_jm_int(d, o, "memoryMiB", w->memory_mib);
	if (w->disk)
		td_jm_int(d, o, "diskMiB", w->disk_mib);
	if (w->low_min)
		td_jm_int(d, o, "lowUse", w->low_min * 60LL);
	if (w->begin)
		td_jm_int(d, o, "begin", w->begin);
	if (w->idle_min)
		td_jm_int(d, o, "idle", w->idle_min * 60LL);
	td_auto(td_json_unref) struct td_json *j = NULL, *ready = NULL;
	int r = td_client_call(c, "POST", "/api/v1/sessions", d, &j, err);
	if (r)
		return r;
	if (!w->no_wait && !w->begin && (r = wait_for(c, td_jstr_or(td_json_root(j), "id", ""), &ready, err)))
		return r;
	print(c, td_json_root(ready ? ready : j), w->output != NULL);
	return 0;
}

// Another number of replicas. Those that go are drained first, which nobody waits for here.
static int scale(struct td_client *c, const struct wish *w, const char *id, long long n, struct td_error *err)
{
	td_auto_free char *path = path_of(id);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_jm_int(d, yyjson_mut_doc_get_root(d), "replicas", n);
	int r = td_client_call(c, "PATCH", path, d, &j, err);
	if (!r)
		print(c, td_json_root(j), w->output != NULL);
	return r;
}

static int resume(struct td_client *c, const struct wish *w, const char *id, struct td_error *err)
{
	td_auto_free char *path = path_of(id), *to = td_asprintf("%s/resume", path);
	td_auto(td_json_unref) struct td_json *j = NULL, *ready = NULL;
	int r = td_client_call(c, "POST", to, NULL, &j, err);
	if (!r && !w->no_wait)
		r = wait_for(c, id, &ready, err);
	if (!r)
		print(c, td_json_root(ready ? ready : j), w->output != NULL);
	return r;
}

// "10:00" (the next one), "2026-12-24T18:00", or with seconds; of this machine's time.
static int when_of(const char *text, int64_t *ret, struct td_error *err)
{
	static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%H:%M"};
	time_t now = (time_t)(td_real_ms(&td_clock_system) / 1000);
	for (size_t i = 0; i < TD_LEN(forms); i++) {
		struct tm tm;
		localtime_r(&now, &tm);
		tm.tm_sec = 0;
		const char *end = strptime(text, forms[i], &tm);
		if (!end || *end)
			continue;
		tm.tm_isdst = -1;
		time_t t = mktime(&tm);
		if (i == 3 && t <= now) {
			tm.tm_mday++;
			tm.tm_isdst = -1;
			t = mktime(&tm);
		}
		if (t <= now)
			return td_fail(err, TD_INVALID, "--at %.40s: that time has passed", text);
		*ret = t;
		return 0;
	}
	return td_fail(err, TD_INVALID, "--at %.40s: give a time, such as 10:00 or 2026-12-24T18:00", text);
}

static int list(struct td_client *c, bool json, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_client_call(c, "GET", "/api/v1/sessions", NULL, &j, err);
	size_t i, n;
	yyjson_val *s;
	if (!r && json)
		print(c, td_json_root(j), true);
	if (r || json)
		return r;
	yyjson_val *all = td_jget(td_json_root(j), "sessions");
	if (!yyjson_arr_size(all))
		puts("You have no sessions. `tandem session start` begins one.");
	else
		printf("%-28s %-9s %s\n", "SESSION", "STATE", "ADDRESS");
	yyjson_arr_foreach (all, i, n, s)
		print(c, s, false);
	return 0;
}

int td_session_main(int argc, char **argv)
{
	struct wish w = {0};
	const char *at = NULL;
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	long long replicas = 0;
	const struct td_option options[] = {
		{.name = "name", .value = "NAME", TD_OPT_TEXT(&w.name), .help = "of the session"},
		{.name = "account",
		 .value = "PROJECT",
		 TD_OPT_TEXT(&w.account),
		 .help = "of start: a project of yours, which is charged"},
		{.name = "gpus", .value = "N", TD_OPT_INT(&w.gpus, 0, 64), .help = "GPUs, on each node (default 0)"},
		{.name = "cpus", .value = "N", TD_OPT_INT(&w.cpus, 1, 1024), .help = "CPUs, on each node (default 1)"},
		{.name = "memory",
		 .value = "SIZE",
		 TD_OPT_TEXT(&w.memory),
		 .help = "memory, on each node (default 1G)"},
		{.name = "disk",
		 .value = "SIZE",
		 TD_OPT_TEXT(&w.disk),
		 .help = "how much of its node's disk it may hold outside of your home; it is ended if it holds more "
			 "(default 20G, or what your Tenant says)"},
		{.name = "nodes",
		 .value = "N",
		 TD_OPT_INT(&w.nodes, 1, NODES_MOST),
		 .help = "over so many nodes, which start together (default 1): the first one is where you are, and "
			 "`tandem-run` there runs programs on all; the command of an endpoint or batch runs on each"},
		{.name = "replicas",
		 .value = "N",
		 TD_OPT_INT(&w.replicas, 1, REPLICAS_MOST),
		 .help = "endpoint: so many pods of it, each with these GPUs, CPUs and memory; requests are spread, "
			 "and one that ends is started again"},
		{.name = "image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&w.image),
		 .help = "container image (default: the one of Slurm's nodes)"},
		{.name = "env",
		 .value = "PATH",
		 TD_OPT_TEXT(&w.env),
		 .help = "jupyter, vscode, tensorboard and shell: the directory of an environment there, below your "
			 "home or "
			 "absolute"},
		{.name = "run",
		 .value = "RUN",
		 TD_OPT_TEXT(&w.run),
		 .help = "tensorboard: the run whose directory it shows (default: all of them)"},
		{.name = "cluster",
		 .value = "NAME",
		 TD_OPT_TEXT(&w.cluster),
		 .help = "start, at the hub of a federation: the member where it is (default: one with free GPUs that "
			 "the "
			 "rules name)"},
		{.name = "other-cluster",
		 .value = "NODESET",
		 TD_OPT_TEXT(&w.other),
		 .help = "start: on a node of another Kubernetes cluster that is part of the pool; without a claim for "
			 "homes there its home is empty and ends with it"},
		{.name = "machines",
		 .value = "NODESET",
		 TD_OPT_TEXT(&w.machines),
		 .help = "start: on a machine of this NodeSet that runs slurmd itself, as a job there"},
		{.name = "idle",
		 .value = "MINUTES",
		 TD_OPT_INT(&w.idle_min, 1, 60),
		 .help = "ends when it was not used for so long (default 60)"},
		{.name = "low-use",
		 .value = "MINUTES",
		 TD_OPT_INT(&w.low_min, 1, 720),
		 .help = "ends when it used less than 5 % of a CPU for so long (default: never for that)"},
		{.name = "at",
		 .value = "TIME",
		 TD_OPT_TEXT(&at),
		 .help = "start: not before 10:00, or 2026-12-24T18:00; it waits in the queue until then"},
		{.name = "no-wait",
		 TD_OPT_SWITCH(&w.no_wait),
		 .help = "start, resume: does not wait until it can be used"},
		TD_CLIENT_OUTPUT(&w.output),
	};
	const struct td_command line = {.name = "session",
					.about = "A pod of yours in the one queue, reached through the gateway by you "
						 "alone:\n"
						 "  tandem session start shell\n"
						 "  tandem session start jupyter --gpus 1 --env jupyter\n"
						 "  tandem session start jupyter --nodes 2 --gpus 8\n"
						 "  tandem session start vscode --memory 4G\n"
						 "  tandem session start tensorboard --run RUN\n"
						 "  tandem session start endpoint -- 'python3 -m http.server $PORT'\n"
						 "  tandem session start endpoint --replicas 3 -- "
						 "'python3 serve.py $PORT'\n"
						 "  tandem session scale ID N\n"
						 "  tandem session start batch -- python3 train.py\n"
						 "  tandem session list\n"
						 "  tandem session stop ID\n"
						 "  tandem session resume ID\n"
						 "Your home is there. Whoever waits in the queue waits: that is no "
						 "failure. A session ends with its program, after 12 hours, or when "
						 "nobody used it for an hour; `resume` starts it again at the same "
						 "address.",
					.options = options,
					.n = TD_LEN(options),
					.min_args = 1,
					.max_args = 1000,
					.args = "start|list|stop|resume|scale",
					.choices = "start|list|stop|resume|scale"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	bool begin = !strcmp(words[0], "start"), show = !strcmp(words[0], "list"), stop = !strcmp(words[0], "stop"),
	     again = !strcmp(words[0], "resume"), size = !strcmp(words[0], "scale");
	if (!begin && !show && !stop && !again && !size)
		return td_command_wrong("session", "\"%s\": give start, list, stop, resume or scale", words[0]);
	if (size && (!words[1] || !words[2] || words[3] || !td_parse_i64(words[2], &replicas) || replicas < 1 ||
		     replicas > REPLICAS_MOST))
		return td_command_wrong("session", "scale: give the session, and how many replicas (1 to %d)",
					REPLICAS_MOST);
	if ((stop || again) && (!words[1] || words[2]))
		return td_command_wrong("session", "%s: which one? `tandem session list` shows yours", words[0]);
	if ((at && when_of(at, &w.begin, &err)) || (begin && read_start(&w, words + 1, &err)))
		return td_command_wrong("session", "%s", err.msg);

	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (!r && begin)
		r = start(&c, &w, &err);
	else if (!r && show)
		r = list(&c, w.output != NULL, &err);
	else if (!r && again)
		r = resume(&c, &w, words[1], &err);
	else if (!r && size)
		r = scale(&c, &w, words[1], replicas, &err);
	else if (!r) {
		td_auto_free char *path = path_of(words[1]);
		r = td_client_call(&c, "DELETE", path, NULL, NULL, &err);
	}
	return r ? td_client_failed("session", &err) : 0;
}
