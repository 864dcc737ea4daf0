// The table of checks, and the judgement of facts by it. docs/health.md shows the same table.
#include "checkup/checkup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GPU "GpuUnhealthy"
const struct td_checkup_check td_checkup_checks[] = {
	{"xid", GPU, "NVML's events, the kernel's log", "any XID that is no application's fault", "by number",
	 "gpu3 xid=79", false},
	{"recovery", GPU, "NVML's own recovery action", "not none", "by number", "gpu3 recovery=1", false},
	{"gpu-lost", GPU, "NVML", "the GPU does not answer", "reboot", "gpu3 lost=1", false},
	{"ecc", GPU, "NVML", "an uncorrected error", "reset-gpu", "gpu3 ecc=1", true},
	{"remap", GPU, "NVML", "rows to be remapped; that failed", "reset-gpu", "gpu3 remap=pending", true},
	{"thermal", GPU, "NVML", "90 C, or slowed by heat for a minute", "drain", "gpu3 temp=95", false},
	{"clocks", GPU, "NVML", "slowed by the hardware or the power brake for a minute", "drain",
	 "gpu3 slow=power-brake", false},
	{"pcie", GPU, "NVML", "fewer lanes than it can have", "reboot", "gpu3 pcie-width=4", false},
	{"nvlink", GPU, "NVML", "a link is down", "reset-gpu", "gpu3 nvlink-down=1", false},
	{"nvlink-errors", GPU, "NVML", "500 CRC errors, 50 replays or 2 recoveries of its NVLinks in 10 minutes",
	 "reset-gpu", "gpu3 nvlink-recovery=2", false},
	{"pcie-errors", GPU, "NVML, AER in sysfs",
	 "100 replays, 500 corrected, 10 uncorrected errors or a fatal one of its PCIe link in 10 minutes", "drain",
	 "gpu3 pcie-replay=100", false},
	{"preflight", GPU, "the quick test before a job", "it computes wrongly, or does not end", "reset-gpu",
	 "gpu3 burn=fail", false},
	{"exchange", "NetworkUnhealthy", "the test of several nodes before a job", "it exchanges no data with others",
	 "drain", "node link=down", false},
	{"shared-storage", "DiskUnhealthy", "the test of several nodes before a job",
	 "a file on shared storage is not as it was written", "drain", "node storage=fail", false},
	{"infiniband", "NetworkUnhealthy", "/sys/class/infiniband", "a port that was active is not", "drain",
	 "node ib-down=mlx5_0/1", false},
	{"link-flaps", "NetworkUnhealthy", "/sys/class/infiniband, /sys/class/net",
	 "a link went down three times or mended itself twice in 10 minutes", "drain", "node link-downed=mlx5_0/1:3",
	 false},
	{"link-errors", "NetworkUnhealthy", "the same, AER in sysfs",
	 "100 symbol errors, 500 receive errors, or errors of PCIe as of a GPU in 10 minutes", "drain",
	 "node receive-errors=eno1:500", false},
	{"disk-full", "DiskUnhealthy", "statvfs", "97 % of a file system", "drain", "node disk-full=98", false},
	{"disk-readonly", "DiskUnhealthy", "/proc/mounts", "a file system of a disk became read-only", "reboot",
	 "node disk-readonly=/var", false},
	{"disk-failing", "DiskUnhealthy", "SMART, NVMe", "a disk warns, fails by SMART, or its spare blocks run out",
	 "drain", "node disk-warning=nvme0n1:4", false},
	{"disk-errors", "DiskUnhealthy", "the same", "a block could not be read or written, in the last 10 minutes",
	 "drain", "node disk-media=nvme0n1:1", false},
	{"disk-hot", "DiskUnhealthy", "the same", "a disk warns for two minutes that it is too hot", "drain",
	 "node disk-warning=nvme0n1:2", false},
	{"disk-worn", "DiskUnhealthy", "the same", "as much was written as it was made for", "none",
	 "node disk-used=nvme0n1:100", false},
	{"memory", "MemoryUnhealthy", "EDAC", "an uncorrected error", "reboot", "node memory=1", false},
	{"memory-away", "MemoryUnhealthy", "/proc/meminfo", "5 % less memory than was seen: its host took it back",
	 "drain", "node memory-away=20", false},
	{"steal", "CpuUnhealthy", "/proc/stat", "10 % of its CPUs' time in 10 minutes, that its host gave to others",
	 "none", "node steal=20", false},
	{"clock", "ClockUnhealthy", "adjtimex", "off by 500 ms", "drain", "node clock-ms=900", false},
	{"stuck", "KernelUnhealthy", "/proc", "a process in state D for 120 s", "reboot", "node stuck=2", false},
};
const size_t td_checkup_n_checks = TD_LEN(td_checkup_checks);

const struct td_checkup_check *td_checkup_check_named(const char *name)
{
	for (size_t i = 0; i < td_checkup_n_checks; i++)
		if (!strcmp(td_checkup_checks[i].name, name))
			return &td_checkup_checks[i];
	return NULL;
}

const char *const td_checkup_slow_names[TD_SLOWS] = {"heat", "hardware", "power-brake", "power-cap", "set"};
const char *const td_checkup_count_names[TD_COUNTS] = {
	"nvlink-crc", "nvlink-replay", "nvlink-recovery", "pcie-replay",   "aer-corrected", "aer-nonfatal",
	"aer-fatal",  "link-downed",   "symbol-errors",   "link-recovery", "receive-errors"};
// From how many within ten minutes on it is a fault, of a GPU and of a port.
static const struct {
	const char *gpu, *port, *words;
	int64_t limit;
} counted[TD_COUNTS] = {
	[TD_COUNT_NVLINK_CRC] = {"nvlink-errors", NULL, "CRC errors of NVLink", 500},
	[TD_COUNT_NVLINK_REPLAY] = {"nvlink-errors", NULL, "replays of NVLink", 50},
	[TD_COUNT_NVLINK_RECOVERY] = {"nvlink-errors", NULL, "recoveries of NVLink", 2},
	[TD_COUNT_PCIE_REPLAY] = {"pcie-errors", NULL, "replays of PCIe", 100},
	[TD_COUNT_AER_CORRECTED] = {"pcie-errors", "link-errors", "corrected errors of PCIe", 500},
	[TD_COUNT_AER_NONFATAL] = {"pcie-errors", "link-errors", "uncorrected errors of PCIe", 10},
	[TD_COUNT_AER_FATAL] = {"pcie-errors", "link-errors", "fatal errors of PCIe", 1},
	// An administrator who sets a port down and up again, and once more, breaks nothing.
	[TD_COUNT_DOWN] = {NULL, "link-flaps", "times down", 3},
	[TD_COUNT_SYMBOL] = {NULL, "link-errors", "symbol errors", 100},
	[TD_COUNT_RECOVERY] = {NULL, "link-flaps", "times mended by itself", 2},
	[TD_COUNT_RECEIVE] = {NULL, "link-errors", "receive errors", 500},
};

struct found {
	int gpu; // -1: the node
	int64_t code;
	const char *action; // NULL: the table's
	const char *link;   // NULL: it is about none
};

struct link_name {
	char s[112]; // of a finding as much as has room there
};

static void found(struct td_checkup_findings *l, const char *check, struct found x, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void found(struct td_checkup_findings *l, const char *check, struct found x, const char *fmt, ...)
{
	const struct td_checkup_check *c = td_checkup_check_named(check);
	if (!c || l->n >= TD_HEALTH_FINDINGS)
		return;
	struct td_checkup_finding *f = &l->v[l->n++];
	*f = (struct td_checkup_finding){.code = x.code, .action = x.action ? x.action : c->action};
	snprintf(f->check, sizeof(f->check), "%s", check);
	snprintf(f->condition, sizeof(f->condition), "%s", c->condition);
	snprintf(f->link, sizeof(f->link), "%s", x.link ? x.link : "");
	int at = 0;
	if (x.gpu >= 0) {
		snprintf(f->device, sizeof(f->device), "gpu%d", x.gpu);
		at = snprintf(f->message, sizeof(f->message), "gpu%d: ", x.gpu);
	}
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->message + at, sizeof(f->message) - (size_t)at, fmt, ap);
	va_end(ap);
}

// NVML's recovery actions (nvmlDeviceGpuRecoveryAction_t).
static const char *recovery(int action, const char **ret_words)
{
	static const struct {
		const char *action, *words;
	} table[] = {
		{"none", "nothing"},          {"reset-gpu", "reset the GPU"},           {"reboot", "reboot the node"},
		{"drain", "drain its peers"}, {"reset-gpu", "drain and reset the GPU"},
	};
	bool known = action >= 0 && (size_t)action < TD_LEN(table);
	*ret_words = known ? table[action].words : "something new";
	return known ? table[action].action : "reboot";
}

// A reset takes all parts of a GPU, and how it is cut: what asks for one drains the node instead.
static void parts(const struct td_checkup_gpu *g, struct td_checkup_findings *l, size_t from)
{
	for (size_t k = from; *g->profile && k < l->n; k++)
		if (!strcmp(l->v[k].action, "reset-gpu"))
			l->v[k].action = "drain";
}

// 1, 2, 5, 10, …: so that the words do not change with every error, each change of them being a write to the API.
static int64_t about(int64_t n)
{
	int64_t step = 1;
	while (step <= n / 10)
		step *= 10;
	return n >= 5 * step ? 5 * step : n >= 2 * step ? 2 * step : step;
}

// The link of PCIe by its two ends: "PCIe 0000:3b:00.0 at 0000:3a:00.0"; "PCIe" where they are not known.
static void name_pcie(const struct td_checkup_gpu *g, struct link_name *ret)
{
	snprintf(ret->s, sizeof(ret->s), "PCIe%s%s%s%s", *g->pci ? " " : "", g->pci, *g->pci && *g->above ? " at " : "",
		 *g->pci ? g->above : "");
}

static bool of_nvlink(int kind)
{
	return kind == TD_COUNT_NVLINK_CRC || kind == TD_COUNT_NVLINK_REPLAY || kind == TD_COUNT_NVLINK_RECOVERY;
}

// port NULL: of GPU i, which is g.
static void judge_counts(const struct td_count *c, int i, const struct td_checkup_gpu *g, const char *port,
			 struct td_checkup_findings *l)
{
	struct link_name pcie = {""}, nvlink = {""};
	if (g)
		name_pcie(g, &pcie);
	if (g && *g->links_worst)
		snprintf(nvlink.s, sizeof(nvlink.s), "NVLink %s", g->links_worst);
	for (int k = 0; k < TD_COUNTS; k++) {
		const char *check = port ? counted[k].port : counted[k].gpu;
		const int64_t some = about(c[k].recent), n = some > counted[k].limit ? some : counted[k].limit;
		const char *link = port ? port : of_nvlink(k) ? nvlink.s : pcie.s;
		const bool known = *link && strcmp(link, "PCIe") != 0;
		if (check && c[k].known && c[k].recent >= counted[k].limit)
			found(l, check, (struct found){i, n, NULL, known ? link : NULL},
			      "%s%sat least %lld %s in 10 minutes", port || known ? link : "",
			      port || known ? ": " : "", (long long)n, counted[k].words);
	}
}

static void judge_gpu(const struct td_checkup_gpu *g, int i, struct td_checkup_findings *l)
{
	const size_t from = l->n;
	const char *words, *action;
	if (g->lost)
		found(l, "gpu-lost", (struct found){.gpu = i}, "it does not answer");
	// NVML's own word first; the table where it says nothing.
	if (g->recovery && strcmp(action = recovery(g->recovery, &words), "none") != 0)
		found(l, "recovery", (struct found){i, g->recovery, action, NULL}, "NVML says: %s", words);
	if (g->xid && strcmp(action = td_checkup_xid_action(g->xid, &words), "none") != 0)
		found(l, "xid", (struct found){i, g->xid, action, NULL}, "XID %d%s%s", g->xid, words ? ", " : "",
		      words ? words : "");
	if (g->ecc_uncorrected > 0)
		found(l, "ecc", (struct found){i, g->ecc_uncorrected, NULL, NULL}, "%lld uncorrected ECC errors",
		      (long long)g->ecc_uncorrected);
	if (g->remap_failed)
		found(l, "remap", (struct found){i, 2, "drain", NULL},
		      "a row of its memory could not be remapped: replace it");
	else if (g->remap_pending)
		found(l, "remap", (struct found){i, 1, NULL, NULL}, "a row of its memory waits to be remapped");
	const bool heat = g->slow_s[TD_SLOW_HEAT] >= TD_HEALTH_SLOW_S;
	if (g->temp_c >= TD_HEALTH_HOT_C || heat)
		found(l, "thermal", (struct found){i, (int64_t)g->temp_c, NULL, NULL}, "%.0f C%s", g->temp_c,
		      heat ? ", slowed by heat" : "");
	// The words stay the same as long as it lasts: each change of them is a write to the API.
	for (int k = TD_SLOW_HARDWARE; k <= TD_SLOW_BRAKE; k++)
		if (g->slow_s[k] >= TD_HEALTH_SLOW_S)
			found(l, "clocks", (struct found){i, k, NULL, NULL}, "slowed by %s for a minute or more",
			      k == TD_SLOW_BRAKE ? "the machine's power brake" : "its hardware");
	struct link_name pcie, nvlink;
	name_pcie(g, &pcie);
	snprintf(nvlink.s, sizeof(nvlink.s), "NVLink %s", g->links_which);
	if (g->pcie_width && g->pcie_width < g->pcie_width_max)
		found(l, "pcie", (struct found){i, g->pcie_width, NULL, *g->pci ? pcie.s : NULL}, "%s x%d of x%d",
		      pcie.s, g->pcie_width, g->pcie_width_max);
	if (g->links_down)
		found(l, "nvlink", (struct found){i, g->links_down, NULL, *g->links_which ? nvlink.s : NULL},
		      "%d of %d NVLinks are down%s%s", g->links_down, g->links, *g->links_which ? ": " : "",
		      g->links_which);
	judge_counts(g->count, i, g, NULL, l);
	parts(g, l, from);
}

static void judge_disk(const struct td_checkup_disk *d, struct td_checkup_findings *l)
{
	const struct found node = {.gpu = -1};
	if (!d->smart)
		return;
	if (d->failing)
		found(l, "disk-failing", node, "%s: %s", d->name, d->why);
	if (d->media.known && d->media.recent > 0)
		found(l, "disk-errors", (struct found){-1, about(d->media.recent), NULL, NULL},
		      "%s: at least %lld blocks could not be read or written in 10 minutes", d->name,
		      (long long)about(d->media.recent));
	if (d->hot_s >= TD_HEALTH_DISK_HOT_S)
		found(l, "disk-hot", node, "%s: it is too hot", d->name);
	if (d->used >= TD_HEALTH_WORN_PERCENT)
		found(l, "disk-worn", (struct found){-1, d->used, NULL},
		      "%s: %d %% of what it was made for was written", d->name, d->used);
}

void td_checkup_judge(const struct td_checkup_facts *f, struct td_checkup_findings *l)
{
	const struct found node = {.gpu = -1};
	for (int i = 0; i < f->gpus && i < TD_HEALTH_GPUS; i++)
		judge_gpu(&f->gpu[i], i, l);
	for (const char *p = f->port_down; *p; p += strcspn(p, ","), p += *p == ',') {
		struct link_name port;
		snprintf(port.s, sizeof(port.s), "%.*s", (int)strcspn(p, ","), p);
		found(l, "infiniband", (struct found){.gpu = -1, .link = port.s}, "port %s is not active", port.s);
	}
	for (int i = 0; i < f->ports && i < TD_PORTS; i++)
		judge_counts(f->port[i].count, -1, NULL, f->port[i].name, l);
	if (f->disk_percent >= TD_HEALTH_DISK_PERCENT)
		found(l, "disk-full", (struct found){-1, (int64_t)f->disk_percent, NULL, NULL}, "%s is full to %.0f %%",
		      f->disk, f->disk_percent);
	if (*f->disk_readonly)
		found(l, "disk-readonly", node, "%s is read-only", f->disk_readonly);
	for (int i = 0; i < f->n_disks && i < TD_DISKS; i++)
		judge_disk(&f->disks[i], l);
	if (f->memory_uncorrected > 0)
		found(l, "memory", (struct found){-1, f->memory_uncorrected, NULL, NULL},
		      "%lld uncorrected errors of memory", (long long)f->memory_uncorrected);
	if (f->memory_away_percent >= TD_HEALTH_AWAY_PERCENT)
		found(l, "memory-away", (struct found){-1, about(f->memory_away_percent), NULL, NULL},
		      "its host took at least %lld %% of its memory back", (long long)about(f->memory_away_percent));
	if (f->steal_percent >= TD_HEALTH_STEAL_PERCENT)
		found(l, "steal", (struct found){-1, about(f->steal_percent), NULL, NULL},
		      "its host gave at least %lld %% of its CPUs' time to others", (long long)about(f->steal_percent));
	if (f->clock_ms >= TD_HEALTH_CLOCK_MS)
		found(l, "clock", (struct found){-1, f->clock_ms, NULL, NULL}, "the clock is off by %lld ms",
		      (long long)f->clock_ms);
	if (f->stuck >= TD_HEALTH_STUCK)
		found(l, "stuck", (struct found){-1, f->stuck, NULL, NULL}, "%d processes are stuck in the kernel",
		      f->stuck);
}

void td_checkup_backend_done(struct td_checkup_backend *b)
{
	if (b->free)
		b->free(b->ctx);
	*b = (struct td_checkup_backend){0};
}
