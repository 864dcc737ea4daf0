// Devices that are held one by one (pool/aside.h decides): those out of service, which a Node's annotation
// tandem.dev/devices-out names, and those that pods of other schedulers have (lend.h). Root's jobs
// `out-of-service-NODE` hold them in Slurm.
//
// Such a job has the admin comment tandem/out/CLUSTER-UID/NODE, by which a complete listing finds it again.
// It is an immediate allocation without a process; only for a device that a job holds, and while the node is
// drained, batch jobs wait.
#pragma once

#include "bridge/bridge.h"

#define TD_ASIDE_MARK "tandem/out/" // its admin comment begins so, which no owner of a job can write

struct td_asides; // has a lock of its own, which is taken last
struct td_asides *td_asides_new(void);
struct td_asides *td_asides_free(struct td_asides *a); // NULL ok

// The node of which the job holds a device; NULL: it is none of these. Points into j.
const char *td_aside_node(const struct td_settings *s, const struct td_slurm_job *j);
// A complete listing has met this job of nobody's ask, and is over; it began then (mono, ms).
void td_aside_found(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j);
void td_asides_listed(struct td_bridge *b, int64_t began_ms);
// Brings the jobs of a node in line with its annotation. Asks Slurm about nodes only that have such jobs, or shall
// have some. *ret_again: look again soon.
int td_aside_sync(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *n, bool *ret_again,
		  struct td_cancel *c, struct td_error *err);
// Which jobs slurmd's pod there shall queue again, because they hold devices that are to leave service, as in
// TD_ANN_REQUEUE; NULL: none. Caller frees.
char *td_aside_wish(struct td_bridge *b, const char *node);
// aside_end.c: ends those of these jobs that run on the node: pods, and what cannot be queued again. *ret_wish: the
// others. Caller frees.
int td_aside_end_jobs(struct td_bridge *b, struct td_slurm *slurm, const char *node, const int64_t *jobs, size_t n,
		      char **ret_wish, struct td_cancel *c, struct td_error *err);
// The Node is gone: its jobs end, and nothing is kept of it.
int td_aside_gone(struct td_bridge *b, const char *node, struct td_cancel *c, struct td_error *err);
// The devices of a node that are held for nobody's use: "gpu3"; NULL: none. Caller frees.
char *td_aside_text(struct td_bridge *b, const char *node);
// Devices that pods of other schedulers have (lend.h): those that they were told, those that are held for them, and how
// many CPUs the jobs have that hold them.
struct td_aside_lent {
	uint64_t lent, held;
	int64_t cpus;
};
void td_aside_lent(struct td_bridge *b, const char *node, struct td_aside_lent *ret);
// How many devices are held for nobody's use or for such pods, and how many CPUs their jobs hold.
void td_aside_holds(struct td_bridge *b, const char *node, int64_t *ret_devices, int64_t *ret_cpus);
// How many of the node's devices, counted from 0, nobody misses: they are held, or shall be as soon as they can.
int64_t td_aside_unmissed(struct td_bridge *b, const struct td_object *node, int64_t devices);
