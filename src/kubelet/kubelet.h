// What the parts of the embedded kubelet share. One process serves N virtual nodes.
//
// Threads: one per informer; 8 sync workers (two workers never have the same pod's key); 6 probe
// workers; one watch thread (exits and deadlines); one heartbeat thread; one that looks for pods that
// hang; one hosts worker; one of filters; the connection threads of the HTTP server and of the gate.
// No thread holds a lock over I/O. The one exception is the gate's writer lock per node, which
// exists to keep durable writes in order.
//
// Files
//   main.c nodes.c                the role `kubelet`; the Node objects and their heartbeats
//   health.c                      the nodes' health: boots, reboots, faults of virtual nodes
//   metrics.[ch]                  the role's metrics
//   frames.[ch]                   functions that the processes of a pod that hangs are in
//   watch.[ch]                    process exits and deadlines, in one thread
//   fakegpu.[ch]                  device nodes of fake GPUs
//   accels.[ch]                   which accelerators each node has
//   nics.[ch]                     which RDMA adapters each node has, and their device files
//   realgpu.[ch]                  the machine's own GPUs: device nodes, the driver's files, health
//   pods/pod.[ch] pods/record.c   a pod as this kubelet runs it, the table of pods, records on disk
//   pods/sync.[ch]                the reconcile function of one pod; its parts:
//   pods/admit.[ch]               the check whether a pod fits on its node
//   pods/start.c pods/stop.c      a container's start and stop
//   pods/reap.c                   a container's end
//   pods/probe.c pods/usage.c     probes and lifecycle hooks; disk usage
//   pods/status.[ch]              the pod status written to the API
//   pods/volumes.[ch] pods/files.[ch]   volumes, and the files in them
//   pods/env.[ch] pods/sources.c        environment; what volumes and environment are read from
//   pods/stage.[ch]                     pods whose checkpoints are kept
//   pods/datasets.c                     the copies of data sets that a pod asks for, as mounts
//   pods/hosts.[ch] pods/resolv.c       names: hosts files and resolv.conf
//   pods/filters.[ch]                   NetworkPolicies in force
//   pods/security.[ch] pods/logfile.[ch]   user, groups and capabilities; reading of logs
//   stream/stream.[ch]            what the API server relays to this kubelet:
//   stream/logs.c stream/exec.c stream/attach.c stream/forward.c
//   stream/spdy.[ch]              the protocol of port-forward
#pragma once

#include "base/names.h"
#include "gate/held.h"
#include "gate/nodehealth.h"
#include "kube/controller.h"
#include "kubelet/watch.h"
#include "oci/oci.h"

#include <pthread.h>
#include <stdatomic.h>

// The flags of `tandem kubelet`; tandem-kubelet(8) says what each is.
struct td_kubelet_opts {
	const char *kubeconfig, *home, *run, *id, *images, *memory, *switch_name, *cidr, *api_url, *metrics;
	int nodes, cpus, gpus, device_major;
	bool real_gpus; // the machine's own, `gpus` for each node at most
};

struct td_hosts;
struct td_filters;
struct td_realgpu;
struct td_kubelet_accels;
struct td_pod_table;

struct td_kubelet {
	struct td_kubelet_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_oci *oci;
	struct td_informer *pods, *nodes, *services, *configmaps, *secrets, *policies, *namespaces;
	struct td_queue *queue;  // keys: pod UIDs
	struct td_queue *probes; // keys: "uid container attempt kind"
	struct td_recorder *recorder;
	struct td_cancel *cancel;
	struct td_watch *watch;
	struct td_pod_table *table;
	struct td_gate *gate;
	struct td_held held;
	struct td_hosts *hosts;
	struct td_filters *filters;
	char gateway[16]; // first address of --cidr; also the address of every node
	int subnet;       // second byte of the pods' addresses 10.x.*.*
	int prefix;
	// Memory of one node, in bytes.
	int64_t memory_bytes;
	pthread_mutex_t admit_mu; // one pod after the other is admitted, so that each counts those before it
	pthread_mutex_t hooks_mu; // guards hooks
	pthread_cond_t hooks_idle;
	int hooks; // running hook threads
	struct td_nodehealth *health;
	struct td_realgpu *real;          // NULL: GPUs are fake
	struct td_kubelet_accels *accels; // accels.h
	atomic_ullong down;               // nodes that reboot now: no container of theirs starts
};

// nodes.c: registers the nodes n0 … and sends heartbeats until `c` is cancelled.
int td_kubelet_nodes_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err);
// Writes the Node's labels and status now.
int td_kubelet_node_write(struct td_kubelet *a, int i, struct td_cancel *c, struct td_error *err);

// ---- health.c ----

// The id of a virtual node's boot: the machine's, until it was rebooted by itself. Caller frees.
char *td_kubelet_boot(const struct td_kubelet *a, int node);
// Serves the nodes' health until cancel. td_kubelet_health_open() must have been called before the
// informers start.
void td_kubelet_health_open(struct td_kubelet *a);
int td_kubelet_health_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err);
void td_kubelet_health_close(struct td_kubelet *a);
// How many GPUs a node has.
int td_kubelet_gpus(const struct td_kubelet *a, int node);
// Returns 3 for "n3", and -1 if no node of this process has the name. Thread-safe.
int td_kubelet_node_index(const struct td_kubelet *a, const char *name);
