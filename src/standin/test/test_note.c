// rows: A14.10 B6.1
// What slurmdbd says of a job's runs, before its admin comment is written.
#include "standin/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

// Of other files of the program; these tests ask nobody.
int td_standin_ask(const char *path, const char *request, int64_t deadline_ms, char *why, size_t n_why)
{
	return -1;
}
bool td_standin_others_read(const char *list, const char *self, struct standin_other **ret, int *ret_n)
{
	return false;
}
bool td_standin_others_used(const struct standin_other *v, int n, int64_t end, struct standin_use *u)
{
	return false;
}

int td_standin_job_text(const char *job, const char *field, int64_t deadline_ms, struct standin_text out, char *why,
			size_t n_why)
{
	return -1;
}

static struct standin_run run;

static void the_fault_of_a_node(void **state)
{
	char out[200], little[40];
	const struct standin_fault f = {"n1", "gpu3: XID 79", "2025-11-27T17:30:00Z"};
	assert_true(td_standin_faulted_text("", &f, out, sizeof(out)));
	assert_string_equal(out, "tandem: fault on n1: gpu3: XID 79; seen 2025-11-27T17:30:00Z");
	assert_true(td_standin_faulted_text("ours tandem-use:1:2:3 ", &f, out, sizeof(out)));
	assert_string_equal(out, "ours tandem-use:1:2:3 tandem: fault on n1: gpu3: XID 79; seen 2025-11-27T17:30:00Z");
	assert_false(td_standin_faulted_text(out, &f, little, sizeof(little))); // it stands there
	assert_false(td_standin_faulted_text("", &f, little, sizeof(little)));  // no room
	const struct standin_fault other = {"n1", "gpu3: XID 7", "x"}, more = {"n1", "gpu3: XID 79, again", "x"},
				   full = {"n1", "/ is full to 96 %", "x"}, there = {"n2", "/ is full to 96 %", "x"};
	char all[400];
	assert_true(td_standin_faulted_text(out, &other, all, sizeof(all))); // which the other one begins with
	assert_true(td_standin_faulted_text(out, &more, all, sizeof(all)));
	assert_false(
		td_standin_faulted_text("tandem: fault on n1: / is full to 100 %; seen x", &full, all, sizeof(all)));
	assert_true(
		td_standin_faulted_text("tandem: fault on n1: / is full to 100 %; seen x", &there, all, sizeof(all)));
	assert_false(
		td_standin_faulted_text("tandem: fault on a tandem: fault on b tandem: fault on c tandem: fault on d "
					"tandem: fault on e tandem: fault on f tandem: fault on g tandem: fault on h",
					&f, all, sizeof(all)));
}

static void a_task_of_an_array_is_named_as_one(void **state)
{
	char name[16], little[3];
	assert_true(td_standin_job_name_read("12|10_0\n10|10_3\n", "10", name, sizeof(name)));
	assert_string_equal(name, "10_3");
	assert_true(td_standin_job_name_read("10|10\n", "10", name, sizeof(name)));
	assert_string_equal(name, "10");
	assert_true(td_standin_job_name_read("11|10+1\n", "11", name, sizeof(name)));
	assert_string_equal(name, "11");
	assert_false(td_standin_job_name_read("10|10_[3-9]\n", "10", name, sizeof(name)));
	assert_false(td_standin_job_name_read("10|10_3\n", "1", name, sizeof(name)));
	assert_false(td_standin_job_name_read("10|10_3\n", "10", little, sizeof(little)));
	assert_false(td_standin_job_name_read(NULL, "10", name, sizeof(name)));
}

static void one_run(void **state)
{
	assert_true(td_standin_run_read("7|100|160|n1|a site's own | word\n", 7, 100, &run));
	assert_true(run.last && run.ended && run.whole);
	assert_string_equal(run.nodes, "n1");
	assert_string_equal(run.comment, "a site's own | word");
	assert_true(td_standin_run_read("7|100|Unknown|n[1-3]|", 7, 100, &run));
	assert_true(run.last && !run.ended);
	assert_string_equal(run.comment, "");
}

static void others(void **state)
{
	// It was queued again, and the run that came after has the comment.
	const char *again = "7|100|160|n1|\n7|200|Unknown|n2|x\n";
	assert_true(td_standin_run_read(again, 7, 100, &run) && !run.last && !run.ended);
	assert_true(td_standin_run_read(again, 7, 200, &run) && run.last);
	assert_string_equal(run.comment, "x");
	assert_string_equal(run.nodes, "n2");
	// It is written about there, when that one has ended.
	assert_true(td_standin_run_read("7|100|160|n1|\n7|200|260|n2|x tandem-use:200:1:2\n", 7, 100, &run));
	assert_true(run.known && !run.last && run.ended && run.end == 260 && run.whole && !run.said);
	assert_string_equal(run.nodes, "n1");
	assert_true(td_standin_run_read("7|100|160|n1|\n7|200|260|n2|tandem-use:200:1:2 tandem-use:100:5:6\n", 7, 100,
					&run));
	assert_true(run.said);
	assert_true(td_standin_run_read("7|100|160|n1|\n7|200|260|n2|\n", 7, 150, &run) && !run.known);
	assert_false(td_standin_run_read("8|100|160|n1|\n", 7, 100, &run)); // another task of its array
	assert_false(td_standin_run_read("", 7, 100, &run));
	assert_false(td_standin_run_read("sacct: error: no\n7|Unknown|\n", 7, 100, &run));
	char text[9000];
	memset(text, 'x', sizeof(text));
	memcpy(text, "7|100|160|n1|", 13);
	text[sizeof(text) - 1] = '\0';
	assert_true(td_standin_run_read(text, 7, 100, &run) && !run.whole); // so it is not written over
	// Nodes of which the names are cut hide it, and a line break parts it.
	memset(text + 10, 'n', 2000);
	strcpy(text + 2010, "|mine\n");
	assert_true(td_standin_run_read(text, 7, 100, &run) && !run.whole);
	assert_true(td_standin_run_read("7|100|160|n1|first\nsecond\n", 7, 100, &run) && !run.whole);
	assert_true(td_standin_run_read("7|100|160|n1|first\n8|90|95|n1|other\n", 7, 100, &run) && run.whole);
}

// What another node than the job's first one keeps it until.
static void over(void **state)
{
	assert_true(td_standin_run_read("7|100|160|n[1-2]|x\n", 7, 100, &run));
	assert_false(td_standin_run_over(&run, 170)); // the first node may still ask
	assert_true(td_standin_run_over(&run, 160 + 3 * 3600));
	assert_true(td_standin_run_read("7|100|160|n[1-2]|x tandem-use:100:5:6\n", 7, 100, &run));
	assert_true(td_standin_run_over(&run, 170));
	assert_true(td_standin_run_read("7|100|Unknown|n[1-2]|tandem-use:50:5:6\n", 7, 100, &run));
	assert_false(td_standin_run_over(&run, 100 + 3 * 3600)); // it runs
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_fault_of_a_node),
					   cmocka_unit_test(a_task_of_an_array_is_named_as_one),
					   cmocka_unit_test(one_run), cmocka_unit_test(others), cmocka_unit_test(over)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
