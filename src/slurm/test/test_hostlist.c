// Hostlists, index ranges and GRES strings: what they mean, and what is refused.
// rows: A7.1
#include "slurm/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expands(const char *in, const char *out)
{
	td_auto_strv struct td_strv l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_hostlist_parse(in, &l, &err))
		fail_msg("%s: %s", in, err.msg);
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < l.n; i++)
		td_buf_printf(&b, "%s%s", i ? " " : "", l.v[i]);
	assert_string_equal(td_buf_str(&b), out);
}

static void refused(const char *in)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_add(&l, "before");
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_hostlist_parse(in, &l, &err), TD_INVALID);
	assert_int_equal(l.n, 1); // untouched
	assert_true(err.msg[0]);
}

static void test_parse(void **state)
{
	expands("", "");
	expands("(null)", "");
	expands("n0", "n0");
	expands("n[0-3,7],x1", "n0 n1 n2 n3 n7 x1");
	expands("n[08-11]", "n08 n09 n10 n11");
	expands("r[0-1]n[1,3]", "r0n1 r0n3 r1n1 r1n3");
	expands("a-b.c,d[2]-x", "a-b.c d2-x");

	refused("n[");
	refused("n[1");
	refused("n[]");
	refused("n[1-]");
	refused("n[3-1]");
	refused("n[a]");
	refused("n]");
	refused("a,,b");
	refused("a,");
	refused("n[0-99999999]");
	refused("n[0-60000],m[0-60000]");
	refused("[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]");
	refused("a b");

	char longname[400];
	memset(longname, 'a', sizeof(longname) - 1);
	longname[sizeof(longname) - 1] = '\0';
	refused(longname);
}

static void writes(const char *in, const char *out)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, in, ' ');
	td_auto_free char *s = td_hostlist_write(&l);
	assert_string_equal(s, out);
	td_auto_strv struct td_strv back = {0};
	assert_int_equal(td_hostlist_parse(s, &back, NULL), 0);
	assert_int_equal(back.n, l.n);
	for (size_t i = 0; i < l.n; i++)
		assert_string_equal(back.v[i], l.v[i]);
}

static void test_write(void **state)
{
	writes("", "");
	writes("n0", "n0");
	writes("n0 n1 n2 n3 n7 x1", "n[0-3,7],x1");
	writes("n9 n10 n11", "n[9-11]");
	writes("n08 n09 n10", "n[08-10]");
	writes("n9 n010", "n9,n010");
	writes("a b c", "a,b,c");
	writes("n3 n1", "n[3,1]");
}

static void test_ranges(void **state)
{
	struct td_ranges r;
	assert_int_equal(td_ranges_parse("0-1,4", &r, NULL), 0);
	assert_int_equal(td_ranges_count(&r), 3);
	td_auto_free char *s = td_ranges_write(&r);
	assert_string_equal(s, "0-1,4");

	assert_int_equal(td_ranges_parse("", &r, NULL), 0);
	assert_int_equal(td_ranges_count(&r), 0);

	assert_int_equal(td_ranges_parse("5,4,3,63-65", &r, NULL), 0);
	td_auto_free char *t = td_ranges_write(&r);
	assert_string_equal(t, "3-5,63-65");

	assert_int_equal(td_ranges_parse("4095", &r, NULL), 0);
	td_auto_free char *u = td_ranges_write(&r);
	assert_string_equal(u, "4095");

	assert_int_equal(td_ranges_parse("4096", &r, NULL), TD_INVALID);
	assert_int_equal(td_ranges_parse("1,", &r, NULL), TD_INVALID);
	assert_int_equal(td_ranges_parse("1-", &r, NULL), TD_INVALID);
	assert_int_equal(td_ranges_parse("x", &r, NULL), TD_INVALID);
}

static void gres(const char *in, const char *name, const char *type, int64_t count, const char *index)
{
	struct td_gres g[4];
	size_t n = 0;
	assert_int_equal(td_gres_parse(in, g, 4, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(g[0].name, name);
	assert_string_equal(g[0].type, type);
	assert_int_equal(g[0].count, count);
	assert_string_equal(g[0].index, index);
}

static void test_gres(void **state)
{
	gres("gpu:2(IDX:0-1,4)", "gpu", "", 2, "0-1,4");
	gres("shard:30(0/100,30/100)", "shard", "", 30, "1");
	gres("shard:h100:30(30/100,0/100)", "shard", "h100", 30, "0");
	gres("shard:30(0/100,30)", "shard", "", 30, "");
	gres("gpu(IDX:0-1)", "gpu", "", 2, "0-1");
	gres("gpu:h100:2(IDX:3-4)", "gpu", "h100", 2, "3-4");
	gres("gpu(CNT:2)", "gpu", "", 2, "");
	gres("gpu:8(S:0-1)", "gpu", "", 8, "");
	gres("gres:gpu:2", "gpu", "", 2, "");
	gres("gpu:0", "gpu", "", 0, "");
	gres("gpu:0(IDX:N/A)", "gpu", "", 0, "");
	gres("gpu:(null):2(IDX:0-1)", "gpu", "", 2, "0-1");
	gres("gpu:(null):0(IDX:N/A)", "gpu", "", 0, "");
	gres("shard:(null):180(80/100,100/100)", "shard", "", 180, "0-1");

	struct td_gres g[2];
	size_t n = 9;
	assert_int_equal(td_gres_parse("gpu:2(IDX:0,2),shard:gpu:4(CNT:4)", g, 2, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(g[0].index, "0,2");
	assert_string_equal(g[1].name, "shard");
	assert_int_equal(g[1].count, 4);

	assert_int_equal(td_gres_parse("(null)", g, 2, &n, NULL), 0);
	assert_int_equal(n, 0);

	assert_int_equal(td_gres_parse("a,b,c", g, 2, &n, NULL), TD_INVALID);
	assert_int_equal(td_gres_parse(":2", g, 2, &n, NULL), TD_INVALID);
	assert_int_equal(td_gres_parse("gpu:2(IDX:0-", g, 2, &n, NULL), TD_INVALID);
	assert_int_equal(td_gres_parse("gpu:2(IDX:9-1)", g, 2, &n, NULL), TD_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_write),
					   cmocka_unit_test(test_ranges), cmocka_unit_test(test_gres)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
