// The bytes of a file, unpacked by libarchive when they are compressed (by gzip, zstd, xz or bzip2), with the digest of
// what was read: a layer's diff id. Memory is bounded by what a decompressor may use at most (xz: 1 GiB), whatever
// comes out of it.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

struct td_stream_progress { // shared by the streams of one import
	void (*f)(void *ctx, int percent, const char *what);
	void *ctx;
	const char *what;
	int64_t done, total; // bytes of files; done: of those before this one
	int last;
};

struct td_stream;
// fd: a regular file, at any offset; the caller's. what: for messages. progress may be NULL.
int td_stream_open(int fd, const char *what, struct td_stream_progress *progress, struct td_cancel *c,
		   struct td_stream **ret, struct td_error *err);
struct td_stream *td_stream_close(struct td_stream *s); // NULL ok
TD_DEFINE_AUTO(struct td_stream *, td_stream_close)
// *ret_n 0: the end, and what was compressed was whole. Fits td_tar_read_f.
int td_stream_read(void *s, void *buf, size_t n, size_t *ret_n, struct td_error *err);
void td_stream_digest(struct td_stream *s, char ret[65]); // of all that was read so far; once

// The digest of a file as it lies.
int td_file_digest(int fd, const char *what, struct td_cancel *c, char ret[65], struct td_error *err);
