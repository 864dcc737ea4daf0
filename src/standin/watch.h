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
	long long cpu_ms, output, heartbeat; // -1: not known; heartbeat -2: it names a file that is not there
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

// look.c. The job in the text of a /proc/PID/cgroup (0: none is named by its number), and its directory in the hierarchy of
// cgroup v2; "": there is none.
long long td_standin_uses_cgroup(const char *cgroups, char *ret, size_t n);

// note.c. Of jobs that have ended, "JOB:START:BUSY:IDLE,…", writes what their devices did into their admin comments.
void td_standin_note_all(const char *path, const char *node, const char *list);
struct standin_run {
	bool last, known; // last: no other run of the job came after it; known: it is there
	bool ended;       // the last one has; of it are end (0: it runs) and comment too
	bool whole, said; // the comment is whole; it says what this run's devices did
	long long end;
	char nodes[1024], comment[4096]; // nodes: this run's, where it is known
};
// Reads "JobIDRaw|Start|End|NodeList|AdminComment" of all runs of a job: the one that began at start, and the last one,
// because slurmdbd changes the comment of that one only. False: there is none.
bool td_standin_run_read(const char *text, long long job, long long start, struct standin_run *ret);
// Need a node that is not the job's first keep what its devices did no longer? The first one asks for it, and then writes;
// now: real time, in seconds.
bool td_standin_run_over(const struct standin_run *r, long long now);

// faulted.c. "JOB:text,…", with '_' for ' ' and '~' for '_': keeps in the jobs' admin comments which fault of this node they met, also of those
// that have ended.
void td_standin_faulted(const char *node, const char *list);
// The comment with that sentence (src/pool/said.h). False: it has it, maybe with another figure, or has no room for it, or
// eight of the kind. when: as in a sentence.
struct standin_fault {
	const char *node, *words, *when;
};
bool td_standin_faulted_text(const char *was, const struct standin_fault *f, char *out, size_t n);

// again.c. Queues a job again of which a rank is slow on that node. False: it goes on, because that was done too often.
bool td_standin_again(const char *id, const char *node);

// part.c. Runs a part as the job's user, in a child; what it says is in text. False: it failed, or did not end in time.
enum standin_part { STANDIN_SIGNS, STANDIN_STACKS, STANDIN_BEATS };
enum { STANDIN_BEATS_TEXT = STANDIN_RANKS * 110 }; // all ranks of a job, with the longest names
bool td_standin_as_user(const struct standin_job *j, const char *node, int sig, enum standin_part part, char *text,
			size_t n);

// together.c. A job's other nodes, asked by their servers (peer.h).
struct standin_other {
	char node[64], address[64];
};
enum { STANDIN_GPU_NONE = -1, STANDIN_GPU_UNKNOWN = -2 };
bool td_standin_signs_read(const char *text, struct standin_signs *ret); // "cpu=… output=… beat=…"
// list: all its nodes as Slurm writes them; self is left out. The caller frees *ret. False: slurmctld does not say.
bool td_standin_others_read(const char *list, const char *self, struct standin_other **ret, int *ret_n);
// Adds what the others show: sums, and the greatest use of their devices. False: one of them does not say until end (ms).
bool td_standin_others_signs(const struct standin_other *v, int n, long long job, int64_t end, struct standin_signs *s,
			     int *ret_gpu);
// Has the others write their stacks, too, and appends the files' names.
void td_standin_others_stacks(const struct standin_other *v, int n, long long job, int sig, char *names,
			      size_t n_names);
struct standin_use { // of a run of a job, what its devices did: device seconds
	long long job, start;
	double busy, idle;
};
// Adds what the job's devices did on the others. False: one of them does not say until end (ms).
bool td_standin_others_used(const struct standin_other *v, int n, int64_t end, struct standin_use *u);
// What such a server answers to "used JOB START".
void td_standin_used(const char *gate, const char *node, const char *line, char *ret, size_t n);
// What such a server answers to "signs JOB" and "stacks JOB SIGNAL".
void td_standin_together(const char *gate, const char *node, const char *line, char *ret, size_t n);
