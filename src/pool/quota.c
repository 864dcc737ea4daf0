#include "pool/quota.h"

#include <string.h>

enum { NAMED = 4 };

static int64_t held(const struct td_pool_quota *q)
{
	int64_t sum = 0;
	for (size_t i = 0; i < q->n_holders; i++)
		sum += q->holders[i].count;
	return sum;
}

bool td_pool_quota_full(const struct td_pool_quota *q)
{
	return held(q) + q->want > q->limit;
}

// Whoever has no time limit comes last.
static int sooner(const void *a, const void *b)
{
	const struct td_pool_holder *x = a, *y = b;
	int64_t m = x->end ? x->end : INT64_MAX, n = y->end ? y->end : INT64_MAX;
	return m < n ? -1 : m > n;
}

static void duration(struct td_buf *b, int64_t s)
{
	if (s < 120)
		td_buf_puts(b, "a moment");
	else if (s < 2 * 3600)
		td_buf_printf(b, "%lld minutes", (long long)s / 60);
	else if (s < 2 * 86400)
		td_buf_printf(b, "%lld hours", (long long)s / 3600);
	else
		td_buf_printf(b, "%lld days", (long long)s / 86400);
}

void td_pool_quota_words(const struct td_pool_quota *q, struct td_buf *b)
{
	td_auto_free struct td_pool_holder *v = td_calloc(q->n_holders + 1, sizeof(*v));
	for (size_t i = 0; i < q->n_holders; i++)
		v[i] = q->holders[i];
	qsort(v, q->n_holders, sizeof(*v), sooner);
	int64_t used = held(q), left = used, end = -1;
	td_buf_printf(b, "%s %s holds %lld of %lld %s", q->user ? "User" : "Tenant", q->user ? q->user : q->tenant,
		      (long long)used, (long long)q->limit, q->resource);
	if (q->user)
		td_buf_printf(b, " that a member of Tenant %s may hold", q->tenant);
	if (used > q->quota)
		td_buf_printf(b, " (%lld of them borrowed: its quota is %lld)", (long long)(used - q->quota),
			      (long long)q->quota);
	td_buf_printf(b, ", and this one wants %lld.", (long long)q->want);
	if (q->want > q->limit) {
		td_buf_printf(b, " It will never fit: ask for less, or raise the %s.", q->user ? "limit" : "quota");
		return;
	}

	for (size_t i = 0; i < q->n_holders; i++) {
		if (i < NAMED)
			td_buf_printf(b, "%s job %s (%lld)", i ? "," : " Held by", v[i].job, (long long)v[i].count);
		if (left + q->want > q->limit) {
			left -= v[i].count;
			end = v[i].end;
		}
	}
	if (q->n_holders > NAMED)
		td_buf_printf(b, " and %zu more", q->n_holders - NAMED);
	td_buf_puts(b, q->n_holders ? "." : "");
	if (end > 0) {
		td_buf_puts(b, " There is room in ");
		duration(b, end - q->now);
		td_buf_puts(b, " at the latest, when time limits end what is in the way.");
	} else if (end == 0) {
		td_buf_puts(b, " Nothing says when that ends: they have no time limit.");
	}
}
