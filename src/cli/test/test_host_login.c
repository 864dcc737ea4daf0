// rows: C6.6
// The part of /etc/hosts that `tandem host --login` writes.
#include "cli/host_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_its_part_comes_and_changes_and_goes),
					   cmocka_unit_test(test_a_part_without_its_end_is_left)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
