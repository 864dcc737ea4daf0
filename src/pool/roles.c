// How the roles of a gang become tasks of one shape. t/scenarios/roles.txt shows the cases.
#include "pool/roles.h"

#include "pool/gang.h"

#include <string.h>

static bool holds(const struct td_pool_want *w)
{
	for (int k = 0; k < TD_POOL_KINDS; k++)
		if (w->gres[k] > 0)
			return true;
	return false;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t plus(int64_t a, int64_t b)
{
	int64_t all;
	return __builtin_add_overflow(a, b, &all) ? INT64_MAX : all;
}

// One way: the roles in `carry` (a bit each) have a task for each member, and the others ride.
static bool bundle(const struct td_pool_role *v, size_t n, unsigned carry, struct td_pool_bundle *ret)
{
	*ret = (struct td_pool_bundle){0};
	const struct td_pool_want *first = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!(carry >> i & 1))
			continue;
		if (first && memcmp(first->gres, v[i].want.gres, sizeof(first->gres)) != 0)
			return false;
		first = first ? first : &v[i].want;
		ret->tasks += v[i].members;
		ret->each.cpus = most(ret->each.cpus, v[i].want.cpus);
		ret->each.memory_mb = most(ret->each.memory_mb, v[i].want.memory_mb);
		ret->each.exclusive = v[i].want.exclusive;
	}
	if (!ret->tasks)
		return false;
	memcpy(ret->each.gres, first->gres, sizeof(first->gres));
	for (size_t i = 0; i < n; i++) {
		if (carry >> i & 1)
			continue;
		ret->riders[i] = (v[i].members + ret->tasks - 1) / ret->tasks;
		ret->each.cpus = plus(ret->each.cpus, td_pool_times(ret->riders[i], v[i].want.cpus));
		ret->each.memory_mb = plus(ret->each.memory_mb, td_pool_times(ret->riders[i], v[i].want.memory_mb));
	}
	return true;
}

// Is x better than y? It costs less: all that it takes, and what it needs on one node, for a large task waits longer. CPUs
// count first, then memory. Of equals the one with more, and so smaller, tasks.
static bool better(const struct td_pool_bundle *x, const struct td_pool_bundle *y)
{
	int64_t a = td_pool_times(x->tasks + 1, x->each.cpus), b = td_pool_times(y->tasks + 1, y->each.cpus);
	if (a != b)
		return a < b;
	a = td_pool_times(x->tasks + 1, x->each.memory_mb);
	b = td_pool_times(y->tasks + 1, y->each.memory_mb);
	return a != b ? a < b : x->tasks > y->tasks;
}

size_t td_pool_roles_bundle(const struct td_pool_role *v, size_t n, struct td_pool_bundle ret[TD_POOL_ROLES + 1])
{
	unsigned devices = 0, all = (1U << n) - 1;
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		devices |= (unsigned)holds(&v[i].want) << i;
	if (devices)
		return bundle(v, n, devices, &ret[0]);

	for (size_t i = 0; i <= n; i++) {
		struct td_pool_bundle x;
		if (!bundle(v, n, i < n ? 1U << i : all, &x))
			continue;
		size_t at = found++;
		for (; at > 0 && better(&x, &ret[at - 1]); at--)
			ret[at] = ret[at - 1];
		ret[at] = x;
	}
	return found;
}

// The first task of the members of a role that carries.
static int64_t first_task(const struct td_pool_role *v, const struct td_pool_bundle *b, size_t role)
{
	int64_t at = 0;
	for (size_t i = 0; i < role; i++)
		at += b->riders[i] ? 0 : v[i].members;
	return at;
}

struct td_pool_ride td_pool_roles_ride(const struct td_pool_role *v, size_t n, const struct td_pool_bundle *b,
				       size_t role, int64_t index)
{
	int64_t ride = b->riders[role];
	struct td_pool_ride r = {.task = ride ? index / ride : first_task(v, b, role) + index,
				 .mine = v[role].want.cpus};
	for (size_t i = 0; i < n; i++) {
		// So many members of role i are in this task.
		int64_t first = b->riders[i] ? r.task * b->riders[i] : 0, here = b->riders[i];
		if (!here)
			here = r.task >= first_task(v, b, i) && r.task < first_task(v, b, i) + v[i].members;
		else if (first + here > v[i].members)
			here = most(v[i].members - first, 0);
		r.all += here * v[i].want.cpus;
		if (i < role)
			r.before += here * v[i].want.cpus;
		else if (i == role && ride)
			r.before += index % ride * v[i].want.cpus;
	}
	return r;
}

void td_pool_roles_cores(const struct td_pool_ride *r, int64_t *io_from, int64_t *io_to)
{
	int64_t from = *io_from, to = *io_to, all = r->all > 0 ? r->all : 1;
	if (to <= from)
		return;
	*io_from = from + (to - from) * r->before / all;
	*io_to = from + (to - from) * (r->before + r->mine) / all;
	if (*io_to > *io_from)
		return;
	*io_from = *io_from < to ? *io_from : to - 1;
	*io_to = *io_from + 1;
}
