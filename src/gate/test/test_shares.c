// Shares of a device: whatever comes in whatever order, what computes on a device has never more than 100 hundredths of
// it, and never anything beside who has it whole; and nobody whose grant lives is kept out for good.
// rows: D2.4
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/gate.h"
#include "gate/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 2, JOBS = 24, STEPS = 800 };

struct job {
	int64_t id, start;
	int device, share; // share 0: the whole device
	bool pod;
	bool alive; // Slurm counts it
	bool let_in, runs;
};
struct world {
	char dir[64];
	struct td_gate_site node;
	struct td_gate *g;
	struct job job[JOBS];
	int64_t ids;
	unsigned seed;
};

static unsigned any(struct world *w, unsigned n)
{
	w->seed = w->seed * 1103515245U + 12345;
	return (w->seed >> 8) % n;
}

static bool busy(void *ctx, int node, const struct td_holder *h, char *why, size_t n)
{
	struct world *w = ctx;
	for (int i = 0; i < JOBS; i++)
		if (w->job[i].id == h->job && w->job[i].runs) {
			snprintf(why, n, "it runs");
			return true;
		}
	return false;
}

static struct td_holder holder(const struct job *j)
{
	struct td_holder h = {.job = j->id, .start = j->start, .pod = j->pod, .share = j->share};
	snprintf(h.uid, sizeof(h.uid), "%s-%lld", j->pod ? "pod" : "user", (long long)j->id);
	return h;
}

static void gate_open(struct world *w)
{
	struct td_gate_opts o = {.dir = w->dir,
				 .node = &w->node,
				 .nodes = 1,
				 .devices = DEVICES,
				 .clock = &td_clock_system,
				 .busy = busy,
				 .ctx = w};
	assert_int_equal(td_gate_new(&o, &w->g, NULL), 0);
}

// Prolog, or the kubelet before the first container.
static int try(struct world *w, struct job *j)
{
	struct td_holder h = holder(j);
	int r = td_gate_try(w->g, 0, UINT64_C(1) << j->device, &h, NULL);
	j->let_in |= !r;
	return r;
}

// A process of it is there, and asks before it computes: a task of a native job, which says only who it is, or a
// container, which the kubelet has let in anew if need be.
static bool start(struct world *w, struct job *j)
{
	struct td_holder h = holder(j), task = {.job = j->id};
	struct td_gate_wait now = {0};
	struct td_cancel *c = td_cancel_new();
	uint64_t mask = UINT64_C(1) << j->device;
	bool ran = j->runs;
	j->runs = true;
	int r = j->pod ? td_gate_try(w->g, 0, mask, &h, NULL) : td_gate_check(w->g, 0, mask, &task, &now, c, NULL);
	if (!r && j->pod)
		r = td_gate_may_start(w->g, 0, mask, &h) ? 0 : TD_CONFLICT;
	j->runs = !r || ran;
	td_cancel_unref(c);
	return !r;
}

static int granted(const struct world *w, int device)
{
	int sum = 0;
	for (int i = 0; i < JOBS; i++)
		if (w->job[i].alive && w->job[i].device == device)
			sum += w->job[i].share ? w->job[i].share : 100;
	return sum;
}

static void never_too_much(const struct world *w)
{
	for (int d = 0; d < DEVICES; d++) {
		int sum = 0;
		for (int i = 0; i < JOBS; i++)
			if (w->job[i].runs && w->job[i].device == d)
				sum += w->job[i].share ? w->job[i].share : 100;
		assert_in_range(sum, 0, 100);
	}
}

// Slurm gives out what is free, by its own books.
static void grant(struct world *w)
{
	int device = (int)any(w, DEVICES), share = any(w, 8) ? 1 + (int)any(w, 50) : 0;
	for (int i = 0; i < JOBS; i++) {
		struct job *j = &w->job[i];
		if (j->alive || j->runs || granted(w, device) + (share ? share : 100) > 100)
			continue;
		w->ids++;
		*j = (struct job){.id = w->ids,
				  .start = 1000 + w->ids,
				  .device = device,
				  .share = share,
				  .alive = true,
				  .pod = any(w, 2)};
		return;
	}
}

// What is dead ends; then whoever lives must get in, and start, however the books of the gate look.
static void all_get_in(struct world *w)
{
	for (int i = 0; i < JOBS; i++)
		w->job[i].runs &= w->job[i].alive;
	for (int i = 0; i < JOBS; i++)
		if (w->job[i].alive) {
			assert_int_equal(try(w, &w->job[i]), 0);
			assert_true(start(w, &w->job[i]));
			never_too_much(w);
		}
}

static void test_any_order(void **state)
{
	static struct world w;
	for (unsigned seed = 1; seed <= 4; seed++) {
		memset(&w, 0, sizeof(w));
		w.seed = seed;
		strcpy(w.dir, "/tmp/tandem-shares-XXXXXX");
		assert_non_null(mkdtemp(w.dir));
		w.node = (struct td_gate_site){"n0", w.dir};
		gate_open(&w);
		int together = 0, starts = 0;
		for (int step = 0; step < STEPS; step++) {
			struct job *j = &w.job[any(&w, JOBS)];
			switch (any(&w, 8)) {
			case 0:
			case 1:
				grant(&w);
				break;
			case 2:
			case 3:
				if (j->alive && !j->let_in)
					try(&w, j);
				break;
			case 4:
			case 5: // also what has ended: it may come late
				starts += j->id && j->let_in && start(&w, j);
				break;
			case 6:
				j->alive = any(&w, 3) ? j->alive : false;
				j->runs = any(&w, 2) ? j->runs : false; // the end of a step, or of what was left
				break;
			case 7:
				if (any(&w, 40))
					break;
				w.g = td_gate_free(w.g); // the agent was killed: its table is there
				gate_open(&w);
				break;
			}
			never_too_much(&w);
			int n = 0;
			for (int i = 0; i < JOBS; i++)
				n += w.job[i].runs && w.job[i].device == 0;
			together = n > together ? n : together;
			if (step % 100 == 99)
				all_get_in(&w);
		}
		assert_true(together > 1 && starts > 20); // it was no test of one job alone
		td_gate_free(w.g);
		char file[128];
		snprintf(file, sizeof(file), "%s/n0.json", w.dir);
		remove(file);
		remove(w.dir);
	}
}

static int claim(struct td_gate_table *t, struct td_holder h)
{
	bool changed;
	return td_gate_claim(t, 1, &h, &changed, NULL);
}

static void test_table(void **state)
{
	static struct td_gate_table t = {.n = 1}, u;
	struct td_holder a = {.job = 1, .start = 10, .share = 60, .uid = "1000"},
			 b = {.job = 2, .start = 9, .share = 40, .pod = true, .uid = "b"},
			 c = {.job = 3, .start = 12, .share = 1, .uid = "1000"},
			 whole = {.job = 4, .start = 13, .uid = "1000"}, way[4];
	assert_int_equal(claim(&t, a), 0);
	assert_int_equal(claim(&t, b), 0); // an older start says nothing
	assert_int_equal(claim(&t, b), 0);
	assert_int_equal(claim(&t, c), TD_THROTTLED);
	assert_true(td_gate_holds(&t, 1, &a) && td_gate_holds(&t, 1, &b) && !td_gate_holds(&t, 1, &c));
	assert_int_equal(td_shares_in_the_way(&t, 1, &c, way, 4), 2);
	assert_int_equal(way[0].job, 2); // the oldest first

	// Who is idle counts for nothing, and comes back only where there is room.
	td_shares_idle(&t, 1, &b);
	assert_int_equal(claim(&t, c), 0);
	assert_false(td_gate_holds(&t, 1, &b));
	assert_int_equal(td_gate_held(&t, &b), 1);
	assert_int_equal(claim(&t, b), TD_THROTTLED);
	td_shares_idle(&t, 1, &c);
	assert_int_equal(claim(&t, b), 0);

	// It is all there after a restart.
	char path[] = "/tmp/tandem-shares-table-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(td_gate_save(path, &t, "boot", NULL), 0);
	assert_int_equal(td_gate_load(path, 1, "boot", &u, NULL), 0);
	assert_int_equal(u.dev[0].n_with, t.dev[0].n_with);
	assert_true(td_gate_holds(&u, 1, &a) && td_gate_holds(&u, 1, &b) && !td_gate_holds(&u, 1, &c));
	assert_int_equal(td_shares_sum(&u.dev[0], &c), 100);
	remove(path);
	close(fd);

	// Who takes it whole comes after all of them, and none of them comes back.
	assert_int_equal(claim(&t, whole), 0);
	assert_int_equal(td_gate_pending(&t, 1, way, 4), 3);
	assert_int_equal(claim(&t, b), TD_CONFLICT);
	assert_true(td_gate_holds(&t, 1, &whole) && !td_gate_holds(&t, 1, &a));
	// A share after it: it is gone first.
	assert_int_equal(claim(&t, (struct td_holder){.job = 9, .start = 20, .share = 5}), 0);
	assert_int_equal(td_gate_pending(&t, 1, way, 4), 4);
	// One who has a share does not get the rest by asking again.
	assert_int_equal(claim(&t, (struct td_holder){.job = 9, .start = 20}), TD_INVALID);
}

// More than the table has places for are never let in: they wait.
// A table that an older agent wrote says no other name of a job. The next claim does.
static void test_names(void **state)
{
	struct td_gate_table t = {.n = 1};
	struct td_holder one = {.job = 1, .start = 5, .share = 30}, two = {.job = 2, .start = 6, .share = 30};
	bool changed = false;
	assert_int_equal(td_gate_claim(&t, 1, &one, &changed, NULL), 0);
	assert_int_equal(td_gate_claim(&t, 1, &two, &changed, NULL), 0);
	snprintf(two.sluid, sizeof(two.sluid), "sEKNKTV3WPV500");
	changed = false;
	assert_int_equal(td_gate_claim(&t, 1, &two, &changed, NULL), 0);
	assert_true(changed);
	assert_int_equal(td_gate_sluid_job(&t, "sEKNKTV3WPV500"), 2);
	assert_int_equal(td_gate_claim(&t, 1, &two, &changed, NULL), 0);
	assert_false(changed);
	assert_int_equal(td_gate_claim(&t, 1, &one, &changed, NULL), 0);
	assert_int_equal(td_gate_sluid_job(&t, "sEKNKTV3WPV500"), 2);
}

static void test_many(void **state)
{
	static struct td_gate_table t = {.n = 1};
	for (int i = 0; i < TD_GATE_WITH + 1; i++)
		assert_int_equal(claim(&t, (struct td_holder){.job = 1 + i, .start = 1, .share = 1}), 0);
	struct td_holder next = {.job = 90, .start = 1, .share = 1}, first = {.job = 1, .start = 1};
	assert_int_equal(claim(&t, next), TD_THROTTLED);
	td_shares_idle(&t, 1, &first);
	assert_int_equal(claim(&t, next), 0);
	assert_true(td_gate_holds(&t, 1, &next));
}

// Whatever it says of its part later, what counts is what it has: never more than 100.
static void test_another_part(void **state)
{
	static struct td_gate_table t = {.n = 1};
	struct td_holder a = {.job = 1, .start = 10, .share = 60}, b = {.job = 2, .start = 11, .share = 40};
	assert_int_equal(claim(&t, a), 0);
	td_shares_idle(&t, 1, &a);
	assert_int_equal(claim(&t, b), 0);
	assert_int_equal(claim(&t, (struct td_holder){.job = 3, .start = 12, .share = 30}), 0);
	a.share = 20; // less than it was let in with
	assert_int_equal(claim(&t, a), TD_THROTTLED);
	b.share = 50; // more
	assert_int_equal(claim(&t, b), 0);
	assert_int_equal(td_shares_sum(&t.dev[0], &(struct td_holder){.job = 9}), 80);
	b.share = 80;
	assert_int_equal(claim(&t, b), TD_THROTTLED);
	assert_int_equal(td_shares_sum(&t.dev[0], &(struct td_holder){.job = 9}), 80);
}

// A pod whose grant of the whole device ended comes late: any part that was given out after it tells.
static void test_late_whole(void **state)
{
	static struct td_gate_table t = {.n = 1};
	struct td_holder old = {.job = 1, .start = 9, .share = 20}, new = {.job = 3, .start = 20, .share = 20},
			 same = {.job = 6, .start = 30, .share = 20}, way[4],
			 pod = {.job = 2, .start = 10, .pod = true, .uid = "p"};
	assert_int_equal(claim(&t, old), 0);
	assert_int_equal(claim(&t, new), 0);
	assert_int_equal(claim(&t, pod), TD_CONFLICT);
	assert_true(td_gate_holds(&t, 1, &old) && td_gate_holds(&t, 1, &new));
	// One of the same second: the higher id is the later one, and the lower one must have ended.
	assert_int_equal(claim(&t, same), 0);
	pod.start = 30;
	pod.job = 5;
	assert_int_equal(claim(&t, pod), TD_CONFLICT);
	pod.job = 7;
	assert_int_equal(td_gate_tied(&t, 1, &pod, way, 4), 1);
	assert_int_equal(way[0].job, 6);
	assert_int_equal(claim(&t, pod), 0);
}

// Each job that has a part of a device is one of its holders, not the first of them only.
static void test_each_holds(void **state)
{
	static struct world w = {.job = {{.id = 7, .start = 1, .share = 30}, {.id = 8, .start = 2, .share = 30}}};
	strcpy(w.dir, "/tmp/tandem-shares-XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	w.node = (struct td_gate_site){"n0", w.dir};
	gate_open(&w);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(try(&w, &w.job[i]), 0);
		w.job[i].runs = true;
	}
	struct td_holder one;
	assert_true(td_gate_holder(w.g, 0, 0, &one));
	for (int64_t id = 6; id < 10; id++)
		assert_int_equal(td_gate_job_holds(w.g, 0, 0, id), id == 7 || id == 8);
	assert_false(td_gate_job_holds(w.g, 0, 1, 7) || td_gate_job_holds(w.g, 0, 64, 7) ||
		     td_gate_job_holds(w.g, 0, 0, 0));
	td_gate_free(w.g);
	char file[128];
	snprintf(file, sizeof(file), "%s/n0.json", w.dir);
	remove(file);
	remove(w.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),      cmocka_unit_test(test_names),
					   cmocka_unit_test(test_many),       cmocka_unit_test(test_another_part),
					   cmocka_unit_test(test_late_whole), cmocka_unit_test(test_each_holds),
					   cmocka_unit_test(test_any_order)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
