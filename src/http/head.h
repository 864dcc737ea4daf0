// Request heads and percent-escapes: pure functions over bytes from outside (fuzz/fuzz_http_head.c).
//
// Strict on purpose: what two parsers could read differently (both lengths, folded lines, bare LF, bad escapes, dot
// segments) is refused with 400, because a relay and an authoriser stand behind this one.
#pragma once

#include "base/mem.h"

#include <stdint.h>

#define TD_HEAD_MAX (64 * 1024)
#define TD_HEADERS_MAX 128

struct td_head {
	char *raw; // owns the bytes below
	const char *method, *target;
	char *path;        // decoded, owned
	const char *query; // raw, "" when there is none
	struct {
		const char *name, *value;
	} h[TD_HEADERS_MAX];
	int n;
	struct td_strv joined; // values of headers that came more than once
	int minor;             // HTTP/1.<minor>
	bool keep_alive, chunked, expect_continue, has_length;
	uint64_t length;
};
// Length of the head with its empty line at the start of p[0..n), 0 when it is not there yet.
size_t td_head_find(const char *p, size_t n);
// Parses one whole head. 0, or the HTTP status to answer (400, 417, 501, 505) and a reason. *ret is owned by the caller
// on success.
int td_head_parse(const char *p, size_t n, struct td_head *ret, const char **ret_why);
void td_head_done(struct td_head *h);
const char *td_head_get(const struct td_head *h, const char *name); // repeated headers: values joined by ", "
// True when the comma-separated list `value` (NULL ok) holds `token`, whatever its case.
bool td_head_has_token(const char *value, const char *token);
// Decodes p[0..n); plus: '+' is a space. NULL on a bad escape or a NUL. Caller frees.
char *td_url_decode(const char *p, size_t n, bool plus);

// ---- chunked bodies ----
// Reads a chunk-size line at p[0..n). Its length with CRLF, 0 when more is needed, -1 when it is malformed.
int td_chunk_line(const char *p, size_t n, uint64_t *ret_size);
