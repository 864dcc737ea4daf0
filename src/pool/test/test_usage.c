// rows: A14.1
// Usage by day, account, user and type of GPU.
#include "pool/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { DAY = TD_USAGE_DAY_S };

static const struct td_usage_row *row(const struct td_usage *u, int64_t day, const char *user, const char *type)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->v[i].day == day && td_streq(u->v[i].user, user) && td_streq(u->v[i].type, type))
			return &u->v[i];
	fail_msg("no row of %s", user);
	return NULL;
}

// A run from before midnight to after it counts on both days, begins on one, and is cut at both ends.
static void days(void **state)
{
	td_auto_usage struct td_usage u = {0};
	const struct td_usage_run r = {.account = "a",
				       .user = "ann",
				       .eligible = 10 * DAY - 100,
				       .start = 10 * DAY - 60,
				       .end = 10 * DAY + 30,
				       .cpus = 4,
				       .gpus = 2,
				       .fate = TD_YIELD_USEFUL};
	td_usage_add(&u, &r, 0, 20 * DAY);
	td_usage_add(&u, &r, 0, 20 * DAY);
	td_usage_settle(&u);
	assert_int_equal(u.n, 2);
	const struct td_usage_row *a = row(&u, 9, "ann", ""), *b = row(&u, 10, "ann", "");
	assert_float_equal(a->sum.gpu, 2 * 120, 0);
	assert_float_equal(a->sum.cpu, 2 * 240, 0);
	assert_float_equal(a->sum.wait, 2 * 40, 0);
	assert_float_equal(a->sum.runs, 2, 0);
	assert_float_equal(b->sum.gpu, 2 * 60, 0);
	assert_float_equal(b->sum.runs + b->sum.wait + b->sum.lost, 0, 0);

	td_auto_usage struct td_usage cut = {0};
	td_usage_add(&cut, &r, 10 * DAY - 10, 10 * DAY + 10);
	assert_float_equal(row(&cut, 9, "ann", "")->sum.gpu, 20, 0);
	assert_float_equal(row(&cut, 10, "ann", "")->sum.gpu, 20, 0);
	assert_float_equal(row(&cut, 9, "ann", "")->sum.wait + row(&cut, 9, "ann", "")->sum.runs, 0, 0);
}

static void what_goes_on_waits_or_is_lost(void **state)
{
	td_auto_usage struct td_usage u = {0};
	const struct td_usage_type types[] = {{"h100", 1}};
	const struct td_usage_run runs = {
		.account = "a", .user = "ann", .start = 100, .cpus = 1, .gpus = 3, .types = types, .n_types = 1};
	const struct td_usage_run waits = {.account = "a", .user = "bob", .eligible = 100, .gpus = 3};
	const struct td_usage_run never = {.account = "a", .user = "eve", .eligible = 100, .end = 150};
	const struct td_usage_run lost = {
		.account = "a", .user = "joe", .start = 100, .end = 200, .gpus = 1, .fate = TD_YIELD_FAILURE};
	const struct td_usage_run unborn = {.account = "a", .user = "zoe"};
	td_usage_add(&u, &runs, 0, 200);
	td_usage_add(&u, &waits, 0, 200);
	td_usage_add(&u, &never, 0, 200);
	td_usage_add(&u, &lost, 0, 200);
	td_usage_add(&u, &unborn, 0, 200);
	td_usage_settle(&u);
	assert_int_equal(u.n, 5);
	assert_float_equal(row(&u, 0, "ann", "")->sum.gpu, 200, 0);
	assert_float_equal(row(&u, 0, "ann", "h100")->sum.gpu, 100, 0);
	assert_float_equal(row(&u, 0, "ann", "h100")->sum.runs, 0, 0);
	assert_float_equal(row(&u, 0, "bob", "")->sum.wait, 100, 0);
	assert_float_equal(row(&u, 0, "bob", "")->sum.gpu, 0, 0);
	assert_float_equal(row(&u, 0, "eve", "")->sum.wait, 50, 0);
	assert_float_equal(row(&u, 0, "joe", "")->sum.lost, 100, 0);
}

// However many runs there are, rows are of people and days.
static void many(void **state)
{
	td_auto_usage struct td_usage u = {0};
	for (int i = 0; i < 10000; i++) {
		const struct td_usage_run r = {
			.account = "a", .user = i % 2 ? "ann" : "bob", .start = 100 + i, .end = 101 + i, .gpus = 1};
		td_usage_add(&u, &r, 0, DAY);
	}
	assert_true(u.cap <= 256);
	td_usage_settle(&u);
	assert_int_equal(u.n, 2);
	assert_float_equal(u.v[0].sum.gpu, 5000, 0);
}

static void who_may_see(void **state)
{
	td_auto_strv struct td_strv leads = {0};
	td_strv_add(&leads, "physics");
	const struct td_usage_viewer ann = {.user = "ann"}, boss = {.user = "ann", .leads = &leads},
				     root = {.user = "ann", .all = true};
	assert_true(td_usage_may(&ann, "chem", "ann"));
	assert_false(td_usage_may(&ann, "physics", "bob"));
	assert_true(td_usage_may(&boss, "physics", "bob"));
	assert_false(td_usage_may(&boss, "chem", "bob"));
	assert_true(td_usage_may(&root, "chem", "bob"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(days),
		cmocka_unit_test(what_goes_on_waits_or_is_lost),
		cmocka_unit_test(many),
		cmocka_unit_test(who_may_see),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
