// What a pod's state looks like in the API. Pure: a pod and its object in, JSON out.
#pragma once

#include "kubelet/pods/pod.h"

// The phase that the containers' states make: "Pending", "Running", "Succeeded" or "Failed", by the
// rules of the kubelet.
const char *td_status_outcome(const struct td_pod *p, const yyjson_val *pod);
// The phase that the API is told: as the outcome, but Running until the last container (a sidecar,
// say) is over.
const char *td_status_phase(const struct td_pod *p, const yyjson_val *pod);
// May this terminated container be run again under the pod's restart policy?
bool td_status_restarts(const struct td_pod *p, const struct td_ctr *c, const yyjson_val *pod);
// Has every regular init container ended with success, and has every sidecar started?
bool td_status_initialized(const struct td_pod *p);
// Why a container that was never started waits. As kubelets say it: where there are init
// containers, the reason is the same for all containers, the init containers included.
const char *td_status_waiting(const struct td_pod *p);
const char *td_status_qos(const yyjson_val *pod); // "Guaranteed", "Burstable", "BestEffort"
// Builds the status fields that are ours. Transition times are kept in p->cond; those that a
// restart of this process lost come from the live object's conditions.
struct td_json *td_status_build(struct td_pod *p, const yyjson_val *pod, const char *host_ip, int64_t now_ms);
// Does the live status already say all of `ours`?
bool td_status_shown(const yyjson_val *ours, const yyjson_val *live);
// How long a container waits before it is started again: 0 at first, then 10 s · 2^n, at most
// 300 s. A run of 10 minutes resets it. *backoff_ms is the length of the wait that was used last;
// td_backoff_next updates it when the container starts again.
int64_t td_backoff_wait(int64_t *backoff_ms, int64_t started_ms, int64_t finished_ms, int64_t now_ms);
void td_backoff_next(int64_t *backoff_ms);
