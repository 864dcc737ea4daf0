// Tokens with which machines join: each refusal, and what is reserved.
// rows: B1.2
#include "pool/join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct td_pool_join good = {.known = true,
					 .machine = "key:a",
					 .uid = "1",
					 .by = "key:a",
					 .cn = "system:node:n9",
					 .org = "system:nodes",
					 .usages = true};
static struct td_pool_join_plan plan;

static void decides(struct td_pool_join f, enum td_join_do what, const char *reason)
{
	td_pool_join_decide(&f, &plan);
	assert_int_equal(plan.what, what);
	if (reason)
		assert_string_equal(plan.reason, reason);
	assert_true(what != TD_JOIN_REFUSE || plan.text[0]);
}
#define refuses(field, value, reason)                                                                                  \
	do {                                                                                                           \
		struct td_pool_join f = good;                                                                          \
		f.field = value;                                                                                       \
		decides(f, TD_JOIN_REFUSE, reason);                                                                    \
	} while (0)

static void test_refusals(void **state)
{
	decides(good, TD_JOIN_RESERVE, NULL);
	assert_string_equal(plan.node, "n9");
	refuses(known, false, "TokenUnknown");
	refuses(by, "", "NoRequest");
	refuses(by, "key:b", "OtherMachine");
	assert_non_null(strstr(plan.text, "key:a"));
	refuses(used_by, "2", "TokenUsed");
	refuses(org, "system:masters", "OtherGroup");
	refuses(org, NULL, "OtherGroup");
	refuses(org, "", "OtherGroup");
	static const char *const names[] = {"",
					    "n9",
					    "system:node:",
					    "system:node:n9/x",
					    "system:node:N9",
					    "system:node:-n",
					    "system:node:n.",
					    "system:admin",
					    NULL};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		refuses(cn, names[i], "NoNode");
	refuses(names, true, "NoNode");
	refuses(usages, false, "NoNode");
	refuses(name, "n1", "OtherName");
	refuses(expired, true, "TokenExpired");
	refuses(there, true, "NodeExists");
	refuses(promised, true, "NodeExists");
	// The name of a machine that may read Slurm's key is nobody's choice but the administrator's.
	refuses(host, true, "NodeExists");
	struct td_pool_join f = good;
	f.host = true;
	f.name = "n9";
	decides(f, TD_JOIN_RESERVE, NULL);
}

static void test_crash_and_again(void **state)
{
	struct td_pool_join f = good;
	// Reserved for this request and not approved yet: that goes on, whatever came in between.
	f.used_by = "1";
	f.expired = f.there = f.promised = true;
	decides(f, TD_JOIN_APPROVE, NULL);
	// But never for another machine, group or name.
	f.by = "key:b";
	decides(f, TD_JOIN_REFUSE, "OtherMachine");
	f = good;
	f.there = f.again = true;
	decides(f, TD_JOIN_RESERVE, NULL);
	// It asked before, and its node never came: it died on the way, and is here again.
	f.promised = true;
	decides(f, TD_JOIN_RESERVE, NULL);
	f = good;
	f.name = "n9";
	decides(f, TD_JOIN_RESERVE, NULL);
}

// A machine that boots is a node only when nobody has renewed the node's Lease for as long as one renewal counts.
static void test_a_node_that_runs_is_nobody_elses(void **state)
{
	assert_int_equal(td_pool_boot_wait(NULL, NULL, 0, 40), 0);  // a new node
	assert_int_equal(td_pool_boot_wait("7", NULL, 0, 40), 0);   // it was deleted
	assert_int_equal(td_pool_boot_wait("7", "8", 99, 40), 40);  // renewed since
	assert_int_equal(td_pool_boot_wait(NULL, "8", 99, 40), 40); // it came since
	assert_int_equal(td_pool_boot_wait("7", "7", 30, 40), 10);
	assert_int_equal(td_pool_boot_wait("7", "7", 40, 40), 0);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_crash_and_again),
				       cmocka_unit_test(test_a_node_that_runs_is_nobody_elses)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
