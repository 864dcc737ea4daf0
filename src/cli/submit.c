// tandem submit: ships the code of a directory and has it run, from anywhere.
#include "cli/client.h"
#include "cli/jobenv.h"
#include "cli/jobfile.h"
#include "cli/ship.h"
#include "cmd/roles.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/term.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 20, TRIES = 5 };

struct wish {
	const char *dir, *name, *gpus, *memory, *time, *partition, *account, *qos, *constraint, *request, *output,
		*environment, *schedule, *cluster, *reservation;
	int nodes, tasks, cpus, checkpoints;
	struct td_strv env;
	bool follow, no_code;
	long long gpus_n, memory_mib, minutes; // what gpus, memory and time say
	char *gpu_type;
};

static void wish_done(struct wish *w)
{
	td_strv_done(&w->env);
	free(w->gpu_type);
}

static const char *const found[] = {"tandem.yaml", "tuxiv.conf", "tuxiv.config"};

// ---- the job ----

static int from_words(char **words, const char *name, yyjson_mut_doc **ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	if (words[0] && !words[1] && strpbrk(words[0], " ;&|<>$`"))
		td_buf_puts(&b, words[0]); // one word that is a line of shell
	else
		for (size_t i = 0; words[i]; i++) {
			if (i)
				td_buf_putc(&b, ' ');
			td_jobfile_quote(&b, words[i]);
		}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "name", name);
	yyjson_mut_val *s = yyjson_mut_arr_add_obj(d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "steps"));
	td_jm_str(d, s, "name", "main");
	yyjson_mut_arr_append(td_jm_arr(d, s, "entrypoint"), yyjson_mut_strcpy(d, td_buf_str(&b)));
	*ret = td_steal(d);
	return 0;
}

// A script for sbatch is run where it lies: it is shipped with its directory.
static int from_script(const struct wish *w, char **words, const char *text, yyjson_mut_doc **ret,
		       struct td_strv *notes, struct td_error *err)
{
	td_auto_free char *dir = realpath(w->dir, NULL), *file = realpath(words[0], NULL);
	size_t len = dir ? strlen(dir) : 0;
	if (!dir || !file || w->no_code || strncmp(file, dir, len) != 0 || file[len] != '/')
		return td_fail(err, TD_INVALID,
			       "a script runs in the directory that is shipped, and %s: name its directory by --dir",
			       w->no_code ? "--no-code ships none" : "it does not lie there");
	td_auto_buf struct td_buf line = {0};
	const char *base = strrchr(file, '/') + 1;
	size_t used = strcspn(base, ".");
	td_auto_free char *stem = td_strndup(base, used ? used : strlen(base)), *name = td_jobfile_name(stem);
	td_buf_add(&line, text + 2, strcspn(text + 2, "\r\n")); // behind "#!"
	td_buf_putc(&line, ' ');
	td_jobfile_quote(&line, file + len + 1);
	for (char **a = words + 1; *a; a++) {
		td_buf_putc(&line, ' ');
		td_jobfile_quote(&line, *a);
	}
	td_auto_free char *command = td_asprintf("exec %s", td_buf_str(&line) + strspn(td_buf_str(&line), " \t"));
	return td_jobfile_sbatch(text, name, command, ret, notes, err);
}

static int from_file(const struct wish *w, char **words, const char *name, yyjson_mut_doc **ret, struct td_error *err)
{
	const char *file = words[0];
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv notes = {0};
	const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	int r = td_file_read(file, FILE_MOST, &b, err);
	if (r)
		return td_path_exists(file) ? r
					    : td_fail(err, TD_NOT_FOUND,
						      "there is no job file %s; a command stands behind \"--\": tandem "
						      "submit -- %s",
						      file, file);
	bool script = td_starts(td_buf_str(&b), "#!");
	static const char *const programs[][2] = {
		{".py", "python3"}, {".sh", "bash"}, {".R", "Rscript"}, {".jl", "julia"}};
	for (size_t i = 0; i < TD_LEN(programs) && !script; i++)
		if (td_ends(file, programs[i][0]))
			return td_fail(err, TD_INVALID,
				       "%s is no job file, and no script that begins with #!: tandem submit -- %s %s",
				       file, programs[i][1], file);
	if (words[1] && !script)
		return td_fail(
			err, TD_INVALID,
			"%s: only a script, which begins with #!, takes words behind it; a command stands behind "
			"\"--\"",
			file);
	r = script                      ? from_script(w, words, td_buf_str(&b), ret, &notes, err)
	    : td_starts(base, "tuxiv.") ? td_jobfile_tuxiv(td_buf_str(&b), b.len, name, ret, &notes, err)
					: td_jobfile_tandem(td_buf_str(&b), b.len, name, ret, &notes, err);
	for (size_t i = 0; i < notes.n && !r; i++)
		fprintf(stderr, "note: %s.\n", notes.v[i]);
	return r ? td_wrap(err, "%s", file) : 0;
}

// Reads the values that the table of options cannot check. TD_INVALID names the option.
static int read_wish(struct wish *w, struct td_error *err)
{
	if (w->gpus && td_jobfile_gpus(w->gpus, &w->gpus_n, &w->gpu_type, err))
		return td_wrap(err, "--gpus");
	if (w->memory && td_jobfile_memory(w->memory, &w->memory_mib, err))
		return td_wrap(err, "--memory");
	if (w->time && td_jobfile_minutes(w->time, &w->minutes, err))
		return td_wrap(err, "--time");
	for (size_t k = 0; k < w->env.n; k++)
		if (!strchr(w->env.v[k], '=') || *w->env.v[k] == '=')
			return td_fail(err, TD_INVALID, "--env %s: write NAME=value", w->env.v[k]);
	td_auto_free char *dir = realpath(w->dir, NULL);
	return dir ? 0 : td_fail(err, TD_INVALID, "--dir: there is no directory %s", w->dir);
}

// What the command line says counts more than the file, for every step.
static void override(const struct wish *w, yyjson_mut_doc *d)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *steps = td_jm_get(root, "steps");
	if (w->name)
		td_jm_str(d, root, "name", w->name);
	for (size_t i = 0; i < yyjson_mut_arr_size(steps); i++) {
		yyjson_mut_val *s = yyjson_mut_arr_get(steps, i);
		if (w->gpus) {
			td_jm_int(d, s, "gpus", w->gpus_n);
			td_jm_del(s, "gpuType");
			td_jm_str(d, s, "gpuType", w->gpu_type);
		}
		if (w->nodes)
			td_jm_int(d, s, "nodes", w->nodes);
		if (w->cpus)
			td_jm_int(d, s, "cpus", w->cpus);
		if (w->checkpoints)
			td_jm_int(d, s, "checkpoints", w->checkpoints);
		if (w->tasks)
			td_jm_int(d, s, "tasks", w->tasks);
		if (w->memory) {
			td_jm_del(s, "memoryPerCpuMiB");
			td_jm_int(d, s, "memoryMiB", w->memory_mib);
		}
		if (w->time)
			td_jm_int(d, s, "minutes", w->minutes);
		td_jm_str(d, s, "partition", w->partition);
		td_jm_str(d, s, "account", w->account);
		td_jm_str(d, s, "qos", w->qos);
		td_jm_str(d, s, "constraint", w->constraint);
		td_jm_str(d, s, "reservation", w->reservation);
		for (size_t k = 0; k < w->env.n; k++) {
			const char *eq = strchr(w->env.v[k], '=');
			td_auto_free char *key = td_strndup(w->env.v[k], (size_t)(eq - w->env.v[k]));
			td_jm_key_str(d, td_jm_obj(d, s, "env"), key, eq + 1);
		}
	}
}

static int job_of(const struct wish *w, char **words, bool command, yyjson_mut_doc **ret, struct td_error *err)
{
	char here[PATH_MAX];
	td_auto_free char *real = realpath(w->dir, NULL);
	snprintf(here, sizeof(here), "%s", real ? real : w->dir);
	const char *base = strrchr(here, '/') ? strrchr(here, '/') + 1 : here;
	td_auto_free char *name = td_jobfile_name(base);
	if (command)
		return from_words(words, name, ret, err);
	if (words[0])
		return from_file(w, words, name, ret, err);
	for (size_t i = 0; i < TD_LEN(found); i++) {
		td_auto_free char *path = td_asprintf("%s/%s", w->dir, found[i]);
		if (td_path_exists(path))
			return from_file(w, (char *[]){path, NULL}, name, ret, err);
	}
	return td_fail(err, TD_NOT_FOUND,
		       "%s has no tandem.yaml, tuxiv.conf or tuxiv.config: write one, or say what to run: "
		       "tandem submit --gpus 1 -- python train.py",
		       w->dir);
}

// ---- sending it ----

static void progress(void *ctx, const char *what, long long done, long long all)
{
	int64_t *said = ctx, now = td_mono_ms(&td_clock_system);
	if (!td_term_colors(STDERR_FILENO) || now - *said < 100)
		return;
	*said = now;
	if (all)
		fprintf(stderr, "\r\033[K%s %lld of %lld MB (%lld %%)", what, done / 1000000, all / 1000000,
			done * 100 / all);
	else
		fprintf(stderr, "\r\033[K%s %lld MB", what, done / 1000000);
}

// A request that lost its answer is sent again: the gateway makes one run of it.
static int request(struct td_client *c, const char *path, const yyjson_mut_doc *d, struct td_json **ret,
		   struct td_error *err)
{
	for (int tries = 0;; tries++) {
		int r = td_client_call(c, "POST", path, d, ret, err);
		if ((r != TD_TRANSIENT && r != TD_UNCERTAIN) || tries == TRIES)
			return r;
		td_cancel_wait(NULL, 250 << tries);
	}
}

static int submit(const struct wish *w, yyjson_mut_doc *job, struct td_client *c, struct td_json **ret,
		  struct td_error *err)
{
	int64_t said = 0;
	char uuid[TD_UUID_LEN];
	td_auto_ship struct td_ship s = {.dir = td_strdup(w->dir), .progress = progress, .ctx = &said};
	long long sent = 0;
	int r = w->no_code ? 0 : td_ship_walk(&s, err);
	if (!r)
		r = td_ship_send(&s, c, &sent, err);
	if (said)
		fputs("\r\033[K", stderr);
	if (r)
		return r;
	for (size_t i = 0; i < s.skipped.n; i++)
		fprintf(stderr, "note: not shipped: %s.\n", s.skipped.v[i]);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "request", w->request ? w->request : td_uuid(uuid));
	td_jm_set(d, o, "job", yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(job)));
	td_ship_list(&s, d, o);
	td_jm_str(d, o, "cron", w->schedule);
	td_jm_str(d, o, "cluster", w->cluster);
	td_jm_del(td_jm_get(o, "job"), "schedule");
	if ((r = request(c, w->schedule ? "/api/v1/schedules" : "/api/v1/runs", d, ret, err)))
		return r;
	if (!w->output && !w->no_code) {
		char all[24], new[24];
		fprintf(stderr, "%zu file%s, %s; %zu read, %s sent.\n", s.n, s.n == 1 ? "" : "s",
			td_client_size(s.bytes, all, sizeof(all)), s.read, td_client_size(sent, new, sizeof(new)));
	}
	return 0;
}

static void say(const struct wish *w, yyjson_val *run)
{
	if (w->output) {
		td_auto_free char *text = td_json_pretty(run);
		puts(text);
		return;
	}
	if (w->schedule) {
		td_client_schedule_say(run);
		return;
	}
	td_auto_free char *id = td_client_run_shown(run);
	const char *phase = td_jstr(run, "federation.phase");
	bool waits = phase && !strcmp(phase, "Waiting");
	printf("Run %s", id);
	size_t i, n;
	yyjson_val *s;
	if (waits)
		printf(" waits for a cluster: %s", td_jstr_or(run, "federation.why", "none was chosen yet"));
	yyjson_arr_foreach (waits ? NULL : td_jget(run, "steps"), i, n, s)
		printf("%s%s%s%lld", i ? ", " : ": job ", n > 1 ? td_jstr_or(s, "name", "") : "", n > 1 ? " " : "",
		       td_jint(s, "job", 0));
	puts(".");
	if (!w->follow)
		printf("  tandem logs -f %s\n", id);
	fflush(stdout); // the log, which may follow, is not written through stdio
}

int td_submit_main(int argc, char **argv)
{
	__attribute__((cleanup(wish_done))) struct wish w = {.dir = "."};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "gpus", .value = "N", TD_OPT_TEXT(&w.gpus), .help = "GPUs of each node: 2, or h100:2"},
		{.name = "nodes",
		 .letter = 'N',
		 .value = "N",
		 TD_OPT_INT(&w.nodes, 1, 10000),
		 .help = "nodes (default 1)"},
		{.name = "tasks",
		 .letter = 'n',
		 .value = "N",
		 TD_OPT_INT(&w.tasks, 1, 1000000),
		 .help = "tasks, which srun starts in it (default 1)"},
		{.name = "cpus",
		 .letter = 'c',
		 .value = "N",
		 TD_OPT_INT(&w.cpus, 1, 4096),
		 .help = "CPUs of each task (default 1)"},
		{.name = "memory", .value = "SIZE", TD_OPT_TEXT(&w.memory), .help = "of each node: 8G (default 1G)"},
		{.name = "time",
		 .letter = 't',
		 .value = "T",
		 TD_OPT_TEXT(&w.time),
		 .help = "time limit: 30m, 2h, 1-12:00:00"},
		{.name = "env",
		 .letter = 'e',
		 .value = "NAME=VALUE",
		 TD_OPT_LIST(&w.env),
		 .help = "sets a variable (repeat)"},
		{.name = "environment",
		 .value = "FILE",
		 TD_OPT_TEXT(&w.environment),
		 .help = "packages, made once and kept (default: requirements.txt, or Conda's environment.yml); none: "
			 "without"},
		{.name = "checkpoints",
		 .value = "N",
		 TD_OPT_INT(&w.checkpoints, 1, 100),
		 .help = "it writes checkpoints to $TANDEM_CHECKPOINTS: the newest N are kept"},
		{.name = "schedule",
		 .value = "CRON",
		 TD_OPT_TEXT(&w.schedule),
		 .help = "by the clock, UTC: \"0 3 * * *\" (`tandem schedule` lists); none: once, now"},
		{.name = "name",
		 .letter = 'J',
		 .value = "NAME",
		 TD_OPT_TEXT(&w.name),
		 .help = "of the run (default: the directory's)"},
		{.name = "dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&w.dir),
		 .help = "ships this directory (default: this one)"},
		{.name = "no-code", TD_OPT_SWITCH(&w.no_code), .help = "ships nothing"},
		{.name = "partition", .letter = 'p', .value = "NAME", TD_OPT_TEXT(&w.partition), .help = "as sbatch's"},
		{.name = "account", .letter = 'A', .value = "NAME", TD_OPT_TEXT(&w.account), .help = "as sbatch's"},
		{.name = "qos", .letter = 'q', .value = "NAME", TD_OPT_TEXT(&w.qos), .help = "as sbatch's"},
		{.name = "cluster",
		 .value = "MEMBER",
		 TD_OPT_TEXT(&w.cluster),
		 .help = "of a federation: it runs there, and nowhere else"},
		{.name = "constraint",
		 .letter = 'C',
		 .value = "FEATURES",
		 TD_OPT_TEXT(&w.constraint),
		 .help = "as sbatch's"},
		{.name = "reservation", .value = "NAME", TD_OPT_TEXT(&w.reservation), .help = "as sbatch's"},
		{.name = "follow", .letter = 'f', TD_OPT_SWITCH(&w.follow), .help = "shows the log until it has ended"},
		{.name = "request",
		 .value = "ID",
		 TD_OPT_TEXT(&w.request),
		 .help = "16 to 64 letters and digits: what is submitted again with the same ID runs once (for "
			 "scripts)"},
		TD_CLIENT_OUTPUT(&w.output),
	};
	const struct td_command line = {
		.name = "submit",
		.usage = "[OPTION…] [FILE [ARG…] | -- COMMAND…]",
		.about = "Ships the code of a directory to the cluster and has it run as a Slurm job of yours:\n"
			 "  tandem submit                        what tandem.yaml says (or tuxiv.conf)\n"
			 "  tandem submit job.yaml               what this file says\n"
			 "  tandem submit train.sh lr=0.1        what its #SBATCH lines say\n"
			 "  tandem submit --gpus 2 -- python train.py\n"
			 "Only what changed travels; .gitignore and .tandemignore are honoured. The run lies in "
			 "~/tandem/runs/RUN there.",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 1000,
		.args = "FILE",
		.exits = "0 submitted, 1 failed, 2 wrong usage."};

	// A command is what stands behind "--".
	bool command = false;
	for (int i = 1; i < argc && !command; i++)
		command = !strcmp(argv[i], "--");
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (command && !words[0])
		return td_command_wrong("submit", "say what to run behind \"--\"");
	if (read_wish(&w, &err))
		return td_command_wrong("submit", "%s", err.msg);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *job = NULL;
	td_auto_client struct td_client c = {0};
	td_auto(td_json_unref) struct td_json *run = NULL;
	const struct td_jobenv_in env = {.dir = w.dir, .asked = w.environment, .look = !w.no_code};
	const char *found_env = NULL;
	int r = job_of(&w, words, command, &job, &err);
	if (!r)
		override(&w, job);
	if (!r)
		r = td_jobenv_resolve(&env, job, &found_env, &err);
	if (!r && !w.schedule)
		w.schedule = td_jm_getstr(yyjson_mut_doc_get_root(job), "schedule");
	if (td_streq(w.schedule, "none"))
		w.schedule = NULL;
	if (!r && w.schedule && w.cluster)
		r = td_fail(&err, TD_INVALID, "--cluster: a schedule's runs go where the federation's rules send them");
	if (!r && w.schedule && w.follow)
		r = td_fail(&err, TD_INVALID, "--follow: a schedule has no log yet; its runs have");
	if (found_env && !r && !w.output)
		fprintf(stderr, "note: with the packages of %s (--environment none: without).\n", found_env);
	if (!r)
		r = td_client_open(&c, &err);
	if (!r)
		r = submit(&w, job, &c, &run, &err);
	if (r)
		return td_client_failed("submit", &err);
	say(&w, td_json_root(run));
	return w.follow ? td_client_follow(&c, "submit", td_jstr(td_json_root(run), "id"), NULL) : 0;
}
