// A session over several nodes (docs/researcher.md): programs are started from its first node on all of them. A small
// server in each other node's pod (worker.c) runs what `tandem-run` and `tandem-rsh` (onnodes.c) say.
//
// TCP. Both ends prove by the session's key (TANDEM_SESSION_KEY) that they belong to it (greet.h), and only then the client says what is to be done. Nothing
// is encrypted, as nothing is that the session's programs say to each other: their network is their own.
// Then frames: a letter, the length of the data in four bytes (the greatest first), and the data.
//   -> r  what to run: texts that each end with NUL: the directory; variables, "=NAME=VALUE" (set it) or "?NAME=VALUE"
//         (set it where there is none); an empty one; the program and its arguments
//   -> i  for its standard input   -> c  that ends   -> s  a signal for it, one byte
//   <- o  from its standard output <- e  from its standard error
//   <- x  it has ended: its exit code, one byte (128 + a signal); nothing follows
// When the client goes, the program is told to end (SIGTERM, then SIGKILL).
#pragma once

#include "standin/standin.h"

enum {
	STANDIN_WORKER_FRAME = 65536,     // of data, at most; of 'r':
	STANDIN_WORKER_REQUEST = 1 << 20, // both are refused when they are longer
	STANDIN_WORKER_HEAD = 5
};

// realloc(), which does not fail.
void *td_standin_more(void *p, size_t n);
// Of a connection between nodes, at both ends: one that has gone without a word is found out within minutes.
void td_standin_worker_tune(int fd);
// The STANDIN_WORKER_HEAD bytes before n bytes of data.
void td_standin_worker_head(uint8_t *ret, char letter, size_t n);
// Waits for the frame's place in the socket's buffer as long as the other end takes something. False: it is gone.
bool td_standin_worker_send(int fd, char letter, const void *data, size_t n);
// One frame from the bytes that came: its whole length. 0: it is not all there. -1: no such frame is ever sent.
struct standin_worker_frame {
	char letter;
	const uint8_t *data;
	size_t n;
};
long td_standin_worker_frame(const uint8_t *p, size_t n, struct standin_worker_frame *ret);
// The parts of a request (pure). They borrow from it. False: it is none.
struct standin_worker_request {
	const char *dir;
	char **env;  // "=NAME=VALUE", NULL at the end
	char **argv; // at least one, NULL at the end
};
bool td_standin_worker_request(const uint8_t *p, size_t n, struct standin_worker_request *ret);
void td_standin_worker_request_done(struct standin_worker_request *r);
// Runs what the client at fd, which is known, asks for, and returns when that has ended. It has the process for itself.
void td_standin_worker_serve(int fd);

// onslurm.c: the same in a session over several machines, whose nodes srun reaches. In an image there is no srun: there
// tandem-run asks a worker outside of the container, at the socket that STANDIN_STEPS names, which runs STANDIN_OUTSIDE with
// the same words. The variables of who asks go along as STANDIN_INSIDE…, so that they mean nothing to srun.
#define STANDIN_STEPS "TANDEM_SESSION_STEPS"
#define STANDIN_OUTSIDE "/proc/self/exe" // the worker's own
#define STANDIN_INSIDE "TANDEM_INSIDE_"
// Connects to it. -1: errno says why.
int td_standin_onslurm_door(const char *path);
// Whether this variable, "NAME=VALUE", goes along (pure): not what Slurm, a node's devices and the rank say.
bool td_standin_onslurm_sends(const char *variable);
bool td_standin_onslurm_here(void);
struct standin_onslurm {
	char *const *hosts; // by rank
	int n_hosts;
	int only; // -1: all
	bool workers, label;
	char **argv; // the program
};
// The option by which srun takes these nodes (pure). Their number; -1: there are none, or it is too long.
int td_standin_onslurm_words(const struct standin_onslurm *w, char *ret, size_t n);
int td_standin_onslurm(const struct standin_onslurm *w); // becomes srun; returns where it cannot
// `on-slurm FIRST CMD…`: the program of one task, whose rank is FIRST and its number in the step.
int td_standin_onslurm_task(int argc, char **argv);

int td_standin_worker(int argc, char **argv);  // worker.c
int td_standin_onnodes(int argc, char **argv); // onnodes.c, as tandem-run
int td_standin_rsh(int argc, char **argv);     // the same, as tandem-rsh
