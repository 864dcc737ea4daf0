// $(VAR) as pods write it, and a container's environment from any object. The expansion loses
// nothing that is not a variable's name.
// rows: F1.4
#include "kubelet/pods/env.h"

#include <string.h>

static struct td_object *none(void *ctx, bool secret, const char *ns, const char *name)
{
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 13)
		return 0;

	td_auto_free char *s = td_strndup((const char *)data, size);
	td_auto_strv struct td_strv empty = {0}, env = {0}, built = {0};
	td_strv_add(&env, "A=1");
	td_strv_add(&env, "AB=$(A)");
	td_auto_free char *with = td_env_expand(s, &env), *without = td_env_expand(s, &empty);
	if (!strchr(s, '$') && (strcmp(with, s) != 0 || strcmp(without, s) != 0))
		abort();
	if (!strstr(s, "$$") && strcmp(without, s) != 0)
		abort();

	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse((const char *)data, size, &l, NULL) || !l.n)
		return 0;
	const yyjson_val *pod = td_json_root(l.v[0]);
	struct td_env_src src = {.pod = pod,
				 .host_ip = "10.0.0.1",
				 .pod_ip = "10.0.1.2",
				 .node = "n0",
				 .node_cpu_milli = 4000,
				 .node_memory = 1 << 30,
				 .get = none};

	size_t i, n;
	yyjson_val *c, *list = td_jget(pod, "spec.containers");
	yyjson_arr_foreach (list, i, n, c) {
		td_env_build(&src, c, &built, NULL);
	}
	return 0;
}
