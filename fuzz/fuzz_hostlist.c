// Hostlists, index ranges, tasks of arrays and GRES strings. What the writers write must parse to the same value.
// rows: A7.1
#include "slurm/hostlist.h"
#include "slurm/rest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;

	td_auto_free char *s = td_strndup((const char *)data, size);
	td_auto_strv struct td_strv l = {0}, back = {0};
	if (td_hostlist_parse(s, &l, NULL) == 0) {
		td_auto_free char *w = td_hostlist_write(&l);
		if (td_hostlist_parse(w, &back, NULL) || back.n != l.n)
			abort();
		for (size_t i = 0; i < l.n; i++)
			if (strcmp(l.v[i], back.v[i]) != 0)
				abort();
	}

	struct td_ranges r, q;
	if (td_ranges_parse(s, &r, NULL) == 0) {
		td_auto_free char *w = td_ranges_write(&r);
		if (td_ranges_parse(w, &q, NULL) || memcmp(&r, &q, sizeof(r)) != 0)
			abort();
	}

	struct td_gres g[8];
	size_t n;
	td_slurm_tasks_has(s, 3);
	td_gres_parse(s, g, 8, &n, NULL);
	return 0;
}
