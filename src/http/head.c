#include "http/head.h"

#include <string.h>
#include <strings.h>

enum { CHUNK_LINE_MAX = 256 };

size_t td_head_find(const char *p, size_t n)
{
	const char *e = n >= 4 ? memmem(p, n, "\r\n\r\n", 4) : NULL;
	return e ? (size_t)(e - p) + 4 : 0;
}

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *td_url_decode(const char *p, size_t n, bool plus)
{
	char *out = td_malloc(n + 1), *o = out;
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '%') {
			*o++ = plus && p[i] == '+' ? ' ' : p[i];
		} else {
			int a = n - i > 2 ? hex(p[i + 1]) : -1, b = n - i > 2 ? hex(p[i + 2]) : -1;
			if (a < 0 || b < 0) {
				free(out);
				return NULL;
			}
			*o++ = (char)(a << 4 | b);
			i += 2;
		}

		if (!o[-1]) {
			free(out);
			return NULL;
		}
	}
	*o = 0;
	return out;
}

bool td_head_has_token(const char *v, const char *token)
{
	size_t n = strlen(token);
	while (v && *v) {
		v += strspn(v, ", \t");
		size_t len = strcspn(v, ","), t = len;
		while (t && (v[t - 1] == ' ' || v[t - 1] == '\t'))
			t--;
		if (t == n && strncasecmp(v, token, n) == 0)
			return true;
		v += len;
	}
	return false;
}

const char *td_head_get(const struct td_head *h, const char *name)
{
	for (int i = 0; i < h->n; i++)
		if (strcasecmp(h->h[i].name, name) == 0)
			return h->h[i].value;
	return NULL;
}

void td_head_done(struct td_head *h)
{
	free(h->raw);
	free(h->path);
	td_strv_done(&h->joined);
	memset(h, 0, sizeof(*h));
}

static bool dot_segment(const char *path)
{
	for (const char *s = path; *s;) {
		s += strspn(s, "/");
		size_t n = strcspn(s, "/");
		if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return true;
		s += n;
	}
	return false;
}

static int fail(const char **why, int status, const char *text)
{
	*why = text;
	return status;
}

// Adds a header. When the header came before, the new value goes behind the old one with a comma
// (RFC 9110 §5.3), unless that would be ambiguous.
static int add(struct td_head *h, const char *name, const char *value, const char **why)
{
	static const char *const once[] = {"Host",          "Content-Length", "Transfer-Encoding",
					   "Authorization", "Content-Type",   "Upgrade"};

	// Each Impersonate- header names one group or value, and a comma may be part of the name,
	// so these are never merged.
	bool apart = strncasecmp(name, "Impersonate-", 12) == 0;
	for (int i = 0; i < h->n && !apart; i++) {
		if (strcasecmp(h->h[i].name, name) != 0)
			continue;
		for (size_t k = 0; k < TD_LEN(once); k++)
			if (strcasecmp(name, once[k]) == 0)
				return fail(why, 400, "a header that may come once came twice");
		char *s = td_asprintf("%s, %s", h->h[i].value, value);
		td_strv_steal(&h->joined, s);
		h->h[i].value = s;
		return 0;
	}

	if (h->n == TD_HEADERS_MAX)
		return fail(why, 431, "too many headers");
	h->h[h->n].name = name;
	h->h[h->n++].value = value;
	return 0;
}

// Takes one line of the head: ends it with NUL, returns it, and moves *p behind its CRLF. Returns
// NULL for a control character, with the reason in *why.
static char *line(char **p, const char **why)
{
	char *l = *p, *e = strstr(l, "\r\n");
	if (!e) // impossible: the head ends with CRLF CRLF
		return NULL;

	*e = 0;
	*p = e + 2;
	for (char *c = l; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f) {
			*why = "control character in the head";
			return NULL;
		}
	return l;
}

static int request_line(struct td_head *h, char *l, const char **why)
{
	char *sp = strchr(l, ' ');
	if (!sp || sp == l || sp - l > 32)
		return fail(why, 400, "bad request line");
	for (char *c = l; c < sp; c++)
		if (!is_token((unsigned char)*c))
			return fail(why, 400, "bad method");

	*sp = 0;
	h->method = l;

	char *t = sp + 1, *sp2 = strchr(t, ' ');
	if (!sp2 || strlen(sp2 + 1) != 8 || strncmp(sp2 + 1, "HTTP/", 5) != 0 || sp2[7] != '.')
		return fail(why, 400, "bad request line");
	if (sp2[6] != '1' || (sp2[8] != '0' && sp2[8] != '1'))
		return fail(why, 505, "HTTP/1.1 only");

	h->minor = sp2[8] - '0';
	*sp2 = 0;
	// The absolute form (RFC 9112 §3.2.2).
	if (strncasecmp(t, "http://", 7) == 0 || strncasecmp(t, "https://", 8) == 0) {
		t = strchr(strstr(t, "//") + 2, '/');
		if (!t)
			return fail(why, 400, "bad target");
	}

	if (*t != '/' || strchr(t, '#'))
		return fail(why, 400, "bad target");
	for (char *c = t; *c; c++)
		if (*c == '\t' || (unsigned char)*c >= 0x80)
			return fail(why, 400, "bad character in the target");

	h->target = t;
	size_t n = strcspn(t, "?");
	h->path = td_url_decode(t, n, false);
	if (!h->path)
		return fail(why, 400, "bad escape in the path");
	if (dot_segment(h->path))
		return fail(why, 400, "dot segment in the path");

	h->query = t[n] ? t + n + 1 : "";
	td_auto_free char *q = td_url_decode(h->query, strlen(h->query), true);
	return q ? 0 : fail(why, 400, "bad escape in the query");
}

static int header_lines(struct td_head *h, char *p, const char **why)
{
	while (*p) {
		*why = "bad header";
		char *l = line(&p, why);
		if (!l)
			return 400;
		if (!*l)
			break;

		if (*l == ' ' || *l == '\t')
			return fail(why, 400, "folded header");

		char *c = l;
		while (is_token((unsigned char)*c))
			c++;
		if (*c != ':' || c == l)
			return fail(why, 400, "bad header name");

		*c++ = 0;
		c += strspn(c, " \t");
		for (size_t n = strlen(c); n && (c[n - 1] == ' ' || c[n - 1] == '\t'); n--)
			c[n - 1] = 0;

		int rc = add(h, l, c, why);
		if (rc)
			return rc;
	}
	return 0;
}

static int framing(struct td_head *h, const char **why)
{
	const char *te = td_head_get(h, "Transfer-Encoding"), *cl = td_head_get(h, "Content-Length"),
		   *ex = td_head_get(h, "Expect");

	if (te && cl)
		return fail(why, 400, "both Transfer-Encoding and Content-Length");
	if (te && h->minor == 0)
		return fail(why, 400, "Transfer-Encoding in HTTP/1.0");
	if (te && strcasecmp(te, "chunked") != 0)
		return fail(why, 501, "only chunked transfer encoding is known");
	h->chunked = te;

	if (cl) {
		size_t n = strlen(cl);
		if (!n || n > 18 || strspn(cl, "0123456789") != n)
			return fail(why, 400, "bad Content-Length");
		for (const char *c = cl; *c; c++)
			h->length = h->length * 10 + (uint64_t)(*c - '0');
		h->has_length = true;
	}

	if (ex && h->minor == 1) {
		if (strcasecmp(ex, "100-continue") != 0)
			return fail(why, 417, "unknown expectation");
		h->expect_continue = true;
	}

	const char *conn = td_head_get(h, "Connection");
	h->keep_alive = h->minor == 1 ? !td_head_has_token(conn, "close") : td_head_has_token(conn, "keep-alive");
	if (h->minor == 1 && !td_head_get(h, "Host"))
		return fail(why, 400, "no Host header");

	return 0;
}

int td_head_parse(const char *p, size_t n, struct td_head *ret, const char **ret_why)
{
	if (n < 4 || n > TD_HEAD_MAX || memcmp(p + n - 4, "\r\n\r\n", 4) != 0 || memchr(p, 0, n))
		return fail(ret_why, 400, "bad request head");

	struct td_head h = {.raw = td_strndup(p, n)};
	char *at = h.raw;
	*ret_why = "bad request line";
	char *l = line(&at, ret_why);
	int rc = l ? request_line(&h, l, ret_why) : 400;
	if (!rc)
		rc = header_lines(&h, at, ret_why);
	if (!rc)
		rc = framing(&h, ret_why);
	if (rc) {
		td_head_done(&h);
		return rc;
	}

	*ret = h;
	return 0;
}

int td_chunk_line(const char *p, size_t n, uint64_t *ret_size)
{
	const char *e = memchr(p, '\n', n < CHUNK_LINE_MAX ? n : CHUNK_LINE_MAX);
	if (!e)
		return n >= CHUNK_LINE_MAX ? -1 : 0;
	if (e == p || e[-1] != '\r')
		return -1;

	uint64_t v = 0;
	const char *c = p;
	for (; c < e && hex(*c) >= 0; c++) {
		if (c - p >= 12)
			return -1;
		v = v << 4 | (uint64_t)hex(*c);
	}

	if (c == p || (c != e - 1 && *c != ';')) // extensions are allowed and ignored
		return -1;
	for (; c < e - 1; c++)
		if ((unsigned char)*c < 0x20 && *c != '\t')
			return -1;

	*ret_size = v;
	return (int)(e - p) + 1;
}
