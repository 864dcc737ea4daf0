// The shadows of a node, in all their steps.
// rows: A17.2 A17.5
#include "pool/entrance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S(cpus, mb) ((struct td_pool_size){cpus, mb})
#define RUNS(cpus, mb) ((struct td_pool_shadow_job){{cpus, mb}, true, false})
#define WAITS(cpus, mb) ((struct td_pool_shadow_job){{cpus, mb}, false, false})
#define AHEAD(cpus, mb) ((struct td_pool_shadow_job){{cpus, mb}, false, true})

static struct td_pool_shadow_job jobs[TD_SHADOWS_MAX];
static struct td_pool_shadow_plan plan;

static struct td_pool_shadow given(struct td_pool_size want, struct td_pool_size left, size_t n,
				   const struct td_pool_shadow_job *v)
{
	if (n)
		memcpy(jobs, v, n * sizeof(*v));
	return (struct td_pool_shadow){.want = want, .all = {16, 4000}, .free = left, .v = jobs, .n = n};
}

static void makes(const struct td_pool_shadow *f, enum td_pool_shadow_do what, struct td_pool_size size)
{
	td_pool_shadow_decide(f, &plan);
	assert_string_equal(td_pool_shadow_do_name(plan.what), td_pool_shadow_do_name(what));
	assert_int_equal(plan.size.cpus, size.cpus);
	assert_int_equal(plan.size.memory_mb, size.memory_mb);
}

// The jobs that end, as letters: "ac" are the first and the third.
static void ends(const struct td_pool_shadow *f, const char *which)
{
	char got[TD_SHADOWS_MAX + 1] = "";
	size_t n = 0;
	td_pool_shadow_decide(f, &plan);
	for (size_t i = 0; i < f->n; i++)
		if (plan.ends[i])
			got[n++] = (char)('a' + i);
	assert_string_equal(td_pool_shadow_do_name(plan.what), *which ? "end" : "leave");
	assert_string_equal(got, which);
}

#define J(...)                                                                                                         \
	(sizeof((struct td_pool_shadow_job[]){__VA_ARGS__}) / sizeof(struct td_pool_shadow_job)),                      \
		(struct td_pool_shadow_job[])                                                                          \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

static void test_want(void **state)
{
	// 16 CPUs, of which Slurm gives out 14; 4096 MiB, of which 3072.
	struct td_pool_reserve r = {
		.cpu_milli = 16000, .memory = 4096LL << 20, .share_cpus = 14, .share_memory_mb = 3072};
	static const struct {
		int64_t milli, mib, cpus, mb;
	} t[] = {{0, 0, 0, 0},         {2000, 1024, 0, 0},      {2001, 0, 1, 1},         {3500, 1025, 2, 1},
		 {100, 2048, 1, 1024}, {16000, 4096, 14, 3072}, {99000, 99000, 14, 3072}};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		r.others_milli = t[i].milli;
		r.others_memory = t[i].mib << 20;
		struct td_pool_size w = td_pool_shadow_want(&r);
		assert_int_equal(w.cpus, t[i].cpus);
		assert_int_equal(w.memory_mb, t[i].mb);
	}
}

static void test_comes_and_goes(void **state)
{
	struct td_pool_shadow f = given(S(0, 0), S(16, 4000), 0, NULL);
	ends(&f, "");
	f = given(S(4, 500), S(16, 4000), 0, NULL);
	makes(&f, TD_SHADOW_ALLOCATE, S(4, 500));
	f = given(S(4, 500), S(12, 3500), J(RUNS(4, 500)));
	ends(&f, "");
	f = given(S(0, 0), S(12, 3500), J(RUNS(4, 500)));
	ends(&f, "a");
}

static void test_grows(void **state)
{
	// The difference is a second job, which ends when one has all of it.
	struct td_pool_shadow f = given(S(6, 800), S(12, 3500), J(RUNS(4, 500)));
	makes(&f, TD_SHADOW_ALLOCATE, S(2, 300));
	f = given(S(6, 800), S(10, 3200), J(RUNS(4, 500), RUNS(2, 300)));
	ends(&f, "");
	// More memory only: a job has one CPU at least, until one job can have it all.
	f = given(S(4, 800), S(12, 3500), J(RUNS(4, 500)));
	makes(&f, TD_SHADOW_ALLOCATE, S(1, 300));
	f = given(S(4, 800), S(11, 3200), J(RUNS(4, 500), RUNS(1, 300)));
	makes(&f, TD_SHADOW_ALLOCATE, S(4, 800));
	f = given(S(4, 800), S(7, 2400), J(RUNS(4, 500), RUNS(1, 300), RUNS(4, 800)));
	ends(&f, "ab");
	f = given(S(4, 800), S(0, 0), J(RUNS(4, 500), RUNS(1, 300)));
	ends(&f, "");
	// Many pieces become one.
	f = given(S(6, 600), S(8, 3000), J(RUNS(1, 100), RUNS(1, 100), RUNS(1, 100), RUNS(1, 100)));
	makes(&f, TD_SHADOW_ALLOCATE, S(6, 600));
}

static void test_shrinks(void **state)
{
	struct td_pool_shadow f = given(S(2, 300), S(12, 3500), J(RUNS(4, 500)));
	makes(&f, TD_SHADOW_ALLOCATE, S(2, 300)); // it is held before the old one ends
	f = given(S(2, 300), S(10, 3200), J(RUNS(4, 500), RUNS(2, 300)));
	ends(&f, "a");
	f = given(S(4, 500), S(0, 0), J(RUNS(4, 500), RUNS(2, 300)));
	ends(&f, "b");
	f = given(S(4, 600), S(0, 0), J(RUNS(2, 300), RUNS(2, 300), RUNS(2, 300)));
	ends(&f, "a");
	// The node is full: the new one stands before everybody else, and then the old one ends.
	f = given(S(2, 300), S(0, 0), J(RUNS(4, 500)));
	makes(&f, TD_SHADOW_QUEUE, S(2, 300));
	assert_true(plan.ahead);
	f = given(S(2, 300), S(0, 0), J(RUNS(4, 500), AHEAD(2, 300)));
	ends(&f, "a");
	f = given(S(2, 300), S(0, 0), J(AHEAD(2, 300)));
	ends(&f, "");
	f = given(S(2, 300), S(4, 500), J(AHEAD(2, 300)));
	ends(&f, ""); // it is about to start
	// What pods hold has changed meanwhile: only the last one waits when the old one ends.
	f = given(S(3, 300), S(0, 0), J(RUNS(4, 500), AHEAD(2, 300), AHEAD(3, 300)));
	ends(&f, "b");
	f = given(S(2, 300), S(2, 200), J(RUNS(2, 300), WAITS(2, 300)));
	ends(&f, "b");
}

static void test_given_twice(void **state)
{
	// What is left is held at once; the rest waits before everybody else.
	struct td_pool_shadow f = given(S(6, 800), S(2, 4000), 0, NULL);
	makes(&f, TD_SHADOW_ALLOCATE, S(2, 800));
	f = given(S(6, 800), S(0, 3200), J(RUNS(2, 800)));
	makes(&f, TD_SHADOW_QUEUE, S(4, 1));
	assert_false(plan.ahead);
	f = given(S(6, 800), S(0, 3200), J(RUNS(2, 800), WAITS(4, 1)));
	ends(&f, "");
	struct td_pool_size twice = td_pool_shadow_missing(f.want, td_pool_shadow_held(f.v, f.n));
	assert_int_equal(twice.cpus, 4);
	assert_int_equal(twice.memory_mb, 0);
	// A native job ends, and some of its room is got at once.
	f = given(S(6, 800), S(3, 3300), J(RUNS(2, 800), WAITS(4, 1)));
	makes(&f, TD_SHADOW_ALLOCATE, S(3, 1));
	f = given(S(6, 800), S(0, 3200), J(RUNS(2, 800), WAITS(4, 1), RUNS(3, 1)));
	makes(&f, TD_SHADOW_QUEUE, S(1, 1));
	f = given(S(6, 800), S(0, 3200), J(RUNS(2, 800), WAITS(4, 1), RUNS(3, 1), WAITS(1, 1)));
	ends(&f, "b");
	// Slurm has refused it: nothing is tried until the node changes.
	f = given(S(6, 800), S(2, 4000), 0, NULL);
	f.refused = true;
	makes(&f, TD_SHADOW_QUEUE, S(6, 800));
	f = given(S(6, 800), S(2, 4000), J(WAITS(6, 800)));
	f.refused = true;
	ends(&f, "");
}

// The other pieces hold all the memory, so that no further job fits beside them. Nobody else is on the node.
static void test_alone(void **state)
{
	struct td_pool_shadow f = given(S(14, 4000), S(13, 0), J(RUNS(3, 4000)));
	makes(&f, TD_SHADOW_QUEUE, S(14, 4000));
	assert_true(plan.ahead);
	f = given(S(14, 4000), S(13, 0), J(RUNS(3, 4000), AHEAD(14, 4000)));
	ends(&f, "a");
	f = given(S(14, 4000), S(13, 0), J(RUNS(3, 3000))); // somebody else has the rest
	makes(&f, TD_SHADOW_QUEUE, S(11, 1000));
}

static void test_node(void **state)
{
	struct td_pool_shadow f = given(S(4, 500), S(12, 3500), J(RUNS(4, 500), WAITS(1, 1)));
	f.closed = true; // a drain is not held up by it
	ends(&f, "ab");
	f = given(S(4, 500), S(16, 4000), 0, NULL);
	f.away = true;
	ends(&f, "");
	f.away = false;
	f.closed = true;
	ends(&f, "");
}

// Where a pod goes that waits at the gate.
static void test_door(void **state)
{
	struct td_pool_door d = {.lacks = S(4, 500), .room = S(4, 500)},
			    other = {.lacks = S(4, 500), .room = S(3, 900)};
	assert_int_equal(td_pool_door(&d), TD_DOOR_NOW);
	d.room = S(4, 499);
	assert_int_equal(td_pool_door(&d), TD_DOOR_LATER);
	assert_true(td_pool_door_better(&d, &other)); // CPUs before memory
	assert_false(td_pool_door_better(&other, &d));
	other.room = S(9, 400);
	assert_true(td_pool_door_better(&d, &other));
	d.lacks = S(0, 0); // within the reserve, or held already
	d.room = S(0, 0);
	assert_int_equal(td_pool_door(&d), TD_DOOR_NOW);
	d.lacks = S(0, 100); // memory alone goes with a CPU
	d.room = S(0, 500);
	assert_int_equal(td_pool_door(&d), TD_DOOR_LATER);
	d.room = S(1, 500);
	assert_int_equal(td_pool_door(&d), TD_DOOR_NOW);
	d.over = true;
	assert_int_equal(td_pool_door(&d), TD_DOOR_SHUT);
	d.over = false;
	d.closed = true;
	assert_int_equal(td_pool_door(&d), TD_DOOR_SHUT);
	d.closed = false;
	d.apart = true;
	assert_int_equal(td_pool_door(&d), TD_DOOR_SHUT);
	// Where none has room the whole pool is looked at less and less often, and often enough.
	static const int64_t pauses[] = {5000, 10000, 20000, 20000};
	int64_t pause = 0;
	for (size_t i = 0; i < sizeof(pauses) / sizeof(*pauses); i++)
		assert_int_equal(pause = td_pool_door_pause(pause), pauses[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_want),    cmocka_unit_test(test_comes_and_goes), cmocka_unit_test(test_grows),
		cmocka_unit_test(test_shrinks), cmocka_unit_test(test_given_twice),    cmocka_unit_test(test_alone),
		cmocka_unit_test(test_node),    cmocka_unit_test(test_door),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
