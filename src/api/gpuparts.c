#include "api/gpuparts.h"

bool td_api_part_read(const yyjson_val *x, struct td_api_part *ret)
{
	enum { SLICES = 32 };
	const char *name = td_jstr_or(x, "name", "");
	long long size = td_jint(x, "size", 0);
	if (!*name || size < 1 || size > SLICES)
		return false;
	*ret = (struct td_api_part){.name = name,
				    .size = (int)size,
				    .at = (uint32_t)td_jint(x, "at", 0),
				    .most = (int)td_jint(x, "most", 0)};
	return true;
}
