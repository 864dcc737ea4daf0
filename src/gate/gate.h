// The gate at run time: tables of all nodes, who waits for devices, and the sockets that Prolog speaks to
// (standin/wire.h).
//
// Order that makes I2 of docs/protocols.md 1.1 hold (no process starts on a device before its last holder's last
// process is gone): a starter marks itself busy, *then* asks td_gate_may_start; a claimer writes the table, *then* asks
// who is busy. Whatever the interleaving, one of them sees the other.
//
// Files
//   gate.c serve.c gate_priv.h   the gate itself: claims, waiting, sockets; on a table.[ch]: the durable one of a
//   node's holders devices.[ch]                 sets of devices, and what a pod's annotations grant of them held.[ch]
//   the word on the Node object while a gate is stuck metrics.[ch] parts.[ch]      what a gate shows; the threads of an
//   agent main.c agent.h               the role `agent`, beside a real kubelet: pods.c says whether a holder is done,
//   by busy.[ch] (the pure
//                                decision), cgroups.[ch], ask.c (the API and the kubelet) and fence.c (pods that were
//                                not bound yet)
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "gate/table.h"

#define TD_GATE_LATE_MS 5000

struct td_gate;
struct td_gate_site {
	const char *name;    // the node's, in Slurm and in Kubernetes
	const char *sockets; // directory of its gate.sock and task.sock
};
struct td_gate_opts {
	const char *dir;                 // of the tables
	const struct td_gate_site *node; // one for each of the nodes; copied
	int nodes, devices;              // devices of each node
	const struct td_clock *clock;
	// Is a process of this holder left on the node, or one being started? Fills why (short text). Called without a
	// lock held.
	bool (*busy)(void *ctx, int node, const struct td_holder *h, char *why, size_t n);
	// A claim superseded someone on these devices: stop what runs there.
	void (*superseded)(void *ctx, int node, uint64_t mask);
	// Somebody will soon have waited in vain (TD_GATE_LATE_MS before the deadline): the node should be drained with
	// our words before Slurm drains it with its own. May be NULL.
	void (*late)(void *ctx, int node);
	// May a process in these cgroups (/proc/PID/cgroup) claim devices of the node? Prolog runs in slurmd's pod;
	// root on the machine, in no pod, may. Fills why. NULL: every root.
	bool (*may_claim)(void *ctx, int node, const char *cgroups, char *why, size_t n);
	void *ctx;
	const char *boot; // see td_gate_load
};
int td_gate_new(const struct td_gate_opts *o, struct td_gate **ret, struct td_error *err); // loads the tables
struct td_gate *td_gate_free(struct td_gate *g);
int td_gate_nodes(const struct td_gate *g);
const char *td_gate_node_name(const struct td_gate *g, int node);
int td_gate_node_index(const struct td_gate *g, const char *name); // -1: none of its nodes
// Claims and looks once. 0: h holds the devices and nobody earlier is left; TD_THROTTLED: somebody is (err says who),
// try again when something ended; TD_CONFLICT: h itself was superseded.
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
// The second check, at the start of a task: h (its start may be 0) must hold all of the mask already (mask 0: any
// device), and nobody earlier may be left; waits for that like td_gate_acquire. Claims nothing. TD_CONFLICT: h was
// never let in.
int td_gate_check(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h,
		  const struct td_gate_wait *wait, struct td_cancel *c, struct td_error *err);
// What the node says of a pod that has not ended: td_gate_tell, durable when it returns 0.
int td_gate_learn(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h, struct td_error *err);
bool td_gate_may_start(struct td_gate *g, int node, uint64_t mask, const struct td_holder *h);
// Is an earlier holder left on any device of the node that was handed on? Says who: "held by job 7 (pod ml/x still
// runs)".
bool td_gate_held_up(struct td_gate *g, int node, char *ret, size_t n);
void td_gate_kick(struct td_gate *g); // something ended: waiters look again
// Listens on every node's socket and answers until cancel. The tables must be right by then.
int td_gate_serve(struct td_gate *g, struct td_cancel *c, struct td_error *err);
// One request line → holder and mask. Exposed for tests. node: the name that the line must carry.
struct td_gate_request {
	struct td_holder h;
	uint64_t mask;
	int64_t timeout_ms;
	bool ping, check; // check: td_gate_check; h.job is the peer's, not the line's
};
int64_t td_gate_cgroup_job(const char *cgroups); // Slurm's job in the text of a /proc/PID/cgroup; 0: none
int td_gate_parse(const char *line, const char *node, int devices, struct td_gate_request *ret, struct td_error *err);
