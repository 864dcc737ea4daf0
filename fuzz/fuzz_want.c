// A SlurmCluster and a pod: what the pod's stand-in asks of Slurm. No string of the pod adds a
// line, and every number is in bounds.
// rows: A6.2
#include "bridge/scheduler/want.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void clean(const char *s)
{
	for (; s && *s; s++)
		if ((unsigned char)*s < ' ')
			abort();
}

// False for input that the API server does not let through: names and uids with control characters,
// and strings of a SlurmCluster that the patterns of its CRD forbid.
static bool possible(const yyjson_val *cluster, const yyjson_val *pod)
{
	static const char *const names[] = {"metadata.namespace", "metadata.name", "metadata.uid"};
	td_auto_free char *text = td_json_text(cluster, NULL);
	bool ok = !strchr(text, '\\');
	for (size_t i = 0; i < TD_LEN(names); i++)
		for (const char *s = td_jstr_or(pod, names[i], ""); *s; s++)
			ok &= (unsigned char)*s >= ' ';
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 14)
		return 0;

	td_auto_free char *text = td_strndup((const char *)data, size);
	int64_t minutes = -1;
	if (td_time_limit(text, &minutes, NULL) == 0 && minutes < 0)
		abort();

	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse((const char *)data, size, &l, NULL) || !l.n)
		return 0;
	const yyjson_val *cluster = td_json_root(l.v[0]), *pod = td_json_root(l.v[l.n > 1]);
	if (!possible(cluster, pod))
		return 0;

	td_auto(td_settings_unref) struct td_settings *s = td_settings_read(cluster);
	td_auto_want struct td_want w = {0};
	if (td_want_read(s, "main", pod, 0, &w, NULL))
		return 0;

	const char *const strings[] = {w.ask.name,        w.ask.account,     w.ask.partition,     w.ask.qos,
				       w.ask.constraints, w.ask.reservation, w.ask.licenses,      w.ask.required_nodes,
				       w.ask.dependency,  w.ask.comment,     w.ask.admin_comment, w.ask.tres_per_node};
	for (size_t i = 0; i < TD_LEN(strings); i++)
		clean(strings[i]);

	if (w.ask.cpus < 0 || w.ask.memory_mb < 0 || w.ask.time_limit_min < 0)
		abort();
	return 0;
}
