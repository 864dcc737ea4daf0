#include "kubelet/pods/admit.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/names.h"

#include <string.h>

static int64_t part_of(const yyjson_val *node, const char *annotation, const char *what, bool milli)
{
	const char *text = td_jkey_str(td_jget(node, "metadata.annotations"), annotation);
	td_auto(td_json_unref) struct td_json *j = NULL;
	int64_t v = 0;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return 0;
	yyjson_val *q = td_jkey(td_json_root(j), what);
	td_auto_free char *num = yyjson_is_num(q) ? td_json_text(q, NULL) : NULL;
	const char *s = num ? num : yyjson_get_str(q);
	if (!s || (milli ? td_quantity_milli(s, &v, NULL) : td_quantity_ceil(s, &v, NULL)))
		return 0;
	return v;
}

// What Slurm gives out there to others than shadows.
static int64_t share_of(const yyjson_val *node, const char *what, bool milli)
{
	return part_of(node, TD_ANN_SHARE, what, milli) - part_of(node, TD_ANN_SHADOW, what, milli);
}

bool td_pod_awaits_shadow(const struct td_pod_admit *x, const yyjson_val *node)
{
	return !x->granted && td_jkey(td_jget(node, "metadata.annotations"), TD_ANN_SHADOW) && x->used_pods < x->pods &&
	       x->used_cpu_milli + x->want_cpu_milli <= x->cpu_milli && x->used_memory + x->want_memory <= x->memory;
}

bool td_pod_awaits_devices(const yyjson_val *node, const char *ns)
{
	const char *text = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_SHADOW);
	td_auto(td_json_unref) struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) &&
	       td_jhas(td_jget(td_json_root(j), "deviceNamespaces"), ns);
}

int td_kubelet_slurm_gpus(const yyjson_val *node, const char *resource)
{
	return (int)share_of(node, resource, false);
}

const char *td_pod_admit(const struct td_pod_admit *x, const yyjson_val *node, char **ret_message)
{
	int64_t cpu = x->cpu_milli, mem = x->memory;
	if (!x->granted) {
		cpu -= share_of(node, "cpu", true);
		mem -= share_of(node, "memory", false);
	}

	const char *of = x->granted ? "" : " beside Slurm's share";

	if (x->used_pods + 1 > x->pods) {
		*ret_message =
			td_asprintf("Node didn't have enough resource: pods, requested: 1, used: %d, capacity: %d",
				    x->used_pods, x->pods);
		return "OutOfpods";
	}

	if (x->want_cpu_milli && x->used_cpu_milli + x->want_cpu_milli > cpu) {
		*ret_message = td_asprintf(
			"Node didn't have enough resource: cpu, requested: %lld, used: %lld, capacity%s: %lld",
			(long long)x->want_cpu_milli, (long long)x->used_cpu_milli, of, (long long)(cpu > 0 ? cpu : 0));
		return "OutOfcpu";
	}

	if (x->want_memory && x->used_memory + x->want_memory > mem) {
		*ret_message = td_asprintf(
			"Node didn't have enough resource: memory, requested: %lld, used: %lld, capacity%s: %lld",
			(long long)x->want_memory, (long long)x->used_memory, of, (long long)(mem > 0 ? mem : 0));
		return "OutOfmemory";
	}

	return NULL;
}
