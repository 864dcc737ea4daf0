// rows: D3.9
// A site's profiles come to the kubelet's directory and go again; what is not the agent's stays.
#include "gate/profiles.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define STRICT "{\"defaultAction\":\"SCMP_ACT_ERRNO\"}"
#define OPEN "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}"
static char dir[] = "/tmp/td-profiles-XXXXXX", path[128];
static struct td_profiles p;

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	assert_int_equal(td_file_write(at(name), text, strlen(text), 0644, NULL), 0);
}

static void is(const char *name, const char *want)
{
	td_auto_buf struct td_buf b = {0};
	int r = td_file_read(at(name), 4096, &b, NULL);
	if (!want)
		assert_int_equal(r, TD_NOT_FOUND);
	else
		assert_string_equal(td_buf_str(&b), want);
}

static size_t sync_left(const char *want)
{
	td_auto_strv struct td_strv left = {0};
	assert_int_equal(td_profiles_sync(&p, &left, NULL), 0);
	if (want)
		assert_non_null(strstr(left.n ? left.v[0] : "", want));
	return left.n;
}

static void test_they_come_and_go(void **state)
{
	struct stat st;
	put("from/quiet.json", STRICT);
	assert_int_equal(sync_left(NULL), 0);
	is("to/quiet.json", STRICT);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644); // a job's plug-in refuses one that others may write
	put("from/quiet.json", OPEN);
	put("from/more", STRICT);
	assert_int_equal(sync_left(NULL), 0);
	is("to/quiet.json", OPEN);
	is("to/more", STRICT);
	unlink(at("from/quiet.json"));
	assert_int_equal(sync_left(NULL), 0);
	is("to/quiet.json", NULL);
	is("to/more", STRICT);
}

static void test_what_is_not_the_agents_stays(void **state)
{
	put("to/site.json", OPEN);
	put("to/same.json", OPEN);
	put("from/site.json", STRICT);
	put("from/same.json", OPEN);
	assert_int_equal(sync_left("somebody else has put it there"), 1);
	is("to/site.json", OPEN);
	unlink(at("from/site.json"));
	unlink(at("from/same.json"));
	assert_int_equal(sync_left(NULL), 0);
	is("to/site.json", OPEN);
	is("to/same.json", OPEN);
}

static void test_what_is_no_profile(void **state)
{
	put("from/good.json", STRICT);
	assert_int_equal(sync_left(NULL), 0);
	put("from/good.json", "{");
	assert_int_equal(sync_left("no profile"), 1);
	is("to/good.json", STRICT); // pods that name it go on
	put("from/good.json", "{\"a\":1}");
	assert_int_equal(sync_left("no profile"), 1);
	put("from/good.json", STRICT);
	put("from/_odd", STRICT);
	assert_int_equal(sync_left("no name"), 1);
	is("to/_odd", NULL);
	unlink(at("from/_odd"));
}

static void test_nothing_is_removed_where_there_are_too_many(void **state)
{
	td_auto_strv struct td_strv left = {0};
	for (int i = 0; i < 256; i++) {
		td_auto_free char *name = td_asprintf("from/more-%d", i);
		put(name, STRICT);
	}
	is("to/good.json", STRICT);
	assert_int_equal(td_profiles_sync(&p, &left, NULL), TD_INVALID);
	is("to/good.json", STRICT);
	for (int i = 0; i < 256; i++) {
		td_auto_free char *name = td_asprintf("from/more-%d", i);
		unlink(at(name));
	}
}

static void test_nothing_is_removed_that_cannot_be_read(void **state)
{
	struct td_profiles away = p;
	td_auto_strv struct td_strv left = {0};
	away.from = "/nowhere";
	is("to/good.json", STRICT);
	assert_int_not_equal(td_profiles_sync(&away, &left, NULL), 0);
	is("to/good.json", STRICT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_come_and_go),
		cmocka_unit_test(test_what_is_not_the_agents_stays),
		cmocka_unit_test(test_what_is_no_profile),
		cmocka_unit_test(test_nothing_is_removed_where_there_are_too_many),
		cmocka_unit_test(test_nothing_is_removed_that_cannot_be_read),
	};
	td_auto_free char *from = NULL, *to = NULL, *list = NULL;
	if (!mkdtemp(dir))
		return 1;
	p = (struct td_profiles){from = td_asprintf("%s/from", dir), to = td_asprintf("%s/to", dir),
				 list = td_asprintf("%s/list", dir)};
	if (mkdir(p.from, 0755) || mkdir(p.to, 0755))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	td_rm_rf(dir, NULL);
	return r;
}
