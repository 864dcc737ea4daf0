// rows: A14.10 A19.5
// How much the devices of pods computed: what is written on the pod and when, and what is counted by service.
#include "gate/used.h"
#include "kube/service.h"
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_ever_more_seldom(void **state)
{
	assert_true(td_used_next_ms(0) == 5000 && td_used_next_ms(20000) == 5000);
	assert_true(td_used_next_ms(400000) == 100000);
	assert_true(td_used_next_ms(86400000) == 1800000);
	// What a pod of a day costs the API server.
	int writes = 0;
	for (int64_t at = 0; at < 86400000; at += td_used_next_ms(at))
		writes++;
	assert_in_range(writes, 20, 90);
}

static double of_service(const char *state)
{
	struct td_metric *m = td_counter(td_metrics_process(), "tandem_service_device_seconds_total", "",
					 TD_LABELS("namespace", "kind", "service", "state"));
	return td_metric_get(m, TD_LABELS("ml", "Deployment", "web", state));
}

static void test_by_service(void **state)
{
	static const char text[] =
		"{\"metadata\":{\"namespace\":\"ml\",\"name\":\"web-7d-x\",\"uid\":\"u-1\",\"resourceVersion\":\"1\","
		"\"labels\":{\"pod-template-hash\":\"7d\"},\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":"
		"\"web-7d\","
		"\"controller\":true}]},\"status\":{\"phase\":\"Running\"}}";
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, sizeof(text) - 1, &j, NULL), 0);
	td_auto(td_object_unref) struct td_object *o = td_object_new(j);
	struct td_object *v[] = {o};
	struct td_objects pods = {.v = v, .n = 1};
	const struct td_used_pass p = {NULL, &pods, &td_clock_system}; // too early to write anything
	td_used_add("u-1", &(const struct td_useful_part){.busy = 3, .idle = 1});
	td_used_add("u-2", &(const struct td_useful_part){.busy = 9}); // no pod of ours
	td_used_look(&p, NULL);
	td_used_add("u-1", &(const struct td_useful_part){.busy = 1, .unknown = 2});
	td_used_look(&p, NULL);
	td_used_look(&p, NULL);
	assert_true(of_service("busy") == 4 && of_service("idle") == 1 && of_service("unknown") == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ever_more_seldom), cmocka_unit_test(test_by_service)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
