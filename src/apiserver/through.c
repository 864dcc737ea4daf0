// The label tandem.dev/scheduler of a namespace: a new pod there that asks for devices and names no scheduler of its own
// gets that one. So the pods of controllers that cannot be told (Knative, operators of others) stand in Slurm's line. On
// a cluster deploy/examples/through-slurm.yaml does the same.
#include "apiserver/srv.h"

#include "base/names.h"

#include <string.h>

// Does a list of amounts name an extended resource (cpu, memory and the like have no "/")?
static bool extended(yyjson_mut_val *amounts)
{
	yyjson_mut_val *key, *v;
	size_t i, n;
	if (!yyjson_mut_is_obj(amounts))
		return false;
	yyjson_mut_obj_foreach (amounts, i, n, key, v)
		if (strchr(yyjson_mut_get_str(key), '/'))
			return true;
	return false;
}

static bool asks(yyjson_mut_val *o)
{
	if (yyjson_mut_arr_size(td_jm_get(o, "spec.resourceClaims")))
		return true;
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
		if (extended(td_jm_get(c.is, "resources.limits")) || extended(td_jm_get(c.is, "resources.requests")))
			return true;
	return false;
}

void td_srv_through(struct td_req *q, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *own = td_jm_getstr(o, "spec.schedulerName");
	if ((own && *own && strcmp(own, "default-scheduler") != 0) || td_jm_get(o, "spec.nodeName") || !asks(o))
		return;
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	const char *wanted = ns ? td_jkey_str(td_jget(td_item_root(ns), "metadata.labels"), TD_LABEL_SCHEDULER) : NULL;
	if (wanted && *wanted)
		td_jm_str(d, o, "spec.schedulerName", wanted);
}
