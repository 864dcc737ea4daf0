#include "cli/shipseen.h"

#include "base/file.h"
#include "cli/client.h"
#include "http/pki.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uthash.h>

enum { KEPT_MOST = 256 << 20, HASH = 64, YOUNG_MS = 2000 };
static const char head[] = "tandem files 1\n";

struct seen_file {
	char *path;
	long long v[6]; // inode, size, seconds and nanoseconds of both times
	const char *hashes;
	size_t n;
	UT_hash_handle hh;
};
struct td_ship_seen {
	char *place; // NULL: nowhere
	struct td_buf text, out;
	struct seen_file *files;
	int64_t began_ms; // real time
};

static void numbers(const struct stat *st, long long ret[6])
{
	ret[0] = (long long)st->st_ino;
	ret[1] = (long long)st->st_size;
	ret[2] = (long long)st->st_mtim.tv_sec;
	ret[3] = (long long)st->st_mtim.tv_nsec;
	ret[4] = (long long)st->st_ctim.tv_sec;
	ret[5] = (long long)st->st_ctim.tv_nsec;
}

// Reads a number and the blank behind it.
static bool take(char **s, long long *ret)
{
	char *end;
	*ret = strtoll(*s, &end, 10);
	if (end == *s || *end != ' ')
		return false;
	*s = end + 1;
	return true;
}

// One file: six numbers, how many chunks, how long the path is, then path, end of line, hashes, end of line.
static bool parse_one(struct td_ship_seen *s, char **at, const char *end)
{
	struct seen_file f = {0}, *have;
	long long n, len;
	for (size_t i = 0; i < TD_LEN(f.v); i++)
		if (!take(at, &f.v[i]))
			return false;
	if (!take(at, &n) || !take(at, &len) || n < 0 || len <= 0 || len > PATH_MAX || end - *at < len + 2 ||
	    n > (end - *at - len - 2) / HASH)
		return false;
	char *path = *at, *hashes = path + len + 1;
	if (path[len] != '\n' || hashes[n * HASH] != '\n' || strnlen(path, (size_t)len) != (size_t)len)
		return false;
	path[len] = '\0';
	for (long long i = 0; i < n * HASH; i++)
		if (!strchr("0123456789abcdef", hashes[i]) || !hashes[i])
			return false;
	*at = hashes + n * HASH + 1;
	HASH_FIND_STR(s->files, path, have);
	if (have)
		return false;
	f.path = path;
	f.hashes = hashes;
	f.n = (size_t)n;
	have = td_calloc(1, sizeof(*have));
	*have = f;
	HASH_ADD_KEYPTR(hh, s->files, have->path, (unsigned)len, have);
	return true;
}

static void forget(struct td_ship_seen *s)
{
	struct seen_file *f, *next;
	HASH_ITER (hh, s->files, f, next) {
		HASH_DEL(s->files, f);
		free(f);
	}
}

struct td_ship_seen *td_ship_seen_new(const char *dir, const struct td_clock *clock)
{
	struct td_ship_seen *s = td_calloc(1, sizeof(*s));
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	td_auto_free char *real = realpath(dir, NULL);
	char hex[65];
	s->began_ms = td_real_ms(clock);
	if (!real || (!(cache && *cache == '/') && !(home && *home == '/')))
		return s;
	td_sha256_hex(real, strlen(real), hex);
	td_auto_free char *own = td_client_own_dir("XDG_CACHE_HOME", ".cache");
	s->place = td_asprintf("%s/files-%.20s", own, hex);
	size_t n = sizeof(head) - 1;
	if (td_file_read(s->place, KEPT_MOST, &s->text, NULL) || s->text.len < n || memcmp(s->text.s, head, n) != 0)
		return s;
	char *at = s->text.s + n;
	const char *end = s->text.s + s->text.len;
	while (at < end)
		if (!parse_one(s, &at, end)) {
			forget(s); // believe none of it
			break;
		}
	return s;
}

struct td_ship_seen *td_ship_seen_free(struct td_ship_seen *s)
{
	if (!s)
		return NULL;
	forget(s);
	td_buf_done(&s->text);
	td_buf_done(&s->out);
	free(s->place);
	free(s);
	return NULL;
}

const char *td_ship_seen_find(const struct td_ship_seen *s, const char *path, const struct stat *st, size_t *ret_n)
{
	long long v[6];
	struct seen_file *f;
	HASH_FIND_STR(s->files, path, f);
	numbers(st, v);
	if (!f || memcmp(f->v, v, sizeof(v)) != 0)
		return NULL;
	*ret_n = f->n;
	return f->hashes;
}

void td_ship_seen_add(struct td_ship_seen *s, const char *path, const struct stat *st, const char *hashes, size_t n)
{
	long long v[6], changed = (long long)st->st_mtim.tv_sec;
	numbers(st, v);
	if ((long long)st->st_ctim.tv_sec > changed)
		changed = (long long)st->st_ctim.tv_sec;
	if (!s->place || s->began_ms - changed * 1000 < YOUNG_MS)
		return;
	if (!s->out.len)
		td_buf_puts(&s->out, head);
	for (size_t i = 0; i < TD_LEN(v); i++)
		td_buf_printf(&s->out, "%lld ", v[i]);
	td_buf_printf(&s->out, "%zu %zu %s\n", n, strlen(path), path);
	td_buf_add(&s->out, hashes, n * HASH);
	td_buf_putc(&s->out, '\n');
}

void td_ship_seen_drop(struct td_ship_seen *s)
{
	if (s->place)
		unlink(s->place);
	free(s->place);
	s->place = NULL;
}

void td_ship_seen_keep(struct td_ship_seen *s)
{
	if (!s->place || !s->out.len || s->out.len > KEPT_MOST ||
	    (s->out.len == s->text.len && !memcmp(s->out.s, s->text.s, s->out.len)))
		return;
	td_auto_free char *dir = td_strndup(s->place, (size_t)(strrchr(s->place, '/') - s->place));
	if (!td_mkdir_p(dir, 0700, NULL))
		td_file_write(s->place, s->out.s, s->out.len, 0600, NULL);
}
