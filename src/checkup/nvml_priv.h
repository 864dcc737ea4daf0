// What of nvml.h is used, and the library as it was loaded. NVIDIA keeps the layout of these structures.
#pragma once

#include "checkup/nvml.h"

typedef struct nvml_device *nvml_device;
typedef struct nvml_events *nvml_events;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_memory2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
#define MEMORY2 (sizeof(struct nvml_memory2) | 2U << 24)
struct nvml_use {
	unsigned gpu, memory;
};
struct nvml_pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};
struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned instance, compute;
};
struct nvml_field {
	unsigned id, scope;
	long long at, latency;
	int type, code; // type of the value, result
	union {
		double d;
		int si;
		unsigned ui;
		unsigned long ul;
		unsigned long long ull;
		long long sll;
	} value;
};

// Of MIG: a GPU instance, the compute instance in it, and what they can be like.
typedef struct nvml_part *nvml_part;
typedef struct nvml_compute *nvml_compute;
struct nvml_place {
	unsigned start, size;
};
struct nvml_kind {
	unsigned version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
	unsigned long long memory_mb;
	char name[96];
};
#define KIND (sizeof(struct nvml_kind) | 2U << 24)
struct nvml_part_info {
	nvml_device device;
	unsigned id, kind;
	struct nvml_place place;
};
struct nvml_inner {
	unsigned id, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
};

enum {
	OK = 0,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NO_PERMISSION = 4,
	RESET_REQUIRED = 16,
	IN_USE = 19,
	INSUFFICIENT_RESOURCES = 23,
	TEMPERATURE_GPU = 0,
	ECC_CORRECTED = 0,
	ECC_UNCORRECTED = 1,
	ECC_VOLATILE = 0,
	LINKS = 18,
	LINK_ERRORS = 4, // kinds that a link counts: replays, recoveries, CRC errors of flits and of data
	P2P_NVLINK = 2,
	CLOCK_GRAPHICS = 0,
	CLOCK_SM = 1,
	PCIE_SENT = 0,
	PCIE_RECEIVED = 1,
	// What nvmlDeviceGetFieldValues is asked for, NVML_FI_DEV_…. Of NVLink they are sums over all links.
	FIELD_CRC_FLIT = 38,
	FIELD_CRC_DATA = 45,
	FIELD_REPLAY = 52,
	FIELD_RECOVERIES = 59,
	FIELD_PCIE_REPLAY = 94,
	FIELD_NVLINK_SENT = 138, // KiB
	FIELD_NVLINK_RECEIVED = 139,
	FIELD_PCIE_SENT = 197,
	FIELD_PCIE_RECEIVED = 198,
	FIELD_RECOVERY = 230, // GET_GPU_RECOVERY_ACTION
	VALUE_UNSIGNED_INT = 1,
	VALUE_UNSIGNED_LONG = 2,
	VALUE_UNSIGNED_LONG_LONG = 3
};
#define EVENT_XID 8ULL
#define ALL_LINKS 0xFFFFFFFFU // scope of a field: the sum of them
#define NO_PART 0xFFFFFFFFU   // what an event says that is about none
// Why clocks are low. HARDWARE stands for heat and the power brake, too.
#define SLOW_SET 0x2ULL
#define SLOW_POWER_CAP 0x4ULL
#define SLOW_HARDWARE 0x8ULL
#define SLOW_HEAT (0x40ULL | 0x20ULL) // the hardware's and the software's thermal slowdown
#define SLOW_BRAKE 0x80ULL

#define CALLS(X)                                                                                                       \
	X(init, "nvmlInit_v2", (void))                                                                                 \
	X(shutdown, "nvmlShutdown", (void))                                                                            \
	X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                                \
	X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                                          \
	X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                                  \
	X(serial, "nvmlDeviceGetSerial", (nvml_device, char *, unsigned))                                              \
	X(vbios, "nvmlDeviceGetVbiosVersion", (nvml_device, char *, unsigned))                                         \
	X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, struct nvml_pci *))                                            \
	X(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *))                                     \
	X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                                                 \
	X(use, "nvmlDeviceGetUtilizationRates", (nvml_device, struct nvml_use *))                                      \
	X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))                                      \
	X(memory2, "nvmlDeviceGetMemoryInfo_v2", (nvml_device, struct nvml_memory2 *))                                 \
	X(ecc, "nvmlDeviceGetTotalEccErrors", (nvml_device, int, int, unsigned long long *))                           \
	X(remapped, "nvmlDeviceGetRemappedRows", (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))        \
	X(slow, "nvmlDeviceGetCurrentClocksEventReasons", (nvml_device, unsigned long long *))                         \
	X(slow_before, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *))               \
	X(width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device, unsigned *))                                          \
	X(width_max, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device, unsigned *))                                       \
	X(link, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, int *))                                            \
	X(link_to, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (nvml_device, unsigned, struct nvml_pci *))                  \
	X(link_errors, "nvmlDeviceGetNvLinkErrorCounter", (nvml_device, unsigned, int, unsigned long long *))          \
	X(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                                                  \
	X(minor, "nvmlDeviceGetMinorNumber", (nvml_device, unsigned *))                                                \
	X(mig, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *))                                          \
	X(mig_max, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device, unsigned *))                                        \
	X(mig_part, "nvmlDeviceGetMigDeviceHandleByIndex", (nvml_device, unsigned, nvml_device *))                     \
	X(instance, "nvmlDeviceGetGpuInstanceId", (nvml_device, unsigned *))                                           \
	X(compute, "nvmlDeviceGetComputeInstanceId", (nvml_device, unsigned *))                                        \
	X(p2p, "nvmlDeviceGetP2PStatus", (nvml_device, nvml_device, int, int *))                                       \
	X(clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *))                                             \
	X(clock_max, "nvmlDeviceGetMaxClockInfo", (nvml_device, int, unsigned *))                                      \
	X(clock_set, "nvmlDeviceGetApplicationsClock", (nvml_device, int, unsigned *))                                 \
	X(fields, "nvmlDeviceGetFieldValues", (nvml_device, int, struct nvml_field *))                                 \
	X(pcie_now, "nvmlDeviceGetPcieThroughput", (nvml_device, int, unsigned *))                                     \
	X(events_new, "nvmlEventSetCreate", (nvml_events *))                                                           \
	X(events_of, "nvmlDeviceRegisterEvents", (nvml_device, unsigned long long, nvml_events))                       \
	X(events_wait, "nvmlEventSetWait_v2", (nvml_events, struct nvml_event *, unsigned))                            \
	X(events_free, "nvmlEventSetFree", (nvml_events))                                                              \
	X(mig_set, "nvmlDeviceSetMigMode", (nvml_device, unsigned, int *))                                             \
	X(kind, "nvmlDeviceGetGpuInstanceProfileInfoV", (nvml_device, unsigned, struct nvml_kind *))                   \
	X(places, "nvmlDeviceGetGpuInstancePossiblePlacements_v2",                                                     \
	  (nvml_device, unsigned, struct nvml_place *, unsigned *))                                                    \
	X(parts, "nvmlDeviceGetGpuInstances", (nvml_device, unsigned, nvml_part *, unsigned *))                        \
	X(part_info, "nvmlGpuInstanceGetInfo", (nvml_part, struct nvml_part_info *))                                   \
	X(part_new, "nvmlDeviceCreateGpuInstanceWithPlacement",                                                        \
	  (nvml_device, unsigned, const struct nvml_place *, nvml_part *))                                             \
	X(part_end, "nvmlGpuInstanceDestroy", (nvml_part))                                                             \
	X(inner, "nvmlGpuInstanceGetComputeInstanceProfileInfo", (nvml_part, unsigned, unsigned, struct nvml_inner *)) \
	X(inners, "nvmlGpuInstanceGetComputeInstances", (nvml_part, unsigned, nvml_compute *, unsigned *))             \
	X(inner_new, "nvmlGpuInstanceCreateComputeInstance", (nvml_part, unsigned, nvml_compute *))                    \
	X(inner_end, "nvmlComputeInstanceDestroy", (nvml_compute))

// What of a GPU stays the same while the library is open and its parts are not changed.
struct nvml_who {
	bool known; // all of it was told, or there is no such thing
	char model[64], serial[32], firmware[32], uuid[64];
	int minor, pcie_width_max, clock_max_mhz;
	uint64_t peers;
};

// NVML writes a domain of 8 digits in capitals, the kernel one of 4.
void td_nvml_address(const char *pci, char *ret, size_t size);

#define DECLARE(field, symbol, args) int(*field) args;
struct td_nvml {
	void *lib;
	CALLS(DECLARE)
	unsigned n;
	nvml_device gpu[TD_HEALTH_GPUS];
	char pci_of[TD_HEALTH_GPUS][32];
	int xid[TD_HEALTH_GPUS];
	unsigned xid_of[TD_HEALTH_GPUS]; // the part that it is about
	nvml_events events;
	struct td_mig cut; // as they were when each answered last
	struct nvml_who who[TD_HEALTH_GPUS];
	struct td_lasts lasts[TD_HEALTH_GPUS][TD_SLOWS];
	struct td_traffic pcie_now_of[TD_HEALTH_GPUS];
	struct nvml_links {
		char to[LINKS][24];               // the far end of each NVLink: "gpu5", "0000:c1:00.0"; "": not known
		unsigned long long errors[LINKS]; // that each had counted when their sum changed last
		int64_t sum;                      // of the errors of all
		bool counted;
		int worst;     // the link that most were of when they began, counted from 1; 0: not known
		int64_t at_ms; // when their sum changed last
	} links_of[TD_HEALTH_GPUS];
	unsigned turn; // the GPU whose PCIe link is measured at the next look
};
