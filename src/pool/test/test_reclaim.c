// The QOS of what Tenants hold within their quotas and beyond them.
// rows: C1.3 C1.5
#include "pool/reclaim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct td_pool_tres two[] = {{"gres/gpu", 2}}, three[] = {{"gres/gpu", 3}, {"cpu", 8}};
static const struct td_pool_tenant tenants[] = {
	{.name = "science", .account = "sci", .quota = three, .n_quota = 2},
	{.name = "physics", .account = "phys", .parent = "science", .quota = two, .n_quota = 1},
	{.name = "optics", .account = "optics", .parent = "physics"},
	{.name = "free", .account = "free"},
};
static const bool valid[] = {true, true, true, true};
static const char *const normal[] = {"normal", "urgent"};
static const struct td_pool_reclaim on = {true, 30, 600, "mark", normal, 2}, off = {false, 0, 0, "mark", normal, 2};

static void test_names(void **state)
{
	size_t n;
	assert_int_equal(td_pool_reclaim_of("a.b.quota", &n), TD_RECLAIM_QUOTA);
	assert_int_equal(n, 3);
	assert_int_equal(td_pool_reclaim_of("A.Borrowed", &n), TD_RECLAIM_BORROWED);
	assert_int_equal(td_pool_reclaim_of(".quota", &n), TD_RECLAIM_NONE);
	assert_int_equal(td_pool_reclaim_of(NULL, &n), TD_RECLAIM_NONE);
	assert_true(td_pool_reclaim_preempts("a.quota", "b.borrowed"));
	assert_true(td_pool_reclaim_preempts("a.quota", "ab.borrowed"));
	assert_false(td_pool_reclaim_preempts("a.quota", "A.borrowed")); // nobody loses work to himself
	assert_false(td_pool_reclaim_preempts("a.quota", "b.quota"));
	assert_false(td_pool_reclaim_preempts("a.borrowed", "b.borrowed"));
	assert_false(td_pool_reclaim_preempts("a.quota", "normal"));
}

static void test_whose_quota(void **state)
{
	assert_string_equal(td_pool_reclaim_account(tenants, 4, 1, &on), "phys");
	assert_string_equal(td_pool_reclaim_account(tenants, 4, 2, &on), "phys"); // that of the one above it
	assert_null(td_pool_reclaim_account(tenants, 4, 3, &on));
	assert_null(td_pool_reclaim_account(tenants, 4, 1, &off));
}

static void test_rows(void **state)
{
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	struct td_pool_reclaim_rows live = {0}, r = td_pool_reclaim_diff(arena, tenants, 4, valid, &on, &live);
	assert_int_equal(r.n, 4);
	assert_string_equal(r.v[0].name, "phys.borrowed"); // before those that preempt it
	assert_int_equal(r.v[0].grace_s, 30);
	assert_int_equal(r.v[0].exempt_s, 600);
	assert_string_equal(r.v[2].name, "sci.quota");
	assert_int_equal(r.v[2].n_preempts, 1);
	assert_string_equal(r.v[2].preempts[0], "phys.borrowed");
	assert_int_equal(r.v[3].grp[0].count, 2);
	// A limit of the QOS stands for the account's, so what a Federation leaves is there, too.
	struct td_pool_tenant capped[] = {tenants[0]};
	capped[0].capped = true;
	capped[0].gpus = 1;
	const struct td_pool_reclaim_rows c = td_pool_reclaim_diff(arena, capped, 1, valid, &on, &live);
	assert_int_equal(c.v[1].grp[0].count, 1);
	assert_int_equal(c.v[1].grp[1].count, 8);

	live = r; // as they are now
	r = td_pool_reclaim_diff(arena, tenants, 4, valid, &on, &live);
	assert_int_equal(r.n, 0);

	const struct td_pool_tres more[] = {{"gres/gpu", 2}, {"mem", 5}};
	live.v[3].grp = more;
	live.v[3].n_grp = 2;
	r = td_pool_reclaim_diff(arena, tenants, 4, valid, &on, &live);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.v[0].n_grp, 2); // and the limit that nobody wants is lifted
	assert_int_equal(r.v[0].grp[1].count, -1);

	live.v[0].mark = "somebody's";
	r = td_pool_reclaim_diff(arena, tenants, 4, valid, &on, &live);
	assert_string_equal(r.foreign, "phys.borrowed");

	live.v[0].mark = "mark"; // turned off: they preempt and limit nobody
	r = td_pool_reclaim_diff(arena, tenants, 4, valid, &off, &live);
	assert_int_equal(r.n, 4);
	for (size_t i = 0; i < r.n; i++) {
		assert_int_equal(r.v[i].n_preempts + (size_t)r.v[i].grace_s, 0);
		for (size_t k = 0; k < r.v[i].n_grp; k++)
			assert_int_equal(r.v[i].grp[k].count, -1);
	}
}

static void test_allowed(void **state)
{
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	const char *const had[] = {"normal", "theirs", "phys.quota", "phys.borrowed"}, *const * v;
	const char *def;
	struct td_pool_assoc have = {.qos = had, .n_qos = 4, .default_qos = "phys.quota"};
	size_t n = td_pool_reclaim_allowed(arena, "sci", &on, &have, &v, &def);
	static const char *const want[] = {"sci.quota", "sci.borrowed", "normal", "urgent", "theirs"};
	assert_int_equal(n, 5);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(v[i], want[i]);
	assert_string_equal(def, "sci.quota");

	have = (struct td_pool_assoc){.qos = v, .n_qos = n, .default_qos = def};
	td_pool_reclaim_allowed(arena, "sci", &on, &have, &v, &def);
	assert_null(v); // nothing to write

	n = td_pool_reclaim_allowed(arena, NULL, &off, &have, &v, &def);
	assert_int_equal(n, 3);
	assert_string_equal(v[2], "theirs");
	assert_string_equal(def, "");
	have.default_qos = "theirs";
	td_pool_reclaim_allowed(arena, NULL, &off, &have, &v, &def);
	assert_null(v); // it was never ours
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_whose_quota),
					   cmocka_unit_test(test_rows), cmocka_unit_test(test_allowed)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
