#include "api/condition.h"

yyjson_val *td_condition(const yyjson_val *obj, const char *type)
{
	return td_jfind(td_jget(obj, "status.conditions"), "type", type);
}

bool td_condition_true(const yyjson_val *obj, const char *type)
{
	return td_streq(td_jstr(td_condition(obj, type), "status"), "True");
}

const char *td_condition_since(const yyjson_val *obj, const char *type, const char *status, const char *now)
{
	yyjson_val *c = td_condition(obj, type);
	return td_streq(td_jstr(c, "status"), status) ? td_jstr_or(c, "lastTransitionTime", now) : now;
}
