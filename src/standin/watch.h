// Watches Slurm's jobs on a node for hangs (docs/health.md): watch.c runs as root and decides nothing; look.c does,
// as a job's own user, what needs that user's rights only.
#pragma once

#include "standin/standin.h"

enum { STANDIN_PIDS = 512, STANDIN_BEAT_PATH = 3300, STANDIN_RANKS = 4096 };
// Of nodes' names.
#define STANDIN_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
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

// The file that this process's TANDEM_HEARTBEAT names. False: it has none.
bool td_standin_heartbeat(const char *proc, int pid, char ret[STANDIN_BEAT_PATH]);

// beat.c. What a rank says of its last step in a file, "STEP SECONDS NODE [GPU]" and a line's end. False: that is not it.
struct standin_beat {
	long long step, us;
	char node[64];
	int gpu; // -1: it does not say
};
bool td_standin_beat(const char *text, struct standin_beat *ret);
// beats.c. The ranks of the job as wire.h has them after "ranks=", as its user; what does not fit is left out.
void td_standin_beats(const char *proc, const struct standin_job *j, char *out, size_t n);
