#include "accel/gds.h"

#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG = 4096, ACS_REDIRECT = 0x04 | 0x08 | 0x20 }; // requests, completions, egress control

static bool read_all(const char *root, const char *path, struct td_buf *ret)
{
	td_auto_free char *full = td_asprintf("%s%s", root, path);
	td_buf_reset(ret);
	return !td_file_read(full, 1 << 20, ret, NULL);
}

static void first_line(const char *root, const char *path, char *ret, size_t n)
{
	td_auto_buf struct td_buf b = {0};
	*ret = '\0';
	if (!read_all(root, path, &b))
		return;
	snprintf(ret, n, "%.*s", (int)strcspn(td_buf_str(&b), "\n"), td_buf_str(&b));
	for (char *p = ret; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
}

static bool there(const char *root, const char *path)
{
	td_auto_free char *full = td_asprintf("%s%s", root, path);
	return td_path_exists(full);
}

__attribute__((format(printf, 4, 5))) static void say(struct td_gds *g, const char *name, enum td_gds_state s,
						      const char *fmt, ...)
{
	va_list ap;
	if (g->n_checks == TD_GDS_CHECKS)
		return;
	struct td_gds_check *c = &g->check[g->n_checks++];
	*c = (struct td_gds_check){.name = name, .state = s};
	va_start(ap, fmt);
	vsnprintf(c->text, sizeof(c->text), fmt, ap);
	va_end(ap);
}

// ---- what is loaded ----

static void modules(const char *root, struct td_gds *g)
{
	char nvidia[64];
	first_line(root, "/sys/module/nvidia/version", nvidia, sizeof(nvidia));
	if (*nvidia || there(root, "/proc/driver/nvidia/version"))
		say(g, "driver", TD_GDS_OK, "NVIDIA's driver%s%.60s", *nvidia ? " " : "", nvidia);
	else
		say(g, "driver", TD_GDS_MISSING,
		    "NVIDIA's driver is not loaded: install it, or load it (modprobe nvidia)");

	first_line(root, "/sys/module/nvidia_fs/version", g->version, sizeof(g->version));
	bool loaded =
		*g->version || there(root, "/sys/module/nvidia_fs") || there(root, "/proc/driver/nvidia-fs/stats");
	if (loaded && !*g->version)
		snprintf(g->version, sizeof(g->version), "?");
	if (loaded)
		say(g, "module", TD_GDS_OK, "nvidia-fs %s is loaded", g->version);
	else
		say(g, "module", TD_GDS_MISSING,
		    "the kernel module nvidia-fs is not loaded: install the package nvidia-fs (nvidia-gds brings it), "
		    "and "
		    "load it (modprobe nvidia-fs)");

	td_auto_buf struct td_buf b = {0};
	if (!read_all(root, "/proc/driver/nvidia-fs/stats", &b)) {
		say(g, "stats", loaded ? TD_GDS_UNKNOWN : TD_GDS_MISSING,
		    "there is no /proc/driver/nvidia-fs/stats: nvidia-fs writes it where it is loaded");
		return;
	}
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');
	for (size_t i = 0; i < lines.n; i++)
		if (td_starts(lines.v[i], "Ops") || td_starts(lines.v[i], "Reads")) {
			say(g, "stats", TD_GDS_OK, "%.180s", lines.v[i]);
			return;
		}
	say(g, "stats", TD_GDS_OK, "%zu lines in /proc/driver/nvidia-fs/stats", lines.n);
}

static void files(const char *root, struct td_gds *g)
{
	for (int i = 0; i < TD_GDS_FILES; i++) {
		td_auto_free char *path = td_asprintf("/dev/nvidia-fs%d", i);
		if (there(root, path))
			g->files[g->n_files++] = i;
	}
	if (g->n_files)
		say(g, "devices", TD_GDS_OK, "%zu device files /dev/nvidia-fs*", g->n_files);
	else
		say(g, "devices", TD_GDS_MISSING,
		    "there are no device files /dev/nvidia-fs*: nvidia-fs makes them when it is loaded, and programs "
		    "in "
		    "containers need them there");
	say(g, "udev", there(root, "/run/udev") ? TD_GDS_OK : TD_GDS_MISSING, "%s",
	    there(root, "/run/udev")
		    ? "/run/udev tells which disk a file lies on"
		    : "there is no /run/udev, by which the library finds the disk of a file: run udevd");
	static const char *const configs[] = {"/etc/cufile.json", "/usr/local/cuda/gds/cufile.json"};
	for (size_t i = 0; i < TD_LEN(configs); i++)
		if (there(root, configs[i])) {
			say(g, "config", TD_GDS_OK, "%s", configs[i]);
			return;
		}
	say(g, "config", TD_GDS_SLOWER, "there is no /etc/cufile.json: the library's own defaults count");
}

// ---- devices ----

static void add_device(const char *root, const char *kind, const char *dir, const char *name, struct td_gds *g)
{
	char numa[16], to[PATH_MAX];
	long long n;
	if (g->n_devices == TD_GDS_DEVICES)
		return;
	struct td_gds_device *d = &g->device[g->n_devices++];
	*d = (struct td_gds_device){.numa = -1};
	snprintf(d->kind, sizeof(d->kind), "%s", kind);
	snprintf(d->name, sizeof(d->name), "%.31s", name);
	td_auto_free char *file = td_asprintf("%s/numa_node", dir), *full = td_asprintf("%s%s", root, dir);
	first_line(root, file, numa, sizeof(numa));
	if (td_parse_i64(numa, &n) && n >= 0 && n < 1024)
		d->numa = (int)n;
	ssize_t len = readlink(full, to, sizeof(to) - 1);
	to[len > 0 ? len : 0] = '\0';
	const char *slash = strrchr(to, '/'), *at = *to ? (slash ? slash + 1 : to) : strrchr(dir, '/') + 1;
	snprintf(d->pci, sizeof(d->pci), "%.23s", strlen(at) >= 12 && at[4] == ':' && at[7] == ':' ? at : "");
}

static void each(const char *root, const char *path, void (*f)(const char *root, const char *name, struct td_gds *g),
		 struct td_gds *g)
{
	td_auto_free char *full = td_asprintf("%s%s", root, path);
	struct dirent **v;
	int n = scandir(full, &v, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (v[i]->d_name[0] != '.')
			f(root, v[i]->d_name, g);
		free(v[i]);
	}
	if (n >= 0)
		free(v);
}

static void one_pci(const char *root, const char *name, struct td_gds *g)
{
	char vendor[16], class[16];
	td_auto_free char *dir = td_asprintf("/sys/bus/pci/devices/%s", name), *v = td_asprintf("%s/vendor", dir),
			  *c = td_asprintf("%s/class", dir);
	first_line(root, v, vendor, sizeof(vendor));
	first_line(root, c, class, sizeof(class));
	if (!strcmp(vendor, "0x10de") && (td_starts(class, "0x0300") || td_starts(class, "0x0302")))
		add_device(root, "gpu", dir, name, g);
}

static void one_nvme(const char *root, const char *name, struct td_gds *g)
{
	td_auto_free char *dir = td_asprintf("/sys/class/nvme/%s/device", name);
	add_device(root, "nvme", dir, name, g);
}

static void one_rdma(const char *root, const char *name, struct td_gds *g)
{
	char state[32];
	td_auto_free char *dir = td_asprintf("/sys/class/infiniband/%s/device", name),
			  *port = td_asprintf("/sys/class/infiniband/%s/ports/1/state", name);
	first_line(root, port, state, sizeof(state));
	if (td_starts(state, "4")) // ACTIVE
		add_device(root, "rdma", dir, name, g);
}

int td_gds_distance(const char *root, int from, int to)
{
	char line[512];
	td_auto_free char *path = td_asprintf("/sys/devices/system/node/node%d/distance", from);
	if (from < 0 || to < 0)
		return -1;
	first_line(root, path, line, sizeof(line));
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, line, ' ');
	long long n;
	return (size_t)to < l.n && td_parse_i64(l.v[to], &n) && n >= 0 && n < 256 ? (int)n : -1;
}

static void devices(const char *root, struct td_gds *g)
{
	size_t gpus = 0, stores = 0, far = 0;
	each(root, "/sys/bus/pci/devices", one_pci, g);
	each(root, "/sys/class/nvme", one_nvme, g);
	each(root, "/sys/class/infiniband", one_rdma, g);
	for (size_t i = 0; i < g->n_devices; i++) {
		const struct td_gds_device *a = &g->device[i];
		bool near = false, known = false;
		if (strcmp(a->kind, "gpu") != 0) {
			stores++;
			continue;
		}
		gpus++;
		for (size_t k = 0; k < g->n_devices; k++) {
			const struct td_gds_device *b = &g->device[k];
			if (!strcmp(b->kind, "gpu") || a->numa < 0 || b->numa < 0)
				continue;
			known = true;
			near |= a->numa == b->numa;
		}
		far += known && !near;
	}
	if (!gpus)
		say(g, "gpus", TD_GDS_MISSING, "this machine has no NVIDIA GPU");
	else
		say(g, "gpus", TD_GDS_OK, "%zu NVIDIA GPU%s", gpus, gpus == 1 ? "" : "s");
	if (!stores)
		say(g, "storage", TD_GDS_MISSING,
		    "there is no NVMe disk and no RDMA port that is active: nothing can write into a GPU's memory by "
		    "itself");
	else if (far)
		say(g, "storage", TD_GDS_SLOWER,
		    "%zu of %zu GPUs have no NVMe disk or RDMA port at their own NUMA node: what they read crosses the "
		    "processors' link",
		    far, gpus);
	else
		say(g, "storage", TD_GDS_OK, "%zu NVMe disks and RDMA ports", stores);
}

// ---- what stands in the way ----

static bool translates; // whether a group of the IOMMU does; one_group() sets it
static size_t groups;

static void one_group(const char *root, const char *name, struct td_gds *g)
{
	char type[32];
	td_auto_free char *path = td_asprintf("/sys/kernel/iommu_groups/%s/type", name);
	first_line(root, path, type, sizeof(type));
	groups++;
	translates |= strcmp(type, "identity") != 0;
}

int td_gds_acs(const unsigned char *config, size_t n)
{
	size_t at = 0x100;
	// Each capability names the next one, which lies behind the header; a ring of them ends here.
	for (int i = 0; i < 64 && at >= 0x100 && at + 8 <= n; i++) {
		unsigned head =
			config[at] | config[at + 1] << 8 | config[at + 2] << 16 | (unsigned)config[at + 3] << 24;
		if ((head & 0xffff) == 0x000d)
			return config[at + 6] | config[at + 7] << 8;
		at = head >> 20 & 0xffc;
	}
	return -1;
}

static size_t redirected, bridges, closed; // one_bridge()

static void one_bridge(const char *root, const char *name, struct td_gds *g)
{
	char class[16];
	td_auto_free char *c = td_asprintf("/sys/bus/pci/devices/%s/class", name),
			  *path = td_asprintf("%s/sys/bus/pci/devices/%s/config", root, name);
	first_line(root, c, class, sizeof(class));
	if (!td_starts(class, "0x0604"))
		return;
	unsigned char config[CONFIG];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, config, sizeof(config));
	if (fd >= 0)
		close(fd);
	bridges++;
	// Without root's rights the kernel shows the first 64 bytes.
	closed += n <= 0x100;
	int acs = n > 0 ? td_gds_acs(config, (size_t)n) : -1;
	redirected += acs > 0 && (acs & ACS_REDIRECT);
}

static void in_the_way(const char *root, struct td_gds *g)
{
	translates = false;
	groups = redirected = bridges = closed = 0;
	each(root, "/sys/kernel/iommu_groups", one_group, g);
	if (!groups)
		say(g, "iommu", TD_GDS_OK, "the IOMMU is off");
	else if (translates)
		say(g, "iommu", TD_GDS_SLOWER,
		    "the IOMMU translates addresses of devices: what a disk sends to a GPU goes by the processor. Boot "
		    "with "
		    "iommu=pt, or turn it off in the firmware");
	else
		say(g, "iommu", TD_GDS_OK, "the IOMMU lets addresses through (identity)");

	each(root, "/sys/bus/pci/devices", one_bridge, g);
	if (redirected)
		say(g, "acs", TD_GDS_SLOWER,
		    "%zu of %zu PCI bridges send what devices say to each other by the processor (ACS): turn it off in "
		    "the "
		    "firmware, or for these bridges with setpci",
		    redirected, bridges);
	else if (closed)
		say(g, "acs", TD_GDS_UNKNOWN, "the settings of %zu PCI bridges can be read by root only", closed);
	else
		say(g, "acs", TD_GDS_OK, "no PCI bridge sends traffic between devices by the processor (ACS)");
}

// ---- file systems ----

static void mounts(const char *root, struct td_gds *g)
{
	// What NVIDIA's and the makers' documentation name; of a disk's own only where that is NVMe.
	static const char *const far[] = {"lustre", "wekafs", "beegfs", "gpfs", "vastnfs"}, *const near[] = {"ext4",
													     "xfs"};
	td_auto_buf struct td_buf b = {0};
	if (!read_all(root, "/proc/self/mounts", &b) && !read_all(root, "/proc/mounts", &b))
		td_buf_reset(&b);
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv w = {0};
		td_strv_split(&w, lines.v[i], ' ');
		bool fits = false;
		if (w.n < 4)
			continue;
		for (size_t k = 0; k < TD_LEN(far); k++)
			fits |= !strcmp(w.v[2], far[k]);
		for (size_t k = 0; k < TD_LEN(near); k++)
			fits |= !strcmp(w.v[2], near[k]) && td_starts(w.v[0], "/dev/nvme");
		fits |= td_starts(w.v[2], "nfs") && strstr(w.v[3], "proto=rdma");
		if (fits && g->mounts.n < TD_GDS_DEVICES)
			td_strv_addf(&g->mounts, "%s %s", w.v[1], w.v[2]);
	}
	if (g->mounts.n)
		say(g, "filesystems", TD_GDS_OK, "%zu on which it works, such as %.100s", g->mounts.n, g->mounts.v[0]);
	else
		say(g, "filesystems", TD_GDS_MISSING,
		    "no file system is mounted on which it works: ext4 or xfs on NVMe, NFS with proto=rdma, Lustre, "
		    "WekaFS, "
		    "BeeGFS or GPFS");
}

void td_gds_look(const char *root, struct td_gds *ret)
{
	*ret = (struct td_gds){0};
	modules(root, ret);
	files(root, ret);
	devices(root, ret);
	in_the_way(root, ret);
	mounts(root, ret);
}

void td_gds_done(struct td_gds *g)
{
	td_strv_done(&g->mounts);
}

bool td_gds_ready(const struct td_gds *g)
{
	for (size_t i = 0; i < g->n_checks; i++)
		if (g->check[i].state == TD_GDS_MISSING)
			return false;
	return g->n_checks > 0;
}

const char *td_gds_state_text(enum td_gds_state s)
{
	static const char *const text[] = {"ok", "slower", "missing", "unknown"};
	return text[s];
}
