// Refusals (refuse.h).
#include "apiserver/refuse.h"

#include <stdlib.h>

static int code_of(int http)
{
	switch (http) {
	case 401:
		return TD_UNAUTHENTICATED;
	case 403:
		return TD_DENIED;
	case 404:
		return TD_NOT_FOUND;
	case 409:
		return TD_CONFLICT;
	case 410:
		return TD_EXPIRED;
	case 429:
		return TD_THROTTLED;
	case 405:
	case 406:
	case 415:
		return TD_UNSUPPORTED;
	case 400:
	case 413:
	case 422:
		return TD_INVALID;
	default:
		return TD_INTERNAL;
	}
}

static int refuse(struct td_refusal *r, int http, const char *reason, bool generic, char *msg)
{
	free(r->message);
	r->http = http;
	r->reason = reason ? reason : td_status_reason(http);
	r->message = msg;
	r->generic = generic;
	return code_of(http);
}

int td_refuse(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *msg = td_vasprintf(fmt, ap);
	va_end(ap);
	return refuse(r, http, reason, false, msg);
}

int td_refuse_generic(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *msg = td_vasprintf(fmt, ap);
	va_end(ap);
	return refuse(r, http, reason, true, msg);
}

int td_refuse_method(struct td_refusal *r)
{
	return td_refuse_generic(r, 405, "MethodNotAllowed",
				 "the server does not allow this method on the requested resource");
}

static void set(char **p, const char *s)
{
	if (!s)
		return;
	char *n = td_strdup(s);
	free(*p);
	*p = n;
}

int td_refuse_about(struct td_refusal *r, const char *group, const char *kind, const char *name)
{
	set(&r->group, group);
	set(&r->kind, kind);
	set(&r->name, name);
	return code_of(r->http);
}

int td_refuse_err(struct td_refusal *r, const struct td_error *err)
{
	int http = err->http;
	if (!http)
		switch (err->code) {
		case TD_NOT_FOUND:
			http = 404;
			break;
		case TD_EXISTS:
		case TD_CONFLICT:
			http = 409;
			break;
		case TD_EXPIRED:
			http = 410;
			break;
		case TD_THROTTLED:
			http = 429;
			break;
		case TD_INVALID:
			http = 400;
			break;
		case TD_UNAUTHENTICATED:
			http = 401;
			break;
		case TD_DENIED:
			http = 403;
			break;
		case TD_UNSUPPORTED:
			http = 415;
			break;
		case TD_CANCELLED:
			http = 503;
			break;
		default:
			http = 500;
		}

	if (err->code == TD_THROTTLED || err->retry_after_ms)
		r->retry_after_s = err->retry_after_ms > 1000 ? err->retry_after_ms / 1000 : 1;
	return td_refuse(r, http, err->code == TD_EXISTS ? "AlreadyExists" : NULL, "%s", err->msg);
}

int td_refuse_invalid(struct td_refusal *r, const char *group, const char *kind, const char *name)
{
	td_auto_free char *m = td_status_invalid_message(group, kind, name, &r->causes);
	td_refuse(r, 422, "Invalid", "%s", m);
	return td_refuse_about(r, group, kind, name);
}

int td_refuse_options(struct td_refusal *r, const char *kind)
{
	return td_refuse_invalid(r, "meta.k8s.io", kind, "");
}

char *td_refusal_text(const struct td_refusal *r, size_t *ret_len)
{
	const struct td_status s = {
		.code = r->http,
		.reason = r->reason,
		.message = r->message,
		.kind = r->kind,
		.group = r->group && *r->group ? r->group : NULL,
		.name = r->name,
		.uid = r->uid,
		.causes = r->causes.n ? &r->causes : NULL,
		.retry_after_s = r->retry_after_s,
		.details = r->generic,
	};
	char *text = td_status_text(&s, ret_len);
	if (!r->cont)
		return text;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_json_parse(text, *ret_len, &j, NULL) < 0)
		return text;
	free(text);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.continue", r->cont);

	return td_json_mut_text(yyjson_mut_doc_get_root(d), ret_len);
}

void td_refusal_done(struct td_refusal *r)
{
	free(r->message);
	free(r->kind);
	free(r->group);
	free(r->name);
	free(r->uid);
	free(r->cont);
	td_causes_done(&r->causes);
	*r = (struct td_refusal){0};
}
