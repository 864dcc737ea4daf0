// Projects of a Tenant's own admins.
// rows: C10.3
#include "pool/project.h"
#include "pool/reclaim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct td_pool_tres four[] = {{"gres/gpu", 4}}, two[] = {{"gres/gpu", 2}}, nine[] = {{"gres/gpu", 9}},
				 cpus[] = {{"cpu", 900}};
static const char *const people[] = {"ann", "bob"};

static void test_what_an_admin_can_give(void **state)
{
	(void)state;
	const struct td_pool_tenant t = {.name = "physics",
					 .account = "phys",
					 .quota = four,
					 .n_quota = 1,
					 .borrow = two,
					 .n_borrow = 1},
				    goes = {.name = "physics", .deleting = true},
				    all = {.name = "physics", .quota = four, .n_quota = 1, .borrow_all = true};
	static const char *const bob[] = {"bob"}, *const strangers[] = {"eve", "bob", "root"};
	static char longest[60];
	memset(longest, 'x', 56);
	const struct {
		struct td_pool_project p;
		const char *account, *reason, *members;
		bool fits;
	} t_[] = {
		{{.name = "q", .tenant = &t, .all = true, .quota = two, .n_quota = 1},
		 "physics.q",
		 NULL,
		 "ann,bob",
		 true},
		{{.name = "q", .tenant = &t, .asked = bob, .n_asked = 1}, "physics.q", NULL, "bob", true},
		{{.name = "q", .tenant = &t}, "physics.q", NULL, "", true},
		{{.name = "q", .tenant = &t, .asked = strangers, .n_asked = 3},
		 "physics.q",
		 "MembersUnknown",
		 "bob",
		 true},
		// Who has left the Tenant is out of the project, whatever else is wrong with it.
		{{.name = "q", .tenant = &t, .asked = strangers, .n_asked = 3, .quota = nine, .n_quota = 1},
		 "physics.q",
		 "QuotaTooLarge",
		 "bob",
		 false},
		{{.name = "q", .tenant = &all, .all = true, .quota = nine, .n_quota = 1},
		 "physics.q",
		 NULL,
		 "ann,bob",
		 true},
		{{.name = "q", .tenant = &t, .all = true, .quota = cpus, .n_quota = 1},
		 "physics.q",
		 NULL,
		 "ann,bob",
		 true},
		{{.name = "q", .tenant = NULL, .all = true}, NULL, "NoTenant", "", true},
		{{.name = "q", .tenant = &goes, .all = true}, NULL, "TenantGoes", "", true},
		{{.name = longest, .tenant = &t, .all = true}, NULL, "NameTooLong", "", true},
		{{.name = "a.b", .tenant = &t, .all = true}, NULL, "NameInvalid", "", true},
	};
	for (size_t i = 0; i < TD_LEN(t_); i++) {
		td_auto(td_arena_free) struct td_arena *a = td_arena_new();
		struct td_pool_project p = t_[i].p;
		struct td_pool_project_verdict v;
		td_auto_buf struct td_buf b = {0};
		p.people = people;
		p.n_people = TD_LEN(people);
		td_pool_project_judge(a, &p, &v);
		for (size_t k = 0; k < v.n_members; k++)
			td_buf_printf(&b, "%s%s", k ? "," : "", v.members[k]);
		assert_true(td_streq(v.account, t_[i].account) || (!v.account && !t_[i].account));
		assert_true(td_streq(v.reason, t_[i].reason) || (!v.reason && !t_[i].reason));
		assert_string_equal(td_buf_str(&b), t_[i].members);
		assert_int_equal(v.fits, t_[i].fits);
		assert_true(!v.reason == !v.message);
	}
}

// Whoever makes a Project may name thousands whom nobody knows, in as many Projects as he likes.
static void test_many_strangers(void **state)
{
	(void)state;
	enum { MANY = 10000 };
	const struct td_pool_tenant t = {.name = "physics", .account = "phys"};
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	const char **asked = td_arena_alloc(a, MANY * sizeof(*asked));
	for (size_t i = 0; i < MANY; i++)
		asked[i] = td_arena_printf(a, "eve%zu", i);
	asked[MANY / 2] = "bob";
	const struct td_pool_project p = {.name = "q",
					  .tenant = &t,
					  .people = people,
					  .n_people = TD_LEN(people),
					  .asked = asked,
					  .n_asked = MANY};
	struct td_pool_project_verdict v;
	td_pool_project_judge(a, &p, &v);
	assert_int_equal(v.n_members, 1);
	assert_string_equal(v.members[0], "bob");
	assert_non_null(strstr(v.message, "eve9 and 9989 more run nothing in Tenant physics"));
}

// Else the projects' quotas together would be safe from those from whom their Tenant borrows.
static void test_a_project_makes_no_qos(void **state)
{
	(void)state;
	const struct td_pool_reclaim r = {.on = true, .mark = "m"};
	const struct td_pool_tenant t[] = {{.name = "physics", .account = "phys", .quota = two, .n_quota = 1},
					   {.name = "physics.q",
					    .account = "physics.q",
					    .parent = "physics",
					    .quota = two,
					    .n_quota = 1,
					    .project = true}};
	const bool valid[] = {true, true};
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	assert_string_equal(td_pool_reclaim_account(t, 2, 1, &r), "phys");
	struct td_pool_reclaim_rows rows =
		td_pool_reclaim_diff(a, t, 2, valid, &r, &(const struct td_pool_reclaim_rows){0});
	assert_int_equal(rows.n, 2);
	for (size_t i = 0; i < rows.n; i++)
		assert_true(td_starts(rows.v[i].name, "phys."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_an_admin_can_give),
					   cmocka_unit_test(test_many_strangers),
					   cmocka_unit_test(test_a_project_makes_no_qos)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
