// The backend of a virtual node. Its hardware is well unless the file of faults says otherwise.
#include "checkup/checkup.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 10 };

struct fake {
	char *path, *root;  // root NULL: none
	int gpus, devices;  // before they are cut, and then
	struct td_mig *mig; // NULL: none is cut, or was
	struct td_disks *disks;
	struct td_vpds *vpds;
};

// What ends a fault: the mildest of these, or all above it.
enum cure { CURE_RESET, CURE_REBOOT, CURE_CLEAR };
static const char *const cures[] = {"reset", "reboot", "clear"};

static const struct {
	const char *key;
	bool gpu;
	enum cure cure;
	bool number; // its value is one
} keys[] = {
	{"xid", true, CURE_RESET, true}, // by its number
	{"recovery", true, CURE_RESET, true},
	{"lost", true, CURE_REBOOT},
	{"ecc", true, CURE_RESET, true},
	{"ecc-corrected", true, CURE_RESET, true},
	{"remap", true, CURE_RESET},
	{"temp", true, CURE_CLEAR, true},
	{"slow", true, CURE_CLEAR}, // why its clocks are low
	{"pcie-width", true, CURE_REBOOT, true},
	{"nvlink-down", true, CURE_RESET, true},
	{"nvlink-crc", true, CURE_RESET, true}, // in the last ten minutes, as are the next ones
	{"nvlink-replay", true, CURE_RESET, true},
	{"nvlink-recovery", true, CURE_RESET, true},
	{"pcie-replay", true, CURE_CLEAR, true},
	{"aer-corrected", true, CURE_CLEAR, true},
	{"aer-nonfatal", true, CURE_CLEAR, true},
	{"aer-fatal", true, CURE_CLEAR, true},
	{"burn", true, CURE_RESET}, // only the test finds it
	{"use", true, CURE_CLEAR},  // no fault: how many percent it computes, or "unknown"
	{"ib-down", false, CURE_CLEAR},
	{"link-downed", false, CURE_CLEAR}, // a port and how often, "mlx5_0/1:3"
	{"symbol-errors", false, CURE_CLEAR},
	{"link-recovery", false, CURE_CLEAR},
	{"receive-errors", false, CURE_CLEAR},
	{"disk-full", false, CURE_CLEAR, true},
	{"disk-readonly", false, CURE_REBOOT},
	{"disk-warning", false, CURE_CLEAR}, // a disk, and NVMe's bits: "nvme0n1:4"
	{"disk-media", false, CURE_CLEAR},   // how many errors within the last ten minutes
	{"disk-used", false, CURE_CLEAR},    // percent of what it was made for
	{"memory", false, CURE_REBOOT},
	{"memory-away", false, CURE_CLEAR, true}, // percent
	{"steal", false, CURE_CLEAR, true},       // percent
	{"clock-ms", false, CURE_CLEAR, true},
	{"stuck", false, CURE_REBOOT},
	{"link", false, CURE_REBOOT},       // only the test of several nodes finds it: down, corrupt, slow
	{"storage", false, CURE_REBOOT},    // so is this
	{"product", false, CURE_CLEAR},     // no fault: what its GPUs are
	{"numa", false, CURE_CLEAR},        // nor this: the NUMA node of each, "0,0,1,1", and of no GPU: "0,0,1,1,3"
	{"slow", false, CURE_REBOOT, true}, // no check finds it: a job that looks for it computes so much longer there
};

const char *td_checkup_fake_keys(bool gpu)
{
	return gpu ? "xid, recovery, lost, ecc, ecc-corrected, remap, temp, slow, pcie-width, nvlink-down, nvlink-crc, "
		     "nvlink-replay, nvlink-recovery, pcie-replay, aer-corrected, aer-nonfatal, aer-fatal, burn, use"
		   : "ib-down, link-downed, symbol-errors, link-recovery, receive-errors, disk-full, disk-readonly, "
		     "disk-warning, disk-media, disk-used, "
		     "memory, memory-away, steal, clock-ms, stuck, link, storage, slow, product, numa";
}

struct fault {
	int gpu; // -1: the node
	int key; // index in keys
	enum cure cure;
	char value[64];
};

static int key_of(const char *key, size_t n, bool gpu)
{
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (keys[i].gpu == gpu && strlen(keys[i].key) == n && !strncmp(keys[i].key, key, n))
			return (int)i;
	return -1;
}

static enum cure cure_of(const struct fault *f)
{
	if (!strcmp(keys[f->key].key, "xid")) {
		const char *a = td_checkup_xid_action(atoi(f->value), NULL);
		return !strcmp(a, "reboot") ? CURE_REBOOT : !strcmp(a, "drain") ? CURE_CLEAR : CURE_RESET;
	}
	if (!strcmp(keys[f->key].key, "remap") && !strcmp(f->value, "failed"))
		return CURE_CLEAR;
	return keys[f->key].cure;
}

static int slow_of(const char *why)
{
	int k = 0;
	while (k < TD_SLOWS && strcmp(why, td_checkup_slow_names[k]) != 0)
		k++;
	return k;
}

static int count_of(const char *key)
{
	int k = 0;
	while (k < TD_COUNTS && strcmp(key, td_checkup_count_names[k]) != 0)
		k++;
	return k;
}

static bool is_disk_key(const char *key)
{
	return !strcmp(key, "disk-warning") || !strcmp(key, "disk-media") || !strcmp(key, "disk-used");
}

// "mlx5_0/1:3"; false: it is none.
static bool port_of(const char *value, char name[40], long long *ret_n)
{
	const char *colon = strrchr(value, ':');
	if (!colon || colon == value || colon - value >= 40 || !td_parse_i64(colon + 1, ret_n) || *ret_n < 0)
		return false;
	snprintf(name, 40, "%.*s", (int)(colon - value), value);
	return true;
}

// Reads one line. Calls `each` for every fault of it. ret_cured: whether `by` ends one of them.
static int parse_line(const char *line, int number, void (*each)(void *ctx, const struct fault *f), void *ctx,
		      struct td_error *err)
{
	td_auto_strv struct td_strv words = {0};
	td_strv_split(&words, line, ' ');
	if (!words.n || words.v[0][0] == '#')
		return 0;

	struct fault v[16];
	size_t n = 0;
	int gpu = -1, cure = -1;
	long long index;
	if (td_starts(words.v[0], "gpu") && td_parse_i64(words.v[0] + 3, &index) && index >= 0 &&
	    index < TD_HEALTH_GPUS)
		gpu = (int)index;
	else if (strcmp(words.v[0], "node") != 0)
		return td_fail(err, TD_INVALID, "line %d: \"%.40s\" is no device: write gpu0 … or node", number,
			       words.v[0]);
	for (size_t i = 1; i < words.n; i++) {
		const char *w = words.v[i], *eq = strchr(w, '=');
		size_t len = eq ? (size_t)(eq - w) : strlen(w);
		if (len == 4 && !strncmp(w, "cure", 4) && eq) {
			for (size_t k = 0; k < TD_LEN(cures); k++)
				if (!strcmp(eq + 1, cures[k]))
					cure = (int)k;
			if (cure < 0)
				return td_fail(err, TD_INVALID, "line %d: cure=%.40s: write reset, reboot or clear",
					       number, eq + 1);
			continue;
		}
		int key = key_of(w, len, gpu >= 0);
		if (key < 0 || !eq || !eq[1] || n == TD_LEN(v))
			return td_fail(err, TD_INVALID,
				       "line %d: \"%.40s\" is no fault of it: write KEY=VALUE with one of %s", number,
				       w, td_checkup_fake_keys(gpu >= 0));
		char *end;
		strtod(eq + 1, &end);
		if (keys[key].number && *end)
			return td_fail(err, TD_INVALID, "line %d: \"%.40s\": give a number", number, w);
		if (gpu >= 0 && !strcmp(keys[key].key, "slow") && slow_of(eq + 1) == TD_SLOWS)
			return td_fail(err, TD_INVALID,
				       "line %d: \"%.40s\": write heat, hardware, power-brake, power-cap or set",
				       number, w);
		char port[40];
		long long count;
		if (gpu < 0 && is_disk_key(keys[key].key) && !port_of(eq + 1, port, &count))
			return td_fail(err, TD_INVALID, "line %d: \"%.40s\": write DISK:NUMBER, as in nvme0n1:4",
				       number, w);
		if (gpu < 0 && count_of(keys[key].key) < TD_COUNTS && !port_of(eq + 1, port, &count))
			return td_fail(err, TD_INVALID, "line %d: \"%.40s\": write PORT:NUMBER, as in mlx5_0/1:3",
				       number, w);
		v[n] = (struct fault){.gpu = gpu, .key = key};
		snprintf(v[n].value, sizeof(v[n].value), "%.63s", eq + 1);
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		v[i].cure = cure >= 0 ? (enum cure)cure : cure_of(&v[i]);
		if (each)
			each(ctx, &v[i]);
	}
	return 0;
}

static int parse(const char *text, void (*each)(void *ctx, const struct fault *f), void *ctx, struct td_error *err)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		int r = parse_line(lines.v[i], (int)i + 1, each, ctx, err);
		if (r)
			return r;
	}
	return 0;
}

int td_checkup_fake_check(const char *text, size_t n, struct td_error *err)
{
	td_auto_free char *s = td_strndup(text, n);
	return parse(s, NULL, NULL, err);
}

// The first of them.
static void nvlinks_down(struct td_checkup_gpu *g, int n)
{
	g->links_down = n;
	*g->links_which = '\0';
	for (int k = 0; k < n && k < g->links; k++) {
		const size_t at = strlen(g->links_which);
		snprintf(g->links_which + at, sizeof(g->links_which) - at, "%s%d", at ? ", " : "", k);
	}
}

// What a driver would tell of the node's GPUs.
static void told(struct td_checkup_facts *x, const char *key, const char *value)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, value, ',');
	bool numa = !strcmp(key, "numa");
	for (int i = 0; i < x->gpus; i++) {
		struct td_checkup_gpu *g = &x->gpu[i];
		long long n;
		if (!*g->uuid) {
			snprintf(g->uuid, sizeof(g->uuid), "GPU-fake-%d", i);
			g->minor = i;
		}
		if (!numa)
			snprintf(g->model, sizeof(g->model), "%s", value);
		else if ((size_t)i < l.n && td_parse_i64(l.v[i], &n) && n >= 0 && n < 64)
			g->numa = (int)n;
		x->numa_nodes = g->numa >= x->numa_nodes ? g->numa + 1 : x->numa_nodes;
	}
	// What follows are NUMA nodes without GPUs.
	long long more;
	for (size_t i = (size_t)x->gpus; numa && i < l.n; i++)
		if (td_parse_i64(l.v[i], &more) && more >= x->numa_nodes && more < 64)
			x->numa_nodes = (int)more + 1;
}

static void counted(struct td_checkup_facts *x, const char *key, const char *value)
{
	char name[40];
	long long n;
	int i = 0;
	if (!port_of(value, name, &n))
		return;
	while (i < x->ports && strcmp(x->port[i].name, name) != 0)
		i++;
	if (i == TD_PORTS)
		return;
	x->ports += i == x->ports;
	snprintf(x->port[i].name, sizeof(x->port[i].name), "%s", name);
	x->port[i].count[count_of(key)] = (struct td_count){true, n, n};
}

static void disk(struct td_checkup_facts *x, const char *key, const char *value)
{
	char name[40];
	long long n;
	int i = 0;
	if (!port_of(value, name, &n) || strlen(name) >= sizeof(x->disks[0].name))
		return;
	while (i < x->n_disks && strcmp(x->disks[i].name, name) != 0)
		i++;
	if (i == TD_DISKS)
		return;
	struct td_checkup_disk *d = &x->disks[i];
	if (i == x->n_disks)
		*d = (struct td_checkup_disk){.kind = "nvme", .temp_c = -1, .used = -1, .spare = -1};
	x->n_disks += i == x->n_disks;
	snprintf(d->name, sizeof(d->name), "%.31s", name);
	// What the disk's own log would say.
	unsigned char log[512] = {0};
	if (!strcmp(key, "disk-warning")) {
		const struct td_checkup_disk was = *d;
		log[0] = (unsigned char)n;
		log[3] = 100;
		td_smart_nvme(log, d);
		d->hot_s = d->hot ? TD_HEALTH_DISK_HOT_S : 0; // as if it had lasted
		d->used = was.used;
		d->media = was.media;
	} else if (!strcmp(key, "disk-media")) {
		d->media = (struct td_count){true, n, n};
	} else {
		d->used = (int)n;
	}
	d->smart = true;
}

static void set(void *ctx, const struct fault *f)
{
	struct td_checkup_facts *x = ctx;
	const char *k = keys[f->key].key, *v = f->value;
	if (f->gpu >= x->gpus)
		return;
	if (f->gpu >= 0) {
		struct td_checkup_gpu *g = &x->gpu[f->gpu];
		if (!strcmp(k, "xid"))
			g->xid = atoi(v);
		else if (!strcmp(k, "recovery"))
			g->recovery = atoi(v);
		else if (!strcmp(k, "lost"))
			g->lost = true;
		else if (!strcmp(k, "ecc"))
			g->ecc_uncorrected = atoll(v);
		else if (!strcmp(k, "ecc-corrected"))
			g->ecc_corrected = atoll(v);
		else if (!strcmp(k, "remap"))
			*(!strcmp(v, "failed") ? &g->remap_failed : &g->remap_pending) = true;
		else if (!strcmp(k, "temp"))
			g->temp_c = atof(v);
		else if (!strcmp(k, "slow") && slow_of(v) < TD_SLOWS) {
			g->slow_known = true;
			g->slow_s[slow_of(v)] = TD_HEALTH_SLOW_S; // as if it had lasted
		} else if (count_of(k) < TD_COUNTS)
			g->count[count_of(k)] = (struct td_count){true, atoll(v), atoll(v)};
		else if (!strcmp(k, "use"))
			g->use_percent = strcmp(v, "unknown") != 0 ? atof(v) : -1;
		else if (!strcmp(k, "pcie-width"))
			g->pcie_width = atoi(v);
		else if (!strcmp(k, "nvlink-down"))
			nvlinks_down(g, atoi(v));
		return;
	}
	if (is_disk_key(k))
		disk(x, k, v);
	else if (count_of(k) < TD_COUNTS)
		counted(x, k, v);
	else if (!strcmp(k, "ib-down"))
		snprintf(x->port_down, sizeof(x->port_down), "%s", v);
	else if (!strcmp(k, "disk-full"))
		x->disk_percent = atof(v);
	else if (!strcmp(k, "disk-readonly"))
		snprintf(x->disk_readonly, sizeof(x->disk_readonly), "%s", v);
	else if (!strcmp(k, "memory"))
		x->memory_uncorrected = atoll(v);
	else if (!strcmp(k, "memory-away"))
		x->memory_away_percent = atoi(v);
	else if (!strcmp(k, "steal"))
		x->steal_percent = atoi(v);
	else if (!strcmp(k, "clock-ms"))
		x->clock_ms = atoll(v);
	else if (!strcmp(k, "product") || !strcmp(k, "numa"))
		told(x, k, v);
	else if (!strcmp(k, "stuck"))
		x->stuck = atoi(v);
}

static int read_file(const struct fake *k, struct td_buf *ret, struct td_error *err)
{
	int r = td_file_read(k->path, FILE_MAX, ret, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

int td_checkup_fake_over(const char *path, struct td_checkup_facts *f, struct td_error *err)
{
	const struct fake k = {.path = (char *)(uintptr_t)path};
	td_auto_buf struct td_buf text = {0};
	int r = read_file(&k, &text, err);
	if (!r && (r = parse(td_buf_str(&text), set, f, err)))
		td_wrap(err, "%s", path);
	return r;
}

// The GPUs that are whole have the files that such a node has for them, by their new indexes.
static void cut(const struct td_mig *m, struct td_checkup_facts *f)
{
	for (int i = 0; i < f->gpus; i++) {
		f->gpu[i].minor = i;
		snprintf(f->gpu[i].uuid, sizeof(f->gpu[i].uuid), "GPU-fake-%d", i);
	}
	td_mig_apply(m, f);
	for (int i = 0; i < f->gpus; i++)
		if (!*f->gpu[i].profile)
			snprintf(f->gpu[i].file, sizeof(f->gpu[i].file), "/dev/tandem-gpu%d", i);
}

// How its GPUs are cut now.
static int look_at_parts(struct fake *k, struct td_error *err)
{
	td_auto_free struct td_mig *m = td_calloc(1, sizeof(*m));
	td_auto_free char *file = td_asprintf("%s/mig", k->root);
	int r = td_mig_file(file, k->gpus, m, err);
	if (r)
		return r;
	free(k->mig);
	k->mig = NULL;
	k->devices = k->gpus - __builtin_popcountll(m->cut) + (int)m->n;
	// One whose GPUs were cut once says who they are also when all are whole again.
	if (td_path_exists(file))
		k->mig = td_steal(m);
	return 0;
}

static int fake_read(void *ctx, struct td_checkup_facts *ret, struct td_error *err)
{
	const struct fake *k = ctx;
	struct td_checkup_facts f = {.gpus = k->gpus, .disk_percent = 10, .disk = "/"};
	for (int i = 0; i < k->gpus; i++) {
		struct td_checkup_gpu *g = &f.gpu[i];
		*g = (struct td_checkup_gpu){.temp_c = 35 + i,
					     .power_w = 70,
					     .memory_mb = 81920,
					     .pcie_width = 16,
					     .pcie_width_max = 16,
					     .links = 18,
					     .minor = -1,
					     .numa = -1};
		snprintf(g->model, sizeof(g->model), "Tandem fake GPU");
		snprintf(g->serial, sizeof(g->serial), "fake-%d", i);
		snprintf(g->firmware, sizeof(g->firmware), "1.0");
	}
	td_auto_free char *sys = td_asprintf("%s/sys", k->root ? k->root : "");
	if (k->root && td_path_exists(sys)) {
		td_checkup_nics_gpus(k->root, &f);
		td_checkup_where(k->root, &f);
		td_disks_look(k->disks, k->root, &td_clock_system, &f);
	}
	if (k->mig)
		cut(k->mig, &f);
	int r = td_checkup_fake_over(k->path, &f, err);
	if (!r && k->root) {
		td_checkup_nics(k->root, &f);
		td_vpds_look(k->vpds, k->root, &f);
	}
	if (!r)
		*ret = f;
	return r;
}

struct cured {
	int gpu; // TD_HEALTH_ALL: all, and the node
	enum cure by;
	bool left, any;
};
static void look(void *ctx, const struct fault *f)
{
	struct cured *c = ctx;
	bool it = c->gpu == TD_HEALTH_ALL || c->gpu == f->gpu;
	if (it && f->cure <= c->by)
		c->any = true;
	else
		c->left = true;
}

// Takes the lines out of the file whose faults all end by this.
static int cure(struct fake *k, int gpu, enum cure by, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0}, keep = {0};
	int r = read_file(k, &text, err);
	if (r || !text.len)
		return r;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&text), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		struct cured c = {.gpu = gpu, .by = by};
		if (parse_line(lines.v[i], (int)i + 1, look, &c, NULL) || c.left || !c.any)
			td_buf_printf(&keep, "%s\n", lines.v[i]);
	}
	return td_file_write(k->path, td_buf_str(&keep), keep.len, 0644, err);
}

static int fake_reset(void *ctx, int gpu, struct td_cancel *c, struct td_error *err)
{
	const struct fake *k = ctx;
	if (gpu != TD_HEALTH_ALL && gpu >= k->devices)
		return td_fail(err, TD_INVALID, "there is no gpu%d here: the node has %d", gpu, k->devices);
	return cure(ctx, gpu, CURE_RESET, err);
}

static int fake_rebooted(void *ctx, struct td_error *err)
{
	return cure(ctx, TD_HEALTH_ALL, CURE_REBOOT, err);
}

// A GPU of such a node is cut as an H100 of 80 GB is.
static const struct td_mig_kind fake_kind[] = {
	{"1g.10gb", 1, 0x7f, 7}, {"1g.10gb.me", 1, 0x7f, 1}, {"1g.20gb", 2, 0x55, 4}, {"2g.20gb", 2, 0x15, 3},
	{"3g.40gb", 4, 0x11, 2}, {"4g.40gb", 4, 0x01, 1},    {"7g.80gb", 8, 0x01, 1}};

static int fake_kinds(void *ctx, int gpu, struct td_mig_kind ret[TD_MIG_KINDS], size_t *ret_n, struct td_error *err)
{
	const struct fake *k = ctx;
	if (gpu < 0 || gpu >= k->gpus)
		return td_fail(err, TD_NOT_FOUND, "there is no GPU %d here: the node has %d", gpu, k->gpus);
	memcpy(ret, fake_kind, sizeof(fake_kind));
	*ret_n = TD_LEN(fake_kind);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	return ((const struct td_mig_wish *)a)->at - ((const struct td_mig_wish *)b)->at;
}

// The file says how they are cut, so it is what is cut.
static int fake_cut(void *ctx, int gpu, const struct td_mig_wish *v, size_t n, struct td_error *err)
{
	struct fake *k = ctx;
	td_auto_free struct td_mig *m = td_calloc(1, sizeof(*m));
	td_auto_buf struct td_buf b = {0};
	struct td_mig_wish in_order[TD_MIG_PARTS];
	if (!k->root || gpu < 0 || gpu >= k->gpus || n > TD_MIG_PARTS)
		return td_fail(err, TD_NOT_FOUND, "there is no GPU %d here: the node has %d", gpu, k->gpus);
	td_auto_free char *file = td_asprintf("%s/mig", k->root);
	int r = td_mig_file(file, k->gpus, m, err);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		in_order[i] = v[i];
	if (n)
		qsort(in_order, n, sizeof(*in_order), by_place);
	m->cut = n ? m->cut | UINT64_C(1) << gpu : m->cut & ~(UINT64_C(1) << gpu);
	for (int i = 0; i < k->gpus; i++) {
		if (!(m->cut >> i & 1))
			continue;
		td_buf_printf(&b, "gpu%d", i);
		for (size_t x = 0; i != gpu && x < m->n; x++)
			if (m->v[x].gpu == i)
				td_buf_printf(&b, " %s", m->v[x].profile);
		for (size_t x = 0; i == gpu && x < n; x++)
			td_buf_printf(&b, " %s", in_order[x].profile);
		td_buf_putc(&b, '\n');
	}
	r = td_mkdir_p(k->root, 0755, err);
	if (!r)
		r = td_file_write(file, td_buf_str(&b), b.len, 0644, err);
	return r ? r : look_at_parts(k, err);
}

static void fake_free(void *ctx)
{
	struct fake *k = ctx;
	free(k->path);
	free(k->root);
	free(k->mig);
	td_disks_free(k->disks);
	td_vpds_free(k->vpds);
	free(k);
}

struct td_checkup_backend td_checkup_fake(const char *path, const char *root, int gpus)
{
	struct fake *k = td_calloc(1, sizeof(*k));
	gpus = gpus < TD_HEALTH_GPUS ? gpus : TD_HEALTH_GPUS;
	*k = (struct fake){td_strdup(path), td_strdup(root), gpus, gpus, NULL, td_disks_new(), td_vpds_new()};
	if (root)
		look_at_parts(k, NULL); // a file that cannot be read says nothing
	return (struct td_checkup_backend){fake_read, fake_reset, fake_rebooted, fake_free, k, fake_kinds, fake_cut};
}
