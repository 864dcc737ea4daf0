// A description of a vendor's devices. What is let through names files below /dev, and variables that are words.
// rows: D1.6
#include "accel/accel.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 13 || td_yaml_parse((const char *)data, size, &l, NULL) || l.n != 1)
		return 0;
	const yyjson_val *of = td_json_root(l.v[0]);
	if (td_accel_check(of, NULL))
		return 0;
	td_auto_free char *file = td_accel_usual_file(of, 63), *task = td_accel_task_text(of);
	if (file && (strncmp(file, "/dev/", 5) != 0 || strpbrk(file, " ,[]\n") || strstr(file, "..")))
		abort();
	td_auto_strv struct td_strv env = {0};
	td_accel_variables(of, NULL, 5, &env);
	size_t lines = 0;
	for (const char *s = task; s && *s; s++)
		lines += *s == '\n';
	if (lines != env.n)
		abort();
	return 0;
}
