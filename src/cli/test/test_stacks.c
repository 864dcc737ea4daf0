// rows: B6.3
// What `tandem stacks` makes of what each node says: ranks, threads, functions; and nothing of it steers a terminal.
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
			   "P\tn1\t1\t42\tevil \x1b[2J name\n"
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
	assert_string_equal(td_jstr(yyjson_arr_get(l, 1), "command"), "evil ?[2J name");
	assert_null(td_jget(yyjson_arr_get(l, 2), "rank"));
	assert_int_equal(yyjson_arr_size(td_jget(td_json_root(j), "notes")), 1);
	assert_string_equal(td_buf_str(&other), "srun: error: n2 is away");

	l = td_jget(td_json_root(one), "processes");
	assert_int_equal(yyjson_arr_size(l), 1);
	assert_int_equal(td_jint(yyjson_arr_get(l, 0), "pid", 0), 42);
	td_cli_stacks_print(td_json_root(j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_has_its_own)};
	return cmocka_run_group_tests_name("cli stacks", tests, NULL, NULL);
}
