#include "pool/test/choose.h"

#include <limits.h>
#include <string.h>

int td_pool_tree_far(const struct td_pool_tree *t, int a, int b)
{
	const struct td_pool_tree_gpu *x = &t->gpu[a], *y = &t->gpu[b];
	if ((x->linked >> b & 1) && (y->linked >> a & 1))
		return 0;
	if (x->numa != y->numa)
		return 3;
	return x->pci >= 0 && x->pci == y->pci ? 1 : 2;
}

bool td_pool_tree_read(const char *numa, int gpus, int each, struct td_pool_tree *ret)
{
	size_t len = strlen(numa);
	if (gpus < 0 || gpus > TD_POOL_TREE_GPUS || each < 0 || (len && len != (size_t)gpus))
		return false;
	struct td_pool_tree t = {.gpus = gpus, .numas = 1, .free = gpus == 64 ? UINT64_MAX : (1ULL << gpus) - 1};
	for (int i = 0; i < gpus; i++) {
		int at = len ? numa[i] - '0' : 0;
		if (at < 0 || at > 9)
			return false;
		t.gpu[i] = (struct td_pool_tree_gpu){.numa = at, .pci = -1, .nic = 2};
		t.numas = at >= t.numas ? at + 1 : t.numas;
	}
	for (int k = 0; k < t.numas; k++)
		t.cores[k] = each;
	*ret = t;
	return true;
}

static int free_cores(const struct td_pool_tree *t)
{
	int sum = 0;
	for (int k = 0; k < t->numas; k++)
		sum += t->cores[k];
	return sum;
}

// The NUMA nodes of these GPUs, a bit each.
static uint32_t numas_of(const struct td_pool_tree *t, uint64_t gpus)
{
	uint32_t at = 0;
	for (int i = 0; i < t->gpus; i++)
		at |= gpus >> i & 1 ? 1U << t->gpu[i].numa : 0;
	return at;
}

// Gives `n` cores: one NUMA node of `at` after the other, as evenly as its GPUs would have it, then from elsewhere.
static int give_cores(const struct td_pool_tree *t, uint32_t at, int n, int ret[TD_POOL_TREE_NUMAS])
{
	int left = n;
	memset(ret, 0, sizeof(int) * TD_POOL_TREE_NUMAS);
	for (bool more = true; left > 0 && more;) { // a core of each in turn
		more = false;
		for (int k = 0; k < t->numas && left > 0; k++)
			if ((at >> k & 1) && ret[k] < t->cores[k]) {
				ret[k]++;
				left--;
				more = true;
			}
	}
	int far = left;
	for (int k = 0; k < t->numas && left > 0; k++) {
		int room = t->cores[k] - ret[k], take = room < left ? room : left;
		ret[k] += take;
		left -= take;
	}
	return far;
}

struct td_pool_cost td_pool_cost_of(const struct td_pool_tree *t, uint64_t gpus, int cores)
{
	struct td_pool_cost c = {0};
	int at[TD_POOL_TREE_NUMAS] = {0}, near = 0;
	for (int i = 0; i < t->gpus; i++) {
		if (!(gpus >> i & 1))
			continue;
		c.numas += at[t->gpu[i].numa]++ == 0;
		c.nics += t->gpu[i].nic;
		for (int j = 0; j < t->gpus; j++)
			if (gpus >> j & 1)
				c.links += j > i ? td_pool_tree_far(t, i, j) : 0;
			else if (t->free >> j & 1)
				c.breaks += 3 - td_pool_tree_far(t, i, j);
	}
	for (int k = 0; k < t->numas; k++) {
		c.widest = at[k] > c.widest ? at[k] : c.widest;
		near += at[k] ? t->cores[k] : 0;
	}
	c.far = cores > near ? cores - near : 0;
	return c;
}

enum { FIGURES = 6 };

static void in_order(const struct td_pool_cost *c, enum td_pool_choose_policy policy, int ret[FIGURES])
{
	const int prefer[FIGURES] = {c->links, c->numas, c->far, c->nics, c->breaks, 0},
		  pack[FIGURES] = {c->numas, c->breaks, c->links, c->far, c->nics, 0},
		  spread[FIGURES] = {-c->numas, c->widest, c->far, c->links, c->nics, c->breaks};
	memcpy(ret, policy == TD_CHOOSE_PACK ? pack : policy == TD_CHOOSE_SPREAD ? spread : prefer, sizeof(prefer));
}

int td_pool_cost_cmp(const struct td_pool_cost *a, const struct td_pool_cost *b, enum td_pool_choose_policy policy)
{
	int x[FIGURES], y[FIGURES];
	in_order(a, policy, x);
	in_order(b, policy, y);
	for (int i = 0; i < FIGURES; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

// GPUs that no measure tells apart: any of them is as good as any other, whatever else is chosen.
struct kin {
	int n, gpu[TD_POOL_TREE_GPUS];
};
struct weighing {
	const struct td_pool_tree *t;
	enum td_pool_choose_policy policy;
	int want, cores, n_kin;
	struct kin kin[TD_POOL_TREE_GPUS];
	bool found;
	uint64_t best;
	struct td_pool_cost cost;
};

static bool alike(const struct td_pool_tree *t, int a, int b)
{
	if (t->gpu[a].numa != t->gpu[b].numa || t->gpu[a].nic != t->gpu[b].nic)
		return false;
	for (int i = 0; i < t->gpus; i++)
		if (i != a && i != b && (t->free >> i & 1) && td_pool_tree_far(t, a, i) != td_pool_tree_far(t, b, i))
			return false;
	return true;
}

static void sort_out(struct weighing *s)
{
	for (int i = 0; i < s->t->gpus; i++) {
		int k = 0;
		if (!(s->t->free >> i & 1))
			continue;
		// Alike to all of them: pairs within would else differ.
		for (; k < s->n_kin; k++) {
			bool all = true;
			for (int j = 0; j < s->kin[k].n && all; j++)
				all = alike(s->t, s->kin[k].gpu[j], i);
			if (all)
				break;
		}
		s->kin[k].gpu[s->kin[k].n++] = i;
		s->n_kin = k == s->n_kin ? k + 1 : s->n_kin;
	}
}

// Of two sets of one size the one with the lowest index that the other lacks.
static bool lower(uint64_t a, uint64_t b)
{
	uint64_t differ = a ^ b;
	return differ && (a & (differ & -differ));
}

static bool allowed(const struct weighing *s, uint64_t gpus)
{
	uint32_t at = numas_of(s->t, gpus);
	if (s->policy != TD_CHOOSE_SINGLE)
		return true;
	for (int k = 0; k < s->t->numas; k++)
		if (at == 1U << k)
			return s->t->cores[k] >= s->cores;
	return false;
}

static void weigh(struct weighing *s, uint64_t gpus)
{
	if (!allowed(s, gpus))
		return;
	struct td_pool_cost c = td_pool_cost_of(s->t, gpus, s->cores);
	int than = s->found ? td_pool_cost_cmp(&c, &s->cost, s->policy) : -1;
	if (than > 0 || (than == 0 && !lower(gpus, s->best)))
		return;
	s->found = true;
	s->best = gpus;
	s->cost = c;
}

// Further GPUs never bring the sum over all pairs, or the number of NUMA nodes, down again.
static bool hopeless(const struct weighing *s, uint64_t gpus, int links)
{
	bool by_links = s->policy == TD_CHOOSE_PREFER || s->policy == TD_CHOOSE_SINGLE;
	uint32_t at = numas_of(s->t, gpus);
	if (s->policy == TD_CHOOSE_SINGLE && (at & (at - 1)))
		return true;
	return s->found && ((by_links && links > s->cost.links) ||
			    (s->policy == TD_CHOOSE_PACK && __builtin_popcount(at) > s->cost.numas));
}

static void descend(struct weighing *s, int k, int left, int links, uint64_t gpus)
{
	if (!left) {
		weigh(s, gpus);
		return;
	}
	int rest = 0;
	for (int i = k; i < s->n_kin; i++)
		rest += s->kin[i].n;
	if (rest < left || hopeless(s, gpus, links))
		return;

	// The most of this kind first: a good choice is found early, and shows many others hopeless.
	const struct kin *f = &s->kin[k];
	int most = f->n < left ? f->n : left;
	for (int take = most; take >= 0; take--) {
		uint64_t more = gpus;
		int sum = links;
		for (int i = 0; i < take; i++) {
			for (int j = 0; j < s->t->gpus; j++)
				sum += more >> j & 1 ? td_pool_tree_far(s->t, f->gpu[i], j) : 0;
			more |= 1ULL << f->gpu[i];
		}
		descend(s, k + 1, left - take, sum, more);
	}
}

// Without GPUs: the fewest NUMA nodes, and of these the ones that have the fewest free GPUs.
static bool cores_only(const struct weighing *s, struct td_pool_choice *ret)
{
	const struct td_pool_tree *t = s->t;
	long best = LONG_MAX;
	for (uint32_t at = 1; at < 1U << t->numas; at++) {
		int have = 0, n = __builtin_popcount(at), near = 0;
		for (int k = 0; k < t->numas; k++)
			have += at >> k & 1 ? t->cores[k] : 0;
		for (int i = 0; i < t->gpus; i++)
			near += (t->free >> i & 1) && (at >> t->gpu[i].numa & 1);
		if (have < s->cores || n > (s->cores > 1 ? s->cores : 1) || (s->policy == TD_CHOOSE_SINGLE && n > 1))
			continue;
		long cost = ((long)(s->policy == TD_CHOOSE_SPREAD ? TD_POOL_TREE_NUMAS - n : n) << 40) +
			    ((long)near << 32) + have;
		if (cost >= best)
			continue;
		best = cost;
		*ret = (struct td_pool_choice){.cost.numas = n};
		give_cores(t, at, s->cores, ret->cores);
	}
	return best != LONG_MAX;
}

bool td_pool_choose(const struct td_pool_tree *t, int n, int cores, enum td_pool_choose_policy policy,
		    struct td_pool_choice *ret)
{
	struct weighing s = {.t = t, .policy = policy, .want = n, .cores = cores};
	if (n < 0 || cores < 0 || n > t->gpus || cores > free_cores(t))
		return false;
	if (!n)
		return cores_only(&s, ret);
	sort_out(&s);
	descend(&s, 0, n, 0, 0);
	if (!s.found)
		return false;
	*ret = (struct td_pool_choice){.gpus = s.best, .cost = s.cost};
	give_cores(t, numas_of(t, s.best), cores, ret->cores);
	return true;
}

int td_pool_choose_system(const struct td_pool_tree *t, int cores)
{
	int best = -1, least = INT_MAX;
	for (int k = 0; k < t->numas; k++) {
		int n = 0;
		for (int i = 0; i < t->gpus; i++)
			n += t->gpu[i].numa == k;
		if (t->cores[k] >= cores && n < least) {
			least = n;
			best = k;
		}
	}
	return best;
}
