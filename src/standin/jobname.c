// How scontrol, scancel and sacctmgr take one job. Its id alone is not always that: the last task of an array has the id of all.
#include "standin/standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool td_standin_job_name_read(const char *text, const char *id, char *ret, size_t n)
{
	size_t len = strlen(id);
	for (const char *p = text; p && *p; p += strcspn(p, "\n"), p += *p != 0)
		if (!strncmp(p, id, len) && p[len] == '|') {
			const char *name = p + len + 1;
			size_t k = strcspn(name, "\n");
			if (memchr(name, '+', k)) // a part of a het job: scontrol requeues it by its own id alone
				name = id, k = len;
			snprintf(ret, n, "%.*s", (int)k, name);
			return k && k < n && strspn(name, "0123456789_") >= k;
		}
	return false;
}

bool td_standin_job_name(const char *id, bool ended, int64_t deadline, char *ret, size_t n)
{
	char *text = NULL, why[128];
	char *const now[] = {"squeue", "-h", "-j", (char *)id, "-o", "%A|%i", NULL},
		    *const past[] = {"sacct", "-D", "-X", "-n", "-P", "-j", (char *)id, "-o", "JobIDRaw,JobID", NULL};
	bool ok = !td_standin_command(ended ? past : now, false, deadline, &text, why, sizeof(why)) &&
		  td_standin_job_name_read(text, id, ret, n);
	free(text);
	return ok;
}

void td_standin_job_or_id(const char *id, int64_t deadline, char *ret, size_t n)
{
	if (!td_standin_job_name(id, false, deadline, ret, n))
		snprintf(ret, n, "%s", id);
}
