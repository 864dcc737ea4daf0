// A pod as this kubelet runs it, and the table of all pods.
//
// Comments group the fields by who may use them. "fixed": set before the pod enters the table. "S"
// (shared): written under `mu` by the sync worker that has the pod's key (two workers never have
// the same key); probe workers and hook threads write the results of probes and hooks there, too.
// The worker reads freely what it alone writes; everybody else reads under `mu`. "worker's own":
// only that sync worker uses them.
// What must survive this process is in the record file <home>/agent/pods/<uid>.json. It is written
// before the thing that it speaks of is done. It is written by atomic rename and without fsync:
// when the machine dies, the containers die too.
#pragma once

#include "gate/devices.h"
#include "kubelet/kubelet.h"
#include "json/json.h"

#include <pthread.h>

enum td_ctr_kind { TD_CTR_INIT, TD_CTR_SIDECAR, TD_CTR_MAIN };
enum td_ctr_state { TD_CTR_WAITING, TD_CTR_RUNNING, TD_CTR_TERMINATED };
enum td_hook { TD_HOOK_NONE, TD_HOOK_RUNNING, TD_HOOK_DONE, TD_HOOK_FAILED };

#define TD_END_LOST "ContainerStatusUnknown"
// How one attempt ended.
struct td_ctr_end {
	bool valid;
	int exit_code, signal;
	int64_t started_ms, finished_ms;
	char *reason, *message, *id;
};

struct td_ctr {
	char *name, *image;
	enum td_ctr_kind kind;
	int index; // index in its list: init containers or containers
	// S:
	enum td_ctr_state state;
	// Number of the current or last attempt, from 0; also restartCount. -1: never begun.
	int attempt;
	// 1 + the attempt whose standard input somebody was given by attach; 0: none.
	int attached;
	// Begun and not known to be over: the gate counts it as running.
	bool wanted;
	int64_t started_ms;
	bool probe_started; // startup probe passed, or there is none
	bool probe_ready;   // readiness probe passed, or there is none
	bool unhealthy;     // liveness or startup probe gave up: restart it
	enum td_hook post_start, pre_stop;
	char *unhealthy_why;
	// Grace period of the probe that gave up; -1: use the pod's.
	int64_t unhealthy_grace_s;
	// worker's own:
	int pidfd;
	char *id; // of the current attempt, once it was begun
	char *image_id;
	char *wait_reason, *wait_message;
	// `end`: of the current attempt when TERMINATED. `last`: of the attempt before it.
	struct td_ctr_end end, last;
	// Length of the last back-off; 0: none yet.
	int64_t backoff_ms;
	// Starts in a row that failed for the machine's trouble, and when the next one is due (monotonic).
	int start_tries;
	int64_t start_due;
	int64_t stop_begun, kill_at; // real time in ms; 0: not stopping
	bool warned;                 // the signal that the pod asked for was sent
	bool term_sent, killed;
	int fails[3], passes[3]; // S: consecutive results per probe kind
};

enum {
	TD_COND_SCHEDULED,
	TD_COND_INITIALIZED,
	TD_COND_CONTAINERS_READY,
	TD_COND_READY,
	TD_COND_READY_TO_START,
	TD_CONDS
};

// Of td_pod.filter: it has none; nobody knows, as after a restart.
#define TD_FILTER_NONE 0
#define TD_FILTER_UNKNOWN 1

struct td_pod {
	// fixed:
	int refs; // atomic
	char *uid, *ns, *name;
	int node;
	bool host_network;
	bool own_users; // spec.hostUsers is false: it has a user namespace
	struct td_gate_grant grant;
	// What it holds in the gate: the grant's devices, or own devices, which are set under `mu`
	// at admission. A pod with all devices holds none.
	uint64_t devices;
	int64_t grace_s;
	bool slurmd; // sees all devices; native Slurm jobs run in it
	int64_t req_cpu_milli, req_memory;
	struct td_ctr *ctr; // init containers (in order), then main containers
	size_t n_ctr, n_init;
	pthread_mutex_t mu;
	// S:
	char ip[16];
	int users; // 1 + the number of its range of ids, once it has one; 0: none
	bool net_up;
	bool stopping; // nothing is started any more
	// The phase Succeeded or Failed is decided, and nothing runs.
	bool terminal;
	bool cleaned; // containers, network and volumes are gone
	// worker's own (but `admitted` is shared as S fields are):
	bool admitted, volumes_ok, recorded;
	char *fail_reason, *fail_message;      // the pod failed as a whole
	int64_t end_grace_s;                   // what the end of its grant leaves it; -1: not told of
	int end_signal;                        // sent first, if the pod asked for one; 0: none
	int64_t end_signal_s;                  // so long before TERM
	char *wait_reason, *wait_message;      // why no container starts yet
	int64_t start_ms, stop_begun, kill_at; // real time in ms
	// It was over before this process knew it: its status is not ours to write.
	bool foreign;
	int mount_tries;
	int64_t devices_since; // monotonic ms since when it waits for its devices; 0: it did not
	bool disk_unlimited;   // it has no disk limit to measure (usage.c)
	int64_t disk_at;       // monotonic ms of the next measurement
	struct {
		bool known, value;
		int64_t since;
	} cond[TD_CONDS];
	uint64_t filter;         // what its network's filter is (filters.c, which says who writes it)
	struct td_json *written; // status as last written
	struct td_pod *next;     // the table's list
};

struct td_pod *td_pod_ref(struct td_pod *p);
struct td_pod *td_pod_unref(struct td_pod *p);
TD_DEFINE_AUTO(struct td_pod *, td_pod_unref)

// Builds the pod from its API object. TD_INVALID: the grant annotations are wrong.
int td_pod_from_object(const struct td_kubelet *a, const struct td_object *o, int node, struct td_pod **ret,
		       struct td_error *err);
// The container id of the current attempt. The caller frees this and the names below.
char *td_pod_container_id(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c);
char *td_pod_netns(const struct td_kubelet *a, const struct td_pod *p);
char *td_pod_dir(const struct td_kubelet *a, const struct td_pod *p); // the volumes' directory
char *td_pod_log_dir(const struct td_kubelet *a, const struct td_pod *p);
char *td_pod_log_path(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c, int attempt);
struct td_ctr *td_pod_ctr(const struct td_pod *p, const char *name); // NULL: none
// Does some container run, or is one being started? Takes `mu`; any thread may call it.
bool td_pod_busy(const struct td_pod *p);
// Was a container of it ever begun? For its sync worker.
bool td_pod_begun(const struct td_pod *p);
void td_ctr_end_clear(struct td_ctr_end *e);

// ---- table: UID → pod; thread-safe ----
struct td_pod_table *td_pod_table_new(void);
struct td_pod_table *td_pod_table_free(struct td_pod_table *t);
// Takes a reference of its own.
void td_pod_table_add(struct td_pod_table *t, struct td_pod *p);
void td_pod_table_remove(struct td_pod_table *t, const char *uid);
// Both return a reference; NULL: none. If several pods had the name, the newest is found.
struct td_pod *td_pod_table_get(struct td_pod_table *t, const char *uid);
struct td_pod *td_pod_table_find(struct td_pod_table *t, const char *ns, const char *name);
// A list of references.
struct td_pods {
	struct td_pod **v;
	size_t n;
};
void td_pod_table_all(struct td_pod_table *t, struct td_pods *ret);
void td_pods_done(struct td_pods *l);
#define td_auto_pods __attribute__((cleanup(td_pods_done)))
// Gives the pod an address of its node, 10.x.<node+1>.2 … .254, the least recently used first.
// TD_THROTTLED: all addresses are in use.
int td_pod_table_address(struct td_pod_table *t, const struct td_kubelet *a, struct td_pod *p, struct td_error *err);
// Gives the pod, which wants a user namespace, the lowest range of ids that no other pod of this home has. It keeps it
// until it is cleaned. TD_THROTTLED: all are in use.
int td_pod_table_users(struct td_pod_table *t, struct td_pod *p, struct td_error *err);
// The machine's uid and gid of the pod's root; 0: it has no user namespace.
uint32_t td_pod_users(const struct td_kubelet *a, const struct td_pod *p);
// Gives the pod n devices of its node, numbered from `from` up to gpus-1, that no pod in the table
// holds, the lowest first. TD_THROTTLED: not enough are free.
int td_pod_table_devices(struct td_pod_table *t, struct td_pod *p, int from, int gpus, int n, uint64_t *ret,
			 struct td_error *err);

// ---- records ----
// Writes the pod's record. TD_TRANSIENT: it could not be written.
int td_pod_record_save(const struct td_kubelet *a, const struct td_pod *p, struct td_error *err);
// Builds a pod from its record. TD_NOT_FOUND: there is none; TD_INVALID: it is wrong.
int td_pod_record_load(const struct td_kubelet *a, const char *uid, struct td_pod **ret, struct td_error *err);
void td_pod_record_remove(const struct td_kubelet *a, const char *uid);
// Called at start, before anything else runs. Fills the table from the records and from what the
// runtime says. Containers without a record are removed.
int td_pods_restore(struct td_kubelet *a, struct td_error *err);
