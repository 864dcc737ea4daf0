// Heads of requests and percent-escapes: pure functions over bytes from outside
// (fuzz/fuzz_http_head.c).
//
// The parser is strict on purpose. What two parsers could read differently (both lengths, folded
// lines, bare LF, bad escapes, dot segments) is refused with 400, because a relay and an authoriser
// stand behind this parser.
#pragma once

#include "base/mem.h"

#include <stdint.h>

#define TD_HEAD_MAX (64 * 1024)
#define TD_HEADERS_MAX 128

struct td_head {
	char *raw; // owns the bytes below
	const char *method, *target;
	char *path;        // decoded; owned
	const char *query; // raw; "" when there is none
	struct {
		const char *name, *value;
	} h[TD_HEADERS_MAX];
	int n;
	struct td_strv joined; // values of headers that came more than once
	int minor;             // HTTP/1.<minor>
	bool keep_alive, chunked, expect_continue, has_length;
	uint64_t length;
};
// Returns the length of the head at the start of p[0..n), including its empty line, or 0 when the
// head is not complete yet.
size_t td_head_find(const char *p, size_t n);
// Parses one whole head. Returns 0, or the HTTP status to answer (400, 417, 431, 501, 505) and a
// reason. On success the caller owns *ret.
int td_head_parse(const char *p, size_t n, struct td_head *ret, const char **ret_why);
void td_head_done(struct td_head *h);
// Returns the header's value, or NULL. The values of a repeated header are joined by ", ".
const char *td_head_get(const struct td_head *h, const char *name);
// Returns true when the comma-separated list `value` (NULL is fine) contains `token`, in any case.
bool td_head_has_token(const char *value, const char *token);
// Decodes p[0..n). With `plus`, '+' is a space. Returns NULL on a bad escape or a NUL. The caller
// frees the result.
char *td_url_decode(const char *p, size_t n, bool plus);

// ---- chunked bodies ----
// Reads a chunk-size line at p[0..n). Returns its length with the CRLF, 0 when more bytes are
// needed, and -1 when the line is malformed.
int td_chunk_line(const char *p, size_t n, uint64_t *ret_size);
