// The modes of tandem-standin. Each function returns the exit code of the process. libc only,
// because this runs in any Slurm image.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

int td_standin_init(char **argv); // argv: the command and its arguments
// Becomes argv. Returns a shell's exit codes: 127 not found, 126 not executable.
int td_standin_exec(char **argv);
int td_standin_gate(int argc, char **argv);         // gate.c
int td_standin_task(int argc, char **argv);         // task.c
int td_standin_run(int argc, char **argv);          // run.c
int td_standin_copy(const char *dir);               // copy.c
int td_standin_pause(void);                         // pause.c
int td_standin_first_job_id(int argc, char **argv); // jobid.c
int td_standin_clear_dead(int argc, char **argv);   // dead.c
int td_standin_terminal(int argc, char **argv);     // terminal.c
int td_standin_line_main(int argc, char **argv);    // local.c
int td_standin_lines_main(int argc, char **argv);   // lines.c
int td_standin_uses(int argc, char **argv);         // uses.c
int td_standin_own_net(int argc, char **argv);      // ownnet.c
int td_standin_peer(int argc, char **argv);         // peer.c
int td_standin_watch(int argc, char **argv);        // watch.c
int td_standin_stage(char **argv);                  // stage.c

#define INIT_RECORD_FD 3 // where init writes its exit record when this descriptor is open
// With --log BYTES: the two files of the container's log (log.c).
#define INIT_LOG_FD 4
#define INIT_LOG_OLD_FD 5
// With --stdin: a FIFO of messages for the container's standard input (input.c).
#define INIT_INPUT_FD 6

// local.c. A connection to the socket of a process of the same user; flags: 0, or SOCK_NONBLOCK: then EAGAIN says that too
// many wait there. -1: errno, EACCES for another user's. The caller closes it.
int td_standin_dial_own(const char *path, int flags);
// Writes all of it, and blocks. False: that end is gone.
bool td_standin_put(int fd, const void *data, size_t n);

// log.c. td_standin_log_open() is false when the descriptors are missing; then stdout and stderr stay as they
// are, without stamps. After td_standin_log_at_once(), text without a line end is written at once too, for
// people who look at prompts.
bool td_standin_log_open(long long max);
void td_standin_log_at_once(void);
void td_standin_log_add(int stream, const char *p, size_t n); // 0 stdout, 1 stderr
// Writes what has no line end yet.
void td_standin_log_end(void);

// input.c. A message is a letter, the length of its data in two bytes, and the data: 'd' (bytes),
// 'w' (rows and columns, two bytes each) or 'c' (close). Numbers are little-endian; a message has
// at most PIPE_BUF bytes. The bytes go to a terminal, or to a pipe (terminal false). td_standin_input_open()
// returns 0, or -1 when a descriptor is missing.
int td_standin_input_open(int to, bool terminal);
short td_standin_input_wants(void);   // events to poll INIT_INPUT_FD for
short td_standin_input_blocked(void); // events to poll td_standin_input_to() for
void td_standin_input_move(void);     // moves as much as can be moved
int td_standin_input_to(void);        // the descriptor; -1: closed

// All that the Prolog does ends by then: Slurm drains the node at its PrologEpilogTimeout (src/slurm/conf.c).
enum { STANDIN_PROLOG_MS = 55000 };
// gate.c. One conversation with the agent, until its last word. 0: ok; 1: refused for good; 2:
// "again"; 3: the test of the devices failed; 4: which QOS has the job? 5: a test of several nodes is wanted, why says
// how; 6: about jobs that hang, why has the words; -1: no answer, try again. When it is not 0, why says the reason in words.
enum { STANDIN_SICK = 3, STANDIN_WANTS_QOS = 4, STANDIN_EXCHANGE = 5, STANDIN_HANGS = 6 };
int td_standin_ask(const char *path, const char *request, int64_t deadline_ms, char *why, size_t n_why);

// account.c. Notes for which account a job is, where there is a directory STANDIN_ACCOUNTS (TD_FILTER_JOBS of
// spank/filter.h). Never fails: what is not noted is asked of slurmctld.
#define STANDIN_ACCOUNTS "/run/tandem-accounts"
void td_standin_account(const char *job, const char *account);

// lookup.c. A child process looks up the addresses behind NAME:PORT. The returned descriptor gives
// whole struct standin_addr, then the end of file. The caller closes it, and kills and reaps
// *ret_pid. -1: failed, with errno.
struct standin_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};
int td_standin_lookup(const char *name, pid_t *ret_pid);

// line.c. Small tools that gate and run share.
int64_t td_standin_now_ms(void); // monotonic
// In ms from now, but not after the deadline.
static inline int64_t td_standin_until(int64_t ms, int64_t deadline_ms)
{
	int64_t then = td_standin_now_ms() + ms;
	return then < deadline_ms ? then : deadline_ms;
}
// Reads lines from a socket through a buffer.
struct line_reader {
	int fd;
	size_t len;
	char buf[4096]; // TD_WIRE_LINE
};
// Waits for a line at most until `deadline_ms` (on the clock of td_standin_now_ms()). 1: *ret_line is the next
// line without '\n', valid until the next call. 0: the time is over. -1: the peer is gone (errno 0:
// an orderly end), or its line is too long.
int td_standin_line_read(struct line_reader *r, int64_t deadline_ms, char **ret_line);
// Writes all of s. -1: an error, or the peer has read nothing until `deadline_ms`.
int td_standin_line_write(int fd, const char *s, int64_t deadline_ms);

// command.c. Runs a command and returns its exit status (128 + signal) with all that it wrote on
// stdout (and, with `errors`, on stderr) in *ret, which the caller frees. The command is killed at
// the deadline. -1: it could not be started or did not end; why says the reason in words.
int td_standin_command(char *const argv[], bool errors, int64_t deadline_ms, char **ret, char *why, size_t n_why);
// command.c. Runs a command whose answer does not matter; a failure is said on stderr, after "tandem <who>: ".
bool td_standin_act(const char *who, char *const argv[], int64_t deadline_ms);
// command.c. The stdout of `scontrol … --json`; argv has at least three words. The caller frees it.
// NULL: the command failed; why says the reason in words.
char *td_standin_output(char *const argv[], int64_t deadline_ms, size_t *ret_len, char *why, size_t n_why);
// jobname.c. The job as scontrol, scancel and sacctmgr take it: a task of an array as "10_3", because the last task's own id is
// all tasks' (docs/facts/slurm.md S-H10, S-J16, S-A16). ended: slurmdbd is asked, not slurmctld. False: not known.
bool td_standin_job_name(const char *id, bool ended, int64_t deadline_ms, char *ret, size_t n);
// The same of "12|10_3\n…" (pure).
bool td_standin_job_name_read(const char *text, const char *id, char *ret, size_t n);
// The same of a job that must end here, whatever Slurm says: where that is not known, its id.
void td_standin_job_or_id(const char *id, int64_t deadline_ms, char *ret, size_t n);
// unlucky.c. Queues a job whose devices failed their test again, or holds it after as many tries (0: never).
struct standin_unlucky {
	const char *job, *node, *why;
	long long tries;
	int64_t deadline_ms;
};
bool td_standin_unlucky(const struct standin_unlucky *u); // true: Slurm has queued it again, or holds it
// The job's next admin comment, from the one that it has ("" or NULL: none). Returns how often it failed by now.
long long td_standin_unlucky_text(const char *was, const char *node, const char *why, char *out, size_t n);
// soon.c. Lets a job that was queued again start when it has left its nodes. A process of its own sees to that, which
// outlives the caller, and its group.
void td_standin_soon(const char *job);
// What that process does next. Pure; s is zeroes at first. state: as squeue says it, "": it lists the job no more.
// begin: of the job, not before then; seconds since 1970.
struct standin_soon {
	bool left;     // it has ended the run in which it was queued again
	bool accepted; // the begin was set
};
enum standin_soon_step { STANDIN_SOON_LOOK, STANDIN_SOON_SET, STANDIN_SOON_DONE };
enum standin_soon_step td_standin_soon_step(struct standin_soon *s, const char *state, long long begin, long long now);
// job.c. Whether a job with this comment (NULL: none) stands in for a pod. A hint, because its owner may write it.
bool td_standin_is_pods(const char *comment);
// job.c. Asks slurmctld for the GPUs of a job on a node, as indexes ("0-1,4"). 1: they are in out.
// 0: it has none. -1: unknown; why says the reason in words.
struct standin_text {
	char *s; // n bytes
	size_t n;
};
int td_standin_job_gpus(const char *job, const char *node, int64_t deadline_ms, struct standin_text out, char *why,
			size_t n_why);
// The same of the hundredths of a GPU that the job has on the node, of several GPUs the most; 0: it has GPUs whole, or
// none.
int td_standin_job_share(const char *job, const char *node, int64_t deadline_ms, struct standin_text out, char *why,
			 size_t n_why);
// The same from the text of `scontrol show job --json`, which need not end with NUL.
int td_standin_job_share_read(const char *json, size_t len, long long job, const char *node, char *out, size_t n);
int td_standin_job_gpus_read(const char *json, size_t len, long long job, const char *node, char *out, size_t n);

// job.c. Asks slurmctld for a text of a job's record, such as "qos". 1: it is in out; 0: it is empty; -1: unknown, why
// says the reason in words. As far as it fits; control characters are blanks.
int td_standin_job_text(const char *job, const char *field, int64_t deadline_ms, struct standin_text out, char *why,
			size_t n_why);
// The same from the text of `scontrol show job --json`.
int td_standin_job_text_read(const char *json, size_t len, long long job, const char *field, struct standin_text out);

// selftest.c. The job that tests a node.
int td_standin_selftest(int argc, char **argv);
// measure.c: MB in a second; 0: it could not be measured. dir: on the disk.
struct td_measured {
	double memory, disk_write, disk_read;
};
void td_standin_measure(const char *dir, struct td_measured *ret);
// jobid.c. Reads the last job id from the first bytes of a job_state. False: the form is unknown.
bool td_standin_job_state_id(const uint8_t *head, size_t n, uint32_t *ret);

// upgrade.c. Reads a whole head: 101 and the value of Sec-WebSocket-Accept, or the status of the
// refusal. Who does not say `Authorization: token TOKEN` gets 401 whatever else he says.
int td_standin_upgrade_read(const char *head, size_t n, const char *token, char ret_accept[29]);
#define STANDIN_FRAME_MAX 65535
struct standin_frame {
	int op;              // 1 text, 2 bytes, 8 end, 9 and 10 ping and pong
	const uint8_t *data; // unmasked, in the bytes that were read
	size_t n;
};
// The frame at p: its length in bytes. 0: it is not all there. -1: none that a browser would send.
long td_standin_frame_read(uint8_t *p, size_t n, struct standin_frame *ret);
// The head of a frame of ours, of at most 65535 bytes. Returns its length.
size_t td_standin_frame_head(int op, size_t n, uint8_t ret[4]);

// proof.c. By Slurm's key Tandem's programs on Slurm's nodes know each other.
struct standin_key {
	uint8_t s[4096];
	size_t n;
};
bool td_standin_key_read(const char *path, struct standin_key *ret);
// HMAC-SHA1 of a text of less than so many bytes, in hexadecimal.
#define STANDIN_PROOF_TEXT 320
void td_standin_proof(const struct standin_key *key, const char *text, char ret[41]);
bool td_standin_random(char ret[33]); // 16 random bytes in hexadecimal
void td_standin_sha1(const void *data, size_t n, uint8_t out[20]);

// several.c. Tests the job's nodes together where this is the first of several and a policy wants it. False: the test
// failed, and the job leaves its nodes.
struct standin_several {
	const char *job, *node, *path; // path: the gate's socket
	const char *request;           // the fields of a request that say who the job is
	int64_t deadline_ms;           // of the whole Prolog
};
bool td_standin_several(const struct standin_several *s);
// blame.c. The first name of a list such as "n[0-1,3],x".
void td_standin_first_host(const char *list, char *out, size_t n);

// exchange.c. 0: all is well, why says in what time. 1: ret_node is to blame, and its agent was told if it can be
// reached. -1: no test took place, or nobody is known to be to blame.
struct standin_exchange {
	const char *job, *nodes; // nodes: as Slurm lists them
	const char *storage;     // a directory of shared storage; "": none
	const char *key;         // path of Slurm's key; NULL: where it is in slurmd's pod
	long long kib;           // of data
	int64_t deadline_ms;     // it has returned by then
};
int td_standin_exchange(const struct standin_exchange *x, char *ret_node, size_t n_node, char *why, size_t n_why);
// The same of idle nodes. It does not go on when somebody has work on one of them, and blames nobody then.
struct standin_idle {
	const char *nodes, *first; // names with commas; the one that leads
	const char *key;           // as above
	long long kib;             // of data
	double least;              // MB in a second, which each pair must reach; 0: none
	int percent;               // of the median of three pairs or more, which each must; 0: it is not compared
	bool (*go_on)(void *ctx);  // is it still wanted? asked before each step
	void *ctx;
	int64_t deadline_ms; // it has returned by then
};
struct standin_idle_said {
	char node[256], partner[256]; // who is to blame, and with whom it was seen; "": nobody
	char a[256], b[256];          // the slowest pair; "": none was measured
	double mbps;                  // of it
	char why[160];
};
enum standin_idle_end { STANDIN_IDLE_PASSED, STANDIN_IDLE_FAILED, STANDIN_IDLE_ENDED, STANDIN_IDLE_ERROR };
enum standin_idle_end td_standin_idle(const struct standin_idle *x, struct standin_idle_said *ret);
// blame.c. Which rate of a pair is too slow; below 0: not known. Pure.
double td_standin_slow_below(const double *mbps, int n, int percent, double least);
// rings.c. Does what the agent wants of that, "ID:KIB:LEAST:PERCENT:n0,n1", in a process of its own, and tells it what came of it.
void td_standin_rings(const char *path, const char *node, const char *text);
