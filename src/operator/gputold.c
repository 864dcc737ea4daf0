// What a machine says of its own GPUs (NVML, sysfs), as its agent writes it on the Node: {"numaNodes": 2, "gpus":
// [{"product": …, "numa": 0, …}, …]}, in the order of the devices. It counts where nobody else says anything. Pure.
#include "operator/operator.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

void td_op_types_told(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus)
{
	const yyjson_val *entry = td_op_node_devices(sc, node);
	const char *label = td_jstr(entry, "typeLabel"), *attribute = td_jstr(entry, "typeAttribute");
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *x, *list = td_op_told(node, td_op_node_resource(sc, node), gpus->n, &j);
	size_t i, n;
	*gpus->types = '\0';
	// "" says that Slurm shall know no types.
	if (!list || td_streq(label, "") || td_streq(attribute, ""))
		return;
	yyjson_arr_foreach (list, i, n, x) {
		td_auto_free char *type = td_op_gpu_type(sc, td_jstr(x, "product"));
		if (!type || !td_op_types_add(gpus->types, type, 1)) {
			*gpus->types = '\0';
			return;
		}
	}
	if (!td_op_types_together(gpus->types))
		*gpus->types = '\0';
}

void td_op_numa_told(const yyjson_val *sc, const yyjson_val *node, long long gpus, char ret[TD_OP_NUMA])
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *x, *list = td_op_told(node, td_op_node_resource(sc, node), gpus, &j);
	td_auto_buf struct td_buf text = {0};
	size_t i, n;
	long long last = 0;
	*ret = '\0';
	yyjson_arr_foreach (list, i, n, x) {
		long long part = td_jint(x, "numa", -1);
		if (part < 0)
			return;
		last = part > last ? part : last;
		td_buf_printf(&text, "%s%lld", i ? "," : "", part);
	}
	// One NUMA node says nothing that Slurm does not know. With others behind the last one that has GPUs, each
	// would have less of the cores than Slurm's socket, which is then another one.
	if (last && td_jint(td_json_root(j), "numaNodes", 0) == last + 1 &&
	    !td_op_numa_read(td_buf_str(&text), gpus, ret, NULL))
		*ret = '\0';
}
