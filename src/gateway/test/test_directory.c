// rows: A15.5
// Whom the directory service means.
#include "gateway/directory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_parse(void **state)
{
	static const struct {
		const char *said;
		int code;
		const char *words;
	} no[] = {
		{"none\n", TD_NOT_FOUND, "no user \"lea\""},
		{"away\n", TD_TRANSIENT, "cannot be asked yet"},
		{"", TD_TRANSIENT, "nothing that can be understood"},
		{"is lea:*:4000:4000:Lea:/home/lea:/bin/bash", TD_TRANSIENT, "understood"}, // cut
		{"is lea:*:4000:4000:/home/lea:/bin/bash\nlea\n", TD_TRANSIENT, "understood"},
		{"is lea:*:4000:4000:Lea:/home/lea:/bin/bash:\nlea\n", TD_TRANSIENT, "understood"},
		// The comment, which a person may write himself, has the end of a line: the rest is his own words.
		{"is lea:*:4000:4000:x:/home/ann:/bin/sh\nlea\n:/home/lea:/bin/bash\nann\n", TD_TRANSIENT,
		 "understood"},
		{"is lea:*:4e3:4000:Lea:/home/lea:/bin/bash\nlea\n", TD_TRANSIENT, "understood"},
		{"is Lea:*:4000:4000:Lea:/home/lea:/bin/bash\nLea\n", TD_DENIED, "\"Lea\": use that one"},
		{"is lea:*:0:4000:Lea:/home/lea:/bin/bash\nroot\n", TD_DENIED, "uid 0: a person's is 1000 or more"},
		{"is lea:*:64030:4000:Lea:/home/lea:/bin/bash\nlea\n", TD_DENIED, "64030 (slurm)"},
		{"is lea:*:4294967295:4000:Lea:/home/lea:/bin/bash\nlea\n", TD_DENIED, "uid 4294967295"},
		{"is lea:*:4000:27:Lea:/home/lea:/bin/bash\nlea\n", TD_DENIED, "gid 27: a person's is 100 or more"},
		{"is lea:*:3000:4000:Lea:/home/lea:/bin/bash\nann\n", TD_DENIED, "uid 3000, which is ann's here"},
		{"is lea:*:4000:4000:Lea:/home/../root:/bin/bash\nlea\n", TD_DENIED, "no home for lea"},
		{"is lea:*:4000:4000:Lea::/bin/bash\nlea\n", TD_DENIED, "no home for lea"},
	};
	struct td_error err = TD_ERROR_INIT;
	struct td_gateway_user u = {0};
	for (size_t i = 0; i < TD_LEN(no); i++) {
		assert_int_equal(td_gateway_directory_parse(no[i].said, "lea", &u, &err), no[i].code);
		if (!strstr(err.msg, no[i].words))
			fail_msg("%s", err.msg);
		assert_null(u.name);
	}
	static const char good[] = "is lea:*:4000:4001:Lea of the lab:/home/lea:/bin/bash\nlea\n";
	assert_int_equal(td_gateway_directory_parse(good, "lea", &u, &err), 0);
	assert_true(u.uid == 4000 && u.gid == 4001 && !strcmp(u.home, "/home/lea") && !strcmp(u.name, "lea"));
	td_gateway_user_done(&u);
	assert_int_equal(td_gateway_directory_parse("is lea:*:4000:4001::/home/lea:\nlea\n", "lea", &u, &err), 0);
	td_gateway_user_done(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
