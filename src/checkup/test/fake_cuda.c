// A library with the calls of CUDA's driver that the test of GPUs makes. The kernels, known by their names, run on the
// CPU. Device 0 is well, 1 computes wrongly, 2 forgets what was written to it, 3 breaks at its first kernel. Device 0 is
// NVML's second (fake_nvml.c).
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef unsigned long long pointer;
enum { BROKE = 719 };
static int now, names[3];

int cuInit(unsigned), cuDeviceGetCount(int *), cuDeviceGet(int *, int), cuDeviceGetByPCIBusId(int *, const char *),
	cuDeviceGetName(char *, int, int), cuDeviceGetAttribute(int *, int, int),
	cuDevicePrimaryCtxRetain(void **, int), cuDevicePrimaryCtxRelease_v2(int), cuCtxSetCurrent(void *),
	cuCtxSynchronize(void), cuModuleLoadData(void **, const void *), cuModuleUnload(void *),
	cuModuleGetFunction(int **, void *, const char *), cuMemGetInfo_v2(size_t *, size_t *),
	cuMemAlloc_v2(pointer *, size_t), cuMemFree_v2(pointer), cuMemcpyHtoD_v2(pointer, const void *, size_t),
	cuMemcpyDtoH_v2(void *, pointer, size_t), cuGetErrorString(int, const char **),
	cuLaunchKernel(int *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
		       void **);

EXPORT int cuInit(unsigned flags)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	return order && !strcmp(order, "PCI_BUS_ID") ? 0 : 1;
}
EXPORT int cuDeviceGetCount(int *n)
{
	*n = 4;
	return 0;
}
EXPORT int cuDeviceGet(int *d, int i)
{
	*d = i;
	return 0;
}
EXPORT int cuDeviceGetByPCIBusId(int *d, const char *pci)
{
	*d = 0;
	return strcmp(pci, "0000:9b:00.0") ? 101 : 0; // CUDA_ERROR_INVALID_DEVICE
}
EXPORT int cuDeviceGetName(char *s, int n, int d)
{
	snprintf(s, (size_t)n, "Test GPU");
	return 0;
}
EXPORT int cuDeviceGetAttribute(int *v, int which, int d)
{
	*v = 1;
	return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **c, int d)
{
	*c = &names[0] + d;
	now = d;
	return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int d)
{
	return 0;
}
EXPORT int cuCtxSetCurrent(void *c)
{
	return 0;
}
EXPORT int cuCtxSynchronize(void)
{
	return now == 3 ? BROKE : 0;
}
EXPORT int cuModuleLoadData(void **m, const void *text)
{
	*m = names;
	return strstr(text, ".visible .entry burn") ? 0 : 218;
}
EXPORT int cuModuleUnload(void *m)
{
	return 0;
}
EXPORT int cuModuleGetFunction(int **f, void *m, const char *name)
{
	*f = &names[!strcmp(name, "fill") ? 0 : !strcmp(name, "check") ? 1 : 2];
	return 0;
}
EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total)
{
	*unused = *total = 8 << 20;
	return 0;
}
EXPORT int cuMemAlloc_v2(pointer *p, size_t n)
{
	// Others have taken the rest by now.
	void *v = n > 1 << 20 ? NULL : malloc(n);
	*p = (pointer)(uintptr_t)v;
	return v ? 0 : 2;
}
EXPORT int cuMemFree_v2(pointer p)
{
	free((void *)(uintptr_t)p);
	return 0;
}
EXPORT int cuMemcpyHtoD_v2(pointer to, const void *from, size_t n)
{
	memcpy((void *)(uintptr_t)to, from, n);
	return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *to, pointer from, size_t n)
{
	memcpy(to, (void *)(uintptr_t)from, n);
	return 0;
}
EXPORT int cuGetErrorString(int code, const char **words)
{
	*words = code == BROKE ? "it broke" : "something else";
	return 0;
}

static uint32_t mix(uint32_t x)
{
	x *= 0x9E3779B1U;
	return x ^ x >> 15;
}

EXPORT int cuLaunchKernel(int *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			  unsigned shared, void *stream, void **args, void **extra)
{
	uint32_t *cells = *(void **)args[0];
	if (f == &names[2]) {
		const float *table = *(void **)args[0];
		unsigned rounds = *(unsigned *)args[1];
		uint32_t *counts = *(void **)args[2];
		for (unsigned i = 0; i < bx; i++) {
			float x = (float)(i + 1) * 0x1p-11F;
			for (unsigned k = 0; k < rounds; k++)
				x = 3.9F * fmaf(-x, x, x);
			if (now == 1 && i == 7)
				x = nextafterf(x, 1);
			counts[0] += memcmp(&x, &table[i], sizeof(x)) ? gx : 0;
		}
		counts[1] += gx * bx;
		return 0;
	}
	unsigned long long n = *(unsigned long long *)args[1];
	uint32_t seed = *(uint32_t *)args[2];
	for (unsigned long long i = 0; i < n && f == &names[0]; i++)
		cells[i] = mix((uint32_t)i + seed);
	if (f == &names[1]) {
		uint32_t *counts = *(void **)args[3];
		if (now == 2)
			cells[n - 1] ^= 1;
		for (unsigned long long i = 0; i < n; i++)
			counts[0] += cells[i] != mix((uint32_t)i + seed);
		counts[1] += gx * bx;
	}
	return 0;
}
