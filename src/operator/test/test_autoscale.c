// What asks Kubernetes for a machine, and which NodeSets may.
// rows: A4.5
#include "api/test/testlib.h"
#include "operator/nodeset.h"

static const char set_text[] =
	"metadata: {name: cloud, namespace: slurm, uid: s1}\n"
	"spec: {clusterName: main, nodeSelector: {pool: gpu}, tolerations: [{key: nvidia.com/gpu, operator: Exists}], "
	"autoscale: {min: 1, max: 4}}\n";

static void a_pod_of_the_shape_of_a_node(void **state)
{
	td_auto(td_object_unref) struct td_object *sc = td_object_new(Y(
		"metadata: {name: main, namespace: slurm, uid: c1}\nspec: {devices: [{resource: nvidia.com/gpu}]}\n"));
	td_auto(td_object_unref) struct td_object *set = td_object_new(Y(set_text)),
						  *node = td_object_new(Y("metadata: {name: n0}\n"));
	struct td_op op = {.image = "tandem:1"};
	const struct td_op_pass p = {.op = &op, .sc = sc, .ns = "slurm", .cluster = "main"};
	const struct td_op_wish wish = {0};
	struct td_op_row row = {.node = node, .want = &wish, .share = {15, 31744, 8}};
	const struct td_op_rows none = {0}, rows = {.v = &row, .n = 1};
	td_auto(td_json_unref) struct td_json *pod = td_op_wanted_pod(&p, set, &rows, 2);
	const yyjson_val *o = td_json_root(pod), *r = td_jget(o, "spec.containers.[0].resources");
	assert_string_equal(td_jstr(o, "metadata.name"), "main-cloud-wanted-2");
	assert_string_equal(td_jkey_str(td_jget(r, "requests"), "cpu"), "15");
	assert_string_equal(td_jkey_str(td_jget(r, "requests"), "memory"), "31744Mi");
	assert_string_equal(td_jkey_str(td_jget(r, "requests"), "nvidia.com/gpu"), "8");
	assert_string_equal(td_jkey_str(td_jget(r, "limits"), "nvidia.com/gpu"), "8");
	assert_string_equal(td_jstr(o, "spec.nodeSelector.pool"), "gpu");
	assert_string_equal(td_jstr(td_jget(o, "spec.tolerations.[2]"), "key"), "nvidia.com/gpu");
	assert_null(td_jget(o, "spec.schedulerName")); // kube-scheduler's word counts
	assert_string_equal(td_jstr(td_jget(o, "metadata.ownerReferences.[0]"), "uid"), "s1");
	yyjson_val *apart = td_jget(o, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution");
	assert_int_equal(yyjson_arr_size(apart), 2);
	assert_string_equal(td_jstr(o, "spec.priorityClassName"), "tandem-wanted"); // it takes nobody's place

	op.image = NULL; // the embedded plane knows no such affinity
	td_auto(td_json_unref) struct td_json *plain = td_op_wanted_pod(&p, set, &none, 0);
	assert_null(td_jget(td_json_root(plain), "spec.affinity"));
	assert_string_equal(td_jkey_str(td_jget(td_json_root(plain), "spec.containers.[0].resources.requests"), "cpu"),
			    "1m"); // no shape is known
}

static void before_the_first_node_the_pod_has_the_size_that_is_said(void **state)
{
	td_auto(td_object_unref) struct td_object *sc = td_object_new(Y(
		"metadata: {name: main, namespace: slurm, uid: c1}\nspec: {devices: [{resource: nvidia.com/gpu}]}\n"));
	td_auto(td_object_unref) struct td_object *set = td_object_new(
		Y("metadata: {name: cloud, namespace: slurm, uid: s1}\nspec: {clusterName: main, nodeSelector: {pool: "
		  "gpu}, "
		  "autoscale: {min: 0, max: 4, node: {cpus: 60, memory: 900Gi, gres: \"gpu:h100:6,gpu:a100:2\"}}}\n"));
	struct td_op op = {.image = "tandem:1"};
	const struct td_op_pass p = {.op = &op, .sc = sc, .ns = "slurm", .cluster = "main"};
	const struct td_op_rows none = {0};
	td_auto(td_json_unref) struct td_json *pod = td_op_wanted_pod(&p, set, &none, 0);
	const yyjson_val *r = td_jget(td_json_root(pod), "spec.containers.[0].resources");
	assert_string_equal(td_jkey_str(td_jget(r, "requests"), "cpu"), "60");
	assert_string_equal(td_jkey_str(td_jget(r, "requests"), "memory"), "921600Mi");
	assert_string_equal(td_jkey_str(td_jget(r, "limits"), "nvidia.com/gpu"), "8");
}

static void what_cannot_be_beside_it(void **state)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
		{"nodeSelector: {a: b}, autoscale: {max: 4}", NULL},
		{"nodeSelector: {a: b}, replicas: 3", NULL},
		{"nodeSelector: {a: b}, autoscale: {max: 4}, replicas: 3",
		 "spec.autoscale: cannot be beside spec.replicas"},
		{"nodeSelector: {a: b}, autoscale: {max: 4}, onDemand: {}",
		 "spec.autoscale: cannot be beside spec.onDemand"},
		{"nodeSelector: {a: b}, autoscale: {min: 5, max: 4}",
		 "spec.autoscale.max: 4 is less than min, which is 5"},
		{"nodeSelector: {a: b}, autoscale: {min: 0, max: 4}",
		 "spec.autoscale.min: 0 needs spec.autoscale.node"},
		{"nodeSelector: {a: b}, autoscale: {min: 0, max: 4, node: {cpus: 2, memory: 2Gi}}", NULL},
		{"autoscale: {max: 4}", "spec.autoscale: needs spec.nodeSelector"},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *text = td_asprintf("spec: {%s}\n", cases[i].spec);
		td_auto(td_json_unref) struct td_json *set = Y(text);
		td_auto_strv struct td_strv problems = {0};
		td_op_autoscale_check(td_json_root(set), &problems);
		assert_int_equal(problems.n, cases[i].says != NULL);
		if (cases[i].says)
			assert_true(td_starts(problems.v[0], cases[i].says));
	}
}

static void a_machine_that_is_taken_away(void **state)
{
	static const struct {
		const char *taint;
		bool doomed;
	} cases[] = {{"ToBeDeletedByClusterAutoscaler", true},
		     {"karpenter.sh/disrupted", true},
		     {"DeletionCandidateOfClusterAutoscaler", false}}; // it may stay
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *text =
			td_asprintf("spec: {taints: [{key: a}, {key: %s, effect: NoSchedule}]}\n", cases[i].taint);
		td_auto(td_json_unref) struct td_json *node = Y(text);
		assert_int_equal(td_op_doomed(td_json_root(node)), cases[i].doomed);
	}
}

// Two requests of the bridge's and no others; what another NodeSet may have is nothing of this one's.
static void a_deleted_node_is_there_while_somebody_empties_it(void **state)
{
	static const struct {
		const char *meta;
		bool there;
	} cases[] = {
		{"{name: n0}", true},
		{"{name: n0, finalizers: [karpenter.sh/termination]}", true},
		{"{name: n0, deletionTimestamp: \"2026-01-01T00:00:00Z\", finalizers: [karpenter.sh/termination]}",
		 true},
		{"{name: n0, deletionTimestamp: \"2026-01-01T00:00:00Z\"}", false},
		{"{name: n0, deletionTimestamp: \"2026-01-01T00:00:00Z\", finalizers: [foregroundDeletion]}", false},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *text = td_asprintf("metadata: %s\n", cases[i].meta);
		td_auto(td_object_unref) struct td_object *node = td_object_new(Y(text));
		assert_int_equal(td_op_node_is_there(node), cases[i].there);
	}
}

static void what_is_wanted_of_it(void **state)
{
	td_auto(td_object_unref) struct td_object *sc =
		td_object_new(Y("metadata: {name: main}\nstatus: {wanted: [{nodeSet: other, nodes: 4, reason: x}, "
				"{nodeSet: cloud, nodes: "
				"3, reason: job 7 of alice waits for room}]}\n"));
	td_auto(td_object_unref) struct td_object *set = td_object_new(Y(set_text));
	const struct td_op_pass p = {.sc = sc};
	struct td_pool_policy policy = {.replicas = -1, .view = true};
	struct td_op_scale s = {0};
	td_op_autoscale_decide(&p, set, NULL, 0, &policy, &s);
	assert_int_equal(policy.replicas, 3);
	assert_int_equal(s.machines, 3);
	assert_string_equal(s.why, "job 7 of alice waits for room");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct td_pool_set_conditions c = {0};
	char text[256];
	td_op_autoscale_status(&s, d, yyjson_mut_doc_get_root(d), &c, text, sizeof(text));
	assert_string_equal(c.v[0].status, "True");
	assert_string_equal(c.v[0].reason, "JobsWait");
	assert_string_equal(c.v[0].message, "3 machines are asked for: job 7 of alice waits for room");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_of_the_shape_of_a_node),
		cmocka_unit_test(before_the_first_node_the_pod_has_the_size_that_is_said),
		cmocka_unit_test(what_cannot_be_beside_it),
		cmocka_unit_test(a_machine_that_is_taken_away),
		cmocka_unit_test(a_deleted_node_is_there_while_somebody_empties_it),
		cmocka_unit_test(what_is_wanted_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
