// Dynamic resource allocation (resource.k8s.io/v1): the devices that a driver publishes for a node,
// ordered by Slurm's indexes. Pure functions, except td_dra_served.
//
// A driver publishes a pool of devices in one or more ResourceSlices of one generation. An integer
// attribute of a device is its index in Slurm; without such an attribute the order of the names is
// (gpu-2 before gpu-10). Indexes must be 0, 1, 2, …: gres.conf names device files by them, and a
// gap would shift every device behind it.
#pragma once

#include "kube/kube.h"

enum { TD_DRA_DEVICES = 1024 }; // of one node, at most

// A namespace needs this label before claims in it may have adminAccess.
#define TD_DRA_ADMIN_LABEL "resource.kubernetes.io/admin-access"
// Without this finalizer nobody clears the allocation of a claim after its pod.
#define TD_DRA_FINALIZER "resource.kubernetes.io/delete-protection"

struct td_dra_device {
	const char *pool, *name; // point into the slices
	long long index;
	const yyjson_val *device; // its entry in the slice
};
struct td_dra_devices {
	struct td_dra_device *v; // v[i] is Slurm's index i
	size_t n;
};
// slices may contain those of other nodes and drivers. attribute NULL orders by name. TD_NOT_FOUND:
// nothing is published, or not all of it yet; the devices are unknown (a driver that is being
// replaced), not gone. TD_INVALID: what is published cannot be mapped; err says what and how to fix
// it. The strings of *ret live as long as the slices.
int td_dra_devices(const struct td_objects *slices, const char *driver, const char *node, const char *attribute,
		   struct td_dra_devices *ret, struct td_error *err);
// The string that an attribute of a device has; NULL: none. Points into the slice.
const char *td_dra_string(const struct td_dra_device *d, const char *attribute, const char *driver);
void td_dra_devices_done(struct td_dra_devices *d);
#define td_auto_dra __attribute__((cleanup(td_dra_devices_done)))

// Asks the API server, in one request, whether it serves resource.k8s.io/v1.
int td_dra_served(struct td_kube *k, bool *ret, struct td_cancel *c, struct td_error *err);
// An index function for td_informer_add_index on ResourceSlices: the node that the devices belong
// to.
void td_dra_index_node(const struct td_object *slice, struct td_strv *ret);
