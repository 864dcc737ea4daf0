// Devices that are out of service (out.h).
#include "gate/out.h"

#include "base/names.h"
#include "pool/aside.h"

#include <stdlib.h>
#include <string.h>

static uint64_t out_of(const struct td_object *node)
{
	uint64_t mask = 0;
	// What cannot be read takes nothing out: the bridge says so.
	return node && td_pool_aside_read(td_object_annotation(node, TD_ANN_DEVICES_OUT), &mask) ? mask : 0;
}

void td_out_findings(const struct td_object *node, struct td_checkup_findings *l)
{
	uint64_t out = out_of(node), of;
	size_t n = 0;
	for (size_t i = 0; out && i < l->n; i++) {
		bool drop = td_pool_aside_read(l->v[i].device, &of) && of && !(of & ~out);
		if (!drop)
			l->v[n++] = l->v[i];
	}
	if (out)
		l->n = n;
}

uint64_t td_out_less(const struct td_object *node, uint64_t mask)
{
	uint64_t all = 0;
	if (node)
		td_pool_aside_both(td_object_annotation(node, TD_ANN_DEVICES_OUT),
				   td_object_annotation(node, TD_ANN_DEVICES_HOLD), &all);
	return mask & ~all;
}
