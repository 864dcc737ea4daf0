// See tar.h. libarchive reads the format; this file decides what of it is accepted.
#include "oci/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct td_tar {
	struct archive *a;
	td_tar_read_f read;
	void *ctx;
	struct td_tar_entry e;
	struct td_error why; // why the last read failed
	bool opened, ended;
	char buf[65536];
};

static void entry_done(struct td_tar_entry *e)
{
	for (size_t i = 0; i < e->n_xattrs; i++) {
		free(e->xattrs[i].name);
		free(e->xattrs[i].value);
	}
	free(e->name);
	free(e->link);
	*e = (struct td_tar_entry){0};
}

struct td_tar *td_tar_new(td_tar_read_f read, void *ctx)
{
	struct td_tar *t = td_calloc(1, sizeof(*t));
	t->read = read;
	t->ctx = ctx;
	t->a = archive_read_new();
	if (!t->a || archive_read_support_format_tar(t->a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(t->a) != ARCHIVE_OK)
		abort(); // out of memory
	return t;
}

struct td_tar *td_tar_free(struct td_tar *t)
{
	if (!t)
		return NULL;
	archive_read_free(t->a);
	entry_done(&t->e);
	free(t);
	return NULL;
}

static la_ssize_t on_read(struct archive *a, void *ctx, const void **ret)
{
	struct td_tar *t = ctx;
	size_t n = 0;
	int r = t->read(t->ctx, t->buf, sizeof(t->buf), &n, &t->why);
	if (r) {
		archive_set_error(a, EIO, "%s", t->why.msg);
		return -1;
	}
	*ret = t->buf;
	return (la_ssize_t)n;
}

// Reports why the source failed, or else that the archive is damaged.
static int damaged(struct td_tar *t, struct td_error *err)
{
	if (t->why.code) {
		if (err)
			*err = t->why;
		return t->why.code;
	}
	const char *words = archive_error_string(t->a);
	if (!t->e.name)
		return td_fail(err, TD_INVALID, "this is no tar, or it is damaged or cut short (%s)",
			       words ? words : "no reason given");
	return td_fail(err, TD_INVALID,
		       "entry \"%.200s\", or what follows it: the archive is damaged or cut short (%s)", t->e.name,
		       words ? words : "no reason given");
}

static bool is_ascii(const char *s)
{
	for (; s && *s; s++)
		if (*s & 0x80)
			return false;
	return true;
}

// libarchive also warns when it cannot express a name in the characters of the locale. This
// program's locale is "C", so names keep the bytes of the archive and this warning means nothing.
// Any other warning means that a header is wrong.
static bool harmless(struct archive_entry *in)
{
	return !is_ascii(archive_entry_pathname(in)) || !is_ascii(archive_entry_hardlink(in)) ||
	       !is_ascii(archive_entry_symlink(in)) || !is_ascii(archive_entry_uname(in)) ||
	       !is_ascii(archive_entry_gname(in));
}

static int kind(struct archive_entry *in, struct td_tar_entry *e, struct td_error *err)
{
	const char *link = archive_entry_hardlink(in);
	if (link) {
		e->type = TD_TAR_HARDLINK;
	} else {
		switch (archive_entry_filetype(in)) {
		case AE_IFREG:
			e->type = TD_TAR_FILE;
			break;
		case AE_IFDIR:
			e->type = TD_TAR_DIR;
			break;
		case AE_IFLNK:
			e->type = TD_TAR_SYMLINK;
			link = archive_entry_symlink(in);
			break;
		case AE_IFIFO:
			e->type = TD_TAR_FIFO;
			break;
		case AE_IFCHR:
		case AE_IFBLK:
			e->type = TD_TAR_DEVICE;
			break;
		default:
			return td_fail(err, TD_INVALID, "entry \"%.200s\" is of a type that is not known here",
				       e->name);
		}
	}

	if (e->type != TD_TAR_HARDLINK && e->type != TD_TAR_SYMLINK)
		return 0;
	if (!link || !*link)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": a link to nothing", e->name);
	if (strlen(link) >= TD_TAR_NAME_MAX)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": its link is longer than %d bytes", e->name,
			       TD_TAR_NAME_MAX - 1);
	e->link = td_strdup(link);
	return 0;
}

static int fill(struct td_tar *t, struct archive_entry *in, struct td_error *err)
{
	struct td_tar_entry *e = &t->e;
	const char *name = archive_entry_pathname(in);
	if (!name || !*name)
		return td_fail(err, TD_INVALID, "an entry without a name");
	e->name = td_strdup(name);
	int r = kind(in, e, err);
	if (r)
		return r;

	int64_t uid = archive_entry_uid(in), gid = archive_entry_gid(in), size = archive_entry_size(in);
	if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": its owner is no id", e->name);
	if (size < 0)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": its size is no size", e->name);
	if (archive_entry_sparse_count(in))
		return td_fail(err, TD_UNSUPPORTED,
			       "entry \"%.200s\" is a sparse file: make the archive without --sparse", e->name);
	e->mode = archive_entry_perm(in) & 07777;
	e->uid = (uint32_t)uid;
	e->gid = (uint32_t)gid;
	e->mtime = archive_entry_mtime(in) < 0 ? 0 : archive_entry_mtime(in);
	e->size = e->type == TD_TAR_FILE ? (uint64_t)size : 0;

	if (archive_entry_xattr_count(in) > TD_TAR_XATTRS_MAX)
		return td_fail(err, TD_INVALID, "entry \"%.200s\": more than %d extended attributes", e->name,
			       TD_TAR_XATTRS_MAX);
	const void *value;
	size_t len;
	archive_entry_xattr_reset(in);
	while (archive_entry_xattr_next(in, &name, &value, &len) == ARCHIVE_OK) {
		struct td_tar_xattr *a = &e->xattrs[e->n_xattrs++];
		*a = (struct td_tar_xattr){td_strdup(name), td_malloc(len + 1), len};
		if (len)
			memcpy(a->value, value, len);
	}
	return 0;
}

int td_tar_next(struct td_tar *t, const struct td_tar_entry **ret, struct td_error *err)
{
	struct archive_entry *in = NULL;
	*ret = NULL;
	if (t->ended)
		return 0;
	if (!t->opened && archive_read_open(t->a, t, NULL, on_read, NULL) != ARCHIVE_OK)
		return damaged(t, err);

	t->opened = true;
	int rc = archive_read_next_header(t->a, &in);
	if (rc == ARCHIVE_EOF) {
		t->ended = true;
		return 0;
	}
	if (rc != ARCHIVE_OK && !(rc == ARCHIVE_WARN && harmless(in)))
		return damaged(t, err);

	entry_done(&t->e);
	int r = fill(t, in, err);
	if (!r)
		*ret = &t->e;
	return r;
}

int td_tar_data(struct td_tar *t, void *buf, size_t n, size_t *ret_n, struct td_error *err)
{
	*ret_n = 0;
	if (t->e.type != TD_TAR_FILE)
		return 0;
	la_ssize_t got = archive_read_data(t->a, buf, n);
	if (got < 0)
		return damaged(t, err);
	*ret_n = (size_t)got;
	return 0;
}

int td_tar_drain(struct td_tar *t, struct td_error *err)
{
	size_t n = 1;
	int r = 0;
	while (!r && n)
		r = t->read(t->ctx, t->buf, sizeof(t->buf), &n, err);
	return r;
}
