// What a look at a job's record says about what policies have done to it.
// rows: C7.5 C7.1 C7.3
#include "bridge/policy/look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void look(struct td_policies_known *k, int64_t priority, int64_t nice)
{
	const struct td_slurm_job j = {.id = 7,
				       .user = "bob",
				       .account = "a",
				       .qos = "normal",
				       .partition = "all",
				       .reason = "AssocGrpGRES",
				       .tres_req = "cpu=2,mem=1.50G,node=1,billing=2,gres/gpu=4,gres/gpu:h100=4",
				       .priority = priority,
				       .nice = nice};
	td_policies_facts_take(k, &j, 1000);
}

static void done(struct td_policies_known *k)
{
	struct td_policies_facts f = {.v = td_calloc(1, sizeof(*k)), .n = 1};
	f.v[0] = *k;
	td_policies_facts_done(&f);
}

static void test_record(void **state)
{
	struct td_policies_known k = {.id = 7, .own = -1};
	look(&k, 500, 20);
	assert_int_equal(k.tres[TD_POLICY_CPU], 2);
	assert_int_equal(k.tres[TD_POLICY_MEMORY], 1536);
	assert_int_equal(k.tres[TD_POLICY_GPU], 4);
	assert_true(k.aside && k.read && !k.held);
	assert_int_equal(k.value, 520); // nice is not ours: it is looked through
	assert_int_equal(k.own, 520);
	look(&k, 0, 0);
	assert_true(k.held);
	assert_int_equal(k.value, 520); // as it was
	assert_false(k.nobodys);
	const char *const marks[] = {"tandem/out/u/n1", "tandem/shadow/u/n1"};
	for (size_t i = 0; i < TD_LEN(marks); i++) {
		const struct td_slurm_job j = {.id = 7, .reason = "Resources", .admin_comment = (char *)marks[i]};
		td_policies_facts_take(&k, &j, 2000);
		assert_true(k.nobodys);
	}
	done(&k);
}

// A minute in which nobody could be asked is no minute in which the history lacked runs.
static void test_a_history_that_is_away_loses_nothing(void **state)
{
	struct td_policies_known v[2] = {{.id = 7, .own = -1}, {.id = 8}};
	struct td_policies_facts f = {.v = v, .n = 2};
	look(&v[0], 500, 0);
	assert_int_equal(v[0].since_ms, 1000);
	td_policies_facts_away(&f, 90000);
	assert_int_equal(v[0].since_ms, 90000);
	assert_int_equal(v[1].since_ms, 0); // it was not read yet
	look(&v[0], 500, 0);
	assert_int_equal(v[0].since_ms, 90000);
	done(&v[0]);
}

static void test_moved(void **state)
{
	const int64_t place = TD_POLICY_LOW + 1000000;
	struct td_policies_known k = {.id = 7, .own = -1};
	look(&k, 500, 0);
	td_policies_facts_moved(&k, place, place - 500);
	assert_int_equal(k.value, place);
	assert_false(k.stale);

	look(&k, place + 30, 0); // it has aged
	assert_int_equal(k.value, place + 30);
	assert_int_equal(k.own, 530);
	assert_false(k.fixed);

	look(&k, 700, 0); // somebody set another site factor
	assert_int_equal(k.own, 700);
	assert_int_equal(k.site, 0);
	done(&k);
}

static void test_found_by_another_bridge(void **state)
{
	const int64_t place = TD_POLICY_LOW + 1000000;
	struct td_policies_known k = {.id = 7, .own = -1};
	look(&k, place, 0);
	assert_int_equal(k.own, -1); // how much of it is ours is not to be seen
	td_policies_facts_moved(&k, 0, 0);
	assert_true(k.stale); // but now it will be
	assert_true(k.value < TD_POLICY_LOW);
	look(&k, 500, 0);
	assert_int_equal(k.own, 500);
	done(&k);
}

static void test_fixed_by_somebody(void **state)
{
	const int64_t place = TD_POLICY_LOW + 1000000;
	struct td_policies_known k = {.id = 7, .own = -1};
	look(&k, 777, 0);
	td_policies_facts_moved(&k, place, place - 777);
	look(&k, 777, 0); // the move had no effect
	assert_true(k.fixed);
	look(&k, 777, 0);
	assert_true(k.fixed);
	look(&k, 500, 0); // it was let go
	assert_false(k.fixed);
	assert_int_equal(k.value, 500);
	done(&k);
}

static void is_no_order(const char *text, const char *words)
{
	size_t order[3] = {7, 7, 7};
	struct td_error e = TD_ERROR_INIT;
	assert_false(td_policies_answer(text, 3, order, &e));
	assert_non_null(strstr(e.msg, words));
	assert_int_equal(order[0], 7);
}

static void test_answers(void **state)
{
	size_t order[3];
	struct td_error e = TD_ERROR_INIT;
	assert_true(td_policies_answer("ok 2 0 1\n", 3, order, &e));
	assert_int_equal(order[0], 2);
	assert_int_equal(order[2], 1);
	assert_true(td_policies_answer("ok\n", 0, order, &e));

	is_no_order("ok 2 0 0\n", "no order"); // twice
	is_no_order("ok 2 0\n", "no order");
	is_no_order("ok 2 0 1 1\n", "no order");
	is_no_order("ok 3 0 1\n", "no order");
	is_no_order("ok -1 0 1\n", "no order");
	is_no_order("ok 2 0 18446744073709551616\n", "no order");
	is_no_order("ok 2 0 1", "no order");
	is_no_order("", "no answer");
	is_no_order("2 0 1\n", "no answer");
	is_no_order("bad it cannot be loaded: no\nok 2 0 1\n", "it cannot be loaded: no");
	is_no_order("bad ", "");
}

// Whose place may be asked for: any job that runs and is not preempted, pods' and one that names nodes too; and when one
// that was told leaves.
static void test_who_makes_room(void **state)
{
	struct td_slurm_job_node on = {.name = (char *)"n0", .gres = (char *)"gpu:2", .cpus = 2, .memory_mb = 10};
	struct td_slurm_job j = {.id = 7,
				 .states = TD_JOB(RUNNING),
				 .start = 100,
				 .batch = true,
				 .required_nodes = (char *)"n0",
				 .admin_comment =
					 (char *)"tandem: moved off n0, so that job 30 has room, which waits for 4 "
						 "gpu, at 2025-11-27T10:39:59Z after 1 restarts",
				 .nodes = &on,
				 .n_nodes = 1};
	struct td_policies_known k = {.id = 7, .own = -1};
	td_policies_facts_take(&k, &j, 1000);
	assert_true(k.n_parts == 1 && k.named && !k.ours);
	assert_true(k.leave.waiter == 30 && k.leave.restarts == 1 && k.leave.at_s == 1764239999);

	j.admin_comment = (char *)"tandem/c1/ml/pod=a/u";
	j.required_nodes = NULL;
	j.batch = false;
	td_policies_facts_take(&k, &j, 1000);
	assert_true(k.n_parts == 1 && !k.named && k.ours && !k.leave.at_s);
	j.preempt = 100; // it goes for somebody else
	td_policies_facts_take(&k, &j, 1000);
	assert_int_equal(k.n_parts, 0);
	j.preempt = 0;
	j.array = 5; // a task with an id of its own
	td_policies_facts_take(&k, &j, 1000);
	assert_true(k.n_parts == 1 && !k.shared);
	j.array = 7; // the last one, with the array's id: what it is told, all tasks are told
	td_policies_facts_take(&k, &j, 1000);
	assert_true(k.n_parts == 0 && k.shared);
	j.array = 0;
	j.states = TD_JOB(PENDING);
	td_policies_facts_take(&k, &j, 1000);
	assert_int_equal(k.n_parts, 0);
	done(&k);
}

static void test_found_by_id(void **state)
{
	struct td_policies_known v[] = {{.id = 3}, {.id = 7}, {.id = 9}};
	const struct td_policies_facts none = {0}, f = {.v = v, .n = TD_LEN(v)};
	for (size_t i = 0; i < TD_LEN(v); i++)
		assert_ptr_equal(td_policies_facts_find(&f, v[i].id), &v[i]);
	assert_null(td_policies_facts_find(&f, 8));
	assert_null(td_policies_facts_find(&none, 3));
}

// Who was told is asked once, and again when he is told anew or could not be asked.
static void test_asked_once_for_each_time(void **state)
{
	struct td_policies_known k = {.id = 7, .restarts = 2};
	assert_false(td_moves_asks(&k, TD_LEAVE_GRACE));
	assert_true(td_moves_asks(&k, TD_LEAVE_GO));
	assert_false(td_moves_asks(&k, TD_LEAVE_GO));
	assert_false(td_moves_asks(&k, TD_LEAVE_STAYS)); // he did not go
	assert_true(td_moves_asks(&k, TD_LEAVE_GO));
	k.asked = 0; // his node could not be asked
	assert_true(td_moves_asks(&k, TD_LEAVE_GO));
	k.restarts = 3; // another run
	assert_true(td_moves_asks(&k, TD_LEAVE_GO));
}

// Nobody else is asked for one for whom somebody leaves, and for a minute after that: also when another bridge has told
// those, or when their grace is longer.
static void test_pause_from_the_last_that_left(void **state)
{
	enum { MIN = 60000 };
	struct td_policies_moves m = {0};
	struct td_policies_move *x = td_moves_slot(&m, 30, 1000);
	assert_non_null(x);
	*x = (struct td_policies_move){.waiter = 30, .at_ms = 1000, .until_ms = 9 * MIN, .open = true, .n = 1};
	assert_null(td_moves_slot(&m, 30, 2000));
	td_moves_pause(&m, 30, 5 * MIN); // his grace ends now
	assert_true(x->open && x->n == 1 && x->until_ms == 9 * MIN);
	assert_null(td_moves_slot(&m, 30, 5 * MIN + 2000));
	assert_non_null(td_moves_slot(&m, 31, 5 * MIN + 2000));
	assert_ptr_equal(td_moves_slot(&m, 30, 6 * MIN), x);

	for (int64_t other = 40; other < 48; other++) // told by another bridge; the open one keeps its place
		td_moves_pause(&m, other, 7 * MIN);
	assert_int_equal(x->waiter, 30);
	assert_null(td_moves_slot(&m, 47, 7 * MIN + 1000));
	assert_ptr_not_equal(td_moves_slot(&m, 99, 7 * MIN + 1000), x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_a_history_that_is_away_loses_nothing),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_found_by_another_bridge),
		cmocka_unit_test(test_fixed_by_somebody),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_who_makes_room),
		cmocka_unit_test(test_found_by_id),
		cmocka_unit_test(test_asked_once_for_each_time),
		cmocka_unit_test(test_pause_from_the_last_that_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
