// Child processes: started by posix_spawn only, and every wait for output has a deadline.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// Starts argv (argv[0] is looked up in PATH). The child inherits no blocked, ignored or caught
// signal, and no descriptor but fds[i], which becomes its descriptor i (-1: /dev/null); all other
// descriptors of ours are close-on-exec. An fds[i] below n_fds must already be at its own place.
// `flags` is POSIX_SPAWN_SETPGROUP or POSIX_SPAWN_SETSID; with either, kill(-pid) reaches
// everything that the child starts. envp NULL: our environment. TD_NOT_FOUND: there is no such
// program.
int td_start(char *const argv[], char *const envp[], const int *fds, int n_fds, short flags, pid_t *ret_pid,
	     struct td_error *err);
// Waits for a child that has ended or is about to end. Returns its exit code, or 128 + the signal's
// number.
int td_wait_code(pid_t pid);

// Runs argv (NULL-terminated, argv[0] is looked up in PATH) to its end, with the text `in` as its
// standard input (NULL: /dev/null). Output (stdout and stderr together, about 1 MiB of it at most)
// is appended to *ret_out when that is not NULL, and goes to our stderr otherwise. *ret_status is
// the exit code, or 128 + the signal's number. A child that still runs after timeout_ms is killed,
// with its process group. Errors: TD_NOT_FOUND (no such program), TD_CANCELLED, TD_UNCERTAIN (timed
// out and killed).
int td_run(char *const argv[], const char *in, int64_t timeout_ms, struct td_cancel *cancel, int *ret_status,
	   struct td_buf *ret_out, struct td_error *err);
// Like td_run, but any non-zero exit is TD_INTERNAL, with the last line of the output in the
// message.
int td_run_ok(char *const argv[], int64_t timeout_ms, struct td_cancel *cancel, struct td_error *err);

// Has the process, of which <proc>/PID tells, a handler for the signal? One that has none may be ended by it.
bool td_proc_catches(const char *proc, pid_t pid, int sig);

// Starts argv detached, in a session of its own, with stdin from /dev/null. Appends its stdout and
// stderr to the file log_path.
int td_spawn(char *const argv[], char *const envp[], const char *log_path, pid_t *ret_pid, struct td_error *err);
