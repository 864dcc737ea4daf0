// rows: B5.1
// Who is tested before he starts.
#include "pool/preflight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const train[] = {"train"}, *const high[] = {"high"}, *const ml[] = {"ml", "vision"},
			 *const every[] = {"*"};

static enum td_pool_preflight of(const struct td_pool_preflight_rule *r, const char *p, const char *q, const char *ns)
{
	const struct td_pool_preflight_job j = {p, q, ns};
	return td_pool_preflight(r, &j);
}

static void a_partition_a_qos_or_a_namespace_is_enough(void **state)
{
	const struct td_pool_preflight_rule r = {
		.partitions = train, .n_partitions = 1, .qos = high, .n_qos = 1, .namespaces = ml, .n_namespaces = 2};
	assert_int_equal(of(&r, "train", "low", NULL), TD_PREFLIGHT_YES);
	assert_int_equal(of(&r, "all", "high", NULL), TD_PREFLIGHT_YES);
	assert_int_equal(of(&r, "all", "low", "vision"), TD_PREFLIGHT_YES);
	assert_int_equal(of(&r, "all", "low", "web"), TD_PREFLIGHT_NO);
	assert_int_equal(of(&r, "all", "low", NULL), TD_PREFLIGHT_NO);
}

static void a_qos_that_is_not_known_is_asked_for_only_where_it_decides(void **state)
{
	const struct td_pool_preflight_rule r = {.partitions = train, .n_partitions = 1, .qos = high, .n_qos = 1},
					    none = {.partitions = train, .n_partitions = 1};
	assert_int_equal(of(&r, "all", NULL, NULL), TD_PREFLIGHT_QOS);
	assert_int_equal(of(&r, "train", NULL, NULL), TD_PREFLIGHT_YES);
	assert_int_equal(of(&none, "all", NULL, NULL), TD_PREFLIGHT_NO);
}

static void a_star_is_every_one(void **state)
{
	const struct td_pool_preflight_rule all = {.partitions = every, .n_partitions = 1},
					    pods = {.namespaces = every, .n_namespaces = 1}, none = {0};
	assert_int_equal(of(&all, NULL, NULL, NULL), TD_PREFLIGHT_YES);
	assert_int_equal(of(&pods, "all", NULL, NULL), TD_PREFLIGHT_NO);
	assert_int_equal(of(&pods, "all", NULL, "web"), TD_PREFLIGHT_YES);
	assert_int_equal(of(&none, "all", "high", "web"), TD_PREFLIGHT_NO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_partition_a_qos_or_a_namespace_is_enough),
		cmocka_unit_test(a_qos_that_is_not_known_is_asked_for_only_where_it_decides),
		cmocka_unit_test(a_star_is_every_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
