// Single devices of a node that are out of service (aside.h).
#include "pool/aside.h"

#include "base/mem.h"

#include <string.h>

#define BIT(device) ((uint64_t)1 << (device))

uint64_t td_pool_aside_held(const struct td_pool_aside_job *v, size_t n)
{
	uint64_t held = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].device >= 0)
			held |= BIT(v[i].device);
	return held;
}

bool td_pool_aside_read(const char *text, uint64_t *ret)
{
	static const char kind[] = "gpu";
	*ret = 0;
	for (const char *p = text ? text : ""; *p;) {
		if (*p == ' ' || *p == ',') {
			p++;
			continue;
		}
		if (strncmp(p, kind, sizeof(kind) - 1) != 0)
			return false;
		p += sizeof(kind) - 1;
		int k = 0, digits = 0;
		for (; *p >= '0' && *p <= '9' && digits < 3; digits++)
			k = 10 * k + (*p++ - '0');
		if (!digits || k >= TD_ASIDE_MAX || (*p && *p != ',' && *p != ' '))
			return false;
		*ret |= BIT(k);
	}
	return true;
}

bool td_pool_aside_both(const char *out, const char *hold, uint64_t *ret)
{
	uint64_t other;
	bool good = td_pool_aside_read(out, ret);
	if (!good)
		*ret = 0;
	if (td_pool_aside_read(hold, &other))
		*ret |= other;
	return good;
}

char *td_pool_aside_write(uint64_t devices)
{
	td_auto_buf struct td_buf t = {0};
	for (int i = 0; i < TD_ASIDE_MAX; i++)
		if (devices & BIT(i))
			td_buf_printf(&t, "%sgpu%d", t.len ? "," : "", i);
	return t.len ? td_buf_take(&t) : NULL;
}

static size_t count(uint64_t mask)
{
	size_t n = 0;
	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

// Of the missing devices: how many that job holds.
static size_t held_by(const struct td_pool_aside *f, uint64_t missing, int64_t job)
{
	size_t n = 0;
	for (int i = 0; job > 0 && i < TD_ASIDE_MAX; i++)
		n += missing & BIT(i) && f->by[i] == job;
	return n;
}

// Of the devices that may be any: how many no job holds yet.
static size_t lacking(const struct td_pool_aside *f)
{
	size_t spare = count(td_pool_aside_held(f->v, f->n) & ~f->want & f->all), most = count(f->all & ~f->want);
	size_t any = f->any < most ? f->any : most; // pods may ask for more than the node has
	return any > spare ? any - spare : 0;
}

// How many jobs wait for nobody's end.
static size_t coming(const struct td_pool_aside *f)
{
	size_t n = 0;
	for (size_t i = 0; i < f->n; i++)
		n += f->v[i].device < 0 && !f->v[i].after;
	return n;
}

// Those that wait for the end of a job that holds none of the missing devices, or of which there are too many: `most`
// wait for nobody's end. Where that job holds nothing any more and a missing device is `freed`, it has just ended: who
// awaited it is about to get that one.
static bool end_waiting(const struct td_pool_aside *f, uint64_t missing, uint64_t freed, size_t most,
			struct td_pool_aside_plan *p)
{
	bool any = false;
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].device >= 0)
			continue;
		size_t before = 0;
		for (size_t k = 0; k < i; k++)
			before += f->v[k].device < 0 && f->v[k].after == f->v[i].after;
		int64_t after = f->v[i].after;
		size_t right = !after ? most : held_by(f, missing, after);
		if (after > 0 && !held_by(f, f->all, after))
			right += count(freed);
		p->ends[i] = before >= right;
		any |= p->ends[i];
	}
	return any;
}

// Those that hold a device that nobody wants held, or one that another holds, too.
static bool end_wrong(const struct td_pool_aside *f, struct td_pool_aside_plan *p)
{
	// Of those that may be any the lowest stay.
	uint64_t kept = 0, want = f->want, spare = td_pool_aside_held(f->v, f->n) & ~want & f->all;
	bool any = false;
	for (size_t k = 0; k < f->any && spare; k++) {
		want |= spare & -spare;
		spare &= spare - 1;
	}
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].device < 0)
			continue;
		p->ends[i] = !(want & BIT(f->v[i].device) & ~kept);
		kept |= BIT(f->v[i].device);
		any |= p->ends[i];
	}
	return any;
}

// As many wait as there are devices, so that all are held when the node is resumed, before anybody else is given one;
// then those that have others end. Nothing starts there now, so nothing needs to be held; and a job that runs would
// keep the node from ever being drained.
static void on_drained(const struct td_pool_aside *f, struct td_pool_aside_plan *p)
{
	bool wanted = f->want & f->all || f->any, any = false;
	size_t waiting = 0;
	for (size_t i = 0; i < f->n; i++)
		waiting += f->v[i].device < 0;
	if (wanted && !f->full && waiting < count(f->all) && f->n < TD_ASIDE_MAX) {
		p->what = TD_ASIDE_QUEUE;
		return;
	}
	for (size_t i = 0; i < f->n; i++) {
		p->ends[i] = !wanted || f->v[i].device >= 0;
		any |= p->ends[i];
	}
	p->what = any ? TD_ASIDE_END : wanted ? TD_ASIDE_LOOK : TD_ASIDE_LEAVE;
}

void td_pool_aside_decide(const struct td_pool_aside *f, struct td_pool_aside_plan *ret)
{
	*ret = (struct td_pool_aside_plan){.what = TD_ASIDE_LEAVE};
	uint64_t held = td_pool_aside_held(f->v, f->n), missing = f->want & f->all & ~held;
	uint64_t left = 0;
	size_t lack = lacking(f);
	for (int i = 0; i < TD_ASIDE_MAX; i++)
		left |= f->by[i] ? 0 : BIT(i);

	if (f->away && (missing || lack || (f->drained && (f->want & f->all || f->any)))) {
		ret->what = TD_ASIDE_LOOK; // what is held stays held
		return;
	}
	if (f->drained) {
		on_drained(f, ret);
		return;
	}
	if (missing & left) {
		// Those that wait for nobody's end come before all others as soon as anything starts there.
		bool comes = coming(f);
		if (comes || (!f->refused && f->n < TD_ASIDE_MAX)) {
			ret->what = comes ? TD_ASIDE_LOOK : TD_ASIDE_ALLOCATE;
			return;
		}
	}
	// Where a job is ended early, nobody's end can be waited for: it may be queued again, which is no end. So one waits
	// that comes before everybody else, if other devices are not free, which it would get at once. So does one for each
	// device that may be any.
	uint64_t ending = f->ending & missing & ~left;
	size_t soon = (f->packed ? count(ending) : 0) + lack, first = coming(f);
	missing &= ~ending;
	if (lack > first && !f->refused && f->n < TD_ASIDE_MAX) {
		ret->what = TD_ASIDE_ALLOCATE;
		return;
	}
	// In the moment in which the job lets go, a device is free, and who waits for it must not be ended then.
	if (end_wrong(f, ret) | end_waiting(f, missing & ~left, missing & left, count(ending) + lack, ret)) {
		ret->what = TD_ASIDE_END;
		return;
	}
	if (first < soon && !f->full && f->n < TD_ASIDE_MAX) {
		ret->what = TD_ASIDE_QUEUE;
		return;
	}
	ret->may_end = ending;
	for (int i = 0; i < TD_ASIDE_MAX && f->n < TD_ASIDE_MAX; i++) {
		if (!(missing & ~left & BIT(i)) || f->by[i] <= 0)
			continue;
		size_t waiting = 0;
		for (size_t k = 0; k < f->n; k++)
			waiting += f->v[k].device < 0 && f->v[k].after == f->by[i];
		if (waiting >= held_by(f, missing & ~left, f->by[i]))
			continue;
		ret->what = TD_ASIDE_QUEUE;
		ret->after = f->by[i];
		return;
	}
	ret->what = missing | ending || lack ? TD_ASIDE_LOOK : TD_ASIDE_LEAVE;
}
