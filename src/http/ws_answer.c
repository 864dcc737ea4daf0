#include "http/ws_frame.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The value of a header in the head p[0..n), trimmed; NULL: it is not there.
static const char *value(const char *p, size_t n, const char *name, size_t *ret_len)
{
	size_t len = strlen(name);
	for (const char *end = p + n, *line = p; line < end;) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));
		eol = eol ? eol : end;
		if ((size_t)(eol - line) > len && line[len] == ':' && !strncasecmp(line, name, len)) {
			const char *v = line + len + 1;
			while (v < eol && (*v == ' ' || *v == '\t'))
				v++;
			*ret_len = (size_t)(eol - v);
			while (*ret_len && strchr(" \t\r", v[*ret_len - 1]))
				--*ret_len;
			return v;
		}
		line = eol + 1;
	}
	return NULL;
}

static bool is(const char *p, size_t n, const char *name, const char *wanted)
{
	size_t len;
	const char *v = value(p, n, name, &len);
	return v && len == strlen(wanted) && !memcmp(v, wanted, len);
}

long td_ws_answer_read(const char *p, size_t n, const char *accept, const char *protocol, struct td_ws_answer *ret)
{
	static const char begin[] = "HTTP/1.1 ";
	size_t head = 0, len;
	for (size_t i = 3; i < n && !head; i++)
		if (!memcmp(p + i - 3, "\r\n\r\n", 4))
			head = i + 1;
	if (memcmp(p, begin, n < sizeof(begin) - 1 ? n : sizeof(begin) - 1) != 0)
		return -1;
	if (!head)
		return 0;
	if (head < sizeof(begin) + 3 || memchr(p, '\0', head))
		return -1;
	struct td_ws_answer a = {.length = -1};
	for (size_t i = sizeof(begin) - 1; i < sizeof(begin) + 2; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -1;
		a.status = a.status * 10 + (p[i] - '0');
	}
	if (a.status < 100)
		return -1;
	const char *v = value(p, head, "Content-Length", &len);
	if (v && (!len || len > 15))
		return -1;
	for (size_t i = 0; v && i < len; i++) {
		if (v[i] < '0' || v[i] > '9')
			return -1;
		a.length = (a.length < 0 ? 0 : a.length) * 10 + (v[i] - '0');
	}
	if (a.status == 101 &&
	    (!is(p, head, "Sec-WebSocket-Accept", accept) || !is(p, head, "Sec-WebSocket-Protocol", protocol)))
		return -1;
	*ret = a;
	return (long)head;
}
