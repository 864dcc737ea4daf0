// What an agent shows of its gate at /metrics.
#pragma once

#include "gate/gate.h"

// Called once with the gate, when the gate's callbacks may be called, and with NULL before they may
// not any more.
void td_gate_measure(struct td_gate *g);
