// Files of a home: chunks by their hash, files made of them, reading.
#include "gateway/home_io.h"

#include "base/clock.h"
#include "base/file.h"
#include "gateway/path.h"
#include "http/pki.h"
#include "json/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH = 64, INPUT_MOST = 64 << 20, LIST_MOST = 5000, LOOK_MS = 100, AGAIN_S = 86400 };

static bool is_hash(const char *s, size_t n)
{
	return n == HASH && strspn(s, "0123456789abcdef") >= HASH;
}

static void chunk_path(const char *hash, char ret[sizeof(TD_HOME_CHUNKS) + HASH + 8])
{
	snprintf(ret, sizeof(TD_HOME_CHUNKS) + HASH + 8, TD_HOME_CHUNKS "/%.2s/%.64s", hash, hash);
}

int td_home_missing(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	int r = td_home_input(INPUT_MOST, &in, err);
	if (r)
		return r;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&in), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		char path[sizeof(TD_HOME_CHUNKS) + HASH + 8];
		if (!is_hash(lines.v[i], strlen(lines.v[i])))
			return td_fail(err, TD_INVALID, "\"%.80s\" is no SHA-256 in hex", lines.v[i]);
		chunk_path(lines.v[i], path);
		td_auto_close int fd = td_home_at(path, O_RDONLY | O_NONBLOCK, 0, NULL);
		if (fd < 0)
			puts(lines.v[i]);
	}
	return fflush(stdout) ? td_fail_errno(err, TD_INTERNAL, errno, "answer") : 0;
}

int td_home_store(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	int r = td_home_input(INPUT_MOST, &in, err);
	if (r)
		return r;
	for (size_t at = 0; at < in.len;) {
		char head[HASH + 16] = "", hex[65], path[sizeof(TD_HOME_CHUNKS) + HASH + 8];
		const char *end = memchr(in.s + at, '\n', in.len - at);
		size_t n = end ? (size_t)(end - in.s) - at : 0;
		long long size = -1;
		if (n > HASH && n < sizeof(head))
			memcpy(head, in.s + at, n);
		if (n <= HASH || head[HASH] != ' ' || !td_parse_i64(head + HASH + 1, &size) || size < 0 ||
		    size > TD_HOME_CHUNK_MAX)
			return td_fail(err, TD_INVALID, "a chunk begins with \"SHA256 SIZE\", at most %d bytes",
				       TD_HOME_CHUNK_MAX);
		at += n + 1;
		if (in.len - at < (size_t)size)
			return td_fail(err, TD_INVALID, "a chunk is cut: %zu of %lld bytes came", in.len - at, size);
		head[HASH] = '\0';
		td_sha256_hex(in.s + at, (size_t)size, hex);
		if (strcmp(hex, head) != 0)
			return td_fail(err, TD_INVALID, "chunk %.12s… has other bytes than its hash says", head);

		char dir[sizeof(TD_HOME_CHUNKS) + 4];
		chunk_path(hex, path);
		snprintf(dir, sizeof(dir), TD_HOME_CHUNKS "/%.2s", hex);
		if ((r = td_home_mkdirs(dir, err)) || (r = td_home_put(path, in.s + at, (size_t)size, 0600, err)))
			return r;
		at += (size_t)size;
	}
	return 0;
}

int td_home_chunks(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	int r = td_home_input(INPUT_MOST, &in, err);
	if (r)
		return r;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&in), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		char path[sizeof(TD_HOME_CHUNKS) + HASH + 8];
		td_auto_buf struct td_buf b = {0}, out = {0};
		if (!is_hash(lines.v[i], strlen(lines.v[i])))
			return td_fail(err, TD_INVALID, "\"%.80s\" is no SHA-256 in hex", lines.v[i]);
		chunk_path(lines.v[i], path);
		if ((r = td_home_get(path, TD_HOME_CHUNK_MAX, &b, err)))
			return td_wrap(err, "chunk %.12s…", lines.v[i]);
		td_buf_printf(&out, "%s %zu\n", lines.v[i], b.len);
		td_buf_add(&out, td_buf_str(&b), b.len);
		if ((r = td_write_all(STDOUT_FILENO, out.s, out.len, err)))
			return r;
	}
	return 0;
}

// Appends the whole file, by the kernel or the file server itself where they can.
static int copy_all(int in, int out, size_t size, struct td_error *err)
{
	char buf[65536];
	bool kernel = true;
	for (size_t done = 0; done < size;) {
		ssize_t n = kernel ? copy_file_range(in, NULL, out, NULL, size - done, 0)
				   : read(in, buf, sizeof(buf) < size - done ? sizeof(buf) : size - done);
		int r = !kernel && n > 0 ? td_write_all(out, buf, (size_t)n, err) : 0;
		if (r)
			return r;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 && kernel)
			kernel = false; // these two file systems cannot
		else if (n <= 0)
			return td_fail_errno(err, TD_INTERNAL, n ? errno : EIO, "read");
		else
			done += (size_t)n;
	}
	return 0;
}

static int append(int out, const char *hash, struct td_error *err)
{
	char path[sizeof(TD_HOME_CHUNKS) + HASH + 8];
	if (!hash || !is_hash(hash, strlen(hash)))
		return td_fail(err, TD_INVALID, "\"%.80s\" is no SHA-256 in hex", hash ? hash : "");
	chunk_path(hash, path);
	struct td_error e = TD_ERROR_INIT;
	struct stat st;
	td_auto_close int in = td_home_at(path, O_RDONLY | O_NONBLOCK, 0, &e);
	if (in == TD_NOT_FOUND)
		return td_fail(err, TD_CONFLICT, "chunk %.12s… is not here: send it first", hash);
	if (in < 0)
		return td_fail(err, in, "%s", e.msg);
	if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > TD_HOME_CHUNK_MAX)
		return td_fail(err, TD_INVALID, "%s is no chunk", path);
	// It was used: it stays. Days count there, and each of a thousand files is a write less.
	if (st.st_mtim.tv_sec < td_real_ms(&td_clock_system) / 1000 - AGAIN_S)
		futimens(in, NULL);
	int r = copy_all(in, out, (size_t)st.st_size, err);
	return r ? td_wrap(err, "chunk %.12s…", hash) : 0;
}

int td_home_assemble(int dir, const char *path, const void *chunks, bool exec, struct td_error *err)
{
	td_auto_close int fd =
		openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, exec ? 0755 : 0644);
	if (fd < 0)
		return td_fail_errno(err, errno == EEXIST ? TD_EXISTS : TD_INTERNAL, errno, "write %s", path);
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)chunks, i, n, v) {
		int r = append(fd, yyjson_get_str(v), err);
		if (r)
			return td_wrap(err, "%s", path);
	}
	return 0;
}

// The file appears whole or not at all, and replaces one of its name.
int td_home_write(char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_home_input(INPUT_MOST, &in, err);
	if (r || (r = td_json_parse(td_buf_str(&in), in.len, &j, err)))
		return r;
	const char *path = td_jstr(td_json_root(j), "path");
	if ((r = td_gateway_path_check(path, err)))
		return r;

	td_auto_free char *parent = td_strdup(path);
	char *slash = strrchr(parent, '/');
	if (slash)
		*slash = '\0';
	if (slash && (r = td_home_mkdirs(parent, err)))
		return r;
	td_auto_close int dir = td_home_at(slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, err);
	if (dir < 0)
		return dir;
	const char *name = slash ? path + (slash - parent) + 1 : path;
	td_auto_free char *temp = td_asprintf(".tandem-%d.part", (int)getpid());
	unlinkat(dir, temp, 0);
	r = td_home_assemble(dir, temp, td_jget(td_json_root(j), "chunks"), td_jbool(td_json_root(j), "exec", false),
			     err);
	if (!r && renameat(dir, temp, dir, name) < 0)
		r = td_fail_errno(err, errno == EISDIR ? TD_INVALID : TD_INTERNAL, errno, "write %s", path);
	if (r)
		unlinkat(dir, temp, 0);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int td_home_list(char **argv, struct td_error *err)
{
	const char *path = *argv[0] ? argv[0] : ".";
	int r = *argv[0] ? td_gateway_path_check(path, err) : 0;
	if (r)
		return r;
	int fd = td_home_at(path, O_RDONLY | O_DIRECTORY, 0, err);
	if (fd < 0)
		return fd;
	DIR *d = fdopendir(fd);
	td_auto_strv struct td_strv names = {0};
	for (struct dirent *e; d && (e = readdir(d)) && names.n < LIST_MOST;)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    !td_gateway_path_check(e->d_name, NULL))
			td_strv_add(&names, e->d_name);
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_name);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *doc = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(doc, yyjson_mut_doc_get_root(doc), "files");
	for (size_t i = 0; i < names.n; i++) {
		struct stat st;
		if (fstatat(fd, names.v[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, list);
		td_jm_str(doc, o, "name", names.v[i]);
		td_jm_str(doc, o, "type",
			  S_ISREG(st.st_mode)   ? "file"
			  : S_ISDIR(st.st_mode) ? "directory"
			  : S_ISLNK(st.st_mode) ? "link"
						: "other");
		td_jm_int(doc, o, "size", st.st_size);
		td_jm_int(doc, o, "modified", st.st_mtim.tv_sec);
	}
	if (d)
		closedir(d);
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(doc), NULL);
	return td_write_all(STDOUT_FILENO, text, strlen(text), err);
}

static int open_file(const char *path, struct stat *ret_st, struct td_error *err)
{
	int r = td_gateway_path_check(path, err);
	if (r)
		return r;
	int fd = td_home_at(path, O_RDONLY | O_NONBLOCK, 0, err);
	if (fd >= 0 && (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode))) {
		close(fd);
		return td_fail(err, TD_INVALID, "%s is no plain file", path);
	}
	return fd;
}

int td_home_size(char **argv, struct td_error *err)
{
	struct stat st;
	td_auto_close int fd = open_file(argv[0], &st, err);
	if (fd < 0)
		return fd;
	printf("{\"size\":%lld,\"modified\":%lld}", (long long)st.st_size, (long long)st.st_mtim.tv_sec);
	return fflush(stdout) ? td_fail_errno(err, TD_INTERNAL, errno, "answer") : 0;
}

// Copies from `at` to the end of the file, or `most` bytes. *ret_at: where it stopped.
static int copy(int fd, long long *at, long long most, struct td_error *err)
{
	char buf[65536];
	while (most) {
		size_t want = most > 0 && most < (long long)sizeof(buf) ? (size_t)most : sizeof(buf);
		ssize_t n = pread(fd, buf, want, *at);
		if (n < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "read");
		if (!n)
			return 0;
		int r = td_write_all(STDOUT_FILENO, buf, (size_t)n, err);
		if (r)
			return r;
		*at += n;
		most -= most > 0 ? n : 0;
	}
	return 0;
}

int td_home_read(char **argv, struct td_error *err)
{
	struct stat st;
	long long at, most;
	if (!td_parse_i64(argv[1], &at) || !td_parse_i64(argv[2], &most) || at < 0)
		return td_fail(err, TD_INVALID, "a place in a file is a number, 0 or more");
	td_auto_close int fd = open_file(argv[0], &st, err);
	return fd < 0 ? fd : copy(fd, &at, most < 0 ? -1 : most, err);
}

// Shared file systems report no changes, so it looks. It ends when the input does, after what is
// there by then.
int td_home_follow(char **argv, struct td_error *err)
{
	long long at;
	if (!td_parse_i64(argv[1], &at) || at < 0)
		return td_fail(err, TD_INVALID, "a place in a file is a number, 0 or more");
	td_auto_close int fd = -1;
	for (bool last = false;;) {
		struct stat st;
		if (fd < 0) {
			struct td_error e = TD_ERROR_INIT;
			fd = open_file(argv[0], &st, &e);
			if (fd < 0 && fd != TD_NOT_FOUND)
				return td_fail(err, fd, "%s", e.msg);
		}
		int r = fd < 0 ? 0 : copy(fd, &at, -1, err);
		if (r || last)
			return r;
		struct pollfd f = {STDIN_FILENO, POLLIN, 0};
		last = poll(&f, 1, LOOK_MS) > 0;
	}
}

// The last 4 KiB of a file, without a line that is cut in front.
int td_home_tail(char **argv, struct td_error *err)
{
	enum { TAIL = 4096 };
	struct stat st;
	char buf[TAIL];
	td_auto_close int fd = open_file(argv[0], &st, err);
	if (fd < 0)
		return fd;
	off_t at = st.st_size > TAIL ? st.st_size - TAIL : 0;
	ssize_t n = pread(fd, buf, sizeof(buf), at);
	if (n < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "read");
	const char *cut = at ? memchr(buf, '\n', (size_t)n) : NULL;
	size_t skip = cut ? (size_t)(cut - buf) + 1 : 0;
	return td_write_all(STDOUT_FILENO, buf + skip, (size_t)n - skip, err);
}
