// A checkpoint of several parts for another number of processes: the files of all parts in one directory, as the
// program would have written them to shared storage itself. So are torch's distributed checkpoints: each process wrote
// files of its own name, and the first one a list of what is in which.
#include "standin/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEP = 64, PIECE = 65536 };

struct stage_merge {
	bool link;
	const char *root; // where the part lies, as links name it
	char clash[512];  // a file that several parts have, and not the same; "": none
};

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Reads until the piece is full or the file ends. -1 with errno.
static ssize_t fill(int fd, char *b)
{
	ssize_t n = 0;
	for (ssize_t k; n < PIECE && (k = read(fd, b + n, (size_t)(PIECE - n))); n += k)
		if (k < 0 && (k = 0, errno != EINTR))
			return -1;
	return n;
}

// Have both files the same bytes? What is no file, or cannot be read, is like nothing.
static bool same(int x_dir, int y_dir, const char *name)
{
	static char p[PIECE], q[PIECE];
	struct stat a, b;
	int x = openat(x_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC),
	    y = openat(y_dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // it may be a link of ours
	bool like = x >= 0 && y >= 0 && !fstat(x, &a) && !fstat(y, &b) && S_ISREG(a.st_mode) && S_ISREG(b.st_mode) &&
		    a.st_size == b.st_size;
	for (ssize_t n = 1; like && n > 0;) {
		n = fill(x, p);
		like = n >= 0 && fill(y, q) == n && !memcmp(p, q, (size_t)n);
	}
	if (x >= 0)
		close(x);
	if (y >= 0)
		close(y);
	return like;
}

static bool same_link(int x_dir, int y_dir, const char *name)
{
	char x[4096], y[4096];
	ssize_t n = readlinkat(x_dir, name, x, sizeof(x)), k = readlinkat(y_dir, name, y, sizeof(y));
	return n >= 0 && n == k && n < (ssize_t)sizeof(x) && !memcmp(x, y, (size_t)n);
}

static int one_file(struct stage_merge *m, int from, int to, const char *name, const char *path)
{
	struct stat st;
	char where[4096];
	if (!fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW)) {
		if (same(from, to, name) || same_link(from, to, name))
			return 0;
		snprintf(m->clash, sizeof(m->clash), "%s", path);
		errno = EEXIST;
		return -1;
	}
	if (!m->link || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return td_stage_copy(from, name, to, name);
	if (snprintf(where, sizeof(where), "%s/%s", m->root, path) >= (int)sizeof(where)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return symlinkat(where, to, name);
}

static bool later(const struct timespec *x, const struct timespec *y)
{
	return x->tv_sec != y->tv_sec ? x->tv_sec > y->tv_sec : x->tv_nsec > y->tv_nsec;
}

// path: of the directory in the part; "": the part itself.
static int merge_dir(struct stage_merge *m, int from, int to, const char *path, int deep)
{
	struct stat in, out;
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d || deep > DEEP || fstat(from, &in) || fstat(to, &out)) {
		r = errno = d && deep > DEEP ? ELOOP : errno;
		if (d)
			closedir(d);
		else if (fd >= 0)
			close(fd);
		errno = r;
		return -1;
	}
	for (struct dirent *e; !r && (errno = 0, e = readdir(d));) {
		char sub[4096];
		struct stat st;
		const char *name = e->d_name;
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (snprintf(sub, sizeof(sub), "%s%s%s", path, *path ? "/" : "", name) >= (int)sizeof(sub)) {
			r = -1, errno = ENAMETOOLONG;
		} else if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW)) {
			r = -1;
		} else if (!S_ISDIR(st.st_mode)) {
			r = one_file(m, from, to, name, sub);
		} else {
			bool fresh = !mkdirat(to, name, 0700);
			int x = open_dir(from, name), y = fresh || errno == EEXIST ? open_dir(to, name) : -1;
			if (y < 0 && !fresh && (errno == ENOTDIR || errno == ELOOP))
				snprintf(m->clash, sizeof(m->clash), "%.500s", sub);
			r = x < 0 || y < 0 ? -1 : merge_dir(m, x, y, sub, deep + 1);
			int why = errno;
			if (!r && fresh) { // the mode and the time that it had; other parts may have files in it
				(void)!fchmod(y, (st.st_mode & 0777) | 0700);
				(void)!futimens(y, (struct timespec[]){st.st_atim, st.st_mtim});
			}
			if (x >= 0)
				close(x);
			if (y >= 0)
				close(y);
			errno = why;
		}
	}
	int why = errno;
	closedir(d);
	errno = why;
	if (r || why)
		return -1;
	// Of all parts the latest, so that programs find the newest by its time.
	const struct timespec t[] = {in.st_atim, later(&in.st_mtim, &out.st_mtim) ? in.st_mtim : out.st_mtim};
	return futimens(to, t);
}

// One part, whole as it was written.
static int merge_part(struct stage_merge *m, FILE *list, int in, int part, int to)
{
	char own[32];
	struct stage_seen wrote, now;
	snprintf(own, sizeof(own), "part-%d", part);
	if (td_stage_parts_next(list, part, &wrote) || td_stage_look(in, own, &now))
		return -1;
	if (now.files != wrote.files || now.bytes != wrote.bytes) {
		errno = EBADMSG;
		return -1;
	}
	if (!now.directory) {
		snprintf(m->clash, sizeof(m->clash), "it, for each part is a file of its own");
		errno = EEXIST;
		return -1;
	}
	int from = open_dir(in, own), r = from < 0 ? -1 : merge_dir(m, from, to, "", 0), why = errno;
	if (from >= 0)
		close(from);
	errno = why;
	return r;
}

int td_stage_merge(struct stage_keeper *k, int kept, int local, const char *name, int parts)
{
	char root[4096], at[4200];
	struct stage_merge m = {.link = k->reshard == STAGE_LINK};
	int in = open_dir(kept, name), to = -1, r = 0, listed;
	FILE *list = NULL;
	if (in < 0 || mkdirat(local, name, 0700) || (to = open_dir(local, name)) < 0 || !realpath(k->kept, root) ||
	    td_stage_parts_open(kept, name, &listed, &list) <= 0) {
		r = errno;
		if (in >= 0)
			close(in);
		if (to >= 0)
			close(to);
		errno = r;
		return -1;
	}
	(void)!futimens(to, (struct timespec[]){{0, UTIME_OMIT}, {0, 0}}); // older than any part
	for (int i = 0; !r && i < parts; i++) {
		if (snprintf(at, sizeof(at), "%s/%s/part-%d", root, name, i) >= (int)sizeof(at))
			r = -1, errno = ENAMETOOLONG;
		m.root = at;
		r = r ? r : merge_part(&m, list, in, i, to);
	}
	int why = errno;
	fclose(list);
	close(in);
	close(to);
	if (r && *m.clash) {
		td_stage_say("%s/%s was written by %d processes, and now there are %d. Its parts are not files of one "
			     "whole: "
			     "more than one has %s, and not the same. Start as many, name another directory (--to), or "
			     "read it yourself (--no-restore)",
			     k->kept, name, parts, k->parts, m.clash);
		why = ERANGE;
	}
	errno = why;
	return r;
}

static bool leads_into(int dir, const char *name, const char *root, int deep)
{
	char where[4096];
	size_t len = strlen(root);
	ssize_t n = readlinkat(dir, name, where, sizeof(where));
	if (n >= 0)
		return (size_t)n > len && !memcmp(where, root, len) && where[len] == '/';
	int fd = deep > DEEP ? -1 : open_dir(dir, name);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool yes = false;
	for (struct dirent *e; d && !yes && (e = readdir(d));)
		yes = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		      leads_into(fd, e->d_name, root, deep + 1);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return yes;
}

bool td_stage_is_links(const struct stage_keeper *k, int local, const char *name)
{
	char root[4096];
	return k->reshard == STAGE_LINK && realpath(k->kept, root) && leads_into(local, name, root, 0);
}
