// Devices that are out of service are no fault of their node.
// rows: B4.1
#include "gate/out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct td_object *node_with(const char *devices)
{
	td_auto_free char *text = td_asprintf("{\"metadata\":{\"name\":\"n1\",\"annotations\":{%s%s%s}}}",
					      devices ? "\"tandem.dev/devices-out\":\"" : "", devices ? devices : "",
					      devices ? "\"" : "");
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_object_new(j);
}

// The devices of what is left, "gpu3 - gpu5": - for the node's own.
static void leaves(const char *devices, const char *want)
{
	static const char *const of[] = {"gpu3", "", "gpu5", "ib0", "gpu3"};
	td_auto(td_object_unref) struct td_object *o = node_with(devices);
	struct td_checkup_findings l = {.n = TD_LEN(of)};
	char got[64] = "";
	for (size_t i = 0; i < l.n; i++)
		snprintf(l.v[i].device, sizeof(l.v[i].device), "%s", of[i]);
	td_out_findings(o, &l);
	for (size_t i = 0; i < l.n; i++) {
		strcat(got, i ? " " : "");
		strcat(got, *l.v[i].device ? l.v[i].device : "-");
	}
	assert_string_equal(got, want);
}

static void test_findings(void **state)
{
	leaves(NULL, "gpu3 - gpu5 ib0 gpu3");
	leaves("gpu1", "gpu3 - gpu5 ib0 gpu3");
	leaves("gpu3", "- gpu5 ib0");
	leaves("gpu5,gpu3", "- ib0");
	leaves("gpu3;", "gpu3 - gpu5 ib0 gpu3"); // what cannot be read takes nothing out
	struct td_checkup_findings l = {.n = 1};
	td_out_findings(NULL, &l);
	assert_int_equal(l.n, 1);
}

static void test_less(void **state)
{
	td_auto(td_object_unref) struct td_object *o = node_with("gpu3,gpu5");
	assert_int_equal(td_out_less(o, 8), 0);
	assert_int_equal(td_out_less(o, 40), 0);
	assert_int_equal(td_out_less(o, 9), 1);
	assert_int_equal(td_out_less(o, 0), 0);
	assert_int_equal(td_out_less(NULL, 8), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_findings), cmocka_unit_test(test_less)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
