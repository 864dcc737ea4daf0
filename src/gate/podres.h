// Which devices a kubelet gave to which container: its pod-resources socket (List of v1.PodResourcesLister), which is root's.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "checkup/checkup.h"
#include "json/json.h"

#include <stddef.h>

// One device of one container.
struct td_podres {
	char ns[64], pod[256], container[64];
	char resource[128], device[128]; // "nvidia.com/gpu", and what its plug-in calls the device
};
struct td_podres_list {
	struct td_podres *v;
	size_t n, cap;
};
void td_podres_done(struct td_podres_list *l);
#define td_auto_podres __attribute__((cleanup(td_podres_done)))
// Reads an answer. TD_INVALID: it is none, or has more than 4096 devices.
int td_podres_read(const void *answer, size_t len, struct td_podres_list *ret, struct td_error *err);
// Asks the kubelet. Errors: as td_grpc_call.
int td_podres_ask(const char *socket, struct td_cancel *c, struct td_podres_list *ret, struct td_error *err);

// How much the GPUs of a pod compute, 0 to 1: the one that does most. granted: the JSON of TD_ANN_DEVICES, which names its
// resources. Below 0: it has none, or one of them is not known: by its UUID, its address at PCIe or its index, as plug-ins
// call devices, or its driver does not say what it does, as of parts (MIG). Pure.
double td_podres_use(const struct td_podres_list *l, const char *ns, const char *pod, const yyjson_val *granted,
		     const struct td_checkup_facts *f);
