// What a pod's state looks like in the API. Pure: pod and object in, JSON out.
#pragma once

#include "kubelet/pods/pod.h"

// What its containers make of the pod: "Pending", "Running", "Succeeded", "Failed", by the rules of the kubelet.
const char *td_status_outcome(const struct td_pod *p, const yyjson_val *pod);
// The same as it is told: Running until the last container (a sidecar, say) is over.
const char *td_status_phase(const struct td_pod *p, const yyjson_val *pod);
// May this terminated container be run again under the pod's restart policy?
bool td_status_restarts(const struct td_pod *p, const struct td_ctr *c, const yyjson_val *pod);
// Every regular init container is over with success and every sidecar has started.
bool td_status_initialized(const struct td_pod *p);
// Why a container that was never started waits: where there are init containers the same for all, themselves included,
// as kubelets say it.
const char *td_status_waiting(const struct td_pod *p);
const char *td_status_qos(const yyjson_val *pod); // "Guaranteed", "Burstable", "BestEffort"
// The status fields that are ours; keeps transition times in p->cond (live: the object's conditions give those a
// restart lost).
struct td_json *td_status_build(struct td_pod *p, const yyjson_val *pod, const char *host_ip, int64_t now_ms);
// Does the live status already say all that?
bool td_status_shown(const yyjson_val *ours, const yyjson_val *live);
// How long a container waits before it is started again: 0 at first, then 10 s · 2^n, at most 300 s; a run of 10
// minutes resets. *backoff_ms is the length of the wait that was used last and is updated by td_backoff_next when the
// container starts again.
int64_t td_backoff_wait(int64_t *backoff_ms, int64_t started_ms, int64_t finished_ms, int64_t now_ms);
void td_backoff_next(int64_t *backoff_ms);
