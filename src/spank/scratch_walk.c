// How much a directory holds. Users made what is in it and change it meanwhile; nothing is followed, and what is not
// below the directory is not counted.
#include "spank/scratch_internal.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// One directory on the way down: what is still to be entered there.
struct level {
	char *name; // in the level above
	ino_t ino;
	struct td_strv below;
	size_t next;
};
struct adding {
	struct level *v;
	size_t n;
	int fd; // of the last level
	dev_t dev;
	int64_t entries;
	struct td_scratch_held *sum;
};

static void pop(struct adding *w)
{
	struct level *l = &w->v[--w->n];
	free(l->name);
	td_strv_done(&l->below);
}

static void walk_done(struct adding *w)
{
	while (w->n)
		pop(w);
	free(w->v);
	if (w->fd >= 0)
		close(w->fd);
}

// Of a file with several names each has its part, so that all together are the file.
static int64_t size_of(const struct stat *st)
{
	int64_t all = (int64_t)st->st_blocks * 512;
	return S_ISDIR(st->st_mode) || st->st_nlink < 2 ? all : all / (int64_t)st->st_nlink;
}

// Takes `fd`, adds up what is directly there, and remembers the directories.
static int enter(struct adding *w, int fd, const char *name, int64_t most)
{
	struct stat st;
	if (fstat(fd, &st) || (w->n && st.st_dev != w->dev)) {
		close(fd);
		return -1;
	}
	struct level l = {.name = td_strdup(name), .ino = st.st_ino};
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	for (struct dirent *e; d && w->entries <= most && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		w->entries++;
		__atomic_add_fetch(&w->sum->bytes, size_of(&st), __ATOMIC_RELAXED);
		__atomic_add_fetch(&w->sum->files, 1, __ATOMIC_RELAXED);
		if (S_ISDIR(st.st_mode))
			td_strv_add(&l.below, e->d_name);
	}
	if (d)
		closedir(d);
	else if (again >= 0)
		close(again);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = fd;
	w->v = td_realloc(w->v, (w->n + 1) * sizeof(*w->v));
	w->v[w->n++] = l;
	return 0;
}

static bool is_last(const struct adding *w, int fd)
{
	struct stat st;
	return fd >= 0 && !fstat(fd, &st) && st.st_ino == w->v[w->n - 1].ino && st.st_dev == w->dev;
}

// Back to the level above. A directory that was moved meanwhile leads elsewhere: then the way is gone from the top.
static void leave(struct adding *w, int top)
{
	int up = openat(w->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pop(w);
	while (w->n && !is_last(w, up)) {
		if (up >= 0)
			close(up);
		up = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		for (size_t i = 1; up >= 0 && i < w->n; i++) {
			int down = openat(up, w->v[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			close(up);
			up = down;
		}
		if (!is_last(w, up) && w->n > 1)
			pop(w);
		else
			break;
	}
	close(w->fd);
	w->fd = up;
	if (up < 0)
		while (w->n)
			pop(w);
}

int td_scratch_used(const char *path, int64_t most, struct td_scratch_held *sum)
{
	__attribute__((cleanup(walk_done))) struct adding w = {.fd = -1, .sum = sum};
	td_auto_close int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (top < 0 || fstat(top, &st))
		return -1;
	w.dev = st.st_dev;
	int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || enter(&w, fd, "", most))
		return -1;
	while (w.n && w.entries <= most) {
		struct level *l = &w.v[w.n - 1];
		if (l->next == l->below.n) {
			leave(&w, top);
			continue;
		}
		const char *name = l->below.v[l->next++];
		fd = openat(w.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			enter(&w, fd, name, most);
	}
	return w.entries > most ? 1 : 0;
}
