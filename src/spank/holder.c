// The process that holds a container's namespaces.
#include "spank/holder.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { END_MS = 30000 };

// *ret: when it began, in clock ticks since the machine started; 0: there is none, or it has ended.
static int began(pid_t pid, unsigned long long *ret, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/proc/%d/stat", pid);
	char text[4096];
	*ret = 0;
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0 && (errno == ENOENT || errno == ESRCH)) // ESRCH: it ended since it was opened
		return 0;
	if (n < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "read %s", path);
	text[n] = '\0';
	const char *p = strrchr(text, ')'); // its name may hold anything
	char state;
	unsigned long long start;
	if (!p ||
	    sscanf(p + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", // proc(5): 22
		   &state, &start) != 2)
		return td_fail(err, TD_INTERNAL, "%s is not as proc(5) says", path);
	*ret = state == 'Z' || state == 'X' ? 0 : start;
	return 0;
}

int td_ct_holder_note(const char *dir, pid_t pid, struct td_error *err)
{
	unsigned long long start;
	int r = began(pid, &start, err);
	if (r)
		return r;
	if (!start) // a note without it names nobody: the holder would never be ended
		return td_fail(err, TD_INTERNAL, "the process that holds the container ended early");
	td_auto_free char *path = td_asprintf("%s/pid", dir), *text = td_asprintf("%d %llu", pid, start);
	return td_file_write(path, text, strlen(text), 0444, err);
}

// *ret: a descriptor of it; -1: it does not live.
static int open_holder(const char *dir, int *ret, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/pid", dir);
	td_auto_buf struct td_buf b = {0};
	int pid, r = td_file_read(path, 64, &b, err);
	unsigned long long start, now;
	*ret = -1;
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	if (sscanf(td_buf_str(&b), "%d %llu", &pid, &start) != 2 || pid <= 1 || !start)
		return 0;
	// The descriptor first: what is found then is of the process that it names.
	td_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ESRCH ? 0 : td_fail_errno(err, TD_INTERNAL, errno, "process %d of %s", pid, path);
	if ((r = began(pid, &now, err)))
		return r;
	*ret = now == start ? td_steal_fd(&fd) : -1;
	return 0;
}

int td_ct_holder_lives(const char *dir, bool *ret, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = open_holder(dir, &fd, err);
	*ret = fd >= 0;
	return r;
}

int td_ct_holder_end(const char *dir, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = open_holder(dir, &fd, err);
	struct pollfd p = {fd, POLLIN, 0};
	if (fd >= 0 && !syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0))
		while (poll(&p, 1, END_MS) < 0 && errno == EINTR)
			;
	return r;
}
