// A library with NVML's calls, as a driver of two GPUs would have them: the second one had an XID, wants
// a reset, and runs with half of its lanes. It lacks what older drivers lack. FAKE_NVML_LOST=i: the GPU i is lost.
// FAKE_NVML_USE=FILE: each GPU computes as much of the time, in percent, as it says there.
// FAKE_NVML_MUTE: no GPU tells its UUID. FAKE_NVML_MIG=i: the GPU i is cut into a part of three sevenths and, behind a gap, two of one.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef struct device *device;
struct field {
	unsigned id, scope;
	long long at, latency;
	int type, code;
	unsigned long long value;
};
struct event {
	device device;
	unsigned long long type, data;
	unsigned instance, compute;
};
static char gpus[2], parts[4]; // the second part is none
static int events;
EXPORT int fake_nvml_asked; // how often a whole GPU was asked who it is

int nvmlInit_v2(void), nvmlShutdown(void), nvmlDeviceGetCount_v2(unsigned *),
	nvmlDeviceGetHandleByIndex_v2(unsigned, device *), nvmlDeviceGetName(device, char *, unsigned),
	nvmlDeviceGetTemperature(device, int, unsigned *), nvmlDeviceGetMemoryInfo(device, unsigned long long *),
	nvmlDeviceGetUtilizationRates(device, unsigned *), nvmlDeviceGetPowerUsage(device, unsigned *),
	nvmlDeviceGetCurrPcieLinkWidth(device, unsigned *), nvmlDeviceGetMaxPcieLinkWidth(device, unsigned *),
	nvmlDeviceGetFieldValues(device, int, struct field *), nvmlDeviceGetUUID(device, char *, unsigned),
	nvmlDeviceGetMinorNumber(device, unsigned *), nvmlDeviceGetPciInfo_v3(device, char *),
	nvmlDeviceGetP2PStatus(device, device, int, int *), nvmlEventSetCreate(void **),
	nvmlDeviceRegisterEvents(device, unsigned long long, void *),
	nvmlDeviceGetMigMode(device, unsigned *, unsigned *), nvmlDeviceGetMaxMigDeviceCount(device, unsigned *),
	nvmlDeviceGetMigDeviceHandleByIndex(device, unsigned, device *), nvmlDeviceGetGpuInstanceId(device, unsigned *),
	nvmlDeviceGetComputeInstanceId(device, unsigned *), nvmlEventSetWait_v2(void *, struct event *, unsigned),
	nvmlEventSetFree(void *);

EXPORT int nvmlInit_v2(void)
{
	return 0;
}
EXPORT int nvmlShutdown(void)
{
	return 0;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 2;
	return 0;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d)
{
	const char *lost = getenv("FAKE_NVML_LOST");
	if (lost && (unsigned)atoi(lost) == i)
		return 15; // NVML_ERROR_GPU_IS_LOST
	*d = (device)&gpus[i];
	return 0;
}
// The number of a part; -1: it is a GPU.
static int part(device d)
{
	char *at = (char *)d;
	return at >= parts && at < parts + sizeof(parts) ? (int)(at - parts) : -1;
}
EXPORT int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *then)
{
	const char *cut = getenv("FAKE_NVML_MIG");
	*now = *then = cut && (device)&gpus[atoi(cut)] == d;
	return 0;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n)
{
	*n = 7;
	return 0;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *ret)
{
	if (i == 1 || i >= sizeof(parts))
		return 6; // NVML_ERROR_NOT_FOUND
	*ret = (device)&parts[i];
	return 0;
}
EXPORT int nvmlDeviceGetGpuInstanceId(device d, unsigned *n)
{
	*n = part(d) ? 9 + (unsigned)part(d) : 1;
	return 0;
}
EXPORT int nvmlDeviceGetComputeInstanceId(device d, unsigned *n)
{
	*n = 0;
	return 0;
}
EXPORT int nvmlDeviceGetName(device d, char *s, unsigned n)
{
	snprintf(s, n, part(d) < 0 ? "Test GPU" : part(d) ? "Test GPU MIG 1g.10gb+me" : "Test GPU MIG 3g.40gb");
	return 0;
}
EXPORT int nvmlDeviceGetTemperature(device d, int sensor, unsigned *t)
{
	*t = 41;
	return 0;
}
EXPORT int nvmlDeviceGetPowerUsage(device d, unsigned *mw)
{
	*mw = 250500;
	return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(device d, unsigned *percent)
{
	const char *path = getenv("FAKE_NVML_USE");
	FILE *f = path ? fopen(path, "re") : NULL;
	bool said = f && fscanf(f, "%u", percent) == 1;
	if (f)
		fclose(f);
	percent[1] = 0;      // of its memory's time
	return said ? 0 : 3; // NVML_ERROR_NOT_SUPPORTED
}
EXPORT int nvmlDeviceGetMemoryInfo(device d, unsigned long long *m)
{
	m[0] = 80ULL << 30;
	m[1] = 79ULL << 30;
	m[2] = 1ULL << 30;
	return 0;
}
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *w)
{
	*w = d == (device)&gpus[1] ? 8 : 16;
	return 0;
}
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *w)
{
	*w = 16;
	return 0;
}
EXPORT int nvmlDeviceGetFieldValues(device d, int n, struct field *f)
{
	f->code = f->id == 230 ? 0 : 3;
	f->value = d == (device)&gpus[1] ? 1 : 0;
	return 0;
}
EXPORT int nvmlEventSetCreate(void **s)
{
	*s = &events;
	return 0;
}
EXPORT int nvmlDeviceRegisterEvents(device d, unsigned long long type, void *s)
{
	return 0;
}
EXPORT int nvmlEventSetWait_v2(void *s, struct event *e, unsigned ms)
{
	if (events++)
		return 10; // a timeout
	const char *of = getenv("FAKE_NVML_XID_PART");
	*e = (struct event){(device)&gpus[of ? 0 : 1], 8, 79, of ? (unsigned)atoi(of) : 0xFFFFFFFF, 0};
	return 0;
}
EXPORT int nvmlEventSetFree(void *s)
{
	return 0;
}

// Their minor numbers are not in the order of their addresses, as on machines with more than one root.
EXPORT int nvmlDeviceGetUUID(device d, char *s, unsigned n)
{
	fake_nvml_asked += part(d) < 0;
	if (part(d) < 0 && getenv("FAKE_NVML_MUTE"))
		return 10; // a timeout
	if (part(d) >= 0)
		snprintf(s, n, "MIG-test-%d", part(d));
	else
		snprintf(s, n, "GPU-test-%d", (int)((char *)d - gpus));
	return 0;
}
EXPORT int nvmlDeviceGetMinorNumber(device d, unsigned *n)
{
	*n = d == (device)&gpus[1] ? 60 : 61;
	return 0;
}
EXPORT int nvmlDeviceGetPciInfo_v3(device d, char *pci)
{
	// struct nvmlPciInfo: 16 bytes, five numbers, the address.
	snprintf(pci + 36, 32, "00000000:%sB:00.0", d == (device)&gpus[1] ? "9" : "3");
	return 0;
}
EXPORT int nvmlDeviceGetP2PStatus(device d, device other, int what, int *status)
{
	*status = what == 2 ? 0 : 1;
	return 0;
}
