// Input: the head of slurmctld's job_state as the stand-in reads it. The file may be of another
// version, cut off, or no job_state at all.
// rows: A7.4
#include "standin/standin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t id = 7;
	bool known = standin_job_state_id(data, size, &id);
	if (known && size < 35)
		abort();
	if (!known && id != 7)
		abort();
	return 0;
}
