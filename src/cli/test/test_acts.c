// rows: B2.4
// Lines of acts on Slurm's side.
#include "cli/acts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void a_line_has_five_parts_and_bars_in_the_last(void **state)
{
	char line[] = "1795650190|root|Node DRAIN|n1|the fan | again";
	struct td_cli_act a;
	assert_true(td_cli_act_read(line, &a));
	assert_int_equal(a.time, 1795650190);
	assert_string_equal(a.who, "root");
	assert_string_equal(a.what, "Node DRAIN");
	assert_string_equal(a.on, "n1");
	assert_string_equal(a.more, "the fan | again");
}

static void what_is_no_line_is_none(void **state)
{
	const char *const bad[] = {
		"", "sacctmgr: error: no answer", "1|a|b|c", "x|a|b|c|d", "-1|a|b|c|d", "1||b|c|d", "1|a||c|d"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char line[64];
		struct td_cli_act a;
		snprintf(line, sizeof(line), "%s", bad[i]);
		assert_false(td_cli_act_read(line, &a));
	}
	char empty[] = "5|a|b||";
	struct td_cli_act a;
	assert_true(td_cli_act_read(empty, &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_five_parts_and_bars_in_the_last),
		cmocka_unit_test(what_is_no_line_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
