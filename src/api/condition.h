// Conditions in the status of an object: at most one of each type.
#pragma once

#include "json/json.h"

yyjson_val *td_condition(const yyjson_val *obj, const char *type); // NULL when absent
bool td_condition_true(const yyjson_val *obj, const char *type);
struct td_condition_want {
	const char *type, *status, *reason, *message;
	long long generation; // observedGeneration; 0: none
	// Whether it has a lastUpdateTime (when anything in it changed) and a lastHeartbeatTime
	// (now).
	bool updated, heartbeat;
};
// type, status, reason, message; more by name.
#define TD_CONDITION(...) (&(const struct td_condition_want){__VA_ARGS__})
// Appends the condition to list. was is the array of the conditions before: lastTransitionTime
// stays when the status is the same.
void td_condition_add(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *was, const struct td_condition_want *w,
		      int64_t now_ms);
