// A pod's volumes on this machine, and what a container mounts of them. They lie below
// <home>/agent/volumes/<uid>/: v/<volume> (emptyDir, payload), sub/<container>-<i> (pinned
// subPath), term/. A hostPath and a claim are mapped as docs/ARCHITECTURE.md says. Secrets and tokens never
// reach a disk: their volumes are directories of one tmpfs for all pods, because a tmpfs for each
// would cost every pod a mount and an unmount.
#pragma once

#include "kubelet/pods/env.h"
#include "oci/oci.h"

struct td_vol_src {
	const struct td_env_src *env; // the pod, and look-ups
	const char *home, *run;       // of the kubelet
	const char *node;             // "n0"
	const char *dir;              // the pod's volume directory
	int64_t fs_group;             // -1: none
	// Gets a token of the pod's service account. Caller frees it.
	int (*token)(void *ctx, const yyjson_val *pod, const char *audience, int64_t expires_s, char **ret,
		     struct td_error *err);
	// Is the pod's PersistentVolumeClaim there? TD_NOT_FOUND: no.
	int (*claim)(void *ctx, const char *ns, const char *name, struct td_error *err);
	void *api_ctx; // of token and claim
};
// Makes every volume. When called again, it brings payload volumes up to date. The error
// (TD_NOT_FOUND, TD_INVALID) names the volume.
int td_vol_ensure(const struct td_vol_src *s, struct td_error *err);
// Is there a volume whose payload follows other objects, or the pod's own metadata?
bool td_vol_follows(const yyjson_val *pod);
// What volumes and the environment of one pod are made from: sources.c.
struct td_sources {
	struct td_env_src env;
	struct td_vol_src vol;
	char node[16]; // the node's name
	char *dir;     // the pod's directory
};
struct td_mounts {
	struct td_oci_mount *v; // room for max
	size_t max, n;
};
// The mounts of one container, in order, into ret->v; strings live in `arena`. `env` expands
// subPathExpr. Call td_vol_ensure before.
int td_vol_mounts(const struct td_vol_src *s, const yyjson_val *container, const struct td_strv *env,
		  struct td_arena *arena, struct td_mounts *ret, struct td_error *err);
// Adds the copies of data sets that the pod asks for (datasets.c). Strings live in `arena`. TD_NOT_FOUND: the node does
// not hold one; TD_DENIED: it is a group's alone.
struct td_kubelet;
struct td_pod;
int td_pod_dataset_mounts(struct td_kubelet *a, const struct td_pod *p, const struct td_vol_src *s,
			  struct td_arena *arena, struct td_mounts *ret, struct td_error *err);
// Unmounts and removes the pod's directories (`dir` and what belongs to it). It is no error if they
// are absent.
int td_vol_remove(const char *dir, struct td_error *err);
// Where a hostPath lies: the root directory (caller frees) and the path below it.
void td_vol_host_path(const struct td_vol_src *s, const char *path, char **ret_root, const char **ret_rel);
