// Doing something with another's rights. This program has one thread, so that it may fork.
#include "spank/as.h"

#include "base/file.h"
#include "spank/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

// A pipe or a device in the place of a file must not hold us up.
static int open_file(const char *path, int *ret_fd, struct td_error *err)
{
	// Not by /proc/PID/root or /proc/PID/fd: there a user may have mounted what answers as he likes, and file systems of
	// his that tell any inode, size and time.
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_NO_MAGICLINKS};
	td_auto_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat st;
	if (fd < 0 && errno == ELOOP)
		return td_fail(err, TD_DENIED,
			       "%s leads through a link of /proc or round in circles; name the file itself", path);
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_DENIED, errno, "%s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return td_fail(err, TD_INVALID, "%s is no file", path);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}

int td_ct_copy(int from, const char *path, int to, size_t max, struct td_error *err)
{
	static char buf[1 << 20];
	size_t all = 0;
	for (ssize_t n; (n = pread(from, buf, sizeof(buf), (off_t)all)) != 0;) {
		if (n < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "read %s", path);
		all += (size_t)n;
		if (all > max)
			return td_fail(err, TD_INVALID, "%s has more than %zu bytes", path, max);
		int r = td_write_all(to, buf, (size_t)n, err);
		if (r)
			return td_wrap(err, "copy %s", path);
	}
	return 0;
}

struct opening {
	const char *path;
	int to; // a socket that gets the descriptor
};

static int open_and_send(void *ctx, struct td_error *err)
{
	const struct opening *o = ctx;
	td_auto_close int fd = -1;
	int r = open_file(o->path, &fd, err);
	if (!r && !td_ct_send(o->to, "f", 1, fd))
		r = td_fail_errno(err, TD_INTERNAL, errno, "hand over %s", o->path);
	return r;
}

int td_ct_open_as(const struct td_ct_owner *who, const char *path, int *ret_fd, struct td_error *err)
{
	int p[2], fd = -1;
	char c;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "socketpair");
	td_auto_close int ours = p[0], theirs = p[1];
	int r = td_ct_as(who, open_and_send, &(struct opening){path, theirs}, err);
	if (!r && (td_ct_recv(ours, &c, 1, &fd) != 1 || fd < 0))
		r = td_fail(err, TD_INTERNAL, "%s was opened, but is not there", path);
	if (!r)
		*ret_fd = fd;
	return r;
}

int td_ct_read_as(const struct td_ct_owner *who, const char *path, size_t max, struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = td_ct_open_as(who, path, &fd, err);
	return r ? r : td_file_read_fd(fd, path, max, ret, err);
}
