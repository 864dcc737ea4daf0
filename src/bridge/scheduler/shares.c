// Pods that ask for a part of one GPU (annotation slurm.tandem.dev/gpu-share), and what Slurm granted them of it.
//
// Among those who wait such a pod counts as one that wants a whole GPU, because it needs one that is not held whole.
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/want.h"

#include "api/annotations.h"
#include "api/grant.h"
#include "base/names.h"
#include "slurm/hostlist.h"
#include "slurm/view.h"

#include <string.h>

#define GPU_SHARE "annotation " TD_ANN_ASK_PREFIX "gpu-share: "

int td_want_share(const struct td_settings *s, const yyjson_val *pod, struct td_want *w, struct td_error *err)
{
	const char *said = td_jkey_str(td_jget(pod, "metadata.annotations"), td_annotations[TD_ASKS_GPU_SHARE].name);
	long long n;
	if (!said)
		return 0;
	if (!td_parse_i64(said, &n) || n < TD_GPU_LEAST || n > TD_GPU_UNITS)
		return td_fail(err, TD_INVALID,
			       GPU_SHARE "\"%.20s\" is no part of a GPU: write %d to %d, in hundredths", said,
			       TD_GPU_LEAST, TD_GPU_UNITS);
	if (s->devices.dra)
		return td_fail(err, TD_INVALID,
			       GPU_SHARE
			       "devices of ResourceClaims are given out whole (spec.devices[0].source is DRA): "
			       "leave it out");
	if (!w->kinds[0] || w->kinds[1] || !td_streq(w->kinds[0], "gpu") || w->pool.gres[0] != 1)
		return td_fail(err, TD_INVALID,
			       GPU_SHARE "a pod has a part of one GPU, of any type: ask for 1 of %s and for no other "
					 "device, or leave it out",
			       s->devices.resource);
	w->share = (int)n;
	w->ask.tres_per_node = td_arena_printf(w->arena, "gres/" TD_GPU_SHARE ":%lld", n);
	return 0;
}

int td_want_shares_there(const struct td_slurm_nodes *nodes, const struct td_want *w, struct td_error *err)
{
	for (size_t i = 0; w->share && i < nodes->n; i++)
		if (td_devices_of_gres(nodes->v[i].gres, TD_GPU_SHARE) > 0)
			return 0;
	return w->share ? td_fail(err, TD_INVALID,
				  GPU_SHARE "no node gives out parts of its GPUs: set spec.slurm.gpuSharing of a "
					    "NodeSet, or leave it out")
			: 0;
}

int td_devices_share(const struct td_gres *g, size_t n, const char **ret_index)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(g[i].name, TD_GPU_SHARE) && g[i].count > 0) {
			*ret_index = g[i].index;
			return g[i].count > TD_GPU_UNITS ? TD_GPU_UNITS : (int)g[i].count;
		}
	*ret_index = NULL;
	return 0;
}

int td_devices_units(const char *devices)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return TD_GPU_UNITS;
	int share = td_api_grant_share(td_json_root(j));
	return share > 0 ? share : TD_GPU_UNITS;
}
