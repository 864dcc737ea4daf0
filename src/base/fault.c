#include "base/fault.h"

#ifdef TD_FAULTS
#include "base/cancel.h"
#include "base/mem.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

bool td_fault(const char *point)
{
	const char *spec = getenv("TD_FAULT");
	size_t n = strlen(point);
	if (!spec || strncmp(spec, point, n) != 0 || spec[n] != ':')
		return false;
	const char *action = spec + n + 1, *count = strchr(action, ':');
	static int hits;
	long long limit = 0;
	if (count && td_parse_i64(count + 1, &limit) && __atomic_add_fetch(&hits, 1, __ATOMIC_RELAXED) > limit)
		return false;
	if (td_starts(action, "crash"))
		kill(getpid(), SIGKILL);
	if (td_starts(action, "delay=")) {
		td_cancel_wait(NULL, atoll(action + 6));
		return false;
	}
	return td_starts(action, "fail");
}
#else
typedef int td_fault_unit_is_empty;
#endif
