// Single devices that are held for nobody's use: each step, and random nodes until they are right.
// rows: B4.5 A17.4
#include "pool/aside.h"
#include "pool/lend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t by[TD_ASIDE_MAX];
static struct td_pool_aside_plan plan;

static void decides(const struct td_pool_aside *f, enum td_pool_aside_do what, int64_t after)
{
	td_pool_aside_decide(f, &plan);
	assert_int_equal(plan.what, what);
	assert_int_equal(plan.after, after);
}

static void test_steps(void **state)
{
	const struct td_pool_aside_job none[1] = {0}, wrong[] = {{0, 0}, {3, 0}}, right[] = {{3, 0}},
				       waits[] = {{-1, 7}};
	memset(by, 0, sizeof(by));
	struct td_pool_aside f = {.want = 8, .all = 15, .by = by, .v = none};
	decides(&f, TD_ASIDE_ALLOCATE, 0); // all are free
	f.refused = true;
	decides(&f, TD_ASIDE_LOOK, 0);
	f.refused = false;
	f.away = true;
	decides(&f, TD_ASIDE_LOOK, 0);
	f.away = false;

	// Drained: all four devices are waited for, before anybody else is there.
	const struct td_pool_aside_job four[] = {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}},
				       come[] = {{0, 0}, {1, 0}, {3, 0}, {-1, 0}};
	f.drained = true;
	f.v = four;
	for (f.n = 0; f.n < 4; f.n++)
		decides(&f, TD_ASIDE_QUEUE, 0);
	decides(&f, TD_ASIDE_LOOK, 0);
	f.drained = false;
	decides(&f, TD_ASIDE_LOOK,
		0); // they come first as soon as anything starts there: it may be reserved for a test
	f.refused = true;
	decides(&f, TD_ASIDE_LOOK, 0);
	f.refused = false;
	f.v = come;
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0] && plan.ends[1] && !plan.ends[2] && plan.ends[3]);

	f.v = wrong; // 0 came before 3
	f.n = 1;
	decides(&f, TD_ASIDE_ALLOCATE, 0);
	f.n = 2;
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0] && !plan.ends[1]);
	f.v = right;
	f.n = 1;
	decides(&f, TD_ASIDE_LEAVE, 0);
	f.want = 0;
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0]);

	// What is held when a node is drained waits for its return, so that the node is drained to its end.
	const struct td_pool_aside_job all[] = {{3, 0}, {-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}};
	f = (struct td_pool_aside){.want = 8, .all = 15, .drained = true, .by = by, .v = all};
	for (f.n = 1; f.n < 5; f.n++)
		decides(&f, TD_ASIDE_QUEUE, 0);
	f.n = 3;
	f.full = true; // a limit: the node is drained all the same
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0] && !plan.ends[1] && !plan.ends[2]);
	f.full = false;
	f.n = 5;
	f.away = true;
	decides(&f, TD_ASIDE_LOOK, 0); // it is not known how the node is
	f.away = false;
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0] && !plan.ends[1] && !plan.ends[4]);
	f.v = all + 1;
	f.n = 4;
	decides(&f, TD_ASIDE_LOOK, 0);
	f.want = 0; // nobody wants it any more
	decides(&f, TD_ASIDE_END, 0);
	assert_true(plan.ends[0] && plan.ends[3]);

	// A bridge that began to lead knows of a job that waits for another's end, and not for whose.
	const struct td_pool_aside_job found[] = {{-1, -1}};
	f = (struct td_pool_aside){.want = 8, .all = 15, .by = by, .v = found, .n = 1};
	decides(&f, TD_ASIDE_ALLOCATE, 0);
	by[3] = 7;
	decides(&f, TD_ASIDE_END, 0);
	by[3] = 0;

	// Its job is to be ended early. Where no device is free, one waits first that comes before everybody else.
	f = (struct td_pool_aside){.want = 8, .all = 15, .ending = 8, .packed = true, .by = by, .v = waits, .n = 1};
	by[3] = 7;
	decides(&f, TD_ASIDE_END, 0); // its end may never come: it may be queued again
	f.n = 0;
	decides(&f, TD_ASIDE_QUEUE, 0);
	assert_int_equal(plan.may_end, 0);
	const struct td_pool_aside_job ahead[] = {{-1, 0}};
	f.v = ahead;
	f.n = 1;
	decides(&f, TD_ASIDE_LOOK, 0);
	assert_int_equal(plan.may_end, 8);
	f.packed = false; // the job is just letting go, or another has: the one that waits is what gets it
	decides(&f, TD_ASIDE_LOOK, 0);
	const struct td_pool_aside_job another[] = {{1, 0}};
	f.v = another; // it got another one
	decides(&f, TD_ASIDE_END, 0);
	f.v = ahead;
	f.n = 0; // it would get a free one at once, and so would who waits
	decides(&f, TD_ASIDE_LOOK, 0);
	assert_int_equal(plan.may_end, 8);
	f.packed = f.full = true; // there is a limit
	decides(&f, TD_ASIDE_LOOK, 0);
	assert_int_equal(plan.may_end, 8);
	by[3] = 0;
	f.full = false;
	decides(&f, TD_ASIDE_ALLOCATE, 0);

	// A job holds it.
	f = (struct td_pool_aside){.want = 8, .all = 15, .by = by, .v = waits};
	by[3] = -1;
	decides(&f, TD_ASIDE_LOOK, 0); // nobody says whether it is free
	by[3] = 7;
	decides(&f, TD_ASIDE_QUEUE, 7);
	f.n = 1;
	decides(&f, TD_ASIDE_LOOK, 0);
	by[3] = 0; // it has just ended, and who awaits that one is about to get it
	decides(&f, TD_ASIDE_ALLOCATE, 0);
	f.refused = true;
	decides(&f, TD_ASIDE_LOOK, 0);
	by[2] = 7; // it has let go of that one alone
	decides(&f, TD_ASIDE_END, 0);
	by[2] = 0;
	f.refused = false;
	by[3] = 9; // it went to another
	decides(&f, TD_ASIDE_END, 0);
	by[3] = 7;
	f.want = 0; // nobody wants it any more
	decides(&f, TD_ASIDE_END, 0);
	f.want = 16; // the node has none of that name
	f.n = 0;
	decides(&f, TD_ASIDE_LEAVE, 0);
}

// Some more devices, whichever they are.
static void test_any(void **state)
{
	const struct td_pool_aside_job two[] = {{0, 0}, {2, 0}}, waits[] = {{0, 0}, {-1, 0}};
	memset(by, 0, sizeof(by));
	struct td_pool_aside f = {.any = 1, .all = 15, .by = by, .v = two};
	decides(&f, TD_ASIDE_ALLOCATE, 0);
	f.refused = true; // none is free: the next that is comes to us
	decides(&f, TD_ASIDE_QUEUE, 0);
	f.full = true;
	decides(&f, TD_ASIDE_LOOK, 0);
	f.n = 1;
	decides(&f, TD_ASIDE_LEAVE, 0);
	f.n = 2; // one too many
	decides(&f, TD_ASIDE_END, 0);
	assert_true(!plan.ends[0] && plan.ends[1]);
	f.want = 1; // who has it was told
	decides(&f, TD_ASIDE_LEAVE, 0);
	f.any = 0;
	decides(&f, TD_ASIDE_END, 0);
	assert_true(!plan.ends[0] && plan.ends[1]);
	f.any = 2;
	f.refused = f.full = false;
	decides(&f, TD_ASIDE_ALLOCATE, 0);

	f.any = 9; // more than there are: no job waits for one that never comes
	f.want = 4;
	decides(&f, TD_ASIDE_ALLOCATE, 0);
	const struct td_pool_aside_job four[] = {{0, 0}, {2, 0}, {1, 0}, {3, 0}};
	f.v = four;
	f.n = 4;
	decides(&f, TD_ASIDE_LEAVE, 0);

	f = (struct td_pool_aside){.any = 2, .all = 15, .by = by, .v = waits, .n = 2};
	decides(&f, TD_ASIDE_LOOK, 0);
	f.any = 1; // nobody waits for it any more
	decides(&f, TD_ASIDE_END, 0);
	assert_true(!plan.ends[0] && plan.ends[1]);
	f.any = 0;
	f.drained = true;
	decides(&f, TD_ASIDE_END, 0);
	f.any = 1;
	decides(&f, TD_ASIDE_QUEUE, 0);
	f.away = true;
	decides(&f, TD_ASIDE_LOOK, 0);
}

// Who is told his devices.
static void test_lend(void **state)
{
	struct td_pool_lend_pod v[] = {{1, 0, 30, "c"}, {2, 0, 20, "b"}, {1, 4, 10, "a"}, {1, 0, 20, "d"}};
	struct td_pool_lend sum;
	uint64_t got;
	td_pool_lend_sum(v, 4, &sum);
	assert_true(sum.want == 4 && sum.any == 4);
	assert_int_equal(td_pool_lend_next(v, 4, 8, &got), 4); // the oldest needs two, and nobody passes him
	assert_int_equal(got, 0);
	assert_int_equal(td_pool_lend_next(v, 4, 8 | 2 | 32, &got), 1);
	assert_int_equal(got, 2 | 8);
	v[1].has = got;
	assert_int_equal(td_pool_lend_next(v, 4, 32, &got), 3);
	assert_int_equal(got, 32);
	v[3].has = got;
	assert_int_equal(td_pool_lend_next(v, 4, 0, &got), 4);
	assert_int_equal(td_pool_lend_next(v, 4, (uint64_t)1 << 63, &got), 0);
	assert_true(got == (uint64_t)1 << 63);
	td_pool_lend_sum(v, 0, &sum);
	assert_true(!sum.want && !sum.any);
}

static void test_read(void **state)
{
	uint64_t m;
	assert_true(td_pool_aside_read("gpu3,gpu0", &m) && m == 9);
	assert_true(td_pool_aside_read(" gpu63, gpu1", &m) && m == ((uint64_t)1 << 63 | 2));
	assert_true(td_pool_aside_read("", &m) && m == 0);
	assert_true(td_pool_aside_read(NULL, &m) && m == 0);
	char *text = td_pool_aside_write((uint64_t)1 << 63 | 9);
	assert_string_equal(text, "gpu0,gpu3,gpu63");
	free(text);
	assert_null(td_pool_aside_write(0));
	static const char *const bad[] = {
		"gpu64", "gpu", "3", "gpu3x", "gpu-1", "gpu3;gpu4", "gpu99999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(td_pool_aside_read(bad[i], &m));
}

// A node whose other jobs come and go. Slurm gives any free device; nobody else ever gets one that is held aside.
struct node {
	int64_t of[8]; // who has the device: below 0 one of ours, 0 nobody
	struct td_pool_aside_job v[TD_ASIDE_MAX];
	size_t n;
	bool refused; // nothing has changed since
	bool drained; // nothing starts there
};

static int free_one(const struct node *x)
{
	int at = rand() % 8;
	for (int i = 0; i < 8; i++)
		if (!x->of[(at + i) % 8])
			return (at + i) % 8;
	return -1;
}

static void step(struct node *x, uint64_t want, size_t any)
{
	struct td_pool_aside f = {.want = want,
				  .any = any,
				  .all = 255,
				  .by = by,
				  .v = x->v,
				  .n = x->n,
				  .refused = x->refused,
				  .drained = x->drained};
	for (int i = 0; i < 8; i++) {
		by[i] = rand() % 4 == 0 ? -1 : x->of[i] > 0 ? x->of[i] : 0;
	}
	td_pool_aside_decide(&f, &plan);
	if (plan.what == TD_ASIDE_ALLOCATE) {
		int d = free_one(x);
		assert_false(x->drained);
		if (d < 0) {
			x->refused = true;
			return;
		}
		x->of[d] = -1;
		x->v[x->n++] = (struct td_pool_aside_job){d, 0};
	} else if (plan.what == TD_ASIDE_QUEUE) {
		x->v[x->n++] = (struct td_pool_aside_job){-1, plan.after};
	} else if (plan.what == TD_ASIDE_END) {
		size_t kept = 0;
		for (size_t i = 0; i < x->n; i++) {
			if (!plan.ends[i])
				x->v[kept++] = x->v[i];
			else if (x->v[i].device >= 0)
				x->of[x->v[i].device] = 0;
		}
		assert_true(kept < x->n);
		x->n = kept;
		x->refused = false;
	}
}

// Ends a job of somebody's: what waits for that comes first.
static void ends(struct node *x, int64_t job)
{
	for (int i = 0; i < 8; i++) {
		if (x->of[i] != job)
			continue;
		x->of[i] = 0;
		x->refused = false;
		for (size_t k = 0; k < x->n; k++)
			if (!x->drained && x->v[k].device < 0 && (x->v[k].after == job || !x->v[k].after)) {
				x->v[k] = (struct td_pool_aside_job){i, 0};
				x->of[i] = -1;
				break;
			}
	}
}

// Somebody resumes the node: who waits for nobody that is there comes first.
static void resume(struct node *x)
{
	x->drained = x->refused = false;
	for (size_t k = 0; k < x->n; k++) {
		bool there = false;
		for (int i = 0; i < 8; i++)
			there |= x->v[k].after && x->of[i] == x->v[k].after;
		int d = x->v[k].device < 0 && !there ? free_one(x) : -1;
		if (d < 0)
			continue;
		x->v[k] = (struct td_pool_aside_job){d, 0};
		x->of[d] = -1;
	}
}

static void test_random(void **state)
{
	for (unsigned seed = 0; seed < 2000; seed++) {
		srand(seed);
		struct node x = {0};
		uint64_t want = (uint64_t)(rand() & 255);
		size_t any = 0;
		int64_t next = 1;
		for (int i = 0; i < 200; i++) {
			int d;
			if (rand() % 30 == 0) {
				if (x.drained)
					resume(&x);
				else
					x.drained = true;
			}
			if (!x.drained && rand() % 3 == 0 && (d = free_one(&x)) >= 0) { // a job with one or two devices
				x.of[d] = next;
				if (rand() % 2 && (d = free_one(&x)) >= 0)
					x.of[d] = next;
				next++;
			}
			if (rand() % 3 == 0 && next > 1)
				ends(&x, 1 + rand() % (next - 1));
			if (rand() % 20 == 0)
				want = (uint64_t)(rand() & 255);
			if (rand() % 20 == 0)
				any = (size_t)rand() % 4;
			step(&x, want, any);
		}
		for (int64_t j = 1; j < next; j++) // everybody else has ended, and nobody comes
			ends(&x, j);
		x.drained = true; // nothing of ours keeps it busy
		for (int i = 0; i < 40; i++)
			step(&x, want, any);
		for (int i = 0; i < 8; i++)
			assert_int_equal(x.of[i], 0);
		resume(&x);
		for (int i = 0; i < 40; i++)
			step(&x, want, any);
		uint64_t held = td_pool_aside_held(x.v, x.n);
		size_t more = (size_t)__builtin_popcountll(held & ~want);
		assert_true((held & want) == want);
		assert_true(more == any || (more < any && held == 255));
		if (held != 255)
			assert_int_equal(x.n, __builtin_popcountll(held));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_any),
					   cmocka_unit_test(test_lend), cmocka_unit_test(test_read),
					   cmocka_unit_test(test_random)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
