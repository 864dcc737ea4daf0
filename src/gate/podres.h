// Which devices a kubelet gave to which container: its pod-resources socket (List of v1.PodResourcesLister), which is root's.
#pragma once

#include "base/cancel.h"
#include "base/err.h"

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
