// The objects that the operator makes, to the byte. Inputs and expected results are files in
// objects/.
//
// After an intended change, `TD_WRITE_GOLDEN=1 build/src/operator/test_operator_objects` (with
// TD_SOURCE_ROOT) writes the results anew.
// rows: A1.8 A2.1 A2.8
#include "api/test/testlib.h"
#include "base/file.h"
#include "operator/dataset.h"

enum { FILE_MAX = 1 << 20 };

static struct td_json_list documents(const char *file)
{
	td_auto_free char *path = td_asprintf("%s/%s", getenv("TD_SOURCE_ROOT"), file);
	td_auto_buf struct td_buf b = {0};
	struct td_error err = TD_ERROR_INIT;
	struct td_json_list l = {0};
	if (td_file_read(path, FILE_MAX, &b, &err) || td_yaml_parse(td_buf_str(&b), b.len, &l, &err))
		fail_msg("%s: %s", file, err.msg);
	return l;
}

// Appends an object. A Secret's value is random, so it is replaced.
static void show(struct td_buf *out, const struct td_gvr *gvr, const struct td_json *obj, const struct td_op_want *w)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(obj));
	if (w && w->once) {
		yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(td_jm_get(yyjson_mut_doc_get_root(d), "data"));
		for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&it));)
			yyjson_mut_set_strn(yyjson_mut_obj_iter_get_val(key), "random", 6);
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	td_buf_printf(out, "# %s %s%s%s%s\n%s\n", gvr->kind, td_jstr_or(td_json_root(j), "metadata.name", ""),
		      w && w->once ? ", made once" : "", w && w->field ? ", shaped by " : "",
		      w && w->field ? w->field : "", text);
}

static void objects(struct td_buf *out, const yyjson_val *in)
{
	// The real files are not needed here: their text has tests of its own (src/slurm/test).
	char conf[] = "slurm.conf", text[] = "ClusterName=x\n", gate[] = "gate.sh",
	     gate_text[] = "#!/bin/sh\n\"a: b\"\n";
	const struct td_slurm_files files = {.v = {{conf, text}, {gate, gate_text}}, .n = 2};
	yyjson_val *sc = td_jget(in, "cluster"), *set = td_jget(in, "nodeSet"), *node = td_jget(in, "node"),
		   *share = td_jget(in, "share");
	const char *image = td_jstr(in, "image");
	const struct td_op_share s = {td_jint(share, "cpus", 0), td_jint(share, "memoryMb", 0),
				      td_jint(share, "gpus", 0)};
	struct td_error err = TD_ERROR_INIT;
	td_auto_wants struct td_op_wants w = {0};
	td_auto(td_json_unref) struct td_json *pod = NULL;
	if (td_op_cluster_objects(sc, &files, image, &w, &err) ||
	    td_op_slurmd_pod(sc, set, node, &s, image, &pod, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < w.n; i++)
		show(out, w.v[i].gvr, w.v[i].obj, &w.v[i]);
	show(out, &td_pods, pod, NULL);
	if (image) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod));
		td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.uid", "p1");
		td_auto(td_json_unref) struct td_json *live = td_json_from_mut(yyjson_mut_doc_get_root(d));
		td_auto(td_json_unref) struct td_json *place =
			td_op_placeholder_pod(sc, set, td_json_root(live), td_jstr(node, "metadata.name"), image);
		show(out, &td_pods, place, NULL);
	}
}

static void compare(const char *name, const yyjson_val *in)
{
	td_auto_buf struct td_buf have = {0}, want = {0};
	td_auto_free char *path = td_asprintf("%s/src/operator/test/objects/%s.golden", getenv("TD_SOURCE_ROOT"), name);
	struct td_error err = TD_ERROR_INIT;
	objects(&have, in);

	if (getenv("TD_WRITE_GOLDEN")) {
		if (td_file_write(path, td_buf_str(&have), have.len, 0644, &err))
			fail_msg("%s", err.msg);
		return;
	}
	if (td_file_read(path, FILE_MAX, &want, &err))
		fail_msg("%s", err.msg);
	if (strcmp(td_buf_str(&have), td_buf_str(&want)) == 0)
		return;
	const char *h = td_buf_str(&have), *t = td_buf_str(&want), *from = h;
	size_t line = 1;
	for (; *h && *h == *t; h++, t++)
		if (*h == '\n') {
			line++;
			from = h + 1;
		}
	fail_msg("%s, line %zu:\nhave: %.*s\nwant: %.*s", path, line, (int)strcspn(from, "\n"), from,
		 (int)strcspn(t - (h - from), "\n"), t - (h - from));
}

static void test_embedded(void **state)
{
	td_auto_json_list struct td_json_list l = documents("deploy/embedded.yaml");
	td_auto(td_json_unref) struct td_json *more = Y(
		"node: {metadata: {name: n0, labels: {topology.tandem.dev/block: b0, topology.tandem.dev/rack: r0}}}\n"
		"share: {cpus: 15, memoryMb: 31744, gpus: 8}\n");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(more));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	for (size_t i = 0; i < l.n; i++) {
		const yyjson_val *v = td_json_root(l.v[i]);
		if (td_streq(td_jstr(v, "kind"), "SlurmCluster"))
			td_jm_copyval(d, root, "cluster", v);
		if (td_streq(td_jstr(v, "kind"), "NodeSet"))
			td_jm_copyval(d, root, "nodeSet", v);
	}

	td_jm_str(d, root, "cluster.metadata.uid", "c1");
	td_jm_str(d, root, "nodeSet.metadata.uid", "s1");
	td_auto(td_json_unref) struct td_json *in = td_json_from_mut(root);
	compare("embedded", td_json_root(in));
}

static void test_kubelet(void **state)
{
	td_auto_json_list struct td_json_list l = documents("src/operator/test/objects/kubelet.yaml");
	compare("kubelet", td_json_root(l.v[0]));
}

static void test_odd(void **state)
{
	td_auto_json_list struct td_json_list l = documents("src/operator/test/objects/odd.yaml");
	compare("odd", td_json_root(l.v[0]));
}

// A node's mark is no copy where it is of another directory, and a slurmd pod is asked which it has.
static void test_copies_of_another_place(void **state)
{
	static const char set[] = "{spec: {source: {git: {url: 'https://a/b', ref: v1}}}}";
	static const char *const clusters[] = {
		"{metadata: {namespace: slurm, name: main}, spec: {datasets: {}}}",
		"{metadata: {namespace: slurm, name: other}, spec: {datasets: {}}}",
		"{metadata: {namespace: slurm, name: main}, spec: {datasets: {path: /fast}}}"};
	td_auto(td_json_unref) struct td_json *o = Y(set), *first = Y(clusters[0]);
	td_auto_free char *print = td_dataset_print(td_json_root(first), td_json_root(o));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_arr(d, root, "spec.containers");
	td_jm_arr(d, yyjson_mut_arr_add_obj(d, td_jm_get(root, "spec.containers")), "volumeMounts");
	td_jm_arr(d, root, "spec.volumes");
	td_op_datasets_mount(d, td_jm_get(root, "spec"), td_json_root(first));
	td_auto(td_json_unref) struct td_json *pod = td_json_from_mut(root);
	for (size_t i = 0; i < TD_LEN(clusters); i++) {
		td_auto(td_json_unref) struct td_json *c = Y(clusters[i]);
		td_auto_free char *p = td_dataset_print(td_json_root(c), td_json_root(o));
		assert_int_equal(!strcmp(p, print), i == 0);
		assert_int_equal(td_op_dataset_mounted(td_json_root(c), td_json_root(pod)), i == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_embedded), cmocka_unit_test(test_kubelet),
					   cmocka_unit_test(test_odd), cmocka_unit_test(test_copies_of_another_place)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
