// Fault points for tests, in debug builds only (-Dfaults=true): TD_FAULT="point:action[:count]" in the environment.
// Actions: crash (SIGKILL to ourselves), fail, delay=MS. A point that is not named costs one branch; release builds have none.
#pragma once

#include <stdbool.h>

#ifdef TD_FAULTS
// True when the caller must behave as if the thing named failed (or its reply was lost).
bool td_fault(const char *point);
#else
static inline bool td_fault(const char *point)
{
	(void)point;
	return false;
}
#endif
