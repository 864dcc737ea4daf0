// rows: B6.3 B6.4
// What pods say in their logs, as a kubelet keeps them, and what the processes of one that hangs do.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "gate/cgroups.h"
#include "gate/podbeats.h"
#include "gate/podframes.h"
#include "gate/podstacks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define UID "1111aaaa-2222-3333-4444-555566667777"
#define T "2026-01-02T15:04:05.000000000Z stdout F "
static char root[32];

static int setup(void **state)
{
	strcpy(root, "/tmp/td-beat-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	return td_rm_rf(root, NULL);
}

static void put(const char *dir, const char *file, const char *text, bool more)
{
	td_auto_free char *d = td_asprintf("%s/%s", root, dir), *f = td_asprintf("%s/%s", d, file);
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	td_auto_close int fd = open(f, O_WRONLY | O_CREAT | O_CLOEXEC | (more ? O_APPEND : O_TRUNC), 0644);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static struct td_object *pod_of(const char *notes)
{
	td_auto_free char *text = td_asprintf(
		"{\"metadata\":{\"namespace\":\"ml\",\"name\":\"p\",\"uid\":\"" UID "\",\"resourceVersion\":\"1\","
		"\"annotations\":{%s}},\"spec\":{\"containers\":[{\"name\":\"main\"},{\"name\":\"side\"}]}}",
		notes);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_object_new(j);
}

static void test_who_asks(void **state)
{
	td_auto(td_object_unref) struct td_object *a = pod_of("\"tandem.dev/heartbeat\":\"log\""),
						  *b = pod_of("\"tandem.dev/heartbeat\":\"file\""), *c = pod_of(""),
						  *d = pod_of("\"kubectl.kubernetes.io/default-container\":\"side\""),
						  *e = pod_of("\"kubectl.kubernetes.io/default-container\":\"none\"");
	assert_true(td_podbeat_asks(a) && !td_podbeat_asks(b) && !td_podbeat_asks(c));
	assert_string_equal(td_podbeat_container(c), "main");
	assert_string_equal(td_podbeat_container(d), "side");
	assert_string_equal(td_podbeat_container(e), "main");
}

#define DIR_ "ml_p_" UID
static void look(struct td_podbeat *b, const struct td_object *pod)
{
	td_auto_close int fd = td_podlog_open(root, pod, "main");
	td_podbeat_read(b, fd, 2);
}

static void test_a_log_that_grows_and_is_rotated(void **state)
{
	td_auto(td_object_unref) struct td_object *pod = pod_of("");
	struct td_podbeat b = {0};
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), -1); // there is none yet
	put(DIR_ "/main", "0.log", T "hello\n", false);
	put(DIR_ "/side", "0.log", T "tandem-beat 99\n", false);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), -1); // it never beat
	put(DIR_ "/main", "0.log", T "tandem-beat 1 0.5\n" T "tandem-be", true);
	look(&b, pod);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 1);
	put(DIR_ "/main", "0.log", "at 2 0.5\n", true);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 2);
	assert_int_equal(b.beats.last, 2);
	// The embedded plane empties it, a kubelet makes a new one; a container that begins anew has another number.
	put(DIR_ "/main", "0.log", T "tandem-beat 3 0.5\n", false);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), -1); // the end of the one before was not read
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 3);
	put(DIR_ "/main", "10.log", T "tandem-beat 4 0.5\n", false);
	put(DIR_ "/main", "9.log", T "tandem-beat 77 0.5\n", false);
	put(DIR_ "/main", "10.log.20260102-150405", T "tandem-beat 88 0.5\n", false);
	put(DIR_ "/main", "11.log.gz", T "tandem-beat 89 0.5\n", false);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), -1);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 4);
	assert_int_equal(b.beats.last, 4);
}

static void test_who_writes_too_much_is_not_known(void **state)
{
	td_auto(td_object_unref) struct td_object *pod = pod_of("");
	struct td_podbeat b = {0};
	char line[1000] = T;
	memset(line + sizeof(T) - 1, 'x', sizeof(line) - sizeof(T));
	line[998] = '\n', line[999] = '\0';
	put(DIR_ "/main", "0.log", T "tandem-beat 1 0.5\n", false);
	look(&b, pod);
	for (int i = 0; i < 100; i++)
		put(DIR_ "/main", "0.log", line, true);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), -1);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 1); // nothing more came
	put(DIR_ "/main", "0.log", T "tandem-beat 2 0.5\n", true);
	look(&b, pod);
	assert_int_equal(td_podbeat_sign(&b), 2);
	// Without an end of a line: no kubelet writes that, and it must not stand in the way for ever.
	td_auto_free char *much = td_calloc(1, TD_PODBEAT_READ + 1);
	memset(much, 'y', TD_PODBEAT_READ);
	put(DIR_ "/main", "0.log", much, true);
	look(&b, pod);
	put(DIR_ "/main", "0.log", "\n" T "tandem-beat 3 0.5\n", true);
	look(&b, pod);
	assert_int_equal(b.beats.last, 3);
}

static void not_followed(const struct td_object *pod, const char *link, const char *to)
{
	assert_int_equal(symlink(to, link), 0);
	assert_int_equal(td_podlog_open(root, pod, "main"), -1);
	assert_int_equal(td_podlog_output(root, pod), -1);
	assert_int_equal(unlink(link), 0);
}

static void test_no_link_is_followed(void **state)
{
	td_auto(td_object_unref) struct td_object *pod = pod_of("");
	char link[256];
	put("elsewhere", "0.log", T "tandem-beat 1\n", false);
	put(DIR_ "/side", "0.log", "", false);
	snprintf(link, sizeof(link), "%s/" DIR_ "/main", root);
	not_followed(pod, link, "../elsewhere");
	assert_int_equal(mkdir(link, 0755), 0);
	snprintf(link, sizeof(link), "%s/" DIR_ "/main/0.log", root);
	not_followed(pod, link, "../../elsewhere/0.log");
	assert_int_equal(mkfifo(link, 0600), 0);
	assert_int_equal(td_podlog_open(root, pod, "main"), -1);
	assert_int_equal(unlink(link), 0);
	put(DIR_ "/main", "0.log", "", false);
	int64_t was = td_podlog_output(root, pod);
	assert_true(was > 0 && td_podlog_output(root, pod) == was);
	put(DIR_ "/main", "1.log", "", false); // it began again
	assert_true(td_podlog_output(root, pod) > was);
	assert_int_equal(td_podlog_open("", pod, "main"), -1); // they are not read
}

static void test_what_processes_do(void **state)
{
	char text[TD_PODSTACKS_TEXT], little[20];
	static const struct {
		const char *dir, *stat, *comm, *wchan;
	} t[] = {{"7/task/7", "7 (py) S 1", "py\n", "futex_do_wait"},
		 {"7/task/8", "8 (py) S 1", "py\n", "futex_do_wait"},
		 {"9/task/9", "9 (a) R b) R 1", "a; b\n", "0"},
		 {"9/task/x", "9 (no) S 1", "no\n", "0"},
		 {"10/task/10", "nonsense", "z\n", "0"}};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		put(t[i].dir, "stat", t[i].stat, false);
		put(t[i].dir, "comm", t[i].comm, false);
		put(t[i].dir, "wchan", t[i].wchan, false);
	}
	put("7/task/8", "syscall", "running\n", false);
	td_podstacks_words(root, (pid_t[]){9, 7, 10, 11}, 4, text, sizeof(text));
	assert_string_equal(text, "py S futex_do_wait (2 threads), a__b R");
	td_auto_free char *call = td_asprintf("%d 0x3 0x0\n", SYS_read), *fds = td_asprintf("%s/7/task/8/fd", root),
			  *fd = td_asprintf("%s/3", fds);
	put("7/task/8", "syscall", call, false);
	assert_int_equal(mkdir(fds, 0700), 0);
	assert_int_equal(symlink("pipe:[4711]", fd), 0);
	td_podstacks_words(root, (pid_t[]){7}, 1, text, sizeof(text));
	assert_non_null(strstr(text, "py S futex_do_wait in read of pipe"));
	assert_int_equal(unlink(fd), 0);
	assert_int_equal(symlink("/home/b/secret", fd), 0);
	td_podstacks_words(root, (pid_t[]){7}, 1, text, sizeof(text));
	assert_non_null(strstr(text, " in read of file"));
	put("7/task/8", "syscall", "running\n", false);
	td_podstacks_words(root, (pid_t[]){9, 7}, 2, little, sizeof(little));
	assert_string_equal(little, ""); // no part of a word
	td_podstacks_words(root, NULL, 0, text, sizeof(text));
	assert_string_equal(text, "");
}

// What py-spy says of a process; its names are its user's.
static void test_functions(void **state)
{
	static const char json[] =
		"[{\"thread_name\":\"w1\",\"frames\":[{\"name\":\"work\",\"short_filename\":\"t.py\",\"line\":4}]},"
		"{\"thread_name\":\"w2\",\"frames\":[{\"name\":\"work\",\"short_filename\":\"t.py\",\"line\":4}]},"
		"{\"thread_name\":\"Main\\nThread\",\"frames\":[{\"name\":\"join; x\",\"short_filename\":\"a "
		"b.py\",\"line\":9},"
		"{\"name\":\"<module>\",\"short_filename\":\"t.py\",\"line\":12}]},{\"thread_name\":\"none\","
		"\"frames\":[]},7]";
	char text[TD_PODFRAMES_TEXT], little[60];
	td_podframes_words(json, strlen(json), text, sizeof(text));
	assert_string_equal(text,
			    "Main_Thread: join__x (a_b.py:9) < <module> (t.py:12); w1: work (t.py:4) (2 threads)");
	td_podframes_words(json, strlen(json), little, sizeof(little));
	assert_string_equal(little, "Main_Thread: join__x (a_b.py:9) < <module> (t.py:12)"); // no part of one
	static const char *const none[] = {"", "no json", "{}", "[]", "[{\"frames\":7}]"};
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		td_podframes_words(none[i], strlen(none[i]), text, sizeof(text));
		assert_string_equal(text, "");
	}
	put("20", "maps", "1-2 r-xp 0 00:00 1 /usr/lib/libpython3.11.so.1.0\n", false);
	put("20", "status", "Name:\tx\nNSpid:\t20\t7\nThreads:\t1\n", false);
	put("21", "maps", "1-2 r-xp 0 00:00 1 /usr/bin/cat\n", false);
	put("21", "status", "Name:\tx\n", false);
	assert_true(td_podframes_python(root, 20) && !td_podframes_python(root, 21) && !td_podframes_python(root, 22));
	assert_int_equal(td_podframes_inner(root, 20), 7);
	assert_int_equal(td_podframes_inner(root, 21), 0);
}

static size_t these(void *ctx, pid_t *v, size_t max)
{
	const pid_t *is = ctx;
	size_t n = 0;
	while (is[n] && n < max)
		v[n] = is[n], n++;
	return n;
}

// Only who catches the signal and is still of the pod gets it.
static void test_who_is_told(void **state)
{
	int ready[2];
	pid_t pid[3];
	assert_int_equal(pipe(ready), 0);
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (!pid[i]) {
			alarm(60); // it outlives no test that failed
			signal(SIGUSR1, i == 2 ? SIG_DFL : _exit);
			if (write(ready[1], "x", 1) == 1)
				pause();
			_exit(0);
		}
	}
	char x;
	for (int i = 0; i < 3; i++)
		assert_int_equal(read(ready[0], &x, 1), 1);
	pid_t still[] = {pid[0], pid[2], 0};
	assert_int_equal(td_podstacks_tell("/proc", pid, 3, SIGUSR1, these, still), 1);
	int status;
	assert_int_equal(waitpid(pid[0], &status, 0), pid[0]);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGUSR1);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(waitpid(pid[i], &status, WNOHANG), 0);
		kill(pid[i], SIGKILL);
		waitpid(pid[i], &status, 0);
	}
	close(ready[0]);
	close(ready[1]);
}

static void test_processes_of_a_pod(void **state)
{
	pid_t v[4];
	assert_int_equal(td_cg_pod_pids(root, UID, v, 4), 0);
	put(".", "cgroup.controllers", "cpu pids\n", false);
	put("kubepods/burstable/pod" UID, "cgroup.procs", "", false);
	put("kubepods/burstable/pod" UID "/c1", "cgroup.procs", "12\n0\n13\n", false);
	put("kubepods/burstable/pod" UID "/c2/sub", "cgroup.procs", "14\n15\n16\n", false);
	put("kubepods/burstable/podother/c2", "cgroup.procs", "99\n", false);
	assert_int_equal(td_cg_pod_pids(root, UID, v, 4), 4);
	int sum = 0;
	for (int i = 0; i < 4; i++)
		sum += v[i] == 99 ? 1000 : v[i] >= 12 && v[i] <= 16;
	assert_int_equal(sum, 4);
}

int main(void)
{
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_who_asks),
					   IN_DIR(test_a_log_that_grows_and_is_rotated),
					   IN_DIR(test_who_writes_too_much_is_not_known),
					   IN_DIR(test_no_link_is_followed),
					   IN_DIR(test_what_processes_do),
					   IN_DIR(test_functions),
					   cmocka_unit_test(test_who_is_told),
					   IN_DIR(test_processes_of_a_pod)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
