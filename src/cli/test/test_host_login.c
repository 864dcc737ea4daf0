// rows: C6.6
// The part of /etc/hosts that `tandem host --login` writes, and what a machine reads of itself in a large NodeSet.
#include "cli/host.h"
#include "cli/host_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *text, const char *lines, const char *want)
{
	td_auto_free char *got = td_host_login_hosts(text, lines);
	assert_string_equal(got, want);
}

#define PART(lines) "# Slurm of a Tandem pool, by tandem host --login\n" lines "# end of tandem host --login\n"

static void test_its_part_comes_and_changes_and_goes(void **state)
{
	check("127.0.0.1 localhost\n", "10.0.0.1 a\n", "127.0.0.1 localhost\n" PART("10.0.0.1 a\n"));
	check("127.0.0.1 localhost\n" PART("10.0.0.1 a\n") "::1 six\n", "10.0.0.2 a\n",
	      "127.0.0.1 localhost\n::1 six\n" PART("10.0.0.2 a\n"));
	check("127.0.0.1 localhost\n" PART("10.0.0.1 a\n"), "", "127.0.0.1 localhost\n");
	check("no end of line", "10.0.0.1 a\n", "no end of line\n" PART("10.0.0.1 a\n"));
	check("", "", "");
}

static void test_a_part_without_its_end_is_left(void **state)
{
	const char *cut = "# Slurm of a Tandem pool, by tandem host --login\n10.0.0.1 a\n10.0.0.9 mine\n";
	check(cut, "", cut);
	td_auto_free char *with = td_asprintf("%s%s", cut, PART("10.0.0.2 a\n"));
	check(cut, "10.0.0.2 a\n", with);
	check(with, "10.0.0.2 a\n", with); // at the next look, too
	check(with, "", cut);
}

static bool unlisted(const char *name, const char *status, bool *ret_gone)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *text = td_asprintf(
		"{\"metadata\":{\"generation\":3},\"spec\":{\"hosts\":[\"h[0-999]\"]},\"status\":%s}", status);
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, &err), 0);
	*ret_gone = td_host_gone(td_json_root(j), name);
	return td_host_unlisted(td_json_root(j), name);
}

#define CONDS(reason) "\"conditions\":[{\"type\":\"Ready\",\"reason\":\"" reason "\"}]}"

static void test_one_of_many_hosts_has_no_line(void **state)
{
	bool gone;
	assert_true(unlisted("h7", "{\"observedGeneration\":3,\"unlisted\":999,\"nodes\":[]," CONDS("Ready"), &gone));
	assert_false(gone);
	// A small set lists all: this one is not known yet.
	assert_false(unlisted("h7", "{\"observedGeneration\":3,\"unlisted\":0,\"nodes\":[]," CONDS("Ready"), &gone));
	// The status may be older than its name in spec.hosts.
	assert_false(unlisted("h7", "{\"observedGeneration\":2,\"unlisted\":999,\"nodes\":[]," CONDS("Ready"), &gone));
	assert_false(unlisted(
		"h7", "{\"observedGeneration\":3,\"unlisted\":999,\"nodes\":[{\"name\":\"h7\"}]," CONDS("Ready"),
		&gone));
	// One that another NodeSet has still is not of those.
	static const char taken[] =
		"{\"observedGeneration\":3,\"unlisted\":999,\"nodes\":[],\"elsewhere\":\"h[8,17]\"}";
	assert_true(unlisted("h7", taken, &gone));
	assert_false(unlisted("h8", taken, &gone));
	assert_false(unlisted("h17", taken, &gone));
	// Who is no member and has no line is gone, however many have none.
	assert_false(unlisted("x", "{\"observedGeneration\":3,\"unlisted\":999,\"nodes\":[]," CONDS("Ready"), &gone));
	assert_true(gone);
	assert_false(
		unlisted("x", "{\"observedGeneration\":3,\"unlisted\":999,\"nodes\":[]," CONDS("NoAnswer"), &gone));
	assert_false(gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_of_many_hosts_has_no_line),
					   cmocka_unit_test(test_its_part_comes_and_changes_and_goes),
					   cmocka_unit_test(test_a_part_without_its_end_is_left)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
