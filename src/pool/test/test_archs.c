// rows: E2.1
// Which architectures the environment of a run is built for.
#include "pool/archs.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct td_archs_node nodes[] = {
	{"x86_64", "all,old", "h100,ib", "12.4"}, {"x86_64", "all", "h100", "12.10"}, {"", "all,new", NULL, "9.0"},
	{"aarch64", "all,new", "gh200", "13.0"},  {"aarch64", "new", "cpu", NULL},
};

// "x86_64 12.4 0, aarch64 - 1": architecture, CUDA, step.
static void is(const struct td_archs_step *steps, size_t n, const char *want)
{
	struct td_archs_build b[TD_ARCHS_MOST];
	td_auto_buf struct td_buf s = {0};
	size_t k = td_pool_archs(nodes, TD_LEN(nodes), steps, n, b);
	for (size_t i = 0; i < k; i++)
		td_buf_printf(&s, "%s%s %s %zu", i ? ", " : "", b[i].arch, b[i].cuda ? b[i].cuda : "-", b[i].step);
	assert_string_equal(td_buf_str(&s), want);
}
#define IS(want, ...)                                                                                                  \
	do {                                                                                                           \
		const struct td_archs_step s[] = {__VA_ARGS__};                                                        \
		is(s, TD_LEN(s), want);                                                                                \
	} while (0)

static void one_build_for_each_architecture_that_a_step_may_meet(void **state)
{
	IS("aarch64 13.0 0, x86_64 12.4 0", {0});
	IS("x86_64 12.4 0", {"old", NULL});
	IS("aarch64 13.0 0", {"new", NULL});
	IS("aarch64 13.0 1, x86_64 12.4 0", {"old", NULL}, {"new", NULL});
	IS("aarch64 13.0 0, x86_64 12.4 0", {"new,old", NULL});
	IS("x86_64 12.4 0", {NULL, "h100"});
	IS("x86_64 12.4 0", {"all", "ib&h100"});
	IS("aarch64 - 0", {NULL, "cpu"});
}

static void what_no_node_has_or_is_not_understood_leaves_nothing_out(void **state)
{
	IS("aarch64 13.0 0, x86_64 12.4 0", {"nosuch", NULL});
	IS("aarch64 13.0 0, x86_64 12.4 0", {NULL, "h100|gh200"});
	IS("x86_64 12.4 0", {"old", "gh200"});
	IS("aarch64 13.0 0, x86_64 12.4 0", {NULL, "h10"});
	struct td_archs_build b[TD_ARCHS_MOST];
	const struct td_archs_step any = {0};
	assert_int_equal(td_pool_archs(&nodes[2], 1, &any, 1, b), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_build_for_each_architecture_that_a_step_may_meet),
		cmocka_unit_test(what_no_node_has_or_is_not_understood_leaves_nothing_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
