#include "base/err.h"

#include <stdio.h>
#include <string.h>

int td_vfail(struct td_error *err, int code, const char *fmt, va_list ap)
{
	if (err) {
		err->code = code;
		err->http = 0;
		err->retry_after_ms = 0;
		err->detail = 0;
		vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	}
	return code;
}

int td_fail(struct td_error *err, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_vfail(err, code, fmt, ap);
	va_end(ap);
	return code;
}

int td_fail_detail(struct td_error *err, int code, int detail, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_vfail(err, code, fmt, ap);
	va_end(ap);
	if (err)
		err->detail = detail;
	return code;
}

int td_fail_errno(struct td_error *err, int code, int errnum, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_vfail(err, code, fmt, ap);
	va_end(ap);
	if (err) {
		size_t n = strlen(err->msg);
		char buf[128];
		snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror_r(errnum, buf, sizeof(buf)));
	}
	return code;
}

int td_wrap(struct td_error *err, const char *fmt, ...)
{
	if (!err)
		return TD_INTERNAL;
	char old[sizeof(err->msg)];
	memcpy(old, err->msg, sizeof(old));

	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);

	if (n >= 0 && (size_t)n < sizeof(err->msg) - 2) {
		size_t room = sizeof(err->msg) - (size_t)n;
		err->msg[n++] = ':';
		err->msg[n++] = ' ';
		room -= 2;
		size_t len = strnlen(old, room - 1);
		memcpy(err->msg + n, old, len);
		err->msg[(size_t)n + len] = '\0';
	}

	return err->code ? err->code : TD_INTERNAL;
}

const char *td_code_name(int code)
{
	static const char *const names[] = {
		"OK",        "NotFound", "Exists",          "Conflict", "Expired",     "Throttled", "Transient",
		"Uncertain", "Invalid",  "Unauthenticated", "Denied",   "Unsupported", "Cancelled", "Internal",
	};
	if (code > 0 || -code >= (int)(sizeof(names) / sizeof(names[0])))
		return "Unknown";
	return names[-code];
}
