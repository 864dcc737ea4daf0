#pragma once

#include "gate/gate.h"

void td_gate_measure(struct td_gate *g); // once, when its callbacks can be called; NULL: before they cannot
