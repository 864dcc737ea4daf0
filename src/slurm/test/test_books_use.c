// What people have used, from sshare's lines to records of assoc_usage.
// rows: C6.5
#include "slurm/books_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char shares[] = "Account|User|Partition|RawUsage|GrpTRESRaw\n"
			     "root|||7400|cpu=123,mem=0\n"
			     " root|root||0|cpu=0\n"
			     " science|||7400|cpu=123\n"
			     "  science|ann||3600|cpu=60,mem=9,gres/gpu=2\n"
			     "  science|ann|fast|200|cpu=3,gres/old=4\n"
			     "  science|bob||0|cpu=0\n"
			     "  science|eve||5|\n";
static const struct td_use_pool pool = {"1|root||\n2|root|root|\n7|science||\n300|science|ann|\n9|science|ann|fast\n"
					"10|science|bob|\n",
					"cpu||1\nmem||2\nbilling||5\ngres|gpu|1001\n", ""};

// The bytes that printf(1) makes of the records.
static size_t bytes_of(const char *s, unsigned char *ret)
{
	size_t n = 0;
	for (; *s; s++)
		if (*s == '\\') {
			ret[n++] = (unsigned char)(((s[1] - '0') << 6) | ((s[2] - '0') << 3) | (s[3] - '0'));
			s += 3;
		}
	return n;
}

static void test_records(void **state)
{
	td_auto_use struct td_use u = {0};
	td_auto_use_plan struct td_use_plan p = {0};
	unsigned char b[512] = {0};
	// Id 300, seconds of billing, seconds of each TRES, wall time. A text's length counts its end.
	static const char first[] = "\000\000\001\054"
				    "\000\000\000\014"
				    "3600.000000\000"
				    "\000\000\000\053"
				    "1=3600.000000,2=540.000000,1001=120.000000\000"
				    "\000\000\000"; // and the text's end
	assert_int_equal(td_use_read("f", shares, &u, NULL), 0);
	assert_int_equal(u.n, 5);
	assert_int_equal(u.left.n, 0);
	td_use_give(&u, &pool, &p);
	assert_int_equal(p.n, 2);
	assert_string_equal(td_buf_str(&p.rows), "science|ann|\nscience|ann|fast\n");
	assert_true(bytes_of(td_buf_str(&p.records), b) > sizeof(first));
	assert_memory_equal(b, first, sizeof(first));
	assert_int_equal(p.left.n, 2);
	assert_non_null(strstr(p.left.v[0], "gres/old"));
	assert_non_null(strstr(p.left.v[1], "5 of eve in account science"));
}

static void test_what_was_given_counts_once(void **state)
{
	td_auto_use struct td_use u = {0}, is = {0};
	td_auto_use_plan struct td_use_plan p = {0};
	struct td_use_pool again = pool;
	again.taken = "x|y|\nscience|ann|\n";
	assert_int_equal(td_use_read("f", shares, &u, NULL), 0);
	td_use_give(&u, &again, &p);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.before, 1);
	assert_string_equal(td_buf_str(&p.rows), "science|ann|fast\n");
	assert_int_equal(td_use_missing(&p, &is), 1);
	assert_int_equal(td_use_missing(&p, &u), 0);
}

static void test_strangers_text(void **state)
{
	td_auto_use struct td_use u = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_use_read("f", "hello\n", &u, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "sshare -a -m -P -o"));
	assert_int_equal(td_use_read("f", "", &u, &err), TD_INVALID);
	assert_int_equal(td_use_read("f",
				     "Account|User|RawUsage\na|b\na|$(x)|1\na|b|-1\na|b|99999999999999999\na|b|x\n"
				     "a|b|7\n",
				     &u, &err),
			 0);
	assert_int_equal(u.n, 1);
	assert_int_equal(u.left.n, 5);
	assert_int_equal(u.v[0].raw, 7);
	assert_string_equal(u.v[0].partition, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_what_was_given_counts_once),
		cmocka_unit_test(test_strangers_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
