// rows: D1.1 D1.2
// The best GPUs and cores of a node, against trying every subset: on trees of 1, 2, 4 and 8 NUMA nodes, with islands
// of NVLink, PCIe switches and NICs, at random occupancy.
#include "pool/test/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 88172645463325252ULL;

static int any(int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int)((seed >> 33) % (uint64_t)n);
}

// Links the GPUs of one island to each other.
static void link_up(struct td_pool_tree *t, const int *island)
{
	for (int i = 0; i < t->gpus; i++)
		for (int j = 0; j < t->gpus; j++)
			if (i != j && island[i] == island[j] && island[i] >= 0)
				t->gpu[i].linked |= 1ULL << j;
}

enum shape { PLAIN, PAIRS, INTERLEAVED, FOURS, ALL, CHAIN, RANDOM, SHAPES };

static struct td_pool_tree tree(int numas, int gpus, enum shape shape)
{
	struct td_pool_tree t = {.gpus = gpus, .numas = numas, .free = (1ULL << gpus) - 1};
	int island[TD_POOL_TREE_GPUS];
	for (int i = 0; i < gpus; i++) {
		int at = shape == RANDOM ? any(numas) : i * numas / gpus;
		t.gpu[i] =
			(struct td_pool_tree_gpu){.numa = at, .pci = shape == RANDOM ? any(4) : i / 2, .nic = any(3)};
		island[i] = shape == PAIRS         ? i / 2
			    : shape == INTERLEAVED ? i / 4 * 2 + i % 2
			    : shape == FOURS       ? i / 4
			    : shape == ALL         ? 0
			    : shape == RANDOM      ? any(5) - 1
						   : -1;
		if (shape == CHAIN && i + 1 < gpus)
			t.gpu[i].linked |= 2ULL << i;
		if (shape == CHAIN && i)
			t.gpu[i].linked |= 1ULL << (i - 1);
	}
	link_up(&t, island);
	for (int k = 0; k < numas; k++)
		t.cores[k] = any(9);
	return t;
}

static bool one_numa(const struct td_pool_tree *t, uint64_t gpus, int cores)
{
	int at = t->gpu[__builtin_ctzll(gpus)].numa;
	for (int i = 0; i < t->gpus; i++)
		if ((gpus >> i & 1) && t->gpu[i].numa != at)
			return false;
	return t->cores[at] >= cores;
}

// Every subset, from the lowest indexes up.
static bool brute(const struct td_pool_tree *t, int n, int cores, enum td_pool_choose_policy policy, uint64_t *ret_gpus,
		  struct td_pool_cost *ret)
{
	bool found = false;
	for (uint64_t set = 1; set < 1ULL << t->gpus; set++) {
		if (__builtin_popcountll(set) != n || (set & ~t->free) ||
		    (policy == TD_CHOOSE_SINGLE && !one_numa(t, set, cores)))
			continue;
		struct td_pool_cost c = td_pool_cost_of(t, set, cores);
		int than = found ? td_pool_cost_cmp(&c, ret, policy) : -1;
		uint64_t differ = found ? set ^ *ret_gpus : 0;
		if (than < 0 || (than == 0 && (set & (differ & -differ)))) {
			*ret = c;
			*ret_gpus = set;
			found = true;
		}
	}
	return found;
}

static int sum_of(const int *v)
{
	int sum = 0;
	for (int k = 0; k < TD_POOL_TREE_NUMAS; k++)
		sum += v[k];
	return sum;
}

static void compare(const struct td_pool_tree *t, int n, int cores, enum td_pool_choose_policy policy)
{
	struct td_pool_choice got = {0};
	struct td_pool_cost best = {0};
	uint64_t gpus = 0;
	bool there = td_pool_choose(t, n, cores, policy, &got),
	     should = cores <= sum_of(t->cores) && brute(t, n, cores, policy, &gpus, &best);
	if (there != should || (there && (got.gpus != gpus || memcmp(&got.cost, &best, sizeof(best)) != 0)))
		fail_msg("%d GPUs, %d cores, policy %d of %d GPUs at %d NUMA nodes, free %#llx: %d %#llx, all subsets "
			 "say %d %#llx",
			 n, cores, (int)policy, t->gpus, t->numas, (unsigned long long)t->free, there,
			 (unsigned long long)got.gpus, should, (unsigned long long)gpus);
	if (!there)
		return;
	// The cores are there, and none is taken from afar while one near is free.
	int far = 0;
	bool room = false;
	assert_int_equal(sum_of(got.cores), cores);
	for (int k = 0; k < t->numas; k++) {
		bool near = false;
		for (int i = 0; i < t->gpus; i++)
			near |= (got.gpus >> i & 1) && t->gpu[i].numa == k;
		assert_true(got.cores[k] >= 0 && got.cores[k] <= t->cores[k]);
		far += near ? 0 : got.cores[k];
		room |= near && got.cores[k] < t->cores[k];
	}
	assert_int_equal(far, got.cost.far);
	assert_false(far && room);
}

static void test_against_all_subsets(void **state)
{
	static const int numas[] = {1, 2, 4, 8};
	int compared = 0;
	for (size_t k = 0; k < sizeof(numas) / sizeof(*numas); k++)
		for (int shape = 0; shape < SHAPES; shape++)
			for (int round = 0; round < 24; round++) {
				struct td_pool_tree t = tree(numas[k], round % 4 == 3 ? 10 : 8, (enum shape)shape);
				t.free &= round ? (uint64_t)any(1 << t.gpus) : t.free;
				for (int n = 1; n <= t.gpus; n++, compared++)
					compare(&t, n, any(12), (enum td_pool_choose_policy)any(4));
			}
	print_message("%d requests compared with all subsets\n", compared);
}

// What each policy is for, on two NUMA nodes of four GPUs that are linked in pairs.
static void test_policies(void **state)
{
	struct td_pool_tree t = {0};
	struct td_pool_choice c;
	const int pairs[] = {0, 0, 1, 1, 2, 2, 3, 3};
	assert_true(td_pool_tree_read("00001111", 8, 16, &t));
	link_up(&t, pairs);
	assert_true(td_pool_choose(&t, 2, 8, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.gpus, 0x03);
	assert_true(td_pool_choose(&t, 2, 8, TD_CHOOSE_SPREAD, &c));
	assert_int_equal(c.cost.numas, 2);
	assert_int_equal(c.cores[0], 4);
	assert_int_equal(c.cores[1], 4);

	t.free = 0xf1; // 0, and the whole second NUMA node
	assert_true(td_pool_choose(&t, 1, 1, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.gpus, 0x01); // no pair is broken
	assert_true(td_pool_choose(&t, 3, 1, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.cost.numas, 1);
	t.free = 0x1e; // 1 and a pair at the first, 4 at the second
	assert_true(td_pool_choose(&t, 2, 1, TD_CHOOSE_PACK, &c));
	assert_int_equal(c.gpus, 0x0c);
	assert_true(td_pool_choose(&t, 3, 17, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.cost.far, 1);
	assert_false(td_pool_choose(&t, 3, 17, TD_CHOOSE_SINGLE, &c)); // no NUMA node has 17 cores
	assert_true(td_pool_choose(&t, 3, 16, TD_CHOOSE_SINGLE, &c));
	assert_false(td_pool_choose(&t, 4, 1, TD_CHOOSE_SINGLE, &c));
	assert_false(td_pool_choose(&t, 5, 1, TD_CHOOSE_PREFER, &c));  // four are free
	assert_false(td_pool_choose(&t, 1, 33, TD_CHOOSE_PREFER, &c)); // 32 cores are
}

static void test_without_gpus(void **state)
{
	struct td_pool_tree t = {0};
	struct td_pool_choice c;
	assert_true(td_pool_tree_read("0002", 4, 8, &t)); // NUMA node 1 has no GPU
	assert_true(td_pool_choose(&t, 0, 8, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.cores[1], 8);
	assert_true(td_pool_choose(&t, 0, 9, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.cost.numas, 2);
	assert_false(td_pool_choose(&t, 0, 9, TD_CHOOSE_SINGLE, &c));
	assert_int_equal(td_pool_choose_system(&t, 2), 1);
	t.cores[1] = 1;
	assert_int_equal(td_pool_choose_system(&t, 2), 2);
	assert_int_equal(td_pool_choose_system(&t, 9), -1);
}

static void test_read(void **state)
{
	struct td_pool_tree t = {0};
	assert_true(td_pool_tree_read("", 4, 14, &t));
	assert_int_equal(t.numas, 1);
	assert_int_equal(t.cores[0], 14);
	assert_true(td_pool_tree_read("0110", 4, 7, &t));
	assert_int_equal(td_pool_tree_far(&t, 0, 3), 2);
	assert_int_equal(td_pool_tree_far(&t, 0, 1), 3);
	assert_false(td_pool_tree_read("011", 4, 7, &t));
	assert_false(td_pool_tree_read("01x0", 4, 7, &t));
	assert_false(td_pool_tree_read("", 65, 7, &t));
	// 64 GPUs that nothing tells apart are few kinds: found at once.
	assert_true(td_pool_tree_read("", 64, 64, &t));
	struct td_pool_choice c;
	assert_true(td_pool_choose(&t, 32, 64, TD_CHOOSE_PREFER, &c));
	assert_int_equal(c.gpus, 0xffffffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all_subsets), cmocka_unit_test(test_policies),
					   cmocka_unit_test(test_without_gpus), cmocka_unit_test(test_read)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
