// What jobs leave is removed, and nothing else: td_scratch_empty() and td_scratch_release(). What they hold is added up,
// and held to a limit.
// rows: A13.5 D8.3
#include "spank/scratch.h"
#include "spank/scratch_internal.h"
#include "spank/scratch_limit.h"

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

static void test_what_a_directory_holds(void **state)
{
	(void)state;
	char outside[256], block[8192] = "x";
	int64_t none = 0, sum = 0;
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	assert_int_equal(td_file_write(at("outside/in/file"), block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(mkdir(at("held"), 0700), 0);
	assert_int_equal(td_scratch_used(at("held"), INT64_MAX, &none), 0);
	assert_int_equal(none, 0);

	// A file with three names is one file, links are not followed, and a hole takes no room.
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(chdir(at("held")), 0);
	assert_int_equal(mkdir("a", 0700), 0);
	assert_int_equal(td_file_write("a/file", block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(link("a/file", "a/two"), 0);
	assert_int_equal(link("a/file", "three"), 0);
	assert_int_equal(symlink(outside, "out"), 0);
	assert_int_equal(td_file_write("hole", "", 0, 0600, NULL), 0);
	assert_int_equal(truncate("hole", 1 << 30), 0);
	// Deeper than any path may be long.
	for (int i = 0; i < 300; i++) {
		assert_int_equal(mkdir("a-directory-with-a-long-name", 0700), 0);
		assert_int_equal(chdir("a-directory-with-a-long-name"), 0);
	}
	assert_int_equal(td_file_write("file", block, sizeof(block), 0600, NULL), 0);
	assert_int_equal(fchdir(here), 0);
	close(here);
	int64_t with = 0, at_least = 2 * (int64_t)sizeof(block);
	assert_int_equal(td_scratch_used(at("held"), INT64_MAX, &sum), 0);
	assert_in_range(sum, at_least - 2, at_least + 303 * 4096); // a third of a file is cut off three times
	assert_int_equal(td_scratch_used(at("held"), 10, &with), 1);
	assert_true(with < sum);
	// What is counted is seen while it is counted: a look at more than can be looked at counts what it has met.
	struct td_scratch_seen endless = {.asked = 0, .used = -1};
	td_scratch_more(&endless, with);
	assert_true(endless.used == with && td_scratch_over(&endless, with - 1));
	td_scratch_more(&endless, with - 1);
	assert_int_equal(endless.used, with);
	assert_int_equal(td_scratch_used(at("nothing"), 10, &with), -1);
	assert_int_equal(td_scratch_used(at("held/out"), 10, &with), -1); // a link in its place
	assert_int_equal(td_rm_rf(at("held"), NULL), 0);
}

#define G ((int64_t)1 << 30)
static void test_who_is_ended(void **state)
{
	(void)state;
	const struct td_scratch_disk roomy = {100 * G, 50 * G}, full = {100 * G, 10 * G};
	assert_int_equal(td_scratch_bytes("50%", 100), 50);
	assert_int_equal(td_scratch_bytes("1048576", 100), 1048576);
	static const char *const wrong[] = {"", "%", "0%", "101%", "5x", "50%%", "-1"};
	for (size_t i = 0; i < TD_LEN(wrong); i++)
		assert_int_equal(td_scratch_bytes(wrong[i], 100), -1);

	// --tmp is the limit, in both directions; nobody goes before it is known.
	struct td_scratch_seen j = {.asked = -1, .used = 60 * G};
	assert_true(td_scratch_ask(&j, 50 * G, &roomy));
	assert_false(td_scratch_over(&j, 50 * G));
	j.asked = 0;
	assert_false(td_scratch_ask(&j, 50 * G, &roomy));
	assert_true(td_scratch_over(&j, 50 * G));
	j.asked = 70 * G;
	assert_false(td_scratch_over(&j, 50 * G));
	assert_true(td_scratch_near(&j, 50 * G));
	j.asked = 10 * G;
	assert_true(td_scratch_over(&j, 50 * G));
	assert_false(td_scratch_near(&j, 50 * G));
	j.ended = true;
	assert_false(td_scratch_over(&j, 50 * G));
	// Of one that holds next to nothing nobody asks.
	j = (struct td_scratch_seen){.asked = -1, .used = 1 << 20};
	assert_false(td_scratch_ask(&j, 50 * G, &roomy));

	// Looks: at few files every second, at many when there may be more of them than there is room.
	j = (struct td_scratch_seen){.asked = 0, .used = -1};
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 0));
	j = (struct td_scratch_seen){.used = 20 * G, .looked_ms = 1000, .cost_ms = 5, .disk_used = 50 * G};
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 1999));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 2000));
	j.cost_ms = 200;
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 6000));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 31000));
	j.disk_used = 30 * G; // 20 more since then, and 30 were left
	assert_false(td_scratch_due(&j, 50 * G, &roomy, 4999));
	assert_true(td_scratch_due(&j, 50 * G, &roomy, 5000));
	j.disk_used = 50 * G;
	assert_true(td_scratch_due(&j, 50 * G, &full, 5000));

	// A full disk: who holds most beyond what he asked for.
	struct td_scratch_seen v[] = {{.asked = 40 * G, .used = 39 * G},
				      {.asked = 0, .used = 2 * G},
				      {.asked = 10 * G, .used = 13 * G},
				      {.asked = -1, .used = 1}};
	assert_int_equal(td_scratch_worst(v, 4, &roomy), 4);
	assert_int_equal(td_scratch_worst(v, 4, &full), 2);
	v[2].ended = true;
	assert_int_equal(td_scratch_worst(v, 4, &full), 4); // it leaves room in a moment
	v[2] = (struct td_scratch_seen){.asked = 0, .used = G / 2};
	assert_int_equal(td_scratch_worst(v, 4, &full), 1);
	v[3] = (struct td_scratch_seen){.asked = -1, .used = 5 * G};
	assert_int_equal(td_scratch_worst(v, 4, &full), 4);
	assert_true(td_scratch_ask(&v[3], 50 * G, &full));
	v[3].asked = 5 * G;
	v[1].used = G / 2;
	assert_int_equal(td_scratch_worst(v, 4, &full), 4); // less is no help

	// One that slurmctld does not end: it is told again, ever less often.
	int64_t pause = 0, sum = 0;
	for (int i = 0; i < 20; i++, sum += pause) {
		int64_t next = td_scratch_pause(pause);
		assert_true(next > pause || (next == pause && next >= 60000 && next <= 300000));
		pause = next;
	}
	assert_true(sum > 20 * 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_job_left),
		cmocka_unit_test(test_a_link_as_the_job_itself),
		cmocka_unit_test(test_what_a_directory_holds),
		cmocka_unit_test(test_who_is_ended),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
