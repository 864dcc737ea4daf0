#include "kubelet/fakegpu.h"

#include "api/selector.h"
#include "base/mem.h"
#include "gate/devices.h"
#include "kubelet/pods/env.h"

#include <string.h>

enum { SHARED_MINOR = 64 * TD_DEV_MAX }; // behind those of all nodes

static struct td_oci_device fake(const char *path, int major, int minor)
{
	return (struct td_oci_device){.path = path, .type = 'c', .major = major, .minor = minor, .mode = 0666};
}

size_t td_fakegpu_nodes(const struct td_accel_found *f, uint64_t mask, int node, int major, struct td_arena *a,
			struct td_oci_device *out)
{
	size_t n = 0;
	for (int i = 0; i < (f ? f->n : TD_DEV_MAX); i++) {
		int minor = node * TD_DEV_MAX + i;
		if (!(mask >> i & 1))
			continue;
		if (!f)
			out[n++] = fake(td_arena_printf(a, "/dev/tandem-gpu%d", i), major, minor);
		for (size_t k = 0; f && k < f->v[i].n_files; k++)
			out[n++] = fake(f->v[i].files[k], major, minor);
	}
	for (size_t k = 0; n && f && k < f->shared.n && k < TD_ACCEL_SHARED; k++)
		out[n++] = fake(f->shared.v[k], major, SHARED_MINOR + (int)k);
	return n;
}

// n bits of mask, after the lowest `skip`.
static uint64_t bits(uint64_t mask, int64_t skip, int64_t n)
{
	uint64_t got = 0;
	for (int i = 0; i < TD_DEV_MAX && n > 0; i++)
		if (mask >> i & 1 && --skip < 0) {
			got |= UINT64_C(1) << i;
			n--;
		}
	return got;
}

uint64_t td_fakegpu_share(uint64_t mask, const yyjson_val *pod_spec, const char *container, const char *resource)
{
	static const char *const lists[] = {"initContainers", "containers"};
	int64_t used = 0;
	for (size_t l = 0; l < TD_LEN(lists); l++) {
		yyjson_val *c;
		size_t i, max;
		yyjson_arr_foreach (td_jget(pod_spec, lists[l]), i, max, c) {
			int64_t n = td_api_container_request(c, resource);
			if (td_streq(td_jstr(c, "name"), container))
				return bits(mask, used, n);
			if (l || td_streq(td_jstr(c, "restartPolicy"), "Always"))
				used += n > TD_DEV_MAX ? TD_DEV_MAX : n;
		}
	}
	return 0;
}

void td_fakegpu_env(const struct td_accel_found *f, uint64_t mask, struct td_strv *env)
{
	td_auto_strv struct td_strv its = {0};
	td_accel_variables(f ? f->of : td_accel_named("fake"), f, mask, &its);
	for (size_t i = 0; i < its.n; i++) {
		char *value = strchr(its.v[i], '=');
		bool image = false;
		for (size_t k = 0; k < env->n; k++)
			image |= !strncmp(env->v[k], its.v[i], (size_t)(value - its.v[i]) + 1);
		*value++ = '\0';
		if (mask || image)
			td_env_set(env, its.v[i], value);
	}
}
