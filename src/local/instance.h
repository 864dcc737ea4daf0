// One embedded installation (a "home"): what `up` chose for it, and where its files are
// (docs/ARCHITECTURE.md, runtime contract).
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// The instance owns its strings. Zero-initialise it; td_instance_done() frees it.
struct td_instance {
	char *home;   // $TANDEM_HOME, absolute
	char id[8];   // 6 hex digits, a hash of the home's path
	char *run;    // /run/tandem/<id>
	char *images; // the image store
	int nodes, cpus, gpus;
	char *memory; // a quantity, per node
	bool slurm;
	// metrics_port is the bridge's; the operator's and the kubelet's are the next two, and the
	// gateway listens on the one after these.
	int api_port, knock_port, metrics_port;
	int subnet;       // 10.<subnet>.0.0/16
	int device_major; // of the fake GPUs
	bool real_gpus;   // the machine's own, `gpus` for each node at most
};
void td_instance_done(struct td_instance *i);
#define td_auto_instance __attribute__((cleanup(td_instance_done)))

// Fills only home, id, run and images, from the environment. TD_INVALID when $TANDEM_HOME is not
// absolute.
int td_instance_locate(struct td_instance *ret, struct td_error *err);
// Calls td_instance_locate() and reads <home>/instance.json. TD_NOT_FOUND: it never was up (the
// message says to run "tandem up").
int td_instance_load(struct td_instance *ret, struct td_error *err);
int td_instance_save(const struct td_instance *i, struct td_error *err);
// Chooses a subnet, ports and a device major that nobody else on this machine uses. Keeps values
// that are set and still free. It takes a machine-wide lock.
int td_instance_choose(struct td_instance *i, struct td_error *err);
// After `down`: keeps the API port from the `up` of other homes on this machine (until it restarts), so
// that kubeconfigs that were handed out stay true. keep false: gives it up.
int td_instance_keep_port(const struct td_instance *i, bool keep, struct td_error *err);
// Allows only one `up` or `down` of a home at a time. *ret_fd holds the lock until it is closed. A
// caller that has to wait tells the user on stderr. Errors: TD_NOT_FOUND (no such directory),
// TD_CANCELLED. `c` may be NULL.
int td_instance_lock(const struct td_instance *i, struct td_cancel *c, int *ret_fd, struct td_error *err);
// The process id of the running supervise, or 0.
pid_t td_instance_supervisor(const struct td_instance *i);

// A path below the home. The caller frees it, as with the next two.
char *td_instance_path(const struct td_instance *i, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *td_instance_switch(const struct td_instance *i); // "td<id>"
char *td_instance_kubeconfig(const struct td_instance *i, const char *user);

// A pid file holds "PID START_TICKS" and is written after a start. Reading it gives 0 unless that
// very process lives: a reused pid is recognised. A process whose first thread has ended while
// other threads still hold its sockets counts as living.
int td_pidfile_write(const char *path, pid_t pid, struct td_error *err);
pid_t td_pidfile_read(const char *path);
