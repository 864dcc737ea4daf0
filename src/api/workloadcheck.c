// Rules and defaults of the kinds that create pods: Deployment, ReplicaSet, StatefulSet, Job.
#include "api/kinds_priv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/selector.h"

static bool is_zero(const yyjson_val *v)
{
	const char *s = yyjson_get_str(td_unconst(v));
	return s ? s[strspn(s, "0")] == '%' : v && yyjson_get_sint(td_unconst(v)) == 0;
}

static void check_template(const yyjson_val *obj, const char *const *policies, struct td_causes *ret)
{
	const yyjson_val *t = td_jget(obj, "spec.template");
	td_labels_check(td_jget(t, "metadata.labels"), "spec.template.labels", ret);
	td_podspec_check(td_jkey(t, "spec"), "spec.template.spec", true, ret);
	if (!td_jkey(t, "spec"))
		td_cause_add(ret, "FieldValueRequired", "spec.template.spec.containers", "Required value");

	const char *p = td_jstr_or(t, "spec.restartPolicy", "");
	bool ok = !*p, job = !strcmp(policies[0], "OnFailure");
	if (job && (!strcmp(p, "Always") || !*p)) {
		td_cause_add(ret, "FieldValueRequired", "spec.template.spec.restartPolicy",
			     "Required value: valid values: \"OnFailure\", \"Never\"");
		return;
	}

	if (!job && td_jget(t, "spec.activeDeadlineSeconds"))
		td_cause_add(ret, "FieldValueForbidden", "spec.template.spec.activeDeadlineSeconds",
			     "Forbidden: activeDeadlineSeconds in %s is not Supported",
			     td_streq(td_jstr(obj, "kind"), "StatefulSet") ? "StatefulSet" : "ReplicaSet");

	for (size_t i = 0; policies[i]; i++)
		ok = ok || !strcmp(p, policies[i]);
	if (!ok)
		td_cause_add(ret, "FieldValueNotSupported", "spec.template.spec.restartPolicy",
			     "Unsupported value: \"%s\": supported values: \"%s\"%s%s%s", p, policies[0],
			     policies[1] ? ", \"" : "", policies[1] ? policies[1] : "", policies[1] ? "\"" : "");
}

static void check_selector(const yyjson_val *obj, const yyjson_val *old, bool required, struct td_causes *ret)
{
	const yyjson_val *sel = td_jget(obj, "spec.selector"), *labels = td_jget(obj, "spec.template.metadata.labels");
	td_auto(td_selector_free) struct td_selector *s = NULL;
	struct td_error err = TD_ERROR_INIT;

	td_immutable_check(obj, old, "spec.selector", ret);
	if (!sel)
		return; // the schema requires it where it must be
	if (td_selector_from_object(sel, &s, &err)) {
		td_cause_add(ret, "FieldValueInvalid", "spec.selector", "Invalid value: %s", err.msg);
		return;
	}

	if (required && !yyjson_obj_size(td_jkey(sel, "matchLabels")) &&
	    !yyjson_arr_size(td_jkey(sel, "matchExpressions"))) {
		td_cause_add(ret, "FieldValueInvalid", "spec.selector",
			     "Invalid value: {}: empty selector is invalid for this kind");
		return;
	}

	if (td_jget(obj, "spec.template") && !td_selector_matches(s, labels)) {
		td_auto_free char *t = labels ? td_json_text(labels, NULL) : td_strdup("{}");
		td_cause_add(ret, "FieldValueInvalid", "spec.template.metadata.labels",
			     "Invalid value: %.300s: `selector` does not match template `labels`", t);
	}
}

static const char *const always[] = {"Always", NULL};

size_t td_deployment_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	const yyjson_val *ru = td_jget(obj, "spec.strategy.rollingUpdate");

	check_selector(obj, old, true, ret);
	check_template(obj, always, ret);
	td_percent_check(obj, "spec.strategy.rollingUpdate.maxUnavailable", ret);
	td_percent_check(obj, "spec.strategy.rollingUpdate.maxSurge", ret);
	const char *pct = td_jstr(obj, "spec.strategy.rollingUpdate.maxUnavailable");
	if (pct && td_is_percent_or_count(td_jget(obj, "spec.strategy.rollingUpdate.maxUnavailable")) &&
	    strtol(pct, NULL, 10) > 100)
		td_cause_add(ret, "FieldValueInvalid", "spec.strategy.rollingUpdate.maxUnavailable",
			     "Invalid value: \"%s\": must not be greater than 100%%", pct);

	if (ru && td_streq(td_jstr(obj, "spec.strategy.type"), "Recreate"))
		td_cause_add(ret, "FieldValueForbidden", "spec.strategy.rollingUpdate",
			     "Forbidden: may not be specified when strategy `type` is 'Recreate'");
	else if (ru && is_zero(td_jkey(ru, "maxUnavailable")) && is_zero(td_jkey(ru, "maxSurge")))
		td_cause_add(ret, "FieldValueInvalid", "spec.strategy.rollingUpdate.maxUnavailable",
			     "Invalid value: 0: may not be 0 when `maxSurge` is 0");

	if (td_jint(obj, "spec.progressDeadlineSeconds", INT_MAX) <= td_jint(obj, "spec.minReadySeconds", 0))
		td_cause_add(ret, "FieldValueInvalid", "spec.progressDeadlineSeconds",
			     "Invalid value: %lld: must be greater than minReadySeconds",
			     td_jint(obj, "spec.progressDeadlineSeconds", 0));
	return ret->n - before;
}

void td_template_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	// A spec is always there, so that validation reports its missing fields.
	if (!td_jm_get(obj, "spec"))
		td_jm_obj(d, obj, "spec");
	td_podspec_defaults(d, td_jm_get(obj, "spec.template.spec"));
}

void td_deployment_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	td_template_defaults(d, obj);
	if (td_streq(td_jm_getstr(obj, "spec.strategy.type"), "RollingUpdate") &&
	    !td_jm_get(obj, "spec.strategy.rollingUpdate")) {
		td_jm_str(d, obj, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
		td_jm_str(d, obj, "spec.strategy.rollingUpdate.maxSurge", "25%");
	}
}

size_t td_replicaset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	check_selector(obj, old, true, ret);
	check_template(obj, always, ret);
	return ret->n - before;
}

size_t td_statefulset_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const may[] = {"replicas",
					  "ordinals",
					  "template",
					  "updateStrategy",
					  "revisionHistoryLimit",
					  "persistentVolumeClaimRetentionPolicy",
					  "minReadySeconds"};
	size_t before = ret->n;

	check_selector(obj, NULL, true, ret);
	check_template(obj, always, ret);
	if (td_jget(obj, "spec.updateStrategy.rollingUpdate") &&
	    td_streq(td_jstr(obj, "spec.updateStrategy.type"), "OnDelete"))
		td_cause_add(ret, "FieldValueInvalid", "spec.updateStrategy.rollingUpdate",
			     "Invalid value: only allowed for updateStrategy 'RollingUpdate'");
	td_percent_check(obj, "spec.updateStrategy.rollingUpdate.maxUnavailable", ret);

	if (td_spec_changed(obj, old, may, TD_LEN(may)))
		td_cause_add(ret, "FieldValueForbidden", "spec",
			     "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
			     "'template', 'updateStrategy', 'revisionHistoryLimit', "
			     "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
	return ret->n - before;
}

void td_statefulset_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	td_template_defaults(d, obj);
	if (td_streq(td_jm_getstr(obj, "spec.updateStrategy.type"), "RollingUpdate") &&
	    !td_jm_get(obj, "spec.updateStrategy.rollingUpdate"))
		td_jm_int(d, obj, "spec.updateStrategy.rollingUpdate.partition", 0);
}

// ---- Job ----

// The template of a Job, without the fields that place pods when the Job is suspended: these may
// still change then.
static struct td_json *job_template(const yyjson_val *job, bool suspended)
{
	static const char *const may[] = {"metadata.labels", "metadata.annotations", "spec.nodeSelector",
					  "spec.affinity",   "spec.tolerations",     "spec.schedulingGates"};
	yyjson_mut_doc *d = td_jm_copy(td_jget(job, "spec.template"));
	for (size_t i = 0; suspended && i < TD_LEN(may); i++)
		td_jm_del(yyjson_mut_doc_get_root(d), may[i]);
	return td_jm_done(d);
}

// The server generates the selector of a Job from its uid and name. Its pods carry these labels,
// which must have no other value.
static void check_generated(const yyjson_val *obj, struct td_causes *ret)
{
	static const char *const labels[][2] = {{"controller-uid", "metadata.uid"},
						{"job-name", "metadata.name"},
						{"batch.kubernetes.io/controller-uid", "metadata.uid"},
						{"batch.kubernetes.io/job-name", "metadata.name"}};

	const yyjson_val *have = td_jget(obj, "spec.template.metadata.labels");
	if (td_jbool(obj, "spec.manualSelector", false) || !td_jget(obj, "spec.selector"))
		return;

	for (size_t i = 0; i < TD_LEN(labels); i++) {
		const char *is = td_jkey_str(have, labels[i][0]), *want = td_jstr_or(obj, labels[i][1], "");
		td_auto_free char *f = td_asprintf("spec.template.metadata.labels[%s]", labels[i][0]);
		if (!is)
			td_cause_add(ret, "FieldValueRequired", f, "Required value: must be '%s'", want);
		else if (strcmp(is, want) != 0)
			td_cause_add(ret, "FieldValueInvalid", f, "Invalid value: \"%.260s\": must be '%s'", is, want);
	}

	td_auto(td_selector_free) struct td_selector *s = NULL;
	yyjson_mut_doc *d = td_jm_new();
	for (size_t i = 0; i < TD_LEN(labels); i++)
		td_jm_key_str(d, yyjson_mut_doc_get_root(d), labels[i][0], td_jstr_or(obj, labels[i][1], ""));
	td_auto(td_json_unref) struct td_json *made = td_jm_done(d);
	if (td_selector_from_object(td_jget(obj, "spec.selector"), &s, NULL) == 0 &&
	    !td_selector_matches(s, td_json_root(made)))
		td_cause_add(ret, "FieldValueInvalid", "spec.selector",
			     "Invalid value: `selector` not auto-generated: leave it out, or set spec.manualSelector");
}

size_t td_api_job_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char *const policies[] = {"OnFailure", "Never", NULL};
	size_t before = ret->n;
	bool indexed = td_streq(td_jstr(obj, "spec.completionMode"), "Indexed");

	check_selector(obj, old && td_jget(old, "spec.selector") ? old : NULL, false, ret);
	check_template(obj, policies, ret);
	check_generated(obj, ret);

	const char *by = td_jstr_or(obj, "spec.managedBy", "");
	if (*by && (!td_is_qualified_name(by) || !strchr(by, '/')))
		td_cause_add(ret, "FieldValueInvalid", "spec.managedBy",
			     "Invalid value: \"%.100s\": must be a domain-prefixed path (such as \"acme.io/foo\")", by);
	if (td_jbool(obj, "spec.manualSelector", false) && !td_jget(obj, "spec.selector"))
		td_cause_add(ret, "FieldValueRequired", "spec.selector", "Required value");
	if (indexed && !td_jget(obj, "spec.completions"))
		td_cause_add(ret, "FieldValueRequired", "spec.completions",
			     "Required value: when completion mode is Indexed");
	if (td_jget(obj, "spec.backoffLimitPerIndex") && !indexed)
		td_cause_add(ret, "FieldValueInvalid", "spec.backoffLimitPerIndex",
			     "Invalid value: %lld: requires indexed completion mode",
			     td_jint(obj, "spec.backoffLimitPerIndex", 0));

	if (!old)
		return ret->n - before;
	bool suspended = td_jbool(old, "spec.suspend", false) && !td_jget(old, "status.startTime");
	td_auto(td_json_unref) struct td_json *a = job_template(obj, suspended), *b = job_template(old, suspended);
	if (!td_jequal(td_json_root(a), td_json_root(b)))
		td_immutable_check(obj, old, "spec.template", ret);
	td_immutable_check(obj, old, "spec.completionMode", ret);
	td_immutable_check(obj, old, "spec.podFailurePolicy", ret);

	// An elastic Indexed Job changes completions and parallelism together.
	if (!indexed || !td_jequal(td_jget(obj, "spec.completions"), td_jget(obj, "spec.parallelism")))
		td_immutable_check(obj, old, "spec.completions", ret);
	return ret->n - before;
}

void td_api_job_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *spec = td_jm_get(obj, "spec");
	td_template_defaults(d, obj);
	if (!yyjson_mut_is_obj(spec))
		return;

	bool completions = yyjson_mut_obj_get(spec, "completions"),
	     parallelism = yyjson_mut_obj_get(spec, "parallelism");
	if (!completions && !parallelism)
		td_jm_int(d, spec, "completions", 1);
	if (!parallelism)
		td_jm_int(d, spec, "parallelism", 1);
	if (!yyjson_mut_obj_get(spec, "backoffLimit"))
		td_jm_int(d, spec, "backoffLimit", yyjson_mut_obj_get(spec, "backoffLimitPerIndex") ? INT_MAX : 6);
	if (!yyjson_mut_obj_get(spec, "podReplacementPolicy"))
		td_jm_str(d, spec, "podReplacementPolicy",
			  yyjson_mut_obj_get(spec, "podFailurePolicy") ? "Failed" : "TerminatingOrFailed");

	// The server generates the selector in admission, so no manager owns it.
	yyjson_mut_val *labels = td_jm_get(obj, "spec.template.metadata.labels");
	if (!yyjson_mut_obj_size(td_jm_get(obj, "metadata.labels")) && yyjson_mut_obj_size(labels))
		td_jm_set(d, obj, "metadata.labels", yyjson_mut_val_mut_copy(d, labels));
}
