// metav1.Status and causes.
#include "api/status.h"

#include <stdarg.h>
#include <stdio.h>

void td_cause_add(struct td_causes *c, const char *reason, const char *field, const char *fmt, ...)
{
	if (!c)
		return;
	if (c->n == c->cap) {
		c->cap = c->cap ? c->cap * 2 : 8;
		c->v = td_realloc(c->v, c->cap * sizeof(*c->v));
	}
	va_list ap;
	va_start(ap, fmt);
	c->v[c->n++] = (struct td_cause){
		.reason = td_strdup(reason),
		.message = td_vasprintf(fmt, ap),
		.field = td_strdup(field ? field : ""),
		.kind = td_cause_kind_of(reason),
	};
	va_end(ap);
}

enum td_cause_kind td_cause_kind_of(const char *reason)
{
	return td_streq(reason, "FieldValueForbidden")     ? TD_CAUSE_FORBIDDEN
	       : td_streq(reason, "FieldValueTypeInvalid") ? TD_CAUSE_UNDECODABLE
							   : TD_CAUSE_OTHER;
}

void td_causes_done(struct td_causes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].reason);
		free(c->v[i].message);
		free(c->v[i].field);
		free(c->v[i].with);
	}
	free(c->v);
	*c = (struct td_causes){0};
}

const char *td_status_reason(int http)
{
	switch (http) {
	case 400:
	case 414:
	case 431:
		return "BadRequest";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "NotFound";
	case 405:
		return "MethodNotAllowed";
	case 406:
		return "NotAcceptable";
	case 408:
	case 504:
		return "Timeout";
	case 507:
		return "InsufficientStorage";
	case 409:
		return "Conflict";
	case 410:
		return "Expired";
	case 413:
		return "RequestEntityTooLarge";
	case 415:
		return "UnsupportedMediaType";
	case 422:
		return "Invalid";
	case 429:
		return "TooManyRequests";
	case 500:
		return "InternalError";
	case 503:
		return "ServiceUnavailable";
	}
	return "Unknown";
}

// Returns the number of bytes of the UTF-8 character at p, which is NUL-terminated (RFC 3629: no
// surrogates, no overlong forms); 0 when it is not valid.
static size_t utf8_len(const unsigned char *p)
{
	if (*p < 0x80)
		return 1;
	size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
	unsigned long c = *p & (0x7fu >> n);
	if (*p < 0xc2 || *p > 0xf4)
		return 0;

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}

	bool bad = (n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) || (c >= 0xd800 && c <= 0xdfff);
	return bad ? 0 : n;
}

char *td_text_clean(const char *s)
{
	td_auto_buf struct td_buf b = {0};
	while (*s) {
		size_t n = utf8_len((const unsigned char *)s);
		if (n)
			td_buf_add(&b, s, n);
		else
			td_buf_puts(&b, "\xef\xbf\xbd");
		s += n ? n : 1;
	}
	return b.len ? td_buf_take(&b) : td_strdup("");
}

bool td_text_printable(const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p;) {
		size_t n = utf8_len(p);
		if (!n || *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
			return false;
		p += n;
	}
	return true;
}

// Names and messages quote what clients sent, so they may be invalid UTF-8.
static void put(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *s)
{
	td_auto_free char *clean = s ? td_text_clean(s) : NULL;
	td_jm_str(d, o, key, clean);
}

char *td_status_text(const struct td_status *s, size_t *ret_len)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	bool failure = s->code >= 400;

	td_jm_str(d, o, "kind", "Status");
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_obj(d, o, "metadata");
	td_jm_str(d, o, "status", failure ? "Failure" : "Success");
	put(d, o, "message", s->message);
	td_jm_str(d, o, "reason", s->reason && *s->reason ? s->reason : NULL);

	const char *name = s->name && *s->name ? s->name : NULL;
	if (name || s->kind || s->uid || s->retry_after_s || (s->causes && s->causes->n) || s->details) {
		yyjson_mut_val *t = td_jm_obj(d, o, "details");
		put(d, t, "name", name);
		td_jm_str(d, t, "group", s->group && *s->group ? s->group : NULL);
		td_jm_str(d, t, "kind", s->kind);
		td_jm_str(d, t, "uid", s->uid);
		if (s->causes && s->causes->n) {
			yyjson_mut_val *a = td_jm_arr(d, t, "causes");
			for (size_t i = 0; i < s->causes->n; i++) {
				const struct td_cause *c = &s->causes->v[i];
				yyjson_mut_val *e = yyjson_mut_obj(d);
				td_jm_str(d, e, "reason", c->reason);
				put(d, e, "message", c->message);
				put(d, e, "field", c->field && *c->field ? c->field : NULL);
				yyjson_mut_arr_append(a, e);
			}
		}
		if (s->retry_after_s)
			td_jm_int(d, t, "retryAfterSeconds", s->retry_after_s);
	}

	td_jm_int(d, o, "code", s->code);
	return td_json_mut_text(o, ret_len);
}

char *td_status_invalid_message(const char *group, const char *kind, const char *name, const struct td_causes *c)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%s%s%s \"%s\" is invalid", kind ? kind : "", group && *group ? "." : "", group ? group : "",
		      name ? name : "");

	size_t n = c ? c->n : 0;
	if (n)
		td_buf_puts(&b, n > 1 ? ": [" : ": ");
	for (size_t i = 0; i < n; i++) {
		if (i)
			td_buf_puts(&b, ", ");
		if (c->v[i].field && *c->v[i].field)
			td_buf_printf(&b, "%s: ", c->v[i].field);
		td_buf_puts(&b, c->v[i].message);
	}

	if (n > 1)
		td_buf_putc(&b, ']');
	return td_buf_take(&b);
}
