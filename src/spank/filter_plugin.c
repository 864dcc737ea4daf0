// The filter of system calls of a project's native jobs: the plug-in that slurmstepd loads (filter.h).
//
// As root, before it opens anything for the step, slurmstepd asks whose the job is. A task gets the filter when it has
// become its user and before TaskProlog, so nothing of the user's runs without it: until he runs his own program the
// process cannot be traced, because it changed its user. In a container tandem-container sets it (inside.c), which has
// to enter first. What slurmstepd starts as the user beside the tasks has it too, because each child that is forked
// then gets it right away: TaskEpilog, TaskProlog of a task in a container, and his own of srun --task-prolog and
// --task-epilog.
#include "spank/filter.h"
#include "spank/spank_api.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TD_SPANK_EXPORT const char plugin_name[] = "tandem_filter";
TD_SPANK_EXPORT const char plugin_type[] = "spank";
TD_SPANK_EXPORT const unsigned int spank_plugin_version = 1;

enum { ASK_MS = 20000, NAME_MOST = 256, SAID_MOST = 1 << 20 };

static struct td_calls_filter filter;
static bool has, broken, armed;
static uint32_t forked;
static char why[640]; // what slurmstepd says so early is nowhere to be read: its tasks say it

// What a program printed. False: it failed, took too long, or printed more than a megabyte.
static bool run(char *const argv[], struct td_buf *ret)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_t fa;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, p[1], 1);
	posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	pid_t pid;
	int e = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(p[1]);
	char chunk[4096];
	bool ended = false;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	long long end = t.tv_sec * 1000LL + ASK_MS, left = ASK_MS;
	while (!e && left > 0 && !ended && ret->len <= SAID_MOST) {
		struct pollfd f = {p[0], POLLIN, 0};
		ssize_t k = poll(&f, 1, (int)left) > 0 ? read(p[0], chunk, sizeof(chunk)) : -1;
		ended = k == 0;
		if (k > 0)
			td_buf_add(ret, chunk, (size_t)k);
		clock_gettime(CLOCK_MONOTONIC, &t);
		left = end - t.tv_sec * 1000LL;
	}
	close(p[0]);
	int status = 1;
	if (!e && !ended)
		kill(pid, SIGKILL);
	while (!e && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return !e && ended && !status;
}

// Slurm's Prolog has noted it. Where it could not, slurmctld says it.
static int account_of(uint32_t job, char ret[NAME_MOST], struct td_error *err)
{
	td_auto_free char *path = td_asprintf(TD_FILTER_JOBS "/%u", job);
	td_auto_buf struct td_buf text = {0};
	if (!td_calls_file(path, &text, NULL) && text.len > 1 && text.len < NAME_MOST) {
		snprintf(ret, NAME_MOST, "%.*s", (int)strcspn(text.s, "\n"), text.s);
		return 0;
	}
	char id[16];
	td_auto_buf struct td_buf said = {0};
	snprintf(id, sizeof(id), "%u", job);
	char *const argv[] = {(char *)"squeue", (char *)"-h", (char *)"-o", (char *)"%A %a", (char *)"-j", id, NULL};
	// Of an array squeue lists other tasks, too, whose user may have moved them to another account.
	td_auto_free char *account = run(argv, &said) ? td_calls_of(td_buf_str(&said), id) : NULL;
	if (!account || !*account || strlen(account) >= NAME_MOST)
		return td_fail(err, TD_TRANSIENT,
			       "neither Slurm's Prolog nor slurmctld says for which account the job is");
	snprintf(ret, NAME_MOST, "%s", account);
	return 0;
}

static int load(uint32_t job, struct td_error *err)
{
	char account[NAME_MOST];
	td_auto_buf struct td_buf list = {0};
	int r = td_calls_file(TD_FILTER_LIST, &list, err);
	if (r == TD_NOT_FOUND || (!r && !list.len)) // no Tenant says one
		return 0;
	if (r || (r = account_of(job, account, err)))
		return r;
	td_auto_free char *profile = td_calls_of(td_buf_str(&list), account);
	if (!profile)
		return 0;
	r = td_calls_load(profile, TD_FILTER_PROFILES, &filter, err);
	has = !r;
	return r ? td_wrap(err, "account %s", account) : 0;
}

static void in_child(void)
{
	if (armed && !td_calls_set(&filter))
		_exit(1);
}

TD_SPANK_EXPORT int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	uint32_t job;
	struct td_error err = TD_ERROR_INIT;
	if (spank_context() != S_CTX_REMOTE)
		return 0;
	broken = true;
	if (spank_get_item(sp, S_JOB_ID, &job))
		snprintf(why, sizeof(why), "Slurm does not say which job this is");
	else if (load(job, &err))
		snprintf(why, sizeof(why), "%s", err.msg);
	else if (has && pthread_atfork(NULL, NULL, in_child))
		snprintf(why, sizeof(why), "%s", strerror(ENOMEM));
	else
		broken = false;
	return broken ? -1 : 0;
}

// Slurm goes on without a plug-in that is not required, also when it fails. A task that may need a filter and cannot
// have it does not begin.
TD_SPANK_EXPORT int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av)
{
	(void)sp, (void)ac, (void)av;
	if (broken) {
		slurm_error("filter: the job cannot have its project's filter of system calls (seccompProfile) on this "
			    "node, and does not run without it: %s. Tell whoever runs the cluster.",
			    why);
		_exit(1);
	}
	if (!has)
		return 0;
	td_auto_free char *text = td_calls_text(&filter);
	setenv(TD_FILTER_ENV, text, 1); // of this process, for the plug-in of containers; no environment of the user's
	return 0;
}

TD_SPANK_EXPORT int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void)sp, (void)ac, (void)av;
	if (!has)
		return 0;
	if (getenv(TD_FILTER_INSIDE_ENV)) {
		armed = true; // TaskProlog comes before tandem-container, as a child of this process
		return 0;
	}
	if (td_calls_set(&filter))
		return 0;
	slurm_error("filter: the filter of system calls cannot be set: %s", strerror(errno));
	_exit(1);
}

// In slurmstepd, after each task is forked; all wait until the last one is.
TD_SPANK_EXPORT int slurm_spank_task_post_fork(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	uint32_t tasks = 1;
	if (has && spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks))
		tasks = 1;
	if (has && ++forked >= tasks)
		armed = true;
	return 0;
}
