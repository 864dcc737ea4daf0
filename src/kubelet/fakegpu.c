#include "kubelet/fakegpu.h"

#include "api/selector.h"
#include "base/mem.h"
#include "gate/devices.h"
#include "kubelet/pods/env.h"

#include <string.h>

enum {
	SHARED_MINOR = 64 * TD_DEV_MAX, // behind those of all nodes
	CAPS_MINOR = 4 * SHARED_MINOR,  // behind those and GPUDirect Storage's (accels.c)
};

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

size_t td_fakegpu_parts(const struct td_checkup_facts *f, uint64_t mask, int node, int major, struct td_arena *a,
			struct td_oci_device *out)
{
	size_t n = 0;
	for (int i = 0; i < f->gpus; i++) {
		char files[3][40];
		int first = i;
		size_t k = mask >> i & 1 ? td_mig_files(&f->gpu[i], files) : 0;
		// All parts of a GPU have its own file beside theirs.
		while (*f->gpu[i].profile && first > 0 && *f->gpu[first - 1].profile)
			first--;
		while (*f->gpu[i].profile && f->gpu[first].of != f->gpu[i].of)
			first++;
		for (size_t x = 0; x < k; x++) {
			int minor = x ? CAPS_MINOR + node * TD_FAKEGPU_CAPS + f->gpu[i].caps[x - 1]
				      : node * TD_DEV_MAX + first;
			bool there = false;
			for (size_t o = 0; o < n; o++)
				there |= !strcmp(out[o].path, files[x]);
			if (!there)
				out[n++] = fake(td_arena_strdup(a, files[x]), major, minor);
		}
	}
	return n;
}

void td_fakegpu_parts_env(const struct td_checkup_facts *f, uint64_t mask, struct td_strv *env)
{
	td_auto_buf struct td_buf b = {0};
	for (int i = 0; i < f->gpus; i++)
		if (mask >> i & 1)
			td_buf_printf(&b, "%s%s", b.len ? "," : "", f->gpu[i].uuid);
	if (b.len)
		td_env_set(env, "CUDA_VISIBLE_DEVICES", td_buf_str(&b));
	td_env_set(env, "NVIDIA_VISIBLE_DEVICES", b.len ? td_buf_str(&b) : "void");
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
