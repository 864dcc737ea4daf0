// A view of /dev without some devices: the rest is as it was, with what is mounted there and with its rights.
// rows: A7.5
#include "spank/devview.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

static char dev[] = "/tmp/td-devview-XXXXXX", path[256];

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dev, name);
	return path;
}

static void device(const char *name, unsigned minor, mode_t mode)
{
	assert_int_equal(mknod(at(name), S_IFCHR | mode, makedev(1, minor)), 0);
	assert_int_equal(chmod(at(name), mode), 0);
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

// In mounts of the test's own, of which nothing is left when it ends.
static int set_up(void **state)
{
	(void)state;
	if (geteuid() || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || !mkdtemp(dev))
		return 0;
	assert_int_equal(mount("tmpfs", dev, "tmpfs", 0, "mode=755"), 0);
	device("null", 3, 0666);
	device("gpu0", 5, 0660);
	device("gpu1", 7, 0666);
	assert_int_equal(chown(at("gpu0"), 0, 7), 0);
	assert_int_equal(mkdir(at("caps"), 0711), 0);
	assert_int_equal(mkdir(at("caps/deep"), 0755), 0);
	device("caps/deep/cap1", 7, 0444);
	device("caps/deep/cap2", 8, 0444);
	assert_int_equal(symlink("gpu0", at("first")), 0);
	assert_int_equal(symlink("../gpu1", at("caps/second")), 0);
	assert_int_equal(symlink("nowhere", at("broken")), 0);
	assert_int_equal(mkdir(at("shm"), 01777), 0);
	assert_int_equal(mount("tmpfs", at("shm"), "tmpfs", 0, "mode=1777"), 0);
	put("shm/of-the-job", "here");
	put("plain", "a file");
	put("console", "");
	assert_int_equal(mount("/dev/zero", at("console"), NULL, MS_BIND, NULL), 0);
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	while (!umount2(dev, MNT_DETACH))
		;
	rmdir(dev);
	return 0;
}

static struct stat seen(const char *name)
{
	struct stat st;
	if (lstat(at(name), &st))
		fail_msg("%s: %s", path, strerror(errno));
	return st;
}

static void gone(const char *name)
{
	assert_int_equal(access(at(name), F_OK), -1);
	assert_int_equal(errno, ENOENT);
	struct stat st;
	assert_int_equal(lstat(path, &st), -1);
}

static void read_back(const char *name, const char *text)
{
	char got[64] = "";
	FILE *f = fopen(at(name), "r");
	assert_non_null(f);
	assert_non_null(fgets(got, sizeof(got), f));
	assert_string_equal(got, text);
	fclose(f);
}

static void what_is_listed_is_not_there(void **state)
{
	(void)state;
	static const char list[] = "gpu1\0caps/deep/cap1"; // and a zero byte
	char why[TD_DEVVIEW_WHY] = "";
	struct rlimit was, now;
	if (geteuid())
		skip();
	// As on a machine with more devices than a process may have files open.
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){8, was.rlim_max}), 0);
	int r = td_devview_make(dev, list, sizeof(list), why);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(now.rlim_cur, 8);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_string_equal(why, "");
	assert_int_equal(r, 0);
	gone("gpu1");
	gone("caps/deep/cap1");
	gone("caps/second"); // a link that would name it

	struct stat st = seen("gpu0");
	assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 5));
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_gid, 7);
	st = seen("caps");
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(seen("caps/deep/cap2").st_rdev, makedev(1, 8));
	assert_true(S_ISLNK(seen("first").st_mode) && S_ISLNK(seen("broken").st_mode) &&
		    S_ISFIFO(seen("fifo").st_mode));
	read_back("plain", "a file");
	read_back("shm/of-the-job", "here"); // the very mount
	assert_int_equal(seen("console").st_rdev, makedev(1, 5));
	int fd = open(at("null"), O_WRONLY);
	assert_true(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
	// A second time, as in a step that a task of the job starts within its own.
	assert_int_equal(td_devview_make(dev, "gpu0", sizeof("gpu0"), why), 0);
	gone("gpu0");
	gone("first");
	read_back("shm/of-the-job", "here");
}

static void nothing_is_refused_where_no_cgroup_does(void **state)
{
	(void)state;
	char list[64];
	if (geteuid())
		skip();
	assert_int_equal(td_devview_refused(dev, list, sizeof(list)), 0);
	assert_int_equal(td_devview_refused("/tmp/no-such-directory", list, sizeof(list)), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_refused_where_no_cgroup_does),
		cmocka_unit_test(what_is_listed_is_not_there),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
