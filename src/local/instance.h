// One embedded installation ("home"): what `up` chose for it, and where its things lie (docs/ARCHITECTURE.md, runtime
// contract).
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// All strings owned. Zero-initialise; td_instance_done frees.
struct td_instance {
	char *home;   // $TANDEM_HOME, absolute
	char id[8];   // 6 hex digits, from the home's path
	char *run;    // /run/tandem/<id>
	char *images; // image store
	int nodes, cpus, gpus;
	char *memory; // quantity per node
	bool slurm;
	int api_port, knock_port,
		metrics_port; // metrics_port: the bridge's; the operator's is the next, the kubelet's the one after
	int subnet;           // 10.<subnet>.0.0/16
	int device_major;     // of the fake GPUs
};
void td_instance_done(struct td_instance *i);
#define td_auto_instance __attribute__((cleanup(td_instance_done)))

// Fills home, id, run and images from the environment; nothing else. TD_INVALID when $TANDEM_HOME is not absolute.
int td_instance_locate(struct td_instance *ret, struct td_error *err);
// Reads <home>/instance.json on top of td_instance_locate. TD_NOT_FOUND: never was up ("run tandem up").
int td_instance_load(struct td_instance *ret, struct td_error *err);
int td_instance_save(const struct td_instance *i, struct td_error *err);
// Chooses subnet, ports and device major that nobody on this machine uses; keeps what is set and still free.
// Machine-wide lock inside.
int td_instance_choose(struct td_instance *i, struct td_error *err);
// One `up` or `down` of a home at a time: *ret_fd holds it until closed; who waits is told so on stderr. TD_NOT_FOUND:
// no such directory; TD_CANCELLED (c may be NULL).
int td_instance_lock(const struct td_instance *i, struct td_cancel *c, int *ret_fd, struct td_error *err);
// The process id of the running supervise, or 0.
pid_t td_instance_supervisor(const struct td_instance *i);

char *td_instance_path(const struct td_instance *i, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));         // below home; caller frees
char *td_instance_switch(const struct td_instance *i); // "td<id>"
char *td_instance_kubeconfig(const struct td_instance *i, const char *user);

// A pid file "PID START_TICKS": written after a start; read gives 0 unless that very process lives (pid reuse is seen;
// one whose first thread has ended while others still hold its sockets lives).
int td_pidfile_write(const char *path, pid_t pid, struct td_error *err);
pid_t td_pidfile_read(const char *path);
