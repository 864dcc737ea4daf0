// Input: a YAML stream of an object and a patch, applied as each of the three kinds of patches. The
// results can be written and read again, and a merge patch applied twice gives what it gives once.
// rows: F1.2
#include "api/kinds.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void readable(const struct td_json *j)
{
	size_t len = 0;
	td_auto_free char *text = td_json_text(td_json_root(j), &len);
	td_auto(td_json_unref) struct td_json *again = NULL;
	if (td_json_parse(text, len, &again, NULL) < 0)
		abort();
	if (len > 64u << 20)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const kinds[][2] = {{"", "Pod"},
					       {"", "ConfigMap"},
					       {"", "Service"},
					       {"apps", "Deployment"},
					       {"policy", "PodDisruptionBudget"}};
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14 || td_yaml_parse((const char *)data, size, &l, NULL) || l.n < 2)
		return 0;

	const yyjson_val *target = td_json_root(l.v[0]), *patch = td_json_root(l.v[1]);
	td_auto(td_json_unref) struct td_json *merged = NULL, *twice = NULL, *ops = NULL;
	if (td_json_merge_patch(target, patch, &merged, NULL) == 0) {
		readable(merged);
		if (td_json_merge_patch(td_json_root(merged), patch, &twice, NULL) < 0 ||
		    !td_jequal(td_json_root(merged), td_json_root(twice)))
			abort();
	}
	if (td_json_patch(target, patch, &ops, NULL) == 0)
		readable(ops);

	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		td_auto(td_json_unref) struct td_json *r = NULL;
		const struct td_kind *k = td_kind_builtin(kinds[i][0], kinds[i][1]);
		if (yyjson_is_obj((yyjson_val *)(uintptr_t)target) && yyjson_is_obj((yyjson_val *)(uintptr_t)patch) &&
		    td_strategic_merge(k->schema, target, patch, &r, NULL) == 0)
			readable(r);
	}
	return 0;
}
