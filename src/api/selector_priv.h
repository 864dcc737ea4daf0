// One requirement of a selector, shared by label selectors and node selectors.
#pragma once

#include "api/selector.h"

enum td_op { TD_OP_IN, TD_OP_NOT_IN, TD_OP_EXISTS, TD_OP_NOT_EXISTS, TD_OP_GT, TD_OP_LT };
// "In", "NotIn", "Exists", "DoesNotExist", and when `node` "Gt", "Lt". False when unknown.
bool td_op_parse(const char *s, bool node, enum td_op *ret);
// Does `value` (NULL: absent) satisfy the expression {operator, values}?
bool td_expr_matches(enum td_op op, const yyjson_val *values, const char *value);
