// Watches Slurm's jobs on a node for hangs (docs/health.md): watch.c runs as root and decides nothing; look.c does,
// as a job's own user, what needs that user's rights only.
#pragma once

#include "standin/standin.h"

enum { STANDIN_PIDS = 512 };
struct standin_job {
	long long id;
	unsigned uid, gid; // of its first process that is not root's
	int pids[STANDIN_PIDS], n;
	int batch; // a process of the batch script; 0: this is not the job's first node
};
struct standin_signs {
	long long cpu_ms, output, heartbeat; // -1: not known
};

// look.c. Finds the jobs on this node by their processes' cgroups. Returns how many.
int td_standin_jobs(const char *proc, struct standin_job *v, int max);
// Becomes the job's user and looks; the rest of the process must be done with. proc: as /proc.
bool td_standin_become(const char *proc, const struct standin_job *j);
void td_standin_signs(const char *proc, const struct standin_job *j, struct standin_signs *ret);
// Writes what the job's processes do into a new file of its working directory, as its user. signal: to those of them
// that catch it, afterwards; 0: none. ret_path is the file's name; false: there is none, and ret_path
// says why.
bool td_standin_stacks(const struct standin_job *j, const char *node, int signal, char *ret_path, size_t n);
