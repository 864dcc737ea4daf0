// Reads an untrusted tar, entry by entry, with libarchive: ustar, and the long names and numbers of
// GNU and pax. Sparse files are refused; counts and lengths are bounded (libarchive itself reads no
// extended header above 1 MiB). No file is touched here: unpack.h decides what an entry may become.
// The program's locale must be "C", so that names keep the bytes of the archive.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum td_tar_type { TD_TAR_FILE, TD_TAR_DIR, TD_TAR_SYMLINK, TD_TAR_HARDLINK, TD_TAR_FIFO, TD_TAR_DEVICE };

enum { TD_TAR_NAME_MAX = 4096, TD_TAR_XATTRS_MAX = 16 };

struct td_tar_xattr {
	char *name;
	void *value;
	size_t len;
};

struct td_tar_entry {
	enum td_tar_type type;
	// As the archive has them. link is the target of a symbolic or hard link, else NULL.
	char *name, *link;
	mode_t mode; // the lower 12 bits
	uint32_t uid, gid;
	int64_t mtime;
	uint64_t size; // bytes that td_tar_data() gives; of files only
	struct td_tar_xattr xattrs[TD_TAR_XATTRS_MAX];
	size_t n_xattrs;
};

// Reads what there is into buf, at least one byte; *ret_n 0: the end.
typedef int (*td_tar_read_f)(void *ctx, void *buf, size_t n, size_t *ret_n, struct td_error *err);

struct td_tar;
struct td_tar *td_tar_new(td_tar_read_f read, void *ctx);
struct td_tar *td_tar_free(struct td_tar *t); // NULL ok
TD_DEFINE_AUTO(struct td_tar *, td_tar_free)
// Reads the next entry and skips what is left of the last one's data. *ret is valid until the next
// call; NULL: the end of the archive. TD_INVALID: the archive is damaged or cut short, or the entry
// is of an unknown type; TD_UNSUPPORTED: a sparse file. The message names the entry.
int td_tar_next(struct td_tar *t, const struct td_tar_entry **ret, struct td_error *err);
// Reads bytes of the entry's data; *ret_n 0: no more.
int td_tar_data(struct td_tar *t, void *buf, size_t n, size_t *ret_n, struct td_error *err);
// Reads the rest of the stream, whatever it holds, for a caller that needs the stream's digest.
int td_tar_drain(struct td_tar *t, struct td_error *err);
