// Unit tests of what a SlurmCluster gets besides Slurm: the installed template, filled in.
// rows: A2.1
#include "api/test/testlib.h"
#include "base/file.h"
#include "operator/operator.h"

// Returns the template of deploy/manifests, which is mounted into the operator's pod.
static char *installed(void)
{
	td_auto_free char *path = td_asprintf("%s/deploy/manifests/tandem.yaml", getenv("TD_SOURCE_ROOT"));
	td_auto_buf struct td_buf b = {0};
	struct td_error err = TD_ERROR_INIT;
	td_auto_json_list struct td_json_list l = {0};
	if (td_file_read(path, 4 << 20, &b, &err) || td_yaml_parse(td_buf_str(&b), b.len, &l, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < l.n; i++) {
		yyjson_val *v = td_json_root(l.v[i]);
		if (td_streq(td_jstr(v, "metadata.name"), "tandem-per-cluster"))
			return td_strdup(td_jkey_str(td_jget(v, "data"), "per-cluster.yaml"));
	}
	fail_msg("no ConfigMap tandem-per-cluster");
	return NULL;
}

#define CLUSTER "metadata: {name: main, namespace: slurm, uid: u1}\n"
#define KEY "jwt_hs256.key: c2VjcmV0\n"

static int make(const char *text, const char *sc, const char *key, const char *image, struct td_op_wants *ret,
		struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *c = Y(sc), *k = Y(key);
	return td_op_per_cluster_objects(text, td_json_root(c), "tandem-system", image, td_json_root(k), ret, err);
}

static const char *revision(const struct td_op_wants *w, size_t i)
{
	return td_jkey_str(td_jget(td_json_root(w->v[i].obj), "metadata.annotations"), TD_ANN_REVISION);
}

static void test_objects(void **state)
{
	td_auto_free char *text = installed(), *name = td_op_bridge_name("slurm", "main");
	td_auto_wants struct td_op_wants w = {0}, again = {0}, image = {0}, key = {0}, odd = {0};
	struct td_error err = TD_ERROR_INIT;
	if (make(text, CLUSTER, KEY, "r/tandem:1", &w, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(w.n, 7);
	// The key comes first, because the Deployment mounts it. The Deployment comes last: when it
	// is in force, all objects are.
	assert_ptr_equal(w.v[0].gvr, &td_secrets);
	assert_string_equal(td_jkey_str(td_jget(td_json_root(w.v[0].obj), "data"), "jwt_hs256.key"), "c2VjcmV0");
	assert_ptr_equal(w.v[w.n - 1].gvr, &td_deployments);
	yyjson_val *d = td_json_root(w.v[w.n - 1].obj);
	assert_string_equal(td_jstr(d, "metadata.name"), name);
	assert_string_equal(td_jstr(d, "spec.template.spec.containers.[0].image"), "r/tandem:1");
	assert_string_equal(td_jstr(d, "spec.template.spec.containers.[0].args.[1]"), "--namespace=slurm");
	assert_string_equal(td_jstr(d, "spec.template.spec.containers.[0].args.[2]"), "--cluster=main");
	assert_string_equal(td_jstr(d, "spec.template.spec.volumes.[0].secret.secretName"),
			    td_jstr(td_json_root(w.v[0].obj), "metadata.name"));
	for (size_t i = 0; i < w.n; i++) {
		yyjson_val *v = td_json_root(w.v[i].obj);
		bool own = td_streq(td_jstr(v, "metadata.namespace"), "tandem-system");
		assert_string_equal(td_jkey_str(td_jget(v, "metadata.labels"), TD_LABEL_CLUSTER), "main");
		assert_string_equal(td_jkey_str(td_jget(v, "metadata.labels"), TD_LABEL_CLUSTER_NS), "slurm");
		// Owners do not reach across namespaces.
		assert_true(own == !td_jget(v, "metadata.ownerReferences"));
		assert_string_equal(revision(&w, i), revision(&w, 0));
		td_auto_free char *all = td_json_text(v, NULL);
		static const char *const left[] = {"{cluster}", "{namespace}", "{name}", "{own-namespace}", "{image}"};
		for (size_t k = 0; k < TD_LEN(left); k++)
			assert_null(strstr(all, left[k]));
	}

	// A value stays a value, whatever text it has.
	assert_int_equal(make(text, CLUSTER, KEY, "a\"b: {name} [", &odd, &err), 0);
	assert_string_equal(td_jstr(td_json_root(odd.v[odd.n - 1].obj), "spec.template.spec.containers.[0].image"),
			    "a\"b: {name} [");

	// All have one revision, which changes with the image and with the key.
	assert_int_equal(make(text, CLUSTER, KEY, "r/tandem:1", &again, &err), 0);
	assert_int_equal(make(text, CLUSTER, KEY, "r/tandem:2", &image, &err), 0);
	assert_int_equal(make(text, CLUSTER, "jwt_hs256.key: b3RoZXI=\n", "r/tandem:1", &key, &err), 0);
	assert_string_equal(revision(&w, 0), revision(&again, 0));
	assert_string_not_equal(revision(&w, 0), revision(&image, 0));
	assert_string_not_equal(revision(&w, 0), revision(&key, 0));
}

// What somebody deleted, or put back as it was before, is not there.
static void test_what_is_there(void **state)
{
	td_auto_free char *text = installed();
	td_auto_wants struct td_op_wants w = {0};
	assert_int_equal(make(text, CLUSTER, KEY, "r/tandem:1", &w, NULL), 0);
	td_auto_objects struct td_objects live = {0};
	for (size_t i = 0; i < w.n; i++)
		if (w.v[i].gvr == &td_rolebindings)
			td_objects_add(&live, td_object_new(td_json_ref(w.v[i].obj)));
	assert_true(live.n > 0);
	assert_true(td_op_per_cluster_there(&w, &td_rolebindings, "slurm", &live));
	assert_false(td_op_per_cluster_there(&w, &td_networkpolicies, "slurm", &live) &&
		     td_op_per_cluster_there(&w, &td_networkpolicies, "tandem-system", &live));
	assert_true(td_op_per_cluster_there(&w, &td_rolebindings, "elsewhere", &(struct td_objects){0}));
	td_auto_wants struct td_op_wants next = {0};
	assert_int_equal(make(text, CLUSTER, KEY, "r/tandem:2", &next, NULL), 0);
	assert_false(td_op_per_cluster_there(&next, &td_rolebindings, "slurm", &live));
	td_object_unref(live.v[--live.n]);
	assert_false(td_op_per_cluster_there(&w, &td_rolebindings, "slurm", &live));
}

static void test_names(void **state)
{
	td_auto_free char *a = td_op_bridge_name("a-b", "c"), *b = td_op_bridge_name("a", "b-c"),
			  *c = td_op_bridge_name("x", "main"), *d = td_op_bridge_name("y", "main"),
			  *e = td_op_bridge_name("z", "a-very-long-name-of-a-cluster-as-long-as-they-come");
	assert_string_not_equal(a, b);
	assert_string_not_equal(c, d);
	// The name of a pod of its Deployment is a label value and a host name.
	assert_true(strlen(e) <= 63 - 16);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"kind: ClusterRole\nmetadata: {name: x, namespace: slurm}\n", "ClusterRole x"},
		{"kind: Deployment\nmetadata: {name: x, namespace: kube-system}\n", "kube-system"},
		{"kind: Deployment\nmetadata: {namespace: slurm}\n", "Deployment ?"},
		{"kind: [", "--per-cluster"},
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_wants struct td_op_wants w = {0};
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(make(bad[i].text, CLUSTER, KEY, NULL, &w, &err), TD_INVALID);
		assert_non_null(strstr(err.msg, bad[i].says));
		assert_int_equal(w.n, 0);
	}
}

static void add(struct td_objects *l, const char *text)
{
	td_objects_add(l, td_object_new(Y(text)));
}

static char *pools(const struct td_objects *clusters, const struct td_objects *nodes)
{
	td_auto(td_json_unref) struct td_json *j = td_op_pools_object("tandem-system", clusters, nodes);
	return td_json_text(td_jget(td_json_root(j), "data"), NULL);
}

// What the admission policies are told: nodes without devices and clusters that go do not count.
static void test_pools(void **state)
{
	td_auto_objects struct td_objects none = {0}, going = {0}, clusters = {0}, nodes = {0};
	add(&clusters, "{metadata: {name: b, namespace: s, uid: u1}, spec: {scheduler: {schedulerName: second}}}");
	add(&clusters,
	    "{metadata: {name: a, namespace: s, uid: u2}, spec: {devices: [{source: DRA, driver: gpu.example.com}]}}");
	add(&going, "{metadata: {name: a, namespace: s, uid: u2, deletionTimestamp: x}, spec: {devices: [{source: DRA, "
		    "driver: d}]}}");
	add(&nodes,
	    "{metadata: {name: n1, uid: u3, annotations: {" TD_ANN_SHARE
	    ": '{\"cpu\":\"8\",\"memory\":\"1Mi\",\"nvidia.com/gpu\":\"8\",\"numa\":\"00001111\",\"numaNodes\":4}'}}}");
	add(&nodes, "{metadata: {name: n0, uid: u4, annotations: {" TD_ANN_SHARE
		    ": '{\"cpu\":\"8\",\"memory\":\"1Mi\",\"nvidia.com/gpu\":\"1\"}'}}, status: {capacity: {cpu: '9', "
		    "nvidia.com/mig-1g.10gb: '1', amd.com/gpu: '1'}}}");
	add(&nodes, "{metadata: {name: n2, uid: u5, annotations: {" TD_ANN_SHARE
		    ": '{\"cpu\":\"8\",\"memory\":\"1Mi\",\"nvidia.com/gpu\":\"0\"}'}}}");
	add(&nodes, "{metadata: {name: n3, uid: u6, annotations: {" TD_ANN_SHADOW ": '{\"cpu\":\"0\"}'}}}");

	td_auto_free char *all = pools(&clusters, &nodes), *gone = pools(&going, &nodes), *empty = pools(&none, &none);
	assert_string_equal(all, "{\"drivers\":\"gpu.example.com\",\"nodes\":\"n0 n1\","
				 "\"resources\":\"nvidia.com/gpu nvidia.com/mig-1g.10gb\",\"schedulers\":\"second "
				 "tandem\",\"shadows\":\"n3\"}");
	assert_string_equal(gone, "{}");
	assert_string_equal(empty, "{}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_objects), cmocka_unit_test(test_what_is_there),
					   cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
					   cmocka_unit_test(test_pools)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
