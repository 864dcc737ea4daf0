// Whole looks at a SlurmCluster, and quiet ones (look.h).
#include "pool/look.h"

enum { NET_MS = 60000, UNSETTLED_MS = 15000, LITTLE_US = 20000, TIMES = 10, JOBS_TIMES = 50 };

bool td_pool_look_whole(const struct td_pool_look *l)
{
	bool due = l->due_ms >= 0 && l->due_ms <= l->age_ms;
	if (l->jobs && (l->age_ms >= UNSETTLED_MS || l->age_ms * 1000 >= (l->cpu_us - LITTLE_US) * JOBS_TIMES))
		return true;
	return l->news || l->failed || l->moving || due || l->age_ms >= (l->unsettled ? UNSETTLED_MS : NET_MS);
}

int64_t td_pool_look_pause_ms(int64_t cpu_us, int64_t ended_ms)
{
	int64_t pause = (cpu_us - LITTLE_US) * TIMES / 1000 - ended_ms;
	return pause > 0 ? pause : 0;
}
