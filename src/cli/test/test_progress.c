// rows: E1.5 E1.8
// How a job goes, in words.
#include "cli/client.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char *says(const char *text)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_buf b = {0};
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	td_client_job_says(td_json_root(j), &b);
	return td_buf_take(&b);
}

static void a_job_says_what_it_is(void **state)
{
	td_auto_free char *runs = says("{\"id\": 13, \"name\": \"x\", \"user\": \"ann\", \"state\": \"running\", "
				       "\"on\": [{\"node\": \"n0\"}, {\"node\": \"n1\"}]}");
	assert_string_equal(runs, "Job 13 (x, user ann): running on n0, n1.");
	td_auto_free char *waits = says("{\"id\": 14, \"array\": 12, \"tasks\": \"4-7\", \"name\": \"x\", \"user\": "
					"\"ann\", \"state\": \"waiting\", \"words\": \"it is next\"}");
	assert_string_equal(waits, "Job 12_[4-7] (x, user ann): waiting; it is next.");
	td_auto_free char *one = says("{\"id\": 15, \"array\": 12, \"task\": 3, \"name\": \"x\", \"user\": \"ann\", "
				      "\"state\": \"suspended\", \"on\": [{\"node\": \"n0\"}]}");
	assert_string_equal(one, "Job 12_3 (x, user ann): suspended on n0.");
}

// Slurm takes a job without a time limit for one of a year.
static void a_start_in_a_year_is_no_start(void **state)
{
	td_auto_free char *text =
		td_asprintf("{\"id\": 1, \"name\": \"x\", \"user\": \"a\", \"state\": \"waiting\", \"words\": \"it is "
			    "next\", \"expected\": %lld}",
			    (long long)td_real_ms(&td_clock_system) / 1000 + 365 * 86400LL);
	td_auto_free char *got = says(text);
	assert_string_equal(
		got, "Job 1 (x, user a): waiting; it is next; nobody can say when, because those before it have no "
		     "time limit.");
}

static void what_is_suspended_is_not_bad(void **state)
{
	assert_int_equal(td_client_color("suspended"), TD_TERM_WARN);
	assert_int_equal(td_client_color("failed"), TD_TERM_BAD);
	assert_int_equal(td_client_color("running"), TD_TERM_GOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_job_says_what_it_is),
					   cmocka_unit_test(a_start_in_a_year_is_no_start),
					   cmocka_unit_test(what_is_suspended_is_not_bad)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
