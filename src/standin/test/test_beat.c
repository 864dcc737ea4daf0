// rows: B6.4
// What a rank may say of its last step.
#include "standin/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void what_is_said_well(void **state)
{
	struct standin_beat b;
	assert_true(td_standin_beat("12 1.5 n0\n", &b));
	assert_true(b.step == 12 && b.us == 1500000 && b.gpu == -1);
	assert_string_equal(b.node, "n0");
	assert_true(td_standin_beat("0 5e-05 gpu-node.example_1 7\nand more\n", &b));
	assert_true(b.step == 0 && b.us == 50 && b.gpu == 7);
	assert_true(td_standin_beat("999999999999999 1000000 n 63\n", &b));
	assert_true(b.us == 1000000000000);
}

static void what_is_not(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"12\n",
		"12 1.5\n",
		"12 1.5 \n",
		"12 1.5 n0",
		"12 1.5 n0 ",
		"12 1.5 n0 1",
		"12 1.5 n0 x\n",
		"12 1.5 n0 123\n",
		"-1 1.5 n0\n",
		"12 -1.5 n0\n",
		"12 nan n0\n",
		"12 inf n0\n",
		"12 1e9 n0\n",
		"12 1.5 n0;reboot\n",
		"12 1.5 ../n0\n",
		"12 1.5 n0 1 2\n",
		"12  1.5 n0\n",
		"12\t1.5 n0\n",
		"x 1.5 n0\n",
		" 12 1.5 n0\n",
		"12 .5 n0\n",
		"12 1.5x n0\n",
		"1234567890123456 1 n\n",
		"12 1e999 n0\n",
		"12 1.5 n0\r\n",
		"12 1.5 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct standin_beat b;
		if (td_standin_beat(bad[i], &b))
			fail_msg("\"%s\" is taken", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_well),
		cmocka_unit_test(what_is_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
