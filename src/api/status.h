// metav1.Status: what every refusal looks like on the wire, and the causes that name field and fix.
#pragma once

#include "base/err.h"
#include "json/json.h"

// Why a field was refused. reason: FieldValueInvalid, FieldValueRequired, FieldValueDuplicate, FieldValueNotSupported,
// FieldValueForbidden, …
enum td_cause_kind {
	TD_CAUSE_OTHER,
	TD_CAUSE_FORBIDDEN,   // FieldValueForbidden
	TD_CAUSE_UNDECODABLE, // a value that a typed decoder would not read: wrong type, base64, time, quantity, 32
			      // bits
};
struct td_cause {
	char *reason, *message, *field;
	enum td_cause_kind kind;
	char *with; // of a FieldManagerConflict: the other manager, as it is shown; else NULL
};
struct td_causes { // zero-initialised is empty
	struct td_cause *v;
	size_t n, cap;
};
void td_cause_add(struct td_causes *c, const char *reason, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
enum td_cause_kind td_cause_kind_of(const char *reason); // by the reason alone
void td_causes_done(struct td_causes *c);
#define td_auto_causes __attribute__((cleanup(td_causes_done)))

// A Status document. reason "NotFound", "AlreadyExists", "Conflict", "Invalid", …; kind/name/group/uid for details, any
// may be NULL.
struct td_status {
	int code;
	const char *reason, *message, *kind, *group, *name, *uid;
	const struct td_causes *causes;
	int retry_after_s;
	bool details; // written even when they are empty
};
// Text from outside as it may stand in a reply or an object: UTF-8, invalid bytes as U+FFFD. Caller frees.
char *td_text_clean(const char *s);
bool td_text_printable(const char *s);                            // UTF-8 without control characters
char *td_status_text(const struct td_status *s, size_t *ret_len); // JSON text; caller frees
// Kubernetes' message for an invalid object: `Deployment.apps "x" is invalid: [a: Invalid value…, b]`. Caller frees.
char *td_status_invalid_message(const char *group, const char *kind, const char *name, const struct td_causes *c);
const char *td_status_reason(int http); // 404 → "NotFound", …
