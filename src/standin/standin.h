// The modes of tandem-standin. Each returns the process's exit code. libc only: this runs in any Slurm image.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

int standin_init(char **argv);           // argv: the command and its arguments
int standin_exec(char **argv);           // becomes argv, with a shell's exit codes: 127 not found, 126 not executable
int standin_gate(int argc, char **argv); // gate.c
int standin_task(int argc, char **argv); // task.c
int standin_run(int argc, char **argv);  // run.c
int standin_copy(const char *dir);       // copy.c
int standin_first_job_id(int argc, char **argv); // jobid.c
int standin_clear_dead(int argc, char **argv);   // dead.c

#define INIT_RECORD_FD 3 // where init writes its exit record when this descriptor is open
// With --log BYTES: the two files of the container's log (log.c).
#define INIT_LOG_FD 4
#define INIT_LOG_OLD_FD 5
// With --stdin: a FIFO of messages for the container's standard input (input.c).
#define INIT_INPUT_FD 6

// log.c: false: the descriptors are not there, everything is written as before. at_once: also what has no line end yet,
// for people who look at prompts.
bool log_open(long long max);
void log_at_once(void);
void log_add(int stream, const char *p, size_t n); // 0 stdout, 1 stderr
void log_end(void);                                // what has no line end yet

// input.c: messages 'd' (bytes), 'w' (rows and columns, two bytes each), 'c' (close), each with a length of two bytes
// before its data; numbers are little-endian, a message has at most PIPE_BUF bytes. To a terminal, or to a pipe
// (terminal false).
int input_open(int to, bool terminal); // 0; -1: no descriptor
short input_wants(void);               // what to poll INIT_INPUT_FD for
short input_blocked(void);             // what to poll `to` for
void input_move(void);                 // as much as goes
int input_to(void);                    // the descriptor; -1: closed

// gate.c: one conversation with the agent, until its last word. 0: ok; 1: refused for good; 2: "again"; -1: no word,
// try again. why: in words, when it is not 0.
int standin_ask(const char *path, const char *request, int64_t deadline_ms, char *why, size_t n_why);

// lookup.c: the addresses behind NAME:PORT, asked for by a child: whole struct standin_addr, then the end, can be read
// from the descriptor. The caller kills and reaps *ret_pid. -1: errno.
struct standin_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};
int standin_lookup(const char *name, pid_t *ret_pid);

// line.c: small tools shared by gate and run.
int64_t now_ms(void); // monotonic
// Buffered lines from a socket.
struct line_reader {
	int fd;
	size_t len;
	char buf[4096]; // TD_WIRE_LINE
};
// One poll at most until `deadline_ms` (now_ms() time). 1: *ret_line holds the next line without '\n' (valid until the
// next call); 0: time is over; -1: the peer is gone, or its line is too long; errno says why (0: orderly end).
int line_read(struct line_reader *r, int64_t deadline_ms, char **ret_line);
// Writes all of s; a peer that does not read for `deadline_ms` is -1.
int line_write(int fd, const char *s, int64_t deadline_ms);

// command.c: all that a command writes on stdout (and, with `errors`, on stderr); at the deadline it
// is killed. Returns its exit status (128 + signal) with the text in *ret (caller frees); -1: it could
// not be started or did not end, why in words.
int standin_command(char *const argv[], bool errors, int64_t deadline_ms, char **ret, char *why, size_t n_why);
// command.c: the stdout of a `scontrol … --json`; argv: at least three. NULL: it failed, why in
// words. Caller frees.
char *standin_output(char *const argv[], int64_t deadline_ms, size_t *ret_len, char *why, size_t n_why);
// job.c: the GPUs of a job on a node by slurmctld's word, as indexes ("0-1,4"). 1: in out; 0: it has none; -1: not
// known, why in words.
struct standin_text {
	char *s; // n bytes
	size_t n;
};
int standin_job_gpus(const char *job, const char *node, int64_t deadline_ms, struct standin_text out, char *why,
		     size_t n_why);
// The same from the text of `scontrol show job --json`.
int standin_job_gpus_read(const char *json, size_t len, long long job, const char *node, char *out, size_t n);

// jobid.c: the last job id in the first bytes of a job_state. False: it is of no known form.
bool standin_job_state_id(const uint8_t *head, size_t n, uint32_t *ret);
