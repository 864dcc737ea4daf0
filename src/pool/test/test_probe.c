// rows: B1.1 B3.7
// Which idle nodes are tested: the budget of an hour, how many at once, who comes first; and what is too little of what the
// others of a group measured.
#include "pool/figures.h"
#include "pool/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW INT64_C(100000000)
#define HOUR 3600000

static const struct td_pool_probe_rule rule = {
	.every_ms = 24 * HOUR, .each_ms = 1000, .budget_ms = 3000, .percent = 50};

static void who_was_not_tested_for_longest_comes_first(void **state)
{
	const struct td_pool_probe_node v[] = {
		{true, false, NOW - 25 * HOUR, 900}, {true, false, NOW - 30 * HOUR, 900}, {false, false, 0, 0},
		{true, false, NOW - 2 * HOUR, 900},  {true, false, NOW - 26 * HOUR, 900},
	};
	size_t who[5];
	int64_t again;
	assert_int_equal(td_pool_probe_next(&rule, v, 5, NOW, who, &again), 2); // half of five, at once
	assert_int_equal(who[0], 1);
	assert_int_equal(who[1], 4);
	assert_int_equal(again, 1000);
}

static void the_budget_of_an_hour_holds(void **state)
{
	struct td_pool_probe_node v[20] = {0};
	size_t who[20];
	int64_t again;
	struct td_pool_probe_rule r = rule;
	r.percent = 100;
	for (int i = 0; i < 20; i++)
		v[i] = (struct td_pool_probe_node){true, false, NOW - 25 * HOUR, 900};
	assert_int_equal(td_pool_probe_next(&r, v, 20, NOW, who, &again), 3);
	v[0] = (struct td_pool_probe_node){true, false, NOW - 60000, 2500}; // a minute ago
	assert_int_equal(td_pool_probe_next(&r, v, 20, NOW, who, &again), 0);
	assert_int_equal(again, 30000);
	v[0].last_ms = NOW - HOUR; // longer ago than an hour
	assert_int_equal(td_pool_probe_next(&r, v, 20, NOW, who, &again), 3);
	v[1].running = true;
	assert_int_equal(td_pool_probe_next(&r, v, 20, NOW, who, &again), 2);
	r.percent = 0; // one at a time
	assert_int_equal(td_pool_probe_next(&r, v, 20, NOW, who, &again), 0);
	assert_int_equal(again, 1000);
}

static void it_is_asked_again_when_the_next_one_is_due(void **state)
{
	const struct td_pool_probe_node v[] = {{true, false, NOW - 24 * HOUR + 5000, 1}, {true, false, NOW, 1}};
	size_t who[2];
	int64_t again;
	assert_int_equal(td_pool_probe_next(&rule, v, 2, NOW, who, &again), 0);
	assert_int_equal(again, 5000);
	assert_int_equal(td_pool_probe_next(&rule, v, 0, NOW, who, &again), 0);
	assert_int_equal(again, 30000);
	static struct td_pool_probe_node many[10000];
	static size_t those[10000];
	many[0].running = true;
	assert_int_equal(td_pool_probe_next(&rule, many, 10000, NOW, those, &again), 0);
	assert_int_equal(again, 6000);
}

static void what_is_too_little_follows_from_the_median_of_the_others(void **state)
{
	const double v[] = {30, 10, 20, 1000};
	double median;
	assert_true(td_pool_figures_least(v, 3, 80, 3, &median) == 16 && median == 20);
	assert_true(td_pool_figures_least(v, 4, 80, 3, &median) == 20 &&
		    median == 25); // one that is far out does not count
	assert_true(td_pool_figures_least(v, 2, 80, 3, &median) == 0);
	assert_true(td_pool_figures_least(v, 4, 0, 1, &median) == 0);
	assert_true(td_pool_figures_least(v, 0, 80, 0, &median) == 0);

	// A floor counts with as few others as there are, and where it asks for more than they do.
	struct td_pool_figure_want w;
	td_pool_figures_want(v, 3, 80, 3, 10, &w);
	assert_true(w.least == 16 && !w.floor && w.median == 20);
	td_pool_figures_want(v, 3, 80, 3, 18, &w);
	assert_true(w.least == 18 && w.floor);
	td_pool_figures_want(v, 1, 80, 3, 18, &w);
	assert_true(w.least == 18 && w.floor);
	td_pool_figures_want(v, 1, 80, 3, 0, &w);
	assert_true(w.least == 0 && !w.floor);
}

static void nodes_of_one_place_are_tested_together(void **state)
{
	const struct td_pool_group_rule r = {24 * HOUR, 3};
	struct td_pool_group_node v[] = {
		{true, NOW - 30 * HOUR, "r1"}, {true, NOW - 26 * HOUR, "r2"}, {true, NOW - 25 * HOUR, "r2"},
		{true, NOW - 1 * HOUR, "r2"},  {true, NOW - 28 * HOUR, "r2"}, {false, NOW - 99 * HOUR, "r2"},
		{true, NOW - 99 * HOUR, NULL}, {true, NOW - 2 * HOUR, "r3"},  {true, NOW - 3 * HOUR, "r3"},
	};
	size_t who[3];
	int64_t again = 30000;
	// One alone in its place is tested with nobody; who waits longest leads.
	assert_int_equal(td_pool_probe_group(&r, v, 9, NOW, who, &again), 3);
	assert_true(who[0] == 4 && who[1] == 1 && who[2] == 2 && again == 30000);
	v[4].able = v[1].able = false; // who is tested with one that is not due, is tested again
	assert_int_equal(td_pool_probe_group(&r, v, 9, NOW, who, &again), 2);
	assert_true(who[0] == 2 && who[1] == 3);
	v[2].able = false;
	assert_int_equal(td_pool_probe_group(&r, v, 9, NOW, who, &again), 0);
	assert_int_equal(again, 30000); // of the third place in 21 hours
	v[8].last_ms = NOW - 24 * HOUR + 5000;
	assert_int_equal(td_pool_probe_group(&r, v, 9, NOW, who, &again), 0);
	assert_int_equal(again, 5000);
	v[0].place = "r3"; // the node that was alone
	assert_int_equal(td_pool_probe_group(&r, v, 9, NOW, who, &again), 3);
	assert_true(who[0] == 0 && who[1] == 8 && who[2] == 7);
	assert_int_equal(td_pool_probe_group(&r, v, 0, NOW, who, &again), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_not_tested_for_longest_comes_first),
		cmocka_unit_test(the_budget_of_an_hour_holds),
		cmocka_unit_test(it_is_asked_again_when_the_next_one_is_due),
		cmocka_unit_test(nodes_of_one_place_are_tested_together),
		cmocka_unit_test(what_is_too_little_follows_from_the_median_of_the_others),
	};
	return cmocka_run_group_tests_name("pool probe", tests, NULL, NULL);
}
