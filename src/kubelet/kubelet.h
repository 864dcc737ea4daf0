// What the parts of the embedded kubelet share. One process, N virtual nodes.
//
// Threads: one per informer, 8 sync workers (a pod's key is never in two of them), 6 probe workers, one watch thread
// (exits and deadlines), one heartbeat thread, one hosts worker, the HTTP server's and the gate's connection threads.
// No lock is held over I/O, except gate's per-node writer lock, whose only job is to keep durable writes in order.
//
// Files
//   main.c nodes.c metrics.[ch]   the role `kubelet`; its nodes' objects and heartbeats; what it shows
//   watch.[ch] fakegpu.[ch]       ends of processes and deadlines, in one thread; device nodes of fake GPUs
//   pods/pod.[ch] pods/record.c   a pod as it is run, the table of all, and what is on disk of them
//   pods/sync.[ch]                one pod, one step; its parts are pods/admit.[ch] (does it fit), pods/start.c
//   pods/stop.c pods/reap.c
//                                 (a container's start and end), pods/probe.c (probes and hooks), pods/usage.c (disk)
//   pods/status.[ch]              the status that the API is told
//   pods/volumes.[ch] pods/files.[ch] pods/sources.c pods/env.[ch]   volumes, environment, and what both read
//   pods/hosts.[ch] pods/resolv.c pods/security.[ch] pods/logfile.[ch]   names, rights, logs
//   stream/stream.[ch]            what the API server relays: stream/logs.c stream/exec.c stream/attach.c, and
//   stream/forward.c on
//                                 stream/spdy.[ch]
#pragma once

#include "base/names.h"
#include "gate/held.h"
#include "kube/controller.h"
#include "kubelet/watch.h"
#include "oci/oci.h"

#include <pthread.h>

struct td_kubelet_opts {
	const char *kubeconfig, *home, *run, *id, *images, *memory, *switch_name, *cidr, *api_url, *metrics;
	int nodes, cpus, gpus, device_major;
};

struct td_hosts;
struct td_pod_table;

struct td_kubelet {
	struct td_kubelet_opts o;
	const struct td_clock *clock;
	struct td_kube *kube;
	struct td_oci *oci;
	struct td_informer *pods, *nodes, *services, *configmaps, *secrets;
	struct td_queue *queue;  // pod uids
	struct td_queue *probes; // "uid container attempt kind"
	struct td_recorder *recorder;
	struct td_cancel *cancel;
	struct td_watch *watch;
	struct td_pod_table *table;
	struct td_gate *gate;
	struct td_held held;
	struct td_hosts *hosts;
	char gateway[16]; // of --cidr: also the nodes' address
	int subnet;       // second byte of 10.x
	int prefix;
	int64_t memory_bytes;
	pthread_mutex_t hooks_mu; // guards hooks
	pthread_cond_t hooks_idle;
	int hooks; // hook threads that run
};

// nodes.c: registers n0…, heartbeats until cancel. Thread-safe helpers below.
int td_kubelet_nodes_run(struct td_kubelet *a, struct td_cancel *c, struct td_error *err);
int td_kubelet_node_index(const struct td_kubelet *a, const char *name); // "n3" → 3; -1: not one of ours
