// The backend of a real machine: /proc, /sys, the kernel's log and NVML. Everything is read from below
// `root`, so that a test can show another machine.
#include "checkup/checkup.h"
#include "checkup/nvml.h"

#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { STUCK_MAX = 256, PORTS_MAX = 64, RESET_MS = 120000 };

struct machine {
	char *root, *reset, *library;
	bool gpus_only;
	const struct td_clock *clock;
	struct td_nvml *nvml; // NULL: no GPUs
	struct td_links *links;
	struct td_disks *disks;
	struct td_vpds *vpds;
	int kmsg;
	int xid[TD_HEALTH_GPUS]; // of the machine's GPUs, by the kernel's log
	int of[TD_HEALTH_GPUS];  // of each device the machine's GPU; -1: it is a part of one
	int n_of;
	struct {
		int pid;
		int64_t since_s;
	} stuck[STUCK_MAX];
	int n_stuck;
	char port[PORTS_MAX][64]; // ports that were active once
	int n_ports;
	struct td_vm vm;
};

static char *at(const struct machine *m, const char *path)
{
	return td_asprintf("%s%s", m->root, path);
}

// Adds a name to a list with commas; one that has no room is left out, because half a name is another's.
static void add_name(char *list, size_t size, const char *name)
{
	size_t len = strlen(list);
	if (len + strlen(name) + 2 <= size)
		snprintf(list + len, size - len, "%s%s", len ? "," : "", name);
}

static int64_t number_in(const char *path)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 64, &b, NULL))
		return 0;
	return strtoll(td_buf_str(&b), NULL, 10);
}

static void ports(struct machine *m, struct td_checkup_facts *f)
{
	td_auto_free char *top = at(m, "/sys/class/infiniband");
	DIR *d = opendir(top);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		td_auto_free char *dir = td_asprintf("%s/%s/ports", top, e->d_name);
		DIR *p = opendir(dir);
		for (struct dirent *q; p && (q = readdir(p));) {
			if (q->d_name[0] == '.')
				continue;
			char name[64];
			snprintf(name, sizeof(name), "%.40s/%.20s", e->d_name, q->d_name);
			td_auto_free char *file = td_asprintf("%s/%s/state", dir, q->d_name);
			td_auto_buf struct td_buf state = {0};
			if (td_file_read(file, 64, &state, NULL))
				continue;
			bool active = strstr(td_buf_str(&state), "ACTIVE"), known = false;
			for (int i = 0; i < m->n_ports; i++)
				known |= !strcmp(m->port[i], name);
			// A port that never was active has no cable.
			if (active && !known && m->n_ports < PORTS_MAX)
				snprintf(m->port[m->n_ports++], sizeof(m->port[0]), "%s", name);
			else if (!active && known)
				add_name(f->port_down, sizeof(f->port_down), name);
		}
		if (p)
			closedir(p);
	}
	if (d)
		closedir(d);
}

static void disks(struct machine *m, struct td_checkup_facts *f)
{
	td_auto_free char *path = at(m, "/proc/1/mounts");
	FILE *mounts = fopen(path, "re");
	char line[1024], dev[256], dir[256], type[64], options[256];
	while (mounts && fgets(line, sizeof(line), mounts)) {
		if (sscanf(line, "%255s %255s %63s %255s", dev, dir, type, options) != 4 ||
		    strncmp(dev, "/dev/", 5) != 0 || !strcmp(type, "squashfs") || !strcmp(type, "iso9660"))
			continue;
		// The kernel says so itself where errors made it read-only.
		if (!strncmp(options, "ro,", 3) && strstr(options, "errors=remount-ro"))
			snprintf(f->disk_readonly, sizeof(f->disk_readonly), "%.95s", dir);
		td_auto_free char *full = td_asprintf("%s/proc/1/root%s", m->root, dir);
		struct statvfs s;
		if (statvfs(full, &s) || !s.f_blocks)
			continue;
		double use = 100.0 * (double)(s.f_blocks - s.f_bavail) / (double)s.f_blocks;
		if (use > f->disk_percent) {
			f->disk_percent = use;
			snprintf(f->disk, sizeof(f->disk), "%.95s", dir);
		}
	}
	if (mounts)
		fclose(mounts);
}

static void memory(struct machine *m, struct td_checkup_facts *f)
{
	for (int i = 0; i < 64; i++) {
		td_auto_free char *path = td_asprintf("%s/sys/devices/system/edac/mc/mc%d/ue_count", m->root, i);
		if (!td_path_exists(path))
			return;
		f->memory_uncorrected += number_in(path);
	}
}

static void clocks(struct td_checkup_facts *f)
{
	struct timex t = {0};
	int state = adjtimex(&t);
	int64_t us = t.offset / (t.status & STA_NANO ? 1000 : 1);
	// Where nobody sets the clock the kernel does not know how far it is off.
	f->clock_ms = state == TIME_ERROR || (t.status & STA_UNSYNC) ? 0 : (us < 0 ? -us : us) / 1000;
}

// The state and the name of a process; false: it is gone. Its name may have blanks and parentheses.
static bool in_state(const char *root, const char *pid, char state)
{
	td_auto_free char *path = td_asprintf("%s/proc/%s/stat", root, pid);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL))
		return false;
	const char *end = strrchr(td_buf_str(&b), ')');
	return end && end[1] == ' ' && end[2] == state;
}

static void stuck(struct machine *m, int64_t now_s, struct td_checkup_facts *f)
{
	td_auto_free char *top = at(m, "/proc");
	DIR *d = opendir(top);
	int n = 0;
	struct machine *old = td_malloc(sizeof(*old));
	memcpy(old->stuck, m->stuck, sizeof(m->stuck));
	old->n_stuck = m->n_stuck;
	for (struct dirent *e; d && (e = readdir(d)) && n < STUCK_MAX;) {
		if (!isdigit((unsigned char)e->d_name[0]) || !in_state(m->root, e->d_name, 'D'))
			continue;
		int pid = atoi(e->d_name);
		int64_t since = now_s;
		for (int i = 0; i < old->n_stuck; i++)
			if (old->stuck[i].pid == pid)
				since = old->stuck[i].since_s;
		m->stuck[n].pid = pid;
		m->stuck[n++].since_s = since;
		f->stuck += now_s - since >= TD_HEALTH_STUCK_S;
	}
	m->n_stuck = n;
	free(old);
	if (d)
		closedir(d);
}

static void kernel_log(struct machine *m)
{
	char line[8192], pci[16];
	ssize_t n;
	while (m->kmsg >= 0 && ((n = read(m->kmsg, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EPIPE))) {
		if (n < 0)
			continue; // lines were lost: go on with the oldest that is left
		line[n] = '\0';
		int xid = td_checkup_xid_line(line, pci), gpu = xid && m->nvml ? td_nvml_index(m->nvml, pci) : -1;
		if (gpu >= 0 && strcmp(td_checkup_xid_action(xid, NULL), "none") != 0)
			m->xid[gpu] = xid;
	}
}

// What is not its GPUs.
static void rest(struct machine *m, struct td_checkup_facts *f)
{
	td_checkup_nics(m->root, f);
	td_vpds_look(m->vpds, m->root, f);
	ports(m, f);
	disks(m, f);
	td_disks_look(m->disks, m->root, m->clock, f);
	memory(m, f);
	td_vm_look(&m->vm, m->root, td_mono_ms(m->clock), f);
	clocks(f);
	stuck(m, td_mono_ms(m->clock) / 1000, f);
}

static int machine_read(void *ctx, struct td_checkup_facts *ret, struct td_error *err)
{
	struct machine *m = ctx;
	struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	if (m->nvml)
		td_nvml_read(m->nvml, td_mono_ms(m->clock), f);
	td_mig_caps(m->root, f);
	td_checkup_where(m->root, f);
	kernel_log(m);
	for (int i = 0; i < f->gpus; i++)
		if (!f->gpu[i].xid && f->gpu[i].of < TD_HEALTH_GPUS)
			f->gpu[i].xid = m->xid[f->gpu[i].of];
	m->n_of = f->gpus;
	for (int i = 0; i < f->gpus; i++)
		m->of[i] = *f->gpu[i].profile ? -1 : f->gpu[i].of;
	if (!m->gpus_only)
		rest(m, f);
	td_links_look(m->links, m->root, m->gpus_only, td_mono_ms(m->clock), f);
	*ret = *f;
	free(f);
	return 0;
}

static int machine_reset(void *ctx, int gpu, struct td_cancel *c, struct td_error *err)
{
	struct machine *m = ctx;
	if (!m->reset)
		return td_fail(err, TD_UNSUPPORTED,
			       "this agent has no way to reset a GPU: give it a program (--reset-program)");
	char index[16];
	if (gpu >= 0 && gpu < m->n_of && m->of[gpu] < 0)
		return td_fail(
			err, TD_UNSUPPORTED,
			"gpu%d is a part of a GPU, and a reset would take the other parts, too: reboot the node, or "
			"reset and cut the GPU by hand",
			gpu);
	gpu = gpu >= 0 && gpu < m->n_of ? m->of[gpu] : gpu;
	snprintf(index, sizeof(index), "%d", gpu);
	char *argv[] = {m->reset, gpu == TD_HEALTH_ALL ? NULL : index, NULL};
	// The driver must not be in use: NVML is opened anew afterwards.
	m->nvml = td_nvml_close(m->nvml);
	int r = td_run_ok(argv, RESET_MS, c, err);
	m->nvml = td_nvml_open(m->library, NULL);
	if (r)
		return r;
	for (int i = 0; i < TD_HEALTH_GPUS; i++)
		if (gpu == TD_HEALTH_ALL || gpu == i)
			m->xid[i] = 0;
	td_links_forget(m->links, gpu);
	return 0;
}

static int machine_kinds(void *ctx, int gpu, struct td_mig_kind ret[TD_MIG_KINDS], size_t *ret_n, struct td_error *err)
{
	const struct machine *m = ctx;
	return m->nvml ? td_nvml_kinds(m->nvml, gpu, ret, ret_n, err)
		       : td_fail(err, TD_NOT_FOUND, "there is no NVML here");
}

static int machine_cut(void *ctx, int gpu, const struct td_mig_wish *v, size_t n, struct td_error *err)
{
	const struct machine *m = ctx;
	return m->nvml ? td_nvml_cut(m->nvml, gpu, v, n, err) : td_fail(err, TD_NOT_FOUND, "there is no NVML here");
}

static void machine_free(void *ctx)
{
	struct machine *m = ctx;
	td_nvml_close(m->nvml);
	td_links_free(m->links);
	td_disks_free(m->disks);
	td_vpds_free(m->vpds);
	if (m->kmsg >= 0)
		close(m->kmsg);
	free(m->root);
	free(m->reset);
	free(m->library);
	free(m);
}

struct td_checkup_backend td_checkup_machine(const struct td_checkup_machine_opts *o)
{
	struct td_error err = TD_ERROR_INIT;
	struct machine *m = td_calloc(1, sizeof(*m));
	m->root = td_strdup(o->root ? o->root : "");
	m->reset = o->reset ? td_strdup(o->reset) : NULL;
	m->library = o->nvml ? td_strdup(o->nvml) : NULL;
	m->gpus_only = o->gpus_only;
	m->clock = o->clock ? o->clock : &td_clock_system;
	m->links = td_links_new();
	m->disks = td_disks_new();
	m->vpds = td_vpds_new();
	m->nvml = td_nvml_open(o->nvml, &err);
	if (!m->nvml)
		td_debug("no NVML: %s", err.msg);
	// Only what is said from now on: old lines are of before the last reset.
	m->kmsg = open(o->kmsg ? o->kmsg : "/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (m->kmsg >= 0)
		lseek(m->kmsg, 0, SEEK_END);
	return (struct td_checkup_backend){machine_read,  machine_reset, NULL, machine_free, m,
					   machine_kinds, machine_cut};
}
