// rows: F3.1
// Of a long list of jobs only what has changed is read, and what is known then is what a list would say.
#include "gateway/seen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_json *reply(const char *jobs)
{
	struct td_json *j = NULL;
	td_auto_free char *text = td_asprintf("{\"jobs\":[%s]}", jobs);
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

#define JOB(id, state, reason)                                                                                         \
	"{\"job_id\":" #id ",\"array_job_id\":{\"number\":0},\"job_state\":[\"" state "\"],\"state_reason\":\"" reason \
	"\"}"
#define TASK(id, array)                                                                                                \
	"{\"job_id\":" #id ",\"array_job_id\":{\"number\":" #array                                                     \
	"},\"job_state\":[\"RUNNING\"],\"state_reason\":\"t\"}"

static void records(const char *jobs, struct td_gateway_records *ret)
{
	td_auto(td_json_unref) struct td_json *j = reply(jobs);
	td_gateway_records_add(ret, j);
	td_gateway_records_index(ret);
}

static const char *reason(const struct td_gateway_records *l, int64_t id)
{
	struct td_gateway_cursor c = {0};
	const yyjson_val *v = td_gateway_records_next(l, id, &c);
	return v ? td_jstr(v, "state_reason") : NULL;
}

static void only_what_changed_is_read(void **state)
{
	td_auto_records struct td_gateway_records old = {0}, read = {0}, now = {0};
	records(JOB(7, "RUNNING", "a") "," JOB(3, "PENDING", "b") "," JOB(9, "COMPLETED", "c"), &old);
	// 3 has begun, 9 is forgotten, 12 is new.
	struct td_slurm_state v[] = {
		{3, TD_JOB(RUNNING), false}, {7, TD_JOB(RUNNING), false}, {12, TD_JOB(PENDING), false}};
	const struct td_slurm_states states = {v, 3, 3};
	int64_t ids[3];
	assert_int_equal(td_gateway_records_news(&old, &states, ids), 2);
	assert_int_equal(ids[0], 3);
	assert_int_equal(ids[1], 12);
	records(JOB(3, "RUNNING", "b2") "," JOB(12, "PENDING", "d"), &read);
	td_gateway_records_merge(&old, &states, &read, &now);
	assert_int_equal(now.n, 3);
	assert_int_equal(now.v[0].id, 7); // the order stays
	assert_int_equal(now.v[1].id, 3);
	assert_string_equal(reason(&now, 3), "b2");
	assert_string_equal(reason(&now, 7), "a");
	assert_string_equal(reason(&now, 12), "d");
	assert_null(reason(&now, 9));
	assert_int_equal(td_gateway_records_news(&now, &states, ids), 0);

	// One that Slurm forgot between the two questions is read again at the next look, and then gone.
	td_auto_records struct td_gateway_records none = {0}, later = {0};
	v[1].states = TD_JOB(COMPLETED);
	td_gateway_records_index(&none);
	td_gateway_records_merge(&now, &(const struct td_slurm_states){v, 3, 3}, &none, &later);
	assert_int_equal(later.n, 3);
	td_auto_records struct td_gateway_records last = {0};
	td_gateway_records_merge(&later, &(const struct td_slurm_states){v, 1, 1}, &none, &last);
	assert_int_equal(last.n, 1);
}

static void tasks_are_found_by_their_array(void **state)
{
	td_auto_records struct td_gateway_records l = {0};
	records(JOB(1, "RUNNING", "x") "," TASK(5, 4) "," TASK(4, 4) "," TASK(6, 4), &l);
	size_t n = 0;
	int64_t sum = 0;
	const yyjson_val *v;
	for (struct td_gateway_cursor c = {0}; (v = td_gateway_records_next(&l, 4, &c)); n++)
		sum += td_jint(v, "job_id", 0);
	assert_int_equal(n, 3); // each once
	assert_int_equal(sum, 15);
	assert_string_equal(reason(&l, 6), "t");
	assert_null(reason(&l, 2));
	td_auto_records struct td_gateway_records empty = {0};
	td_gateway_records_index(&empty);
	assert_null(reason(&empty, 1));
}

static void a_long_list_is_read_seldom_and_a_short_one_at_once(void **state)
{
	const struct td_gateway_pace small = {1000, 1000, 10}, large = {1000, 1000, 700};
	assert_int_equal(td_gateway_jobs_next(&(const struct td_gateway_pace){0}, 5), TD_JOBS_LIST);
	assert_int_equal(td_gateway_jobs_next(&small, 1400), TD_JOBS_ASK);
	assert_int_equal(td_gateway_jobs_next(&small, 16000), TD_JOBS_LIST); // whatever was missed
	assert_int_equal(td_gateway_jobs_next(&large, 1400), TD_JOBS_STATES);
	assert_int_equal(td_gateway_jobs_next(&large, 15000), TD_JOBS_ASK);
	assert_int_equal(td_gateway_jobs_next(&large, 71000), TD_JOBS_LIST);
	assert_true(td_gateway_jobs_few(&small) == 8 && td_gateway_jobs_few(&large) > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_changed_is_read),
					   cmocka_unit_test(tasks_are_found_by_their_array),
					   cmocka_unit_test(a_long_list_is_read_seldom_and_a_short_one_at_once)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
