// Errors: one caller-owned struct without heap, and codes that name the decision a caller takes.
//
// Whatever can fail returns 0 or a negative enum td_code and takes `struct td_error *err` last
// (NULL is allowed). On failure, outputs and state are untouched. Controllers choose what to do
// from the code, never from the text. Where the code is too coarse, `detail` says more: the room
// slurm puts Slurm's error number there (slurm/rest.h), kube the kind of a refusal's first cause
// (enum td_cause_kind of api/status.h), oidc that a login waits for its person (oidc/oidc.h), and cli
// that an argument is wrong (cli/apply.h).
#pragma once

#include <stdarg.h>

enum td_code {
	TD_OK = 0,
	TD_NOT_FOUND = -1,
	TD_EXISTS = -2,
	TD_CONFLICT = -3,  // somebody else changed it: read again, then decide again
	TD_EXPIRED = -4,   // a resourceVersion, token or cursor is too old: list or log in again
	TD_THROTTLED = -5, // surely not done: retry after err->retry_after_ms
	TD_TRANSIENT = -6, // surely not done: retry with back-off
	TD_UNCERTAIN = -7, // may be done: look before you retry
	TD_INVALID = -8,   // will never work as it stands
	TD_UNAUTHENTICATED = -9,
	TD_DENIED = -10,
	TD_UNSUPPORTED = -11,
	TD_CANCELLED = -12,
	TD_INTERNAL = -13,
};

struct td_error {
	int code;           // enum td_code
	int http;           // the HTTP status when one was involved, else 0
	int retry_after_ms; // 0: not known
	int detail;         // what the code leaves open, by room (see above); 0: nothing
	char msg[512];      // one line, no trailing newline
};

#define TD_ERROR_INIT ((struct td_error){0})

// Fills *err (unless it is NULL) and returns `code`.
int td_fail(struct td_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int td_vfail(struct td_error *err, int code, const char *fmt, va_list ap);

// Like td_fail, and sets err->detail.
int td_fail_detail(struct td_error *err, int code, int detail, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

// Like td_fail, and appends ": strerror(errnum)" to the message.
int td_fail_errno(struct td_error *err, int code, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

// Puts "context: " in front of the existing message. Returns err->code (TD_INTERNAL when err is
// NULL or empty).
int td_wrap(struct td_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The code's name ("NotFound", "Conflict", …), for logs and tests. Never NULL.
const char *td_code_name(int code);
