// A filter of system calls of the site's own: what is let through has an action, and names in every rule.
// rows: D3.9
#include "oci/oci.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *rule;
	size_t i, n;
	if (size > 1 << 13 || td_json_parse((const char *)data, size, &j, NULL) ||
	    td_oci_seccomp_check(td_json_root(j), NULL))
		return 0;
	if (!td_jstr(td_json_root(j), "defaultAction"))
		abort();
	yyjson_arr_foreach (td_jget(td_json_root(j), "syscalls"), i, n, rule)
		if (!yyjson_arr_size(td_jget(rule, "names")) || !td_jstr(rule, "action"))
			abort();
	return 0;
}
