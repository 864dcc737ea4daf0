#pragma once

#include "agent/agent.h"

void td_agent_measure(struct td_agent *a); // once, when its tables are there; NULL: before they go
