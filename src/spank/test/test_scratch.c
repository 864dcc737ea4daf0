// What jobs leave is removed, and nothing else: td_scratch_empty() and td_scratch_release().
// rows: A13.5
#include "spank/scratch.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/td-scratch-XXXXXX", path[256];

static int empty(void)
{
	struct td_error err = TD_ERROR_INIT;
	int r = TD_TRANSIENT;
	for (int i = 0; r == TD_TRANSIENT && i < 20; i++) // on a busy machine it takes more than one turn
		r = td_scratch_empty(dir, &err);
	return r;
}

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int set_up(void **state)
{
	(void)state;
	static const char *const dirs[] = {"jobs", "jobs/7", "jobs/7/tmp", "trash", "outside", "outside/in"};
	if (!mkdtemp(dir))
		return -1;
	for (size_t i = 0; i < TD_LEN(dirs); i++)
		assert_int_equal(mkdir(at(dirs[i]), 0700), 0);
	assert_int_equal(td_file_write(at("outside/in/file"), "kept", 4, 0600, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return td_rm_rf(dir, NULL);
}

static void test_what_a_job_left(void **state)
{
	(void)state;
	struct td_error err = TD_ERROR_INIT;
	char outside[256];
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(chdir(at("jobs/7/tmp")), 0);
	// Deeper than any path may be long, and with links out of it on the way.
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(symlink(outside, "link"), 0);
		assert_int_equal(mkdir("deep", 0700), 0);
		assert_int_equal(chdir("deep"), 0);
	}
	// A step of it still lives: it stays.
	int held = open(at("jobs/7"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool gone = true;
	assert_int_equal(flock(held, LOCK_SH), 0);
	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_false(gone);
	assert_true(td_path_exists(at("jobs/7/tmp/deep")));
	close(held);

	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_true(gone);
	assert_false(td_path_exists(at("jobs/7")));
	// This process is deep inside of it, as another job of the same user could be.
	assert_int_equal(mkdir("more", 0700), 0);
	assert_int_equal(empty(), 0);
	assert_int_equal(rmdir(at("trash")), 0); // there is nothing in it
	assert_int_equal(mkdir("late", 0700), -1);
	assert_int_equal(mkdir(at("trash"), 0700), 0);
	assert_true(td_path_exists(at("outside/in/file")));
	assert_int_equal(fchdir(here), 0);
	close(here);

	// What is gone is gone.
	assert_int_equal(td_scratch_release(dir, "7", &gone, &err), 0);
	assert_true(gone);
	assert_int_equal(empty(), 0);
}

static void test_a_link_as_the_job_itself(void **state)
{
	(void)state;
	struct td_error err = TD_ERROR_INIT;
	char outside[256];
	bool gone = true;
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	// It is nobody's but root's to make, and even then it is not followed.
	assert_int_equal(symlink(outside, at("jobs/8")), 0);
	assert_int_equal(td_scratch_release(dir, "8", &gone, &err), TD_INTERNAL);
	char to[256];
	snprintf(to, sizeof(to), "%s/trash/8", dir);
	assert_int_equal(rename(at("jobs/8"), to), 0);
	assert_int_equal(empty(), 0);
	assert_true(td_path_exists(at("outside/in/file")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_job_left),
		cmocka_unit_test(test_a_link_as_the_job_itself),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
