// Trees of files, by descriptors: nobody who may write in a shared directory leads them elsewhere by a link.
#include "standin/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEP = 64, PIECE = 1 << 20 };

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
	for (const unsigned char *p = data; n--; p++)
		h = (h ^ *p) * 1099511628211ULL;
	return h ^ h >> 29;
}

static struct __dirstream *open_dir(int dir, const char *name) // a DIR
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !d)
		close(fd);
	return d;
}

// The next entry, without "." and ".."; NULL at the end.
static const char *next(DIR *d)
{
	for (struct dirent *e; (errno = 0, e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return e->d_name;
	return NULL;
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int look(int dir, const char *name, uint64_t above, struct stage_seen *s, int deep)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	if (deep > DEEP) {
		errno = ELOOP;
		return -1;
	}
	uint64_t path = mix(above, name, strlen(name) + 1);
	uint64_t own[] = {st.st_mode, (uint64_t)st.st_size, (uint64_t)ns(st.st_mtim), st.st_ino};
	s->stamp += mix(path, own, sizeof(own)); // in any order
	s->when_ns = ns(st.st_mtim) > s->when_ns ? ns(st.st_mtim) : s->when_ns;
	if (!S_ISDIR(st.st_mode)) {
		s->bytes += (uint64_t)st.st_size;
		s->files++;
		return 0;
	}

	DIR *d = open_dir(dir, name);
	if (!d)
		return -1;
	int r = 0;
	for (const char *sub; !r && (sub = next(d));)
		r = look(dirfd(d), sub, path, s, deep + 1);
	int why = errno;
	closedir(d);
	errno = why;
	return r || why ? -1 : 0;
}

int td_stage_look(int dir, const char *name, struct stage_seen *ret)
{
	struct stage_seen s = {0};
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || look(dir, name, 14695981039346656037ULL, &s, 0))
		return -1;
	s.directory = S_ISDIR(st.st_mode);
	s.stamp += !s.stamp;
	*ret = s;
	return 0;
}

static int copy_bytes(int in, int out)
{
	static char b[PIECE];
	for (ssize_t n; (n = read(in, b, sizeof(b)));) {
		if (n < 0 && errno != EINTR)
			return -1;
		for (ssize_t k, at = 0; at < n; at += k)
			if ((k = write(out, b + at, (size_t)(n - at))) < 0 && (k = 0, errno != EINTR))
				return -1;
	}
	return 0;
}

// Its mode and times, then all of it to the disk.
static int finish(int fd, const struct stat *st)
{
	struct timespec t[] = {st->st_atim, st->st_mtim};
	return fchmod(fd, st->st_mode & 0777) || futimens(fd, t) || fsync(fd) ? -1 : 0;
}

// Closes what is open and keeps the reason of a failure.
static int closed(int r, int in, int out)
{
	int why = errno;
	if (in >= 0)
		close(in);
	if (out >= 0 && close(out) && !r)
		r = -1, why = errno;
	errno = why;
	return r;
}

static int copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
	struct stat st;
	int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int out = in < 0 ? -1 : openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = out < 0 || fstat(in, &st) ? -1 : 0;
	if (!r && !S_ISREG(st.st_mode))
		r = -1, errno = ENOTSUP;
	if (!r)
		r = copy_bytes(in, out) || finish(out, &st) ? -1 : 0;
	return closed(r, in, out);
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to)
{
	char where[4096];
	ssize_t n = readlinkat(from_dir, from, where, sizeof(where) - 1);
	if (n < 0)
		return -1;
	where[n] = '\0';
	return symlinkat(where, to_dir, to);
}

static int copy(int from_dir, const char *from, int to_dir, const char *to, int deep);

static int copy_dir(int from_dir, const char *from, int to_dir, const char *to, int deep)
{
	DIR *d = open_dir(from_dir, from);
	struct stat st;
	if (!d || fstat(dirfd(d), &st) || mkdirat(to_dir, to, 0700))
		return d ? closedir(d), -1 : -1;
	int out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = out < 0 ? -1 : 0;
	for (const char *sub; !r && (sub = next(d));)
		r = copy(dirfd(d), sub, out, sub, deep + 1);
	if (!r)
		r = errno || finish(out, &st) ? -1 : 0;
	int why = errno;
	closedir(d);
	errno = why;
	return closed(r, -1, out);
}

static int copy(int from_dir, const char *from, int to_dir, const char *to, int deep)
{
	struct stat st;
	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	if (deep > DEEP || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))) {
		errno = deep > DEEP ? ELOOP : ENOTSUP;
		return -1;
	}
	return S_ISDIR(st.st_mode)   ? copy_dir(from_dir, from, to_dir, to, deep)
	       : S_ISREG(st.st_mode) ? copy_file(from_dir, from, to_dir, to)
				     : copy_link(from_dir, from, to_dir, to);
}

int td_stage_copy(int from_dir, const char *from, int to_dir, const char *to)
{
	return copy(from_dir, from, to_dir, to, 0);
}

static int remove_at(int dir, const char *name, int deep)
{
	if (!unlinkat(dir, name, 0) || errno == ENOENT)
		return 0;
	if ((errno != EISDIR && errno != EPERM && errno != EACCES) || deep > DEEP)
		return -1;
	// A directory that its owner may not write, copied as it is, must become writable before it can go.
	struct stat st;
	DIR *d = open_dir(dir, name);
	if (!d && errno == EACCES && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) &&
	    !fchmodat(dir, name, 0700, 0))
		d = open_dir(dir, name);
	if (!d)
		return errno == ENOENT ? 0 : -1;
	if (!fstat(dirfd(d), &st) && (st.st_mode & 0700) != 0700)
		(void)!fchmod(dirfd(d), 0700);
	int r = 0;
	// What is removed may hide what comes behind it.
	for (int again = 0; again < 16; again++) {
		for (const char *sub; !r && (sub = next(d));)
			r = remove_at(dirfd(d), sub, deep + 1);
		if (r || !unlinkat(dir, name, AT_REMOVEDIR) || errno == ENOENT)
			break;
		r = errno == ENOTEMPTY || errno == EEXIST ? 0 : -1;
		if (r || again == 15) {
			r = -1;
			break;
		}
		rewinddir(d);
	}
	int why = errno;
	closedir(d);
	errno = why;
	return r;
}

int td_stage_remove(int dir, const char *name)
{
	return remove_at(dir, name, 0);
}

int td_stage_open(const char *path)
{
	char p[4096];
	if (snprintf(p, sizeof(p), "%s", path) >= (int)sizeof(p)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	for (char *slash = p + 1; *p && (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdir(p, 0777) && errno != EEXIST && access(p, F_OK))
			return -1;
	}
	if (mkdir(p, 0777) && errno != EEXIST)
		return -1;
	return open(p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), k = strlen(with);
	return n >= k && !strcmp(s + n - k, with);
}

static int older(const void *a, const void *b)
{
	const struct stage_one *x = a, *y = b;
	return x->seen.when_ns != y->seen.when_ns ? (x->seen.when_ns < y->seen.when_ns ? -1 : 1)
						  : strcmp(x->name, y->name);
}

int td_stage_list(int dir, struct stage_list *ret)
{
	struct stage_list l = {0};
	DIR *d = open_dir(dir, ".");
	if (!d)
		return -1;
	for (const char *name; (name = next(d));) {
		struct stage_seen seen;
		if (name[0] == '.' || ends(name, ".tmp") || ends(name, ".part") || ends(name, ".partial"))
			continue;
		if (td_stage_look(dir, name, &seen)) {
			if (errno != ENOENT) // it is going
				l.unseen = errno;
			continue;
		}
		struct stage_one *more = realloc(l.one, (size_t)(l.n + 1) * sizeof(*l.one));
		char *own = more ? strdup(name) : NULL;
		l.one = more ? more : l.one;
		if (!own)
			abort();
		l.one[l.n++] = (struct stage_one){own, seen};
	}
	if (errno)
		l.unseen = errno;
	closedir(d);
	if (l.n)
		qsort(l.one, (size_t)l.n, sizeof(*l.one), older);
	*ret = l;
	return 0;
}

void td_stage_list_done(struct stage_list *l)
{
	for (int i = 0; i < l->n; i++)
		free(l->one[i].name);
	free(l->one);
	*l = (struct stage_list){0};
}
