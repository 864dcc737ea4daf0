#pragma once

#include "gate/podhangs.h"
#include "kubelet/kubelet.h"

// Call it once when the tables exist, and with NULL before they are freed.
void td_kubelet_measure(struct td_kubelet *a);
struct td_pod;
// Adds the ids of the containers of a pod that run now.
void td_kubelet_running(struct td_kubelet *a, struct td_pod *p, struct td_strv *ret);
// Which progress a pod shows (gate/podhangs.h).
void td_kubelet_progress(void *kubelet, int node, const struct td_object *pod, struct td_podhangs_signs *ret);
// Opens the container's newest log (the same).
int td_kubelet_log(void *kubelet, const struct td_object *pod, const char *container);
// Lists the processes of the pod's containers (the same).
size_t td_kubelet_pids(void *kubelet, const struct td_object *pod, pid_t *v, size_t max);
