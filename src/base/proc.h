// Child processes: posix_spawn only, every wait with a deadline.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// Starts argv (argv[0] looked up in PATH) with nothing of us: no blocked, ignored or caught signal, and no descriptor
// (all of ours are CLOEXEC) but fds[i] as its descriptor i (-1: /dev/null; one that is below n_fds itself must be at
// its own place). `flags`: POSIX_SPAWN_SETPGROUP or POSIX_SPAWN_SETSID; either way kill(-pid) reaches what it starts.
// envp NULL: ours. TD_NOT_FOUND: no such program.
int td_start(char *const argv[], char *const envp[], const int *fds, int n_fds, short flags, pid_t *ret_pid,
	     struct td_error *err);
int td_wait_code(pid_t pid); // waits for a child that has ended or is about to: its exit code, or 128 + signal

// Runs argv (NULL-terminated, argv[0] looked up in PATH) to its end. Output (stdout and stderr together, at most 1 MiB
// kept) goes to *ret_out when not NULL, else to our stderr. *ret_status: exit code, or 128 + signal. Killed after
// timeout_ms. TD_NOT_FOUND: no such program; TD_CANCELLED; TD_TRANSIENT: timed out (killed).
int td_run(char *const argv[], const char *in, int64_t timeout_ms, struct td_cancel *cancel, int *ret_status,
	   struct td_buf *ret_out, struct td_error *err);
// As td_run, and any non-zero exit is TD_INTERNAL with the last line of the output in the message.
int td_run_ok(char *const argv[], int64_t timeout_ms, struct td_cancel *cancel, struct td_error *err);

// Starts argv detached in a session of its own with stdin from /dev/null and stdout+stderr appended to log_path.
int td_spawn(char *const argv[], char *const envp[], const char *log_path, pid_t *ret_pid, struct td_error *err);
