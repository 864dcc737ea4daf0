#include "kubelet/fakegpu.h"

#include "base/mem.h"
#include "gate/devices.h"

size_t td_fakegpu_nodes(uint64_t mask, int node, int major, struct td_arena *a, struct td_oci_device *out)
{
	size_t n = 0;
	for (int i = 0; i < TD_DEV_MAX; i++)
		if (mask >> i & 1)
			out[n++] = (struct td_oci_device){
				.path = td_arena_printf(a, "/dev/tandem-gpu%d", i),
				.type = 'c',
				.major = major,
				.minor = node * TD_DEV_MAX + i,
				.mode = 0666,
			};
	return n;
}
