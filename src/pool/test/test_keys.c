// rows: A1.6 A1.7
// The steps in which keys are turned over.
#include "pool/keys.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void each_step_waits_for_all(void **state)
{
	static const struct {
		struct td_pool_keys_facts f;
		enum td_pool_keys next;
	} v[] = {
		{{.wanted = 1, .has = 1}, TD_KEYS_KEEP},
		{{.wanted = 1, .has = 2}, TD_KEYS_KEEP},
		{{.wanted = 3, .has = 1}, TD_KEYS_SPREAD},
		{{2, 2, TD_KEYS_SPREAD, 99, true, 100, 1000}, TD_KEYS_KEEP},
		{{2, 2, TD_KEYS_SPREAD, 100, true, 100, 1000}, TD_KEYS_USE},
		// A node that does not say that it has the new key would not believe the others.
		{{2, 2, TD_KEYS_SPREAD, 1 << 30, false, 100, 1000}, TD_KEYS_KEEP},
		{{2, 2, TD_KEYS_USE, 1099, true, 100, 1000}, TD_KEYS_KEEP},
		{{2, 2, TD_KEYS_USE, 1 << 30, false, 100, 1000}, TD_KEYS_KEEP},
		{{2, 2, TD_KEYS_USE, 1100, true, 100, 1000}, TD_KEYS_DROP},
		// A further one waits until this one is through.
		{{3, 2, TD_KEYS_SPREAD, 99, true, 100, 1000}, TD_KEYS_KEEP},
		{{3, 2, TD_KEYS_KEEP, 0, true, 100, 1000}, TD_KEYS_SPREAD},
	};
	for (size_t i = 0; i < TD_LEN(v); i++)
		assert_int_equal(td_pool_keys_next(&v[i].f), v[i].next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_step_waits_for_all)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
