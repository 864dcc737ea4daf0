#include "api/condition.h"

#include "base/clock.h"

yyjson_val *td_condition(const yyjson_val *obj, const char *type)
{
	return td_jfind(td_jget(obj, "status.conditions"), "type", type);
}

bool td_condition_true(const yyjson_val *obj, const char *type)
{
	return td_streq(td_jstr(td_condition(obj, type), "status"), "True");
}

void td_condition_add(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *was, const struct td_condition_want *w,
		      int64_t now_ms)
{
	char now[TD_TIME_LEN];
	td_time_format(now_ms, now);
	yyjson_val *old = td_jfind(was, "type", w->type);
	bool stays = td_streq(td_jstr(old, "status"), w->status);
	bool same = stays && td_streq(td_jstr_or(old, "reason", ""), w->reason) &&
		    td_streq(td_jstr_or(old, "message", ""), w->message);

	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, o, "type", w->type);
	td_jm_str(d, o, "status", w->status);
	if (w->generation)
		td_jm_int(d, o, "observedGeneration", w->generation);
	if (w->heartbeat)
		td_jm_str(d, o, "lastHeartbeatTime", now);
	if (w->updated)
		td_jm_str(d, o, "lastUpdateTime", same ? td_jstr_or(old, "lastUpdateTime", now) : now);
	td_jm_str(d, o, "lastTransitionTime", stays ? td_jstr_or(old, "lastTransitionTime", now) : now);
	td_jm_str(d, o, "reason", w->reason);
	td_jm_str(d, o, "message", w->message);
}
