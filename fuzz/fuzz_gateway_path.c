// Input: a path as a person gives it. What is accepted stays below where it is put.
// rows: E1.1
#include "base/mem.h"
#include "gateway/path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_free char *path = td_strndup((const char *)data, size);
	if (td_gateway_path_check(path, NULL))
		return 0;
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, path, '/');
	size_t slashes = 0;
	for (const char *p = path; *p; p++) {
		slashes += *p == '/';
		if ((unsigned char)*p < ' ')
			abort();
	}
	for (size_t i = 0; i < parts.n; i++)
		if (!strcmp(parts.v[i], "..") || !strcmp(parts.v[i], "."))
			abort();
	if (parts.n != slashes + 1)
		abort();
	return 0;
}
