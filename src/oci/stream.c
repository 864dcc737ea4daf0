#include "oci/stream.h"

#include "base/clock.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_stream {
	int in, fd; // the file; what is read from: it, or the program's output
	char *what;
	const char *program;
	pid_t pid; // 0: none, or collected
	struct td_cancel *cancel;
	struct td_stream_progress *p;
	gnutls_hash_hd_t hash;
};

static const struct {
	const char *magic;
	size_t n;
	const char *program, *package;
} kinds[] = {
	{"\x1f\x8b", 2, "gzip", "gzip"},
	{"\x28\xb5\x2f\xfd", 4, "zstd", "zstd"},
	{"\xfd"
	 "7zXZ",
	 6, "xz", "xz-utils"},
	{"BZh", 3, "bzip2", "bzip2"},
};

static int start(struct td_stream *s, size_t kind, struct td_error *err)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "pipe");
	char *argv[] = {(char *)(uintptr_t)kinds[kind].program, "-dc", NULL};
	const int fds[3] = {s->in, p[1], -1};
	int r = td_start(argv, NULL, fds, 3, POSIX_SPAWN_SETPGROUP, &s->pid, err);
	close(p[1]);
	if (r) {
		close(p[0]);
		s->pid = 0;
		return r == TD_NOT_FOUND
			       ? td_fail(err, TD_UNSUPPORTED, "%s is compressed by %s, which is not installed: apt-get install %s", s->what,
					 kinds[kind].program, kinds[kind].package)
			       : r;
	}
	fcntl(p[0], F_SETPIPE_SZ, 1 << 20);
	s->fd = p[0];
	s->program = kinds[kind].program;
	return 0;
}

int td_stream_open(int fd, const char *what, struct td_stream_progress *progress, struct td_cancel *c, struct td_stream **ret,
		   struct td_error *err)
{
	td_auto(td_stream_close) struct td_stream *s = td_calloc(1, sizeof(*s));
	char head[6] = {0};
	s->in = s->fd = fd;
	s->what = td_strdup(what);
	s->cancel = c;
	s->p = progress;
	if (lseek(fd, 0, SEEK_SET) < 0 || pread(fd, head, sizeof(head), 0) < 0)
		return td_fail_errno(err, TD_INVALID, errno, "%s", what);
	if (gnutls_hash_init(&s->hash, GNUTLS_DIG_SHA256) < 0)
		return td_fail(err, TD_INTERNAL, "no SHA-256");
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (!memcmp(head, kinds[i].magic, kinds[i].n)) {
			int r = start(s, i, err);
			if (r)
				return r;
			break;
		}
	*ret = td_steal(s);
	return 0;
}

struct td_stream *td_stream_close(struct td_stream *s)
{
	if (!s)
		return NULL;
	if (s->pid) {
		kill(-s->pid, SIGKILL);
		td_wait_code(s->pid);
	}
	if (s->fd != s->in)
		td_close_auto(&s->fd);
	if (s->hash)
		gnutls_hash_deinit(s->hash, NULL);
	free(s->what);
	free(s);
	return NULL;
}

static void tell(struct td_stream *s)
{
	struct td_stream_progress *p = s->p;
	off_t at = p && p->f ? lseek(s->in, 0, SEEK_CUR) : -1; // the program shares the offset
	int percent = at < 0 || !p->total ? 0 : (int)((p->done + at) * 100 / p->total);
	if (at < 0 || percent == p->last || percent > 100)
		return;
	p->last = percent;
	p->f(p->ctx, percent, p->what);
}

static int ended(struct td_stream *s, struct td_error *err)
{
	if (!s->pid)
		return 0;
	int code = td_wait_code(s->pid);
	s->pid = 0;
	return code ? td_fail(err, TD_INVALID, "%s: %s says that it is damaged or cut short", s->what, s->program) : 0;
}

int td_stream_read(void *stream, void *buf, size_t n, size_t *ret_n, struct td_error *err)
{
	struct td_stream *s = stream;
	if (td_cancelled(s->cancel))
		return td_fail(err, TD_CANCELLED, "cancelled");
	if (s->fd != s->in) { // a program may be slow; a file is there
		struct pollfd p[2] = {{s->fd, POLLIN, 0}, {td_cancel_fd(s->cancel), POLLIN, 0}};
		while (poll(p, 2, -1) < 0 && errno == EINTR)
			;
		if (p[1].revents)
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
	ssize_t got;
	do
		got = read(s->fd, buf, n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "read %s", s->what);
	if (got == 0) {
		int r = ended(s, err);
		if (r)
			return r;
	}
	gnutls_hash(s->hash, buf, (size_t)got);
	tell(s);
	*ret_n = (size_t)got;
	return 0;
}

static void hex(const unsigned char d[32], char ret[65])
{
	for (size_t i = 0; i < 32; i++)
		snprintf(ret + 2 * i, 3, "%02x", d[i]);
}

void td_stream_digest(struct td_stream *s, char ret[65])
{
	unsigned char d[32];
	gnutls_hash_deinit(s->hash, d);
	s->hash = NULL;
	hex(d, ret);
}

int td_file_digest(int fd, const char *what, struct td_cancel *c, char ret[65], struct td_error *err)
{
	gnutls_hash_hd_t h;
	unsigned char d[32];
	if (gnutls_hash_init(&h, GNUTLS_DIG_SHA256) < 0)
		return td_fail(err, TD_INTERNAL, "no SHA-256");
	td_auto_free char *buf = td_malloc(1 << 20);
	ssize_t n = 0;
	off_t at = 0;
	while (!td_cancelled(c) && (n = pread(fd, buf, 1 << 20, at)) > 0) {
		gnutls_hash(h, buf, (size_t)n);
		at += n;
	}
	gnutls_hash_deinit(h, d);
	if (n < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "read %s", what);
	if (td_cancelled(c))
		return td_fail(err, TD_CANCELLED, "cancelled");
	hex(d, ret);
	return 0;
}
