// An existing Slurm's configuration as groups of machines that run slurmd themselves.
// rows: C6.5
#include "slurm/adopt.h"

#include "slurm/conf.h"
#include "slurm/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char conf[] = "ClusterName=Lab\n"
			   "SlurmctldHost=ctl(10.0.0.1)\n"
			   "AuthType=auth/munge\n"
			   "NodeName=gpu[01-04] CPUs=64 RealMemory=512000 Gres=gpu:h100:8 Feature=ib\n"
			   "NodeName=cpu[1-2],big CPUs=128 RealMemory=1000000 Weight=5\n"
			   "PartitionName=train Nodes=gpu[01-04] Default=YES MaxTime=2-00:00:00\n"
			   "PartitionName=all Nodes=ALL\n";

static void plan(struct td_slurm_import *ret)
{
	const struct td_slurm_import_file file = {"/etc/slurm/slurm.conf", conf};
	assert_int_equal(td_slurm_import(&file, 1, "slurm", NULL, ret, NULL), 0);
	td_slurm_adopt(ret);
}

static void test_groups(void **state)
{
	td_auto_import struct td_slurm_import x = {0};
	static const char *const lists[] = {"gpu[01-04]", "cpu[1-2],big"};
	size_t sets = 0;
	plan(&x);
	for (size_t i = 0; i < x.n; i++) {
		yyjson_val *o = td_json_root(x.v[i]);
		if (!td_streq(td_jstr(o, "kind"), "NodeSet"))
			continue;
		td_auto_strv struct td_strv hosts = {0}, problems = {0};
		enum td_adopt_phase phase = TD_ADOPT_MOVED;
		assert_int_equal(td_adopt_read(o, &hosts, &phase, NULL), 0);
		assert_int_equal(phase, TD_ADOPT_OLD);
		td_auto_free char *text = td_adopt_write(&hosts, TD_ADOPT_LEAVING),
				  *want = td_asprintf("{\"hosts\":\"%s\",\"phase\":\"leaving\"}", lists[sets]);
		assert_string_equal(text, want);
		assert_true(td_slurm_host_set(o)); // and none of them is moved
		assert_int_equal(yyjson_arr_size(td_jget(o, "spec.hosts")), 0);
		td_slurm_hosts_check(o, &problems);
		assert_int_equal(problems.n, 0);
		sets++;
	}
	assert_int_equal(sets, 2);
}

static void test_annotation(void **state)
{
	static const char *const bad[] = {"{}", "{\"hosts\":\"n[1-\",\"phase\":\"old\"}",
					  "{\"hosts\":\"n1\",\"phase\":\"new\"}", "x"};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_ADOPT, bad[i]);
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
		td_auto_strv struct td_strv hosts = {0};
		enum td_adopt_phase phase;
		assert_int_equal(td_adopt_read(td_json_root(j), &hosts, &phase, NULL), TD_INVALID);
	}
}

static void test_whose_drain(void **state)
{
	static const struct {
		const char *line;
		bool is, drained, ours;
	} v[] = {{"n1|idle|none", true, false, false},
		 {"n1|drained|tandem: adopt", true, true, true},
		 {"n1|draining*|bad fan", true, true, false},
		 {"n1|idle|tandem: adopt", true, false, false},
		 {"|idle|x", false, false, false},
		 {"n1 idle", false, false, false}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		char name[64];
		struct td_adopt_node n = {0};
		assert_int_equal(td_adopt_node_read(v[i].line, name, &n), v[i].is);
		assert_int_equal(n.drained, v[i].drained);
		assert_int_equal(n.ours, v[i].ours);
		assert_int_equal(n.silent, v[i].is && strstr(v[i].line, "*|"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_annotation),
		cmocka_unit_test(test_whose_drain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
