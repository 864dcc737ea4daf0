// A pod as this agent runs it, and the table of all of them.
//
// Identity and plan (node, address, grant) are fixed before the pod enters the table. Everything else belongs to the
// sync worker that has the pod's key (never two at once): it reads its own fields freely and writes fields that others
// read (marked S) under `mu`; others read S fields under `mu`. What must survive the agent is in the record file
// <home>/agent/pods/<uid>.json, written (by atomic rename, without fsync: when the machine dies the containers die too)
// before the thing it speaks of is done.
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
	int index; // among its kind of list: init containers or containers
	// S:
	enum td_ctr_state state;
	int attempt; // of the current or last run, from 0: also restartCount. -1: never begun
	bool wanted; // begun and not known to be over: the gate counts it as running
	int64_t started_ms;
	bool probe_started; // startup probe passed, or none
	bool probe_ready;   // readiness probe passed, or none
	bool unhealthy;     // liveness or startup probe gave up: to be restarted
	enum td_hook post_start, pre_stop;
	char *unhealthy_why;
	int64_t unhealthy_grace_s; // of the probe that gave up; -1: the pod's
	// worker's own:
	int pidfd;
	char *id; // of the current attempt, once it ran
	char *image_id;
	char *wait_reason, *wait_message;
	struct td_ctr_end end, last; // of the current attempt when TERMINATED; of the one before it
	int64_t backoff_ms;          // length of the last back-off; 0: none yet
	int64_t stop_begun, kill_at; // real ms; 0: not stopping
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

struct td_pod {
	// fixed:
	int refs; // atomic
	char *uid, *ns, *name;
	int node;
	bool host_network;
	struct td_grant grant;
	uint64_t devices; // what it holds in the gate (grant, or own devices); all-devices pods hold none
	int64_t grace_s;
	bool slurmd; // sees all devices: native jobs run in it
	int64_t req_cpu_milli, req_memory;
	struct td_ctr *ctr; // inits (in order), then mains
	size_t n_ctr, n_init;
	pthread_mutex_t mu;
	// S:
	char ip[16];
	bool net_up;
	bool stopping; // nothing is started any more
	bool terminal; // phase Succeeded or Failed was decided and nothing runs
	bool cleaned;  // containers, network and volumes are gone
	// worker's own:
	bool admitted, volumes_ok, recorded;
	char *fail_reason, *fail_message;      // the pod failed as a whole
	char *wait_reason, *wait_message;      // why no container starts yet
	int64_t start_ms, stop_begun, kill_at; // real ms
	bool foreign;                          // was over before we knew it: its status is not ours to write
	int mount_tries;
	bool disk_unlimited; // nothing of it is to be measured (usage.c)
	int64_t disk_at;     // monotonic ms: when it is measured next
	struct {
		bool known, value;
		int64_t since;
	} cond[TD_CONDS];
	struct td_json *written; // status as last written
	struct td_pod *next;     // table
};

struct td_pod *td_pod_ref(struct td_pod *p);
struct td_pod *td_pod_unref(struct td_pod *p);
TD_DEFINE_AUTO(struct td_pod *, td_pod_unref)

// Builds the pod from its API object. TD_INVALID: the grant annotations are wrong.
int td_pod_from_object(const struct td_kubelet *a, const struct td_object *o, int node, struct td_pod **ret,
		       struct td_error *err);
char *td_pod_container_id(const struct td_kubelet *a, const struct td_pod *p,
			  const struct td_ctr *c); // of its current attempt
char *td_pod_netns(const struct td_kubelet *a, const struct td_pod *p);
char *td_pod_dir(const struct td_kubelet *a, const struct td_pod *p); // volumes
char *td_pod_log_dir(const struct td_kubelet *a, const struct td_pod *p);
char *td_pod_log_path(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c, int attempt);
struct td_ctr *td_pod_ctr(const struct td_pod *p, const char *name); // NULL: none
bool td_pod_busy(const struct td_pod *p); // any thread, takes mu: some container runs or is being started
void td_ctr_end_clear(struct td_ctr_end *e);

// ---- table: uid → pod; thread-safe ----
struct td_pod_table *td_pod_table_new(void);
struct td_pod_table *td_pod_table_free(struct td_pod_table *t);
void td_pod_table_add(struct td_pod_table *t, struct td_pod *p); // takes a reference of its own
void td_pod_table_remove(struct td_pod_table *t, const char *uid);
struct td_pod *td_pod_table_get(struct td_pod_table *t, const char *uid);
struct td_pod *td_pod_table_find(struct td_pod_table *t, const char *ns, const char *name); // the newest of that name
// Every pod, as references.
struct td_pods {
	struct td_pod **v;
	size_t n;
};
void td_pod_table_all(struct td_pod_table *t, struct td_pods *ret);
void td_pods_done(struct td_pods *l);
#define td_auto_pods __attribute__((cleanup(td_pods_done)))
// Gives the pod an address of its node, 10.x.<node+1>.2 … .254, least recently used first. TD_THROTTLED: all are in
// use.
int td_pod_table_address(struct td_pod_table *t, const struct td_kubelet *a, struct td_pod *p, struct td_error *err);
// Devices of the node, from `from` on, that no pod in the table holds: n of them, lowest first. TD_THROTTLED: not
// enough.
int td_pod_table_devices(struct td_pod_table *t, struct td_pod *p, int from, int gpus, int n, uint64_t *ret,
			 struct td_error *err);

// ---- records ----
int td_pod_record_save(const struct td_kubelet *a, const struct td_pod *p, struct td_error *err);
int td_pod_record_load(const struct td_kubelet *a, const char *uid, struct td_pod **ret, struct td_error *err);
void td_pod_record_remove(const struct td_kubelet *a, const char *uid);
// At start, before anything else runs: the table from records and what the runtime says; containers without a record
// are removed.
int td_pods_restore(struct td_kubelet *a, struct td_error *err);
