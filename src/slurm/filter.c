// The filter of system calls of a project's native jobs.
#include "slurm/filter.h"

#include "slurm/accounting.h"

void td_slurm_filter_files(const yyjson_val *o, struct td_slurm_files *ret)
{
	// Optional, because login pods need none and may have none. On nodes it lets no task begin that may need a filter
	// and cannot have it.
	if (td_slurm_accounting(o))
		td_slurm_plugstack(ret, "optional /opt/tandem/tandem-filter.so\n");
}
