// One requirement of a selector, for label selectors and node selectors.
#pragma once

#include "api/selector.h"

enum td_selector_op { TD_OP_IN, TD_OP_NOT_IN, TD_OP_EXISTS, TD_OP_NOT_EXISTS, TD_OP_GT, TD_OP_LT };
// Parses "In", "NotIn", "Exists" and "DoesNotExist", and with `node` also "Gt" and "Lt". Returns
// false for others.
bool td_api_op_parse(const char *s, bool node, enum td_selector_op *ret);
// Tells whether `value` (NULL: absent) satisfies the expression {operator, values}.
bool td_expr_matches(enum td_selector_op op, const yyjson_val *values, const char *value);
