#include "base/proc.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20, STATUS_MAX = 65536 };

int td_start(char *const argv[], char *const envp[], const int *fds, int n_fds, short flags, pid_t *ret_pid,
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
	posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | flags));

	for (int i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			posix_spawn_file_actions_adddup2(&fa, fds[i], i);
		else
			posix_spawn_file_actions_addopen(&fa, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);

	pid_t pid;
	int e = posix_spawnp(&pid, argv[0], &fa, &attr, argv, envp ? envp : environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);

	if (e)
		return td_fail_errno(err, e == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, e, "run %s", argv[0]);

	*ret_pid = pid;
	return 0;
}

int td_wait_code(pid_t pid)
{
	// If somebody else has collected the child, its code is unknown. Then it is 255: no
	// success.
	int status = 255 << 8;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int td_run(char *const argv[], const char *in, int64_t timeout_ms, struct td_cancel *cancel, int *ret_status,
	   struct td_buf *ret_out, struct td_error *err)
{
	td_auto_close int or = -1, ow = -1, ir = -1, iw = -1;
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	or = p[0], ow = p[1];
	if (in) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
		ir = p[0], iw = p[1];
		fcntl(iw, F_SETFL, O_NONBLOCK);
	}

	pid_t pid = 0;
	const int fds[] = {ir, ret_out ? ow : 2, ret_out ? ow : 2};
	int r = td_start(argv, NULL, fds, 3, POSIX_SPAWN_SETPGROUP, &pid, err);
	if (r)
		return r;
	close(td_steal_fd(&ow));
	if (ir >= 0)
		close(td_steal_fd(&ir));

	td_auto_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int64_t end = td_mono_ms(&td_clock_system) + timeout_ms;
	size_t left = in ? strlen(in) : 0;
	bool exited = false;
	while (!exited || (ret_out && or >= 0)) {
		if (iw >= 0 && !left)
			close(td_steal_fd(&iw));

		int64_t t = end - td_mono_ms(&td_clock_system);
		if (td_cancelled(cancel) || t <= 0) {
			r = td_cancelled(cancel) ? td_fail(err, TD_CANCELLED, "run %s: cancelled", argv[0])
						 : td_fail(err, TD_UNCERTAIN, "run %s: no end after %lld ms, killed",
							   argv[0], (long long)timeout_ms);
			break;
		}

		if (exited && t > 200)
			// A grandchild may still hold the pipe open; do not wait for it.
			t = 200;

		struct pollfd f[4] = {{ or, POLLIN, 0},
				      {exited ? -1 : pidfd, POLLIN, 0},
				      {td_cancel_fd(cancel), POLLIN, 0},
				      {iw, POLLOUT, 0}};

		int n = poll(f, 4, (int)(t > 1000 ? 1000 : t));
		if (exited && n == 0)
			break;

		if (f[0].revents) {
			char buf[8192];
			ssize_t k = read(or, buf, sizeof(buf));
			if (k > 0 && ret_out && ret_out->len < OUT_MAX)
				td_buf_add(ret_out, buf, (size_t)k);
			if (k == 0)
				close(td_steal_fd(&or));
		}
		if (f[3].revents) {
			ssize_t k = write(iw, in, left);
			if (k > 0)
				in += k, left -= (size_t)k;
			else if (k < 0 && errno != EAGAIN)
				left = 0;
		}
		if (f[1].revents)
			exited = true;
	}

	if (r)
		kill(-pid, SIGKILL);
	int code = td_wait_code(pid);
	if (!r && ret_status)
		*ret_status = code;
	return r;
}

int td_run_ok(char *const argv[], int64_t timeout_ms, struct td_cancel *cancel, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	int status = 0;
	int r = td_run(argv, NULL, timeout_ms, cancel, &status, &out, err);
	if (r || !status)
		return r;
	while (out.len && strchr("\n\r ", out.s[out.len - 1]))
		out.s[--out.len] = '\0';
	const char *last = out.len ? strrchr(out.s, '\n') : NULL;
	return td_fail(err, TD_INTERNAL, "%s exited with %d: %s", argv[0], status, last ? last + 1 : td_buf_str(&out));
}

bool td_proc_catches(const char *proc, pid_t pid, int sig)
{
	td_auto_free char *path = td_asprintf("%s/%d/status", proc, (int)pid);
	td_auto_buf struct td_buf b = {0};
	const char *mask = td_file_read(path, STATUS_MAX, &b, NULL) ? NULL : strstr(td_buf_str(&b), "\nSigCgt:");
	return mask && strtoull(mask + strlen("\nSigCgt:"), NULL, 16) >> (sig - 1) & 1;
}

int td_spawn(char *const argv[], char *const envp[], const char *log_path, pid_t *ret_pid, struct td_error *err)
{
	td_auto_close int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (log < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "start %s: log %s", argv[0], log_path);
	const int fds[] = {-1, log, log};
	return td_start(argv, envp, fds, 3, POSIX_SPAWN_SETSID, ret_pid, err);
}
