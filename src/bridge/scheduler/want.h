// Translates a pod into Slurm's terms: what its stand-in job asks for, whose job it is, and its
// devices. Pure.
#pragma once

#include "bridge/settings.h"
#include "pool/pool.h"
#include "slurm/rest.h"

struct td_want {
	struct td_slurm_ask ask; // strings live in arena
	struct td_pool_want pool;
	const char *kinds[TD_POOL_KINDS]; // of pool.gres: "gpu" or "gpu:h100"
	// excluded_nodes of an immediate allocation: besides, the nodes where it would take
	// something from one that waits. NULL: as in ask. Set by td_ask_fits_now().
	const char *avoid;
	const char *at; // where td_ask_fits_now() has seen room; NULL: nowhere
	const char *on; // the node where it preempts (preempt.h); NULL: anywhere
	bool elsewhere; // it may go to another cluster's nodes only (far/far.h)
	bool raise;     // it goes past those who wait: nobody of them could use this very room (passes.h)
	int share;      // hundredths of its one GPU (shares.c); 0: the whole of its GPUs
	bool apart;     // a gang whose roles may run on different nodes
	bool pack;      // its gang lies on the fewest nodes that can hold it; pool.nodes says how many
	struct td_arena *arena;
};
// Fills everything but excluded_nodes and the script. settings_name: the SlurmCluster, for
// messages. claimed: the number of devices that the pod's ResourceClaims ask for (claims.h).
// TD_INVALID: the pod is refused; err tells its owner what is wrong and how to fix it. TD_NOT_FOUND: it waits until the
// account of its namespace's Tenant is in place.
int td_want_read(const struct td_settings *s, const char *settings_name, const yyjson_val *pod, long long claimed,
		 struct td_want *ret, struct td_error *err);
// The nice of a pod's waiting job: what its annotation says, less a point for each point of its
// priority. Below 0 it takes an operator's rights (S-J5); td_want.ask.nice is then 0.
int td_want_nice(const yyjson_val *pod);
// What a pod of this spec asks for, rounded up; one at least.
int64_t td_want_cpus(const yyjson_val *spec);
int64_t td_want_memory_mb(const yyjson_val *spec);
// Whether the time that the pod named for its begin has not come.
static inline bool td_want_early(const struct td_want *w, int64_t now_ms)
{
	return w->ask.begin * 1000 > now_ms;
}
void td_want_done(struct td_want *w);
#define td_auto_want __attribute__((cleanup(td_want_done)))
// Minutes, rounded up, of "90" (minutes), "1:30" (M:SS), "2:00:00", "1-12", "1-12:30" or
// "1-12:30:00". "UNLIMITED" and "INFINITE" are 0. TD_INVALID for anything else, and for a limit of
// 0.
int td_bridge_time_limit(const char *s, int64_t *ret_min, struct td_error *err);
// The job's name: "<pod name cut to 40 characters>.<uid>". Caller frees. The next one as well.
char *td_bridge_job_name(const char *pod, const char *uid);
// The mark "tandem/<cluster uid>/<namespace>/<name>/<ask uid>" is the comment of every submit. A plain user may
// set only the comment; the admin_comment, which its owner cannot change, follows right after the submit: the same with
// notes instead of the name (td_ask_mark), or without namespace and name, as older bridges wrote it. Prolog reads the
// comment, too.
char *td_comment(const char *cluster_uid, const char *ns, const char *name, const char *uid);
// The UID of the ask that a job stands for, from its admin_comment, or from its comment while the
// admin_comment is empty. Points into j. NULL: not a job of this SlurmCluster.
const char *td_bridge_job_uid(const struct td_slurm_job *j, const char *cluster_uid);
// Anybody may choose a comment: a job that has no admin comment is a pod's of this namespace only if its user
// is the one whom that is given, or the person's whose pod it is.
bool td_bridge_job_stands(const struct td_settings *s, const struct td_slurm_job *j, const char *ns,
			  const char *person);
// Who made the pod, by the name that Kubernetes knows; NULL: nobody is known.
const char *td_want_person(const yyjson_val *pod);

// The devices of a running job on its node, as in the annotation tandem.dev/devices:
// {"nvidia.com/gpu":"0-1"}, sorted by key; of a part of one {"nvidia.com/gpu":"0","share":"30"}. All devices of one GRES are of one resource
// (td_settings_key()), whatever type they have and however the pod asked: an index means one device. TD_INVALID when Slurm does not say which devices (no
// File= in gres.conf). Caller frees.
// node: the Kubernetes node, where several resources are given out (td_settings_key_on()); NULL: it is not known.
int td_devices_text(const struct td_settings *s, const struct td_slurm_job_node *n, const yyjson_val *node, char **ret,
		    struct td_error *err);
// The pod's devices are counted, not exact: a kubelet chooses them, whatever indexes Slurm granted. Returns the resource
// by which it asks that kubelet for them: that of spec.devices, of parts of its GPUs (MIG), or another one of the same GRES.
// NULL: it asks for none.
const char *td_want_counted(const struct td_settings *s, const yyjson_val *pod);
// It asks for nodes that have GPUDirect Storage.
bool td_want_gds(const yyjson_val *pod);
// How many of a resource these devices (in the form of td_devices_text) are; NULL and text in
// another form have 0.
int64_t td_devices_count(const char *devices, const char *resource);
// How many indexes a list has: "0-1,4" has 3. NULL and text that is no list have 0.
int64_t td_devices_indexes(const char *list);
// Reads the pod's word for a part of a GPU, when its GRES are read; TD_INVALID: it cannot have that.
int td_want_share(const struct td_settings *s, const yyjson_val *pod, struct td_want *w, struct td_error *err);
// Refuses (TD_INVALID) a part of a GPU where none of these nodes gives out parts.
int td_want_shares_there(const struct td_slurm_nodes *nodes, const struct td_want *w, struct td_error *err);
// The hundredths of a GPU among a job's GRES on a node, and of which (it points into g); 0: it has no part of one.
struct td_gres;
int td_devices_share(const struct td_gres *g, size_t n, const char **ret_index);
// The hundredths of each device that a grant (in the form of td_devices_text) has: 100 of whole ones.
int td_devices_units(const char *devices);
// How many devices of a kind ("gpu" or "gpu:h100") a GRES text of Slurm's has.
int64_t td_devices_of_gres(const char *gres, const char *kind);
// How many of the devices in a list of indexes are of a kind, on a node whose GRES text this is: Slurm numbers them type
// after type (S-D8).
int64_t td_devices_of_kind(const char *gres, const char *kind, const char *list);
// Refuses (TD_INVALID) what asks for a type of devices that none of these nodes has; err names those that there are.
int td_want_types(const struct td_slurm_nodes *nodes, const struct td_want *w, struct td_error *err);
// Do these devices (in the form of td_devices_text) hold as many of each kind as the pod and its
// claims ask for?
bool td_devices_cover(const struct td_settings *s, const yyjson_val *pod, long long claimed, const char *devices);

// Whether a list such as "a,b" has this name. NULL has none.
bool td_bridge_lists(const char *list, const char *name);
// Slurm's nodes as the pool sees them, in the order of l. feasible[i]: the pod may run on node i. A
// node outside of `partition` (NULL: any; a list with commas: outside of all of them) is not feasible.
// Caller frees *ret; its strings point into l.
void td_bridge_pool_nodes(const struct td_slurm_nodes *l, const bool *feasible, const char *const *kinds,
			  const char *partition, struct td_pool_node **ret);
