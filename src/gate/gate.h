// The gate at run time: the tables of all nodes, those who wait for devices, and the sockets that
// Prolog speaks to (standin/wire.h).
//
// I2 of docs/protocols.md 1.1 (no process starts on a device before the last process of its last
// holder is gone) holds by this order: a starter marks itself busy and then asks td_gate_may_start;
// a claimer writes the table and then asks who is busy. However the two interleave, one sees the
// other.
//
// Any thread may call these functions, except td_gate_new and td_gate_free.
//
// Files
//   gate.c serve.c gate_priv.h   the gate itself: claims, waiting, sockets
//   table.[ch]                   the durable table of a node's holders
//   shares.[ch]                  several holders of a device at once, each with its share of it
//   devices.[ch]                 sets of devices, and what a pod's annotations grant of them
//   held.[ch]                    what the Node object says while a gate is stuck
//   nodehealth.[ch]              what an agent does for its nodes' health
//   met.[ch]                     which jobs met a fault of a device, a link or the node
//   out.[ch]          devices that are out of service
//   agenthealth.c                the same for the node of the role `agent`
//   programs.c                    which programs of the site's an agent has
//   profiles.[ch]                a site's profiles of system calls, brought to the kubelet's directory
//   preflight.[ch]               the quick test of a job's devices before it starts
//   probe.[ch]                   tests of idle nodes, until somebody's work comes
//   rings.[ch]                   tests of several idle nodes together
//   hangs.[ch] stragglers.[ch]   jobs that hang; ranks that are slower than the others
//   podres.[ch]                  which devices the kubelet gave to which container
//   nicplug.[ch]                 adapters of the network for pods: a device plug-in of the kubelet's
//   podcpu.[ch]                  CPU time of the pods of sessions, at /metrics
//   podhangs.[ch]                pods that make no progress
//   podbeats.[ch]                what pods say of that in their logs
//   podstacks.[ch]               what the processes of one that hangs do
//   podframes.[ch]               in which functions those of Python are
//   several.c preflight_priv.h   the test of several nodes together
//   telemetry.[ch]               devices at /metrics: what the checks read, and who holds them
//   useful.[ch]                  what devices do with their time, added up
//   jobuse.[ch]                  the same of native jobs, for Slurm's history
//   used.[ch]                    the same by pod and by service; what a pod says of it
//   metrics.[ch] parts.[ch]      what a gate shows; the threads of an agent
//   main.c agent.h               the role `agent`, beside a real kubelet
//   pods.c busy.[ch]             whether a holder is done; busy.[ch] is the pure decision
//   cgroups.[ch] ask.c fence.c   what decides it: cgroups, the API and the kubelet, and fences for
//                                pods that were not bound yet

#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "gate/table.h"
#include "standin/wire.h"

#define TD_GATE_LATE_MS 5000
#define TD_GATE_NAME 128

struct td_gate;
struct td_gate_request;
struct td_gate_site {
	const char *name;    // the node's, in Slurm and in Kubernetes
	const char *sockets; // directory of its gate.sock and task.sock
};
struct td_gate_opts {
	const char *dir;                 // of the tables
	const struct td_gate_site *node; // one for each node; copied
	int nodes, devices;              // devices: of each node
	const struct td_clock *clock;
	// Is a process of this holder left on the node, or is one being started? Fills why (short
	// text). Called without a lock held.
	bool (*busy)(void *ctx, int node, const struct td_holder *h, char *why, size_t n);
	// A claim superseded somebody on these devices: stop what runs there.
	void (*superseded)(void *ctx, int node, uint64_t mask);
	// Called TD_GATE_LATE_MS before somebody's wait fails. The node should be drained with our
	// words before Slurm drains it with its own. May be NULL.
	void (*late)(void *ctx, int node);
	// May a process in these cgroups (text of /proc/PID/cgroup) claim devices of the node?
	// Prolog runs in slurmd's pod; root on the machine, in no pod, may. Fills why. NULL: root
	// always may.
	bool (*may_claim)(void *ctx, int node, const char *cgroups, char *why, size_t n);
	void *ctx;
	const char *boot; // as for td_gate_load
	// Called when a job's Prolog was let in to these devices: must it be tested, and did it pass? NULL: never.
	// 0, TD_DENIED, TD_NOT_FOUND and *ret_tries: as td_preflight_run.
	int (*preflight)(void *ctx, int node, const struct td_gate_request *q, long long *ret_tries,
			 struct td_cancel *c, struct td_error *err);
	// A request of the test of several nodes or about jobs that hang (td_gate_several). NULL: there is none.
	int (*several)(void *ctx, int node, const struct td_gate_request *q, char **ret, struct td_cancel *c,
		       struct td_error *err);
	// Somebody has claimed devices of the node, begins a task there, or is found to have them. Called without a lock held,
	// when the table has it and before he is let in. False: a test of the node still goes on, so he waits. NULL: nobody
	// wants to know.
	bool (*arrives)(void *ctx, int node);
};
// Loads the tables. The caller frees *ret with td_gate_free.
int td_gate_new(const struct td_gate_opts *o, struct td_gate **ret, struct td_error *err);
struct td_gate *td_gate_free(struct td_gate *g);
const char *td_gate_dir(const struct td_gate *g); // of the tables
int td_gate_nodes(const struct td_gate *g);
const char *td_gate_node_name(const struct td_gate *g, int node);
int td_gate_node_index(const struct td_gate *g, const char *name); // -1: none of its nodes
// Claims and looks once. 0: h holds the devices and no earlier holder is left. TD_THROTTLED: one is
// left (err says which); try again when something has ended. TD_CONFLICT: h itself was superseded.
int td_gate_try(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err);
// How long a caller waits, and how he is told meanwhile what is waited for.
struct td_gate_wait {
	int64_t timeout_ms;
	int (*progress)(void *ctx, const char *text); // NULL: nobody; not 0: ends with TD_CANCELLED
	void *ctx;
};
// As td_gate_try until 0, TD_CONFLICT or the deadline (TD_TRANSIENT).
int td_gate_acquire(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h,
		    const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err);
// The second check, at the start of a task. h (its start may be 0) must already hold all of the
// mask (mask 0: any device), and no earlier holder may be left; waits for that like
// td_gate_acquire. Claims nothing. TD_CONFLICT: h was never let in.
int td_gate_check(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h,
		  const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err);
// Records what the node itself says of a pod that has not ended (td_gate_tell). Durable when it
// returns 0.
int td_gate_learn(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err);
// True while h holds every device of the mask.
bool td_gate_may_start(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h);
// True when an earlier holder is left on any device of the node. ret says who: "held by job 7 (pod
// ml/x still runs)".
bool td_gate_held_up(struct td_gate *g, int node, char *ret, size_t n);
// Who holds a device now; false: nobody whose processes live. Of those who hold parts of it one whose processes do.
bool td_gate_holder(struct td_gate *g, int node, int device, struct td_holder *ret);
// Who holds a device, or held it last; false: nobody that the table knows.
bool td_gate_last(struct td_gate *g, int node, int device, struct td_holder *ret);
// Does the job hold the device, whole or a part of it? It is asked of jobs that live: a table hears of no end.
bool td_gate_job_holds(struct td_gate *g, int node, int device, int64_t job);
// The job that holds a device, or did, and has that name; 0: none.
int64_t td_gate_job_called(struct td_gate *g, int node, const char *sluid);
// Something has ended: those who wait look again.
void td_gate_kick(struct td_gate *g);
// Listens on every node's sockets and answers until cancel. The tables must be right by then.
int td_gate_serve(struct td_gate *g, struct td_cancel *c, struct td_error *err);

// One request, as read from its line (standin/wire.h).
struct td_gate_request {
	struct td_holder h;
	uint64_t mask;
	int64_t timeout_ms;
	bool ping, check; // check: td_gate_check; h.job is then the peer's, not the line's
	char partition[TD_GATE_NAME], qos[TD_GATE_NAME]; // the job's; "": not known
	bool exchange, suspect;                          // of the test of several nodes
	bool hangs, progress;                            // about jobs that hang (hangs.h)
	bool rung;                                       // about a test of several idle nodes (rings.h)
	char id[64];                                     // of it
	int64_t mbps;                                    // which it measured
	bool mine;                                       // use, of the job in whose cgroup the caller is
	bool used, noted;                                // what a job's devices did (jobuse.h)
	bool use;                                        // how much a job's devices compute (hangs.h)
	int64_t nodes;                                   // of the job, which were not all asked; 0: not known
	bool others;                                     // they were
	int64_t gpu_others;                              // percent; -1: no devices, -2: not known
	bool pace;                                       // about ranks that are slow (stragglers.h)
	int64_t part, parts;                             // of what it says, from 0
	char ranks[TD_WIRE_LINE];                        // as td_pool_paces() reads it
	int64_t cpu_ms, output, heartbeat;               // of a job's progress; below 0: not known
	char result[16], state[8], why[160];             // what they say
	char slow[64];                                   // of a suspicion: the node of the rank that is slow
};
// Returns Slurm's job in the text of a /proc/PID/cgroup; 0: none.
int64_t td_gate_cgroup_job(const char *cgroups);
// The same where its directory is called by the job's other name (td_holder.sluid). False: there is none.
bool td_gate_cgroup_sluid(const char *cgroups, char ret[TD_SLUID]);
// Reads a request line. Exposed for tests. node: the name that the line must carry, if it names
// one.
int td_gate_parse(const char *line, const char *node, int devices, struct td_gate_request *ret, struct td_error *err);
