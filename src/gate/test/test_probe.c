// rows: B3.7
// Tests of idle nodes: whoever comes ends one before he goes on, and what was asked before an agent began is not done.
#include "gate/probe.h"

#include "base/file.h"
#include "base/names.h"
#include "kube/kube.h"
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const name = "n0";
static const char config[] =
	"{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, "
	"user: {token: x}}], clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]}";

static int none(void *ctx, int node)
{
	return 0; // no devices: memory and disk are measured
}

static struct td_object *node_with(const char *annotation)
{
	td_auto_free char *text = td_asprintf("{\"metadata\": {\"name\": \"n0\", \"annotations\": {%s}}}", annotation);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_object_new(j);
}

static void look(struct td_gate_probes *p, const char *annotation)
{
	td_auto(td_object_unref) struct td_object *o = node_with(annotation);
	td_gate_probes_on_node(p, 0, o);
}

#define ASKED(id) "\"" TD_ANN_PROBE "\": \"{\\\"id\\\": \\\"" id "\\\", \\\"milliseconds\\\": 1}\""

static double told(const char *result)
{
	return td_metric_get(
		td_counter(td_metrics_process(), "tandem_idle_tests_total", "", TD_LABELS("node", "result")),
		TD_LABELS(name, result));
}

static void who_comes_ends_it_and_what_was_asked_before_is_not_done(void **state)
{
	char dir[] = "/tmp/td-probe-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *path = td_asprintf("%s/kubeconfig", dir);
	assert_int_equal(td_file_write(path, config, strlen(config), 0600, NULL), 0);
	td_auto(td_kube_free) struct td_kube *k = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_kube_new(path, &k, &e))
		fail_msg("%s", e.msg);
	struct td_informer *nodes = td_informer_new(k, &(struct td_informer_opts){.resource = &td_nodes});
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, INT64_C(1764264600000));
	const struct td_gate_probes_opts o = {.kube = k,
					      .nodes = nodes,
					      .clock = &clock.clock,
					      .state = dir,
					      .names = &name,
					      .n = 1,
					      .devices = none};
	// Of an agent before this one.
	struct td_gate_probes *p = td_gate_probes_new(&o);
	look(p, ASKED("a"));
	td_gate_probes_free(p); // waits for its thread
	assert_true(told("ended") == 1 && told("passed") == 0);

	p = td_gate_probes_new(&o);
	look(p, "");
	look(p, ASKED("b"));
	while (!td_gate_probes_arrive(p, 0))
		;
	look(p, ASKED("b")); // once
	look(p, ASKED("c")); // asked before the bridge had said that somebody came
	td_gate_probes_free(p);
	double passed = told("passed"); // on a busy machine b was quicker
	assert_true(told("ended") + passed == 3 && passed <= 1);

	p = td_gate_probes_new(&o);
	look(p, "");
	look(p, "\"" TD_ANN_SLURM_JOBS "\": \"7\", " ASKED("d"));
	look(p, ASKED("d")); // the job has ended since: too late
	td_gate_probes_free(p);
	assert_true(told("ended") + passed == 4 && told("passed") == passed);

	p = td_gate_probes_new(&o);
	look(p, "");
	assert_true(td_gate_probes_arrive(p, 0));
	td_clock_manual_add(&clock, 5000);
	look(p, ASKED("e"));
	while (told("passed") == passed && !told("error"))
		td_cancel_wait(NULL, 5);
	td_gate_probes_free(p);
	assert_true(told("passed") == passed + 1);
	td_informer_free(nodes);
	td_rm_rf(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_ends_it_and_what_was_asked_before_is_not_done)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
