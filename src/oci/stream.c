#include "oci/stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_oci_stream {
	int in; // the file; the caller's
	char *what;
	struct archive *unpack; // NULL: the file is not compressed
	struct td_cancel *cancel;
	struct td_oci_stream_progress *p;
	gnutls_hash_hd_t hash;
	char buf[65536]; // bytes of the compressed file
};

static const struct {
	const char *magic;
	size_t n;
	int (*support)(struct archive *);
} kinds[] = {
	{"\x1f\x8b", 2, archive_read_support_filter_gzip},
	{"\x28\xb5\x2f\xfd", 4, archive_read_support_filter_zstd},
	{"\xfd"
	 "7zXZ",
	 6, archive_read_support_filter_xz},
	{"BZh", 3, archive_read_support_filter_bzip2},
};

static ssize_t file_read(const struct td_oci_stream *s, void *buf, size_t n)
{
	ssize_t got;
	do
		got = read(s->in, buf, n);
	while (got < 0 && errno == EINTR);
	return got;
}

static la_ssize_t on_read(struct archive *a, void *ctx, const void **ret)
{
	struct td_oci_stream *s = ctx;
	ssize_t n = file_read(s, s->buf, sizeof(s->buf));
	if (n < 0)
		archive_set_error(a, errno, "read");
	*ret = s->buf;
	return n;
}

static int damaged(const struct td_oci_stream *s, struct td_error *err)
{
	const char *words = archive_error_string(s->unpack);
	return td_fail(err, TD_INVALID, "%s is damaged or cut short (%s)", s->what, words ? words : "no reason given");
}

// Undoes one compression. What comes out is the content, also when that looks compressed.
static int start(struct td_oci_stream *s, int (*support)(struct archive *), struct td_error *err)
{
	struct archive_entry *all = NULL;
	s->unpack = archive_read_new();
	if (!s->unpack || support(s->unpack) < ARCHIVE_WARN ||
	    archive_read_support_format_raw(s->unpack) != ARCHIVE_OK ||
	    archive_read_support_format_empty(s->unpack) != ARCHIVE_OK)
		return td_fail(err, TD_INTERNAL, "libarchive cannot unpack %s", s->what);

	if (archive_read_open(s->unpack, s, NULL, on_read, NULL) != ARCHIVE_OK)
		return damaged(s, err);
	int rc = archive_read_next_header(s->unpack, &all);
	return rc == ARCHIVE_OK || rc == ARCHIVE_EOF ? 0 : damaged(s, err);
}

int td_oci_stream_open(int fd, const char *what, struct td_oci_stream_progress *progress, struct td_cancel *c,
		       struct td_oci_stream **ret, struct td_error *err)
{
	td_auto(td_oci_stream_close) struct td_oci_stream *s = td_calloc(1, sizeof(*s));
	char head[6] = {0};

	s->in = fd;
	s->what = td_strdup(what);
	s->cancel = c;
	s->p = progress;

	if (pread(fd, head, sizeof(head), 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return td_fail_errno(err, TD_INVALID, errno, "%s", what);
	if (gnutls_hash_init(&s->hash, GNUTLS_DIG_SHA256) < 0)
		return td_fail(err, TD_INTERNAL, "no SHA-256");

	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (!memcmp(head, kinds[i].magic, kinds[i].n)) {
			int r = start(s, kinds[i].support, err);
			if (r)
				return r;
			break;
		}

	*ret = td_steal(s);
	return 0;
}

struct td_oci_stream *td_oci_stream_close(struct td_oci_stream *s)
{
	if (!s)
		return NULL;
	archive_read_free(s->unpack);
	if (s->hash)
		gnutls_hash_deinit(s->hash, NULL);
	free(s->what);
	free(s);
	return NULL;
}

static void tell(struct td_oci_stream *s)
{
	struct td_oci_stream_progress *p = s->p;
	off_t at = p && p->f ? lseek(s->in, 0, SEEK_CUR) : -1;
	int percent = at < 0 || !p->total ? 0 : (int)((p->done + at) * 100 / p->total);
	if (at < 0 || percent == p->last || percent > 100)
		return;

	p->last = percent;
	p->f(p->ctx, percent, p->what);
}

int td_oci_stream_read(void *stream, void *buf, size_t n, size_t *ret_n, struct td_error *err)
{
	struct td_oci_stream *s = stream;
	if (td_cancelled(s->cancel))
		return td_fail(err, TD_CANCELLED, "cancelled");

	ssize_t got = s->unpack ? archive_read_data(s->unpack, buf, n) : file_read(s, buf, n);
	if (got < 0)
		return s->unpack ? damaged(s, err) : td_fail_errno(err, TD_TRANSIENT, errno, "read %s", s->what);

	gnutls_hash(s->hash, buf, (size_t)got);
	tell(s);
	*ret_n = (size_t)got;
	return 0;
}

static void hex(const unsigned char d[32], char ret[65])
{
	for (size_t i = 0; i < 32; i++)
		snprintf(ret + 2 * i, 3, "%02x", d[i]);
}

void td_oci_stream_digest(struct td_oci_stream *s, char ret[65])
{
	unsigned char d[32];
	gnutls_hash_deinit(s->hash, d);
	s->hash = NULL;
	hex(d, ret);
}

int td_oci_file_digest(int fd, const char *what, struct td_cancel *c, char ret[65], struct td_error *err)
{
	gnutls_hash_hd_t h;
	unsigned char d[32];
	if (gnutls_hash_init(&h, GNUTLS_DIG_SHA256) < 0)
		return td_fail(err, TD_INTERNAL, "no SHA-256");

	td_auto_free char *buf = td_malloc(1 << 20);
	ssize_t n = 0;
	off_t at = 0;
	while (!td_cancelled(c) && (n = pread(fd, buf, 1 << 20, at)) > 0) {
		gnutls_hash(h, buf, (size_t)n);
		at += n;
	}

	gnutls_hash_deinit(h, d);
	if (n < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "read %s", what);
	if (td_cancelled(c))
		return td_fail(err, TD_CANCELLED, "cancelled");
	hex(d, ret);
	return 0;
}
