// What programs/quota.sh and programs/usage.sh print, added up.
// rows: C10.4
#include "cli/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_lines(void **state)
{
	td_auto_ledger struct td_ledger l = {0};
	assert_int_equal(td_ledger_read("physics|R|gres/gpu|3\n|P|cpu|0\n", 1, &l), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].key[0], "physics");
	assert_string_equal(l.v[0].key[2], "gres/gpu");
	assert_true(l.v[0].sum[0] == 3);
	assert_string_equal(l.v[1].key[0], ""); // no account
}

static void test_other_lines_are_counted(void **state)
{
	td_auto_ledger struct td_ledger l = {0};
	assert_int_equal(
		td_ledger_read("a|b|1|2|3|4\nslurm_load_jobs error\na|b|c|1|2\na|b|c|1|2|-3\na|b|c|1|2|3|4\n", 3, &l),
		4);
	assert_int_equal(l.n, 1);
	assert_true(l.v[0].sum[2] == 4);
}

static void test_sums(void **state)
{
	td_auto_ledger struct td_ledger l = {0};
	td_ledger_at(&l, "b")->sum[0] += 1;
	td_ledger_at(&l, "a")->sum[0] += 2;
	td_ledger_at(&l, "b")->sum[0] += 3;
	td_ledger_sort(&l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].key[0], "a");
	assert_true(l.v[1].sum[0] == 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_other_lines_are_counted),
					   cmocka_unit_test(test_sums)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
