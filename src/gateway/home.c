#include "gateway/home.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT_MOST = 64 << 20, DO_MS = 120000, CODE_BASE = 100 };

const char *td_home_below(const struct td_gateway *g, const char *home)
{
	size_t n = strlen(g->o.homes_as);
	return !strncmp(home, g->o.homes_as, n) && home[n] == '/' && home[n + 1] ? home + n + 1 : NULL;
}

static int start(struct td_gateway *g, const struct td_home_call *k, const int fds[3], pid_t *ret, struct td_error *err)
{
	const struct td_gateway_user *u = k->user;
	const char *place = td_home_below(g, u->home);
	if (!g->o.homes)
		return td_fail(err, TD_UNSUPPORTED, "this gateway was not told where homes are (--homes)");
	if (!place)
		return td_fail(err, TD_UNSUPPORTED, "the home of %s is %s: only homes below %s can be reached here",
			       u->name, u->home, g->o.homes_as);

	td_auto_strv struct td_strv a = {0};
	td_strv_add(&a, g->self);
	td_strv_add(&a, "home-io");
	td_strv_addf(&a, "--homes=%s", g->o.homes);
	td_strv_addf(&a, "--home=%s", place);
	td_strv_addf(&a, "--uid=%lld", (long long)u->uid);
	td_strv_addf(&a, "--gid=%lld", (long long)u->gid);
	td_strv_add(&a, "--");
	td_strv_add(&a, k->verb);
	for (size_t i = 0; i < TD_LEN(k->args) && k->args[i]; i++)
		td_strv_add(&a, k->args[i]);
	char *env[] = {(char *)(uintptr_t)"PATH=/usr/bin:/bin", NULL};
	return td_start(a.v, env, fds, 3, POSIX_SPAWN_SETSID, ret, err);
}

// What it said, from the descriptor that was its stderr. code: its exit code.
static int outcome(int code, int said, struct td_error *err)
{
	char text[400];
	if (!code)
		return 0;
	ssize_t n = pread(said, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	int as = code > CODE_BASE && code <= CODE_BASE - TD_INTERNAL ? -(code - CODE_BASE) : TD_INTERNAL;
	return td_fail(err, as, "%s", *text ? text : "the process of the home ended without a word");
}

static int temporary(const void *p, size_t n, struct td_error *err)
{
	int fd = memfd_create("tandem", MFD_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "memfd");
	int r = n ? td_write_all(fd, p, n, err) : 0;
	if (r || lseek(fd, 0, SEEK_SET) < 0) {
		close(fd);
		return r ? r : td_fail_errno(err, TD_INTERNAL, errno, "memfd");
	}
	return fd;
}

// Reads the pipe to its end, for at most DO_MS.
static int read_all(int fd, struct td_cancel *c, struct td_buf *ret, struct td_error *err)
{
	char buf[65536];
	size_t got = 0;
	for (int64_t end = td_mono_ms(&td_clock_system) + DO_MS;;) {
		int64_t left = end - td_mono_ms(&td_clock_system);
		struct pollfd f[2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		if (left <= 0)
			return td_fail(err, TD_UNCERTAIN, "the home did not answer for %d s", DO_MS / 1000);
		if (poll(f, 2, (int)left) < 0 && errno != EINTR)
			return td_fail_errno(err, TD_INTERNAL, errno, "poll");
		if (f[1].revents)
			return td_fail(err, TD_CANCELLED, "cancelled");
		if (!f[0].revents)
			continue;
		ssize_t n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return 0;
		if ((got += (size_t)n) > OUT_MOST)
			return td_fail(err, TD_INVALID, "the answer is larger than %d MiB", OUT_MOST >> 20);
		if (ret)
			td_buf_add(ret, buf, (size_t)n);
	}
}

int td_home_do(struct td_gateway *g, const struct td_home_call *call, struct td_cancel *c, struct td_buf *ret,
	       struct td_error *err)
{
	td_auto_close int in = temporary(call->in, call->in_len, err);
	td_auto_close int said = in < 0 ? -1 : temporary(NULL, 0, err);
	int p[2];
	if (in < 0 || said < 0)
		return TD_INTERNAL;
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");

	td_auto_close int out = p[0], theirs = p[1];
	pid_t pid;
	int r = start(g, call, (const int[]){in, theirs, said}, &pid, err);
	if (r)
		return r;
	close(td_steal_fd(&theirs));

	td_auto_buf struct td_buf got = {0};
	r = read_all(out, c, &got, err);
	if (r)
		kill(pid, SIGKILL);
	int code = td_wait_code(pid);
	if (r || (r = outcome(code, said, err)))
		return r;
	if (ret)
		td_buf_add(ret, td_buf_str(&got), got.len);
	return 0;
}

int td_home_open(struct td_gateway *g, const struct td_home_call *call, struct td_home_stream *ret,
		 struct td_error *err)
{
	td_auto_close int said = temporary(NULL, 0, err);
	int p[2], q[2];
	if (said < 0)
		return TD_INTERNAL;
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	td_auto_close int out = p[0], theirs = p[1];
	if (pipe2(q, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	td_auto_close int end = q[0], in = q[1];

	int r = start(g, call, (const int[]){end, theirs, said}, &ret->pid, err);
	if (r)
		return r;
	ret->out = td_steal_fd(&out);
	ret->in = td_steal_fd(&in);
	ret->said = td_steal_fd(&said);
	return 0;
}

int td_home_close(struct td_home_stream *s, struct td_error *err)
{
	if (s->in >= 0)
		close(s->in);
	close(s->out); // a verb that still writes gets SIGPIPE
	int code = td_wait_code(s->pid), r = code == 128 + SIGPIPE ? 0 : outcome(code, s->said, err);
	close(s->said);
	*s = (struct td_home_stream){.out = -1, .in = -1, .said = -1};
	return r;
}
