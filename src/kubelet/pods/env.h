// A container's environment and arguments, from its pod: valueFrom, envFrom, $(VAR) expansion. Pure
// except for the look-up function.
#pragma once

#include "kube/kube.h"

// Where the values come from.
struct td_env_src {
	const yyjson_val *pod; // the whole object
	const char *host_ip, *pod_ip, *node;
	int64_t node_cpu_milli, node_memory; // the node's; used where no limit is set
	// Looks up a ConfigMap or Secret of the pod's namespace. Returns a reference; NULL: there
	// is none.
	struct td_object *(*get)(void *ctx, bool secret, const char *ns, const char *name);
	void *ctx;
};

// Appends the bytes of one key: data, binaryData, or a Secret's base64 data. False: no such key.
bool td_kubelet_object_value(const struct td_object *o, bool secret, const char *key, struct td_buf *ret);
// Appends every key: those of data, then those of binaryData.
void td_kubelet_object_value_keys(const struct td_object *o, struct td_strv *ret);

// Sets what programs of many processes read, for a member of a gang: RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT and TANDEM_GANG_HOSTS. Nothing for another pod.
void td_env_gang(const yyjson_val *pod, struct td_strv *env);

// Expands "$(A)" to A's value if `env` has it ("K=V"; the last one wins), otherwise "$(A)" stays.
// "$$(A)" becomes "$(A)". Caller frees.
char *td_env_expand(const char *s, const struct td_strv *env);
// Reads a fieldRef path; metadata.labels and metadata.annotations as a whole become text. Caller
// frees *ret. TD_INVALID: the path is not supported.
int td_env_field(const struct td_env_src *s, const char *path, char **ret, struct td_error *err);
// Reads a resourceFieldRef of the named container, divided by `divisor` and rounded up. Caller
// frees *ret.
int td_env_resource(const struct td_env_src *s, const char *container, const char *resource, const char *divisor,
		    char **ret, struct td_error *err);
// Adds the container's variables to `ret`. It may already hold the image's; the container's win.
// TD_NOT_FOUND: a ConfigMap, Secret or key is missing that is not optional.
int td_env_build(const struct td_env_src *s, const yyjson_val *container, struct td_strv *ret, struct td_error *err);
// Sets the variable, replacing an earlier value.
void td_env_set(struct td_strv *env, const char *key, const char *value);
