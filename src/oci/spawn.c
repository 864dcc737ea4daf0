// Children with chosen descriptors: what base/proc.h's td_run does not do.
#include "base/cancel.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int oci_spawn_wait(char *const argv[], const int *fds, int n_fds, int64_t timeout_ms, struct td_cancel *c, int *ret_status,
		   struct td_error *err)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	for (int i = 0; i < n_fds; i++)
		if (fds[i] >= 0) // the callers' own are above n_fds: see oci_high_fd
			posix_spawn_file_actions_adddup2(&fa, fds[i], i);
		else
			posix_spawn_file_actions_addopen(&fa, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
	pid_t pid;
	int e = posix_spawn(&pid, argv[0], &fa, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	if (e)
		return td_fail_errno(err, e == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, e, "run %s", argv[0]);
	td_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int64_t end = oci_mono_ms() + timeout_ms;
	int r = 0;
	for (;;) {
		int64_t left = end - oci_mono_ms();
		if (td_cancelled(c) || left <= 0) {
			r = td_cancelled(c) ? td_fail(err, TD_CANCELLED, "cancelled")
					    : td_fail(err, TD_TRANSIENT, "no end after %lld ms, killed", (long long)timeout_ms);
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			break;
		}
		struct pollfd f[2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		if (poll(f, 2, (int)left) > 0 && f[0].revents)
			break;
	}
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!r)
		*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
