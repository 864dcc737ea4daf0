// Fuzzes request heads, chunk lines and escapes. An accepted head has a clean path and one framing,
// and reads the same when it is written again.
// rows: F1.2
#include "http/head.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_path(const char *p)
{
	check(*p == '/');
	for (const char *s = p; s; s = strchr(s + 1, '/'))
		check(strncmp(s, "/../", 4) != 0 && strcmp(s, "/..") != 0 && strncmp(s, "/./", 3) != 0 &&
		      strcmp(s, "/.") != 0);
}

static void check_chunk(const char *p, size_t n)
{
	uint64_t size = 0;
	int k = td_chunk_line(p, n, &size);
	check(k >= -1 && (k <= 0 || (size_t)k <= n));
	check(k <= 0 || (p[k - 1] == '\n' && p[k - 2] == '\r' && size < 1ull << 48));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *why = NULL;
	check_chunk(p, size);
	td_auto_free char *text = td_url_decode(p, size, true);
	check(!text || strlen(text) <= size);

	size_t n = td_head_find(p, size < TD_HEAD_MAX ? size : TD_HEAD_MAX);
	check(n <= size);
	struct td_head h = {0}, again = {0};
	if (!n)
		return 0;

	int rc = td_head_parse(p, n, &h, &why);
	check(rc == 0 || (rc >= 400 && rc < 600 && why));
	if (rc)
		return 0;

	check_path(h.path);
	check(!(h.chunked && h.has_length) && h.n <= TD_HEADERS_MAX);

	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%s %s HTTP/1.%d\r\n", h.method, h.target, h.minor);
	for (int i = 0; i < h.n; i++)
		td_buf_printf(&b, "%s: %s\r\n", h.h[i].name, h.h[i].value);
	td_buf_puts(&b, "\r\n");

	if (b.len <= TD_HEAD_MAX) { // joining headers may make it longer
		check(td_head_parse(b.s, b.len, &again, &why) == 0);
		check(strcmp(h.path, again.path) == 0 && h.n == again.n && h.length == again.length &&
		      h.chunked == again.chunked && h.keep_alive == again.keep_alive);
		td_head_done(&again);
	}
	td_head_done(&h);
	return 0;
}
