// The cache of a node.
#include "spank/store.h"

#include "base/file.h"
#include "base/log.h"
#include "spank/holder.h"
#include "spank/layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void names_in(const char *dir, struct td_strv *ret)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			td_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
}

void td_ct_store_containers(struct td_strv *ret)
{
	names_in(TD_CT_RUN, ret);
}

int td_ct_store_make(bool fresh, struct td_error *err)
{
	// Users pass through to what is theirs in run/ID, and see no names.
	static const struct {
		const char *path;
		mode_t mode;
	} dirs[] = {{TD_CT_CACHE, 0711}, {TD_CT_TREES, 0700}, {TD_CT_STAGING, 0711},
		    {TD_CT_LOCKS, 0700}, {TD_CT_READY, 0700}, {TD_CT_RUN, 0711}};
	for (size_t i = 0; i < TD_LEN(dirs); i++) {
		int r = td_mkdir_p(dirs[i].path, dirs[i].mode, err);
		if (r)
			return r;
		if (chmod(dirs[i].path, dirs[i].mode) || chown(dirs[i].path, 0, 0))
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", dirs[i].path);
	}
	if (!fresh)
		return 0;

	td_auto_strv struct td_strv old = {0}, half = {0};
	names_in(TD_CT_RUN, &old);
	for (size_t i = 0; i < old.n; i++)
		td_ct_store_release(old.v[i], NULL);
	names_in(TD_CT_STAGING, &half);
	for (size_t i = 0; i < half.n; i++) {
		td_auto_free char *path = td_asprintf(TD_CT_STAGING "/%s", half.v[i]);
		td_rm_rf(path, NULL);
	}
	return 0;
}

int td_ct_store_lock(const char *name, int *ret_fd, struct td_error *err)
{
	td_auto_free char *path = td_asprintf(TD_CT_LOCKS "/%s", name);
	for (;;) {
		td_auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		struct stat a, b;
		if (fd < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
		while (flock(fd, LOCK_EX) < 0)
			if (errno != EINTR)
				return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", path);
		// Whoever had it may have removed the file: then another one counts.
		if (fstat(fd, &a) || stat(path, &b) || a.st_ino != b.st_ino)
			continue;
		*ret_fd = td_steal_fd(&fd);
		return 0;
	}
}

bool td_ct_store_has(const char *key)
{
	td_auto_free char *path = td_asprintf(TD_CT_TREES "/%s/rootfs", key);
	return td_path_exists(path);
}

int td_ct_store_take(const char *key, const char *id, struct td_error *err)
{
	td_auto_close int lock = -1;
	int r = td_ct_store_lock("trees", &lock, err);
	if (r)
		return r;
	if (!td_ct_store_has(key))
		return td_fail(err, TD_NOT_FOUND, "tree %s is not in the cache", key);
	td_auto_free char *tree = td_asprintf(TD_CT_TREES "/%s", key),
			  *dir = td_asprintf(TD_CT_RUN "/%s", id ? id : ""), *link = td_asprintf("%s/tree", dir);
	utimensat(AT_FDCWD, tree, NULL, 0);
	if (!id)
		return 0;
	if (mkdir(dir, 0711) && errno != EEXIST)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", dir);
	if (symlink(tree, link) && errno != EEXIST)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", link);
	return 0;
}

int td_ct_store_put(const char *made, const char *key, struct td_error *err)
{
	td_auto_free char *tree = td_asprintf(TD_CT_TREES "/%s", key);
	td_auto_close int fd = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fchown(fd, 0, 0) || fchmod(fd, 0700) || syncfs(fd) || rename(made, tree))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", tree);
	return 0;
}

// "ready" has a file for each such image, which holds the key.
static char *ready_file(const char *image)
{
	char *s = td_asprintf(TD_CT_READY "/%s", image);
	for (char *p = s + sizeof(TD_CT_READY); *p; p++)
		if (*p == '/')
			*p = '%';
	return s;
}

char *td_ct_store_ready(const char *image)
{
	td_auto_free char *file = ready_file(image);
	td_auto_buf struct td_buf b = {0};
	return td_file_read(file, 256, &b, NULL) ? NULL : td_buf_take(&b);
}

int td_ct_store_set_ready(const char *image, const char *key, struct td_error *err)
{
	td_auto_free char *file = ready_file(image), *now = td_ct_store_ready(image);
	return td_streq(now, key) ? 0 : td_file_write(file, key, strlen(key), 0600, err);
}

// ---- eviction ----
static long long bytes_seen;

static int count(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path, (void)type, (void)ftw;
	if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
		bytes_seen += (long long)st->st_blocks * 512;
	return 0;
}

// A tree never changes, so it is counted once.
static long long size_of(const char *key)
{
	td_auto_free char *path = td_asprintf(TD_CT_TREES "/%s", key), *file = td_asprintf("%s/size", path);
	td_auto_buf struct td_buf b = {0};
	long long n;
	if (!td_file_read(file, 32, &b, NULL) && td_parse_i64(td_buf_str(&b), &n))
		return n;
	struct stat st;
	bool there = !stat(path, &st);
	bytes_seen = 0;
	nftw(path, count, 32, FTW_PHYS | FTW_MOUNT);
	td_auto_free char *text = td_asprintf("%lld", bytes_seen);
	long long all = bytes_seen;
	if (there && !td_file_write(file, text, strlen(text), 0600, NULL))
		utimensat(AT_FDCWD, path, (struct timespec[]){st.st_atim, st.st_mtim}, 0); // it was not used
	return all;
}

static void used(struct td_strv *ret)
{
	td_auto_strv struct td_strv ids = {0};
	td_ct_store_containers(&ids);
	for (size_t i = 0; i < ids.n; i++) {
		char to[PATH_MAX];
		td_auto_free char *link = td_asprintf(TD_CT_RUN "/%s/tree", ids.v[i]);
		ssize_t n = readlink(link, to, sizeof(to) - 1);
		if (n <= 0)
			continue;
		to[n] = '\0';
		td_strv_add(ret, strrchr(to, '/') ? strrchr(to, '/') + 1 : to);
	}
}

struct cached {
	char *key;
	long long bytes;
	struct timespec at;
};

static int older(const void *a, const void *b)
{
	const struct timespec x = ((const struct cached *)a)->at, y = ((const struct cached *)b)->at;
	return x.tv_sec != y.tv_sec ? (x.tv_sec > y.tv_sec) - (x.tv_sec < y.tv_sec)
				    : (x.tv_nsec > y.tv_nsec) - (x.tv_nsec < y.tv_nsec);
}

static struct cached *trees(size_t *ret_n)
{
	td_auto_strv struct td_strv keys = {0};
	names_in(TD_CT_TREES, &keys);
	struct cached *v = td_calloc(keys.n + 1, sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < keys.n; i++) {
		td_auto_free char *path = td_asprintf(TD_CT_TREES "/%s", keys.v[i]);
		struct stat st;
		if (stat(path, &st))
			continue;
		v[n++] = (struct cached){td_strdup(keys.v[i]), size_of(keys.v[i]), st.st_mtim};
	}
	qsort(v, n, sizeof(*v), older);
	*ret_n = n;
	return v;
}

static void trees_done(struct cached *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].key);
	free(v);
}

static int evict(const struct cached *t, struct td_error *err)
{
	td_auto_free char *path = td_asprintf(TD_CT_TREES "/%s", t->key),
			  *gone = td_asprintf(TD_CT_STAGING "/gone.%s", t->key),
			  *lock = td_asprintf(TD_CT_LOCKS "/%s", t->key);
	// Renamed first: half a tree is never seen.
	if (rename(path, gone))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	td_info("image %s: removed, %lld MB", t->key, t->bytes >> 20);
	unlink(lock);
	return td_rm_rf(gone, err);
}

int td_ct_store_trim(long long limit, const struct td_strv *ready, struct td_error *err)
{
	if (limit <= 0)
		return 0;
	td_auto_close int lock = -1;
	int r = td_ct_store_lock("trees", &lock, err);
	if (r)
		return r;
	td_auto_strv struct td_strv busy = {0};
	used(&busy);
	for (size_t i = 0; i < ready->n; i++) {
		td_auto_free char *key = td_ct_store_ready(ready->v[i]);
		if (key)
			td_strv_add(&busy, key);
	}
	size_t n;
	struct cached *v = trees(&n);
	long long all = 0;
	for (size_t i = 0; i < n; i++)
		all += v[i].bytes;
	for (size_t i = 0; i < n && all > limit && !r; i++) {
		if (td_strv_has(&busy, v[i].key))
			continue;
		if (!(r = evict(&v[i], err)))
			all -= v[i].bytes;
	}
	trees_done(v, n);
	return r;
}

void td_ct_store_sweep(void)
{
	td_auto_strv struct td_strv names = {0};
	td_auto_close int trees_lock = -1;
	if (td_ct_store_lock("trees", &trees_lock, NULL))
		return;
	names_in(TD_CT_STAGING, &names);
	for (size_t i = 0; i < names.n; i++) {
		td_auto_free char *path = td_asprintf(TD_CT_STAGING "/%s", names.v[i]), *work = td_strdup(path);
		if (td_ends(work, ".tree"))
			work[strlen(work) - 5] = '\0';
		td_auto_close int fd = open(work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB))
			continue; // somebody works in it
		td_rm_rf(path, NULL);
	}
}

void td_ct_store_print(void)
{
	td_auto_strv struct td_strv busy = {0};
	used(&busy);
	size_t n;
	struct cached *v = trees(&n);
	printf("%8s  %-16s  %4s  %-20s  %s\n", "MB", "LAST USE", "JOBS", "KEY", "IMAGE");
	for (size_t i = n; i-- > 0;) {
		char at[32];
		struct tm tm;
		strftime(at, sizeof(at), "%Y-%m-%d %H:%M", gmtime_r(&v[i].at.tv_sec, &tm));
		size_t users = 0;
		for (size_t k = 0; k < busy.n; k++)
			users += !strcmp(busy.v[k], v[i].key);
		td_auto_free char *file = td_asprintf(TD_CT_TREES "/%s/name", v[i].key);
		td_auto_buf struct td_buf name = {0};
		td_file_read(file, 4096, &name, NULL);
		printf("%8lld  %-16s  %4zu  %-20.20s  %s\n", v[i].bytes >> 20, at, users, v[i].key, td_buf_str(&name));
	}
	trees_done(v, n);
}

// ---- containers ----
int td_ct_store_release(const char *id, struct td_error *err)
{
	td_auto_free char *dir = td_asprintf(TD_CT_RUN "/%s", id), *lock = td_asprintf(TD_CT_LOCKS "/run.%s", id);
	int r = td_ct_holder_end(dir, err);
	if (r)
		return r; // it may live: its files stay, and the next sweep looks again
	unlink(lock);
	return td_rm_rf(dir, err);
}
