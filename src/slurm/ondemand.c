#include "slurm/ondemand.h"

#include <inttypes.h>
#include <string.h>

bool td_slurm_on_demand(const struct td_slurm_facts *f, const char *set)
{
	for (size_t i = 0; i < f->n_on_demand; i++)
		if (td_streq(f->on_demand[i], set))
			return true;
	return false;
}

void td_slurm_on_demand_lines(const yyjson_val *user, const struct td_slurm_facts *f, struct td_buf *b)
{
	if (!f->n_on_demand)
		return;
	char start[24];
	snprintf(start, sizeof(start), "%" PRId64, f->start_s > 0 ? f->start_s : 600);
	// The programs have nothing to do: the operator reads in Slurm's records what is wanted. Without a
	// SuspendTime Slurm starts no node at all (24.11: S-P1); with this one it stops none by itself, neither
	// those on demand, whose time differs from set to set, nor any other.
	const char *const keys[][2] = {{"ResumeProgram", "/bin/true"},
				       {"SuspendProgram", "/bin/true"},
				       {"SuspendTime", "1000000000"},
				       {"ResumeTimeout", start},
				       {"SuspendTimeout", "5"},
				       {"ResumeRate", "0"},
				       {"SuspendRate", "0"}};
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (!td_slurm_conf_get(user, keys[i][0]))
			td_buf_printf(b, "%s=%s\n", keys[i][0], keys[i][1]);
}
