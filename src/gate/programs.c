// The site's programs that an agent may run, by their names (docs/health.md).
#include "gate/nodehealth.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, NAME_MAX_LEN = 63 }; // names: as a NodeAction's spec.program

static int is_name(const struct dirent *e)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t n = strlen(e->d_name);
	return n <= NAME_MAX_LEN && strspn(e->d_name, first) == n && !strchr("_.-", e->d_name[0]);
}

char *td_nodehealth_programs(const char *dir)
{
	struct dirent **l = NULL;
	int n = dir ? scandir(dir, &l, is_name, alphasort) : 0;
	td_auto_buf struct td_buf b = {0};
	for (int i = 0, kept = 0; i < n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, l[i]->d_name);
		if (kept < MOST && access(path, X_OK) == 0)
			td_buf_printf(&b, "%s%s", kept++ ? "," : "", l[i]->d_name);
		free(l[i]);
	}
	free(l);
	return b.len ? td_strdup(td_buf_str(&b)) : NULL;
}
