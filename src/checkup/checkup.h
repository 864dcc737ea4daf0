// What is wrong with a node: facts from a backend, judged by one table of checks. It knows no
// Kubernetes. The same code judges a real machine (NVML, the kernel's log, sysfs) and a virtual node,
// whose faults a file names.
//
// Threads: a backend is used by one thread at a time.
//
// Files
//   checks.c          the table of checks and the judgement
//   xid.c xid.txt     NVIDIA's XIDs: what is done about each; versioned data
//   fake.c            the backend of virtual nodes, driven by a file of faults
//   machine.c         the backend of a real machine: sysfs, /proc, the kernel's log
//   nvml.[ch]         its GPUs, by NVML, which is loaded where it is there
//   mig.c             GPUs that are cut in parts (MIG): each part is a device of its own
//   migcut.c nvml_priv.h  how NVML cuts a GPU
//   where.c           where its GPUs are: NUMA nodes and cores, by sysfs; what is told of all GPUs, as JSON
//   nics.c            its adapters of the network, and how near they are to the GPUs, by sysfs
//   rates.c           what lasts, and how often something was counted of late
//   links.c           errors and flaps that links count, by sysfs
//   vm.c              what the host of a virtual machine takes away from it
//   disks.c smart.c nvme.c   its disks, by sysfs, and what they say of their health
//   cuda.[ch] cuda.ptx  the test of real GPUs, by CUDA's driver
//   site.c            a site's own checks: programs
//   bandwidth.c       how quick memory and disk of a node are
//   vpd.c             serial numbers, models and firmware of its adapters
//   quick.c           the quick test of a job's devices before it starts
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

enum {
	TD_HEALTH_GPUS = 64,
	TD_HEALTH_FINDINGS = 64,
	TD_HEALTH_TEXT = 160,
	TD_NICS = 32,
	TD_NIC_FILES = 3,
	TD_PORTS = 64,
	TD_DISKS = 64
};

// Why a GPU's clocks are low. HARDWARE: the hardware says so, and not why. BRAKE: by the power brake, a signal of the
// machine's. POWER_CAP and SET are no faults: it draws as much as it may; its application clocks are set so.
enum td_slow { TD_SLOW_HEAT, TD_SLOW_HARDWARE, TD_SLOW_BRAKE, TD_SLOW_POWER_CAP, TD_SLOW_SET, TD_SLOWS };

// What links count. Of a GPU those up to AER (errors that PCIe reports of the device); of a port of the network AER and
// the rest: how often the link went down, symbol errors, how often it mended itself, what came broken.
enum td_count_kind {
	TD_COUNT_NVLINK_CRC,
	TD_COUNT_NVLINK_REPLAY,
	TD_COUNT_NVLINK_RECOVERY,
	TD_COUNT_PCIE_REPLAY,
	TD_COUNT_AER_CORRECTED,
	TD_COUNT_AER_NONFATAL,
	TD_COUNT_AER_FATAL,
	TD_COUNT_DOWN,
	TD_COUNT_SYMBOL,
	TD_COUNT_RECOVERY,
	TD_COUNT_RECEIVE,
	TD_COUNTS
};
// Not known: a counter that is not there is neither well nor sick.
struct td_count {
	bool known;
	int64_t total, recent; // as the link counts; within the last ten minutes, as far as they were seen
};
struct td_traffic {
	bool known;
	int64_t sent, received; // bytes
};

struct td_checkup_gpu {
	char model[64], serial[32], firmware[32]; // "": not known
	bool lost;                                // it does not answer
	double temp_c, power_w, use_percent;      // below 0: not known
	int64_t memory_used_mb, memory_mb;
	int64_t ecc_corrected, ecc_uncorrected; // since its driver was loaded
	bool remap_pending, remap_failed;       // rows of its memory
	bool slow_known;
	int slow_s[TD_SLOWS];           // for how long its clocks have been low for that reason; 0: they are not
	int pcie_width, pcie_width_max; // 0: not known
	int links, links_down;          // NVLink
	char links_which[96];           // those that are down: "3 to gpu5, 7 to 0000:c1:00.0"; "": not known
	char links_worst[32];           // the link that counted the errors of late: "3 to gpu5"; "": not known
	char above[24];                 // the port of PCIe that it hangs at, "0000:3a:00.0"; "": not known
	int xid;                        // the last one since it was last reset; 0: none
	int recovery;                   // what NVML says must be done; 0: nothing
	// Where it is. Not known: "", below 0.
	char uuid[64], pci[24]; // "GPU-…"; "0000:3b:00.0", as the kernel writes it
	int minor;              // of its device file, /dev/nvidia<minor>
	int numa;               // node of the memory that it hangs at
	char cpus[96];          // near to it: "0-15,32-47"
	int of;                 // the machine's GPU, in NVML's order, that this is, or is a part of
	char profile[24];       // of a part (MIG): "1g.10gb"; "": it is a whole GPU
	int instance, compute;  // of a part: its numbers on that GPU
	int caps[2];    // of a part: the numbers of its files /dev/nvidia-caps/nvidia-cap<N>; below 0: not known
	char file[40];  // its device file, where that is not /dev/nvidia<minor>; of a part its GPU's
	uint64_t peers; // GPUs that it reaches by NVLink
	int clock_mhz, clock_max_mhz, clock_set_mhz; // set: its application clocks
	struct td_count count[TD_COUNTS];
	struct td_traffic nvlink, pcie; // since its driver was loaded
	struct td_traffic pcie_now;     // in a second, where the driver does not count it
};
// An adapter of the network. Not known: "", 0, numa below 0.
struct td_checkup_nic {
	char name[32];      // of the RDMA adapter, "mlx5_0"; of an Ethernet interface without one its own
	char interface[16]; // "ib0"
	char link[16];      // "InfiniBand", "RoCE", "Ethernet"
	char guid[24], address[64], pci[24], model[32], firmware[32];
	// The device's own words, which are learnt later than the rest: they are in the metrics only.
	char own_model[48], own_firmware[32], serial[40];
	int port; // of the RDMA adapter
	int numa;
	// Its device files: /dev/infiniband/uverbs0, umad0, issm0. None: nobody could use it.
	char files[TD_NIC_FILES][40];
	int n_files;
	int64_t rate_mb; // megabits in a second
	bool active;
	// To each GPU. 1: it hangs at the same NUMA node; 2: host bridge; 3: root port; 4 and more: below the same PCIe
	// switch, the more the farther down. 0: none of these.
	signed char near[TD_HEALTH_GPUS];
};
// A port of the network: "mlx5_0/1" of an RDMA adapter, "eno1" of an interface of Ethernet.
struct td_checkup_port {
	char name[40];
	struct td_count count[TD_COUNTS];
};
// A disk, as the kernel names it: "nvme0n1", "sda". Not known: "", below 0.
struct td_checkup_disk {
	char name[32], kind[8]; // "nvme", "ssd", "hdd"
	char model[48], serial[40], firmware[24];
	int64_t bytes;
	bool smart;            // it said of its health what follows
	bool failing;          // it says that it fails, or will soon
	bool hot;              // so hot that it says so
	int hot_s;             // for how long; 0: it is not
	char why[48];          // what of failing: "its spare blocks run out"
	int temp_c;            // its temperature
	int used, spare;       // percent of what it was made for that was written; of its spare blocks that are left
	struct td_count media; // blocks that it could not read or write
};
struct td_checkup_facts {
	struct td_checkup_gpu gpu[TD_HEALTH_GPUS]; // in the order of Slurm's indexes
	int gpus;
	char port_down[160]; // InfiniBand ports that are not active, "mlx5_0/1,mlx5_1/1"; "": none
	double disk_percent;
	char disk[96];          // the fullest file system, of disk_percent
	char disk_readonly[96]; // one that became read-only; "": none
	int64_t memory_uncorrected;
	int64_t clock_ms;        // how far the clock is off, as far as the kernel knows
	int stuck;               // processes that cannot be interrupted and have been so for minutes
	int steal_percent;       // of its CPUs' time of late, that its host gave to others; 0: none, or not known
	int memory_away_percent; // of its memory that its host has taken back
	int numa_nodes;          // of the machine; 0: not known
	struct td_checkup_nic nic[TD_NICS];
	int nics;
	struct td_checkup_port port[TD_PORTS];
	int ports;
	struct td_checkup_disk disks[TD_DISKS]; // its disks; `disk` is a file system
	int n_disks;
};

// ---- where the GPUs are ----

// Fills numa, cpus and above of each GPU that has an address, and numa_nodes, from <root>/sys.
void td_checkup_where(const char *root, struct td_checkup_facts *f);
// What a machine tells of its GPUs besides their health: JSON, {"numaNodes": 2, "gpus": [{"product": …, "uuid": …,
// "minor": 0, "pci": …, "numa": 0, "cpus": …, "peers": "1-3"}, …]}, without what is not known. Where a GPU is cut, all
// have "files" and each part has "mig", its profile, and "gpu", the machine's GPU. NULL: there are none, or one of them
// does not say who it is. The caller frees it.
char *td_checkup_inventory(const struct td_checkup_facts *f);

// ---- GPUs that are cut in parts (MIG) ----

struct td_mig_part {
	int gpu, instance, compute; // the machine's GPU, and the numbers on it
	char profile[24], uuid[64];
	int64_t memory_mb;
	int caps[2];
};
struct td_mig {
	struct td_mig_part v[TD_HEALTH_GPUS];
	size_t n;
	uint64_t cut; // the machine's GPUs that are cut, also into no part at all
};
// Puts the parts in the place of the GPUs that are cut, of which none is there as a whole any more: whole GPUs first, in
// their order, then parts, those of one profile together, because Slurm numbers the GPUs of one type one after the
// other. f has the machine's GPUs. What is beyond TD_HEALTH_GPUS is left out.
void td_mig_apply(const struct td_mig *m, struct td_checkup_facts *f);
// The profile in the name that NVML gives a part, "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me": "1g.5gb.me", which resources
// of Kubernetes and types of Slurm may be called. False: there is none.
bool td_mig_profile(const char *name, char ret[24]);
// How a virtual node's GPUs are cut: lines "gpu0 3g.40gb 1g.10gb". Absent: they are not. TD_INVALID names the line.
int td_mig_file(const char *path, int gpus, struct td_mig *ret, struct td_error *err);
// Finds the capability files of the parts, from <root>/proc/driver/nvidia/capabilities, or the machine's where an agent
// in a container is shown none.
void td_mig_caps(const char *root, struct td_checkup_facts *f);
// Writes the device files of a device; returns how many: 1, of a part 3. 0: not known.
size_t td_mig_files(const struct td_checkup_gpu *g, char ret[3][40]);
bool td_mig_any(const struct td_checkup_facts *f); // one of them is a part
// All devices answer. One that is lost when its agent starts is in no place that is known: how it is cut nobody says.
bool td_mig_told(const struct td_checkup_facts *f);
#define TD_MIG_EACH " each "   // stands in that text
#define TD_MIG_TEXT (64 << 10) // and it is shorter
// What tells the TaskProlog the variables of Slurm's jobs (standin/wire.h): of each device its UUID, because CUDA knows
// parts by no index. NULL: none is a part. The caller frees it.
char *td_mig_task_text(const struct td_checkup_facts *f);

// ---- the network's adapters ----

// Fills nic from <root>/sys, RDMA adapters first, each kind in the order of its names, with how near each is to the GPUs,
// whose addresses and NUMA nodes are there. What another function lent out (SR-IOV) is none of them. An agent in a
// container reads process 1's /sys, where it may, because its own shows no interfaces of the machine.
void td_checkup_nics(const char *root, struct td_checkup_facts *f);
// Where that /sys is: `root`, or process 1's. The caller frees it.
char *td_checkup_nics_root(const char *root);
// What a device calls itself, n bytes, without blanks around it and in plain characters, which JSON and metrics need not
// escape: "_" stands for others. ret stays as it is where nothing is left.
void td_checkup_word(char *ret, size_t size, const char *p, size_t n);
// What a machine tells of them: JSON, {"nics": [{"name": …, "interface": …, "link": …, "guid": …, "address": …,
// "pci": …, "model": …, "firmware": …, "port": 1, "numa": 0, "rate": 400000, "active": true, "near": [4, 1]}, …]},
// without what is not known. NULL: there are none. The caller frees it.
char *td_checkup_nics_text(const struct td_checkup_facts *f);
// The vital product data of a PCI device (VPD): its name and its serial number, each where it is there; else they stay.
void td_vpd_read(const unsigned char *data, size_t n, char model[48], char serial[40]);
struct td_vpds;
struct td_vpds *td_vpds_new(void);
struct td_vpds *td_vpds_free(struct td_vpds *v);
// Fills serial, own_model and own_firmware of the adapters: from <root>/sys, and where root is the
// machine's own by ethtool's call. Each is asked once, one at each look, because such data is read word by word: that may
// take some 100 ms.
void td_vpds_look(struct td_vpds *v, const char *root, struct td_checkup_facts *f);
// Fills the addresses of GPUs that NVML does not tell of, from <root>/sys, in their order there.
void td_checkup_nics_gpus(const char *root, struct td_checkup_facts *f);

// ---- what links count ----

extern const char *const td_checkup_count_names[TD_COUNTS]; // "nvlink-crc", …, "link-downed", …
// A counter's last ten minutes, by values that are a minute apart at least.
enum { TD_RATE_VALUES = 12, TD_RATE_MS = 10 * 60 * 1000 };
struct td_rate {
	int64_t value[TD_RATE_VALUES], at_ms[TD_RATE_VALUES];
	int n;
};
// Fills c->recent by c->total, which is known. What was counted before the first look is not recent, nor what was before
// a counter began anew.
void td_rate_look(struct td_rate *r, int64_t now_ms, struct td_count *c);
// ---- what the host of a virtual machine takes ----

struct td_vm {
	struct td_rate stolen, all; // ticks of all CPUs
	int64_t most_kb;            // of memory that was seen
};
// Fills steal_percent, by the last ten minutes as far as they were seen, two at least, and memory_away_percent, from
// <root>/proc: two files. What was taken before the first look is not known.
void td_vm_look(struct td_vm *v, const char *root, int64_t now_ms, struct td_checkup_facts *f);
struct td_links;
struct td_links *td_links_new(void);
struct td_links *td_links_free(struct td_links *l);
// Fills the ports, and what is recent of the counters of GPUs, whose totals by NVML are there, as are the adapters. It
// opens 3 files a GPU, 7 a port of InfiniBand, 5 of Ethernet. gpus_only: no ports.
void td_links_look(struct td_links *l, const char *root, bool gpus_only, int64_t now_ms, struct td_checkup_facts *f);
// The machine's GPU, or all (TD_HEALTH_ALL), was reset: what it counted before is not recent.
void td_links_forget(struct td_links *l, int gpu);

// ---- disks ----

struct td_disks;
struct td_disks *td_disks_new(void);
struct td_disks *td_disks_free(struct td_disks *d);
// Fills the disks from <root>/sys/block, and what they say of their health: of NVMe by its log, where <root>/dev has the
// controller and this process may ask it; else, and of others, what smartctl wrote in <root>/run/tandem/smart/*.json
// (`smartctl --json --all DEVICE`), unless that is a day old. It looks once a minute and fills what it knows in between:
// some 8 files a disk, a command to each NVMe controller, and those files. It waits for no drive: what one says is there
// with the next look.
void td_disks_look(struct td_disks *d, const char *root, const struct td_clock *clock, struct td_checkup_facts *f);
// NVMe drives, each of which is asked by a thread, one at a time.
enum td_nvme_said {
	TD_NVME_SILENT, // nothing, or not yet
	TD_NVME_CLOSED, // this process may not ask it
	TD_NVME_SAID
};
// Asks the controller for its log, and waits for it. This is the kernel's; tests have others.
typedef enum td_nvme_said td_nvme_ask_f(void *ctx, const char *path, unsigned char log[512]);
td_nvme_ask_f td_nvme_ask;
struct td_disks *td_disks_new_with(td_nvme_ask_f *ask, void *ctx);
struct td_nvmes;
struct td_nvmes *td_nvmes_new(td_nvme_ask_f *ask, void *ctx);
// Waits for no thread: one that hangs frees the rest when it ends.
struct td_nvmes *td_nvmes_free(struct td_nvmes *a);
// Fills d, a disk with its name, with what it said last, if that is not old. due: it is to be asked anew.
enum td_nvme_said td_nvmes_look(struct td_nvmes *a, const char *path, bool due, int64_t now_ms,
				struct td_checkup_disk *d);
// What NVMe's log of 512 bytes says (SMART / Health Information).
void td_smart_nvme(const unsigned char log[512], struct td_checkup_disk *ret);
// What smartctl says in JSON. device[32]: which it is, "nvme0", "sda". False: it is no such text, or it says nothing of its
// health.
bool td_smart_json(const char *text, size_t n, char device[32], struct td_checkup_disk *ret);

// ---- the table of checks ----

struct td_checkup_check {
	const char *name, *condition, *source, *threshold;
	const char *action; // "drain", "reset-gpu", "reboot"; "by number": xid.txt, NVML
	const char *inject; // for `tandem fault NODE …`
	bool alone;         // only the device leaves service for it, where that can be
};
extern const struct td_checkup_check td_checkup_checks[];
extern const size_t td_checkup_n_checks;
const struct td_checkup_check *td_checkup_check_named(const char *name); // NULL: none
enum {
	TD_HEALTH_HOT_C = 90,        // from this temperature on
	TD_HEALTH_SLOW_S = 60,       // clocks that are low for a shorter time are no fault
	TD_HEALTH_DISK_HOT_S = 120,  // nor is a disk that is too hot for a shorter time: it is asked once a minute
	TD_HEALTH_DISK_PERCENT = 97, // from this use on
	TD_HEALTH_WORN_PERCENT = 100,
	TD_HEALTH_CLOCK_MS = 500,
	TD_HEALTH_STUCK = 1,
	TD_HEALTH_STUCK_S = 120,
	TD_HEALTH_STEAL_PERCENT = 10,
	TD_HEALTH_AWAY_PERCENT = 5,
};

struct td_checkup_finding {
	char check[32], condition[64];
	char device[8]; // "gpu3"; "": the node
	char link
		[64]; // "NVLink 3 to gpu5", "PCIe 0000:3b:00.0 at 0000:3a:00.0", "mlx5_0/1", "eno1"; "": it is about none, or not known which
	int64_t code;
	const char *action; // static; as in the table
	char message[TD_HEALTH_TEXT];
};
struct td_checkup_findings {
	struct td_checkup_finding v[TD_HEALTH_FINDINGS];
	size_t n;
};
// Appends to ret; what is too much is left out.
void td_checkup_judge(const struct td_checkup_facts *f, struct td_checkup_findings *ret);

extern const char *const td_checkup_slow_names[TD_SLOWS]; // "heat", "hardware", "power-brake", "power-cap", "set"

// ---- what lasts ----

struct td_lasts {
	int64_t since_ms, last_ms; // since 0: it is not
};
// `now`: it is so at this look. Returns for how many seconds it has been so, 1 at least; 0: it is not. A gap of 25 s does
// not end it, and once it has lasted for TD_HEALTH_SLOW_S it ends when it was away for as long.
int td_lasts_look(struct td_lasts *l, bool now, int64_t now_ms);

// ---- XIDs ----

// "none", "drain", "reset-gpu" or "reboot"; *ret_words: what the XID says, or NULL. An XID that is not
// in the table calls for a drain.
const char *td_checkup_xid_action(int xid, const char **ret_words);
// The XID and the PCI address ("0000:3b:00") in a line of the kernel's log; 0: there is none.
int td_checkup_xid_line(const char *line, char pci[16]);

// ---- backends ----

// A part that the machine's GPU can be cut in. Its memory is in slices; a part begins only at some of them.
struct td_mig_kind {
	char profile[24]; // "1g.10gb"
	int size;         // slices
	uint32_t at;      // where it may begin
	int most;         // of them on that GPU
};
enum { TD_MIG_KINDS = 20, TD_MIG_PARTS = 16 };
// One that shall be there.
struct td_mig_wish {
	char profile[24];
	int at; // where it begins
};

enum { TD_HEALTH_ALL = -1 }; // all devices
struct td_checkup_backend {
	int (*read)(void *ctx, struct td_checkup_facts *ret, struct td_error *err);
	// Resets a GPU, or all. TD_UNSUPPORTED: there is no way to do that here.
	int (*reset)(void *ctx, int gpu, struct td_cancel *c, struct td_error *err);
	// The node was rebooted (virtual nodes only; NULL: nothing is to be done).
	int (*rebooted)(void *ctx, struct td_error *err);
	void (*free)(void *ctx);
	void *ctx;
	// How the machine's GPU, in NVML's order, can be cut. *ret_n 0: not at all. TD_NOT_FOUND: there is no such GPU,
	// nor one behind it. Anything else, TD_TRANSIENT of one that is lost: it has not said it. Both NULL: there is no way
	// to ask, or to do it.
	int (*kinds)(void *ctx, int gpu, struct td_mig_kind ret[TD_MIG_KINDS], size_t *ret_n, struct td_error *err);
	// Cuts it so, and in nothing else; n 0: it is whole again. What is there already is read first, so that it can be
	// done again after a crash at any point; where it is as wished nothing is changed. Nobody may use the GPU.
	// TD_CONFLICT: somebody does. TD_UNSUPPORTED: it cannot, or not without a reset. Whatever failed in between, a GPU
	// that is not as wished has no part left, so that nobody is given one.
	int (*cut)(void *ctx, int gpu, const struct td_mig_wish *v, size_t n, struct td_error *err);
};
// The backend of a virtual node. path: its file of faults; absent: it has none. Each line is a device
// ("gpu3", "node"), faults as KEY=VALUE, and perhaps cure=reset|reboot|clear: what ends them. Lines that
// begin with # are comments. A reset or a reboot takes lines out of the file.
// root: the tree whose /sys has its adapters and where its GPUs are, and whose file `mig` says how these are cut
// (td_mig_file), if it is there; NULL: none. gpus: before they are cut.
struct td_checkup_backend td_checkup_fake(const char *path, const char *root, int gpus);
// What such a file says, on top of facts that are there.
int td_checkup_fake_over(const char *path, struct td_checkup_facts *f, struct td_error *err);
// Checks the text of such a file. TD_INVALID names line and word.
int td_checkup_fake_check(const char *text, size_t n, struct td_error *err);
// The keys of one kind of device, for messages and help: "xid, ecc, …".
const char *td_checkup_fake_keys(bool gpu);

struct td_checkup_machine_opts {
	const char *root;             // where /proc and /sys are, "" for the machine's own
	const char *nvml;             // the library; NULL: libnvidia-ml.so.1
	const char *kmsg;             // the kernel's log; NULL: /dev/kmsg
	const char *reset;            // program that resets a GPU, called with its index; NULL: none
	bool gpus_only;               // nothing else of the machine is read
	const struct td_clock *clock; // NULL: the system's
};
struct td_checkup_backend td_checkup_machine(const struct td_checkup_machine_opts *o);
void td_checkup_backend_done(struct td_checkup_backend *b);

// ---- the quick test before a job ----

struct td_checkup_quick {
	const char *selftest; // the program tandem-standin, for fake devices; NULL: there are none
	const char *faults;   // the file of faults of a virtual node
	bool gpus;            // NVIDIA's, where there are some: tested by `tandem gpu-test`
	int first;            // the machine's GPU that is the node's first
	const char *program;  // the site's own, called with the node and the devices ("0-1,4"); NULL: none
	const char *node, *list;
	uint64_t devices; // the same as list
	int64_t ms;       // how long it computes
	int64_t limit_ms; // what takes longer has failed
	bool must;        // GPUs that their driver does not let be tested have failed
	double *gflops;   // what they computed with, all together, where the test says it; NULL: nobody asks
};
// Tests exactly these devices. *ret_bad: those that failed, why in `why`; where the test does not say which,
// all of them. An error says that no test took place.
int td_checkup_quick(const struct td_checkup_quick *q, struct td_cancel *c, uint64_t *ret_bad, char *why, size_t n,
		     struct td_error *err);

// ---- how quick a node is (bandwidth.c) ----

// Copies memory for so long: megabytes read and written a second. TD_CANCELLED as soon as 4 MiB are through.
int td_checkup_memory(int64_t ms, struct td_cancel *c, double *ret_mb_s, struct td_error *err);
// Writes 32 MiB to the disk of that directory, and reads them again; nothing is left there. TD_UNSUPPORTED: its file system
// has no files without a name. TD_CANCELLED as soon as 4 MiB are on the disk.
int td_checkup_disk(const char *dir, struct td_cancel *c, double *ret_write, double *ret_read, struct td_error *err);

// ---- a site's own checks ----

// Runs every program of the directory (absent: none), each for at most 10 s. Exit code 0: all is well.
// Else it is a finding: its last line may be JSON with "device", "code", "action" and "message" (all may
// be left out), else it is the message, as NHC prints it.
void td_checkup_site(const char *dir, struct td_cancel *c, struct td_checkup_findings *ret);
