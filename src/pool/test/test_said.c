// rows: B6.1 B6.2 B6.3 B6.4
// What an admin comment says of how its job goes, and how a sentence is put there.
#include "pool/said.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define AT INT64_C(1764264600) // 2025-11-27T17:30:00Z

static void each_sentence_is_read_among_what_others_write(void **state)
{
	struct td_pool_said s;
	const char *c =
		"tandem: used 60 s in 1 runs, 120 s left; ours; tandem: hangs on n1: no output and no GPU use for 3 s; "
		"stacks: tandem-hang-7-n1.txt, tandem-hang-7-n2.txt; seen 2025-11-27T17:30:00Z tandem-use:100:5:35";
	assert_true(td_pool_said(c, TD_SAID_HANGS, &s));
	assert_string_equal(s.words, "no output and no GPU use for 3 s");
	assert_string_equal(s.node, "n1");
	assert_string_equal(s.stacks, "tandem-hang-7-n1.txt, tandem-hang-7-n2.txt");
	assert_int_equal(s.seen_s, AT);
	assert_int_equal(s.rank, -1);
	assert_false(td_pool_said(c, TD_SAID_SLOW, &s));
	assert_false(td_pool_said(c, TD_SAID_AGAIN, &s));
	assert_false(td_pool_said(NULL, TD_SAID_HANGS, &s));
	assert_true(td_pool_said(
		"tandem: straggler: rank 12 on gpu-n1 (gpu3) computes 3.1 times as long as the others (step 9: "
		"1.49 s, median of 8 ranks 0.482 s); seen 2025-11-27T17:30:00Z",
		TD_SAID_SLOW, &s));
	assert_string_equal(s.node, "gpu-n1");
	assert_int_equal(s.rank, 12);
	assert_int_equal(s.gpu, 3);
	assert_string_equal(s.words,
			    "rank 12 on gpu-n1 (gpu3) computes 3.1 times as long as the others (step 9: 1.49 s, median "
			    "of 8 ranks 0.482 s)");
	assert_true(td_pool_said(
		"tandem: fault on n1: eno1: down; seen 2025-11-27T17:00:00Z tandem: fault on n2: gpu3: XID 79; "
		"seen 2025-11-27T17:30:00Z tandem-use:1:2:3",
		TD_SAID_FAULT, &s));
	assert_string_equal(s.node, "n2");
	assert_string_equal(s.words, "gpu3: XID 79");
	assert_int_equal(s.seen_s, AT);
	// What an older program wrote has no time.
	assert_true(td_pool_said("tandem: hangs on n1: no heartbeat for 3 s", TD_SAID_HANGS, &s));
	assert_int_equal(s.seen_s, 0);
	assert_string_equal(s.words, "no heartbeat for 3 s");
	assert_true(td_pool_said("tandem: hangs on ", TD_SAID_HANGS, &s));
	assert_string_equal(s.node, "");
}

static void what_is_of_an_earlier_run_is_told_apart(void **state)
{
	const struct td_pool_said s = {.seen_s = 100}, old = {0};
	assert_true(td_pool_said_now(&s, 100));
	assert_false(td_pool_said_now(&s, 101));
	assert_true(td_pool_said_now(&old, 101));
}

static void why_it_began_again_replaces_what_was_said_before(void **state)
{
	struct td_pool_said s;
	td_auto_free char *c = td_pool_said_again(
		"ours tandem: hangs on n9: no output for 3 s; stacks: tandem-hang-7-n9.txt "
		"tandem-use:1:2:3 tandem: began again: n8: old",
		"n1", "tandem: condition GpuUnhealthy: gpu3: XID 79 tandem: began again: n2: lie\n", AT);
	assert_string_equal(
		c, "ours tandem-use:1:2:3 tandem: began again: n1: condition GpuUnhealthy: gpu3: XID 79_tandem: began "
		   "again: n2: lie; seen 2025-11-27T17:30:00Z");
	assert_true(td_pool_said(c, TD_SAID_AGAIN, &s));
	assert_string_equal(s.node, "n1");
	assert_int_equal(s.seen_s, AT);
	td_auto_free char *same =
		td_pool_said_again(c, "n1", "condition GpuUnhealthy: gpu3: XID 79_tandem: began again: n2: lie", AT);
	assert_string_equal(same, c);
	td_auto_free char *first = td_pool_said_again(NULL, "n1", "failed", AT);
	assert_string_equal(first, "tandem: began again: n1: failed; seen 2025-11-27T17:30:00Z");
	char full[TD_SAID_COMMENT];
	memset(full, 'x', sizeof(full) - 1);
	full[sizeof(full) - 1] = '\0';
	assert_null(td_pool_said_again(full, "n1", "failed", AT));
}

static void times_are_read_as_they_are_written(void **state)
{
	static const int64_t at[] = {
		1,         951782400 /* 29 February 2000 */, 1709164799, 1709164800 /* 2024 */, 1735689599, 4102444800,
		4107542400 /* 1 March 2100 */};
	struct td_pool_said s;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		td_auto_free char *c = td_pool_said_again(NULL, "n1", "failed", at[i]);
		assert_true(td_pool_said(c, TD_SAID_AGAIN, &s));
		assert_int_equal(s.seen_s, at[i]);
	}
	assert_true(td_pool_said("tandem: began again: n1: failed; seen 2000-02-29T00:00:00Z", TD_SAID_AGAIN, &s));
	assert_int_equal(s.seen_s, 951782400);
	assert_true(td_pool_said("tandem: began again: n1: failed; seen 2000-13-29T00:00:00Z", TD_SAID_AGAIN, &s));
	assert_int_equal(s.seen_s, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sentence_is_read_among_what_others_write),
		cmocka_unit_test(times_are_read_as_they_are_written),
		cmocka_unit_test(what_is_of_an_earlier_run_is_told_apart),
		cmocka_unit_test(why_it_began_again_replaces_what_was_said_before),
	};
	return cmocka_run_group_tests_name("pool said", tests, NULL, NULL);
}
