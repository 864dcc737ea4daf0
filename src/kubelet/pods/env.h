// A container's environment and arguments from its pod: valueFrom, envFrom, $(VAR) expansion. Pure but for the look-up
// function.
#pragma once

#include "kube/kube.h"

// What the values come from.
struct td_env_src {
	const yyjson_val *pod; // whole object
	const char *host_ip, *pod_ip, *node;
	int64_t node_cpu_milli, node_memory; // for limits that are not set
	// A ConfigMap or Secret of the pod's namespace as a reference; NULL: there is none.
	struct td_object *(*get)(void *ctx, bool secret, const char *ns, const char *name);
	void *ctx;
};

// The bytes of one key: data, binaryData or (Secret) base64 data. False: no such key.
bool td_object_value(const struct td_object *o, bool secret, const char *key, struct td_buf *ret);
// Every key (data, then binaryData).
void td_object_value_keys(const struct td_object *o, struct td_strv *ret);

// "$(A)" becomes A's value when env ("K=V", the last one wins) has it, else stays; "$$(A)" is "$(A)". Caller frees.
char *td_env_expand(const char *s, const struct td_strv *env);
// fieldRef paths, metadata.labels and metadata.annotations (as text) included. TD_INVALID: not supported.
int td_env_field(const struct td_env_src *s, const char *path, char **ret, struct td_error *err);
int td_env_resource(const struct td_env_src *s, const char *container, const char *resource, const char *divisor,
		    char **ret, struct td_error *err);
// Adds to ret (which may hold the image's variables; the container's win). TD_NOT_FOUND: a ConfigMap, Secret or key
// that is not optional.
int td_env_build(const struct td_env_src *s, const yyjson_val *container, struct td_strv *ret, struct td_error *err);
void td_env_set(struct td_strv *env, const char *key, const char *value); // replaces
