// What is done as a job's own user (watch.h), in a child.
#include "standin/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNS_S = 5, STACKS_S = 60, BEHIND_MAX = 8 };

// Reads fd to its end. False: that did not come in time.
static bool read_all(int fd, int64_t deadline, char *text, size_t n)
{
	size_t len = 0;
	ssize_t k = -1;
	text[0] = '\0';
	while (len + 1 < n) {
		struct pollfd p = {fd, POLLIN, 0};
		int64_t left = deadline - td_standin_now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) <= 0 || (k = read(fd, text + len, n - 1 - len)) <= 0)
			break;
		len += (size_t)k;
		text[len] = '\0';
	}
	return k == 0;
}

static bool write_all(int fd, const char *text)
{
	for (size_t n = strlen(text); n;) {
		ssize_t k = write(fd, text, n);
		if (k <= 0)
			return false;
		text += k;
		n -= (size_t)k;
	}
	return true;
}

bool td_standin_as_user(const struct standin_job *j, const char *node, int sig, enum standin_part part, char *text,
			size_t n)
{
	static char beats[STANDIN_BEATS_TEXT];
	static int behind; // children that were killed and have not ended: they wait in the kernel, for a disk
	int fd[2], status = 0, seconds = part == STANDIN_STACKS ? STACKS_S : SIGNS_S;
	int64_t deadline = td_standin_now_ms() + seconds * 1000LL;
	while (behind && waitpid(-1, NULL, WNOHANG) > 0)
		behind--;
	// gdb and py-spy run as the job's user: they get no descriptor of root's.
	if (behind == BEHIND_MAX || pipe2(fd, O_CLOEXEC) < 0)
		return false;
	pid_t pid = fork();
	if (!pid) {
		char said[512] = "", *all = said;
		close(fd[0]);
		setpgid(0, 0);                // with the programs that it starts
		alarm((unsigned)seconds + 1); // if nobody is left who looks
		if (!td_standin_become("/proc", j))
			_exit(1);
		bool well = true;
		struct standin_signs s;
		if (part == STANDIN_STACKS)
			well = td_standin_stacks(j, node, sig, said, sizeof(said));
		else if (part == STANDIN_BEATS)
			td_standin_beats("/proc", j, all = beats, sizeof(beats));
		else {
			td_standin_signs("/proc", j, &s);
			snprintf(said, sizeof(said), "cpu=%lld output=%lld beat=%lld", s.cpu_ms, s.output, s.heartbeat);
		}
		if (!write_all(fd[1], all))
			well = false;
		_exit(well ? 0 : 2);
	}
	close(fd[1]);
	bool ended = pid > 0 && read_all(fd[0], deadline, text, n);
	close(fd[0]);
	if (pid > 0 && !ended) {
		kill(-pid, SIGKILL);
		behind++;
		return false;
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
