// Resource groups: who may use which, and where jobs go.
// rows: C8.1 C8.2
#include "pool/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const fast[] = {"fast"}, *const both[] = {"old", "fast"}, *const ann[] = {"ann"};

static void test_what_is_granted_is_inherited(void **state)
{
	const struct td_pool_group_tenant t[] = {
		{"science", NULL, "sci", both, 2},
		{"physics", "science", "physics", fast, 1},
		{"optics", "physics", "optics", NULL, 0},
		{"arts", NULL, "arts", NULL, 0},
		{"new", "science", NULL, fast, 1},
		{"a", "b", "a", fast, 1},
		{"b", "a", "b", NULL, 0},
	};
	static const char *const want[][2] = {{"fast", "a"},       {"fast", "b"},   {"fast", "optics"},
					      {"fast", "physics"}, {"fast", "sci"}, {"old", "optics"},
					      {"old", "physics"},  {"old", "sci"}};
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	const struct td_pool_grant *v;
	size_t n = td_pool_grants(arena, t, TD_LEN(t), &v);
	assert_int_equal(n, TD_LEN(want));
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(v[i].group, want[i][0]);
		assert_string_equal(v[i].account, want[i][1]);
	}
	assert_int_equal(td_pool_grants(arena, NULL, 0, &v), 0);
}

static void test_routes(void **state)
{
	const struct td_pool_group groups[] = {{"fast", ann, 1}, {"old", NULL, 0}};
	const struct td_pool_grant grants[] = {{"fast", "physics"}, {"old", "physics"}, {"old", "arts"}};
	const struct td_pool_groups g = {groups, 2, grants, 3};
	const struct {
		struct td_pool_group_ask a;
		const char *to, *refused;
	} rows[] = {
		{{NULL, "all", "physics", "bob"}, "fast,old,all", NULL},
		{{NULL, "all", "arts", "bob"}, "old,all", NULL},
		{{NULL, "all", "arts", "ann"}, "fast,old,all", NULL},
		{{NULL, "all", "open", "bob"}, "all", NULL},
		{{NULL, NULL, "open", "bob"}, NULL, NULL},
		{{NULL, NULL, "arts", "bob"}, "old", NULL},
		{{"fast", "all", "PHYSICS", "bob"}, "fast", NULL},
		{{"all,fast", "all", "arts", "bob"}, NULL, "fast"},
		{{"fast", "all", NULL, NULL}, NULL, "fast"},
		{{"all", "all", "arts", "bob"}, "all", NULL},
		{{NULL, "old", "open", "bob"}, "old", NULL},
		{{NULL, "fast", "arts", "bob"}, "old", NULL},
	};
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		const char *refused, *to = td_pool_group_route(arena, &g, &rows[i].a, &refused);
		if (!td_streq(to, rows[i].to) || !td_streq(refused, rows[i].refused))
			fail_msg("row %zu: %s, refused %s", i, to ? to : "-", refused ? refused : "-");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_granted_is_inherited),
					   cmocka_unit_test(test_routes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
