// What `tandem host` does in both its forms: Slurm's keys on this machine, and one daemon of Slurm that is kept running.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TD_HOST_KEY                                                                                                    \
	"slurm.key" // in dir from before the first start until the machine has left, whoever dies in between
#define TD_HOST_JWKS "slurm.jwks"

// Both keys, each as a file of dir. One that has no bytes is removed. *ret_new becomes true when another one was there.
int td_host_keys_write(const char *dir, const struct td_buf *key, const struct td_buf *jwks, bool *ret_new,
		       struct td_error *err);
void td_host_keys_forget(const char *dir);
bool td_host_key_there(const char *dir);

struct td_host_daemon {
	pid_t pid;          // 0: it does not run
	int64_t not_before; // mono, ms: when it may be started again; 0: it has not ended yet
	int64_t back_ms;    // set it to 0 when it works
};
// SIGTERM, and SIGKILL to one that does not end. Returns when it has ended.
void td_host_daemon_stop(struct td_host_daemon *d);
// True when it has just ended by itself.
bool td_host_daemon_reap(struct td_host_daemon *d, const char *name, int64_t now_ms);
// A site's program, with the machine's name; NULL: none.
int td_host_hook(const char *program, const char *name, struct td_cancel *c, struct td_error *err);

// Logs what is wrong, once: *last is the last complaint, freed by the caller at the end.
void td_host_complain(char **last, const char *text);
// Writes a file as it stands: who has it mounted goes on seeing it.
int td_host_write_in_place(const char *path, const char *text, size_t n, struct td_error *err);
