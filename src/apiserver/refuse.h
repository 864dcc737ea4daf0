// A refusal in the making: becomes a metav1.Status. Zero-initialised is "nothing refused".
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
	bool generic; // about no object in particular: has empty details
};
// Fills r (what was there is dropped) and returns a negative enum td_code that fits the HTTP status. reason NULL: the
// status' usual one.
int td_refuse(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
// The same for what is about the request as such (no such resource, method, type): the real one says so by empty
// details.
int td_refuse_generic(struct td_refusal *r, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int td_refuse_method(struct td_refusal *r); // 405
// Sets the details; any may be NULL. Returns the same code as td_refuse.
int td_refuse_about(struct td_refusal *r, const char *group, const char *kind, const char *name);
// From an error of a library: TD_INVALID 400, TD_CONFLICT 409, …
int td_refuse_err(struct td_refusal *r, const struct td_error *err);
// 422 Invalid from r->causes: `Kind.group "name" is invalid: [a, b]`.
int td_refuse_invalid(struct td_refusal *r, const char *group, const char *kind, const char *name);
// 422 of the query or the options ("ListOptions", "CreateOptions") from r->causes.
int td_refuse_options(struct td_refusal *r, const char *kind);
char *td_refusal_text(const struct td_refusal *r, size_t *ret_len); // caller frees
void td_refusal_done(struct td_refusal *r);
#define td_auto_refusal __attribute__((cleanup(td_refusal_done)))
