// What gives each job a /tmp and /dev/shm of its own.
#include "slurm/scratch.h"

#include "slurm/containers.h"
#include "slurm/scripts.h"

#include <string.h>

bool td_slurm_scratch(const yyjson_val *o)
{
	return td_jget(o, "spec.scratch") && td_streq(td_jstr_or(o, "spec.scratch.tmp", "private"), "private");
}

// As tmpfs takes it: bytes, or a share (of the machine's memory, of the disk). NULL: it is none.
static char *size(const char *s)
{
	td_auto_free char *number = td_strndup(s, strcspn(s, "%"));
	long long n;
	if (td_ends(s, "%") && strlen(number) + 1 == strlen(s))
		return td_parse_i64(number, &n) && n >= 1 && n <= 100 ? td_strdup(s) : NULL;
	n = td_slurm_bytes(s);
	return n >= 1 << 20 ? td_asprintf("%lld", n) : NULL;
}

char *td_slurm_scratch_most(const yyjson_val *o)
{
	return size(td_jstr_or(o, "spec.scratch.tmpMax", "90%"));
}

void td_slurm_scratch_files(const yyjson_val *o, struct td_slurm_files *ret, struct td_strv *problems)
{
	if (!td_slurm_scratch(o))
		return;
	td_auto_free char *shm = size(td_jstr_or(o, "spec.scratch.shmSize", "50%")),
			  *tmp = size(td_jstr_or(o, "spec.scratch.tmpSize", "50%")), *most = td_slurm_scratch_most(o),
			  *line = NULL;
	if (!shm) {
		td_strv_addf(problems,
			     "spec.scratch.shmSize: must be a size of 1Mi or more, such as 16Gi, or a share of "
			     "the machine's memory, 1%% to 100%%");
		return;
	}
	if (!tmp || !most) {
		td_strv_addf(problems,
			     "spec.scratch.%s: must be a size of 1Mi or more, such as 200Gi, or a share of the disk, "
			     "1%% to 100%%",
			     tmp ? "tmpMax" : "tmpSize");
		return;
	}
	if (strstr(td_jstr_or(o, "spec.scratch.path", ""), "..")) {
		td_strv_addf(problems, "spec.scratch.path: must have no \"..\"");
		return;
	}
	// Optional, because login pods need none and may have none. It does not let a task begin that would show its
	// files to others.
	line = td_asprintf("optional /opt/tandem/tandem-scratch.so shm=%s tmp=%s\n", shm, tmp);
	td_slurm_plugstack(ret, line);
}
