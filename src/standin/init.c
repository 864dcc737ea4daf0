// init: PID 1 of a container. Reaps everything, forwards every signal to the one main child, and leaves a record of the end on
// descriptor 3, a file outside: {"code":N,"signal":S,"at":MS}\n, written by one write(2). No record means init itself was killed.
//
// All signals stay blocked: a blocked signal is queued even for PID 1, whose unhandled signals the kernel would drop.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

int standin_init(char **argv)
{
	bool recorded = fcntl(INIT_RECORD_FD, F_SETFD, FD_CLOEXEC) == 0; // the child must not hold it
	prctl(PR_SET_CHILD_SUBREAPER, 1);                                // when it is not PID 1: tests
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_BLOCK, &all, NULL);
	pid_t child = fork();
	if (child < 0) {
		fprintf(stderr, "init: fork: %s\n", strerror(errno));
		if (recorded)
			record(128, 0);
		return 128;
	}
	if (child == 0) {
		setsid();
		sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(standin_exec(argv));
	}
	for (;;) {
		siginfo_t si;
		int sig = sigwaitinfo(&all, &si);
		if (sig < 0)
			continue;
		if (sig != SIGCHLD) {
			kill(child, sig);
			continue;
		}
		int status;
		pid_t p;
		while ((p = waitpid(-1, &status, WNOHANG)) > 0) {
			if (p != child)
				continue;
			int s = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = s ? 128 + s : WEXITSTATUS(status);
			if (recorded)
				record(code, s);
			_exit(code);
		}
	}
}
