// The process that holds a container's namespaces.
#include "spank/holder.h"

#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { END_MS = 30000 };

// When it began, in clock ticks since the machine started; 0: there is none, or it has ended.
static unsigned long long began(pid_t pid)
{
	td_auto_free char *path = td_asprintf("/proc/%d/stat", pid);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL))
		return 0;
	const char *p = strrchr(td_buf_str(&b), ')'); // its name may hold anything
	char state;
	unsigned long long start;
	if (!p ||
	    sscanf(p + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", // proc(5): 22
		   &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

int td_ct_holder_note(const char *dir, pid_t pid, struct td_error *err)
{
	unsigned long long start = began(pid);
	if (!start) // a note without it names nobody: the holder would never be ended
		return td_fail(err, TD_INTERNAL, "the process that holds the container ended early");
	td_auto_free char *path = td_asprintf("%s/pid", dir), *text = td_asprintf("%d %llu", pid, start);
	return td_file_write(path, text, strlen(text), 0444, err);
}

// -1: it does not live.
static int open_holder(const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/pid", dir);
	td_auto_buf struct td_buf b = {0};
	int pid;
	unsigned long long start;
	if (td_file_read(path, 64, &b, NULL) || sscanf(td_buf_str(&b), "%d %llu", &pid, &start) != 2 || pid <= 1 ||
	    !start)
		return -1;
	// The descriptor first: what is found then is of the process that it names.
	td_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd >= 0 && began(pid) == start ? td_steal_fd(&fd) : -1;
}

bool td_ct_holder_lives(const char *dir)
{
	td_auto_close int fd = open_holder(dir);
	return fd >= 0;
}

void td_ct_holder_end(const char *dir)
{
	td_auto_close int fd = open_holder(dir);
	struct pollfd p = {fd, POLLIN, 0};
	if (fd >= 0 && !syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0))
		while (poll(&p, 1, END_MS) < 0 && errno == EINTR)
			;
}
