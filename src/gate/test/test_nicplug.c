// rows: A10.3 D4.1
// Adapters for pods on a kubelet: which container gets which, and what the kubelet says of its devices.
#include "base/names.h"
#include "gate/nicplug.h"
#include "http/grpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int names(const char *pod, const char *container, char *ret, size_t n, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_strv struct td_strv l = {0};
	assert_int_equal(td_json_parse(pod, strlen(pod), &j, NULL), 0);
	int r = td_nicplug_names(td_json_root(j), container, &l, err);
	*ret = '\0';
	for (size_t i = 0; i < l.n; i++)
		snprintf(ret + strlen(ret), n - strlen(ret), "%s%s", i ? "," : "", l.v[i]);
	return r;
}

#define SPEC                                                                                                           \
	"\"spec\":{\"containers\":[{\"name\":\"a\",\"resources\":{\"limits\":{\"tandem.dev/nic\":\"1\"}}},"            \
	"{\"name\":\"b\",\"resources\":{\"limits\":{\"tandem.dev/nic\":\"2\"}}},{\"name\":\"c\"}]}"

static void each_container_has_its_own(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	char got[128];
	const char *pod = "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"" TD_ANN_JOB
			  "\":\"7\",\"" TD_ANN_NICS_GRANTED "\":\"mlx5_0,mlx5_3,mlx5_4\"}}," SPEC "}";
	assert_int_equal(names(pod, "a", got, sizeof(got), &e), 0);
	assert_string_equal(got, "mlx5_0");
	assert_int_equal(names(pod, "b", got, sizeof(got), &e), 0);
	assert_string_equal(got, "mlx5_3,mlx5_4");
	assert_int_equal(names(pod, "c", got, sizeof(got), &e), 0);
	assert_string_equal(got, "");
}

static void what_slurm_did_not_give_is_refused(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	char got[128];
	const char *none = "{\"metadata\":{\"name\":\"p\"}," SPEC "}",
		   *no_job = "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"" TD_ANN_NICS_GRANTED
			     "\":\"mlx5_0,mlx5_3,mlx5_4\"}}," SPEC "}",
		   *fewer = "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"" TD_ANN_JOB
			    "\":\"7\",\"" TD_ANN_NICS_GRANTED "\":\"mlx5_0,mlx5_3\"}}," SPEC "}";
	assert_int_equal(names(none, "a", got, sizeof(got), &e), TD_DENIED);
	assert_string_equal(
		e.msg, "Slurm gave pod p no adapter of the network: only pods of Slurm's queue get tandem.dev/nic");
	assert_int_equal(names(no_job, "a", got, sizeof(got), &e), TD_DENIED);
	assert_int_equal(names(fewer, "a", got, sizeof(got), &e), 0);
	assert_int_equal(names(fewer, "b", got, sizeof(got), &e), TD_DENIED);
	assert_string_equal(e.msg, "container b asks for 2 of tandem.dev/nic, and Slurm gave its pod mlx5_0,mlx5_3");
	assert_string_equal(got, "");

	// It ends: what it had may be another's.
	static const char *const over[] = {"{\"metadata\":{\"name\":\"p\",\"deletionTimestamp\":\"t\",",
					   "{\"metadata\":{\"name\":\"p\",",
					   "{\"status\":{\"phase\":\"Failed\"},\"metadata\":{\"name\":\"p\","},
				 *const note[] = {"", "\"" TD_ANN_ENDED "\":\"{}\",", ""};
	for (size_t i = 0; i < TD_LEN(over); i++) {
		td_auto_free char *its =
			td_asprintf("%s\"annotations\":{%s\"" TD_ANN_JOB "\":\"7\",\"" TD_ANN_NICS_GRANTED
				    "\":\"mlx5_0,mlx5_3,mlx5_4\"}}," SPEC "}",
				    over[i], note[i]);
		assert_int_equal(names(its, "a", got, sizeof(got), &e), TD_DENIED);
		assert_string_equal(e.msg, "what Slurm gave pod p, mlx5_0,mlx5_3,mlx5_4, is its no more: the pod ends");
	}
}

static void spec_of_a_place(void **state)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	td_auto_free char *text = NULL;
	f->nics = 2;
	snprintf(f->nic[0].name, sizeof(f->nic[0].name), "eno1");
	snprintf(f->nic[1].name, sizeof(f->nic[1].name), "mlx5_0");
	f->nic[1].n_files = 2;
	snprintf(f->nic[1].files[0], sizeof(f->nic[1].files[0]), "/dev/infiniband/uverbs4");
	snprintf(f->nic[1].files[1], sizeof(f->nic[1].files[1]), "/dev/infiniband/umad4");
	assert_int_equal(td_nicplug_spec("place-3", &(struct td_nicplug_for){"eno1", "u1"}, f, true, &text, &e),
			 TD_NOT_FOUND); // it has no files
	assert_int_equal(td_nicplug_spec("place-3", &(struct td_nicplug_for){"mlx5_1", "u1"}, f, true, &text, &e),
			 TD_NOT_FOUND);
	assert_int_equal(td_nicplug_spec("place-3", &(struct td_nicplug_for){"mlx5_0", "u1"}, f, true, &text, &e), 0);
	assert_string_equal(
		text, "{\"cdiVersion\":\"0.6.0\",\"kind\":\"tandem.dev/nic\",\"devices\":[{\"name\":\"place-3\","
		      "\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/infiniband/uverbs4\",\"permissions\":"
		      "\"rw\"},{\"path\":\"/dev/infiniband/umad4\",\"permissions\":\"rw\"},{\"path\":\"/dev/"
		      "infiniband/"
		      "rdma_cm\",\"permissions\":\"rw\"}]}}],\"annotations\":{\"adapter\":\"mlx5_0\",\"pod\":\"u1\"}}");

	td_auto(td_json_unref) struct td_json *j = NULL, *older = NULL;
	static const char no_pod[] = "{\"annotations\":{\"adapter\":\"mlx5_0\"}}";
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	assert_int_equal(td_json_parse(no_pod, strlen(no_pod), &older, NULL), 0);
	assert_true(td_nicplug_has(td_json_root(j), "u1", "mlx5_0"));
	assert_false(td_nicplug_has(td_json_root(j), "u1", "mlx5_1"));
	assert_false(td_nicplug_has(td_json_root(j), "u2", "mlx5_0")); // it was the place's last pod that had it
	assert_true(td_nicplug_has(td_json_root(j), NULL, "mlx5_0"));
	assert_true(td_nicplug_has(td_json_root(older), "u2", "mlx5_0"));
}

// ---- the kubelet's answer ----

static void part(struct td_buf *b, unsigned number, const struct td_buf *of)
{
	td_proto_bytes(b, number, td_buf_str(of), of->len);
}

static void devices_of_pods(void **state)
{
	td_auto_buf struct td_buf devices = {0}, container = {0}, pod = {0}, all = {0}, empty = {0};
	td_auto_podres struct td_podres_list l = {0};
	td_proto_text(&devices, 2, "GPU-a"); // before the name: the order of fields is free
	td_proto_text(&devices, 1, "nvidia.com/gpu");
	td_proto_text(&devices, 2, "GPU-b");
	part(&container, 2, &devices);
	td_proto_text(&container, 1, "main");
	part(&pod, 3, &container);
	td_proto_text(&pod, 1, "train");
	td_proto_text(&pod, 2, "ml");
	td_proto_text(&empty, 1, "idle");
	part(&all, 1, &empty);
	part(&all, 1, &pod);
	assert_int_equal(td_podres_read(all.s, all.len, &l, NULL), 0);
	assert_int_equal(l.n, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(l.v[i].ns, "ml");
		assert_string_equal(l.v[i].pod, "train");
		assert_string_equal(l.v[i].container, "main");
		assert_string_equal(l.v[i].resource, "nvidia.com/gpu");
		assert_string_equal(l.v[i].device, i ? "GPU-b" : "GPU-a");
	}
	struct td_podres_list none = {0};
	assert_int_equal(td_podres_read(all.s, all.len - 1, &none, NULL), TD_INVALID);
	assert_int_equal(td_podres_read("", 0, &none, NULL), 0);
	assert_int_equal(none.n, 0);
}

static void use_of_counted_gpus(void **state)
{
	struct td_podres v[] = {{"ml", "nb", "c", "nvidia.com/gpu", "GPU-b"},
				{"ml", "nb", "c", "example.com/fpga", "x"},
				{"ml", "by-pci", "c", "nvidia.com/gpu", "0000:3b:00.0"},
				{"ml", "by-index", "c", "nvidia.com/gpu", "1"},
				{"ml", "shared", "c", "nvidia.com/gpu", "GPU-b::2"},
				{"ml", "part", "c", "nvidia.com/mig-1g.10gb", "MIG-1"},
				{"ml", "two", "c", "nvidia.com/gpu", "GPU-a"},
				{"ml", "two", "d", "nvidia.com/gpu", "GPU-b"},
				{"ml", "lost", "c", "nvidia.com/gpu", "GPU-b"},
				{"ml", "lost", "c", "nvidia.com/gpu", "GPU-c"}};
	const struct td_podres_list l = {v, TD_LEN(v), TD_LEN(v)};
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	static const char granted[] = "{\"nvidia.com/gpu\":\"5\",\"tandem.dev/nic\":\"0\",\"share\":\"50\"}";
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(granted, strlen(granted), &j, NULL), 0);
	f->gpus = 3;
	snprintf(f->gpu[0].uuid, sizeof(f->gpu[0].uuid), "GPU-a");
	snprintf(f->gpu[0].pci, sizeof(f->gpu[0].pci), "0000:3b:00.0");
	snprintf(f->gpu[1].uuid, sizeof(f->gpu[1].uuid), "GPU-b");
	snprintf(f->gpu[2].uuid, sizeof(f->gpu[2].uuid), "GPU-c");
	f->gpu[0].use_percent = 75;
	f->gpu[1].use_percent = 0;
	f->gpu[2].use_percent = -1; // its driver does not say
	const struct {
		const char *pod;
		double use;
	} want[] = {{"nb", 0},    {"by-pci", 0.75}, {"by-index", 0}, {"shared", 0},
		    {"part", -1}, {"two", 0.75},    {"lost", -1},    {"none", -1}};
	for (size_t i = 0; i < TD_LEN(want); i++)
		if (td_podres_use(&l, "ml", want[i].pod, td_json_root(j), f) != want[i].use)
			fail_msg("%s", want[i].pod);
	assert_true(td_podres_use(&l, "other", "nb", td_json_root(j), f) == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_container_has_its_own),
					   cmocka_unit_test(what_slurm_did_not_give_is_refused),
					   cmocka_unit_test(spec_of_a_place), cmocka_unit_test(devices_of_pods),
					   cmocka_unit_test(use_of_counted_gpus)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
