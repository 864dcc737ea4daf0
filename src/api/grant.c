#include "api/grant.h"

#include "api/selector.h"
#include "base/names.h"
#include "json/json.h"

int td_api_grant_share(const yyjson_val *devices)
{
	long long n;
	const yyjson_val *v = td_jkey(devices, TD_GRANT_SHARE);
	const char *s = yyjson_get_str((yyjson_val *)(uintptr_t)v);
	if (!v)
		return 0;
	return s && td_parse_i64(s, &n) && n > 0 && n <= TD_GPU_UNITS ? (int)n : -1;
}

bool td_api_grant_is_share(const yyjson_val *key)
{
	return td_streq(yyjson_get_str((yyjson_val *)(uintptr_t)key), TD_GRANT_SHARE);
}

bool td_api_grant_is_gpus(const yyjson_val *key)
{
	return !td_api_grant_is_share(key) && !td_streq(yyjson_get_str((yyjson_val *)(uintptr_t)key), TD_NIC_RESOURCE);
}

enum { DEVICES = 64 };

// n bits of mask, after the lowest `skip`.
static uint64_t bits(uint64_t mask, int64_t skip, int64_t n)
{
	uint64_t got = 0;
	for (int i = 0; i < DEVICES && n > 0; i++)
		if (mask >> i & 1 && --skip < 0) {
			got |= UINT64_C(1) << i;
			n--;
		}
	return got;
}

// How many devices a container asks for, whole ones or parts.
static int64_t container_devices(const yyjson_val *c, const char *resource)
{
	yyjson_val *k, *v, *limits = td_jget(c, "resources.limits");
	size_t i, n;
	int64_t sum = 0;
	yyjson_obj_foreach (limits ? limits : td_jget(c, "resources.requests"), i, n, k, v)
		if (td_api_is_device(yyjson_get_str(k), resource))
			sum += td_api_container_request(c, yyjson_get_str(k));
	return sum < DEVICES ? sum : DEVICES;
}

uint64_t td_api_grant_part(uint64_t mask, const yyjson_val *pod_spec, const char *container, const char *resource)
{
	static const char *const lists[] = {"initContainers", "containers"};
	int64_t used = 0;
	for (size_t l = 0; l < TD_LEN(lists); l++) {
		yyjson_val *c;
		size_t i, max;
		yyjson_arr_foreach (td_jget(pod_spec, lists[l]), i, max, c) {
			int64_t n = container_devices(c, resource);
			if (td_streq(td_jstr(c, "name"), container))
				return bits(mask, used, n);
			if (l || td_streq(td_jstr(c, "restartPolicy"), "Always"))
				used += n;
		}
	}
	return 0;
}
