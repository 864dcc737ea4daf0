#include "kubelet/fakegpu.h"

#include "api/selector.h"
#include "base/mem.h"
#include "gate/devices.h"
#include "kubelet/pods/env.h"

#include <string.h>

#define RESOURCE "nvidia.com/gpu"

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

// n bits of mask, after the lowest `skip`.
static uint64_t bits(uint64_t mask, int64_t skip, int64_t n)
{
	uint64_t got = 0;
	for (int i = 0; i < TD_DEV_MAX && n > 0; i++)
		if (mask >> i & 1 && --skip < 0) {
			got |= UINT64_C(1) << i;
			n--;
		}
	return got;
}

uint64_t td_fakegpu_share(uint64_t mask, const yyjson_val *pod_spec, const char *container)
{
	static const char *const lists[] = {"initContainers", "containers"};
	int64_t used = 0;
	for (size_t l = 0; l < TD_LEN(lists); l++) {
		yyjson_val *c;
		size_t i, max;
		yyjson_arr_foreach (td_jget(pod_spec, lists[l]), i, max, c) {
			int64_t n = td_api_container_request(c, RESOURCE);
			if (td_streq(td_jstr(c, "name"), container))
				return bits(mask, used, n);
			if (l || td_streq(td_jstr(c, "restartPolicy"), "Always"))
				used += n > TD_DEV_MAX ? TD_DEV_MAX : n;
		}
	}
	return 0;
}

void td_fakegpu_env(uint64_t mask, struct td_strv *env)
{
	td_auto_buf struct td_buf cuda = {0}, nvidia = {0};
	int n = 0;
	for (int i = 0; i < TD_DEV_MAX; i++)
		if (mask >> i & 1) {
			td_buf_printf(&cuda, "%s%d", n ? "," : "", n);
			td_buf_printf(&nvidia, "%s%d", n++ ? "," : "", i);
		}
	bool image = false;
	for (size_t i = 0; i < env->n; i++)
		image |= td_starts(env->v[i], "NVIDIA_VISIBLE_DEVICES=");
	if (n)
		td_env_set(env, "CUDA_VISIBLE_DEVICES", td_buf_str(&cuda));
	if (n || image)
		td_env_set(env, "NVIDIA_VISIBLE_DEVICES", n ? td_buf_str(&nvidia) : "void");
}
