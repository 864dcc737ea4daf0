// What the processes of a pod that hangs do, as far as the kernel says it of them, in a line; and a signal to those that
// catch it, which may say more in the pod's own log (Python's faulthandler). An agent without rights over them sees names
// and states, and its signals do nothing. What processes are called is their user's word.
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { TD_PODSTACKS_PIDS = 256, TD_PODSTACKS_TEXT = 400 };

// "python3 S futex_do_wait in futex (12 threads), cat S pipe_read in read of pipe": name, state, where in the kernel and in
// which system call of each thread, the same ones together, the most frequent ones first. proc: as /proc.
void td_podstacks_words(const char *proc, const pid_t *v, size_t n, char *ret, size_t size);
// Lists the pod's processes once more. Returns how many; ctx is the caller's.
typedef size_t (*td_podstacks_pids_f)(void *ctx, pid_t *v, size_t max);
// Sends sig to those of v that have a handler for it, and are still of the pod. Returns to how many.
int td_podstacks_tell(const char *proc, const pid_t *v, size_t n, int sig, td_podstacks_pids_f again, void *ctx);
