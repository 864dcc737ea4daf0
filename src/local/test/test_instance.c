// Unit tests of a home's own files: which process a pid file says lives, and that only one `up` or
// `down` runs at a time.
// rows: F1.1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "local/instance.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/tandem-instance-XXXXXX";

static void *stay(void *arg)
{
	while (pause())
		;
	return arg;
}

// Starts a child. headless: its first thread has ended while another one goes on.
static pid_t child(bool headless)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	pthread_t t;
	if (headless && !pthread_create(&t, NULL, stay, NULL))
		syscall(SYS_exit, 0);
	stay(NULL);
	_exit(1);
}

static char state_of(pid_t pid)
{
	td_auto_free char *path = td_asprintf("/proc/%d/stat", (int)pid);
	td_auto_buf struct td_buf b = {0};
	char state = '?';
	if (!td_file_read(path, 4096, &b, NULL))
		sscanf(strrchr(td_buf_str(&b), ')') + 1, " %c", &state);
	return state;
}

static void who_lives(void **s)
{
	td_auto_free char *path = td_asprintf("%s/x.pid", dir);
	for (int headless = 0; headless < 2; headless++) {
		pid_t pid = child(headless);
		while (headless && state_of(pid) != 'Z')
			usleep(1000);

		assert_int_equal(td_pidfile_write(path, pid, NULL), 0);
		assert_int_equal(td_pidfile_read(path), pid); // its other thread may hold a port

		kill(pid, SIGKILL);
		siginfo_t how;
		assert_int_equal(waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT), 0);
		assert_int_equal(td_pidfile_read(path), 0); // all its threads have ended: a zombie
		waitpid(pid, NULL, 0);
		assert_int_equal(td_pidfile_read(path), 0);
	}

	td_auto_free char *reused = td_asprintf("%d 1\n", (int)getpid());
	assert_int_equal(td_file_write(path, reused, strlen(reused), 0644, NULL), 0);
	assert_int_equal(td_pidfile_read(path), 0);
}

struct waiter {
	const struct td_instance *i;
	struct td_cancel *c;
	int fd, r;
};

static void *wait_lock(void *arg)
{
	struct waiter *w = arg;
	w->r = td_instance_lock(w->i, w->c, &w->fd, NULL);
	return NULL;
}

static void one_at_a_time(void **s)
{
	td_auto_free char *home = td_asprintf("%s/home", dir);
	const struct td_instance i = {.home = home};
	struct td_error err = TD_ERROR_INIT;
	int fd;

	assert_int_equal(td_instance_lock(&i, NULL, &fd, &err), TD_NOT_FOUND);
	assert_non_null(strstr(err.msg, home));
	assert_int_equal(mkdir(home, 0700), 0);
	assert_int_equal(td_instance_lock(&i, NULL, &fd, &err), 0);

	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	struct waiter w = {&i, c, -1, 0};
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, wait_lock, &w), 0);
	td_cancel_fire(c);
	pthread_join(t, NULL);
	assert_int_equal(w.r, TD_CANCELLED);

	// The holder removes the home: whoever waited for that lock holds nothing.
	w.c = NULL;
	assert_int_equal(pthread_create(&t, NULL, wait_lock, &w), 0);
	usleep(50000);
	assert_int_equal(rmdir(home), 0);
	close(fd);
	pthread_join(t, NULL);
	assert_int_equal(w.r, TD_NOT_FOUND);

	// Somebody else removes the home and makes it again: the lock is of the new one.
	assert_int_equal(mkdir(home, 0700), 0);
	assert_int_equal(td_instance_lock(&i, NULL, &fd, &err), 0);
	assert_int_equal(pthread_create(&t, NULL, wait_lock, &w), 0);
	td_auto_free char *other = td_asprintf("%s/other", dir);
	usleep(50000);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(rename(other, home), 0);
	close(fd);
	pthread_join(t, NULL);
	assert_int_equal(w.r, 0);

	struct stat held, now;
	assert_true(fstat(w.fd, &held) == 0 && stat(home, &now) == 0 && held.st_ino == now.st_ino);
	close(w.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_lives), cmocka_unit_test(one_at_a_time)};
	if (!mkdtemp(dir))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	td_rm_rf(dir, NULL);
	return r;
}
