// When a pod is said to be ready, and how long that took it.
// rows: A19.5
#include "bridge/ready.h"

#include "base/clock.h"
#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { T0 = 1800000000 };

// A pod that was created at T0, in that phase. ready NULL: nothing is said of it.
static struct td_object *pod(const char *uid, const char *phase, const char *ready)
{
	char t[TD_TIME_LEN];
	td_auto_free char *s = td_asprintf(
		"{\"metadata\":{\"name\":\"p\",\"namespace\":\"a\",\"uid\":\"%s\",\"resourceVersion\":\"1\","
		"\"creationTimestamp\":\"%s\"},\"status\":{\"phase\":\"%s\",\"conditions\":[%s%s%s]}}",
		uid, td_time_format(T0 * 1000LL, t), phase, ready ? "{\"type\":\"Ready\",\"status\":\"" : "",
		ready ? ready : "", ready ? "\"}" : "");
	return td_object_new(given_json(s));
}

static void test_once(void **state)
{
	td_auto(td_readies_free) struct td_readies *r = td_readies_new();
	td_auto(td_object_unref) struct td_object *made = pod("u", "Pending", NULL),
						  *runs = pod("u", "Running", "False"),
						  *ready = pod("u", "Running", "True");

	// Seen 300 ms after the second in which it was created.
	assert_int_equal(td_readies_look(r, NULL, made, T0 * 1000LL + 300), -1);
	assert_int_equal(td_readies_look(r, made, runs, T0 * 1000LL + 900), -1);
	assert_int_equal(td_readies_look(r, runs, ready, T0 * 1000LL + 4300), 4000);
	// It is not ready for a while, and ready again.
	assert_int_equal(td_readies_look(r, ready, runs, T0 * 1000LL + 5000), -1);
	assert_int_equal(td_readies_look(r, runs, ready, T0 * 1000LL + 60000), -1);
}

static void test_seen_late(void **state)
{
	td_auto(td_readies_free) struct td_readies *r = td_readies_new();
	td_auto(td_object_unref) struct td_object *waits = pod("a", "Pending", NULL),
						  *runs = pod("b", "Running", "False"),
						  *ready_a = pod("a", "Running", "True"),
						  *ready_b = pod("b", "Running", "True");

	// A bridge that has just begun: who waits is measured from his creation; who runs may have been ready.
	assert_int_equal(td_readies_look(r, NULL, waits, T0 * 1000LL + 50000), -1);
	assert_int_equal(td_readies_look(r, NULL, runs, T0 * 1000LL + 50000), -1);
	assert_int_equal(td_readies_look(r, waits, ready_a, T0 * 1000LL + 60000), 60000);
	assert_int_equal(td_readies_look(r, runs, ready_b, T0 * 1000LL + 60000), -1);
}

static void test_another_of_its_name(void **state)
{
	td_auto(td_readies_free) struct td_readies *r = td_readies_new();
	td_auto(td_object_unref) struct td_object *first = pod("a", "Running", "True"),
						  *next = pod("b", "Pending", NULL),
						  *ready = pod("b", "Running", "True");

	assert_int_equal(td_readies_look(r, NULL, first, T0 * 1000LL), -1);
	assert_int_equal(td_readies_look(r, first, next, T0 * 1000LL), -1);
	assert_int_equal(td_readies_look(r, next, ready, T0 * 1000LL + 1000), 1000);
	assert_int_equal(td_readies_look(r, ready, NULL, T0 * 1000LL + 2000), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_seen_late),
		cmocka_unit_test(test_another_of_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
