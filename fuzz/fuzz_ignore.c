// Input: a path, a new line, and rules of .gitignore.
// rows: E1.2
#include "cli/ignore.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	if (!nl || size > 1 << 12)
		return 0;
	td_auto_free char *path = td_strndup((const char *)data, (size_t)(nl - data)),
			  *rules = td_strndup((const char *)nl + 1, size - (size_t)(nl + 1 - data));
	td_auto(td_ignore_free) struct td_ignore *i = td_ignore_new();
	td_ignore_add(i, "", rules);
	td_ignore_add(i, "a", rules);
	// A rule for directories alone ignores nothing else.
	if (td_ignored(i, path, false) && !td_ignored(i, path, true) && !strchr(rules, '!'))
		abort();
	return 0;
}
