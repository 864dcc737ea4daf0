// metav1.Status, the form of every refusal on the wire, and the causes that name field and fix.
#pragma once

#include "base/err.h"
#include "json/json.h"

// Why a field was refused. reason is FieldValueInvalid, FieldValueRequired, FieldValueDuplicate,
// FieldValueNotSupported, FieldValueForbidden, …
enum td_cause_kind {
	TD_CAUSE_OTHER,
	TD_CAUSE_FORBIDDEN, // FieldValueForbidden
	// A value that a typed decoder could not read: wrong type, base64, time, quantity, 32 bits.
	TD_CAUSE_UNDECODABLE,
};
struct td_cause {
	char *reason, *message, *field;
	enum td_cause_kind kind;
	// For a FieldManagerConflict: the other manager, as it is shown; else NULL.
	char *with;
};
struct td_causes { // all zero is empty
	struct td_cause *v;
	size_t n, cap;
};
void td_cause_add(struct td_causes *c, const char *reason, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
enum td_cause_kind td_cause_kind_of(const char *reason); // from the reason alone
void td_causes_done(struct td_causes *c);
#define td_auto_causes __attribute__((cleanup(td_causes_done)))

// A Status document. reason is "NotFound", "AlreadyExists", "Conflict", "Invalid" and so on; kind,
// name, group and uid go into details, and any may be NULL.
struct td_status {
	int code;
	const char *reason, *message, *kind, *group, *name, *uid;
	const struct td_causes *causes;
	int retry_after_s;
	bool details; // written even when they are empty
};
// Makes text from outside fit for a reply or an object: UTF-8, with U+FFFD for invalid bytes. The
// caller frees it.
char *td_text_clean(const char *s);
// True for UTF-8 without control characters.
bool td_text_printable(const char *s);
// The Status as JSON text. The caller frees it.
char *td_status_text(const struct td_status *s, size_t *ret_len);
// The message of Kubernetes for an invalid object: `Deployment.apps "x" is invalid: [a: Invalid
// value…, b]`. The caller frees it.
char *td_status_invalid_message(const char *group, const char *kind, const char *name, const struct td_causes *c);
const char *td_status_reason(int http); // 404 → "NotFound", …
