// rows: A14.10 A14.6 A19.5
// What a stand-in's admin comment says of its pod: written, read again, and what it makes of a run's end.
#include "base/mem.h"
#include "pool/notes.h"
#include "pool/yield.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UID "0a1b2c3d-0000-4000-8000-00000000000f"

static void test_written_and_read(void **state)
{
	const struct td_notes n = {.ns = "ml",
				   .pod = "web-7d-x",
				   .user = "https://id/?a=b&c|d",
				   .service = "Deployment/web",
				   .end = "failed",
				   .busy = 120.4,
				   .idle = 40};
	td_auto_free char *text = td_notes_mark("tandem/", "c-1", &n, UID);
	assert_string_equal(text, "tandem/c-1/ml/pod=web-7d-x&user=https%3A%2F%2Fid%2F%3Fa%3Db%26c%7Cd&service="
				  "Deployment%2Fweb&end=failed&busy=120&idle=40/" UID);
	struct td_notes got = {0};
	assert_true(td_notes_read(text, &got));
	assert_string_equal(got.ns, "ml");
	assert_string_equal(got.pod, "web-7d-x");
	assert_string_equal(got.user, "https://id/?a=b&c|d");
	assert_string_equal(got.service, "Deployment/web");
	assert_string_equal(got.end, "failed");
	assert_true(got.busy == 120 && got.idle == 40 && td_notes_idle(&got) == 0.25 && !got.gang);

	td_auto_free char *gang = td_notes_mark(
		"tandem/", "c-1", &(const struct td_notes){.ns = "ml", .pod = "train", .gang = true}, UID);
	assert_string_equal(gang, "tandem/c-1/ml/gang=train/" UID);
	assert_true(td_notes_read(gang, &got) && got.gang && td_notes_idle(&got) < 0);
	td_auto_free char *none = td_notes_mark("tandem/", "c-1", &(const struct td_notes){.ns = "ml"}, UID);
	assert_string_equal(none, "tandem/c-1/" UID);
}

static void test_what_is_none(void **state)
{
	static const char *const text[] = {NULL,
					   "",
					   "tandem/c-1/" UID,
					   "tandem/c-1/ml/web/" UID,
					   "tandem/out/c/n=1/x",
					   "tandem/shadow/c/n=1/x",
					   "mine/c-1/ml/pod=a/" UID,
					   "tandem/",
					   "tandem/a/b/c"};
	struct td_notes n = {.ns = "kept"};
	for (size_t i = 0; i < TD_LEN(text); i++)
		if (td_notes_read(text[i], &n))
			fail_msg("%s is read", text[i]);
	assert_string_equal(n.ns, "kept");
	assert_true(td_notes_read("tandem/c/ml/pod=a%2&busy=x&idle=&end=aVeryLongWordThatDoesNotFit/u", &n));
	assert_string_equal(n.pod, "a%2");
	assert_true(n.busy == 0 && n.idle == 0 && strlen(n.end) == sizeof(n.end) - 1);
}

static void test_how_a_run_ended(void **state)
{
	static const struct {
		const char *state, *comment;
		enum td_yield what;
	} v[] = {{"CANCELLED", "tandem/c/ml/pod=a&end=failed/u", TD_YIELD_OWN},
		 {"COMPLETED", "tandem/c/ml/pod=a&end=failed/u", TD_YIELD_OWN},
		 {"CANCELLED", "tandem/c/ml/pod=a&end=succeeded/u", TD_YIELD_USEFUL},
		 {"CANCELLED", "tandem/c/ml/pod=a/u", TD_YIELD_CUT},
		 {"CANCELLED", "end=failed", TD_YIELD_CUT}, // a native job's
		 {"NODE_FAIL", "tandem/c/ml/pod=a&end=failed/u", TD_YIELD_FAILURE},
		 {"CANCELLED", "tandem/c/ml/pod=a&end=preempted/u", TD_YIELD_PREEMPTED},
		 {"FAILED", "tandem/c/ml/pod=a&end=preempted/u", TD_YIELD_PREEMPTED},
		 {"FAILED", "end=preempted", TD_YIELD_OWN}, // a native job's
		 {"PREEMPTED", "tandem/c/ml/pod=a&end=failed/u", TD_YIELD_PREEMPTED}};
	for (size_t i = 0; i < TD_LEN(v); i++)
		if (td_yield_of(td_yield_state(v[i].state, v[i].comment, 500)) != v[i].what)
			fail_msg("%s with %s", v[i].state, v[i].comment);
}

static void of_a_native_job(void **state)
{
	struct td_notes n = {0};
	const char *text = "tandem: hangs on n1 tandem-use:100:5:35 tandem-use:200:1:2";
	assert_true(td_notes_use(text, 100, &n) && n.busy == 5 && n.idle == 35);
	assert_true(td_notes_use(text, 200, &n) && n.busy == 1 && n.idle == 2);
	assert_true(td_notes_idle(&n) > 0.66 && td_notes_idle(&n) < 0.67);
	const char *const none[] = {NULL,
				    "",
				    "tandem-use:",
				    "tandem-use:100",
				    "tandem-use:100:5",
				    "tandem-use:100:5:x",
				    "tandem-use:1000:5:35"};
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(td_notes_use(none[i], 100, &n));
	assert_false(td_notes_read(text, &n)); // it is no pod's
}

static void test_what_was_held(void **state)
{
	(void)state;
	assert_null(td_notes_scratch(NULL));
	assert_null(td_notes_scratch("tandem: hangs on n1"));
	assert_string_equal(td_notes_scratch("site's own tandem: scratch: the job is ended: x"), "the job is ended: x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_was_held),
					   cmocka_unit_test(test_written_and_read), cmocka_unit_test(test_what_is_none),
					   cmocka_unit_test(test_how_a_run_ended), cmocka_unit_test(of_a_native_job)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
