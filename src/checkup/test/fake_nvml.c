// A library with NVML's calls, as a driver of two GPUs would have them: the second one had an XID, wants
// a reset, and runs with half of its lanes. It lacks what older drivers lack. FAKE_NVML_LOST=i: the GPU i is lost.
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
static char gpus[2];
static int events;

int nvmlInit_v2(void), nvmlShutdown(void), nvmlDeviceGetCount_v2(unsigned *),
	nvmlDeviceGetHandleByIndex_v2(unsigned, device *), nvmlDeviceGetName(device, char *, unsigned),
	nvmlDeviceGetTemperature(device, int, unsigned *), nvmlDeviceGetMemoryInfo(device, unsigned long long *),
	nvmlDeviceGetPowerUsage(device, unsigned *), nvmlDeviceGetCurrPcieLinkWidth(device, unsigned *),
	nvmlDeviceGetMaxPcieLinkWidth(device, unsigned *), nvmlDeviceGetFieldValues(device, int, struct field *),
	nvmlDeviceGetUUID(device, char *, unsigned), nvmlDeviceGetMinorNumber(device, unsigned *),
	nvmlDeviceGetPciInfo_v3(device, char *), nvmlDeviceGetP2PStatus(device, device, int, int *),
	nvmlEventSetCreate(void **), nvmlDeviceRegisterEvents(device, unsigned long long, void *),
	nvmlEventSetWait_v2(void *, struct event *, unsigned), nvmlEventSetFree(void *);

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
EXPORT int nvmlDeviceGetName(device d, char *s, unsigned n)
{
	snprintf(s, n, "Test GPU");
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
	*e = (struct event){(device)&gpus[1], 8, 79, 0, 0};
	return 0;
}
EXPORT int nvmlEventSetFree(void *s)
{
	return 0;
}

// Their minor numbers are not in the order of their addresses, as on machines with more than one root.
EXPORT int nvmlDeviceGetUUID(device d, char *s, unsigned n)
{
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
