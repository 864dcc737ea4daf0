// Doing something with another's rights. This program has one thread, so that it may fork.
#include "spank/as.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int td_ct_become(const struct td_ct_owner *who, struct td_error *err)
{
	if (setgroups(who->n_groups, who->groups) || setresgid(who->gid, who->gid, who->gid) ||
	    setresuid(who->uid, who->uid, who->uid))
		return td_fail_errno(err, TD_INTERNAL, errno, "become user %u", who->uid);
	return 0;
}

int td_ct_as(const struct td_ct_owner *who, int (*f)(void *ctx, struct td_error *err), void *ctx, struct td_error *err)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	pid_t pid = fork();
	if (pid < 0) {
		close(p[0]);
		close(p[1]);
		return td_fail_errno(err, TD_TRANSIENT, errno, "fork");
	}
	if (pid == 0) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_ct_become(who, &e);
		if (!r)
			r = f(ctx, &e);
		e.code = r;
		_exit(td_write_all(p[1], &e, sizeof(e), NULL) ? 1 : 0);
	}

	close(p[1]);
	struct td_error e = TD_ERROR_INIT;
	ssize_t n;
	size_t got = 0;
	while (got < sizeof(e) &&
	       ((n = read(p[0], (char *)&e + got, sizeof(e) - got)) > 0 || (n < 0 && errno == EINTR)))
		got += n > 0 ? (size_t)n : 0;
	close(p[0]);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got < sizeof(e))
		return td_fail(err, TD_INTERNAL, "the child that worked as user %u ended early", who->uid);
	if (e.code && err)
		*err = e;
	return e.code;
}

struct copy {
	const char *path;
	int to;
	size_t max;
};

static int copy(void *ctx, struct td_error *err)
{
	const struct copy *c = ctx;
	// A pipe or a device in its place must not hold us up.
	td_auto_close int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno, "%s", c->path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return td_fail(err, TD_INVALID, "%s is no file", c->path);

	static char buf[1 << 20];
	size_t all = 0;
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) != 0;) {
		if (n < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "read %s", c->path);
		if (c->max && (all += (size_t)n) > c->max)
			return td_fail(err, TD_INVALID, "%s has more than %zu bytes", c->path, c->max);
		int r = td_write_all(c->to, buf, (size_t)n, err);
		if (r)
			return td_wrap(err, "copy %s", c->path);
	}
	return 0;
}

int td_ct_copy_as(const struct td_ct_owner *who, const char *path, int to, struct td_error *err)
{
	return td_ct_as(who, copy, &(struct copy){path, to, 0}, err);
}

int td_ct_read_as(const struct td_ct_owner *who, const char *path, size_t max, struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = memfd_create("read", MFD_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "memfd_create");
	int r = td_ct_as(who, copy, &(struct copy){path, fd, max}, err);
	if (r)
		return r;
	char buf[65536];
	lseek(fd, 0, SEEK_SET);
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0;)
		td_buf_add(ret, buf, (size_t)n);
	explicit_bzero(buf, sizeof(buf));
	return 0;
}
