#include "kubelet/pods/files.h"

#include "base/file.h"
#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- resolving ----

static int open_in(int dir, const char *rel, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd;
	// EAGAIN means that a rename raced with a ".." in the path.
	int tries = 32;
	do
		fd = (int)syscall(SYS_openat2, dir, rel, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && --tries);
	return fd;
}

int td_kubelet_path_open_in(const char *root, const char *rel, int *ret_fd, struct td_error *err)
{
	td_auto_close int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INVALID, errno, "open %s", root);
	int fd = open_in(dir, *rel ? rel : ".", O_PATH);
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT || errno == ENOTDIR ? TD_NOT_FOUND : TD_INVALID, errno,
				     "path %s", rel);
	*ret_fd = fd;
	return 0;
}

int td_kubelet_path_mkdir_in(const char *root, const char *rel, mode_t mode, struct td_error *err)
{
	td_auto_close int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return td_fail_errno(err, TD_NOT_FOUND, errno, "open %s", root);

	td_auto_strv struct td_strv parts = {0};
	td_auto_buf struct td_buf at = {0};
	td_strv_split(&parts, rel, '/');
	for (size_t i = 0; i < parts.n; i++) {
		td_auto_close int parent = open_in(dir, at.len ? at.s : ".", O_PATH | O_DIRECTORY);
		if (parent < 0)
			return td_fail_errno(err, TD_INVALID, errno, "path %s", rel);
		td_buf_printf(&at, "%s%s", at.len ? "/" : "", parts.v[i]);
		if (!strcmp(parts.v[i], "..") || !strcmp(parts.v[i], "."))
			continue;
		// What exists already, also a link inside the root, is resolved by open_in in the
		// next round.
		if (mkdirat(parent, parts.v[i], mode) < 0 && errno != EEXIST)
			return td_fail_errno(err, TD_INVALID, errno, "make %s", rel);
	}

	td_auto_close int fd = open_in(dir, at.len ? at.s : ".", O_PATH | O_DIRECTORY);
	return fd < 0 ? td_fail_errno(err, TD_INVALID, errno, "path %s", rel) : 0;
}

int td_kubelet_path_create_in(const char *root, const char *rel, mode_t mode, struct td_error *err)
{
	const char *slash = strrchr(rel, '/');
	td_auto_free char *parent = td_strndup(rel, slash ? (size_t)(slash - rel) : 0);
	td_auto_close int dir = -1;
	int r = td_kubelet_path_open_in(root, parent, &dir, err);
	if (r)
		return r;

	// Use the opened directory and not its name: names may change hands meanwhile.
	td_auto_close int fd =
		openat(dir, slash ? slash + 1 : rel, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? td_fail_errno(err, errno == EEXIST ? TD_EXISTS : TD_INVALID, errno, "make %s", rel) : 0;
}

// ---- payload ----

int td_payload_add(struct td_payload *p, const char *path, const void *data, size_t n, mode_t mode,
		   struct td_error *err)
{
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, path, '/');
	bool bad = path[0] == '/' || !parts.n || td_starts(path, "..");
	for (size_t i = 0; i < parts.n; i++)
		bad = bad || !strcmp(parts.v[i], "..");
	if (bad)
		return td_fail(err, TD_INVALID, "file path \"%.100s\" in a volume: want a relative path without \"..\"",
			       path);

	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->v[i].path, path)) { // a later source wins, as in projected volumes
			td_buf_reset(&p->v[i].data);
			td_buf_add(&p->v[i].data, data, n);
			p->v[i].mode = mode;
			return 0;
		}

	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 8;
		p->v = td_realloc(p->v, p->cap * sizeof(*p->v));
	}

	struct td_payload_file *f = &p->v[p->n++];
	*f = (struct td_payload_file){.path = td_strdup(path), .mode = mode};
	td_buf_add(&f->data, data, n);
	return 0;
}

void td_payload_done(struct td_payload *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].path);
		td_buf_done(&p->v[i].data);
	}
	free(p->v);
	*p = (struct td_payload){0};
}

// Names the payload's directory by a hash of its content. The order of files counts: sources give
// files in a stable order, and a needless swap is harmless.
static void payload_name(const struct td_payload *p, int64_t gid, char out[40])
{
	uint64_t h[2] = {TD_HASH, 0x9e3779b97f4a7c15};
	for (int k = 0; k < 2; k++) {
		h[k] = td_hash(h[k], &gid, sizeof(gid));
		for (size_t i = 0; i < p->n; i++) {
			h[k] = td_hash(h[k], p->v[i].path, strlen(p->v[i].path) + 1);
			h[k] = td_hash(h[k], &p->v[i].data.len, sizeof(size_t));
			h[k] = td_hash(h[k], td_buf_str(&p->v[i].data), p->v[i].data.len);
			h[k] = td_hash(h[k], &p->v[i].mode, sizeof(mode_t));
		}
	}
	snprintf(out, 40, "..%016llx%016llx", (unsigned long long)h[0], (unsigned long long)h[1]);
}

static int write_one(const char *dir, const struct td_payload_file *f, int64_t gid, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, f->path);
	char *slash = strrchr(path, '/');
	*slash = '\0';
	int r = td_mkdir_p(path, 0755, err);
	*slash = '/';
	if (r)
		return r;

	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "write %s", path);
	r = td_write_all(fd, td_buf_str(&f->data), f->data.len, err);
	if (r)
		return r;
	if (gid >= 0 && fchown(fd, 0, (gid_t)gid) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "chown %s", path);
	if (fchmod(fd, f->mode | (gid >= 0 ? 0440 : 0)) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "chmod %s", path);
	return 0;
}

static int swap_link(const char *target, const char *path, struct td_error *err)
{
	td_auto_free char *tmp = td_asprintf("%s_tmp", path);
	unlink(tmp);
	if (symlink(target, tmp) < 0 || rename(tmp, path) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "link %s", path);
	return 0;
}

static bool wanted(const struct td_payload *p, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < p->n; i++)
		if (!strncmp(p->v[i].path, name, len) && (!p->v[i].path[len] || p->v[i].path[len] == '/'))
			return true;
	return false;
}

int td_payload_write(const char *dir, const struct td_payload *p, int64_t gid, struct td_error *err)
{
	char name[40], now[64] = "";
	payload_name(p, gid, name);
	td_auto_free char *data = td_asprintf("%s/..data", dir), *fresh = td_asprintf("%s/%s", dir, name);

	ssize_t n = readlink(data, now, sizeof(now) - 1);
	now[n > 0 ? n : 0] = '\0';

	int r = 0;
	if (strcmp(now, name)) {
		r = td_mkdir_p(dir, 0755, err);
		if (!r)
			r = td_rm_rf(fresh, err);
		if (!r)
			r = td_mkdir_p(fresh, 0755, err);
		for (size_t i = 0; !r && i < p->n; i++)
			r = write_one(fresh, &p->v[i], gid, err);
		if (!r)
			r = swap_link(name, data, err);
	}

	// Also for a payload that is there: who wrote it may have been killed before the names.
	for (size_t i = 0; !r && i < p->n; i++) {
		td_auto_free char *top = td_strndup(p->v[i].path, strcspn(p->v[i].path, "/"));
		td_auto_free char *link = td_asprintf("%s/%s", dir, top), *to = td_asprintf("..data/%s", top);
		char was[4096];
		ssize_t k = readlink(link, was, sizeof(was) - 1);
		was[k > 0 ? k : 0] = '\0';
		if (strcmp(was, to))
			r = swap_link(to, link, err);
	}

	if (r)
		return r;

	// Remove what only the last payload had: its directory, and the names that are gone.
	DIR *d = opendir(dir);
	struct dirent *e;
	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "..data") ||
		    !strcmp(e->d_name, name))
			continue;
		td_auto_free char *path = td_asprintf("%s/%s", dir, e->d_name);
		if (td_starts(e->d_name, ".."))
			td_rm_rf(path, NULL);
		else if (!wanted(p, e->d_name))
			unlink(path);
	}

	if (d)
		closedir(d);
	return 0;
}
