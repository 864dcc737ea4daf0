// How many executors a Spark application has, and how much memory Spark asks for each.
// rows: A8.7
#include "pool/spark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		char unit;
		int64_t mib;
	} v[] = {{"512m", 'm', 512},
		 {"4g", 'm', 4096},
		 {"4GB", 'm', 4096},
		 {"1T", 'm', 1048576},
		 {"800", 'm', 800},
		 {"1048576", 'b', 1},
		 {"1048575b", 'm', 0},
		 {"2047k", 'm', 1},
		 {" 3g ", 'm', 3072},
		 {"", 'm', -1},
		 {"m", 'm', -1},
		 {"4gm", 'm', -1},
		 {"4Gi", 'm', -1}, // Kubernetes' way of writing it: Spark refuses it
		 {"-4g", 'm', -1},
		 {"1.5g", 'm', -1},
		 {"4 g", 'm', -1},
		 {"999999999999999p", 'm', -1},
		 {"99999999999999999999", 'm', -1}};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (td_pool_spark_mib(v[i].text, v[i].unit) != v[i].mib)
			fail_msg("%s is %lld", v[i].text, (long long)td_pool_spark_mib(v[i].text, v[i].unit));
	assert_int_equal(td_pool_spark_millionths("0.4"), 400000);
	assert_int_equal(td_pool_spark_millionths("1"), 1000000);
	assert_int_equal(td_pool_spark_millionths(".25"), 250000);
	assert_int_equal(td_pool_spark_millionths("0.12345678"), 123456);
	assert_int_equal(td_pool_spark_millionths("0.1x"), -1);
	assert_int_equal(td_pool_spark_millionths("much"), -1);
	assert_int_equal(td_pool_spark_millionths("99999"), -1);
}

#define NONE .heap = -1, .overhead = -1, .least_overhead = -1, .millionths = -1, .off_heap = -1, .python = -1

// What Spark 4.0.1's client and driver wrote for these was looked at (t/test_spark.py has 512m of Python: 896 MiB).
static void test_memory(void **state)
{
	struct td_pool_spark_memory m = {NONE};
	assert_int_equal(td_pool_spark_memory(&m), 1024 + 384);
	m.heap = 8192;
	assert_int_equal(td_pool_spark_memory(&m), 8192 + 819);
	m.script = true;
	assert_int_equal(td_pool_spark_memory(&m), 8192 + 3276);
	m.heap = 512;
	assert_int_equal(td_pool_spark_memory(&m), 512 + 384);
	m.least_overhead = 100;
	assert_int_equal(td_pool_spark_memory(&m), 512 + 204);
	m.overhead = 64;
	m.off_heap = 1000;
	m.python = 10;
	assert_int_equal(td_pool_spark_memory(&m), 512 + 64 + 1000 + 10);
	m = (struct td_pool_spark_memory){NONE};
	m.heap = (int64_t)1 << 40;
	m.millionths = 1000000000;
	assert_true(td_pool_spark_memory(&m) > m.heap); // nothing is beyond what is counted
}

static void test_counts(void **state)
{
	struct td_pool_spark_counts c = {.instances = -1, .min = -1, .max = -1};
	struct td_pool_spark_gang g = td_pool_spark_gang(&c, 100);
	assert_true(g.places == 2 && g.most == 2);
	c.instances = 8;
	g = td_pool_spark_gang(&c, 100);
	assert_true(g.places == 8 && g.most == 8);
	c.dynamic = true; // the instances are how many it begins with
	g = td_pool_spark_gang(&c, 100);
	assert_true(g.places == 0 && g.most == 100);
	c.min = 3;
	c.max = 5;
	g = td_pool_spark_gang(&c, 100);
	assert_true(g.places == 3 && g.most == 5);
	c.max = 1; // Spark refuses it
	g = td_pool_spark_gang(&c, 100);
	assert_true(g.places == 3 && g.most == 3);
	c.max = 1000;
	g = td_pool_spark_gang(&c, 100);
	assert_true(g.most == 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_memory),
					   cmocka_unit_test(test_counts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
