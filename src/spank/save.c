// --container-save.
#include "spank/save.h"

#include "base/file.h"
#include "base/proc.h"
#include "spank/enroot.h"
#include "spank/filter.h"
#include "spank/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOOL_MS = 6 * 60 * 60 * 1000, MOST_MB = 512, LEAST_MB = 16, USUAL_MB = 64 };

// ---- the place ----
static int split(const char *path, char **ret_dir, char **ret_name, struct td_error *err)
{
	const char *name = strrchr(path, '/');
	if (path[0] != '/' || !name[1] || strlen(name + 1) > 200)
		return td_fail(err, TD_INVALID,
			       "--container-save=%.200s: it must be the path of a file, as in ./image.sqsh", path);
	*ret_dir = name == path ? td_strdup("/") : td_strndup(path, (size_t)(name - path));
	*ret_name = td_strdup(name + 1);
	return 0;
}

int td_ct_save_check(const char *path, struct td_error *err)
{
	td_auto_free char *dir = NULL, *name = NULL;
	struct stat st;
	int r = split(path, &dir, &name, err);
	if (r)
		return r;
	if (!lstat(path, &st) && S_ISDIR(st.st_mode))
		return td_fail(err, TD_INVALID,
			       "--container-save=%.200s is a directory; name a file in it, as in %.200s/image.sqsh",
			       path, path);
	if (access(dir, W_OK | X_OK))
		return td_fail_errno(
			err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno,
			"--container-save=%.200s: you cannot write in %.200s on this node; name a file in a "
			"directory of yours",
			path, dir);
	return 0;
}

// ---- the file ----
static long long number(const char *variable, long long otherwise)
{
	const char *s = getenv(variable);
	long long n;
	return s && td_parse_i64(s, &n) && n > 0 ? n : otherwise;
}

// What the child needs that goes into the container and writes the file.
struct saving {
	const char *name, *temporary, *container;
	int at; // the directory of the file
	const struct td_calls_filter *filter;
};

// The container's own files, without what is mounted in it.
static int own_files(struct td_error *err)
{
	td_auto_close int fd = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 || fchdir(fd))
		return td_fail_errno(err, TD_INTERNAL, errno, "the container's files");
	return 0;
}

static int write_own(const char *path, const struct td_buf *text, mode_t mode, struct td_error *err)
{
	unlink(path);
	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s in the container", path);
	return td_write_all(fd, td_buf_str(text), text->len, err);
}

// The image's environment, directory and entry point go into the file in the form of enroot's.
static int describe(const struct td_ct_image *i, struct td_error *err)
{
	td_auto_buf struct td_buf environment = {0}, rc = {0};
	if (i->own)
		return 0; // they are there, and may be changed
	td_ct_environment_write(i->env.s, i->env.len, &environment);
	td_ct_rc_write(td_buf_str(&i->workdir), i->entry.s, i->entry.len, &rc);
	if (mkdir("etc", 0755) && errno != EEXIST)
		return td_fail_errno(err, TD_INTERNAL, errno, "/etc in the container");
	int r = write_own("etc/environment", &environment, 0644, err);
	return r ? r : write_own("etc/rc", &rc, 0755, err);
}

// The user may read what is his in the container, whatever its mode.
static void keep_rights(void)
{
	static const int caps[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	if (syscall(SYS_capget, &h, d))
		return;
	d[0].inheritable = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
	syscall(SYS_capset, &h, d);
	for (size_t i = 0; i < TD_LEN(caps); i++)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, caps[i], 0, 0);
}

static int squash(int to, struct td_error *err)
{
	cpu_set_t set;
	long long cpus = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
	cpus = number("SLURM_CPUS_ON_NODE", cpus) < cpus ? number("SLURM_CPUS_ON_NODE", cpus) : cpus;
	long long mb = number("SLURM_MEM_PER_NODE", USUAL_MB * 4) / 4;
	mb = mb > MOST_MB ? MOST_MB : mb < LEAST_MB ? LEAST_MB : mb;
	td_auto_free char *file = td_asprintf("/proc/self/fd/%d", to), *processors = td_asprintf("%lld", cpus),
			  *memory = td_asprintf("%lldM", mb);
	// What lies in /dev belongs to a machine.
	char *argv[] = {"mksquashfs",   ".",        file,    "-noappend", "-all-root",           "-no-xattrs",
			"-no-progress", "-quiet",   "-comp", "zstd",      "-Xcompression-level", "3",
			"-processors",  processors, "-mem",  memory,      "-wildcards",          "-e",
			"dev/*",        NULL};
	td_auto_buf struct td_buf out = {0};
	int status = 0, r = td_run(argv, NULL, TOOL_MS, NULL, &status, &out, err);
	if (r == TD_NOT_FOUND)
		return td_fail(
			err, r,
			"the Slurm image lacks mksquashfs: whoever runs the cluster installs squashfs-tools in it");
	if (!r && status == 128 + SIGKILL)
		r = td_fail(err, TD_DENIED, "mksquashfs was killed; give the step more memory (--mem)");
	else if (!r && status)
		r = td_fail(err, TD_DENIED, "mksquashfs ended with %d: %.300s", status, td_buf_str(&out));
	return r;
}

// In the container: hands out its files as a descriptor, with the error that there was.
static void fetch_files(const char *container, int sock)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_image struct td_ct_image image = {0};
	int r = td_ct_image_read(container, &image, &e);
	if (!r && !(r = td_ct_join(container, &e)) && !(r = own_files(&e)))
		r = describe(&image, &e);
	e.code = r;
	_exit(td_ct_send(sock, &e, sizeof(e), r ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) ? 0 : 1);
}

// mksquashfs is a program of the pod and reads files of the container: so this process stays where it is, and only its
// directory and its user namespace are the container's.
static int among_files(const char *container, struct td_error *err)
{
	int p[2], fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p))
		return td_fail_errno(err, TD_INTERNAL, errno, "socketpair");
	pid_t pid = fork();
	if (pid == 0)
		fetch_files(container, p[1]);
	close(p[1]);
	struct td_error e = TD_ERROR_INIT;
	bool told = pid > 0 && td_ct_recv(p[0], &e, sizeof(e), &fd) == (ssize_t)sizeof(e);
	close(p[0]);
	if (pid > 0)
		td_wait_code(pid);
	td_auto_close int files = fd;
	if (told && e.code) {
		*err = e;
		return e.code;
	}
	if (!told || files < 0)
		return td_fail(err, TD_INTERNAL, "the process that opens the container's files ended early");
	int r = td_ct_join_user(container, err);
	return r ? r : fchdir(files) ? td_fail_errno(err, TD_INTERNAL, errno, "the container's files") : 0;
}

static int save(const struct saving *s, int fd, mode_t mask, struct td_error *err)
{
	int r = among_files(s->container, err);
	if (r)
		return r;
	// mksquashfs is a program that the user may trace.
	if (s->filter && !td_calls_set(s->filter))
		return td_fail_errno(err, TD_INTERNAL, errno, "the filter of system calls of the job's project");
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	unsetenv("LD_PRELOAD");
	unsetenv("LD_LIBRARY_PATH");
	keep_rights();
	int to = fcntl(fd, F_DUPFD, 3);
	if ((r = squash(to, err)))
		return r;
	struct stat old;
	mode_t mode = fstatat(s->at, s->name, &old, AT_SYMLINK_NOFOLLOW) || !S_ISREG(old.st_mode) ? 0666 & ~mask
												  : old.st_mode & 0777;
	if (fchmod(fd, mode) || fsync(fd) || renameat(s->at, s->temporary, s->at, s->name))
		return td_fail_errno(err, TD_INTERNAL, errno, "write it");
	return 0;
}

// Slurm signals the task alone (proctrack/cgroup), so what it sends goes on to the program. A terminal's signals reach
// both.
static volatile sig_atomic_t target, saving_now, cancelled;

static void on_signal(int number_of_signal, siginfo_t *i, void *ctx)
{
	(void)ctx;
	cancelled |= number_of_signal == SIGTERM;
	if (target > 0 && i->si_code <= 0 && (!saving_now || number_of_signal == SIGTERM))
		kill((pid_t)target, number_of_signal);
}

static const int passed_on[] = {SIGTERM,  SIGINT, SIGQUIT, SIGHUP,  SIGUSR1, SIGUSR2, SIGALRM, SIGCONT,
				SIGWINCH, SIGURG, SIGXCPU, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};

static void listen_to_signals(void)
{
	struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigfillset(&a.sa_mask);
	for (size_t i = 0; i < TD_LEN(passed_on); i++)
		sigaction(passed_on[i], &a, NULL);
}

static void forget_signals(void)
{
	for (size_t i = 0; i < TD_LEN(passed_on); i++)
		signal(passed_on[i], SIG_DFL);
}

static int save_in_child(const struct td_ct_save *s, struct td_error *err)
{
	td_auto_free char *dir = NULL, *name = NULL, *temporary = NULL;
	mode_t mask = umask(077);
	umask(mask);
	int r = split(s->path, &dir, &name, err);
	if (r)
		return r;
	const char *id = strrchr(s->inside.dir, '/');
	temporary = td_asprintf(".%s.%s", name, id ? id + 1 : "");
	td_auto_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at >= 0)
		unlinkat(at, temporary, 0);
	td_auto_close int fd =
		at < 0 ? -1 : openat(at, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_DENIED, errno, "%s in %s", temporary, dir);

	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		struct td_error e = TD_ERROR_INIT;
		forget_signals();
		e.code = save(&(struct saving){name, temporary, s->inside.dir, at, s->inside.filter}, fd, mask, &e);
		_exit(td_write_all(p[1], &e, sizeof(e), NULL) ? 1 : 0);
	}
	target = pid;
	close(p[1]);
	struct td_error e = TD_ERROR_INIT;
	bool told = pid > 0 && read(p[0], &e, sizeof(e)) == (ssize_t)sizeof(e);
	close(p[0]);
	if (pid > 0)
		td_wait_code(pid);
	r = told        ? e.code
	    : cancelled ? td_fail(err, TD_CANCELLED, "the step was cancelled")
			: td_fail(err, TD_INTERNAL,
				  "the process that saves ended early; give the step more memory (--mem)");
	if (told && r)
		*err = e;
	if (r)
		unlinkat(at, temporary, 0);
	return r;
}

// ---- the tasks ----
// Counts the tasks that ended; true: this is the last of them. The step's number is in the name, because a named
// container serves several.
static bool last(const struct td_ct_save *s)
{
	const char *step = getenv("SLURM_STEP_ID");
	td_auto_free char *path = td_asprintf("%s/own/ended.%s", s->inside.dir, step ? step : "");
	td_auto_close int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	return fd >= 0 && !flock(fd, LOCK_EX) && write(fd, "e", 1) == 1 && !fstat(fd, &st) && st.st_size >= s->tasks;
}

int td_ct_save_run(const struct td_ct_save *s)
{
	struct td_error err = TD_ERROR_INIT;
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	pid_t pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		_exit(td_ct_inside(&s->inside));
	}
	target = pid;
	listen_to_signals();
	sigprocmask(SIG_SETMASK, &before, NULL);
	int code = pid < 0 ? 126 : td_wait_code(pid);
	target = 0;
	saving_now = 1;
	if (!last(s))
		return code;
	if (cancelled) {
		fprintf(stderr, "container: --container-save=%s: nothing is saved, because the step was cancelled\n",
			s->path);
		return code;
	}
	if (save_in_child(s, &err)) {
		fprintf(stderr, "container: --container-save=%s: nothing is saved: %s\n", s->path, err.msg);
		return code ? code : 1;
	}
	fprintf(stderr, "container: saved as %s\n", s->path);
	return code;
}
