// rows: F2.1
// Of which Kubernetes the agents need a stronger right.
#include "cli/apply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool old(const char *text)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_cli_old_kubelets(td_json_root(j));
}

static void kubelets_before_1_33_are_old(void **state)
{
	assert_true(old("{\"major\":\"1\",\"minor\":\"32\",\"gitVersion\":\"v1.32.5\"}"));
	assert_true(old("{\"major\":\"1\",\"minor\":\"32+\"}"));
	assert_false(old("{\"major\":\"1\",\"minor\":\"33\"}"));
	assert_false(old("{\"major\":\"1\",\"minor\":\"36+\"}"));
	assert_false(old("{\"major\":\"2\",\"minor\":\"0\"}"));
	assert_false(old("{}")); // what does not say, is not called old
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kubelets_before_1_33_are_old),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
