// `init`: PID 1 of a container. It reaps every process, forwards every signal to the one main
// child, and keeps the exit record on descriptor 3, a file outside of the container. The record is
// "\n" as soon as no signal can be lost any more, and at the end {"code":N,"signal":S,"at":MS}\n,
// in one write(2). An empty record means that init never came up; "\n" alone means that init itself
// was killed.
//
// With --log BYTES as the first argument, the container's stdout and stderr come through pipes and
// go to its log (log.c). The pipes are also init's own stdout and stderr, for programs that write
// to /proc/1/fd/1. With --stdin, the container gets an input (input.c). With --tty, the child gets
// a terminal of the container's own, whose output counts as stdout.
//
// All signals stay blocked: a blocked signal is queued also for PID 1, while the kernel drops
// unhandled signals of PID 1.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int standin_exec(char **argv)
{
	execvp(argv[0], argv);
	int e = errno;
	fprintf(stderr, "exec \"%s\": %s\n", argv[0], e == ENOENT ? "not found in the container" : strerror(e));
	return e == ENOENT || e == ENOTDIR ? 127 : 126;
}

static void record(int code, int sig)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	char b[96];
	int n = snprintf(b, sizeof(b), "{\"code\":%d,\"signal\":%d,\"at\":%lld}\n", code, sig,
			 (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
	while (write(INIT_RECORD_FD, b, (size_t)n) < 0 && errno == EINTR)
		;
}

static int fail(const char *what, bool recorded)
{
	fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
	if (recorded)
		record(128, 0);
	return 128;
}

// Runs in the child. Does not return.
static void become(char **argv, const char *tty)
{
	sigset_t none;
	sigemptyset(&none);

	setsid();
	if (tty) {
		int fd = open(tty, O_RDWR);
		if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0)
			_exit(fail("open the terminal", false));
		for (int i = 0; i < 3; i++)
			dup2(fd, i);
		if (fd > 2)
			close(fd);
	}

	sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(standin_exec(argv));
}

static bool logging;
static int from[3] = {-1, -1, -1}; // the terminal, stdout's pipe, stderr's pipe

// Copies what is there, but at most 1 MiB, so that endless output cannot keep init from the
// signals. False: at the end, because no process has it open.
static bool copy(int which)
{
	for (int i = 0; i < 32; i++) {
		static char b[32768];
		ssize_t n = from[which] < 0 ? 0 : read(from[which], b, sizeof(b));
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		if (logging) {
			log_add(which == 2, b, (size_t)n);
			continue;
		}
		for (ssize_t k, at = 0; at < n; at += k)
			if ((k = write(1, b + at, (size_t)(n - at))) <= 0)
				break; // a full disk must not stop the command
	}
	return true;
}

static void reap(pid_t child, bool recorded)
{
	int status;
	pid_t p;
	while ((p = waitpid(-1, &status, WNOHANG)) > 0) {
		if (p != child)
			continue;
		int s = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = s ? 128 + s : WEXITSTATUS(status);
		for (int i = 0; i < 3; i++)
			copy(i);
		if (logging)
			log_end();
		if (recorded)
			record(code, s);
		_exit(code);
	}
}

int standin_init(char **argv)
{
	// The child must not hold the record.
	bool recorded = fcntl(INIT_RECORD_FD, F_SETFD, FD_CLOEXEC) == 0;

	if (argv[0] && argv[1] && !strcmp(argv[0], "--log")) {
		logging = log_open(atoll(argv[1]));
		argv += 2;
	}
	bool want_stdin = argv[0] && !strcmp(argv[0], "--stdin");
	argv += want_stdin;
	bool want_tty = argv[0] && !strcmp(argv[0], "--tty");
	argv += want_tty;

	if (!argv[0]) {
		errno = EINVAL;
		return fail("no command", recorded);
	}

	prctl(PR_SET_CHILD_SUBREAPER, 1); // for tests, where it is not PID 1
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);

	int sigfd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0)
		return fail("signalfd", recorded);
	if (recorded)
		while (write(INIT_RECORD_FD, "\n", 1) < 0 && errno == EINTR)
			;

	char tty[64];
	if (want_tty) {
		from[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
		if (from[0] < 0 || unlockpt(from[0]) < 0 || ptsname_r(from[0], tty, sizeof(tty)))
			return fail("open a terminal", recorded);
	}

	for (int i = 1; logging && i < 3; i++) {
		int p[2];
		// Non-blocking on this side only: the container's end is an open file description
		// of its own.
		if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[0], F_SETFL, O_NONBLOCK) < 0 || dup2(p[1], i) < 0)
			return fail("open the pipes of the log", recorded);
		close(p[1]);
		from[i] = p[0];
	}

	if (logging && (want_stdin || want_tty))
		log_at_once();

	if (want_stdin) {
		int p[2] = {-1, from[0]};
		if ((!want_tty && (pipe2(p, O_CLOEXEC) < 0 || dup2(p[0], 0) < 0)) || input_open(p[1], want_tty) < 0)
			return fail("open the input", recorded);
		if (p[0] >= 0)
			close(p[0]);
	}

	pid_t child = fork();
	if (child < 0)
		return fail("fork", recorded);
	if (child == 0)
		become(argv, want_tty ? tty : NULL);

	for (bool reading = from[0] >= 0;;) {
		struct pollfd f[6] = {{sigfd, POLLIN, 0},
				      {reading ? from[0] : -1, POLLIN, 0},
				      {from[1], POLLIN, 0},
				      {from[2], POLLIN, 0},
				      {input_wants() ? INIT_INPUT_FD : -1, input_wants(), 0},
				      {input_blocked() ? input_to() : -1, input_blocked(), 0}};
		if (poll(f, 6, -1) < 0)
			continue;

		if (f[4].revents || f[5].revents)
			input_move();
		if (f[1].revents)
			// The end comes with POLLHUP. Without it, the child may not have opened the
			// terminal yet.
			reading = copy(0) || !(f[1].revents & POLLHUP);
		for (int i = 1; i < 3; i++)
			if (f[i + 1].revents)
				copy(i);

		struct signalfd_siginfo si;
		while (read(sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
			if (si.ssi_signo == SIGCHLD)
				reap(child, recorded);
			else
				kill(child, (int)si.ssi_signo);
		}
	}
}
