#include "slurm/nics.h"

#include "base/names.h"

#include <fnmatch.h>
#include <string.h>

static const char *const planes[] = {"gpu", "storage", "user"};

void td_slurm_nics_done(struct td_slurm_nics *l)
{
	td_json_unref(l->keep);
	*l = (struct td_slurm_nics){0};
}

// The first plane with a pattern for its name or that of its interface.
static const char *plane_of(const yyjson_val *fabric, const struct td_slurm_nic *x)
{
	for (size_t k = 0; k < TD_LEN(planes); k++) {
		yyjson_val *p, *list = td_jget(td_jkey(td_jget(fabric, "planes"), planes[k]), "interfaces");
		size_t i, n;
		yyjson_arr_foreach (list, i, n, p) {
			const char *form = yyjson_get_str(p);
			if (form && (!fnmatch(form, x->name, 0) || (x->interface && !fnmatch(form, x->interface, 0))))
				return planes[k];
		}
	}
	return NULL;
}

bool td_slurm_nics_give(const yyjson_val *fabric)
{
	return td_jbool(fabric, "nics.grant", false);
}

static bool of_gpus(const struct td_slurm_nics *l, const struct td_slurm_nic *x)
{
	return td_streq(x->plane, l->gpu_plane ? "gpu" : NULL);
}

// Only what may stand in a line of gres.conf.
static bool good_files(yyjson_val *files)
{
	static const char dir[] = "/dev/infiniband/", ok[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (files, i, n, x) {
		const char *s = yyjson_get_str(x);
		if (!s || !td_starts(s, dir) || strlen(s) > 40 || !s[strlen(dir)] ||
		    s[strlen(dir) + strspn(s + strlen(dir), ok)])
			return false;
	}
	return yyjson_arr_size(files) > 0 && yyjson_arr_size(files) <= 4;
}

static int number_of(yyjson_val *files)
{
	const char *s = yyjson_get_str(yyjson_arr_get_first(files));
	size_t at = s ? strcspn(s, "0123456789") : 0;
	long long n = 0;
	return s && td_parse_i64(s + at, &n) && n >= 0 && n < 100000 ? (int)n : 0;
}

const struct td_slurm_nic *td_slurm_nics_given(const struct td_slurm_nics *l, size_t i)
{
	for (size_t k = 0; k < l->n; k++)
		if (l->v[k].given && !i--)
			return &l->v[k];
	return NULL;
}

void td_slurm_nics_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_nics *ret)
{
	*ret = (struct td_slurm_nics){.gpu_plane = td_jget(fabric, "planes.gpu"), .gives = td_slurm_nics_give(fabric)};
	const char *text = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_NICS);
	if (!text || td_json_parse(text, strlen(text), &ret->keep, NULL))
		return;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(ret->keep), "nics"), i, n, x) {
		const char *link = td_jstr_or(x, "link", "");
		struct td_slurm_nic *a = &ret->v[ret->n];
		*a = (struct td_slurm_nic){.name = td_jstr(x, "name"),
					   .interface = td_jstr(x, "interface"),
					   .guid = td_jstr(x, "guid"),
					   .rdma = *link && !td_streq(link, "Ethernet"),
					   .active = td_jbool(x, "active", false),
					   .port = (int)td_jint(x, "port", 1),
					   .rate = td_jint(x, "rate", 0),
					   .numa = (int)td_jint(x, "numa", -1),
					   .near = td_jget(x, "near"),
					   .files = td_jget(x, "files")};
		if (!a->name)
			continue;
		a->plane = plane_of(fabric, a);
		a->given = ret->gives && a->rdma && good_files(a->files) && of_gpus(ret, a);
		a->number = a->given ? number_of(a->files) : 0;
		if (++ret->n == TD_LEN(ret->v))
			break;
	}
}

// ---- what variables are made of ----

struct choice {
	const struct td_slurm_nic *v[64];
	size_t n;
};

static struct choice choose(const struct td_slurm_nics *l, enum td_slurm_found kind)
{
	struct choice c = {0};
	bool rdma = false, active = false;
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < l->n; i++) {
			const struct td_slurm_nic *x = &l->v[i];
			bool right = kind == TD_FOUND_INTERFACES ? x->interface != NULL : x->rdma;
			// Where no adapter knows RDMA, UCX goes over TCP.
			if (round && kind == TD_FOUND_PORTS && !rdma)
				right = x->interface != NULL;
			if (!of_gpus(l, x) || !right)
				continue;
			if (!round) {
				rdma |= x->rdma;
				active |= x->active;
			} else if (x->active || !active) {
				c.v[c.n++] = x;
			}
		}
	return c;
}

static char *word(const struct td_slurm_nic *x, enum td_slurm_found kind)
{
	if (kind == TD_FOUND_INTERFACES || (kind == TD_FOUND_PORTS && !x->rdma))
		return td_strdup(x->interface);
	return kind == TD_FOUND_PORTS ? td_asprintf("%s:%d", x->name, x->port) : td_strdup(x->name);
}

static long long near(const struct td_slurm_nic *x, size_t gpu)
{
	return yyjson_get_int(yyjson_arr_get(x->near, gpu));
}

void td_slurm_nics_found(const struct td_slurm_nics *l, enum td_slurm_found kind, struct td_strv *all,
			 struct td_strv *each)
{
	const struct choice c = choose(l, kind);
	size_t gpus = 0, used[64] = {0};
	for (size_t i = 0; i < c.n; i++) {
		td_auto_free char *w = word(c.v[i], kind);
		if (!td_strv_has(all, w))
			td_strv_add(all, w);
		gpus = yyjson_arr_size(c.v[i]->near) > gpus ? yyjson_arr_size(c.v[i]->near) : gpus;
	}
	for (size_t k = 0; k < gpus && k < 64; k++) {
		size_t best = 0;
		for (size_t i = 1; i < c.n; i++) {
			long long a = near(c.v[i], k), b = near(c.v[best], k);
			if (a > b || (a == b && used[i] < used[best]))
				best = i;
		}
		used[best]++;
		td_strv_steal(each, word(c.v[best], kind));
	}
}

bool td_slurm_nics_words(const struct td_slurm_nics *l, enum td_slurm_found kind, struct td_strv *each,
			 struct td_strv *any)
{
	const struct td_slurm_nic *x;
	for (size_t i = 0; kind != TD_FOUND_INTERFACES && (x = td_slurm_nics_given(l, i)); i++)
		td_strv_steal(each, word(x, kind));
	if (each->n && kind == TD_FOUND_PORTS) {
		td_auto_strv struct td_strv near = {0};
		td_slurm_nics_found(l, TD_FOUND_INTERFACES, any, &near);
	}
	return each->n > 0;
}

// ---- what is wrong ----

static void judge(const char *node, const char *plane, const yyjson_val *want, const struct td_slurm_nics *l,
		  struct td_strv *ret)
{
	const long long least = td_jint(want, "minGbps", 0), count = td_jint(want, "count", 0);
	long long n = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_nic *x = &l->v[i];
		const char *its = x->interface ? x->interface : x->name;
		if (!td_streq(x->plane, plane))
			continue;
		n++;
		if (!x->active)
			td_strv_addf(ret, "%.63s: %.31s (%.31s) of the plane %s is down", node, its, x->name, plane);
		else if (x->rate && x->rate < least * 1000)
			td_strv_addf(ret, "%.63s: %.31s (%.31s) of the plane %s runs at %lld Gb/s, %lld are asked for",
				     node, its, x->name, plane, x->rate / 1000, least);
	}
	if (!n || n < count)
		td_strv_addf(ret, "%.63s: %lld interfaces are of the plane %s, %lld are asked for", node, n, plane,
			     count ? count : 1);
}

void td_slurm_nics_problems(const yyjson_val *fabric, const yyjson_val *node, struct td_strv *ret)
{
	td_auto_nics struct td_slurm_nics l = {0};
	td_slurm_nics_read(fabric, node, &l);
	for (size_t k = 0; l.n && k < TD_LEN(planes); k++) {
		yyjson_val *want = td_jkey(td_jget(fabric, "planes"), planes[k]);
		if (want)
			judge(td_jstr_or(node, "metadata.name", ""), planes[k], want, &l, ret);
	}
}
