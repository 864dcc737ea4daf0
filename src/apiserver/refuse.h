// A refusal, which becomes a metav1.Status. A zero-initialised one refuses nothing.
#pragma once

#include "api/status.h"
#include "base/err.h"

struct td_refusal {
	int http;
	const char *reason;                        // static
	char *message, *kind, *group, *name, *uid; // details; owned
	char *cont;                                // metadata.continue of an expired list
	struct td_causes causes;
	int retry_after_s;
	bool generic; // not about one object: the Status has empty details
};
// Fills r (its old content is dropped) and returns a negative enum td_code that fits the HTTP
// status. reason NULL: the usual reason of that status.
int td_refuse(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
// The same for a refusal of the request as such (no such resource, method, media type). A real API
// server sends empty details then.
int td_refuse_generic(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int td_refuse_method(struct td_refusal *r); // 405
// Sets the details; any of the strings may be NULL. Returns the code that td_refuse returned.
int td_refuse_about(struct td_refusal *r, const char *group, const char *kind, const char *name);
// Makes the refusal of a library's error: TD_INVALID becomes 400, TD_CONFLICT 409, …
int td_refuse_err(struct td_refusal *r, const struct td_error *err);
// Makes the 422 Invalid of r->causes: `Kind.group "name" is invalid: [a, b]`.
int td_refuse_invalid(struct td_refusal *r, const char *group, const char *kind, const char *name);
// Makes the 422 of the query or the options ("ListOptions", "CreateOptions") of r->causes.
int td_refuse_options(struct td_refusal *r, const char *kind);
// The Status as JSON text; the caller frees it.
char *td_refusal_text(const struct td_refusal *r, size_t *ret_len);
void td_refusal_done(struct td_refusal *r);
#define td_auto_refusal __attribute__((cleanup(td_refusal_done)))
