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
	c->v[c->n++] = (struct td_cause){td_strdup(reason), td_vasprintf(fmt, ap), td_strdup(field ? field : "")};
	va_end(ap);
}

void td_causes_done(struct td_causes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].reason);
		free(c->v[i].message);
		free(c->v[i].field);
	}
	free(c->v);
	*c = (struct td_causes){0};
}

const char *td_status_reason(int http)
{
	switch (http) {
	case 400:
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
	case 507:
		return "InsufficientStorage";
	case 504:
		return "Timeout";
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

char *td_status_text(const struct td_status *s, size_t *ret_len)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	bool failure = s->code >= 400;
	td_jm_str(d, o, "kind", "Status");
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_obj(d, o, "metadata");
	td_jm_str(d, o, "status", failure ? "Failure" : "Success");
	td_jm_str(d, o, "message", s->message);
	td_jm_str(d, o, "reason", s->reason);
	if (s->name || s->kind || s->uid || s->retry_after_s || (s->causes && s->causes->n) || s->code == 404) {
		yyjson_mut_val *t = td_jm_obj(d, o, "details");
		td_jm_str(d, t, "name", s->name);
		td_jm_str(d, t, "group", s->group && *s->group ? s->group : NULL);
		td_jm_str(d, t, "kind", s->kind);
		td_jm_str(d, t, "uid", s->uid);
		if (s->causes && s->causes->n) {
			yyjson_mut_val *a = td_jm_arr(d, t, "causes");
			for (size_t i = 0; i < s->causes->n; i++) {
				const struct td_cause *c = &s->causes->v[i];
				yyjson_mut_val *e = yyjson_mut_obj(d);
				td_jm_str(d, e, "reason", c->reason);
				td_jm_str(d, e, "message", c->message);
				td_jm_str(d, e, "field", c->field && *c->field ? c->field : NULL);
				yyjson_mut_arr_append(a, e);
			}
		}
		if (s->retry_after_s)
			td_jm_int(d, t, "retryAfterSeconds", s->retry_after_s);
	}
	td_jm_int(d, o, "code", s->code);
	return td_json_mut_text(o, ret_len);
}

char *td_status_invalid_message(const char *kind, const char *name, const struct td_causes *c)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%s \"%s\" is invalid", kind ? kind : "", name ? name : "");
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
