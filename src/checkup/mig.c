// GPUs that are cut in parts (NVIDIA's MIG).
#include "checkup/checkup.h"

#include "base/file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 64 << 10, FIRST_CAP = 3 };

bool td_mig_profile(const char *name, char ret[24])
{
	const char *at = strstr(name, "MIG ");
	size_t n = 0;
	char out[24];
	at = at ? at + 4 : "";
	for (; at[n] && n + 1 < sizeof(out); n++)
		out[n] = at[n] == '+' ? '.' : at[n];
	out[n] = '\0';
	if (at[n] || !isdigit((unsigned char)*out) ||
	    out[strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789.")] != '\0' || !strstr(out, "g."))
		return false;
	memcpy(ret, out, sizeof(out));
	return true;
}

static int in_order(const void *a, const void *b)
{
	const struct td_mig_part *x = a, *y = b;
	int r = strcmp(x->profile, y->profile);
	r = r ? r : x->gpu - y->gpu;
	r = r ? r : x->instance - y->instance;
	return r ? r : x->compute - y->compute;
}

// What a part is told of its GPU's health is that of the GPU; what only the whole has is left out.
static struct td_checkup_gpu part_of(const struct td_checkup_gpu *whole, const struct td_mig_part *p)
{
	struct td_checkup_gpu g = *whole;
	snprintf(g.uuid, sizeof(g.uuid), "%s", p->uuid);
	snprintf(g.profile, sizeof(g.profile), "%s", p->profile);
	g.instance = p->instance;
	g.compute = p->compute;
	memcpy(g.caps, p->caps, sizeof(g.caps));
	g.memory_mb = p->memory_mb;
	g.memory_used_mb = 0;
	g.power_w = g.use_percent = -1;
	g.links = g.links_down = 0;
	g.peers = 0;
	return g;
}

void td_mig_apply(const struct td_mig *m, struct td_checkup_facts *f)
{
	for (int i = 0; i < f->gpus; i++)
		f->gpu[i].of = i;
	if (!m->cut)
		return;
	td_auto_free struct td_checkup_gpu *old = td_calloc(TD_HEALTH_GPUS, sizeof(*old));
	td_auto_free struct td_mig_part *v = td_calloc(TD_HEALTH_GPUS, sizeof(*v));
	int at[TD_HEALTH_GPUS], gpus = f->gpus, n = 0;
	memcpy(old, f->gpu, sizeof(f->gpu));
	memcpy(v, m->v, sizeof(m->v));
	qsort(v, m->n, sizeof(*v), in_order);
	for (int i = 0; i < gpus; i++) {
		at[i] = m->cut >> i & 1 ? -1 : n;
		if (at[i] >= 0)
			f->gpu[n++] = old[i];
	}
	// Who is linked with whom goes by the new indexes; a GPU that is cut has no links.
	for (int i = 0; i < n; i++) {
		uint64_t peers = f->gpu[i].peers;
		f->gpu[i].peers = 0;
		for (int k = 0; k < gpus; k++)
			if (peers >> k & 1 && at[k] >= 0)
				f->gpu[i].peers |= UINT64_C(1) << at[k];
	}
	for (size_t i = 0; i < m->n && n < TD_HEALTH_GPUS; i++)
		if (v[i].gpu >= 0 && v[i].gpu < gpus && m->cut >> v[i].gpu & 1)
			f->gpu[n++] = part_of(&old[v[i].gpu], &v[i]);
	memset(&f->gpu[n], 0, sizeof(f->gpu[0]) * (size_t)(TD_HEALTH_GPUS - n));
	f->gpus = n;
}

int td_mig_file(const char *path, int gpus, struct td_mig *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv lines = {0};
	td_auto_free struct td_mig *m = td_calloc(1, sizeof(*m));
	int r = td_file_read(path, FILE_MAX, &b, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	td_strv_split(&lines, r ? "" : td_buf_str(&b), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv w = {0};
		long long gpu;
		td_strv_split(&w, lines.v[i], ' ');
		if (!w.n || !*w.v[0] || w.v[0][0] == '#')
			continue;
		if (!td_starts(w.v[0], "gpu") || !td_parse_i64(w.v[0] + 3, &gpu) || gpu < 0 || gpu >= gpus ||
		    m->cut >> gpu & 1)
			return td_fail(err, TD_INVALID,
				       "%s, line %zu: \"%.40s\": write each of the GPUs gpu0 to gpu%d once", path,
				       i + 1, w.v[0], gpus - 1);
		m->cut |= UINT64_C(1) << gpu;
		for (size_t k = 1; k < w.n; k++) {
			struct td_mig_part p = {.gpu = (int)gpu, .instance = (int)k, .memory_mb = 10240};
			td_auto_free char *name = td_asprintf("MIG %s", w.v[k]);
			if (!td_mig_profile(name, p.profile))
				return td_fail(err, TD_INVALID,
					       "%s, line %zu: \"%.40s\" is no profile: write for example 1g.10gb", path,
					       i + 1, w.v[k]);
			if (m->n == TD_HEALTH_GPUS)
				return td_fail(err, TD_INVALID, "%s, line %zu: more than %d parts", path, i + 1,
					       TD_HEALTH_GPUS);
			snprintf(p.uuid, sizeof(p.uuid), "MIG-fake-%d-%zu", (int)gpu, k);
			p.caps[0] = FIRST_CAP + 2 * (int)m->n;
			p.caps[1] = p.caps[0] + 1;
			m->v[m->n++] = p;
		}
	}
	*ret = *m;
	return 0;
}

// The number that a capability's file says; -1: none.
static int cap(const char *dir, const struct td_checkup_gpu *g, bool compute)
{
	td_auto_free char *ci = compute ? td_asprintf("/ci%d", g->compute) : td_strdup("");
	td_auto_free char *path = td_asprintf("%s/gpu%d/mig/gi%d%s/access", dir, g->minor, g->instance, ci);
	td_auto_buf struct td_buf b = {0};
	static const char key[] = "DeviceFileMinor:";
	if (td_file_read(path, 4096, &b, NULL))
		return -1;
	const char *s = strstr(td_buf_str(&b), key);
	s = s ? s + strlen(key) : "";
	s += strspn(s, " \t");
	td_auto_free char *digits = td_strndup(s, strspn(s, "0123456789"));
	long long n;
	return td_parse_i64(digits, &n) && n >= 0 && n < 1 << 20 ? (int)n : -1;
}

void td_mig_caps(const char *root, struct td_checkup_facts *f)
{
	static const char *const places[] = {"", "/proc/1/root"};
	for (int i = 0; i < f->gpus; i++) {
		struct td_checkup_gpu *g = &f->gpu[i];
		for (size_t k = 0; k < TD_LEN(places) && *g->profile && (g->caps[0] < 0 || g->caps[1] < 0); k++) {
			td_auto_free char *dir = td_asprintf("%s%s/proc/driver/nvidia/capabilities", root, places[k]);
			g->caps[0] = cap(dir, g, false);
			g->caps[1] = cap(dir, g, true);
		}
	}
}

size_t td_mig_files(const struct td_checkup_gpu *g, char ret[3][40])
{
	if (!*g->file && g->minor < 0)
		return 0;
	if (*g->file)
		snprintf(ret[0], sizeof(ret[0]), "%s", g->file);
	else
		snprintf(ret[0], sizeof(ret[0]), "/dev/nvidia%d", g->minor);
	if (!*g->profile)
		return 1;
	for (int k = 0; k < 2; k++) {
		if (g->caps[k] < 0)
			return 0;
		snprintf(ret[1 + k], sizeof(ret[0]), "/dev/nvidia-caps/nvidia-cap%d", g->caps[k]);
	}
	return 3;
}

bool td_mig_told(const struct td_checkup_facts *f)
{
	for (int i = 0; i < f->gpus; i++)
		if (f->gpu[i].lost || !*f->gpu[i].uuid)
			return false;
	return f->gpus > 0;
}

bool td_mig_any(const struct td_checkup_facts *f)
{
	for (int i = 0; i < f->gpus; i++)
		if (*f->gpu[i].profile)
			return true;
	return false;
}

char *td_mig_task_text(const struct td_checkup_facts *f)
{
	static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
	struct td_buf b = {0};
	if (!td_mig_any(f))
		return NULL;
	for (size_t k = 0; k < TD_LEN(names); k++) {
		td_buf_printf(&b, "%s" TD_MIG_EACH, names[k]);
		for (int i = 0; i < f->gpus; i++) // the place of a word counts: there is one for each
			td_buf_printf(&b, "%s%s", i ? " " : "", *f->gpu[i].uuid ? f->gpu[i].uuid : "-");
		td_buf_putc(&b, '\n');
	}
	return td_buf_take(&b);
}
