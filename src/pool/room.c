// The fast path: whether there is room now and nobody waits before us.
#include "pool/gang.h"
#include "pool/steps.h"

// An older view of Slurm's nodes says too little about them now.
enum { FRESH_MS = 2000, BLOCK_MS = 2000, VAIN_MS = 10000 };

enum td_pool_fast_do td_pool_fast(const struct td_pool_fast *f)
{
	if (!f->allowed || f->view_age_ms < 0 || f->view_age_ms > FRESH_MS || f->refused_here ||
	    f->pending > TD_POOL_WAITERS)
		return TD_FAST_NO;
	bool blocked = td_pool_block_holds(f), raises = f->raises && (!f->vain_ms || f->now_ms - f->vain_ms > VAIN_MS);
	// Slurm refuses for jobs of ours as well.
	if (raises && (blocked || f->pending))
		return TD_FAST_RAISE;
	return blocked ? TD_FAST_NO : TD_FAST_TRY;
}

bool td_pool_block_holds(const struct td_pool_fast *f)
{
	const struct td_pool_block *b = &f->block;
	return b->blocked && f->now_ms - b->at_ms < BLOCK_MS && b->ours == f->ours && b->waiting == f->waiting &&
	       b->print == f->print;
}

bool td_pool_given_seen(int64_t given_ms, bool answered, int64_t view_asked_ms)
{
	return answered && given_ms < view_asked_ms;
}

void td_pool_room_take(struct td_pool_node *v, size_t n, struct td_pool_want *held, const struct td_pool_given *given,
		       size_t n_given)
{
	for (size_t i = 0; i < n_given; i++) {
		int at = given[i].node;
		// Slurm has not said which node: assume the first one where it fits.
		if (at < 0 && (at = td_pool_fits_now(v, n, &given[i].want)) >= 0) {
			held[at].cpus += given[i].want.cpus;
			held[at].memory_mb += given[i].want.memory_mb;
		}
		if (at < 0)
			continue;

		v[at].used_cpus += given[i].want.cpus;
		v[at].used_memory_mb += given[i].want.memory_mb;
		for (int k = 0; k < TD_POOL_KINDS; k++)
			v[at].used_gres[k] += given[i].want.gres[k];
	}

	for (size_t i = 0; i < n; i++) {
		v[i].used_cpus = held[i].cpus > v[i].used_cpus ? held[i].cpus : v[i].used_cpus;
		v[i].used_memory_mb = held[i].memory_mb > v[i].used_memory_mb ? held[i].memory_mb : v[i].used_memory_mb;
	}
}

// How much is missing for `want` where `free` is free.
static int64_t lack(int64_t want, int64_t free)
{
	return want > free ? want - (free > 0 ? free : 0) : 0;
}

static bool deepens(int64_t all, int64_t used, int64_t want, int64_t take)
{
	return want > 0 && take > 0 && lack(want, all - used - take) > lack(want, all - used);
}

static bool takes_from(const struct td_pool_node *x, const struct td_pool_want *take, const struct td_pool_want *want)
{
	bool yes = want->exclusive || deepens(x->cpus, x->used_cpus, want->cpus, take->cpus) ||
		   deepens(x->memory_mb, x->used_memory_mb, want->memory_mb, take->memory_mb) ||
		   (take->exclusive && want->cpus > 0);
	for (int k = 0; k < TD_POOL_KINDS && !yes; k++)
		yes = deepens(x->gres[k], x->used_gres[k], want->gres[k], take->gres[k]);
	return yes;
}

bool td_pool_room_yield(struct td_pool_node *v, size_t n, const struct td_pool_want *take,
			const struct td_pool_waiter *waiters, size_t n_waiters)
{
	for (size_t k = 0; k < n_waiters; k++) {
		const struct td_pool_waiter *w = &waiters[k];
		if (w->aside)
			continue;
		if (!w->known)
			return false;
		size_t fits = 0;
		int64_t seats = 0;
		for (size_t i = 0; i < n; i++) {
			struct td_pool_node x = v[i];
			x.feasible = w->feasible[i];
			fits += td_pool_fits_now(&x, 1, &w->least) == 0;
			if (w->members > 1)
				seats += x.usable ? td_pool_gang_slots(&x, &w->least) : 0;
			if (w->members > 1 ? seats >= w->members : fits >= (w->nodes ? w->nodes : 1))
				return false;
			if (x.feasible && takes_from(&x, take, &w->want))
				v[i].feasible = false;
		}
	}
	return true;
}
