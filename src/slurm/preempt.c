// What spec.preemption adds to slurm.conf and job_submit.lua.
#include "slurm/preempt.h"

#include "slurm/accounting.h"

#include <string.h>
#include <strings.h>

#define WEIGHT "PriorityWeightQOS"

bool td_slurm_preempts(const yyjson_val *cluster)
{
	return td_jget(cluster, "spec.preemption") != NULL;
}

bool td_slurm_preempt_key(const yyjson_val *cluster, const char *key)
{
	static const char *const keys[] = {"PreemptType", "PreemptMode"};
	for (size_t i = 0; td_slurm_preempts(cluster) && i < TD_LEN(keys); i++)
		if (!strcasecmp(key, keys[i]))
			return true;
	return false;
}

void td_slurm_preempt_lines(const yyjson_val *cluster, bool weighs, struct td_buf *b)
{
	if (!td_slurm_preempts(cluster))
		return;
	bool cancel = td_streq(td_jstr(cluster, "spec.preemption.mode"), "Cancel");
	td_buf_printf(b, "PreemptType=preempt/qos\nPreemptMode=%s\n", cancel ? "CANCEL" : "REQUEUE");
	if (!weighs) // else a QOS's priority counts for nothing
		td_buf_puts(b, WEIGHT "=1000000\n");
}

long long td_slurm_preempt_s(const char *s)
{
	long long n = 0;
	size_t len = s ? strlen(s) : 0;
	td_auto_free char *number = len > 1 ? td_strndup(s, len - 1) : NULL;
	if (!number || !td_parse_i64(number, &n) || n < 0 || n > 10000000)
		return 0;
	char unit = s[len - 1];
	return unit == 's' ? n : unit == 'm' ? n * 60 : unit == 'h' ? n * 3600 : 0;
}

static bool declared(const yyjson_val *cluster, const char *name)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, "spec.preemption.qos"), i, n, x)
		if (td_streq(td_jstr(x, "name"), name))
			return true;
	return false;
}

// Whether `from` preempts `to`, directly.
static bool preempts(const yyjson_val *cluster, const char *from, const char *to)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, "spec.preemption.qos"), i, n, x)
		if (td_streq(td_jstr(x, "name"), from) && td_jhas(td_jget(x, "preempts"), to))
			return true;
	return false;
}

void td_slurm_preempt_check(const yyjson_val *cluster, struct td_strv *problems)
{
	yyjson_val *x, *y;
	size_t i, n, k, m;
	if (td_slurm_preempts(cluster) && !td_slurm_accounting(cluster))
		td_strv_addf(problems, "spec.preemption: QOS are kept by slurmdbd; set spec.accounting.enabled, or "
				       "remove spec.preemption");

	if (td_jget(cluster, "spec.preemption.reclaim") &&
	    !td_streq(td_jstr(cluster, "spec.accounting.enforce"), "limits"))
		td_strv_addf(problems, "spec.preemption.reclaim: quotas count only where they are enforced; set "
				       "spec.accounting.enforce to limits, or remove it");

	if (td_jget(cluster, "spec.preemption.defragment") &&
	    td_streq(td_jstr(cluster, "spec.preemption.mode"), "Cancel"))
		td_strv_addf(problems,
			     "spec.preemption.defragment: jobs move by being queued again; set spec.preemption.mode "
			     "to Requeue, or remove it");

	if (td_jget(cluster, "spec.preemption.starvation") &&
	    td_streq(td_jstr(cluster, "spec.preemption.mode"), "Cancel"))
		td_strv_addf(problems, "spec.preemption.starvation: jobs make room by being queued again; set "
				       "spec.preemption.mode to Requeue, or remove it");

	yyjson_arr_foreach (td_jget(cluster, "spec.preemption.qos"), i, n, x) {
		const char *name = td_jstr_or(x, "name", "");
		yyjson_arr_foreach (td_jget(x, "preempts"), k, m, y) {
			const char *victim = yyjson_get_str(y);
			if (td_streq(victim, name))
				td_strv_addf(problems,
					     "spec.preemption.qos[%zu].preempts[%zu]: \"%.63s\" cannot preempt itself; "
					     "remove it",
					     i, k, name);
			else if (!td_streq(victim, "normal") && !declared(cluster, victim))
				td_strv_addf(problems,
					     "spec.preemption.qos[%zu].preempts[%zu]: there is no QOS \"%.63s\" in "
					     "spec.preemption.qos; add it, or correct the name (Slurm's own is "
					     "\"normal\")",
					     i, k, victim ? victim : "");
			else if (preempts(cluster, victim, name))
				td_strv_addf(problems,
					     "spec.preemption.qos[%zu].preempts[%zu]: \"%.63s\" and \"%.63s\" preempt "
					     "each other, and would do so for ever; keep one direction",
					     i, k, name, victim);
		}
	}

	yyjson_arr_foreach (td_jget(cluster, "spec.scheduler.priorityClassMap"), i, n, x) {
		const char *qos = td_jstr_or(x, "qos", "");
		if (!declared(cluster, qos))
			td_strv_addf(problems,
				     "spec.scheduler.priorityClassMap[%zu].qos: there is no QOS \"%.63s\" in "
				     "spec.preemption.qos; add it, or correct the name",
				     i, qos);
	}
}

static void may(struct td_buf *b, const char *user)
{
	// A name of spec.users or "*": the schema lets nothing pass that ends a string of Lua's.
	if (user && (td_streq(user, "*") || td_slurm_is_user(user)))
		td_buf_printf(b, " [\"%s\"] = true,", user);
}

// Whether pods of that namespace may have the QOS by their class. ns "*": any namespace may.
static bool by_class(const yyjson_val *cluster, const char *qos, const char *ns)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, "spec.scheduler.priorityClassMap"), i, n, x) {
		yyjson_val *only = td_jget(x, "namespaces");
		if (!td_streq(td_jstr(x, "qos"), qos))
			continue;
		if (!yyjson_arr_size(only) || td_streq(ns, "*") || td_jhas(only, ns))
			return true;
	}
	return false;
}

void td_slurm_preempt_lua(const yyjson_val *cluster, struct td_buf *b)
{
	yyjson_val *x, *y;
	size_t i, n, k, m;
	td_buf_puts(b, "-- Written by Tandem: who may name which QOS of spec.preemption.\ntandem_qos = {\n");
	yyjson_arr_foreach (td_jget(cluster, "spec.preemption.qos"), i, n, x) {
		const char *name = td_jstr(x, "name");
		if (!td_slurm_is_name(name))
			continue;
		td_buf_printf(b, "\t[\"%s\"] = {", name);
		// The users of pods that may have it, and nobody for whose namespace it is not.
		may(b, td_jstr(cluster, "spec.scheduler.defaultUser"));
		yyjson_arr_foreach (td_jget(cluster, "spec.scheduler.namespaces"), k, m, y)
			if (td_streq(td_jstr(y, "qos"), name) || by_class(cluster, name, td_jstr(y, "namespace")))
				may(b, td_jstr(y, "user"));
		yyjson_arr_foreach (td_jget(x, "users"), k, m, y)
			may(b, yyjson_get_str(y));
		td_buf_puts(b, " },\n");
	}
	if (td_jbool(cluster, "spec.shadows.enabled", false)) // shadows have it, and nobody preempts it
		td_buf_puts(b, "\t[\"" TD_SLURM_QOS_SHADOW "\"] = { },\n");
	td_buf_puts(b, "}\n");
}
