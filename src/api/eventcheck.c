// Rules of Events. An Event with an eventTime is of the new style, which requires fields that the
// old style leaves open.
#include "api/kinds_priv.h"

#include <string.h>

#include "api/names.h"

enum { WORD_MAX = 128, NOTE_MAX = 1024 };

static void required(const yyjson_val *obj, const char *field, struct td_causes *ret)
{
	const char *s = td_jstr_or(obj, field, "");
	if (!*s)
		td_cause_add(ret, "FieldValueRequired", field, "Required value");
	else if (strlen(s) > WORD_MAX && strcmp(field, "reportingComponent") != 0)
		td_cause_add(ret, "FieldValueInvalid", field, "Invalid value: \"\": can have at most %d characters",
			     WORD_MAX);
}

static void check_new(const yyjson_val *obj, struct td_causes *ret)
{
	static const char *const fields[] = {"reportingComponent", "reportingInstance", "action", "reason"};

	for (size_t i = 0; i < TD_LEN(fields); i++)
		required(obj, fields[i], ret);
	const char *who = td_jstr_or(obj, "reportingComponent", "");
	td_auto_strv struct td_strv l = {0};
	td_name_faults(TD_N_QUALIFIED, who, &l);
	for (size_t i = 0; i < l.n; i++)
		td_cause_add(ret, "FieldValueInvalid", "reportingComponent", "Invalid value: \"%.260s\": %s", who,
			     l.v[i]);
	if (strlen(td_jstr_or(obj, "message", "")) > NOTE_MAX)
		td_cause_add(ret, "FieldValueInvalid", "message", "Invalid value: \"\": can have at most %d characters",
			     NOTE_MAX);
}

size_t td_event_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	const char *a = td_jstr_or(obj, "involvedObject.namespace", ""),
		   *ns = td_jstr_or(obj, "metadata.namespace", "");
	bool fresh = td_jstr(obj, "eventTime") != NULL, anywhere = !strcmp(ns, "default") || !strcmp(ns, "kube-system");

	// Events about cluster-scoped objects live in "default" or "kube-system".
	if (*a ? !fresh && strcmp(a, ns) != 0 : !anywhere)
		td_cause_add(ret, "FieldValueInvalid", "involvedObject.namespace",
			     "Invalid value: \"%s\": does not match event.namespace", a);
	if (fresh)
		check_new(obj, ret);
	return ret->n - before;
}
