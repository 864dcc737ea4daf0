// rows: B2.3 B6.3
// What `tandem stacks` makes of what each node says: ranks, threads, functions; and nothing of it steers a terminal. And the words for what
// a test of a node measured.
#include "cli/nodeview.h"
#include "cli/stacks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "P\tn0\t0\t41\tpython3 train.py\n"
			   "T\t12\tS\tfutex_do_wait\tpython3\n"
			   "T\t1\tR\t0\tpython3\n"
			   "F\tThread 41 (idle): \"MainThread\"\n"
			   "P\tn1\t1\t42\tevil \x1b[2J \x7f\xc2\x9b\xc3\xa9 name \xc3\n"
			   "T\t1\tS\tpipe_read\tcat\n"
			   "P\tn1\t-\t43\tsleep 1\n"
			   "N\tn1\tno functions of Python: there is no py-spy here\n"
			   "srun: error: n2 is away\n";

static struct td_json *read_all(long long rank, struct td_buf *other)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_cli_stacks_read(text, rank, d, yyjson_mut_doc_get_root(d), other);
	return td_json_from_mut(yyjson_mut_doc_get_root(d));
}

static void every_rank_has_its_own(void **state)
{
	td_auto_buf struct td_buf other = {0}, none = {0};
	td_auto(td_json_unref) struct td_json *j = read_all(-1, &other), *one = read_all(1, &none);
	yyjson_val *l = td_jget(td_json_root(j), "processes"), *p = yyjson_arr_get(l, 0);
	assert_int_equal(yyjson_arr_size(l), 3);
	assert_int_equal(td_jint(p, "rank", -1), 0);
	assert_int_equal(td_jint(p, "pid", 0), 41);
	assert_int_equal(td_jint(p, "threads.[0].count", 0), 12);
	assert_string_equal(td_jstr(p, "threads.[0].kernel"), "futex_do_wait");
	assert_null(td_jstr(p, "threads.[1].kernel"));
	assert_string_equal(yyjson_get_str(yyjson_arr_get(td_jget(p, "functions"), 0)),
			    "Thread 41 (idle): \"MainThread\"");
	assert_string_equal(td_jstr(yyjson_arr_get(l, 1), "command"), "evil ?[2J ???\xc3\xa9 name \xef\xbf\xbd");
	assert_null(td_jget(yyjson_arr_get(l, 2), "rank"));
	assert_int_equal(yyjson_arr_size(td_jget(td_json_root(j), "notes")), 1);
	assert_string_equal(td_buf_str(&other), "srun: error: n2 is away");

	l = td_jget(td_json_root(one), "processes");
	assert_int_equal(yyjson_arr_size(l), 1);
	assert_int_equal(td_jint(yyjson_arr_get(l, 0), "pid", 0), 42);
	td_cli_stacks_print(td_json_root(j));
}

static void what_a_test_measured_is_said_in_words(void **state)
{
	static const char *const table[][2] = {
		{"{\"devices\":4,\"gflops\":25.30,\"seconds\":0.20,\"memoryErrors\":0,\"wrong\":[]}",
		 "4 devices: 25.3 GFLOPS"},
		{"failed: "
		 "{\"devices\":1,\"gflops\":2,\"memoryErrors\":3,\"memoryMBps\":900.5,\"wrong\":[\"gpu0\",\"gpu3\"]}",
		 "failed: 1 device: 2 GFLOPS, memory 900.5 MB/s; 3 errors of memory; computes wrongly: gpu0, gpu3"},
		{"the node's slurmd is away {n1}", "the node's slurmd is away {n1}"},
		{"{\"other\": 1}", "{\"other\": 1}"},
		{"", ""},
	};
	for (size_t i = 0; i < TD_LEN(table); i++) {
		td_auto_free char *said = td_cli_test_words(table[i][0]);
		assert_string_equal(said, table[i][1]);
	}
	assert_null(td_cli_test_words(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_test_measured_is_said_in_words),
					   cmocka_unit_test(every_rank_has_its_own)};
	return cmocka_run_group_tests_name("cli stacks", tests, NULL, NULL);
}
