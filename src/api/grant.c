#include "api/grant.h"

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
