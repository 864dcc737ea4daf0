#include "api/othercluster.h"

#include "json/json.h"

bool td_api_other_cluster(const yyjson_val *nodeset)
{
	return yyjson_is_obj(td_jget(nodeset, "spec.otherCluster"));
}

const yyjson_val *td_api_other_claim(const yyjson_val *nodeset, const char *ns, const char *claim)
{
	yyjson_val *c;
	size_t i, n;
	yyjson_arr_foreach (td_jget(nodeset, "spec.otherCluster.claims"), i, n, c)
		if (td_streq(td_jstr(c, "namespace"), ns) && td_streq(td_jstr(c, "claim"), claim))
			return c;
	return NULL;
}
