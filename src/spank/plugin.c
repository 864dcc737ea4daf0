// Containers in jobs: the plug-in that srun, sbatch, salloc and slurmstepd load. It has Pyxis's
// options; tandem-container does the work. A step with an image or a name runs in the namespaces that
// tandem-container prepared for it; every other step is left alone.
//
// In a task, Slurm calls task_init_privileged as root, and later task_init as the user. The namespaces
// are prepared in the first, where it may take as long as a pull takes (srun waits 10 minutes for a launch,
// and the launch is over then). They are entered by `tandem-container enter`, which is put before the
// user's program: so TaskProlog runs where it runs for every job. (Entered in task_init, TaskProlog would
// run inside, and Slurm 24.11.0 to 24.11.5 start it through slurmstepd, which no image has.)
#include "spank/filter.h"
#include "spank/layout.h"
#include "spank/spank_api.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT TD_SPANK_EXPORT
EXPORT const char plugin_name[] = "tandem_container";
EXPORT const char plugin_type[] = "spank";
EXPORT const unsigned int spank_plugin_version = 1;

extern char **environ;

// ---- options ----
enum { IMAGE, MOUNTS, WORKDIR, NAME, ENV, SAVE, N_TEXTS };
enum { HOME, ROOT, WRITABLE, ENTRYPOINT, ENTRYPOINT_LOG, N_SWITCHES };
static char *texts[N_TEXTS];
static int switches[N_SWITCHES] = {-1, -1, -1, -1, -1};
static const char *const text_names[N_TEXTS] = {"image", "mounts", "workdir", "name", "env", "save"};
static const char *const text_env[N_TEXTS] = {"PYXIS_CONTAINER_IMAGE",   "PYXIS_CONTAINER_MOUNTS",
					      "PYXIS_CONTAINER_WORKDIR", "PYXIS_CONTAINER_NAME",
					      "PYXIS_CONTAINER_ENV",     "PYXIS_CONTAINER_SAVE"};
static const char *const switch_names[N_SWITCHES] = {"mount-home", "remap-root", "writable", "entrypoint",
						     "entrypoint-log"};

static int on_text(int at, const char *value, int remote)
{
	(void)remote;
	if (!value || !*value) {
		slurm_error("--container-%s: it needs a value", text_names[at]);
		return -1;
	}
	if (texts[at] && strcmp(texts[at], value) != 0) {
		slurm_error("--container-%s is given twice, as %s too; keep one", text_names[at], texts[at]);
		return -1;
	}
	if (!texts[at])
		texts[at] = strdup(value);
	return 0;
}

static int on_switch(int val, const char *value, int remote)
{
	(void)value, (void)remote;
	int at = val / 2, on = val % 2;
	if (switches[at] >= 0 && switches[at] != on) {
		slurm_error("--container-%s is asked for, and its opposite too; keep one", switch_names[at]);
		return -1;
	}
	switches[at] = on;
	return 0;
}

#define TEXT(at, name, what, help) {"container-" name, what, "[tandem] " help, 1, at, on_text}
#define SWITCH(at, on, name, help) {name, NULL, "[tandem] " help, 0, 2 * (at) + (on), on_switch}
static struct spank_option options[] = {
	TEXT(IMAGE, "image", "[REGISTRY#]IMAGE[:TAG]|PATH",
	     "run in this image, or in that of a squashfs file or archive"),
	TEXT(MOUNTS, "mounts", "SRC:DST[:FLAGS][,...]", "bind these into the container; flags: ro, rw, joined by +"),
	TEXT(WORKDIR, "workdir", "PATH", "start in this directory of the container"),
	TEXT(NAME, "name", "NAME", "keep the container under this name until the job ends, or use it again"),
	TEXT(ENV, "env", "NAME[,NAME...]", "variables whose value outside wins over the image's"),
	TEXT(SAVE, "save", "PATH", "write the container to this squashfs file when the step ends"),
	SWITCH(HOME, 1, "container-mount-home", "bind the home directory"),
	SWITCH(HOME, 0, "no-container-mount-home", "do not bind the home directory"),
	SWITCH(ROOT, 1, "container-remap-root", "be called root inside; gives no rights outside"),
	SWITCH(ROOT, 0, "no-container-remap-root", "be yourself inside"),
	SWITCH(WRITABLE, 1, "container-writable", "let the container's files be changed"),
	SWITCH(WRITABLE, 0, "container-readonly", "let the container's files not be changed"),
	SWITCH(ENTRYPOINT, 1, "container-entrypoint", "run the image's entry point before the program"),
	SWITCH(ENTRYPOINT, 0, "no-container-entrypoint", "do not run the image's entry point (default)"),
	SWITCH(ENTRYPOINT_LOG, 1, "container-entrypoint-log", "show what the entry point prints"),
	{NULL, NULL, NULL, 0, 0, NULL},
};

static bool wanted(void)
{
	return texts[IMAGE] || texts[NAME];
}

// Registered by hand, because the options of a table are not known to sbatch and salloc.
EXPORT int slurm_spank_init(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	enum spank_context c = spank_context();
	for (struct spank_option *o = options;
	     o->name && (c == S_CTX_LOCAL || c == S_CTX_REMOTE || c == S_CTX_ALLOCATOR); o++)
		if (spank_option_register(sp, o)) {
			slurm_error("container: Slurm does not take the option --%s; does another plug-in have it?",
				    o->name);
			return -1;
		}
	return 0;
}

EXPORT int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	for (int i = 0; i < N_TEXTS; i++) {
		char buf[4096];
		const char *v = getenv(text_env[i]);
		if (spank_remote(sp))
			v = spank_getenv(sp, text_env[i], buf, sizeof(buf)) ? NULL : buf;
		if (!texts[i] && v && *v)
			texts[i] = strdup(v);
	}
	for (int i = 0; i < N_TEXTS && !spank_remote(sp) && !wanted(); i++)
		if (texts[i])
			slurm_error("--container-%s does nothing without --container-image or --container-name",
				    text_names[i]);
	return 0;
}

// ---- in a task ----
static char dir[4096]; // of the container, in TD_CT_RUN

static void add(char **argv, int *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char **argv, int *n, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	if (vasprintf(&argv[*n], format, ap) < 0)
		abort();
	va_end(ap);
	argv[++*n] = NULL;
}

// Runs tandem-container and shows the user what it says. Its last line is "ready DIRECTORY".
static int run(char **argv)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, p[1], 1);
	posix_spawn_file_actions_adddup2(&fa, p[1], 2);
	posix_spawnattr_init(&at);
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	pid_t pid;
	// The job's environment must not reach a program that runs as root.
	char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	int e = posix_spawn(&pid, argv[0], &fa, &at, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	close(p[1]);
	if (e) {
		close(p[0]);
		slurm_error("container: %s cannot be started: %s", argv[0], strerror(e));
		return -1;
	}

	FILE *f = fdopen(p[0], "r");
	char line[4096];
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "ready ", 6))
			snprintf(dir, sizeof(dir), "%s", line + 6);
		else if (!strncmp(line, "say ", 4))
			slurm_spank_log("container: %s", line + 4);
		else if (*line)
			slurm_error("container: %s", !strncmp(line, "error ", 6) ? line + 6 : line);
	}
	if (f)
		fclose(f);
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

EXPORT int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	if (!wanted())
		return 0;
	setenv(TD_FILTER_INSIDE_ENV, "yes", 1); // of slurmstepd's child, for the plug-in of filters

	uid_t uid;
	gid_t gid, *gids = NULL;
	int n_gids = 0;
	uint32_t job, step, nodes;
	if (spank_get_item(sp, S_JOB_UID, &uid) || spank_get_item(sp, S_JOB_GID, &gid) ||
	    spank_get_item(sp, S_JOB_ID, &job) || spank_get_item(sp, S_JOB_STEPID, &step)) {
		slurm_error("container: Slurm does not say whose step this is");
		return -1;
	}
	if (spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &gids, &n_gids))
		n_gids = 0;

	if (spank_get_item(sp, S_JOB_NNODES, &nodes))
		nodes = 1;

	char *argv[32 + N_TEXTS], groups[8192] = "";
	int n = 0;
	size_t at = 0;
	for (int i = 0; i < n_gids && at < sizeof(groups) - 16; i++)
		at += (size_t)snprintf(groups + at, sizeof(groups) - at, "%s%u", i ? "," : "", gids[i]);
	struct passwd *pw = getpwuid(uid);
	add(argv, &n, "%s", TD_CT_PROGRAM);
	add(argv, &n, "prepare");
	add(argv, &n, "--job=%u", job);
	add(argv, &n, "--step=%u", step);
	add(argv, &n, "--uid=%u", uid);
	add(argv, &n, "--gid=%u", gid);
	add(argv, &n, "--groups=%s", groups);
	add(argv, &n, "--user=%s", pw ? pw->pw_name : "");
	add(argv, &n, "--home=%s", pw ? pw->pw_dir : "");
	char cwd[4096];
	if (getcwd(cwd, sizeof(cwd))) {
		add(argv, &n, "--cwd=%s", cwd);
		if (texts[SAVE] && texts[SAVE][0] != '/') { // the task's program may begin elsewhere
			char *path;
			const char *name = texts[SAVE];
			while (name[0] == '.' && name[1] == '/')
				name += 2;
			if (asprintf(&path, "%s/%s", cwd, name) < 0)
				abort();
			free(texts[SAVE]);
			texts[SAVE] = path;
		}
	}
	for (int i = 0; i < N_TEXTS; i++)
		if (texts[i] && i != WORKDIR && i != ENV)
			add(argv, &n, "--%s=%s", text_names[i], texts[i]);
	add(argv, &n, "--nodes=%u", nodes);
	for (int i = 0; i < N_SWITCHES; i++)
		if (switches[i] >= 0 && i != ENTRYPOINT_LOG)
			add(argv, &n, "--%s=%s", switch_names[i], switches[i] ? "yes" : "no");

	int r = run(argv);
	for (int i = 0; i < n; i++)
		free(argv[i]);
	return r || !*dir ? -1 : 0;
}

EXPORT int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	if (!wanted())
		return 0;

	char *argv[16];
	int n = 0;
	const char *filter = getenv(TD_FILTER_ENV);
	bool entry = switches[ENTRYPOINT] == 1;
	uint32_t tasks;
	if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks))
		tasks = 1;
	add(argv, &n, "%s", TD_CT_PROGRAM);
	if (filter) {
		add(argv, &n, "filter");
		add(argv, &n, "%s", filter);
	}
	add(argv, &n, entry || texts[SAVE] ? "start" : "enter");
	if (entry || texts[SAVE]) {
		add(argv, &n, entry && switches[ENTRYPOINT_LOG] == 1 ? "log" : entry ? "yes" : "no");
		add(argv, &n, "%s", texts[SAVE] ? texts[SAVE] : "");
		add(argv, &n, "%u", tasks);
	}
	add(argv, &n, "%s", dir);
	add(argv, &n, "%s", texts[WORKDIR] ? texts[WORKDIR] : "");
	add(argv, &n, "%s", texts[ENV] ? texts[ENV] : "");
	int r = spank_prepend_task_argv(sp, n, (const char **)argv);
	for (int i = 0; i < n; i++)
		free(argv[i]);
	if (r)
		slurm_error("container: Slurm does not let its program be started (error %d)", r);
	return r ? -1 : 0;
}

EXPORT int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	// A container without a name ends with its step. slurmstepd calls this as root, after its tasks.
	uint32_t job, step;
	if (!spank_remote(sp) || !wanted() || texts[NAME] || geteuid() != 0 || spank_get_item(sp, S_JOB_ID, &job) ||
	    spank_get_item(sp, S_JOB_STEPID, &step))
		return 0;
	char *argv[4];
	int n = 0;
	add(argv, &n, "%s", TD_CT_PROGRAM);
	add(argv, &n, "release");
	add(argv, &n, "%u.%u", job, step);
	run(argv);
	for (int i = 0; i < n; i++)
		free(argv[i]);
	return 0;
}
