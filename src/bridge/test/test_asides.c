// What is said of devices that are held one by one.
// rows: A17.4 B6.1
#include "bridge/syncer/aside_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BIT(device) ((uint64_t)1 << (device))

static void says(struct td_bridge *b, const char *want)
{
	td_auto_free char *text = td_aside_text(b, "n1");
	if (want)
		assert_string_equal(text, want);
	else
		assert_null(text);
}

// Whoever is told that a device is held resets it: root's job may hold it for a pod of another scheduler.
static void a_device_that_a_pod_has_is_not_said_to_be_held_for_nobody(void **state)
{
	struct td_bridge b = {.asides = td_asides_new()};
	struct td_aside_of *x = td_aside_of_locked(b.asides, "n1", true);
	says(&b, NULL);
	td_aside_add_locked(x, 7, &(struct td_pool_aside_job){3, 0}, 1);
	td_aside_add_locked(x, 8, &(struct td_pool_aside_job){5, 0}, 1);
	td_aside_wants(x, BIT(5), BIT(3));
	says(&b, "gpu5");
	// It is to leave service, and the pod has it still.
	td_aside_wants(x, BIT(3) | BIT(5), BIT(3));
	says(&b, "gpu5");
	td_aside_wants(x, BIT(3) | BIT(5), 0);
	says(&b, "gpu3,gpu5");
	td_aside_wants(x, BIT(5), BIT(3));
	says(&b, "gpu5");
	td_asides_free(b.asides);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(a_device_that_a_pod_has_is_not_said_to_be_held_for_nobody)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
