// What a machine says of its own GPUs (NVML, sysfs), as its agent writes it on the Node: {"numaNodes": 2, "gpus":
// [{"product": …, "numa": 0, …}, …]}, in the order of the devices. It counts where nobody else says anything. Pure.
#include "operator/operator.h"

#include "base/names.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <string.h>

void td_op_types_told(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus)
{
	const yyjson_val *entry = td_op_node_devices(sc, node);
	const char *label = td_jstr(entry, "typeLabel"), *attribute = td_jstr(entry, "typeAttribute");
	yyjson_val *x, *list = td_op_told(gpus->told, td_op_node_resource(sc, node), gpus->n);
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

enum { PARTS = 8 }; // one digit each

// The GPUs that one is linked with, itself among them; 0: text that is no list.
static uint64_t island(const yyjson_val *gpu, size_t i)
{
	struct td_ranges r;
	const char *peers = td_jstr_or(gpu, "peers", "");
	if (i >= 64 || (*peers && td_ranges_parse(peers, &r, NULL)))
		return 0;
	return (*peers ? r.bits[0] : 0) | 1ULL << i;
}

// Writes a digit for each GPU: its island, in the order of their first GPUs. False: they are none that Slurm can have,
// as all GPUs are linked, or none, or in islands of several sizes.
static bool islands(yyjson_val *list, char ret[TD_OP_NUMA])
{
	uint64_t found[PARTS];
	int n = 0;
	yyjson_val *x;
	size_t i, all;
	char out[TD_OP_NUMA] = "";
	yyjson_arr_foreach (list, i, all, x) {
		uint64_t mine = island(x, i);
		int k = 0;
		while (k < n && found[k] != mine)
			k++;
		if (!mine || k == PARTS || i + 1 >= TD_OP_NUMA)
			return false;
		if (k == n)
			found[n++] = mine;
		out[i] = (char)('0' + k);
	}
	uint64_t seen = 0;
	for (int k = 0; k < n; k++) {
		// One that is of two islands is of none, and a list may name GPUs that there are not.
		if ((seen & found[k]) || __builtin_popcountll(found[k]) * n != (int)all)
			return false;
		seen |= found[k];
	}
	if (n < 2 || n == (int)all)
		return false;
	memcpy(ret, out, sizeof(out));
	return true;
}

void td_op_numa_told(const yyjson_val *sc, const yyjson_val *node, const struct td_op_found *gpus, char ret[TD_OP_NUMA],
		     long long *ret_parts)
{
	yyjson_val *x, *list = td_op_told(gpus->told, td_op_node_resource(sc, node), gpus->n);
	size_t i, n;
	long long parts = td_jint(td_json_root(gpus->told), "numaNodes", 0);
	char out[TD_OP_NUMA] = "";
	*ret = '\0';
	*ret_parts = 0;
	if (!list || parts < 1 || parts > PARTS || gpus->n >= TD_OP_NUMA)
		return;
	if (parts == 1) {
		islands(list, ret);
		return;
	}
	yyjson_arr_foreach (list, i, n, x) {
		long long part = td_jint(x, "numa", -1);
		if (part < 0 || part >= parts)
			return;
		out[i] = (char)('0' + part);
	}
	memcpy(ret, out, sizeof(out));
	*ret_parts = parts;
}
