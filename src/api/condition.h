// Conditions in an object's status: one of each type.
#pragma once

#include "json/json.h"

yyjson_val *td_condition(const yyjson_val *obj, const char *type); // NULL: it has none of that type
bool td_condition_true(const yyjson_val *obj, const char *type);
// Since when it has this status, by what the object says; `now` where it has not had it. Points into obj, or is now.
const char *td_condition_since(const yyjson_val *obj, const char *type, const char *status, const char *now);
