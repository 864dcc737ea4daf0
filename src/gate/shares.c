// Shares of a device in a gate's table (shares.h).
#include "gate/shares.h"

#include "base/names.h"

#include <string.h>

enum { WHOLE = TD_GPU_UNITS };
// Whom Slurm lets in, the table has a place for: a Prolog that waits for one fails in the end, and drains its node.
_Static_assert(TD_GPU_UNITS / TD_GPU_LEAST <= TD_GATE_WITH + 1, "a place for each part");

bool td_shares_on(const struct td_gate_dev *d)
{
	return d->held && d->now.share;
}

static bool counts(const struct td_holder *at, const struct td_holder *h)
{
	return !at->idle && !td_holder_same(at, h);
}

int td_shares_sum(const struct td_gate_dev *d, const struct td_holder *h)
{
	int sum = td_shares_on(d) && counts(&d->now, h) ? d->now.share : 0;
	for (int i = 0; i < d->n_with; i++)
		sum += counts(&d->with[i], h) ? d->with[i].share : 0;
	return sum;
}

struct td_holder *td_shares_find(struct td_gate_dev *d, const struct td_holder *h)
{
	if (!td_shares_on(d))
		return NULL;
	if (td_holder_same(&d->now, h))
		return &d->now;
	for (int i = 0; i < d->n_with; i++)
		if (td_holder_same(&d->with[i], h))
			return &d->with[i];
	return NULL;
}

// The place of an idle holder, which gives way to another; -1: all count.
static int idle_at(const struct td_gate_dev *d)
{
	for (int i = 0; i < d->n_with; i++)
		if (d->with[i].idle)
			return i;
	return -1;
}

// What h has with its entry, which may be NULL, once it is let in: a holder that tells less than before, as a grant that
// was read again may, has what it was let in with.
static int share_with(const struct td_holder *at, const struct td_holder *h)
{
	return at && at->share > h->share ? at->share : h->share;
}

bool td_shares_join(const struct td_gate_dev *d, const struct td_holder *h)
{
	const struct td_holder *at = td_shares_find((struct td_gate_dev *)d, h);
	bool place = d->n_with < TD_GATE_WITH || idle_at(d) >= 0 || d->now.idle || at;
	return td_shares_on(d) && place && td_shares_sum(d, h) + share_with(at, h) <= WHOLE;
}

static void add(const struct td_holder *at, const struct td_holder *h, struct td_holder *out, int max, int *n)
{
	for (int i = 0; i < *n; i++)
		if (td_holder_same(&out[i], at))
			return;
	if (*n == max || !counts(at, h))
		return;
	int i = (*n)++;
	for (; i > 0 && out[i - 1].start > at->start; i--)
		out[i] = out[i - 1];
	out[i] = *at;
}

int td_shares_in_the_way(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h, struct td_holder *out,
			 int max)
{
	int n = 0;
	for (int i = 0; i < t->n; i++) {
		const struct td_gate_dev *d = &t->dev[i];
		if (!(mask >> i & 1) || !td_shares_on(d) || td_shares_join(d, h))
			continue;
		add(&d->now, h, out, max, &n);
		for (int k = 0; k < d->n_with; k++)
			add(&d->with[k], h, out, max, &n);
	}
	return n;
}

void td_shares_idle(struct td_gate_table *t, uint64_t mask, const struct td_holder *h)
{
	for (int i = 0; i < t->n; i++) {
		struct td_holder *at = mask >> i & 1 ? td_shares_find(&t->dev[i], h) : NULL;
		if (at)
			at->idle = true;
	}
}

bool td_shares_take(struct td_gate_dev *d, const struct td_holder *h)
{
	struct td_holder *at = td_shares_find(d, h);
	if (at) {
		int share = share_with(at, h);
		bool named = *h->sluid && strcmp(at->sluid, h->sluid) != 0,
		     changed = at->idle || at->share != share || named;
		at->idle = false;
		at->share = share;
		if (named) // by an older agent's table, or its pod was told of first
			memcpy(at->sluid, h->sluid, sizeof(h->sluid));
		return changed;
	}
	int i = idle_at(d);
	if (d->n_with < TD_GATE_WITH)
		d->with[d->n_with++] = *h;
	else if (i >= 0)
		d->with[i] = *h;
	else
		d->now = *h;
	return true;
}
