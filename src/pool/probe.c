#include "pool/probe.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { HOUR_MS = 3600000, SOON_MS = 1000, LATER_MS = 30000, MANY_MS = 500 };

struct probe_due {
	size_t i;
	int64_t last_ms;
};

static int oldest_first(const void *a, const void *b)
{
	const struct probe_due *x = a, *y = b;
	if (x->last_ms != y->last_ms)
		return x->last_ms < y->last_ms ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

size_t td_pool_probe_next(const struct td_pool_probe_rule *r, const struct td_pool_probe_node *v, size_t n,
			  int64_t now_ms, size_t *ret, int64_t *again_ms)
{
	td_auto_free struct probe_due *due = td_calloc(n + 1, sizeof(*due));
	size_t n_due = 0, running = 0, most = n * r->percent / 100, begun = 0;
	int64_t spent = 0, next = LATER_MS;
	for (size_t i = 0; i < n; i++) {
		if (v[i].running) {
			running++;
			spent += r->each_ms;
			continue;
		}
		if (v[i].took_ms && now_ms - v[i].last_ms < HOUR_MS)
			spent += v[i].took_ms;
		if (!v[i].able)
			continue;
		int64_t wait = v[i].last_ms + r->every_ms - now_ms;
		if (wait <= 0)
			due[n_due++] = (struct probe_due){i, v[i].last_ms};
		else if (wait < next)
			next = wait;
	}
	if (n_due)
		qsort(due, n_due, sizeof(*due), oldest_first);
	for (size_t k = 0; k < n_due && running + begun < (most ? most : 1) && spent + r->each_ms <= r->budget_ms;
	     k++) {
		ret[begun++] = due[k].i;
		spent += r->each_ms;
	}
	// Each look goes through all nodes. Who waits for the budget of the hour alone needs none soon, and many nodes fewer.
	const int64_t soon = SOON_MS + (int64_t)(n / 1000) * MANY_MS;
	*again_ms = running || begun ? soon : n_due ? LATER_MS : next < soon ? soon : next;
	return begun;
}

struct group_due {
	size_t i;
	int64_t last_ms;
	const char *place;
};

static int by_place(const void *a, const void *b)
{
	const struct group_due *x = a, *y = b;
	int d = strcmp(x->place, y->place);
	if (d)
		return d;
	if (x->last_ms != y->last_ms)
		return x->last_ms < y->last_ms ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

size_t td_pool_probe_group(const struct td_pool_group_rule *r, const struct td_pool_group_node *v, size_t n,
			   int64_t now_ms, size_t *ret, int64_t *again_ms)
{
	td_auto_free struct group_due *l = td_calloc(n + 1, sizeof(*l));
	size_t n_l = 0, best = 0, best_n = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].able && v[i].place)
			l[n_l++] = (struct group_due){i, v[i].last_ms, v[i].place};
	if (n_l)
		qsort(l, n_l, sizeof(*l), by_place);
	for (size_t at = 0, end; at < n_l; at = end) {
		for (end = at + 1; end < n_l && !strcmp(l[end].place, l[at].place); end++)
			;
		if (end - at >= 2 && (!best_n || l[at].last_ms < l[best].last_ms)) {
			best = at;
			best_n = end - at;
		}
	}
	int64_t wait = best_n ? l[best].last_ms + r->every_ms - now_ms : LATER_MS;
	if (best_n && wait > 0 && wait < *again_ms)
		*again_ms = wait < SOON_MS ? SOON_MS : wait;
	if (!best_n || wait > 0 || r->most < 2)
		return 0;
	size_t k = 0;
	for (; k < best_n && k < r->most; k++)
		ret[k] = l[best + k].i;
	return k;
}
