// spec.scheduler of the SlurmCluster, read once into an immutable, reference-counted struct.
#pragma once

#include "json/json.h"

struct td_gres_map {
	char *resource;    // "nvidia.com/gpu"
	char *name, *type; // "gpu", ""
};
struct td_ns_map {
	char *ns, *user, *account, *partition, *qos; // NULL: not said
};
// spec.devices[0]: where the devices of `resource` come from.
struct td_device_source {
	char *resource, *driver;
	char *attribute; // NULL: by name
	char *classes[16];
	size_t n_classes;
	bool dra;
	bool shared; // native jobs may run beside pods whose devices a kubelet chose
};
enum td_stand_in { TD_STANDIN_AUTO, TD_STANDIN_BATCH };
struct td_settings {
	int refs;
	char *text; // what it was read from: equal text, equal settings
	char *cluster_uid, *scheduler, *default_partition, *default_user;
	enum td_stand_in stand_in;
	int end_grace_s;
	struct td_gres_map gres[32]; // sorted by resource
	size_t n_gres;
	struct td_device_source devices;
	struct td_ns_map *maps;
	size_t n_maps;
};
struct td_settings *
td_settings_read(const yyjson_val *cluster); // never fails: the API checked the schema; what is absent has its default
struct td_settings *td_settings_ref(struct td_settings *s);
struct td_settings *td_settings_unref(struct td_settings *s);
TD_DEFINE_AUTO(struct td_settings *, td_settings_unref)
// Who owns the jobs of a namespace's pods. False: nobody may. Fields point into s.
struct td_owner {
	const char *user, *account, *partition, *qos;
};
bool td_settings_owner(const struct td_settings *s, const char *ns, struct td_owner *ret);
