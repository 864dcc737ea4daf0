// See tar.h. The form: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU's additions: the tar manual, "Basic Tar
// Format".
#include "oci/tar.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, HEADERS_MAX = 16 };

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2], uname[32], gname[32],
		major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

struct td_tar {
	td_tar_read_f read;
	void *ctx;
	struct td_tar_entry e;
	uint64_t left; // of the entry's data, and of what fills its last block
	unsigned pad;
	// What extended headers said of the next entry.
	char *name, *link;
	bool has_size, has_uid, has_gid, has_mtime;
	uint64_t size;
	uint32_t uid, gid;
	int64_t mtime;
	bool ended;
};

static void entry_done(struct td_tar_entry *e)
{
	free(e->name);
	free(e->link);
	for (size_t i = 0; i < e->n_xattrs; i++) {
		free(e->xattrs[i].name);
		free(e->xattrs[i].value);
	}
	*e = (struct td_tar_entry){0};
}

static void extended_done(struct td_tar *t)
{
	free(td_steal(t->name));
	free(td_steal(t->link));
	t->has_size = t->has_uid = t->has_gid = t->has_mtime = false;
}

struct td_tar *td_tar_new(td_tar_read_f read, void *ctx)
{
	struct td_tar *t = td_calloc(1, sizeof(*t));
	t->read = read;
	t->ctx = ctx;
	return t;
}

struct td_tar *td_tar_free(struct td_tar *t)
{
	if (!t)
		return NULL;
	entry_done(&t->e);
	extended_done(t);
	free(t);
	return NULL;
}

// ---- bytes ----
// Exactly n bytes; with *ret_end (not NULL) an end before the first of them is fine.
static int take(struct td_tar *t, void *buf, size_t n, bool *ret_end, struct td_error *err)
{
	for (size_t have = 0; have < n;) {
		size_t got = 0;
		int r = t->read(t->ctx, (char *)buf + have, n - have, &got, err);
		if (r)
			return r;
		if (!got && !have && ret_end) {
			*ret_end = true;
			return 0;
		}
		if (!got)
			return td_fail(err, TD_INVALID, "the archive is cut short");
		have += got;
	}
	return 0;
}

static int skip(struct td_tar *t, uint64_t n, struct td_error *err)
{
	char buf[16384];
	int r = 0;
	for (; !r && n; n -= n < sizeof(buf) ? n : sizeof(buf))
		r = take(t, buf, n < sizeof(buf) ? n : sizeof(buf), NULL, err);
	return r;
}

static unsigned padding(uint64_t size)
{
	return (unsigned)((BLOCK - size % BLOCK) % BLOCK);
}

// Octal with blanks around it, or GNU's binary form. False: neither, or negative, or above max.
static bool number(const char *p, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;
	if ((unsigned char)p[0] == 0x80) {
		for (i = 1; i < n; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | (unsigned char)p[i];
		}
	} else {
		for (; i < n && p[i] == ' '; i++)
			;
		for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
			v = v << 3 | (uint64_t)(p[i] - '0'); // 12 digits at most
		for (; i < n; i++)
			if (p[i] && p[i] != ' ')
				return false;
	}
	if (v > max)
		return false;
	*ret = v;
	return true;
}

static bool sum_is_right(const struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	const size_t at = offsetof(struct header, sum);
	uint64_t want, is = 0;
	int64_t is_signed = 0; // as some old programs computed it
	for (size_t i = 0; i < BLOCK; i++) {
		unsigned char c = i >= at && i < at + sizeof(h->sum) ? ' ' : p[i];
		is += c;
		is_signed += (signed char)c;
	}
	return number(h->sum, sizeof(h->sum), UINT32_MAX, &want) && (want == is || (int64_t)want == is_signed);
}

static bool is_zero(const struct header *h)
{
	static const struct header zero;
	return !memcmp(h, &zero, BLOCK);
}

// ---- extended headers ----
// The data of an extended header as text. A NUL in it would end what others see of it: refused, but for those at the end.
static int text_data(struct td_tar *t, uint64_t size, size_t max, const char *what, char **ret, struct td_error *err)
{
	if (size > max)
		return td_fail(err, TD_INVALID, "%s of %llu bytes: at most %zu are read", what, (unsigned long long)size, max);
	td_auto_free char *s = td_calloc(1, size + 1);
	int r = take(t, s, size, NULL, err);
	if (!r)
		r = skip(t, padding(size), err);
	if (r)
		return r;
	*ret = td_steal(s);
	return 0;
}

static bool decimal(const char *s, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;
	for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	if (!i || (i < n && s[i] != '.') || v > max) // times have fractions
		return false;
	*ret = v;
	return true;
}

static int set_text(char **to, const char *v, size_t n, const char *key, struct td_error *err)
{
	if (n >= TD_TAR_NAME_MAX || memchr(v, 0, n))
		return td_fail(err, TD_INVALID, "pax header %s: longer than %d bytes, or with a NUL", key, TD_TAR_NAME_MAX - 1);
	free(*to);
	*to = td_strndup(v, n);
	return 0;
}

static int pax_record(struct td_tar *t, const char *key, const char *v, size_t n, struct td_error *err)
{
	uint64_t x;
	if (!strcmp(key, "path"))
		return set_text(&t->name, v, n, key, err);
	if (!strcmp(key, "linkpath"))
		return set_text(&t->link, v, n, key, err);
	if (!strcmp(key, "size")) {
		if (!decimal(v, n, INT64_MAX, &t->size))
			return td_fail(err, TD_INVALID, "pax header size: \"%.*s\" is no size", (int)(n < 32 ? n : 32), v);
		t->has_size = true;
	} else if (!strcmp(key, "uid") || !strcmp(key, "gid")) {
		if (!decimal(v, n, UINT32_MAX - 1, &x))
			return td_fail(err, TD_INVALID, "pax header %s: \"%.*s\" is no id", key, (int)(n < 32 ? n : 32), v);
		*(key[0] == 'u' ? &t->uid : &t->gid) = (uint32_t)x;
		*(key[0] == 'u' ? &t->has_uid : &t->has_gid) = true;
	} else if (!strcmp(key, "mtime")) {
		t->has_mtime = decimal(v, n, INT64_MAX, &x); // before 1970: the header's
		t->mtime = t->has_mtime ? (int64_t)x : 0;
	} else if (td_starts(key, "GNU.sparse.")) {
		return td_fail(err, TD_UNSUPPORTED, "a sparse file: make the archive without --sparse");
	} else if (td_starts(key, "SCHILY.xattr.")) {
		if (t->e.n_xattrs == TD_TAR_XATTRS_MAX)
			return td_fail(err, TD_INVALID, "more than %d extended attributes", TD_TAR_XATTRS_MAX);
		struct td_tar_xattr *a = &t->e.xattrs[t->e.n_xattrs++];
		*a = (struct td_tar_xattr){td_strdup(key + strlen("SCHILY.xattr.")), td_malloc(n + 1), n};
		memcpy(a->value, v, n);
	}
	return 0;
}

// Records "LENGTH KEY=VALUE\n", LENGTH counting all of it. Keys that mean nothing to us are left alone.
static int pax(struct td_tar *t, uint64_t size, bool global, struct td_error *err)
{
	td_auto_free char *s = NULL;
	int r = text_data(t, size, TD_TAR_PAX_MAX, "a pax header", &s, err);
	for (char *p = s, *end = r ? s : s + size; !r && p < end;) {
		char *space = memchr(p, ' ', (size_t)(end - p));
		uint64_t n;
		if (!space || !decimal(p, (size_t)(space - p), (uint64_t)(end - p), &n) || n < (uint64_t)(space - p) + 4 ||
		    p[n - 1] != '\n')
			return td_fail(err, TD_INVALID, "a pax header is damaged");
		char *eq = memchr(space + 1, '=', (size_t)(p + n - 1 - (space + 1)));
		if (!eq)
			return td_fail(err, TD_INVALID, "a pax header is damaged: a record without =");
		*eq = 0;
		if (!global) // of all that follow: comments in practice
			r = pax_record(t, space + 1, eq + 1, (size_t)(p + n - 1 - (eq + 1)), err);
		p += n;
	}
	return r;
}

static int gnu_long(struct td_tar *t, uint64_t size, char **to, struct td_error *err)
{
	td_auto_free char *s = NULL;
	int r = text_data(t, size, TD_TAR_NAME_MAX, "a long name", &s, err);
	if (r)
		return r;
	free(*to);
	*to = td_strdup(s);
	return 0;
}

// ---- entries ----
static char *header_name(const struct header *h)
{
	if (memcmp(h->magic, "ustar", 6) != 0 || !h->prefix[0]) // GNU's "ustar  " has other things there
		return td_strndup(h->name, sizeof(h->name));
	return td_asprintf("%.*s/%.*s", (int)sizeof(h->prefix), h->prefix, (int)sizeof(h->name), h->name);
}

static int kind(const struct header *h, const char *name, enum td_tar_type *ret, struct td_error *err)
{
	size_t n = strlen(name);
	switch (h->type) {
	case 0:
	case '0':
	case '7': // contiguous: a file
		*ret = n && name[n - 1] == '/' ? TD_TAR_DIR : TD_TAR_FILE;
		return 0;
	case '1':
		*ret = TD_TAR_HARDLINK;
		return 0;
	case '2':
		*ret = TD_TAR_SYMLINK;
		return 0;
	case '3':
	case '4':
		*ret = TD_TAR_DEVICE;
		return 0;
	case '5':
		*ret = TD_TAR_DIR;
		return 0;
	case '6':
		*ret = TD_TAR_FIFO;
		return 0;
	case 'S':
		return td_fail(err, TD_UNSUPPORTED, "entry \"%.200s\" is a sparse file: make the archive without --sparse", name);
	default:
		return td_fail(err, TD_INVALID, "entry \"%.200s\" is of a type that is not known here (%d)", name, h->type);
	}
}

static int fill(struct td_tar *t, const struct header *h, uint64_t size, struct td_error *err)
{
	struct td_tar_entry *e = &t->e;
	uint64_t mode, uid, gid, mtime;
	e->name = t->name ? td_steal(t->name) : header_name(h);
	if (!*e->name)
		return td_fail(err, TD_INVALID, "an entry without a name");
	int r = kind(h, e->name, &e->type, err);
	if (r)
		return r;
	if (!number(h->mode, sizeof(h->mode), UINT32_MAX, &mode) || !number(h->uid, sizeof(h->uid), UINT32_MAX - 1, &uid) ||
	    !number(h->gid, sizeof(h->gid), UINT32_MAX - 1, &gid))
		return td_fail(err, TD_INVALID, "entry \"%.200s\": its mode or its owner is no number", e->name);
	if (!number(h->mtime, sizeof(h->mtime), INT64_MAX, &mtime))
		mtime = 0; // before 1970
	e->mode = (mode_t)mode & 07777;
	e->uid = t->has_uid ? t->uid : (uint32_t)uid;
	e->gid = t->has_gid ? t->gid : (uint32_t)gid;
	e->mtime = t->has_mtime ? t->mtime : (int64_t)mtime;
	if (e->type == TD_TAR_SYMLINK || e->type == TD_TAR_HARDLINK) {
		e->link = t->link ? td_steal(t->link) : td_strndup(h->link, sizeof(h->link));
		if (!*e->link)
			return td_fail(err, TD_INVALID, "entry \"%.200s\": a link to nothing", e->name);
	}
	// Others have no data, whatever their header says: POSIX, "size".
	e->size = e->type == TD_TAR_FILE ? t->has_size ? t->size : size : 0;
	t->left = e->size;
	t->pad = padding(e->size);
	extended_done(t);
	return 0;
}

int td_tar_next(struct td_tar *t, const struct td_tar_entry **ret, struct td_error *err)
{
	int r = skip(t, t->left, err);
	if (!r)
		r = skip(t, t->pad, err);
	if (r)
		return td_wrap(err, "entry \"%.200s\"", t->e.name);
	t->left = t->pad = 0;
	entry_done(&t->e);
	*ret = NULL;
	for (int n = 0; n < HEADERS_MAX; n++) {
		struct header h;
		uint64_t size;
		bool end = t->ended;
		if (!end && (r = take(t, &h, BLOCK, &end, err)))
			return r;
		if (end || is_zero(&h)) { // one zero block is enough for everybody
			if (n)
				return td_fail(err, TD_INVALID, "the archive ends behind an extended header");
			t->ended = true;
			return 0;
		}
		if (!sum_is_right(&h))
			return td_fail(err, TD_INVALID, "a header's check sum is wrong: this is no tar, or it is damaged");
		if (!number(h.size, sizeof(h.size), INT64_MAX, &size))
			return td_fail(err, TD_INVALID, "entry \"%.100s\": its size is no number", h.name);
		if (h.type == 'x' || h.type == 'g')
			r = pax(t, size, h.type == 'g', err);
		else if (h.type == 'L' || h.type == 'K')
			r = gnu_long(t, size, h.type == 'L' ? &t->name : &t->link, err);
		else {
			r = fill(t, &h, size, err);
			if (!r)
				*ret = &t->e;
			return r;
		}
		if (r)
			return r;
	}
	return td_fail(err, TD_INVALID, "more than %d extended headers before an entry", HEADERS_MAX);
}

int td_tar_data(struct td_tar *t, void *buf, size_t n, size_t *ret_n, struct td_error *err)
{
	*ret_n = 0;
	if (!t->left || !n)
		return 0;
	int r = t->read(t->ctx, buf, n < t->left ? n : (size_t)t->left, ret_n, err);
	if (r)
		return r;
	if (!*ret_n)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": the archive is cut short", t->e.name);
	t->left -= *ret_n;
	return 0;
}

int td_tar_drain(struct td_tar *t, struct td_error *err)
{
	char buf[16384];
	size_t n = 1;
	int r = 0;
	while (!r && n)
		r = t->read(t->ctx, buf, sizeof(buf), &n, err);
	return r;
}
