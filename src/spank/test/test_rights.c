// What the user of a container could try to get past his rights.
// rows: A11.1 A11.2
#include "spank/as.h"
#include "spank/holder.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/test_rights.XXXXXX";

static pid_t sleeper(void)
{
	pid_t pid = fork();
	while (pid == 0)
		pause();
	return pid;
}

static bool lives(const char *at)
{
	bool ret;
	assert_int_equal(td_ct_holder_lives(at, &ret, NULL), 0);
	return ret;
}

static void test_holder(void **state)
{
	(void)state;
	int status;
	pid_t pid = sleeper();
	assert_false(lives(dir));
	assert_int_equal(td_ct_holder_note(dir, pid, NULL), 0);
	assert_true(lives(dir));
	assert_int_equal(td_ct_holder_end(dir, NULL), 0);
	assert_false(lives(dir)); // not reaped yet
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(td_ct_holder_end(dir, NULL), 0); // nobody is there
	assert_int_equal(td_ct_holder_note(dir, pid, NULL), TD_INTERNAL);
}

// A user ends his holder and waits until somebody else's process has its number: that is not ended by root.
static void test_a_number_that_came_again(void **state)
{
	(void)state;
	td_auto_free char *path = td_asprintf("%s/pid", dir);
	td_auto_buf struct td_buf b = {0};
	pid_t pid = sleeper();
	int status;
	assert_int_equal(td_ct_holder_note(dir, pid, NULL), 0);
	assert_int_equal(td_file_read(path, 64, &b, NULL), 0);
	long long start = strtoll(strchr(td_buf_str(&b), ' '), NULL, 10);
	assert_true(start > 0);
	td_auto_free char *other = td_asprintf("%d %lld", pid, start - 1), *alone = td_asprintf("%d", pid);
	const char *const notes[] = {other, alone, "", "1 1", "-1 1", "x"};
	for (size_t i = 0; i < TD_LEN(notes); i++) {
		assert_int_equal(td_file_write(path, notes[i], strlen(notes[i]), 0444, NULL), 0);
		assert_false(lives(dir));
		assert_int_equal(td_ct_holder_end(dir, NULL), 0);
	}
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

// Other users see a note of root's that they cannot write, and nothing that they could lock.
static void test_what_others_see(void **state)
{
	(void)state;
	td_auto_free char *path = td_asprintf("%s/pid", dir), *alive = td_asprintf("%s/alive", dir);
	struct stat st;
	assert_int_equal(td_ct_holder_note(dir, getpid(), NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0444);
	// Whoever locks it changes nothing.
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && lives(dir));
	assert_false(td_path_exists(alive));
}

// A file that grows while it is read.
static void test_copies_are_bounded(void **state)
{
	(void)state;
	td_auto_close int from = memfd_create("from", MFD_CLOEXEC), to = memfd_create("to", MFD_CLOEXEC);
	struct stat st;
	assert_int_equal(ftruncate(from, 3 << 20), 0);
	assert_int_equal(td_ct_copy(from, "f", to, 3 << 20, NULL), 0);
	assert_int_equal(ftruncate(to, 0), 0);
	lseek(to, 0, SEEK_SET);
	assert_int_equal(ftruncate(from, (off_t)1 << 40), 0);
	assert_int_equal(td_ct_copy(from, "f", to, 3 << 20, NULL), TD_INVALID);
	assert_int_equal(fstat(to, &st), 0);
	assert_true(st.st_size <= 3 << 20);
	assert_int_equal(td_ct_copy(from, "f", to, 0, NULL), TD_INVALID); // it was empty when one looked
}

// /proc/PID/root leads to what a user mounted himself: a file system that tells any inode and time would be taken for
// another's image.
static void test_no_way_through_proc(void **state)
{
	(void)state;
	const struct td_ct_owner me = {.uid = getuid(), .gid = getgid(), .name = "", .home = ""};
	td_auto_free char *path = td_asprintf("%s/file", dir), *link = td_asprintf("%s/link", dir),
			  *round = td_asprintf("/proc/self/root%s/file", dir);
	td_auto_buf struct td_buf b = {0};
	int fd = -1;
	if (geteuid() != 0)
		skip(); // only root becomes somebody
	assert_int_equal(td_file_write(path, "x", 1, 0644, NULL), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(td_ct_open_as(&me, link, &fd, NULL), 0);
	close(fd);
	fd = -1;
	assert_int_equal(td_ct_read_as(&me, link, 0, &b, NULL), TD_INVALID);
	assert_int_equal(td_ct_read_as(&me, link, 1, &b, NULL), 0);
	assert_string_equal(td_buf_str(&b), "x");
	assert_int_equal(td_ct_open_as(&me, round, &fd, NULL), TD_DENIED);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holder), cmocka_unit_test(test_a_number_that_came_again),
		cmocka_unit_test(test_what_others_see), cmocka_unit_test(test_copies_are_bounded),
		cmocka_unit_test(test_no_way_through_proc)};
	if (!mkdtemp(dir))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	td_rm_rf(dir, NULL);
	return r;
}
