// Runs commands of Slurm with a deadline.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX = 8 << 20 };

// Reads fd to its end. NULL: the end did not come in time, or the text is too long.
static char *whole(int fd, int64_t deadline)
{
	size_t len = 0, cap = 64 << 10;
	char *buf = malloc(cap);
	while (buf) {
		struct pollfd p = {fd, POLLIN, 0};
		int64_t left = deadline - td_standin_now_ms();
		if (left <= 0 || (poll(&p, 1, (int)left) < 0 && errno != EINTR))
			break;
		if (!p.revents)
			continue;

		if (len + 1 == cap) { // leaves room for the NUL
			char *more = cap < TEXT_MAX ? realloc(buf, cap *= 2) : NULL;
			if (!more)
				break;
			buf = more;
		}
		ssize_t k = read(fd, buf + len, cap - len - 1);
		if (k == 0) {
			buf[len] = '\0';
			return buf;
		}
		if (k < 0)
			break;
		len += (size_t)k;
	}
	free(buf);
	return NULL;
}

int td_standin_command(char *const argv[], bool errors, int64_t deadline, char **ret, char *why, size_t n_why)
{
	int fd[2];
	pid_t pid;
	if (pipe2(fd, O_CLOEXEC) < 0) {
		snprintf(why, n_why, "pipe: %s", strerror(errno));
		return -1;
	}

	posix_spawn_file_actions_t fa;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, fd[1], 1);
	if (errors)
		posix_spawn_file_actions_adddup2(&fa, fd[1], 2);

	int e = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(fd[1]);
	if (e) {
		snprintf(why, n_why, "%s: %s", argv[0], strerror(e));
		close(fd[0]);
		return -1;
	}

	char *text = whole(fd[0], deadline);
	close(fd[0]);
	if (!text)
		kill(pid, SIGKILL);
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!text) {
		snprintf(why, n_why, "%s: no answer in time, or too long a one", argv[0]);
		return -1;
	}
	*ret = text;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool td_standin_act(const char *who, char *const argv[], int64_t deadline)
{
	char *text = NULL, why[256] = "";
	int r = td_standin_command(argv, true, deadline, &text, why, sizeof(why));
	if (r)
		fprintf(stderr, "tandem %s: %s %s: %s\n", who, argv[0], argv[1], r < 0 ? why : text ? text : "");
	free(text);
	return !r;
}

char *td_standin_output(char *const argv[], int64_t deadline, size_t *ret_len, char *why, size_t n_why)
{
	char *text = NULL, words[256] = "";
	int r = td_standin_command(argv, false, deadline, &text, words, sizeof(words));
	if (!r) {
		*ret_len = strlen(text);
		return text;
	}
	snprintf(why, n_why, "%s %s %s: %s", argv[0], argv[1], argv[2],
		 r < 0 ? words : "failed (it needs Slurm's JSON serializer)");
	free(text);
	return NULL;
}
