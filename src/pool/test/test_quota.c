// The words for a pod that waits for its tenant's quota.
// rows: C1.6 A18.2
#include "pool/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void says(const struct td_pool_quota *q, const char *want)
{
	td_auto_buf struct td_buf b = {0};
	td_pool_quota_words(q, &b);
	assert_string_equal(td_buf_str(&b), want);
}

static void test_words(void **state)
{
	const struct td_pool_holder h[] = {{"7 of alice", 1, 0}, {"8 of pods", 2, 1000 + 3600}};
	struct td_pool_quota q = {.tenant = "physics",
				  .resource = "gpu",
				  .quota = 2,
				  .limit = 3,
				  .want = 1,
				  .holders = h,
				  .n_holders = 2,
				  .now = 1000};
	assert_true(td_pool_quota_full(&q));
	says(&q, "Tenant physics holds 3 of 3 gpu (1 of them borrowed: its quota is 2), and this one wants 1. Held by "
		 "job 8 of "
		 "pods (2), job 7 of alice (1). There is room in 60 minutes at the latest, when time limits end what "
		 "is in the "
		 "way.");
	q.want = 3; // both must go, and one has no limit
	says(&q, "Tenant physics holds 3 of 3 gpu (1 of them borrowed: its quota is 2), and this one wants 3. Held by "
		 "job 8 of "
		 "pods (2), job 7 of alice (1). Nothing says when that ends: they have no time limit.");
	q.user = "alice";
	q.quota = 3;
	q.want = 1;
	says(&q,
	     "User alice holds 3 of 3 gpu that a member of Tenant physics may hold, and this one wants 1. Held by "
	     "job 8 of pods (2), job 7 of alice (1). There is room in 60 minutes at the latest, when time limits end "
	     "what is in the way.");
	q.user = NULL;
	q.quota = 2;
	q.want = 4;
	says(&q, "Tenant physics holds 3 of 3 gpu (1 of them borrowed: its quota is 2), and this one wants 4. It will "
		 "never "
		 "fit: ask for less, or raise the quota.");
	q.want = 1;
	q.limit = 4;
	assert_false(td_pool_quota_full(&q));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
