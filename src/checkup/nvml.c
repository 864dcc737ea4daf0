// NVML by dlopen.
#include "checkup/nvml_priv.h"

#include "base/gpudriver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct td_nvml *td_nvml_close(struct td_nvml *n)
{
	if (!n)
		return NULL;
	if (n->events)
		n->events_free(n->events);
	if (n->shutdown)
		n->shutdown();
	if (n->lib)
		dlclose(n->lib);
	free(n);
	return NULL;
}

struct td_nvml *td_nvml_open(const char *path, struct td_error *err)
{
	// The driver may lie where the loader does not look.
	td_auto_free char *dir = path ? NULL : td_gpu_driver_dir(""),
			  *there = dir ? td_asprintf("%s/libnvidia-ml.so.1", dir) : NULL;
	void *lib = there && getenv("TANDEM_DRIVER") ? NULL
						     : dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib && there)
		lib = dlopen(there, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		td_fail(err, TD_NOT_FOUND, "%s", dlerror());
		return NULL;
	}
	struct td_nvml *n = td_calloc(1, sizeof(*n));
	n->lib = lib;
	// Older drivers lack some calls: what they would tell is then not known. The first four are needed.
#define LOAD(field, symbol, args) n->field = (int(*) args)dlsym(lib, symbol);
	CALLS(LOAD)
	int r;
	if (!n->init || !n->shutdown || !n->count || !n->handle || (r = n->init()) != OK) {
		td_fail(err, TD_NOT_FOUND, "NVML finds no driver");
		n->shutdown = NULL;
		return td_nvml_close(n);
	}
	unsigned count = 0;
	n->count(&count);
	bool events =
		n->events_new && n->events_of && n->events_wait && n->events_free && n->events_new(&n->events) == OK;
	if (!events)
		n->events = NULL;
	for (unsigned i = 0; i < count && n->n < TD_HEALTH_GPUS; i++) {
		nvml_device d = NULL;
		n->handle(i, &d); // one that is lost has no handle, and keeps its index
		struct nvml_pci pci = {0};
		if (d && n->pci && n->pci(d, &pci) == OK)
			snprintf(n->pci_of[n->n], sizeof(n->pci_of[0]), "%s", pci.address);
		if (d && events)
			n->events_of(d, EVENT_XID, n->events);
		n->gpu[n->n++] = d;
	}
	return n;
}

void td_nvml_address(const char *pci, char *ret, size_t size)
{
	size_t at = 0;
	for (size_t k = strlen(pci) > 12 ? strlen(pci) - 12 : 0; pci[k] && at + 1 < size; k++)
		ret[at++] = (char)tolower((unsigned char)pci[k]);
	ret[at] = '\0';
}

static void take_events(struct td_nvml *n)
{
	struct nvml_event e;
	for (int k = 0; n->events && k < 1000 && n->events_wait(n->events, &e, 0) == OK; k++)
		for (unsigned i = 0; i < n->n; i++)
			if (n->gpu[i] == e.device && (e.type & EVENT_XID)) {
				n->xid[i] = (int)e.data;
				n->xid_of[i] = e.instance;
			}
}

// The far end of a link, which a driver may tell only while the link is up.
static void far_end(struct td_nvml *n, unsigned i, unsigned k)
{
	struct nvml_pci pci = {0};
	char *to = n->links_of[i].to[k];
	if (*to || !n->link_to || n->link_to(n->gpu[i], k, &pci) != OK || !*pci.address)
		return;
	pci.address[sizeof(pci.address) - 1] = '\0';
	td_auto_free char *device = td_strndup(pci.address, strcspn(pci.address, "."));
	const int gpu = n->cut.cut ? -1 : td_nvml_index(n, device);
	if (gpu >= 0)
		snprintf(to, sizeof(n->links_of[0].to[0]), "gpu%d", gpu);
	else
		td_nvml_address(pci.address, to, sizeof(n->links_of[0].to[0]));
}

static void name_link(const struct td_nvml *n, unsigned i, unsigned k, char *ret, size_t size)
{
	const char *to = n->links_of[i].to[k];
	size_t at = strlen(ret);
	snprintf(ret + at, size - at, "%s%u%s%s", at ? ", " : "", k, *to ? " to " : "", to);
}

// Which of the links it was that counted errors since the last look. Each is asked only when their sum has changed.
static void worst_link(struct td_nvml *n, unsigned i, int64_t now_ms, struct td_checkup_gpu *g)
{
	struct nvml_links *l = &n->links_of[i];
	const int64_t sum = g->count[TD_COUNT_NVLINK_CRC].total + g->count[TD_COUNT_NVLINK_REPLAY].total +
			    g->count[TD_COUNT_NVLINK_RECOVERY].total;
	unsigned long long most = 0;
	int worst = 0;
	if (n->link_errors && (!l->counted || sum != l->sum)) {
		for (unsigned k = 0; k < LINKS; k++) {
			unsigned long long all = 0, one;
			for (int kind = 0; kind < LINK_ERRORS; kind++)
				if (n->link_errors(n->gpu[i], k, kind, &one) == OK)
					all += one;
			if (l->counted && all > l->errors[k] && all - l->errors[k] > most) {
				most = all - l->errors[k];
				worst = (int)k + 1;
			}
			l->errors[k] = all;
		}
		// It stays the same while errors come: each change of the words is a write to the API.
		l->worst = l->worst ? l->worst : worst;
		l->counted = true;
		l->sum = sum;
		l->at_ms = now_ms;
	} else if (now_ms - l->at_ms >= TD_RATE_MS) {
		l->worst = 0;
	}
	if (l->worst)
		name_link(n, i, (unsigned)l->worst - 1, g->links_worst, sizeof(g->links_worst));
}

static void links_of(struct td_nvml *n, unsigned i, nvml_device d, struct td_checkup_gpu *g)
{
	for (unsigned k = 0; n->link && k < LINKS; k++) {
		int active;
		if (n->link(d, k, &active) != OK)
			continue;
		g->links++;
		g->links_down += !active;
		far_end(n, i, k);
		if (!active)
			name_link(n, i, k, g->links_which, sizeof(g->links_which));
	}
	// A GPU without any link that is up has no peers, or a fabric that is not there.
	if (g->links_down == g->links) {
		g->links_down = 0;
		*g->links_which = '\0';
	}
}

// An answer that will be the same next time.
static bool lasting(int r)
{
	return r == OK || r == NOT_SUPPORTED;
}

static void ask_who(struct td_nvml *n, unsigned i, struct nvml_who *w)
{
	nvml_device d = n->gpu[i];
	unsigned now;
	int status, r;
	*w = (struct nvml_who){.known = true, .minor = -1};
	w->known &= !n->name || lasting(n->name(d, w->model, sizeof(w->model)));
	w->known &= !n->serial || lasting(n->serial(d, w->serial, sizeof(w->serial)));
	w->known &= !n->vbios || lasting(n->vbios(d, w->firmware, sizeof(w->firmware)));
	w->known &= !n->uuid || lasting(n->uuid(d, w->uuid, sizeof(w->uuid)));
	if (n->minor) {
		r = n->minor(d, &now);
		w->known &= lasting(r);
		w->minor = r == OK ? (int)now : -1;
	}
	if (n->width_max) {
		r = n->width_max(d, &now);
		w->known &= lasting(r);
		w->pcie_width_max = r == OK ? (int)now : 0;
	}
	if (n->clock_max) {
		r = n->clock_max(d, CLOCK_SM, &now);
		w->known &= lasting(r);
		w->clock_max_mhz = r == OK ? (int)now : 0;
	}
	for (unsigned k = 0; n->p2p && k < n->n; k++) {
		if (k == i || !n->gpu[k])
			continue;
		r = n->p2p(d, n->gpu[k], P2P_NVLINK, &status);
		w->known &= lasting(r);
		if (r == OK && !status)
			w->peers |= UINT64_C(1) << k;
	}
}

// Who and where it is. That is asked until all is told: it is some 70 calls for eight GPUs.
static void identity(struct td_nvml *n, unsigned i, struct td_checkup_gpu *g)
{
	struct nvml_who *w = &n->who[i];
	if (!w->known)
		ask_who(n, i, w);
	memcpy(g->model, w->model, sizeof(g->model));
	memcpy(g->serial, w->serial, sizeof(g->serial));
	memcpy(g->firmware, w->firmware, sizeof(g->firmware));
	memcpy(g->uuid, w->uuid, sizeof(g->uuid));
	g->minor = w->minor;
	g->pcie_width_max = w->pcie_width_max;
	g->clock_max_mhz = w->clock_max_mhz;
	g->peers = w->peers;
	td_nvml_address(n->pci_of[i], g->pci, sizeof(g->pci));
}

enum { NEVER = -1, NOT_NOW = -2 };

// NEVER: this GPU or driver does not count it; NOT_NOW: it did not say.
static int64_t value_of(const struct nvml_field *f)
{
	if (f->code != OK)
		return f->code == NOT_SUPPORTED || f->code == INVALID_ARGUMENT ? NEVER : NOT_NOW;
	return f->type == VALUE_UNSIGNED_INT         ? (int64_t)f->value.ui
	       : f->type == VALUE_UNSIGNED_LONG      ? (int64_t)f->value.ul
	       : f->type == VALUE_UNSIGNED_LONG_LONG ? (int64_t)f->value.ull
						     : NEVER;
}

// A sum of which a part is missing now would seem to begin anew, and to grow when that is back.
static struct td_count count_of(int64_t a, int64_t b)
{
	if (a == NOT_NOW || b == NOT_NOW)
		return (struct td_count){0};
	return (struct td_count){.known = a >= 0 || b >= 0, .total = (a > 0 ? a : 0) + (b > 0 ? b : 0)};
}

// All at once: one call.
static void fields_of(struct td_nvml *n, nvml_device d, struct td_checkup_gpu *g)
{
	enum { CRC_FLIT, CRC_DATA, REPLAY, RECOVERIES, PCIE_REPLAY, SENT, RECEIVED, TO, FROM, RECOVERY, ASKED };
	struct nvml_field f[ASKED] = {{.id = FIELD_CRC_FLIT},
				      {.id = FIELD_CRC_DATA},
				      {.id = FIELD_REPLAY},
				      {.id = FIELD_RECOVERIES},
				      {.id = FIELD_PCIE_REPLAY},
				      {.id = FIELD_NVLINK_SENT, .scope = ALL_LINKS},
				      {.id = FIELD_NVLINK_RECEIVED, .scope = ALL_LINKS},
				      {.id = FIELD_PCIE_SENT},
				      {.id = FIELD_PCIE_RECEIVED},
				      {.id = FIELD_RECOVERY}};
	if (!n->fields)
		return;
	if (n->fields(d, ASKED, f) != OK) {
		// It does not like to hear of the others.
		if (n->fields(d, 1, &f[RECOVERY]) == OK && f[RECOVERY].code == OK)
			g->recovery = (int)f[RECOVERY].value.ui;
		return;
	}
	if (f[RECOVERY].code == OK)
		g->recovery = (int)f[RECOVERY].value.ui;
	int64_t v[ASKED];
	for (int k = 0; k < ASKED; k++)
		v[k] = value_of(&f[k]);
	// A GPU without NVLink counts none.
	if (g->links) {
		g->count[TD_COUNT_NVLINK_CRC] = count_of(v[CRC_FLIT], v[CRC_DATA]);
		g->count[TD_COUNT_NVLINK_REPLAY] = count_of(v[REPLAY], NEVER);
		g->count[TD_COUNT_NVLINK_RECOVERY] = count_of(v[RECOVERIES], NEVER);
		if (v[SENT] >= 0 && v[RECEIVED] >= 0)
			g->nvlink = (struct td_traffic){true, v[SENT] << 10, v[RECEIVED] << 10};
	}
	g->count[TD_COUNT_PCIE_REPLAY] = count_of(v[PCIE_REPLAY], NEVER);
	// One of 32 bits would begin anew several times between two looks.
	if (v[TO] >= 0 && v[FROM] >= 0 && f[TO].type != VALUE_UNSIGNED_INT && f[FROM].type != VALUE_UNSIGNED_INT)
		g->pcie = (struct td_traffic){true, v[TO], v[FROM]};
}

// Older drivers do not count what goes by PCIe, but measure it, for 20 ms a direction: one GPU at each look, in turn.
static void pcie_of(struct td_nvml *n, unsigned i, struct td_checkup_gpu *g)
{
	unsigned sent, received;
	if (g->pcie.known || !n->pcie_now)
		return;
	if (i == n->turn % n->n) {
		struct td_traffic *t = &n->pcie_now_of[i];
		t->known = n->pcie_now(n->gpu[i], PCIE_SENT, &sent) == OK &&
			   n->pcie_now(n->gpu[i], PCIE_RECEIVED, &received) == OK;
		if (t->known) // KB
			*t = (struct td_traffic){true, sent * INT64_C(1000), received * INT64_C(1000)};
	}
	g->pcie_now = n->pcie_now_of[i];
}

static void clocks_of(struct td_nvml *n, unsigned i, int64_t now_ms, struct td_checkup_gpu *g)
{
	nvml_device d = n->gpu[i];
	unsigned long long why = 0;
	unsigned u;
	if (n->clock && n->clock(d, CLOCK_SM, &u) == OK)
		g->clock_mhz = (int)u;
	if (n->clock_set && n->clock_set(d, CLOCK_GRAPHICS, &u) == OK)
		g->clock_set_mhz = (int)u;
	// Drivers before 535 know it by another name only.
	g->slow_known = (n->slow && n->slow(d, &why) == OK) || (n->slow_before && n->slow_before(d, &why) == OK);
	if (!g->slow_known)
		why = 0;
	const bool is[TD_SLOWS] = {
		[TD_SLOW_HEAT] = why & SLOW_HEAT,
		[TD_SLOW_HARDWARE] = why & SLOW_HARDWARE && !(why & (SLOW_HEAT | SLOW_BRAKE)),
		[TD_SLOW_BRAKE] = why & SLOW_BRAKE,
		[TD_SLOW_POWER_CAP] = why & SLOW_POWER_CAP,
		[TD_SLOW_SET] = why & SLOW_SET,
	};
	for (int k = 0; k < TD_SLOWS; k++)
		g->slow_s[k] = td_lasts_look(&n->lasts[i][k], is[k], now_ms);
}

static void read_gpu(struct td_nvml *n, unsigned i, int64_t now_ms, struct td_checkup_gpu *g)
{
	nvml_device d = n->gpu[i];
	unsigned u = 0, a, b, pending, failed;
	unsigned long long ull;
	struct nvml_use use;
	struct nvml_memory mem;
	*g = (struct td_checkup_gpu){
		.temp_c = -1, .power_w = -1, .use_percent = -1, .xid = n->xid[i], .minor = -1, .numa = -1};
	if (!d || !n->temperature || n->temperature(d, TEMPERATURE_GPU, &u) != OK) {
		struct nvml_memory alive;
		g->lost = !d || !n->memory || n->memory(d, &alive) != OK;
	} else {
		g->temp_c = u;
	}
	if (!d)
		return;
	identity(n, i, g);
	if (n->power && n->power(d, &u) == OK)
		g->power_w = u / 1000.0;
	if (n->use && n->use(d, &use) == OK)
		g->use_percent = use.gpu;
	// What the driver keeps for itself is nobody's use; older drivers do not tell it apart.
	struct nvml_memory2 apart = {.version = MEMORY2};
	if (n->memory2 && n->memory2(d, &apart) == OK) {
		g->memory_mb = (int64_t)(apart.total >> 20);
		g->memory_used_mb = (int64_t)(apart.used >> 20);
	} else if (n->memory && n->memory(d, &mem) == OK) {
		g->memory_mb = (int64_t)(mem.total >> 20);
		g->memory_used_mb = (int64_t)(mem.used >> 20);
	}
	if (n->ecc && n->ecc(d, ECC_CORRECTED, ECC_VOLATILE, &ull) == OK)
		g->ecc_corrected = (int64_t)ull;
	if (n->ecc && n->ecc(d, ECC_UNCORRECTED, ECC_VOLATILE, &ull) == OK)
		g->ecc_uncorrected = (int64_t)ull;
	if (n->remapped && n->remapped(d, &a, &b, &pending, &failed) == OK) {
		g->remap_pending = pending;
		g->remap_failed = failed;
	}
	if (n->width && n->width(d, &u) == OK)
		g->pcie_width = (int)u;
	clocks_of(n, i, now_ms, g);
	links_of(n, i, d, g);
	fields_of(n, d, g);
	if (g->links)
		worst_link(n, i, now_ms, g);
	pcie_of(n, i, g);
}

// Looks how a GPU is cut. One that does not answer is cut as before: else all others would change their indexes.
static void read_parts(struct td_nvml *n, unsigned i)
{
	unsigned now = 0, then, most = 0, instance, compute;
	nvml_device d = n->gpu[i], part;
	struct td_mig *m = &n->cut;
	if (!n->mig_max || !n->mig_part || !n->instance || !n->compute || !n->uuid || !n->name || !n->mig ||
	    n->mig(d, &now, &then) != OK)
		return;
	size_t keep = 0;
	for (size_t k = 0; k < m->n; k++)
		if (m->v[k].gpu != (int)i)
			m->v[keep++] = m->v[k];
	m->n = keep;
	m->cut &= ~(UINT64_C(1) << i);
	if (!now)
		return;
	m->cut |= UINT64_C(1) << i;
	n->mig_max(d, &most);
	for (unsigned k = 0; k < most && m->n < TD_HEALTH_GPUS; k++) {
		struct td_mig_part p = {.gpu = (int)i, .caps = {-1, -1}};
		char name[96] = "";
		struct nvml_memory mem;
		// There are gaps where a larger part takes the place of several.
		if (n->mig_part(d, k, &part) != OK || n->instance(part, &instance) != OK ||
		    n->compute(part, &compute) != OK || n->uuid(part, p.uuid, sizeof(p.uuid)) != OK ||
		    n->name(part, name, sizeof(name)) != OK || !td_mig_profile(name, p.profile))
			continue;
		p.instance = (int)instance;
		p.compute = (int)compute;
		if (n->memory && n->memory(part, &mem) == OK)
			p.memory_mb = (int64_t)(mem.total >> 20);
		m->v[m->n++] = p;
	}
}

void td_nvml_read(struct td_nvml *n, int64_t now_ms, struct td_checkup_facts *ret)
{
	const uint64_t was = n->cut.cut;
	take_events(n);
	ret->gpus = (int)n->n;
	for (unsigned i = 0; i < n->n; i++) {
		read_gpu(n, i, now_ms, &ret->gpu[i]);
		if (!ret->gpu[i].lost)
			read_parts(n, i);
	}
	n->turn++;
	// A GPU that is cut has no peers: who reaches whom is asked anew.
	for (unsigned i = 0; was != n->cut.cut && i < n->n; i++)
		n->who[i].known = false;
	td_mig_apply(&n->cut, ret);
	// An XID that names a part is about that one only.
	for (int i = 0; i < ret->gpus; i++) {
		struct td_checkup_gpu *g = &ret->gpu[i];
		unsigned about = n->xid_of[g->of];
		if (*g->profile && n->xid[g->of] && about != NO_PART && about != (unsigned)g->instance)
			g->xid = 0;
	}
}

int td_nvml_index(struct td_nvml *n, const char *pci)
{
	// The kernel writes "0000:3b:00", NVML "00000000:3B:00.0".
	for (unsigned i = 0; i < n->n; i++) {
		const char *have = n->pci_of[i];
		size_t l = strlen(pci), h = strlen(have);
		if (h > 2 && td_ends(have, ".0"))
			h -= 2;
		if (l <= h && !strncasecmp(have + h - l, pci, l))
			return (int)i;
	}
	return -1;
}
