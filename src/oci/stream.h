// Reads the bytes of a file, decompressed by libarchive when they are compressed (gzip, zstd, xz or
// bzip2), and computes the digest of what was read: the diff id of a layer. A decompressor may use
// a bounded amount of memory (xz: 1 GiB), however large its output is.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

struct td_oci_stream_progress { // shared by the streams of one import
	void (*f)(void *ctx, int percent, const char *what);
	void *ctx;
	const char *what;
	int64_t done, total; // bytes of files; done: of the earlier files
	int last;
};

struct td_oci_stream;
// fd is a regular file at any offset and stays the caller's. `what` names it in messages. progress
// may be NULL.
int td_oci_stream_open(int fd, const char *what, struct td_oci_stream_progress *progress, struct td_cancel *c,
		       struct td_oci_stream **ret, struct td_error *err);
struct td_oci_stream *td_oci_stream_close(struct td_oci_stream *s); // NULL ok
TD_DEFINE_AUTO(struct td_oci_stream *, td_oci_stream_close)
// *ret_n 0: the end; then compressed data was complete. The signature is that of td_tar_read_f.
int td_oci_stream_read(void *s, void *buf, size_t n, size_t *ret_n, struct td_error *err);
// The digest of all that was read so far. May be called once.
void td_oci_stream_digest(struct td_oci_stream *s, char ret[65]);

// The digest of the file as it is stored, without decompression.
int td_oci_file_digest(int fd, const char *what, struct td_cancel *c, char ret[65], struct td_error *err);
