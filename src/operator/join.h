// New machines join (docs/join.md): NodeTokens, and the requests for certificates that machines make with them. A
// controller of its own, on clusters with kubelets only, with one worker: of two machines that want one name at the
// same time the second one sees that the first has it.
//
// A request is refused or approved as pool/join.h decides. Before it is approved the token is reserved for it, by its
// uid, in a write that fails if somebody else has written the token since: whatever dies in between, no other request
// is ever approved with that token. Its Secret goes when the node is there, or a minute after the use: until then
// the machine fetches its certificate with it.
#pragma once

#include "operator/operator.h"

void td_op_join_on_node(struct td_op *op, struct td_object *old, struct td_object *now);
// The controller's thread: until cancel.
void td_op_join_run(struct td_op *op, struct td_cancel *c);
