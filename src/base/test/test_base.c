// Unit tests of base: errors, memory, clock, heap, cancel, files, processes.
// rows: F2
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/gpudriver.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/proc.h"
#include "base/rand.h"
#include "base/term.h"
#include "base/together.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void errors_wrap_and_stay_bounded(void **s)
{
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_fail_detail(&e, TD_INVALID, 2018, "node"), TD_INVALID);
	td_wrap(&e, "asking");
	// Context does not change the detail.
	assert_int_equal(e.detail, 2018);

	assert_int_equal(td_fail(&e, TD_CONFLICT, "row %d", 7), TD_CONFLICT);
	assert_int_equal(e.detail, 0);
	assert_int_equal(td_wrap(&e, "pod %s", "ml/x"), TD_CONFLICT);
	assert_string_equal(e.msg, "pod ml/x: row 7");

	for (int i = 0; i < 100; i++)
		td_wrap(&e, "a context that is rather long");
	assert_true(strlen(e.msg) < sizeof(e.msg));

	assert_int_equal(td_fail(NULL, TD_INVALID, "x"), TD_INVALID);
	assert_string_equal(td_code_name(TD_UNCERTAIN), "Uncertain");
}

static void buffers_grow_and_hand_over(void **s)
{
	td_auto_buf struct td_buf b = {0};
	assert_string_equal(td_buf_str(&b), "");
	for (int i = 0; i < 1000; i++)
		td_buf_printf(&b, "%d,", i);
	assert_int_equal(b.len, 3890);
	td_auto_free char *p = td_buf_take(&b);
	assert_int_equal(strlen(p), 3890);
	assert_int_equal(b.cap, 0);
	td_buf_quote(&b, "it's $x");
	td_buf_quote(&b, "");
	assert_string_equal(td_buf_str(&b), "'it'\\''s $x'''");

	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, ",a,,bc,", ',');
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[1], "bc");
	assert_null(l.v[2]);
}

static void times_round_trip(void **s)
{
	char buf[TD_TIME_LEN];
	int64_t ms = 0;
	assert_int_equal(td_time_parse("2026-11-21T13:15:00Z", &ms), 0);
	assert_int_equal(ms, 1795266900000);
	assert_string_equal(td_time_format(ms, buf), "2026-11-21T13:15:00Z");
	assert_int_equal(td_time_parse("2026-11-21T14:15:00.25+01:00", &ms), 0);
	assert_int_equal(ms, 1795266900250);
	assert_string_equal(td_time_format_micro(ms, buf), "2026-11-21T13:15:00.250000Z");

	static const char *const bad[] = {"",
					  "2026",
					  "2026-13-01T00:00:00Z",
					  "2026-11-21T13:15:00",
					  "2026-11-21T13:15:00Zx",
					  "2026-11-21 13:15:00Z"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_time_parse(bad[i], &ms), -1);
	assert_int_equal(ms, 1795266900250);

	char age[16];
	assert_string_equal(td_time_age(119000, age, sizeof(age)), "119s");
	assert_string_equal(td_time_age(130000, age, sizeof(age)), "2m10s");
	assert_string_equal(td_time_age(26 * 3600000ll, age, sizeof(age)), "26h");
}

static void heap_orders_and_removes(void **s)
{
	struct td_heap h = {0};
	struct td_heap_node n[200] = {0};
	for (int i = 0; i < 200; i++) {
		n[i].at = (i * 7919) % 200;
		td_heap_push(&h, &n[i]);
	}

	for (int i = 0; i < 200; i += 3)
		td_heap_remove(&h, &n[i]);
	td_heap_remove(&h, &n[0]);

	int64_t last = -1;
	size_t count = 0;
	for (struct td_heap_node *x; (x = td_heap_pop(&h)); count++) {
		assert_true(x->at >= last);
		last = x->at;
	}

	assert_int_equal(count, 133);
	td_heap_done(&h);
}

static void strings_may_be_absent(void **s)
{
	assert_false(td_starts(NULL, ""));
	assert_false(td_ends(NULL, ""));
	assert_true(td_ends("a.sock", ".sock"));
	assert_true(td_ends("", ""));
	assert_false(td_ends("k", ".sock"));
}

static void *fire(void *c)
{
	td_cancel_fire(c);
	return NULL;
}

static void cancel_wakes_a_wait(void **s)
{
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	assert_int_equal(td_cancel_wait(c, 1), 0);
	pthread_t t;
	pthread_create(&t, NULL, fire, c);
	assert_int_equal(td_cancel_wait(c, -1), TD_CANCELLED);
	pthread_join(t, NULL);
	assert_true(td_cancelled(c));
	assert_false(td_cancelled(NULL));
}

static void files_are_whole_or_absent(void **s)
{
	char dir[] = "/tmp/td-base-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *deep = td_asprintf("%s/a/b/c", dir), *f = td_asprintf("%s/x", deep),
			  *link = td_asprintf("%s/a/link", dir);
	struct td_error e = TD_ERROR_INIT;

	assert_int_equal(td_mkdir_p(deep, 0755, &e), 0);
	assert_int_equal(td_mkdir_p(deep, 0755, &e), 0);
	assert_int_equal(td_file_write(f, "hello", 5, 0600, &e), 0);
	assert_int_equal(td_mkdir_p(f, 0755, &e), TD_INTERNAL);

	td_auto_buf struct td_buf b = {0};
	assert_int_equal(td_file_read(f, 5, &b, &e), 0);
	assert_string_equal(td_buf_str(&b), "hello");
	assert_int_equal(td_file_read(f, 4, &b, &e), TD_INVALID);
	assert_int_equal(b.len, 5);
	assert_int_equal(td_file_read("/tmp/no/such", 4, &b, &e), TD_NOT_FOUND);

	struct stat st;
	assert_int_equal(symlink("/etc", link), 0);
	assert_int_equal(td_rm_rf(dir, &e), 0);
	assert_int_equal(lstat(dir, &st), -1);
	assert_int_equal(stat("/etc/passwd", &st), 0); // the link was not followed
	assert_int_equal(td_rm_rf(dir, &e), 0);

	// Deeper than there are descriptors.
	struct rlimit before, few = {300, 300};
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	assert_int_equal(mkdir(dir, 0700), 0);
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(mkdirat(at, "d", 0700) || mkdirat(at, ".deep-1", 0700), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	close(at);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(td_rm_rf(dir, &e), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(lstat(dir, &st), -1);
}

static void processes_report_the_truth(void **s)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf out = {0};
	int st = -1;
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"cat; exit 3", NULL};

	assert_int_equal(td_run(argv, "in", 10000, NULL, &st, &out, &e), 0);
	assert_int_equal(st, 3);
	assert_string_equal(td_buf_str(&out), "in");

	char *slow[] = {(char *)"sleep", (char *)"60", NULL};
	assert_int_equal(td_run(slow, NULL, 50, NULL, &st, &out, &e), TD_UNCERTAIN);

	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_fire(c);
	assert_int_equal(td_run(slow, NULL, 10000, c, &st, &out, &e), TD_CANCELLED);

	char *none[] = {(char *)"/no/such/program", NULL};
	assert_int_equal(td_run(none, NULL, 1000, NULL, &st, &out, &e), TD_NOT_FOUND);

	char *fails[] = {(char *)"sh", (char *)"-c", (char *)"echo one; echo two >&2; exit 1", NULL};
	assert_int_equal(td_run_ok(fails, 10000, NULL, &e), TD_INTERNAL);
	assert_non_null(strstr(e.msg, "exited with 1: two"));
}

// A signal that we block or ignore still ends the child, and the child writes only to the
// descriptors it was given.
static void children_start_clean(void **s)
{
	static const int sigs[] = {SIGTERM, SIGPIPE};
	sigset_t term, old;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);

	for (size_t i = 0; i < TD_LEN(sigs); i++) {
		int p[2];
		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		td_auto_free char *script = td_asprintf("echo out; echo lost >&2; kill -%d $$; sleep 60", sigs[i]);
		char *argv[] = {(char *)"sh", (char *)"-c", script, NULL};
		const int fds[] = {-1, p[1], -1};

		pid_t pid;
		pthread_sigmask(SIG_BLOCK, &term, &old);
		void (*pipe_was)(int) = signal(SIGPIPE, SIG_IGN);
		int r = td_start(argv, NULL, fds, 3, POSIX_SPAWN_SETSID, &pid, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		signal(SIGPIPE, pipe_was);
		close(p[1]);

		assert_int_equal(r, 0);
		assert_int_equal(getsid(pid), pid);
		assert_int_equal(td_wait_code(pid), 128 + sigs[i]);

		char text[64] = "";
		assert_int_equal(read(p[0], text, sizeof(text) - 1), 4);
		assert_string_equal(text, "out\n");
		close(p[0]);
	}
}

static void uuids_are_version_4(void **s)
{
	char a[TD_UUID_LEN], b[TD_UUID_LEN];
	td_uuid(a);
	td_uuid(b);
	assert_int_equal(strlen(a), 36);
	assert_int_equal(a[14], '4');
	assert_string_not_equal(a, b);
}

static void arenas_keep_everything_until_the_end(void **s)
{
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	char *first = td_arena_strdup(a, "first");
	for (int i = 0; i < 10000; i++)
		assert_int_equal(((char *)td_arena_alloc(a, (size_t)i % 300))[0], 0);
	assert_string_equal(first, "first");
	assert_null(td_arena_strdup(a, NULL));
}

static void lines_fit_a_terminal(void **s)
{
	static const struct {
		const char *text;
		int columns;
		const char *lines;
	} cases[] = {{"a  bb ccc", 80, "a  bb ccc\n"},
		     {"a  bb ccc", 5, "a  bb\n  ccc\n"},
		     {"a bb http://a.long/word c", 6, "a bb\n  http://a.long/word\n  c\n"},
		     {"\033[32mgr\303\274n\033[0m bb", 7, "\033[32mgr\303\274n\033[0m bb\n"},
		     {"one\ntwo three", 5, "one\ntwo\n  three\n"},
		     {"a bb ccc", 0, "a bb ccc\n"},
		     {"", 5, "\n"}};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *lines = td_term_wrapped(cases[i].text, 2, cases[i].columns);
		assert_string_equal(lines, cases[i].lines);
	}
}

static void touch_at(const char *root, const char *path, const char *text, size_t n)
{
	td_auto_free char *p = td_asprintf("%s%s", root, path);
	td_auto_free char *d = td_strndup(p, (size_t)(strrchr(p, '/') - p));
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(p, text, n, 0644, NULL), 0);
}

static void the_gpus_driver_is_found(void **state)
{
	char root[] = "/tmp/td-driver-XXXXXX";
	assert_non_null(mkdtemp(root));
	assert_null(td_gpu_driver_dir(root));
	static const char *const files[] = {"/usr/lib64/libcuda.so.1.2",    "/opt/d/lib/libcuda.so.1.2",
					    "/opt/d/lib/libnvidia-ml.so.1", "/opt/d/lib/libnvidia-glcore.so.1",
					    "/opt/d/lib/libnvidia-mlx.so",  "/opt/d/bin/nvidia-smi"};
	for (size_t i = 0; i < TD_LEN(files); i++)
		touch_at(root, files[i],
			 "\x7f"
			 "ELF",
			 4);
	touch_at(root, "/opt/d/bin/nvidia-debugdump", "#!/bin/sh\n", 10); // a wrapper
	td_auto_free char *usual = td_asprintf("%s/usr/lib64/libcuda.so.1", root),
			  *odd = td_asprintf("%s/opt/d/lib/libcuda.so.1", root),
			  *gone = td_asprintf("%s/opt/d/lib/libcuda.so", root);
	assert_int_equal(symlink("libcuda.so.1.2", usual) | symlink("libcuda.so.1.2", odd) | symlink("gone", gone), 0);
	td_auto_free char *first = td_gpu_driver_dir(root);
	assert_string_equal(first, "/usr/lib64");
	// The loader's cache comes first, where what it says is there.
	static const char cache[] = "glibc-ld.so.cache1.1\0libcuda.so.1\0/usr/lib32/libcuda.so.1\0/gone/libcuda.so.1\0"
				    "libcuda.so.1\0/opt/d/lib/libcuda.so.1";
	touch_at(root, "/etc/ld.so.cache", cache, sizeof(cache));
	td_auto_free char *dir = td_gpu_driver_dir(root), *full = td_asprintf("%s%s", root, dir ? dir : "");
	assert_string_equal(dir, "/opt/d/lib");
	td_auto_strv struct td_strv names = {0}, from = {0}, programs = {0}, programs_from = {0};
	td_gpu_driver_files(full, &names, &from);
	td_gpu_driver_programs(full, &programs, &programs_from);
	static const char *const want[] = {"libcuda.so.1", "libcuda.so.1.2", "libnvidia-ml.so.1"};
	assert_int_equal(names.n, TD_LEN(want));
	for (size_t i = 0; i < names.n; i++)
		assert_string_equal(names.v[i], want[i]);
	assert_true(td_ends(from.v[0], "/opt/d/lib/libcuda.so.1.2"));
	assert_string_equal(programs.v[0], "nvidia-smi");
	for (size_t i = 0; i < programs_from.n; i++)
		assert_false(td_ends(programs_from.v[i], "/opt/d/bin/nvidia-debugdump"));
	assert_true(td_ends(programs_from.v[0], "/opt/d/bin/nvidia-smi"));
	td_rm_rf(root, NULL);
}

static void a_mistyped_word_is_near_one(void **s)
{
	static const char *const known[] = {"cpu", "gpu", "memory", "shell", "jupyter"};
	static const struct {
		const char *word, *near;
	} cases[] = {{"gpus", "gpu"},      {"gpu", NULL},          {"Gpu", "cpu"},       {"mem", "memory"},
		     {"memroy", "memory"}, {"shel", "shell"},      {"bash", NULL},       {"", NULL},
		     {"sh", NULL},         {"jypiter", "jupyter"}, {"./serve.sh", NULL}, {"gup", "gpu"}};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		const char *near = td_nearest(cases[i].word, known, TD_LEN(known));
		if (cases[i].near)
			assert_string_equal(near, cases[i].near);
		else
			assert_null(near);
	}
	char longer[100] = {0};
	memset(longer, 'x', sizeof(longer) - 1);
	assert_null(td_nearest(longer, known, TD_LEN(known)));
}

#ifdef TD_FAULTS
static void a_fault_fires_once_where_it_is_set(void **s)
{
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_fault_at(&e, "kube.%s.before", "none"), 0);

	setenv("TD_FAULT", "kube.*.pods.after:lose#2", 1);
	assert_int_equal(td_fault_at(&e, "kube.patch.pods.before"), 0);
	assert_int_equal(td_fault_at(&e, "kube.patch.pods.after"), 0);
	assert_int_equal(td_fault_at(&e, "kube.patch.pods.after"), TD_UNCERTAIN);
	assert_non_null(strstr(e.msg, "kube.patch.pods.after"));
	assert_int_equal(td_fault_at(&e, "kube.patch.pods.after"), 0);

	setenv("TD_FAULT", "x.before:fail", 1);
	assert_int_equal(td_fault_at(&e, "x.before"), TD_TRANSIENT);

	setenv("TD_FAULT", "x.after:delay=30", 1);
	int64_t from = td_mono_ms(&td_clock_system);
	assert_int_equal(td_fault_at(&e, "x.after"), 0);
	assert_true(td_mono_ms(&td_clock_system) - from >= 30);

	setenv("TD_FAULT", "x.after:crash", 1);
	pid_t pid = fork();
	if (!pid) {
		td_fault_at(&e, "x.after");
		_exit(0);
	}

	int st = 0;
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	unsetenv("TD_FAULT");
}
#endif

// ---- calls side by side ----

enum { SIDES = 12 };
struct sides {
	pthread_barrier_t all; // nobody passes until each has come
	int r[SIDES];
};

static int side(void *ctx, size_t i, struct td_cancel *stop)
{
	struct sides *s = ctx;
	pthread_barrier_wait(&s->all);
	return s->r[i] = (int)i;
}

// One has what is looked for; the others wait until they are stopped.
static int sought(void *ctx, size_t i, struct td_cancel *stop)
{
	struct sides *s = ctx;
	return s->r[i] = i == 7 ? 0 : td_cancel_wait(stop, -1);
}

static void calls_side_by_side(void **state)
{
	struct sides s = {0};
	struct td_together t = {side, &s, SIDES, false};
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	assert_int_equal(pthread_barrier_init(&s.all, NULL, SIDES), 0);
	td_together(&t, c);
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(s.r[i], i);
	pthread_barrier_destroy(&s.all);

	t = (struct td_together){sought, &s, SIDES, true};
	td_together(&t, NULL);
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(s.r[i], i == 7 ? 0 : TD_CANCELLED);

	t = (struct td_together){sought, &s, 3, false};
	td_cancel_fire(c);
	td_together(&t, c);
	for (int i = 0; i < 3; i++)
		assert_int_equal(s.r[i], TD_CANCELLED);
	td_together(&(struct td_together){0}, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_wrap_and_stay_bounded),
		cmocka_unit_test(buffers_grow_and_hand_over),
		cmocka_unit_test(times_round_trip),
		cmocka_unit_test(heap_orders_and_removes),
		cmocka_unit_test(cancel_wakes_a_wait),
		cmocka_unit_test(files_are_whole_or_absent),
		cmocka_unit_test(strings_may_be_absent),
		cmocka_unit_test(processes_report_the_truth),
		cmocka_unit_test(children_start_clean),
		cmocka_unit_test(uuids_are_version_4),
		cmocka_unit_test(arenas_keep_everything_until_the_end),
		cmocka_unit_test(lines_fit_a_terminal),
		cmocka_unit_test(the_gpus_driver_is_found),
		cmocka_unit_test(a_mistyped_word_is_near_one),
		cmocka_unit_test(calls_side_by_side),
#ifdef TD_FAULTS
		cmocka_unit_test(a_fault_fires_once_where_it_is_set),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
