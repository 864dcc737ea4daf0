#include "cli/ship.h"

#include "base/file.h"
#include "cli/ignore.h"
#include "http/pki.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, PACK = 4 << 20, ASK = 20000, FILES_MOST = 100000, DEPTH_MOST = 64, TRIES = 5 };

void td_ship_done(struct td_ship *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->files[i].path);
	free(s->files);
	free(s->chunks);
	free(s->dir);
	td_ship_seen_free(s->seen);
	td_strv_done(&s->skipped);
	*s = (struct td_ship){0};
}

// Reads up to `want` bytes at `at`.
static ssize_t read_at(int fd, char *p, size_t want, long long at)
{
	size_t got = 0;
	while (got < want) {
		ssize_t n = pread(fd, p + got, want - got, (off_t)(at + (long long)got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : (ssize_t)got;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int one_more(struct td_ship *s, const char *path, const struct stat *st, struct td_error *err)
{
	if (s->n == FILES_MOST)
		return td_fail(err, TD_INVALID,
			       "more than %d files: name what is not needed in .tandemignore, one pattern a line",
			       FILES_MOST);
	if (s->n == s->cap)
		s->files = td_realloc(s->files, (s->cap = s->cap ? 2 * s->cap : 256) * sizeof(*s->files));
	s->files[s->n++] =
		(struct td_ship_file){.path = td_strdup(path), .exec = (st->st_mode & 0100) != 0, .first = s->n_chunks};
	return 0;
}

// The next chunk of the last file.
static struct td_ship_chunk *one_chunk(struct td_ship *s, long long at, size_t size)
{
	if (s->n_chunks == s->cap_chunks)
		s->chunks = td_realloc(s->chunks,
				       (s->cap_chunks = s->cap_chunks ? 2 * s->cap_chunks : 256) * sizeof(*s->chunks));
	struct td_ship_chunk *c = &s->chunks[s->n_chunks++];
	*c = (struct td_ship_chunk){.file = s->n - 1, .at = at, .size = (unsigned)size};
	s->files[s->n - 1].n++;
	s->bytes += (long long)size;
	return c;
}

// Adds a file that an earlier command read, and that is as it was. False: it must be read.
static bool known(struct td_ship *s, const char *path, const struct stat *st)
{
	size_t n, want = (size_t)((st->st_size + CHUNK - 1) / CHUNK);
	const char *hashes = s->seen ? td_ship_seen_find(s->seen, path, st, &n) : NULL;
	if (!hashes || n != want || one_more(s, path, st, NULL))
		return false;
	td_ship_seen_add(s->seen, path, st, hashes, n);
	for (size_t i = 0; i < n; i++) {
		long long at = (long long)i * CHUNK, left = (long long)st->st_size - at;
		struct td_ship_chunk *c = one_chunk(s, at, left < CHUNK ? (size_t)left : CHUNK);
		memcpy(c->hash, hashes + i * (sizeof(c->hash) - 1), sizeof(c->hash) - 1);
	}
	return true;
}

// What was read of it counts for the next command only if nobody changed it meanwhile.
static void remember(struct td_ship *s, int fd, const struct stat *before)
{
	const struct td_ship_file *f = &s->files[s->n - 1];
	struct stat now;
	td_auto_buf struct td_buf b = {0};
	if (!s->seen || fstat(fd, &now) < 0 || now.st_size != before->st_size ||
	    memcmp(&now.st_mtim, &before->st_mtim, sizeof(now.st_mtim)) != 0 ||
	    memcmp(&now.st_ctim, &before->st_ctim, sizeof(now.st_ctim)) != 0)
		return;
	for (size_t i = 0; i < f->n; i++)
		td_buf_puts(&b, s->chunks[f->first + i].hash);
	td_ship_seen_add(s->seen, f->path, &now, td_buf_str(&b), f->n);
}

int td_ship_add(struct td_ship *s, const char *path, struct td_error *err)
{
	td_auto_free char *full = td_asprintf("%s/%s", s->dir, path), *buf = td_malloc(CHUNK);
	struct stat st;
	td_auto_close int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return td_fail_errno(err, TD_INVALID, errno, "read %s", path);
	if (!S_ISREG(st.st_mode))
		return td_fail(err, TD_INVALID, "%s is no plain file", path);
	int r = one_more(s, path, &st, err);
	if (r)
		return r;
	s->read++;
	for (long long at = 0;;) {
		ssize_t n = read_at(fd, buf, CHUNK, at);
		if (n < 0)
			return td_fail_errno(err, TD_INVALID, errno, "read %s", path);
		if (!n) {
			remember(s, fd, &st);
			return 0;
		}
		td_sha256_hex(buf, (size_t)n, one_chunk(s, at, (size_t)n)->hash);
		at += n;
		if (s->progress)
			s->progress(s->ctx, "reading", s->bytes, 0);
	}
}

// ---- walking ----

static void rules(const struct td_ship *s, struct td_ignore *ig, const char *dir)
{
	static const char *const names[] = {".gitignore", ".tandemignore"};
	for (size_t i = 0; i < TD_LEN(names); i++) {
		td_auto_free char *path = td_asprintf("%s/%s%s%s", s->dir, dir, *dir ? "/" : "", names[i]);
		td_auto_buf struct td_buf b = {0};
		if (!td_file_read(path, 1 << 20, &b, NULL))
			td_ignore_add(ig, dir, td_buf_str(&b));
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino && a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static int walk(struct td_ship *s, struct td_ignore *ig, const char *dir, int depth, struct td_error *err)
{
	td_auto_free char *full = td_asprintf("%s%s%s", s->dir, *dir ? "/" : "", dir);
	td_auto_strv struct td_strv names = {0};
	if (depth > DEPTH_MOST)
		return td_fail(err, TD_INVALID, "%s: directories lie more than %d deep", dir, DEPTH_MOST);
	DIR *d = opendir(full);
	if (!d)
		return td_fail_errno(err, TD_INVALID, errno, "read %s", full);
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			td_strv_add(&names, e->d_name);
	closedir(d);
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_name);
	rules(s, ig, dir);

	for (size_t i = 0; i < names.n; i++) {
		td_auto_free char *path = td_asprintf("%s%s%s", dir, *dir ? "/" : "", names.v[i]),
				  *there = td_asprintf("%s/%s", s->dir, path);
		struct stat st = {0}; // of what has gone since: no plain file
		if (!strcmp(names.v[i], ".git") || !strcmp(names.v[i], ".tandem"))
			continue;
		// A link to a file is shipped as the file. One to a directory could lead in a circle, or
		// ship half of the disk.
		bool link = !lstat(there, &st) && S_ISLNK(st.st_mode);
		if (link && stat(there, &st) < 0) {
			td_strv_addf(&s->skipped, "%s: a link that leads nowhere", path);
			continue;
		}
		bool is_dir = S_ISDIR(st.st_mode);
		if (td_ignored(ig, path, is_dir) || same(&s->own[0], &st) || same(&s->own[1], &st))
			continue;
		if ((link && is_dir) || (!is_dir && !S_ISREG(st.st_mode))) {
			td_strv_addf(&s->skipped, "%s: %s", path, is_dir ? "a link to a directory" : "no plain file");
			continue;
		}
		if (!is_dir && known(s, path, &st))
			continue;
		int r = is_dir ? walk(s, ig, path, depth + 1, err) : td_ship_add(s, path, err);
		if (r)
			return r;
	}
	return 0;
}

int td_ship_walk(struct td_ship *s, struct td_error *err)
{
	td_auto(td_ignore_free) struct td_ignore *ig = td_ignore_new();
	td_ship_seen_free(s->seen);
	static const char *const own[][2] = {{"XDG_CONFIG_HOME", ".config"}, {"XDG_CACHE_HOME", ".cache"}};
	for (size_t i = 0; i < TD_LEN(own); i++) {
		td_auto_free char *dir = td_client_own_dir(own[i][0], own[i][1]);
		if (stat(dir, &s->own[i]) < 0)
			s->own[i] = (struct stat){0};
	}
	s->seen = td_ship_seen_new(s->dir, s->clock ? s->clock : &td_clock_system);
	int r = walk(s, ig, "", 0, err);
	if (!r)
		td_ship_seen_keep(s->seen);
	return r;
}

// ---- sending ----

static int by_hash(const void *a, const void *b)
{
	const struct td_ship_chunk *x = *(const struct td_ship_chunk *const *)a,
				   *y = *(const struct td_ship_chunk *const *)b;
	return strcmp(x->hash, y->hash);
}

// Which of v[0..n) the gateway lacks: moves them to the front, *ret of them. Both are sorted by hash.
static int ask(struct td_client *c, const struct td_ship_chunk **v, size_t n, size_t *ret, struct td_error *err)
{
	size_t lacks = 0;
	for (size_t at = 0; at < n; at += ASK) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *a = td_jm_arr(d, yyjson_mut_doc_get_root(d), "chunks");
		size_t end = at + ASK < n ? at + ASK : n, i, m;
		for (i = at; i < end; i++)
			yyjson_mut_arr_append(a, yyjson_mut_str(d, v[i]->hash));
		td_auto(td_json_unref) struct td_json *j = NULL;
		int r = td_client_call(c, "POST", "/api/v1/files/missing", d, &j, err);
		if (r)
			return r;
		yyjson_val *h;
		size_t from = at;
		yyjson_arr_foreach (td_jget(td_json_root(j), "missing"), i, m, h)
			while (from < end) {
				const struct td_ship_chunk *k = v[from++];
				if (td_streq(k->hash, yyjson_get_str(h))) {
					v[lacks++] = k;
					break;
				}
			}
	}
	*ret = lacks;
	return 0;
}

static int pack(const struct td_ship *s, const struct td_ship_chunk *k, struct td_buf *b, struct td_error *err)
{
	const char *path = s->files[k->file].path;
	td_auto_free char *full = td_asprintf("%s/%s", s->dir, path), *buf = td_malloc(CHUNK);
	td_auto_close int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char hash[65] = "";
	ssize_t n = fd < 0 ? -1 : read_at(fd, buf, k->size, k->at);
	if (n >= 0)
		td_sha256_hex(buf, (size_t)n, hash);
	if (n != (ssize_t)k->size || strcmp(hash, k->hash) != 0)
		return td_fail(err, TD_CONFLICT, "%s changed while it was read: submit again", path);
	td_buf_printf(b, "%s %u\n", k->hash, k->size);
	td_buf_add(b, buf, k->size);
	return 0;
}

// One pack; a connection that breaks, or a gateway that starts anew, is tried again for a while.
static int put(struct td_client *c, const struct td_buf *b, struct td_error *err)
{
	for (int tries = 0;; tries++) {
		int r = td_client_put(c, "/api/v1/files/chunks", b->s, b->len, err);
		if ((r != TD_TRANSIENT && r != TD_UNCERTAIN && r != TD_THROTTLED) || tries == TRIES)
			return r;
		td_cancel_wait(NULL, 250 << tries);
	}
}

int td_ship_send(struct td_ship *s, struct td_client *c, long long *ret_sent, struct td_error *err)
{
	td_auto_free const struct td_ship_chunk **v = td_calloc(s->n_chunks + 1, sizeof(*v));
	size_t n = 0, lacks;
	long long all = 0, sent = 0;
	for (size_t i = 0; i < s->n_chunks; i++)
		v[i] = &s->chunks[i];
	if (s->n_chunks)
		qsort(v, s->n_chunks, sizeof(*v), by_hash);
	for (size_t i = 0; i < s->n_chunks; i++) // each once
		if (!n || strcmp(v[n - 1]->hash, v[i]->hash) != 0)
			v[n++] = v[i];

	int r = n ? ask(c, v, n, &lacks, err) : (int)(lacks = 0);
	if (r)
		return r;
	for (size_t i = 0; i < lacks; i++)
		all += v[i]->size;
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < lacks; i++) {
		if ((r = pack(s, v[i], &b, err))) {
			// It changed, or what was remembered of it is wrong: then it would be so for ever.
			if (s->seen)
				td_ship_seen_drop(s->seen);
			return r;
		}
		if (b.len < PACK && i + 1 < lacks)
			continue;
		if ((r = put(c, &b, err)))
			return r;
		td_buf_reset(&b);
		sent = 0;
		for (size_t k = 0; k <= i; k++)
			sent += v[k]->size;
		if (s->progress)
			s->progress(s->ctx, "sending", sent, all);
	}
	*ret_sent = all;
	return 0;
}

void td_ship_list(const struct td_ship *s, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	yyjson_mut_val *list = td_jm_arr(d, o, "files");
	for (size_t i = 0; i < s->n; i++) {
		yyjson_mut_val *f = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, f, "path", s->files[i].path);
		if (s->files[i].exec)
			td_jm_bool(d, f, "exec", true);
		yyjson_mut_val *c = td_jm_arr(d, f, "chunks");
		for (size_t k = 0; k < s->files[i].n; k++)
			yyjson_mut_arr_append(c, yyjson_mut_strcpy(d, s->chunks[s->files[i].first + k].hash));
	}
}
