#include "pool/probe.h"

#include "base/mem.h"

#include <stdlib.h>

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
