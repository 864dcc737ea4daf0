// A pod in Slurm's words: what its stand-in job asks for. Pure.
#pragma once

#include "bridge/settings.h"
#include "pool/pool.h"
#include "slurm/rest.h"

struct td_want {
	struct td_slurm_ask ask; // its strings live in arena
	struct td_pool_want pool;
	const char *kinds[TD_POOL_KINDS]; // the GRES kinds of pool.gres, "gpu" or "gpu:h100"
	struct td_arena *arena;
};
// Everything but excluded_nodes and the script. claimed: devices that its ResourceClaims ask for (claims.h).
// TD_INVALID: refused; err says what and how to fix it, for the pod's owner.
int td_want_read(const struct td_settings *s, const char *settings_name, const yyjson_val *pod, long long claimed,
		 struct td_want *ret, struct td_error *err);
void td_want_done(struct td_want *w);
#define td_auto_want __attribute__((cleanup(td_want_done)))
// "90", "1:30" (MM:SS), "2:00:00", "1-12", "1-12:30", "1-12:30:00" → minutes, rounded up; "UNLIMITED": 0. TD_INVALID.
int td_time_limit(const char *s, int64_t *ret_min, struct td_error *err);
// "<pod name cut to 40>.<uid>"; caller frees.
char *td_job_name(const char *pod, const char *uid);
// Our mark "tandem/<cluster uid>/<ask uid>": the admin_comment, which the owner cannot change.
char *td_mark(const char *cluster_uid, const char *uid);
// The same with the pod's name, "tandem/<cluster uid>/<namespace>/<name>/<ask uid>": the comment of every submit (a
// plain user may set only that; the admin_comment follows right after it), and what a Prolog is told.
char *td_comment(const char *cluster_uid, const char *ns, const char *name, const char *uid);
// The UID that a job stands for, by its admin_comment; while that is empty by its comment. NULL: not ours.
const char *td_job_uid(const struct td_slurm_job *j, const char *cluster_uid);

// The devices of a running job as in the annotation tandem.dev/devices: {"nvidia.com/gpu":"0-1"}; keys sorted.
// TD_INVALID when Slurm does not say which (no File= in gres.conf). Caller frees.
int td_devices_text(const struct td_settings *s, const struct td_slurm_job_node *n, char **ret, struct td_error *err);
// Its devices are counted and not exact: a kubelet chooses them, whatever Slurm granted.
bool td_want_counted(const struct td_settings *s, const yyjson_val *pod);
// Do these devices (text of td_devices_text) hold as many of each kind as the pod and its claims ask for?
bool td_devices_cover(const struct td_settings *s, const yyjson_val *pod, long long claimed, const char *devices);

// Slurm's nodes as the pool sees them, in the snapshot's order. feasible[i] comes from the caller. Caller frees *ret.
void td_bridge_pool_nodes(const struct td_slurm_nodes *l, const bool *feasible, const char *const *kinds,
			  const char *partition, struct td_pool_node **ret);
