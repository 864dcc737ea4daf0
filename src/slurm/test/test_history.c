// rows: E3.1
// Slurm's history, as slurmrestd writes it.
#include "slurm/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char reply[] =
	"{\"jobs\":[{\"job_id\":7,\"account\":\"\",\"user\":\"ann\",\"association\":{},\"state\":{\"current\":["
	"\"REQUEUED\"]},"
	"\"comment\":{\"administrator\":\"tandem: pre-flight failed\"},"
	"\"time\":{\"submission\":90,\"eligible\":100,\"start\":160,\"end\":200,\"elapsed\":40,"
	"\"limit\":{\"set\":true,\"infinite\":false,\"number\":10}},"
	"\"tres\":{\"allocated\":[{\"type\":\"cpu\",\"name\":\"\",\"count\":4},{\"type\":\"energy\",\"name\":\"\","
	"\"count\":-2},"
	"{\"type\":\"gres\",\"name\":\"gpu\",\"count\":2},{\"type\":\"gres\",\"name\":\"gpu:h100\",\"count\":2}]}},"
	"{\"job_id\":8,\"account\":\"a\",\"association\":{\"user\":\"bob\"},\"time\":{\"eligible\":100,\"start\":0,"
	"\"end\":0},"
	"\"tres\":{\"allocated\":[{\"type\":\"cpu\",\"count\":99999999999}]}},3]}";

static void runs(void **state)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_runs struct td_slurm_runs l = {0};
	assert_int_equal(td_json_parse(reply, strlen(reply), &j, NULL), 0);
	assert_int_equal(td_slurm_history_read(td_json_root(j), &l, NULL), 0);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].user, "ann");
	assert_string_equal(l.v[0].state, "REQUEUED");
	assert_string_equal(l.v[0].admin_comment, "tandem: pre-flight failed");
	assert_int_equal(l.v[0].end - l.v[0].start, 40);
	assert_int_equal(l.v[0].id, 7);
	assert_int_equal(l.v[0].submit, 90);
	assert_int_equal(l.v[0].elapsed, 40);
	assert_int_equal(l.v[0].limit_min, 10);
	assert_int_equal(l.v[1].limit_min, 0);
	assert_int_equal(l.v[0].cpus, 4);
	assert_int_equal(l.v[0].gpus, 2);
	assert_int_equal(l.v[0].n_types, 1);
	assert_string_equal(l.v[0].types[0].tres, "h100");
	// It waits. What cannot be is not believed.
	assert_string_equal(l.v[1].user, "bob");
	assert_int_equal(l.v[1].start + l.v[1].end + l.v[1].cpus, 0);
	assert_string_equal(l.v[2].user, "");
}

static void no_list(void **state)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_runs struct td_slurm_runs l = {0};
	assert_int_equal(td_json_parse("{}", 2, &j, NULL), 0);
	assert_int_equal(td_slurm_history_read(td_json_root(j), &l, NULL), TD_TRANSIENT); // never "nothing ran"
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(no_list)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
