// Children with chosen descriptors, which td_run() of base/proc.h does not offer.
#include "base/cancel.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

int oci_spawn_wait(char *const argv[], const int *fds, int n_fds, int64_t timeout_ms, struct td_cancel *c,
		   int *ret_status, struct td_error *err)
{
	pid_t pid;
	// The caller's own descriptors are above n_fds: see oci_high_fd().
	int r = td_start(argv, NULL, fds, n_fds, POSIX_SPAWN_SETSID, &pid, err);
	if (r)
		return r;

	td_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int64_t end = oci_mono_ms() + timeout_ms;
	for (;;) {
		int64_t left = end - oci_mono_ms();
		if (td_cancelled(c) || left <= 0) {
			r = td_cancelled(c)
				    ? td_fail(err, TD_CANCELLED, "cancelled")
				    : td_fail(err, TD_TRANSIENT, "no end after %lld ms, killed", (long long)timeout_ms);
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			break;
		}

		struct pollfd f[2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		if (poll(f, 2, (int)left) > 0 && f[0].revents)
			break;
	}

	int code = td_wait_code(pid);
	if (!r)
		*ret_status = code;
	return r;
}

int oci_high_fd(int fd)
{
	int n = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	close(fd);
	return n;
}

int oci_pipe(int *ret_r, int *ret_w, struct td_error *err)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	*ret_r = p[0];
	*ret_w = oci_high_fd(p[1]);
	return 0;
}
