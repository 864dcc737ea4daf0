// Shares of GPUs: what a NodeSet that gives them out (spec.slurm.gpuSharing) adds to Slurm's GRES. Pure.
//
// A GPU is TD_GPU_UNITS of the GRES TD_GPU_SHARE. Slurm knows by itself that a GPU whose units are given out is not to
// be given out as a whole, nor the other way round (docs/facts/slurm.md S-D13).
#include "operator/operator.h"

#include "base/names.h"
#include "slurm/hostlist.h"

bool td_op_shares_wanted(const yyjson_val *nodeset)
{
	return !td_streq(td_jstr_or(nodeset, "spec.slurm.gpuSharing", "None"), "None");
}

void td_op_shares_set(const yyjson_val *nodeset, struct td_op_share *s)
{
	// The parts of a GPU that is cut (MIG) are not parted once more.
	const char *types = s->types;
	char type[64];
	long long n;
	bool cut = false;
	while (td_op_types_next(&types, type, &n))
		cut |= td_gres_is_part(type);
	s->shared = s->gpus > 0 && !cut && td_op_shares_wanted(nodeset);
}

long long td_op_shares_units(const struct td_op_share *s)
{
	return s->shared ? s->gpus * TD_GPU_UNITS : 0;
}

void td_op_shares_write(const struct td_op_share *s, struct td_buf *ret)
{
	if (s->shared)
		td_buf_printf(ret, "," TD_GPU_SHARE ":%lld", td_op_shares_units(s));
}

bool td_op_shares_differ(const char *record_gres, const struct td_op_share *s)
{
	struct td_gres have[32];
	size_t n = 0;
	long long units = 0;
	if (record_gres && td_gres_parse(record_gres, have, TD_LEN(have), &n, NULL))
		return false; // text that cannot be read is no reason to delete anything
	for (size_t i = 0; i < n; i++)
		units += td_streq(have[i].name, TD_GPU_SHARE) ? have[i].count : 0;
	return units != td_op_shares_units(s);
}
