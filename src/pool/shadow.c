#include "pool/shadow.h"

enum { PIECES = 4 }; // so many jobs become one when there is room for it

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool same(struct td_pool_size a, struct td_pool_size b)
{
	return a.cpus == b.cpus && a.memory_mb == b.memory_mb;
}

static bool within(struct td_pool_size a, struct td_pool_size room)
{
	return a.cpus <= room.cpus && a.memory_mb <= room.memory_mb;
}

static struct td_pool_size less(struct td_pool_size a, struct td_pool_size b)
{
	return (struct td_pool_size){a.cpus - b.cpus, a.memory_mb - b.memory_mb};
}

// A job has one CPU and 1 MB at least.
static struct td_pool_size a_job(struct td_pool_size s)
{
	return (struct td_pool_size){most(s.cpus, 1), most(s.memory_mb, 1)};
}

struct td_pool_size td_pool_shadow_want(const struct td_pool_reserve *r)
{
	const int64_t mib = INT64_C(1) << 20, reserve_milli = r->cpu_milli - r->share_cpus * 1000,
		      reserve_memory = r->memory - r->share_memory_mb * mib,
		      milli = r->others_milli - most(reserve_milli, 0),
		      memory = r->others_memory - most(reserve_memory, 0);
	if (milli <= 0 && memory <= 0)
		return (struct td_pool_size){0};
	const struct td_pool_size over = a_job((struct td_pool_size){
		milli > 0 ? milli / 1000 + (milli % 1000 > 0) : 0, memory > 0 ? memory / mib + (memory % mib > 0) : 0});
	return (struct td_pool_size){least(over.cpus, r->share_cpus), least(over.memory_mb, r->share_memory_mb)};
}

struct td_pool_size td_pool_shadow_held(const struct td_pool_shadow_job *v, size_t n)
{
	struct td_pool_size sum = {0};
	for (size_t i = 0; i < n; i++) {
		sum.cpus += v[i].runs ? v[i].has.cpus : 0;
		sum.memory_mb += v[i].runs ? v[i].has.memory_mb : 0;
	}
	return sum;
}

struct td_pool_size td_pool_shadow_missing(struct td_pool_size want, struct td_pool_size held)
{
	return (struct td_pool_size){most(want.cpus - held.cpus, 0), most(want.memory_mb - held.memory_mb, 0)};
}

// Ends all that run, or all that wait, but `keep`. False: there are none.
static bool end(const struct td_pool_shadow *f, bool running, const struct td_pool_shadow_job *keep,
		struct td_pool_shadow_plan *p)
{
	bool any = false;
	for (size_t i = 0; i < f->n && i < TD_SHADOWS_MAX; i++)
		if (f->v[i].runs == running && &f->v[i] != keep)
			any = p->ends[i] = true;
	p->what = any ? TD_SHADOW_END : p->what;
	return any;
}

// One of that size; of several that wait the one ahead.
static const struct td_pool_shadow_job *find(const struct td_pool_shadow *f, bool runs, struct td_pool_size has)
{
	const struct td_pool_shadow_job *x = NULL;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].runs == runs && same(f->v[i].has, has) && (!x || f->v[i].ahead))
			x = &f->v[i];
	return x;
}

static void make(struct td_pool_shadow_plan *p, enum td_pool_shadow_do what, struct td_pool_size size)
{
	p->what = what;
	p->size = size;
}

// Those that run end. `next` stands before everybody else, so it has the room that they leave, when no other
// waits beside it.
static void replace(const struct td_pool_shadow *f, const struct td_pool_shadow_job *next,
		    struct td_pool_shadow_plan *p)
{
	if (!end(f, false, next, p))
		end(f, true, NULL, p);
}

// More is held than pods hold.
static void shrink(const struct td_pool_shadow *f, struct td_pool_size held, struct td_pool_shadow_plan *p)
{
	for (size_t i = 0; i < f->n; i++) // one that the others make superfluous
		if (f->v[i].runs && within(f->want, less(held, f->v[i].has))) {
			p->ends[i] = true;
			p->what = TD_SHADOW_END;
			return;
		}

	const struct td_pool_shadow_job *next = find(f, false, f->want);
	const struct td_pool_size over = less(held, f->want);
	if (!f->refused && within(f->want, f->free) && f->n < TD_SHADOWS_MAX)
		make(p, TD_SHADOW_ALLOCATE, f->want);
	else if (next && next->ahead)
		replace(f, next, p);
	else if ((over.cpus > 1 || over.memory_mb > 1) && f->n < TD_SHADOWS_MAX) {
		make(p, TD_SHADOW_QUEUE, f->want);
		p->ahead = true;
	} else
		end(f, false, NULL, p);
}

// Less is held than pods hold.
static void grow(const struct td_pool_shadow *f, struct td_pool_size held, size_t running,
		 struct td_pool_shadow_plan *p)
{
	const struct td_pool_size missing = a_job(td_pool_shadow_missing(f->want, held)),
				  some = {least(missing.cpus, f->free.cpus),
					  least(missing.memory_mb, f->free.memory_mb)};
	const struct td_pool_shadow_job *waits = find(f, false, missing);
	const struct td_pool_shadow_job *next = find(f, false, f->want);
	if (next && next->ahead && !running) { // it gets what the old ones had
		end(f, false, next, p);
		return;
	}
	// All CPUs, or all memory, are held in pieces: no further job can have the rest, and nobody else is there.
	bool alone = running && (held.cpus >= f->all.cpus || held.memory_mb >= f->all.memory_mb);
	bool may = !f->refused && f->n < TD_SHADOWS_MAX;

	if (may && running >= PIECES && within(f->want, f->free))
		make(p, TD_SHADOW_ALLOCATE, f->want);
	else if (may && some.cpus > 0 && some.memory_mb > 0)
		make(p, TD_SHADOW_ALLOCATE, some);
	else if (alone && next && next->ahead)
		replace(f, next, p);
	else if (alone && f->n < TD_SHADOWS_MAX) {
		make(p, TD_SHADOW_QUEUE, f->want);
		p->ahead = true;
	} else if (waits)
		end(f, false, waits, p);
	else if (f->n < TD_SHADOWS_MAX)
		make(p, TD_SHADOW_QUEUE, missing);
	else
		end(f, false, NULL, p);
}

void td_pool_shadow_decide(const struct td_pool_shadow *f, struct td_pool_shadow_plan *ret)
{
	*ret = (struct td_pool_shadow_plan){.what = TD_SHADOW_LEAVE};
	const struct td_pool_size held = td_pool_shadow_held(f->v, f->n), none = {0};
	const struct td_pool_shadow_job *whole = find(f, true, f->want);
	size_t running = 0;
	for (size_t i = 0; i < f->n; i++)
		running += f->v[i].runs;

	if (f->closed || same(f->want, none)) {
		end(f, true, NULL, ret);
		end(f, false, NULL, ret);
	} else if (f->away) {
		return;
	} else if (whole && f->n > 1) {
		end(f, true, whole, ret);
		end(f, false, NULL, ret);
	} else if (same(held, f->want)) {
		end(f, false, NULL, ret);
	} else if (within(f->want, held)) {
		shrink(f, held, ret);
	} else {
		grow(f, held, running, ret);
	}
}

const char *td_pool_shadow_do_name(enum td_pool_shadow_do what)
{
	static const char *const names[] = {"leave", "allocate", "queue", "end"};
	return names[what];
}
