// A library with NVML's calls, as a driver of two GPUs would have them: the second one had an XID, wants
// a reset, and runs with half of its lanes. It lacks what older drivers lack. FAKE_NVML_LOST=i: the GPU i is lost.
// FAKE_NVML_WELL: neither has anything. FAKE_NVML_USE=FILE: each GPU computes as much of the time, in percent, as it says there.
// FAKE_NVML_SLOW=BITS: why the second one's clocks are low, said as drivers before 535 do.
// FAKE_NVML_COUNTERS=" ID=N …": what it counts, by NVML's ids of fields; "Nu": in 32 bits. Without it there is no NVLink.
// FAKE_NVML_DOWN=LINKS, FAKE_NVML_WORST=LINK: those of the second GPU that are down, and one that counts errors.
// FAKE_NVML_MUTE: no GPU tells its UUID. FAKE_NVML_MIG=i: the GPU i is cut into a part of three sevenths and, behind a gap, two of one.
// Without it they can be cut, as an H100 of 80 GB: mode, GPU instances with their slices of memory, a compute instance in
// each. FAKE_NVML_BUSY: a program uses them. FAKE_NVML_RESET: the mode counts after a reset only.
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
EXPORT int fake_nvml_asked;    // how often a whole GPU was asked who it is
EXPORT int fake_nvml_measured; // how often PCIe was
// So many changes are made, and then none: whoever makes them sees the same as if he had been killed. Below 0: all.
EXPORT int fake_nvml_changes = -1;
EXPORT int fake_nvml_changed; // how many were made

struct place {
	unsigned start, size;
};
struct kind {
	unsigned version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
	unsigned long long memory_mb;
	char name[96];
};
struct inner {
	unsigned id, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
};
struct part_info {
	device device;
	unsigned id, kind;
	struct place place;
};
static const struct {
	const char *name;
	unsigned id, slices, size, at, count;
} kinds[] = {{"MIG 1g.10gb", 19, 1, 1, 0x7f, 7},   {"MIG 2g.20gb", 14, 2, 2, 0x15, 3},
	     {"MIG 3g.40gb", 9, 3, 4, 0x11, 2},    {"MIG 4g.40gb", 5, 4, 4, 0x01, 1},
	     {"MIG 7g.80gb", 0, 7, 8, 0x01, 1},    {NULL},
	     {"MIG 1g.10gb+me", 20, 1, 1, 0x7f, 1}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MADE = 16 };
// The parts that were made, with their compute instance.
static struct made {
	int is, gpu, kind, inner;
	unsigned start;
} made[MADE];
static unsigned mode[2], pending[2];

int nvmlInit_v2(void), nvmlShutdown(void), nvmlDeviceGetCount_v2(unsigned *),
	nvmlDeviceGetHandleByIndex_v2(unsigned, device *), nvmlDeviceGetName(device, char *, unsigned),
	nvmlDeviceGetTemperature(device, int, unsigned *), nvmlDeviceGetMemoryInfo(device, unsigned long long *),
	nvmlDeviceGetUtilizationRates(device, unsigned *), nvmlDeviceGetPowerUsage(device, unsigned *),
	nvmlDeviceGetCurrentClocksThrottleReasons(device, unsigned long long *),
	nvmlDeviceGetCurrPcieLinkWidth(device, unsigned *), nvmlDeviceGetMaxPcieLinkWidth(device, unsigned *),
	nvmlDeviceGetFieldValues(device, int, struct field *), nvmlDeviceGetUUID(device, char *, unsigned),
	nvmlDeviceGetMinorNumber(device, unsigned *), nvmlDeviceGetPciInfo_v3(device, char *),
	nvmlDeviceGetP2PStatus(device, device, int, int *), nvmlEventSetCreate(void **),
	nvmlDeviceRegisterEvents(device, unsigned long long, void *),
	nvmlDeviceGetMigMode(device, unsigned *, unsigned *), nvmlDeviceGetMaxMigDeviceCount(device, unsigned *),
	nvmlDeviceGetMigDeviceHandleByIndex(device, unsigned, device *), nvmlDeviceGetGpuInstanceId(device, unsigned *),
	nvmlDeviceGetComputeInstanceId(device, unsigned *), nvmlEventSetWait_v2(void *, struct event *, unsigned),
	nvmlEventSetFree(void *), nvmlDeviceGetCurrentClocksThrottleReasons(device, unsigned long long *),
	nvmlDeviceGetApplicationsClock(device, int, unsigned *), nvmlDeviceGetNvLinkState(device, unsigned, int *),
	nvmlDeviceGetNvLinkRemotePciInfo_v2(device, unsigned, char *),
	nvmlDeviceGetNvLinkErrorCounter(device, unsigned, int, unsigned long long *),
	nvmlDeviceGetPcieThroughput(device, int, unsigned *), nvmlDeviceSetMigMode(device, unsigned, int *),
	nvmlDeviceGetGpuInstanceProfileInfoV(device, unsigned, struct kind *),
	nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, unsigned, struct place *, unsigned *),
	nvmlDeviceGetGpuInstances(device, unsigned, struct made **, unsigned *),
	nvmlGpuInstanceGetInfo(struct made *, struct part_info *),
	nvmlDeviceCreateGpuInstanceWithPlacement(device, unsigned, const struct place *, struct made **),
	nvmlGpuInstanceDestroy(struct made *),
	nvmlGpuInstanceGetComputeInstanceProfileInfo(struct made *, unsigned, unsigned, struct inner *),
	nvmlGpuInstanceGetComputeInstances(struct made *, unsigned, int **, unsigned *),
	nvmlGpuInstanceCreateComputeInstance(struct made *, unsigned, int **), nvmlComputeInstanceDestroy(int *);

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
// The part that was made; NULL: it is none.
static struct made *made_of(device d)
{
	char *at = (char *)d;
	return at >= (char *)made && at < (char *)(made + MADE) ? &made[(at - (char *)made) / (long)sizeof(made[0])]
								: NULL;
}
static int gpu_of(device d)
{
	return (int)((char *)d - gpus);
}
EXPORT int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *then)
{
	const char *cut = getenv("FAKE_NVML_MIG");
	*now = *then = cut && (device)&gpus[atoi(cut)] == d;
	if (!cut) {
		*now = mode[gpu_of(d)];
		*then = pending[gpu_of(d)];
	}
	return 0;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n)
{
	*n = 7;
	return 0;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *ret)
{
	if (!getenv("FAKE_NVML_MIG")) {
		for (int k = 0; k < MADE; k++)
			if (made[k].is && made[k].inner && made[k].gpu == gpu_of(d) && !i--) {
				*ret = (device)(void *)&made[k];
				return 0;
			}
		return 6;
	}
	if (i == 1 || i >= sizeof(parts))
		return 6; // NVML_ERROR_NOT_FOUND
	*ret = (device)&parts[i];
	return 0;
}
EXPORT int nvmlDeviceGetGpuInstanceId(device d, unsigned *n)
{
	struct made *m = made_of(d);
	*n = m ? 1 + (unsigned)(m - made) : part(d) ? 9 + (unsigned)part(d) : 1;
	return 0;
}
EXPORT int nvmlDeviceGetComputeInstanceId(device d, unsigned *n)
{
	*n = 0;
	return 0;
}
EXPORT int nvmlDeviceGetName(device d, char *s, unsigned n)
{
	struct made *m = made_of(d);
	if (m)
		snprintf(s, n, "Test GPU %s", kinds[m->kind].name);
	else
		snprintf(s, n, part(d) < 0 ? "Test GPU" : part(d) ? "Test GPU MIG 1g.10gb+me" : "Test GPU MIG 3g.40gb");
	return 0;
}

// ---- cutting ----

// False: the caller is dead.
static int change(void)
{
	if (!fake_nvml_changes)
		return 0;
	fake_nvml_changes -= fake_nvml_changes > 0;
	fake_nvml_changed++;
	return 1;
}
static int kind_of(unsigned id)
{
	for (int k = 0; k < KINDS; k++)
		if (kinds[k].name && kinds[k].id == id)
			return k;
	return -1;
}
EXPORT int nvmlDeviceSetMigMode(device d, unsigned want, int *status)
{
	int g = gpu_of(d);
	if (!change())
		return 999;
	*status = getenv("FAKE_NVML_BUSY") ? 19 : 0;
	for (int k = 0; !want && k < MADE; k++)
		if (made[k].is && made[k].gpu == g)
			*status = 19; // parts are there
	if (*status)
		return 0;
	pending[g] = want;
	if (getenv("FAKE_NVML_RESET"))
		*status = 16;
	else
		mode[g] = want;
	return 0;
}
EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(device d, unsigned profile, struct kind *ret)
{
	if (ret->version != (sizeof(*ret) | 2U << 24))
		return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	if (profile >= KINDS)
		return 2;
	if (!kinds[profile].name)
		return 3;
	ret->id = kinds[profile].id;
	ret->slices = kinds[profile].slices;
	ret->count = kinds[profile].count;
	snprintf(ret->name, sizeof(ret->name), "%s", kinds[profile].name);
	return 0;
}
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(device d, unsigned id, struct place *v, unsigned *n)
{
	int k = kind_of(id);
	unsigned count = 0;
	for (unsigned at = 0; k >= 0 && at < 8; at++)
		if (kinds[k].at >> at & 1)
			v[count++] = (struct place){at, kinds[k].size};
	*n = count;
	return k < 0 ? 3 : 0;
}
EXPORT int nvmlDeviceGetGpuInstances(device d, unsigned id, struct made **v, unsigned *n)
{
	*n = 0;
	if (!mode[gpu_of(d)])
		return 3;
	for (int k = 0; k < MADE; k++)
		if (made[k].is && made[k].gpu == gpu_of(d) && kinds[made[k].kind].id == id)
			v[(*n)++] = &made[k];
	return 0;
}
EXPORT int nvmlGpuInstanceGetInfo(struct made *m, struct part_info *ret)
{
	*ret = (struct part_info){
		(device)&gpus[m->gpu], 1 + (unsigned)(m - made), kinds[m->kind].id, {m->start, kinds[m->kind].size}};
	return 0;
}
EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(device d, unsigned id, const struct place *p, struct made **ret)
{
	int k = kind_of(id), count = 0, at = -1;
	if (!mode[gpu_of(d)] || k < 0)
		return 3;
	if (p->size != kinds[k].size || p->start >= 8 || !(kinds[k].at >> p->start & 1))
		return 2;
	for (int i = 0; i < MADE; i++) {
		at = at < 0 && !made[i].is ? i : at;
		if (!made[i].is || made[i].gpu != gpu_of(d))
			continue;
		count += made[i].kind == k;
		if (made[i].start < p->start + p->size && p->start < made[i].start + kinds[made[i].kind].size)
			return 23; // NVML_ERROR_INSUFFICIENT_RESOURCES
	}
	if (at < 0 || count >= (int)kinds[k].count)
		return 23;
	if (!change())
		return 999;
	made[at] = (struct made){1, gpu_of(d), k, 0, p->start};
	*ret = &made[at];
	return 0;
}
EXPORT int nvmlGpuInstanceDestroy(struct made *m)
{
	if (m->inner)
		return 19; // NVML_ERROR_IN_USE
	if (!change())
		return 999;
	m->is = 0;
	return 0;
}
// The first ones have one to four slices, and then seven.
EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(struct made *m, unsigned profile, unsigned engines,
							struct inner *ret)
{
	static const unsigned slices[] = {1, 2, 3, 4, 7};
	if (profile > 4)
		return profile < 8 ? 3 : 2;
	if (slices[profile] > kinds[m->kind].slices)
		return 3;
	*ret = (struct inner){
		.id = profile, .slices = slices[profile], .count = kinds[m->kind].slices / slices[profile]};
	return 0;
}
EXPORT int nvmlGpuInstanceGetComputeInstances(struct made *m, unsigned id, int **v, unsigned *n)
{
	*n = m->inner == (int)id + 1;
	if (*n)
		v[0] = &m->inner;
	return 0;
}
EXPORT int nvmlGpuInstanceCreateComputeInstance(struct made *m, unsigned id, int **ret)
{
	if (m->inner)
		return 23;
	if (!change())
		return 999;
	m->inner = (int)id + 1;
	*ret = &m->inner;
	return 0;
}
EXPORT int nvmlComputeInstanceDestroy(int *inner)
{
	if (getenv("FAKE_NVML_BUSY"))
		return 19;
	if (!change())
		return 999;
	*inner = 0;
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
static int sick(device d)
{
	return d == (device)&gpus[1] && !getenv("FAKE_NVML_WELL");
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *why)
{
	const char *bits = getenv("FAKE_NVML_SLOW");
	*why = bits && d == (device)&gpus[1] ? strtoull(bits, NULL, 0) : 1; // it idles
	return 0;
}
EXPORT int nvmlDeviceGetApplicationsClock(device d, int clock, unsigned *mhz)
{
	*mhz = 1410;
	return 0;
}
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *w)
{
	*w = sick(d) ? 8 : 16;
	return 0;
}
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *w)
{
	*w = 16;
	return 0;
}
EXPORT int nvmlDeviceGetFieldValues(device d, int n, struct field *f)
{
	const char *counters = getenv("FAKE_NVML_COUNTERS");
	for (int i = 0; i < n; i++) {
		char key[16], *at;
		snprintf(key, sizeof(key), " %u=", f[i].id);
		f[i].code = f[i].id == 230 ? 0 : 3;
		f[i].type = 3;
		f[i].value = sick(d);
		if (d == (device)&gpus[1] && counters && (at = strstr(counters, key))) {
			f[i].value = strtoull(at + strlen(key), &at, 10);
			f[i].code = *at == '?' ? 999 : 0; // it does not say now
			f[i].type = *at == 'u' ? 1 : 3;
		}
		// Those of NVLink's traffic have a scope: a link, or all.
		if ((f[i].id == 138 || f[i].id == 139) && f[i].scope != 0xFFFFFFFF)
			f[i].code = 2;
	}
	return 0;
}
EXPORT int nvmlDeviceGetNvLinkState(device d, unsigned link, int *active)
{
	const char *down = getenv("FAKE_NVML_DOWN");
	*active = !(down && d == (device)&gpus[1] && strchr(down, (char)('0' + link)));
	return getenv("FAKE_NVML_COUNTERS") && link < 4 ? 0 : 3;
}
// Link 2 is between the two, the others go to a switch.
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, char *info)
{
	snprintf(info + 36, 32, "%s",
		 link != 2               ? "00000000:C1:00.0"
		 : d == (device)&gpus[0] ? "00000000:9B:00.0"
					 : "00000000:3B:00.0");
	return 0;
}
EXPORT int nvmlDeviceGetNvLinkErrorCounter(device d, unsigned link, int kind, unsigned long long *n)
{
	const char *worst = getenv("FAKE_NVML_WORST");
	*n = worst && kind == 2 && link == (unsigned)atoi(worst) ? 700 : kind;
	return d == (device)&gpus[1] ? 0 : 3;
}
EXPORT int nvmlDeviceGetPcieThroughput(device d, int direction, unsigned *kb)
{
	*kb = direction ? 7000 : 3000;
	fake_nvml_measured++;
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
	if (events++ || getenv("FAKE_NVML_WELL"))
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
	struct made *m = made_of(d);
	if (m) {
		snprintf(s, n, "MIG-made-%d-%u", m->gpu, m->start);
		return 0;
	}
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
