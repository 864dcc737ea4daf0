// Associations as slurmrestd 24.11 sends them, and calls that would mean everybody.
// rows: C1.3
#include "slurm/accounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// Seen on 24.11.5, shortened.
static const char seen[] =
	"{\"associations\":[{\"account\":\"science\",\"cluster\":\"main\",\"comment\":\"tandem\",\"is_default\":true,"
	"\"max\":{\"jobs\":{\"per\":{\"count\":{\"set\":false,\"infinite\":true,\"number\":0},\"submitted\":{\"set\":"
	"true,"
	"\"infinite\":false,\"number\":0}},\"active\":{\"set\":true,\"infinite\":false,\"number\":3},\"total\":{"
	"\"set\":false,"
	"\"infinite\":true,\"number\":0}},\"tres\":{\"total\":[{\"type\":\"cpu\",\"name\":\"\",\"id\":1,\"count\":20},"
	"{\"type\":\"gres\",\"name\":\"gpu\",\"id\":1001,\"count\":4}]}},\"parent_account\":\"root\",\"partition\":"
	"\"\","
	"\"shares_raw\":7,\"user\":\"\"},"
	"{\"account\":\"science\",\"user\":\"alice\",\"partition\":\"debug\",\"comment\":\"\"},"
	"{\"account\":\"science\",\"user\":\"bob\",\"partition\":\"\",\"is_default\":false}],\"errors\":[]}";

static void test_associations(void **state)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_assocs struct td_slurm_assocs l = {0};
	assert_int_equal(td_json_parse(seen, strlen(seen), &j, NULL), 0);
	assert_int_equal(td_slurm_assocs_read(td_json_root(j), &l, NULL), 0);
	assert_int_equal(l.n, 2); // a row of one partition is the administrator's
	const struct td_slurm_assoc *a = &l.v[0], *b = &l.v[1];
	assert_string_equal(a->account, "science");
	assert_string_equal(a->user, "");
	assert_string_equal(a->parent, "root");
	assert_string_equal(a->comment, "tandem");
	assert_int_equal(a->shares, 7);
	assert_int_equal(a->grp_submit, 0);
	assert_int_equal(a->max_jobs, 3);
	assert_int_equal(a->max_submit, -1);
	assert_true(a->is_default);
	assert_int_equal(a->n_grp, 2);
	assert_string_equal(a->grp[0].tres, "cpu");
	assert_string_equal(a->grp[1].tres, "gres/gpu");
	assert_int_equal(a->grp[1].count, 4);
	assert_string_equal(b->user, "bob");
	assert_int_equal(b->grp_submit, -1);
	assert_int_equal(b->n_grp, 0);
}

static void test_no_list(void **state)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_assocs struct td_slurm_assocs l = {0};
	assert_int_equal(td_json_parse("{}", 2, &j, NULL), 0);
	assert_int_equal(td_slurm_assocs_read(td_json_root(j), &l, NULL), TD_TRANSIENT); // never "there are none"
}

// slurmdbd takes an empty filter for everything, so such a call is never sent: nobody listens here.
static void test_nobody_is_everybody(void **state)
{
	const struct td_slurm_opts o = {
		.url = "http://127.0.0.1:9", .key = "0123456789abcdef0123456789abcdef", .key_len = 32};
	td_auto(td_slurm_free) struct td_slurm *s = NULL;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_auto_strv struct td_strv none = {0}, empty = {0}, jobs = {0};
	size_t n;
	assert_int_equal(td_slurm_new(&o, &s, NULL), 0);
	td_strv_add(&empty, "");
	assert_int_equal(td_slurm_assoc_remove(s, "main", "", NULL, c, NULL), TD_INTERNAL);
	assert_int_equal(td_slurm_assoc_remove(s, "", "a", NULL, c, NULL), TD_INTERNAL);
	assert_int_equal(td_slurm_assoc_remove(s, "main", "a", "", c, NULL), TD_INTERNAL);
	assert_int_equal(td_slurm_account_remove(s, "", c, NULL), TD_INTERNAL);
	assert_int_equal(td_slurm_users_add(s, "main", "a", &empty, NULL, c, NULL), TD_INTERNAL);
	assert_int_equal(td_slurm_users_add(s, "main", "a", &none, NULL, c, NULL), 0);
	assert_int_equal(td_slurm_account_jobs(s, "main", "", 1, c, &jobs, &n, NULL), TD_INTERNAL);
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_slurm_account_remove(s, "a", c, &e), TD_TRANSIENT); // and one with names is
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_associations), cmocka_unit_test(test_no_list),
					   cmocka_unit_test(test_nobody_is_everybody)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
