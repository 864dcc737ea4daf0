// rows: B3.7
// Tests of several idle nodes: who comes ends one, nothing is begun twice, and what came of one that was ended counts as that.
#include "gate/rings.h"

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

static const char *const names[] = {"n0", "n1", "n2"};
static const char config[] =
	"{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, "
	"user: {token: x}}], clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]}";
#define WITH(name)                                                                                                     \
	"\"" TD_ANN_PROBE_TOGETHER "\": \"{\\\"id\\\": \\\"ab1\\\", \\\"kib\\\": 1024, \\\"leastMBps\\\": 7, "         \
	"\\\"nodes\\\": [\\\"n0\\\", \\\"" name "\\\"]}\""
#define WANTED WITH("n2")

static void look(struct td_gate_rings *r, int node, const char *annotations)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\": {\"name\": \"%s\", \"annotations\": {%s}}}", names[node], annotations);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	td_auto(td_object_unref) struct td_object *o = td_object_new(j);
	td_gate_rings_on_node(r, node, o);
}

static double told(const char *result)
{
	return td_metric_get(
		td_counter(td_metrics_process(), "tandem_idle_exchanges_total", "", TD_LABELS("node", "result")),
		TD_LABELS("n0", result));
}

static int said(struct td_gate_rings *r, const char *state)
{
	struct td_error e = TD_ERROR_INIT;
	struct td_gate_request q;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_auto_free char *line = td_asprintf("rung node=n0 devices=- id=ab1 state=%s mbps=12 why=n0_and_n2", state);
	assert_int_equal(td_gate_parse(line, "n0", 8, &q, &e), 0);
	assert_true(q.rung && q.mbps == 12);
	td_cancel_fire(c); // no API is there
	return td_gate_rings_said(r, 0, &q, c, &e);
}

static void who_comes_ends_it(void **state)
{
	char dir[] = "/tmp/td-rings-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *path = td_asprintf("%s/kubeconfig", dir);
	assert_int_equal(td_file_write(path, config, strlen(config), 0600, NULL), 0);
	td_auto(td_kube_free) struct td_kube *k = NULL;
	assert_int_equal(td_kube_new(path, &k, NULL), 0);
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, INT64_C(1764264600000));
	struct td_gate_rings *r = td_gate_rings_new(&(struct td_gate_rings_opts){k, &clock.clock, names, 3});
	assert_null(td_gate_rings_ask(r, 0));
	assert_int_equal(said(r, "on"), TD_CONFLICT); // nobody wants it
	// What is no name of a node would be another word to `watch`, or an option of scontrol's.
	static const char *const none[] = {WITH("n2 requeue=12:0"), WITH("n2,n1"), WITH("--all"), WITH("")};
	for (size_t i = 0; i < TD_LEN(none); i++) {
		look(r, 0, none[i]);
		assert_null(td_gate_rings_ask(r, 0));
	}
	look(r, 0, WANTED);
	td_auto_free char *ring = td_gate_rings_ask(r, 0), *later = NULL;
	assert_string_equal(ring, "ring=ab1:1024:7:0:n0,n2");
	assert_null(td_gate_rings_ask(r, 0)); // once
	assert_null(td_gate_rings_ask(r, 2));
	assert_int_equal(said(r, "on"), 0);
	td_gate_rings_arrive(r, 1); // none of them
	assert_int_equal(said(r, "on"), 0);
	td_gate_rings_arrive(r, 2);
	assert_int_equal(said(r, "on"), TD_CONFLICT);
	said(r, "failed");
	assert_true(told("ended") == 1 && told("failed") == 0);
	assert_int_equal(said(r, "passed"), TD_CONFLICT); // it is done once

	look(r, 0, ""); // taken back
	td_gate_rings_arrive(r, 0);
	look(r, 0, WANTED);
	assert_null(td_gate_rings_ask(r, 0)); // somebody has just come
	td_clock_manual_add(&clock, 3000);
	later = td_gate_rings_ask(r, 0);
	assert_non_null(later);
	look(r, 0, WANTED ", \"" TD_ANN_SLURM_JOBS "\": \"7\"");
	assert_int_equal(said(r, "on"), TD_CONFLICT);
	td_gate_rings_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_ends_it)};
	return cmocka_run_group_tests_name("gate rings", tests, NULL, NULL);
}
