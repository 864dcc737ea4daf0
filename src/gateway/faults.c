// What is wrong with nodes and their devices, as their agents' checks found it (docs/health.md).
#include "gateway/jobs.h"

#include "base/hash.h"
#include "base/names.h"

#include <string.h>

static void add(yyjson_mut_doc *d, yyjson_mut_val *node, const yyjson_val *f)
{
	const char *device = td_jstr_or(f, "device", ""), *message = td_jstr_or(f, "message", "");
	long long index = -1;
	yyjson_mut_val *gpu = td_starts(device, "gpu") && td_parse_i64(device + strlen("gpu"), &index) && index >= 0
				      ? yyjson_mut_arr_get(td_jm_get(node, "gpus"), (size_t)index)
				      : NULL;
	if (!gpu) {
		yyjson_mut_arr_append(td_jm_arr(d, node, "faults"), yyjson_mut_strcpy(d, message));
		return;
	}
	const char *has = td_jm_getstr(gpu, "fault");
	td_auto_free char *all = td_asprintf("%s%s%s", has ? has : "", has ? "; " : "", message);
	td_jm_str(d, gpu, "fault", all);
}

void td_gateway_faults_write(struct td_gateway *g, const char *node, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	td_auto(td_object_unref) struct td_object *n = td_informer_get(g->nodes, NULL, node);
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *text = n ? td_object_annotation(n, TD_ANN_FAULTS) : NULL;
	if (!n)
		return;
	td_jm_str(d, o, "hold", td_object_annotation(n, TD_ANN_HOLD));
	td_jm_str(d, o, "needsPerson", td_object_annotation(n, TD_ANN_PERSON));
	size_t i, m;
	yyjson_val *f;
	if (text && !td_json_parse(text, strlen(text), &j, NULL))
		yyjson_arr_foreach (td_json_root(j), i, m, f)
			add(d, o, f);
}

uint64_t td_gateway_faults_print(struct td_gateway *g, uint64_t h, const char *node)
{
	static const char *const keys[] = {TD_ANN_FAULTS, TD_ANN_HOLD, TD_ANN_PERSON};
	td_auto(td_object_unref) struct td_object *n = td_informer_get(g->nodes, NULL, node);
	for (size_t i = 0; n && i < TD_LEN(keys); i++)
		h = td_hash_str(h, td_object_annotation(n, keys[i]));
	return h;
}
