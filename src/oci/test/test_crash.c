// What crashes leave behind, and that purge finds all of it. Needs root.
// rows: F1.4 F1.7
#include "oci/test/fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct td_oci_status status(const char *id)
{
	struct td_oci_status st;
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_status(fx.r, id, &st, &e))
		fail_msg("%s", e.msg);
	return st;
}

// Starts this program again as a starter process in a process group of its own, so that it, its
// sandbox and runc can be killed at once.
static pid_t starter(const char *name)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = '\0';

	char *argv[] = {self, "start", fx.id, (char *)name, NULL};

	posix_spawnattr_t a;
	posix_spawnattr_init(&a);
	posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSID);

	pid_t pid;
	assert_int_equal(posix_spawn(&pid, self, NULL, &a, argv, environ), 0);
	posix_spawnattr_destroy(&a);
	return pid;
}

static int starter_main(const char *id, const char *name)
{
	snprintf(fx.id, sizeof(fx.id), "%s", id);
	snprintf(fx.dir, sizeof(fx.dir), "/tmp/td-oci-%s", id);
	fx.image = td_asprintf("%s/image", fx.dir);
	td_auto_free char *state = td_asprintf("%s/runc", fx.dir), *pods = td_asprintf("%s/pods", fx.dir),
			  *cg = td_asprintf("/tandem-%s", id);

	char self[4096] = "";
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;

	struct td_error e = TD_ERROR_INIT;
	if (td_oci_new(&(struct td_oci_opts){.state_dir = state,
					     .pods_dir = pods,
					     .cgroup = cg,
					     .init_path = getenv("TD_STANDIN"),
					     .self_path = self},
		       &fx.r, &e))
		return 1;

	struct td_oci_spec sp = fx_spec(name, "sleep 1000");
	pid_t pid;
	if (td_oci_start(fx.r, &sp, NULL, &pid, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	pause();
	return 0;
}

static void container_outlives_its_starter(void **s)
{
	pid_t p = starter("live");
	td_auto_free char *id = fx_id("live");
	for (int64_t end = td_mono_ms(&td_clock_system) + 60000; status(id).state != TD_OCI_RUNNING;) {
		assert_true(td_mono_ms(&td_clock_system) < end);
		td_cancel_wait(NULL, 2);
	}

	assert_int_equal(kill(p, SIGKILL), 0);
	assert_int_equal(waitpid(p, NULL, 0), p);
	assert_int_equal(status(id).state, TD_OCI_RUNNING);

	// Its exit code is known although its starter is gone and it may not be a child of this
	// process.
	assert_int_equal(td_oci_signal(fx.r, id, SIGTERM, NULL), 0);
	struct td_oci_status st = fx_wait(id);
	assert_int_equal(st.exit_code, 143);
	assert_int_equal(st.signal, SIGTERM);
	assert_int_equal(td_oci_delete(fx.r, id, true, NULL), 0);
}

// Kills every process of a start in progress: the starter, its sandbox, runc and runc's stages.
static void kill_tree(pid_t pid)
{
	td_auto_free char *p = td_asprintf("/proc/%d/task/%d/children", (int)pid, (int)pid);
	td_auto_buf struct td_buf b = {0};
	kill(pid, SIGSTOP);
	if (!td_file_read(p, 65536, &b, NULL))
		for (char *c = b.s; c && *c;) {
			long k = strtol(c, &c, 10);
			td_auto_free char *cmd = td_asprintf("/proc/%ld/cmdline", k);
			td_auto_buf struct td_buf text = {0};
			// When runc is gone, the container itself is a child of the starter, too.
			// It must live.
			if (k > 0 && !td_file_read(cmd, 65536, &text, NULL) && !td_starts(td_buf_str(&text), "/.init"))
				kill((pid_t)k, SIGKILL);
			while (*c == ' ')
				c++;
		}
	kill(pid, SIGKILL);
}

static void killed_at_any_instant_a_start_can_be_repeated(void **s)
{
	int seen[3] = {0};
	for (int ms = 1; ms <= 61; ms += 4) {
		pid_t p = starter("mid");
		td_cancel_wait(NULL, ms); // the instant is the parameter of the test
		kill_tree(p);
		assert_int_equal(waitpid(p, NULL, 0), p);

		td_auto_free char *id = fx_id("mid");
		enum td_oci_state st = status(id).state;
		seen[st]++;
		// It runs or never was: it cannot have ended.
		assert_int_not_equal(st, TD_OCI_STOPPED);

		struct td_oci_spec sp = fx_spec("mid", "exit 3");
		fx_start(&sp);
		assert_int_equal(fx_wait(id).exit_code, 3);
		assert_int_equal(td_oci_delete(fx.r, id, ms % 8 == 1, NULL), 0);
	}
	print_message("killed while absent %d times, while running %d times\n", seen[TD_OCI_ABSENT],
		      seen[TD_OCI_RUNNING]);
}

// A start goes on when only its starter is killed. Once it has settled, it runs or nothing of it is there.
static void killed_starter_leaves_a_start_that_settles(void **s)
{
	td_auto_free char *id = fx_id("settle");
	for (int ms = 1; ms <= 41; ms += 8) {
		pid_t p = starter("settle");
		td_cancel_wait(NULL, ms); // the instant is the parameter of the test
		assert_int_equal(kill(p, SIGKILL), 0);
		assert_int_equal(waitpid(p, NULL, 0), p);
		struct td_error e = TD_ERROR_INIT;
		if (td_oci_settle(fx.r, id, NULL, &e))
			fail_msg("%s", e.msg);
		enum td_oci_state st = status(id).state;
		bool busy;
		assert_int_equal(td_oci_busy(fx.r, id, "", &busy, NULL), 0);
		assert_int_not_equal(st, TD_OCI_STOPPED);
		assert_int_equal(busy, st == TD_OCI_RUNNING);
		assert_int_equal(td_oci_delete(fx.r, id, true, NULL), 0);
	}
	assert_int_equal(td_oci_settle(fx.r, id, NULL, NULL), 0); // there is none
}

static void cancelled_start_leaves_nothing_running(void **s)
{
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_fire(c);
	struct td_oci_spec sp = fx_spec("can", "sleep 1000");
	pid_t pid = 0;
	assert_int_equal(td_oci_start(fx.r, &sp, c, &pid, NULL), TD_CANCELLED);
	assert_int_equal(pid, 0);
	assert_int_equal(status(sp.id).state, TD_OCI_ABSENT);
	bool busy = true;
	assert_int_equal(td_oci_busy(fx.r, sp.id, "", &busy, NULL), 0);
	assert_false(busy);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
}

static void purge_leaves_nothing(void **s)
{
	td_auto_free char *sw = td_asprintf("td%s", fx.id), *a = fx_id("p-0"), *prefix = td_asprintf("td%s-", fx.id);
	struct td_error e = TD_ERROR_INIT;
	if (td_net_switch_ensure(sw, "10.198.0.1/16", &e) ||
	    td_net_pod_add(a, &(struct td_net_pod){sw, "10.198.1.2", "10.198.0.1", 16, 0}, &e))
		fail_msg("%s", e.msg);

	struct td_oci_spec run = fx_spec("p1", "sleep 1000 & sleep 1000"), dead = fx_spec("p2", "exit 1"),
			   killed = fx_spec("p3", "sleep 1000");

	run.netns = a;
	run.memory_max = 64 << 20;
	fx_start(&run);
	fx_start(&dead);
	fx_start(&killed);
	fx_wait(dead.id);
	assert_int_equal(td_oci_signal(fx.r, killed.id, SIGKILL, NULL), 0);

	for (int ms = 5; ms < 40; ms += 9) { // half-made containers
		td_auto_free char *name = td_asprintf("h%d", ms);
		pid_t p = starter(name);
		td_cancel_wait(NULL, ms);
		kill_tree(p);
		assert_int_equal(waitpid(p, NULL, 0), p);
	}

	td_auto_free char *before = fx_leftovers();
	assert_non_null(strstr(before, a)); // fx_leftovers() finds what is there
	assert_non_null(strstr(before, "cgroup"));
	if (td_oci_purge(fx.r, prefix, &e) || td_net_switch_delete(sw, &e))
		fail_msg("%s", e.msg);

	td_auto_free char *after = fx_leftovers();
	assert_string_equal(after, "");
	assert_int_equal(td_oci_purge(fx.r, prefix, &e), 0);

	// The runtime still works.
	struct td_oci_spec again = fx_spec("p4", "exit 2");
	fx_start(&again);
	assert_int_equal(fx_wait(again.id).exit_code, 2);
	assert_int_equal(td_oci_delete(fx.r, again.id, true, NULL), 0);
}

static int tests(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(container_outlives_its_starter),
		cmocka_unit_test(killed_at_any_instant_a_start_can_be_repeated),
		cmocka_unit_test(killed_starter_leaves_a_start_that_settles),
		cmocka_unit_test(cancelled_start_leaves_nothing_running),
		cmocka_unit_test(purge_leaves_nothing),
	};
	return cmocka_run_group_tests(t, fx_setup, fx_teardown);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "start"))
		return starter_main(argv[2], argv[3]);
	return fx_main(argc, argv, tests);
}
