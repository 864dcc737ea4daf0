// Who has which file system of a storage group in his jobs.
// rows: C8.1
#include "spank/groupfs.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_line_is_for_whom_it_names(void **state)
{
	(void)state;
	static const struct {
		const char *line, *user;
		bool has;
	} rows[] = {
		{"vault /vault ann bob\n", "bob", true},
		{"vault /vault ann bob", "ann", true},
		{"vault /vault ann bob\n", "an", false},
		{"vault /vault ann bob\n", "anna", false},
		// A name that is the file system's, or its path, is nobody's grant.
		{"vault /vault ann\n", "vault", false},
		{"vault /vault ann\n", "/vault", false},
		{"vault /vault\n", "ann", false},
		{"vault /vault ann\n", "", false},
		{"vault\n", "vault", false},
		{"\n", "ann", false},
		{"../scratch /vault ann\n", "ann", false},
		{".. /vault ann\n", "ann", false},
		{"vault vault ann\n", "ann", false},
		{"vault /a/../etc ann\n", "ann", false},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto_free char *line = td_strdup(rows[i].line);
		const char *name = NULL, *path = NULL;
		if (td_groupfs_line(line, rows[i].user, &name, &path) != rows[i].has)
			fail_msg("%s for %s", rows[i].line, rows[i].user);
		assert_true(!rows[i].has || (!strcmp(name, "vault") && !strcmp(path, "/vault")));
	}
}

static void without_the_directory_there_is_nothing_to_do(void **state)
{
	(void)state;
	char why[64] = "";
	assert_int_equal(td_groupfs_show("/nonexistent/groups", "/nonexistent/list", 0, why, sizeof(why)), 0);
	assert_string_equal(why, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_for_whom_it_names),
		cmocka_unit_test(without_the_directory_there_is_nothing_to_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
