// The child in which a policy of the site's own runs (plugin.c): it gets the jobs as text at its standard
// input, and answers with their order.
//
// Before a line of the plug-in runs the process has given up what it could break: its user, its files and
// its standard descriptors are gone, and time, memory and processes are bounded.
#include "bridge/policy/policies.h"
#include "bridge/policy/tandem/policy.h"

#include "base/file.h"
#include "cmd/roles.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_MAX = 16 << 20, JOBS_MAX = 100000, NOBODY = 65534, CPU_S = 5, FILES = 16 };
enum { FIELDS = 13 };

static int say(int fd, const char *words, const char *more)
{
	dprintf(fd, "bad %s%s\n", words, more ? more : "");
	return 1;
}

// Only what the machine's owner has put there is loaded.
static int check(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
			       !(st.st_mode & (S_IWGRP | S_IWOTH))
		       ? 0
		       : -1;
}

static void limit(int what, rlim_t n)
{
	const struct rlimit l = {n, n};
	setrlimit((__rlimit_resource_t)what, &l);
}

// False: it could not.
static bool give_up(void)
{
#ifndef __SANITIZE_ADDRESS__ // its shadow is larger than any memory
	limit(RLIMIT_AS, (rlim_t)1 << 30);
#endif
	if (geteuid() == 0 && unshare(CLONE_NEWNET | CLONE_NEWIPC))
		return false;
	limit(RLIMIT_CPU, CPU_S);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, FILES);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return false;
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		return false;
	limit(RLIMIT_NPROC, 0);
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0; // else /proc/self/fd is root's
}

// Cuts the line at its tabs. False: it has not so many fields.
static bool fields(char *line, char **ret)
{
	int n = 0;
	for (char *p = line; p && n < FIELDS; n++) {
		ret[n] = p;
		p = strchr(p, '\t');
		if (p)
			*p++ = '\0';
	}
	return n == FIELDS;
}

static bool read_job(char *line, struct tandem_policy_job *ret)
{
	char *f[FIELDS];
	if (!fields(line, f))
		return false;
	*ret = (struct tandem_policy_job){.id = atoll(f[0]),
					  .submit = atoll(f[1]),
					  .cpus = atoll(f[2]),
					  .memory_mb = atoll(f[3]),
					  .gpus = atoll(f[4]),
					  .time_limit_min = atoll(f[5]),
					  .urgency = atoll(f[6]),
					  .nice = atoll(f[7]),
					  .aside = atoi(f[8]),
					  .user = f[9],
					  .account = f[10],
					  .qos = f[11],
					  .partition = f[12]};
	return true;
}

// The text as plugin.c writes it. Strings of the result point into it.
static bool read_input(char *text, struct tandem_policy_input *in, struct tandem_policy_job **ret)
{
	char *line = strsep(&text, "\n");
	int arguments = 0;
	if (!line ||
	    sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %zu %zu %n", &in->now, &in->cpus,
		   &in->memory_mb, &in->gpus, &in->n_waiting, &in->n_running, &arguments) < 6 ||
	    in->n_waiting > JOBS_MAX || in->n_running > JOBS_MAX)
		return false;
	in->version = TANDEM_POLICY_VERSION;
	in->arguments = line + arguments;
	struct tandem_policy_job *v = td_calloc(in->n_waiting + in->n_running + 1, sizeof(*v));
	for (size_t i = 0; i < in->n_waiting + in->n_running; i++)
		if (!(line = strsep(&text, "\n")) || !read_job(line, &v[i])) {
			free(v);
			return false;
		}
	in->waiting = v;
	in->running = v + in->n_waiting;
	*ret = v;
	return true;
}

int td_policies_host_main(int argc, char **argv)
{
	td_auto_buf struct td_buf text = {0};
	struct tandem_policy_input in = {0};
	struct tandem_policy_job *jobs;
	if (argc != 2)
		return 2;
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out = fcntl(1, F_DUPFD_CLOEXEC, 3),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (out < 0 || null < 0)
		return 1;
	if (fd < 0)
		return say(out, "there is no such file: ", argv[1]);
	if (check(fd))
		return say(out, "the file must be root's, and nobody else may write it: ", argv[1]);
	if (td_file_read("/dev/stdin", INPUT_MAX, &text, NULL) || !text.s || !read_input(text.s, &in, &jobs))
		return say(out, "the jobs cannot be read", NULL);
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	if (!give_up())
		return say(out, "its rights could not be given up", NULL);

	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return say(out, "it cannot be loaded: ", dlerror());
	const uint32_t *version = dlsym(lib, "tandem_policy_version");
	int (*order)(const struct tandem_policy_input *, size_t *);
	*(void **)&order = dlsym(lib, "tandem_policy_order");
	if (!version || !order)
		return say(out, "it exports no tandem_policy_version and tandem_policy_order", NULL);
	if (*version != TANDEM_POLICY_VERSION)
		return say(out, "it was built for another version of the interface", NULL);

	limit(RLIMIT_NOFILE, 0); // it opens nothing any more
	size_t *ret = td_calloc(in.n_waiting + 1, sizeof(*ret));
	for (size_t i = 0; i < in.n_waiting; i++)
		ret[i] = SIZE_MAX;
	int r = order(&in, ret);
	if (r)
		return say(out, "it says that it does not know", NULL);
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "ok");
	for (size_t i = 0; i < in.n_waiting; i++)
		td_buf_printf(&b, " %zu", ret[i]);
	td_buf_putc(&b, '\n');
	td_write_all(out, b.s, b.len, NULL);
	_exit(0); // what the plug-in has registered for the end does not run
}
