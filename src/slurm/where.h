// Finds where a slurmrestd pod listens. Its annotation TD_ANN_REST_ACCESS says "network" (port 6820
// of the pod's address) or "socket" (a socket in a volume of the pod, which only a root that sees
// the node's own files can reach).
#pragma once

#include "base/err.h"
#include "base/names.h"
#include "json/json.h"

#define TD_SLURM_REST_VOLUME "rest" // the pod's emptyDir
// The path in that volume. slurmrestd gives its socket mode 0777, so the directory keeps others
// away.
#define TD_SLURM_REST_SOCKET "private/api.sock"

// Returns the URL for td_slurm_new(). Caller frees. empty_dirs: where emptyDir volumes are on this
// machine, with {uid} for the pod's uid and {name} for the volume's name, such as
// /var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{name}; NULL: not known. NULL on
// failure: TD_TRANSIENT when the pod has no address yet, TD_INVALID for a socket when empty_dirs is
// not known.
char *td_slurm_pod_url(const yyjson_val *pod, const char *empty_dirs, struct td_error *err);
// Can a slurmrestd pod be used? It is Ready, is not being deleted and has an address.
bool td_slurm_pod_usable(const yyjson_val *pod);
struct td_slurm_where {
	const yyjson_val *const *pods; // the slurmrestd pods, in any order
	size_t n;
	const char *current; // the URL in use, kept while a usable pod listens there; NULL: none
	const char *empty_dirs;
};
// Returns the current URL if a usable pod still listens there, else the URL of the first usable pod
// by name. Caller frees. NULL on failure: TD_TRANSIENT when no pod is usable, else as
// td_slurm_pod_url().
char *td_slurm_rest_url(const struct td_slurm_where *w, struct td_error *err);
