// Where a slurmrestd pod listens. Its annotation TD_ANN_REST_ACCESS says "socket" (a socket in a volume of the pod,
// which nobody reaches but who sees the node's own files as root) or "network" (port 6820 of its address).
#pragma once

#include "base/err.h"
#include "base/names.h"
#include "json/json.h"

#define TD_SLURM_REST_VOLUME "rest" // the pod's emptyDir
#define TD_SLURM_REST_SOCKET                                                                                           \
	"private/api.sock" // in it; slurmrestd gives its socket mode 0777, so its directory keeps others away

// The URL for td_slurm_new. empty_dirs: where emptyDir volumes lie on this machine, with {uid} (the pod's) and {name}
// (the volume's), such as /var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{name}; NULL: not known. Caller
// frees. NULL: TD_TRANSIENT (the pod has no address yet), TD_INVALID (a socket, and empty_dirs is not known).
char *td_slurm_pod_url(const yyjson_val *pod, const char *empty_dirs, struct td_error *err);
// May a slurmrestd pod be asked? It is Ready, does not end and has an address.
bool td_slurm_pod_usable(const yyjson_val *pod);
struct td_slurm_where {
	const yyjson_val *const *pods; // slurmrestd's, in any order
	size_t n;
	const char *current; // the URL in use, which is kept while one of them listens there; NULL: none
	const char *empty_dirs;
};
// The URL of a usable pod, of several the first by name. Caller frees. NULL: TD_TRANSIENT (none is usable), or as
// td_slurm_pod_url.
char *td_slurm_rest_url(const struct td_slurm_where *w, struct td_error *err);
