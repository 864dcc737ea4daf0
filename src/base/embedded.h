// Files of the repository that are part of a program: shell, YAML, SQL. tools/embed writes a table
// of them at build time.
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_embedded {
	const char *name; // without the directory: "slurmd.sh"; NULL ends a table
	const char *text; // ends with a NUL that len does not count
	size_t len;
};

// Finds the file of that name. Aborts when the table lacks it: names are literals, and a test uses
// every one.
static inline const struct td_embedded *td_embedded(const struct td_embedded *table, const char *name)
{
	for (; table->name; table++)
		if (!strcmp(table->name, name))
			return table;
	fprintf(stderr, "embedded file %s is missing\n", name);
	abort();
}
