// How NVML cuts a GPU (MIG): the mode, GPU instances, and in each one compute instance that has all of it. What is there
// is read each time, so that whoever was stopped in the middle begins again.
#include "checkup/nvml_priv.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 32, INNERS = 8, PLACES = 32 };

// A part as it can be made here.
struct kind {
	struct td_mig_kind is;
	unsigned id, slices;
};

static int failed(int r, const char *what, struct td_error *err)
{
	static const struct {
		int r, code;
		const char *words;
	} known[] = {{IN_USE, TD_CONFLICT, "a program uses the GPU"},
		     {NO_PERMISSION, TD_DENIED,
		      "the agent has not the right to: it must be root, and a container have "
		      "NVIDIA_MIG_CONFIG_DEVICES=all and CAP_SYS_ADMIN"},
		     {NOT_SUPPORTED, TD_UNSUPPORTED, "this GPU cannot be cut"},
		     {RESET_REQUIRED, TD_UNSUPPORTED,
		      "the mode counts after a reset of the GPU: reset it or reboot the node, then ask again"},
		     {INSUFFICIENT_RESOURCES, TD_INVALID, "the GPU has no room for it"}};
	for (size_t i = 0; i < TD_LEN(known); i++)
		if (known[i].r == r)
			return td_fail(err, known[i].code, "%s: %s", what, known[i].words);
	return td_fail(err, TD_INTERNAL, "%s: NVML says %d", what, r);
}

static bool able(const struct td_nvml *n)
{
	return n->mig && n->mig_set && n->kind && n->places && n->parts && n->part_info && n->part_new && n->part_end &&
	       n->inner && n->inners && n->inner_new && n->inner_end;
}

static size_t kinds_of(const struct td_nvml *n, nvml_device d, struct kind ret[TD_MIG_KINDS])
{
	size_t k = 0;
	for (unsigned i = 0; able(n) && i < KINDS && k < TD_MIG_KINDS; i++) {
		struct nvml_kind x = {.version = KIND};
		struct nvml_place p[PLACES];
		unsigned count = PLACES;
		struct kind *to = &ret[k];
		// A number may stand for a part that this GPU does not have.
		if (n->kind(d, i, &x) != OK || n->places(d, x.id, p, &count) != OK || !count || count > PLACES)
			continue;
		*to = (struct kind){
			.id = x.id, .slices = x.slices, .is = {.size = (int)p[0].size, .most = (int)x.count}};
		x.name[sizeof(x.name) - 1] = '\0';
		if (!td_mig_profile(x.name, to->is.profile))
			continue;
		for (unsigned c = 0; c < count; c++)
			if (p[c].start < PLACES)
				to->is.at |= UINT32_C(1) << p[c].start;
		k++;
	}
	return k;
}

static int gpu_of(const struct td_nvml *n, int gpu, nvml_device *ret, struct td_error *err)
{
	if (gpu < 0 || gpu >= (int)n->n)
		return td_fail(err, TD_NOT_FOUND, "there is no GPU %d here: the machine has %u", gpu, n->n);
	if (!n->gpu[gpu])
		return td_fail(err, TD_TRANSIENT, "it is lost: reset it or reboot the node");
	*ret = n->gpu[gpu];
	return 0;
}

int td_nvml_kinds(struct td_nvml *n, int gpu, struct td_mig_kind ret[TD_MIG_KINDS], size_t *ret_n, struct td_error *err)
{
	struct kind v[TD_MIG_KINDS];
	nvml_device d = NULL;
	unsigned now, then;
	int r = gpu_of(n, gpu, &d, err);
	if (r)
		return r;
	int said = able(n) ? n->mig(d, &now, &then) : NOT_SUPPORTED;
	if (said != OK && said != NOT_SUPPORTED)
		return failed(said, "whether the GPU can be cut", err);
	size_t k = said == OK ? kinds_of(n, d, v) : 0;
	for (size_t i = 0; i < k; i++)
		ret[i] = v[i].is;
	*ret_n = k;
	return 0;
}

// ---- what is there ----

struct there {
	nvml_part part;
	const struct kind *kind;
	unsigned at;
	unsigned inners; // compute instances
};

// Looks for compute instances. end: and takes them away.
static int look_inside(const struct td_nvml *n, nvml_part part, bool end, unsigned *ret_n, struct td_error *err)
{
	*ret_n = 0;
	for (unsigned i = 0; i < INNERS; i++) {
		struct nvml_inner x;
		nvml_compute v[PLACES];
		unsigned count = PLACES;
		int r = n->inner(part, i, 0, &x);
		if (r == NOT_SUPPORTED || r == INVALID_ARGUMENT)
			continue;
		if (r != OK || (r = n->inners(part, x.id, v, &count)) != OK)
			return failed(r, "what is in a part", err);
		for (unsigned c = 0; end && c < count; c++)
			if ((r = n->inner_end(v[c])) != OK)
				return failed(r, "a part is to go", err);
		*ret_n += end ? 0 : count;
	}
	return 0;
}

static int look(const struct td_nvml *n, nvml_device d, const struct kind *kinds, size_t n_kinds, struct there *ret,
		size_t *ret_n, struct td_error *err)
{
	size_t k = 0;
	for (size_t i = 0; i < n_kinds; i++) {
		nvml_part v[PLACES];
		unsigned count = PLACES;
		int r = n->parts(d, kinds[i].id, v, &count);
		if (r != OK)
			return failed(r, "which parts there are", err);
		for (unsigned c = 0; c < count && k < PLACES; c++) {
			struct nvml_part_info x;
			if ((r = n->part_info(v[c], &x)) != OK)
				return failed(r, "what a part is", err);
			ret[k] = (struct there){.part = v[c], .kind = &kinds[i], .at = x.place.start};
			if ((r = look_inside(n, v[c], false, &ret[k].inners, err)))
				return r;
			k++;
		}
	}
	*ret_n = k;
	return 0;
}

static bool as_wished(const struct there *have, size_t n_have, const struct td_mig_wish *v, size_t n)
{
	bool same = n_have == n;
	for (size_t i = 0; same && i < n; i++) {
		bool found = false;
		for (size_t k = 0; k < n_have; k++)
			found |= !strcmp(have[k].kind->is.profile, v[i].profile) && (int)have[k].at == v[i].at &&
				 have[k].inners == 1;
		same = found;
	}
	return same;
}

static int take_away(const struct td_nvml *n, const struct there *have, size_t n_have, struct td_error *err)
{
	for (size_t i = 0; i < n_have; i++) {
		unsigned none;
		int r = look_inside(n, have[i].part, true, &none, err);
		if (r)
			return r;
		if ((r = n->part_end(have[i].part)) != OK)
			return failed(r, "a part is to go", err);
	}
	return 0;
}

// ---- what shall be ----

static int set_mode(const struct td_nvml *n, nvml_device d, unsigned want, struct td_error *err)
{
	const char *what = want ? "the GPU is to be cut" : "the GPU is to be whole";
	unsigned now = 0, then = 0;
	int said = OK, r = n->mig(d, &now, &then);
	if (r != OK)
		return failed(r, what, err);
	if (now == want && then == want)
		return 0;
	if ((r = n->mig_set(d, want, &said)) != OK || (r = said) != OK)
		return failed(r, what, err);
	r = n->mig(d, &now, &then);
	return r != OK || now != want ? failed(r != OK ? r : RESET_REQUIRED, what, err) : 0;
}

// A part, and in it the one compute instance that has all its slices.
static int make(const struct td_nvml *n, nvml_device d, const struct kind *kind, int at, struct td_error *err)
{
	const struct nvml_place place = {(unsigned)at, (unsigned)kind->is.size};
	nvml_part part;
	nvml_compute inner;
	td_auto_free char *what = td_asprintf("a part %s", kind->is.profile);
	int r = n->part_new(d, kind->id, &place, &part);
	for (unsigned i = 0; r == OK && i < INNERS; i++) {
		struct nvml_inner x;
		int is = n->inner(part, i, 0, &x);
		if (is == OK && x.slices == kind->slices) {
			r = n->inner_new(part, x.id, &inner);
			return r == OK ? 0 : failed(r, what, err);
		}
	}
	return failed(r == OK ? NOT_SUPPORTED : r, what, err);
}

int td_nvml_cut(struct td_nvml *n, int gpu, const struct td_mig_wish *v, size_t n_v, struct td_error *err)
{
	struct kind kinds[TD_MIG_KINDS];
	struct there have[PLACES];
	nvml_device d = NULL;
	size_t n_have = 0;
	unsigned now = 0, then = 0;
	int r = gpu_of(n, gpu, &d, err);
	if (r)
		return r;
	size_t n_kinds = kinds_of(n, d, kinds);
	if (!n_kinds || n->mig(d, &now, &then) != OK)
		return failed(NOT_SUPPORTED, "the GPU is to be cut", err);
	for (size_t i = 0; i < n_v; i++) {
		bool known = false;
		for (size_t k = 0; k < n_kinds; k++)
			known |= !strcmp(kinds[k].is.profile, v[i].profile);
		if (!known)
			return td_fail(err, TD_INVALID, "the GPU has no parts %s", v[i].profile);
	}
	if (now && (r = look(n, d, kinds, n_kinds, have, &n_have, err)))
		return r;
	if (now && n_v && as_wished(have, n_have, v, n_v))
		return 0;
	r = take_away(n, have, n_have, err);
	if (!r)
		r = set_mode(n, d, n_v > 0, err);
	for (size_t i = 0; !r && i < n_v; i++)
		for (size_t k = 0; k < n_kinds; k++)
			if (!strcmp(kinds[k].is.profile, v[i].profile))
				r = make(n, d, &kinds[k], v[i].at, err);
	// Half a wish is nobody's: what was made goes again.
	if (r && n_v && !look(n, d, kinds, n_kinds, have, &n_have, NULL))
		take_away(n, have, n_have, NULL);
	n->who[gpu].known = false; // its minor number and more may have changed
	return r;
}
