// Input: a pattern of a schema (the first line) and a text. Every pattern has an answer for every
// text, and the same one twice.
// rows: F1.2
#include "api/schema_priv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = size ? memchr(data, '\n', size) : NULL;
	if (!nl || size > 1 << 14)
		return 0;

	td_auto_free char *pattern = td_strndup((const char *)data, (size_t)(nl - data));
	if (!td_pattern_ok(pattern))
		return 0;
	struct td_pattern p = {.text = pattern};
	const char *text = (const char *)nl + 1;
	size_t n = size - (size_t)(nl + 1 - data);

	if (td_pattern_matches(&p, text, n) != td_pattern_matches(&p, text, n))
		abort();
	td_pattern_done(&p);
	return 0;
}
