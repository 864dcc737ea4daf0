// The query of a request: which values it may have. Wrong ones are refused as a real API server
// does.
#include "apiserver/srv.h"

#include <string.h>

static const char *options_kind(const struct td_req *q)
{
	static const char *const kinds[][2] = {
		{"create", "CreateOptions"}, {"update", "UpdateOptions"},           {"patch", "PatchOptions"},
		{"delete", "DeleteOptions"}, {"deletecollection", "DeleteOptions"},
	};
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (!strcmp(q->verb, kinds[i][0]))
			return kinds[i][1];
	return "ListOptions";
}

void td_dry_run(struct td_req *q, const char *value, struct td_refusal *r)
{
	if (!strcmp(value, "All"))
		q->dry_run = true;
	else
		td_cause_add(&r->causes, "FieldValueNotSupported", "dryRun",
			     "Unsupported value: [\"%s\"]: supported values: \"All\"", value);
}

static void field_manager(struct td_req *q, struct td_refusal *r)
{
	const char *m = td_http_query(q->x, "fieldManager");
	if (m && strlen(m) > 128)
		td_cause_add(&r->causes, "FieldValueTooLong", "fieldManager",
			     "Too long: may not be more than 128 bytes");
	else if (m && !td_text_printable(m))
		td_cause_add(&r->causes, "FieldValueInvalid", "fieldManager",
			     "Invalid value: \"%s\": should only contain printable characters", m);

	if (m && *m) {
		q->manager = m;
		return;
	}
	// As in a real API server: the user agent up to the first '/'.
	const char *ua = td_http_header(q->x, "User-Agent");
	size_t n = ua ? strcspn(ua, "/") : 0;
	q->manager = n ? td_arena_strndup(q->arena, ua, n > 128 ? 128 : n) : "unknown";
	if (!td_text_printable(q->manager))
		q->manager = "unknown";
}

int td_srv_write_options(struct td_req *q, struct td_refusal *r)
{
	const char *dry = td_http_query(q->x, "dryRun"), *fv = td_http_query(q->x, "fieldValidation"),
		   *ct = td_http_header(q->x, "Content-Type");
	if (dry && *dry)
		td_dry_run(q, dry, r);
	if (fv && !strcmp(fv, "Strict"))
		q->strictness = TD_FIELDS_STRICT;
	else if (fv && !strcmp(fv, "Ignore"))
		q->strictness = TD_FIELDS_IGNORE;
	else if (fv && *fv && strcmp(fv, "Warn") != 0)
		td_cause_add(&r->causes, "FieldValueNotSupported", "fieldValidation",
			     "Unsupported value: \"%s\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"", fv);

	if (!strcmp(q->verb, "patch") && td_http_query(q->x, "force") &&
	    !(ct && td_starts(ct, "application/apply-patch")))
		td_cause_add(&r->causes, "FieldValueForbidden", "force",
			     "Forbidden: may not be specified for non-apply patch");
	field_manager(q, r);
	return r->causes.n ? td_refuse_options(r, options_kind(q)) : 0;
}

#define FORBID(r, field, text) td_cause_add(&(r)->causes, "FieldValueForbidden", field, "Forbidden: %s", text)
static void check_match(const struct td_list_options *o, struct td_refusal *r)
{
	if (!*o->match)
		return;
	if (!*o->rv)
		FORBID(r, "resourceVersionMatch",
		       "resourceVersionMatch is forbidden unless resourceVersion is provided");
	if (*o->cont)
		FORBID(r, "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
	bool exact = !strcmp(o->match, "Exact");
	if (!exact && strcmp(o->match, "NotOlderThan") != 0)
		td_cause_add(&r->causes, "FieldValueNotSupported", "resourceVersionMatch",
			     "Unsupported value: \"%s\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
			     o->match);
	if (exact && !strcmp(o->rv, "0"))
		FORBID(r, "resourceVersionMatch",
		       "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
}

static void check_watch(const struct td_list_options *o, struct td_refusal *r)
{
	if (!o->has_initial) {
		if (*o->match)
			FORBID(r, "resourceVersionMatch",
			       "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
	} else if (strcmp(o->match, "NotOlderThan") != 0) {
		FORBID(r, "resourceVersionMatch",
		       "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
		if (*o->match)
			td_cause_add(&r->causes, "FieldValueNotSupported", "resourceVersionMatch",
				     "Unsupported value: \"%s\": supported values: \"NotOlderThan\"", o->match);
	}
	if (*o->cont)
		FORBID(r, "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
}

static const char *query(const struct td_req *q, const char *name)
{
	const char *v = td_http_query(q->x, name);
	return v ? v : "";
}

static int number(const struct td_req *q, const char *name, long long *ret, struct td_refusal *r)
{
	const char *v = query(q, name);
	*ret = 0;
	if (*v && !td_parse_i64(v, ret))
		return td_refuse(r, 400, NULL, "%s: Invalid value: \"%.64s\": must be a number", name, v);
	return 0;
}

int td_list_options(const struct td_req *q, struct td_list_options *ret, struct td_refusal *r)
{
	struct td_list_options o = {
		.rv = query(q, "resourceVersion"),
		.match = query(q, "resourceVersionMatch"),
		.cont = query(q, "continue"),
		.has_initial = td_http_query(q->x, "sendInitialEvents") != NULL,
		.bookmarks = td_query_true(q, "allowWatchBookmarks"),
	};

	o.initial = o.has_initial && td_query_true(q, "sendInitialEvents");
	int rc = number(q, "limit", &o.limit, r);
	if (rc < 0 || (rc = number(q, "timeoutSeconds", &o.timeout_s, r)) < 0)
		return rc;
	if (o.limit < 0)
		o.limit = 0;
	if (!strcmp(q->verb, "watch")) {
		check_watch(&o, r);
	} else {
		if (o.has_initial)
			FORBID(r, "sendInitialEvents", "sendInitialEvents is forbidden for list");
		check_match(&o, r);
	}

	if (r->causes.n)
		return td_refuse_options(r, "ListOptions");
	*ret = o;
	return 0;
}
