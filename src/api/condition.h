// Conditions in an object's status: one of each type.
#pragma once

#include "json/json.h"

yyjson_val *td_condition(const yyjson_val *obj, const char *type); // NULL: it has none of that type
bool td_condition_true(const yyjson_val *obj, const char *type);
struct td_condition_want {
	const char *type, *status, *reason, *message;
	long long generation;    // observedGeneration; 0: it has none
	bool updated, heartbeat; // it has a lastUpdateTime (that of the last change), a lastHeartbeatTime (now)
};
// type, status, reason, message; more by name.
#define TD_CONDITION(...) (&(const struct td_condition_want){__VA_ARGS__})
// Appends the condition to list. was: the conditions before; where the status is the same, its time stands.
void td_condition_add(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *was, const struct td_condition_want *w,
		      int64_t now_ms);
