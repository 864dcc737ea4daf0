// The gate's table and its waiting: nobody gets a device before its last holder is gone, and no
// superseded holder comes back.
// rows: A7.4
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "gate/devices.h"
#include "gate/gate.h"
#include "gate/test/holders.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int claim(struct td_gate_table *t, uint64_t mask, struct td_holder h)
{
	bool changed = false;
	return td_gate_claim(t, mask, &h, &changed, NULL);
}

static void test_devices(void **state)
{
	uint64_t m = 99;
	assert_int_equal(td_dev_parse("0-1,4", 8, &m, NULL), 0);
	assert_int_equal(m, 0x13);
	assert_int_equal(td_dev_parse("-", 8, &m, NULL), 0);
	assert_int_equal(m, 0);

	m = 99;
	const char *bad[] = {"8", "1-", "-1", "a", "3-1", "0,", "0;1", "0-99999999999999999999"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_dev_parse(bad[i], 8, &m, NULL), TD_INVALID);
	assert_int_equal(m, 99);

	assert_int_equal(td_dev_parse("0-63", 64, &m, NULL), 0);
	assert_true(m == ~(uint64_t)0 && m == td_dev_all(64));
	td_auto_free char *s = td_dev_format(0x13), *none = td_dev_format(0), *all = td_dev_format(~(uint64_t)0);
	assert_string_equal(s, "0-1,4");
	assert_string_equal(none, "-");
	assert_string_equal(all, "0-63");
}

static void test_table_supersede(void **state)
{
	struct td_gate_table t = {.n = 8};
	struct td_holder out[8], a = native(7, 100), b = native(8, 200);
	assert_int_equal(claim(&t, 0x3, a), 0);
	assert_true(td_gate_holds(&t, 0x3, &a));
	assert_int_equal(td_gate_pending(&t, 0x3, out, 8), 0);

	assert_int_equal(claim(&t, 0x6, b), 0);
	assert_int_equal(td_gate_pending(&t, 0x6, out, 8), 1);
	assert_int_equal(out[0].job, 7);
	assert_false(td_gate_holds(&t, 0x3, &a)); // device 1 went on

	// The old holder does not get it back, neither now nor when it is proven gone.
	assert_int_equal(claim(&t, 0x2, a), TD_CONFLICT);
	assert_true(td_gate_forget(&t, &a));
	assert_int_equal(td_gate_pending(&t, 0x6, out, 8), 0);
	assert_int_equal(claim(&t, 0x2, a), TD_CONFLICT);

	// The same job id with another start is another job, because Slurm reuses ids after a
	// crash.
	assert_int_equal(claim(&t, 0x2, native(7, 300)), 0);
	assert_int_equal(claim(&t, 1ull << 8, a), TD_INVALID);
}

static void test_table_same_job(void **state)
{
	struct td_gate_table t = {.n = 8};
	bool changed = true;
	struct td_holder h = native(7, 0), p = with_pod(7, 100, "u");
	assert_int_equal(claim(&t, 0x1, h), 0);
	assert_int_equal(td_gate_claim(&t, 0x1, &p, &changed, NULL), 0);
	assert_true(changed && t.dev[0].now.pod && t.dev[0].now.start == 100 && t.dev[0].n_prev == 0);
	assert_int_equal(td_gate_claim(&t, 0x1, &p, &changed, NULL), 0);
	assert_false(changed);

	// A pod whose grant is older than the present one comes late. The Prolog of a job never
	// does.
	assert_int_equal(claim(&t, 0x1, with_pod(5, 50, "v")), TD_CONFLICT);
	assert_int_equal(claim(&t, 0x1, native(5, 50)), 0);

	// In one second allocations get their ids in order, so the lower one is late. Nothing says
	// so of a higher one: there the gate looks who is busy.
	struct td_holder now[8], second = with_pod(6, 50, "w");
	assert_int_equal(claim(&t, 0x1, with_pod(4, 50, "x")), TD_CONFLICT);
	assert_int_equal(td_gate_tied(&t, 0x3, &second, now, 8), 1);
	assert_int_equal(now[0].job, 5);
	struct td_holder other = with_pod(6, 51, "w"), prolog = native(6, 50), known = native(5, 50);
	assert_int_equal(td_gate_tied(&t, 0x3, &other, now, 8), 0);
	assert_int_equal(td_gate_tied(&t, 0x3, &prolog, now, 8), 0);
	assert_int_equal(td_gate_tied(&t, 0x3, &known, now, 8), 0);

	// A refused claim changes nothing, not even the devices before the refused one.
	struct td_gate_table before = t;
	assert_int_equal(claim(&t, 0x3, p), TD_CONFLICT);
	assert_memory_equal(&before, &t, sizeof(t));
}

static void test_table_overflow(void **state)
{
	struct td_gate_table t = {.n = 1};
	for (int i = 0; i <= TD_GATE_PREV; i++)
		assert_int_equal(claim(&t, 1, native(100 + i, 1000 + i)), 0);
	assert_int_equal(claim(&t, 1, native(200, 2000)), TD_THROTTLED);
	struct td_holder one = native(100, 1000);
	td_gate_forget(&t, &one);
	assert_int_equal(claim(&t, 1, native(200, 2000)), 0);
}

static void test_own_devices(void **state)
{
	struct td_gate_table t = {.n = 2};
	assert_int_equal(claim(&t, 1, with_pod(0, 0, "a")), 0);
	struct td_holder a = with_pod(0, 0, "a"), b = with_pod(0, 0, "b");
	assert_false(td_gate_holds(&t, 1, &b));
	assert_int_equal(claim(&t, 1, b), 0);
	assert_true(td_gate_holds(&t, 1, &b));
	assert_false(td_gate_holds(&t, 1, &a));
}

static void test_save(void **state)
{
	char dir[] = "/tmp/td-gate-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *path = td_asprintf("%s/n0.json", dir);
	struct td_gate_table t = {.n = 8}, u;
	assert_int_equal(td_gate_load(path, 8, NULL, &u, NULL), 0);
	assert_int_equal(u.n, 8);
	claim(&t, 0x81, native(7, 100));
	claim(&t, 0x1, with_pod(8, 200, "11111111-2222-3333-4444-555555555555"));
	assert_int_equal(td_gate_save(path, &t, NULL, NULL), 0);
	assert_int_equal(td_gate_load(path, 8, NULL, &u, NULL), 0);
	assert_memory_equal(&t, &u, sizeof(t));

	assert_int_equal(td_file_write(path, "{", 1, 0600, NULL), 0);
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_gate_load(path, 8, NULL, &u, &e), TD_INVALID);
	td_rm_rf(dir, NULL);
}

static void test_parse(void **state)
{
	struct td_gate_request q;
	assert_int_equal(
		td_gate_parse("acquire job=7 start=100 uid=1000 node=n0 devices=0-1 timeout=45000", "n0", 8, &q, NULL),
		0);
	assert_true(q.h.job == 7 && q.h.start == 100 && q.mask == 3 && q.timeout_ms == 45000 && !q.ping);
	assert_int_equal(td_gate_parse("ping", "n0", 8, &q, NULL), 0);
	assert_true(q.ping);

	assert_int_equal(td_gate_parse("check start=100 node=n0 devices=4 timeout=10", "n0", 8, &q, NULL), 0);
	assert_true(q.check && q.h.job == 0 && q.h.start == 100 && q.mask == 0x10);
	assert_int_equal(td_gate_parse("check job=7 devices=-", "n0", 8, &q, NULL), 0);
	assert_true(q.h.job == 0); // the kernel says whose job it is
	assert_int_equal(td_gate_parse("acquire job=7 uid=1000 ask=1-2 devices=0 new=x", "n0", 8, &q, NULL), 0);
	// A hint does not make it a pod.
	assert_true(!strcmp(q.h.ask, "1-2") && !q.h.pod && !strcmp(q.h.uid, "1000"));
	assert_string_equal(q.h.ask_pod, "");
	assert_int_equal(td_gate_parse("acquire job=7 uid=1000 ask=1-2 pod=ml/train-0 devices=0", "n0", 8, &q, NULL),
			 0);
	assert_string_equal(q.h.ask_pod, "ml/train-0");
	assert_int_equal(
		td_gate_parse("acquire job=7 uid=1 node=n0 partition=train qos=high devices=0", "n0", 8, &q, NULL), 0);
	assert_string_equal(q.partition, "train");
	assert_string_equal(q.qos, "high");
	assert_int_equal(
		td_gate_parse("progress job=7 node=n0 devices=- cpu=5 output=-1 beat=-2 nodes=3", "n0", 8, &q, NULL),
		0);
	assert_true(q.progress && q.cpu_ms == 5 && q.output == -1 && q.heartbeat == -2 && q.nodes == 3 && !q.others);
	assert_int_equal(
		td_gate_parse("progress job=7 node=n0 devices=- cpu=5 output=2 beat=1 others=-1", "n0", 8, &q, NULL),
		0);
	assert_true(q.others && q.gpu_others == -1 && !q.nodes);
	assert_int_equal(td_gate_parse("mine job=7 node=n0 devices=-", "n0", 8, &q, NULL), 0);
	assert_true(q.mine && q.use && !q.h.job);
	assert_int_equal(td_gate_parse("progress job=7 devices=- cpu=-2 output=-2 others=101", "n0", 8, &q, NULL), 0);
	assert_true(q.cpu_ms == -1 && q.output == -1 && q.gpu_others == -2); // not known: no hang comes of that
	assert_int_equal(td_gate_parse("pace job=7 node=n0 devices=- part=1 of=2 ranks=0:1:2:n0:-1", "n0", 8, &q, NULL),
			 0);
	assert_true(q.pace && q.part == 1 && q.parts == 2 && q.h.job == 7);
	assert_string_equal(q.ranks, "0:1:2:n0:-1");
	assert_int_equal(td_gate_parse("pace job=7 node=n0 devices=- part=-1 of=2 ranks=", "n0", 8, &q, NULL),
			 TD_INVALID);
	{
		// A name too long for any pod is ignored, not cut.
		char line[600];
		snprintf(line, sizeof(line), "acquire job=7 uid=1000 ask=1-2 pod=ml/%0400d devices=0", 1);
		assert_int_equal(td_gate_parse(line, "n0", 8, &q, NULL), 0);
		assert_string_equal(q.h.ask_pod, "");
	}

	const char *bad[] = {"",
			     "check start=1",
			     "mine node=n0",
			     "mine node=n1 devices=-",
			     "acquire",
			     "acquire job=7",
			     "acquire job=0 devices=-",
			     "acquire job=x devices=-",
			     "acquire job=7 devices=9",
			     "acquire job=7 devices=- node=n1",
			     "acquire job=7 devices=- junk",
			     "release job=7"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_gate_parse(bad[i], "n0", 8, &q, NULL), TD_INVALID);
}

static void test_cgroup_job(void **state)
{
	assert_int_equal(
		td_gate_cgroup_job(
			"5:devices:/tandem-1/td1-c0/slurm_n0/uid_0/job_3/step_0/task_0\n0::/tandem-1/td1-c0\n"),
		3);
	assert_int_equal(td_gate_cgroup_job("0::/system.slice/n0_slurmstepd.scope/job_12/step_batch/user/task_0\n"),
			 12);
	assert_int_equal(td_gate_cgroup_job("0::/a/job_12\n"), 12);
	assert_int_equal(td_gate_cgroup_job("0::/tandem-a/td-1/job_x/system.slice/slurmstepd.scope/job_12/step_0\n"),
			 12);
	assert_int_equal(td_gate_cgroup_job("0::/user.slice/job_\n"), 0);
	assert_int_equal(td_gate_cgroup_job("0::/a/job_12x/b\n0::/job_/c\n0::/job_999999999999999\n"), 0);
	assert_int_equal(td_gate_cgroup_job(""), 0);
}

// Slurm 26.05 on cgroup v2 names a job's cgroup otherwise. It is still one job, and nobody can say that he is another.
static void test_cgroup_sluid(void **state)
{
	static const char ours[] = "0::/system.slice/n0_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n";
	char s[TD_SLUID];
	assert_int_equal(td_gate_cgroup_job(ours), 0);
	assert_true(td_gate_cgroup_sluid(ours, s));
	assert_string_equal(s, "sEKNKTV3WPV500");
	// What a user may make stands behind the real one.
	assert_true(td_gate_cgroup_sluid("0::/a/sEKNKTV3WPV500/step_0/user/task_0/sAAAAAAAAAAAAA/step_0\n", s));
	assert_string_equal(s, "sEKNKTV3WPV500");
	assert_false(td_gate_cgroup_sluid("0::/a/sEKNKTV3WPV500\n", s));
	assert_false(td_gate_cgroup_sluid("0::/a/sEKNKTV3WPV50/step_0\n", s));
	assert_false(td_gate_cgroup_sluid("0::/system.slice/slurmd.service\n0::/a/step_0\n", s));
	assert_false(td_gate_cgroup_sluid("", s));

	struct td_gate_request q;
	assert_int_equal(td_gate_parse("acquire job=7 start=9 uid=1 sluid=sEKNKTV3WPV500 devices=1", "n0", 8, &q, NULL),
			 0);
	assert_string_equal(q.h.sluid, "sEKNKTV3WPV500");
	struct td_gate_table t = {.n = 2};
	bool changed;
	assert_int_equal(td_gate_claim(&t, q.mask, &q.h, &changed, NULL), 0);
	assert_int_equal(td_gate_sluid_job(&t, "sEKNKTV3WPV500"), 7);
	assert_int_equal(td_gate_sluid_job(&t, "sEKNKTV3WPV501"), 0);
	assert_int_equal(td_gate_sluid_job(&t, ""), 0);
	const struct td_holder next = {.job = 8, .start = 10};
	assert_int_equal(td_gate_claim(&t, 2, &next, &changed, NULL), 0);
	assert_int_equal(td_gate_sluid_job(&t, "sEKNKTV3WPV500"), 7); // it may not be gone yet
	assert_int_equal(td_gate_parse("acquire job=7 uid=1 sluid=../x devices=1", "n0", 8, &q, NULL), 0);
	assert_string_equal(q.h.sluid, "");
}

// ---- the waiting ----

struct world {
	char dir[32];
	struct td_gate_site node;
	struct td_gate *g;
	pthread_mutex_t mu;
	int64_t busy_job; // 0: nobody
	int superseded, late;
	struct td_holder comes;
	int arrived, tests; // how often a test of the idle node still goes on
};

static bool busy(void *ctx, int node, const struct td_holder *h, char *why, size_t n)
{
	struct world *w = ctx;
	pthread_mutex_lock(&w->mu);
	bool b = w->busy_job == h->job;
	pthread_mutex_unlock(&w->mu);
	snprintf(why, n, "test");
	return b;
}

static void superseded(void *ctx, int node, uint64_t mask)
{
	struct world *w = ctx;
	pthread_mutex_lock(&w->mu);
	w->superseded++;
	pthread_mutex_unlock(&w->mu);
}

static void late(void *ctx, int node)
{
	struct world *w = ctx;
	pthread_mutex_lock(&w->mu);
	w->late++;
	pthread_mutex_unlock(&w->mu);
}

static void open_gate(struct world *w)
{
	struct td_gate_opts o = {w->dir, &w->node, 1, 8, &td_clock_system, busy, superseded, late, NULL, w, NULL};
	assert_int_equal(td_gate_new(&o, &w->g, NULL), 0);
}

static int setup(void **state)
{
	struct world *w = td_calloc(1, sizeof(*w));
	strcpy(w->dir, "/tmp/td-gate-XXXXXX");
	pthread_mutex_init(&w->mu, NULL);
	assert_non_null(mkdtemp(w->dir));
	w->node = (struct td_gate_site){"n0", w->dir};
	open_gate(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	td_gate_free(w->g);
	td_rm_rf(w->dir, NULL);
	pthread_mutex_destroy(&w->mu);
	free(w);
	return 0;
}

static void test_wait_and_timeout(void **state)
{
	struct world *w = *state;
	struct td_holder a = native(1, 10), b = native(2, 20);
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_gate_acquire(w->g, 0, 0x3, &a, &(struct td_gate_wait){1000}, NULL, NULL), 0);
	w->busy_job = 1;
	assert_int_equal(td_gate_acquire(w->g, 0, 0x1, &b, &(struct td_gate_wait){30}, NULL, &e), TD_TRANSIENT);
	assert_non_null(strstr(e.msg, "held by job 1"));
	assert_int_equal(w->superseded, 1);
	assert_int_equal(w->late, 1); // once per wait
	char text[64];
	assert_true(td_gate_held_up(w->g, 0, text, sizeof(text)));
	assert_string_equal(text, "held by job 1 (test)");

	// The claim stands although the caller gave up: nothing of job 1 starts there any more.
	assert_false(td_gate_may_start(w->g, 0, 0x1, &a));
	assert_true(td_gate_may_start(w->g, 0, 0x2, &a));

	// The same holds after a restart of the agent.
	td_gate_free(w->g);
	open_gate(w);
	assert_false(td_gate_may_start(w->g, 0, 0x1, &a));
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &b, &e), TD_THROTTLED);
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &a, &e), TD_CONFLICT);
	w->busy_job = 0;
	assert_false(td_gate_held_up(w->g, 0, text, sizeof(text)));
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &b, &e), 0);
	assert_int_equal(td_gate_try(w->g, 0, 0, &a, &e), 0); // no devices: nothing to refuse
}

// After a crash Slurm gives a job id out twice, and slurmd runs no Prolog for the second job, which
// must start nothing.
static void test_check(void **state)
{
	struct world *w = *state;
	struct td_holder old = with_pod(5, 10, "u"), again = native(5, 12), next = native(6, 11);
	assert_int_equal(td_gate_check(w->g, 0, 0x1, &old, &(struct td_gate_wait){100}, NULL, NULL), TD_CONFLICT);
	assert_int_equal(td_gate_acquire(w->g, 0, 0x3, &old, &(struct td_gate_wait){100}, NULL, NULL), 0);
	assert_int_equal(td_gate_check(w->g, 0, 0x1, &old, &(struct td_gate_wait){100}, NULL, NULL), 0);
	assert_int_equal(td_gate_check(w->g, 0, 0, &old, &(struct td_gate_wait){100}, NULL, NULL), 0);
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_gate_check(w->g, 0, 0x1, &again, &(struct td_gate_wait){100}, NULL, &e), TD_CONFLICT);
	assert_non_null(strstr(e.msg, "job 5 was not let in to devices 0 of n0"));
	assert_int_equal(td_gate_check(w->g, 0, 0, &again, &(struct td_gate_wait){100}, NULL, NULL), TD_CONFLICT);
	// Device 2 is not its own.
	assert_int_equal(td_gate_check(w->g, 0, 0x7, &old, &(struct td_gate_wait){100}, NULL, NULL), TD_CONFLICT);

	// A check claims nothing, and waits for the earlier holder.
	assert_int_equal(td_gate_try(w->g, 0, 0x3, &old, NULL), 0);
	w->busy_job = 5;
	assert_int_equal(td_gate_acquire(w->g, 0, 0x1, &next, &(struct td_gate_wait){10}, NULL, NULL), TD_TRANSIENT);
	assert_int_equal(td_gate_check(w->g, 0, 0x1, &next, &(struct td_gate_wait){10}, NULL, NULL), TD_TRANSIENT);
	w->busy_job = 0;
	assert_int_equal(td_gate_check(w->g, 0, 0x1, &next, &(struct td_gate_wait){1000}, NULL, NULL), 0);
}

static void *release(void *arg)
{
	struct world *w = arg;
	pthread_mutex_lock(&w->mu);
	w->busy_job = 0;
	pthread_mutex_unlock(&w->mu);
	td_gate_kick(w->g);
	return NULL;
}

static void test_released(void **state)
{
	struct world *w = *state;
	struct td_holder a = native(1, 10), b = with_pod(2, 20, "u");
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &a, NULL), 0);
	w->busy_job = 1;
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &b, NULL), TD_THROTTLED);
	pthread_t t;
	pthread_create(&t, NULL, release, w);
	assert_int_equal(td_gate_acquire(w->g, 0, 0x1, &b, &(struct td_gate_wait){20000}, NULL, NULL), 0);
	pthread_join(t, NULL);
}

// Job 2 waited and got a lower id than pod 3, whose grant ended in the second in which job 2 began.
static void test_a_pod_of_the_same_second_does_not_supersede_who_runs(void **state)
{
	struct world *w = *state;
	struct td_holder a = native(2, 10), b = with_pod(3, 10, "u");
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &a, NULL), 0);
	w->busy_job = 2;
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &b, NULL), TD_THROTTLED);
	assert_true(td_gate_may_start(w->g, 0, 0x1, &a));
	assert_int_equal(w->superseded, 0);
	w->busy_job = 0;
	assert_int_equal(td_gate_try(w->g, 0, 0x1, &b, NULL), 0);
	assert_false(td_gate_may_start(w->g, 0, 0x1, &a));
}

struct served {
	struct world *w;
	struct td_cancel *c;
};

static void *serve(void *arg)
{
	struct served *s = arg;
	return (void *)(intptr_t)td_gate_serve(s->w->g, s->c, NULL);
}

static void ask(const char *path, const char *line, char *reply, size_t n)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int64_t end = td_mono_ms(&td_clock_system) + 120000;
	// The gate listens as soon as its thread runs.
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		assert_true(td_mono_ms(&td_clock_system) < end);
	ssize_t sent = send(fd, line, strlen(line), MSG_NOSIGNAL);
	// A full gate closes the connection. Then the reply is empty.
	assert_true(sent == (ssize_t)strlen(line) || errno == EPIPE);
	size_t got = 0;
	ssize_t k;
	while (got < n - 1 && (k = read(fd, reply + got, n - 1 - got)) > 0)
		got += (size_t)k;
	reply[got] = '\0';
	close(fd);
}

static bool nobody(void *ctx, int node, const char *cgroups, char *why, size_t n)
{
	assert_true(td_starts(strchr(cgroups, ':'), ":") && node == 0);
	snprintf(why, n, "pod a/b is no slurmd");
	return false;
}

// To be root is not enough: containers are root, and any pod may mount the directory of the socket.
static void test_who_may_claim(void **state)
{
	struct world *w = *state;
	td_gate_free(w->g);
	struct td_gate_opts o = {w->dir, &w->node, 1, 8, &td_clock_system, busy, superseded, late, nobody, w, NULL};
	assert_int_equal(td_gate_new(&o, &w->g, NULL), 0);
	struct served s = {w, td_cancel_new()};
	struct td_holder victim = native(1, 10);
	td_auto_free char *path = td_asprintf("%s/gate.sock", w->dir);
	char reply[512];
	pthread_t t;

	assert_int_equal(td_gate_try(w->g, 0, 0x3, &victim, NULL), 0);
	pthread_create(&t, NULL, serve, &s);
	ask(path, "acquire job=2 start=20 uid=1000 node=n0 devices=0-1 timeout=1000\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail pod a/b is no slurmd\n");
	assert_true(td_gate_may_start(w->g, 0, 0x3, &victim));
	assert_int_equal(w->superseded, 0);
	td_cancel_fire(s.c);
	void *r;
	pthread_join(t, &r);
	assert_null(r);
	td_cancel_unref(s.c);
}

static void test_socket(void **state)
{
	struct world *w = *state;
	struct served s = {w, td_cancel_new()};
	td_auto_free char *path = td_asprintf("%s/gate.sock", w->dir);
	char reply[512];
	pthread_t t;
	pthread_create(&t, NULL, serve, &s);
	ask(path, "ping\n", reply, sizeof(reply));
	assert_string_equal(reply, "ok\n");
	ask(path, "acquire job=1 start=10 uid=1000 node=n0 devices=0-1 timeout=1000\n", reply, sizeof(reply));
	assert_string_equal(reply, "ok\n");
	w->busy_job = 1;
	ask(path, "acquire job=2 start=20 uid=1000 node=n0 devices=1 timeout=20\n", reply, sizeof(reply));
	assert_true(td_starts(reply, "wait devices 1 of n0: held by job 1"));
	assert_non_null(strstr(reply, "\nfail devices 1 of n0: held by job 1"));

	ask(path, "acquire job=2 devices=99\n", reply, sizeof(reply));
	assert_true(td_starts(reply, "fail "));

	td_auto_free char *tasks = td_asprintf("%s/task.sock", w->dir);
	ask(tasks, "acquire job=2 start=20 node=n0 devices=1 timeout=20\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail this socket takes check and mine only\n");
	// Nobody asks about another one's job: whose it is, the kernel says.
	ask(tasks, "use job=1 node=n0 devices=-\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail this socket takes check and mine only\n");
	ask(tasks, "mine job=1 node=n0 devices=-\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail only tasks of Slurm jobs may ask here\n");
	ask(path, "mine node=n0 devices=-\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail this socket takes acquire only\n");

	// Anybody may hold connections to the socket for tasks, but Prolog still gets its answer.
	int held[300];
	for (size_t i = 0; i < TD_LEN(held); i++) {
		struct sockaddr_un to = {.sun_family = AF_UNIX};
		snprintf(to.sun_path, sizeof(to.sun_path), "%s", tasks);
		held[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(connect(held[i], (struct sockaddr *)&to, sizeof(to)), 0);
	}

	ask(tasks, "ping\n", reply, sizeof(reply));
	assert_string_equal(reply, ""); // no room
	ask(path, "ping\n", reply, sizeof(reply));
	assert_string_equal(reply, "ok\n");
	for (size_t i = 0; i < TD_LEN(held); i++)
		close(held[i]);
	int64_t end = td_mono_ms(&td_clock_system) + 120000;
	// While there is no room, there is no answer: ask again.
	do
		ask(tasks, "ping\n", reply, sizeof(reply));
	while (!*reply && td_mono_ms(&td_clock_system) < end);
	assert_string_equal(reply, "ok\n");

	// This test is no task of a job.
	ask(tasks, "check start=10 node=n0 devices=0\n", reply, sizeof(reply));
	assert_string_equal(reply, "fail only tasks of Slurm jobs may ask here\n");
	td_cancel_fire(s.c);
	void *r;
	pthread_join(t, &r);
	assert_null(r);
	td_cancel_unref(s.c);
}

static int room_again(void *ctx, const char *text)
{
	struct world *w = ctx;
	assert_non_null(strstr(text, "create "));
	return td_mkdir_p(w->dir, 0700, NULL);
}

static void test_a_table_that_cannot_be_written_is_tried_again(void **state)
{
	struct world *w = *state;
	struct td_holder a = native(1, 10);
	assert_int_equal(td_rm_rf(w->dir, NULL), 0);
	assert_int_equal(td_gate_acquire(w->g, 0, 0x3, &a, &(struct td_gate_wait){20}, NULL, NULL), TD_TRANSIENT);
	assert_false(td_gate_may_start(w->g, 0, 0x3, &a)); // what is not on disk holds nothing
	assert_int_equal(td_gate_acquire(w->g, 0, 0x3, &a, &(struct td_gate_wait){20000, room_again, w}, NULL, NULL),
			 0);
	td_gate_free(w->g);
	open_gate(w);
	assert_true(td_gate_may_start(w->g, 0, 0x3, &a));
}

static bool arrives(void *ctx, int node)
{
	struct world *w = ctx;
	w->arrived++;
	assert_true(
		td_gate_may_start(w->g, 0, 0x3, &w->comes)); // a test that begins now sees that the devices are taken
	return w->tests-- <= 0;
}

static void nobody_is_let_in_beside_a_test_of_the_idle_node(void **state)
{
	struct world *w = *state;
	struct td_error e = TD_ERROR_INIT;
	td_gate_free(w->g);
	struct td_gate_opts o = {w->dir, &w->node, 1, 8,    &td_clock_system,  busy, superseded,
				 late,   NULL,     w, NULL, .arrives = arrives};
	assert_int_equal(td_gate_new(&o, &w->g, NULL), 0);
	w->comes = native(1, 10);
	w->tests = 1;
	assert_int_equal(td_gate_try(w->g, 0, 0x3, &w->comes, &e), TD_THROTTLED);
	assert_non_null(strstr(e.msg, "the test of the idle node has not ended"));
	w->tests = 2;
	assert_int_equal(
		td_gate_acquire(w->g, 0, 0x3, &w->comes, &(struct td_gate_wait){20000, NULL, NULL}, NULL, NULL), 0);
	assert_int_equal(w->arrived, 4);
	w->tests = 1;
	assert_int_equal(td_gate_check(w->g, 0, 0, &w->comes, &(struct td_gate_wait){20000, NULL, NULL}, NULL, NULL),
			 0);
	assert_int_equal(w->arrived, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nobody_is_let_in_beside_a_test_of_the_idle_node, setup, teardown),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_table_supersede),
		cmocka_unit_test(test_table_same_job),
		cmocka_unit_test(test_table_overflow),
		cmocka_unit_test(test_own_devices),
		cmocka_unit_test(test_save),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_cgroup_job),
		cmocka_unit_test(test_cgroup_sluid),
		cmocka_unit_test_setup_teardown(test_wait_and_timeout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_check, setup, teardown),
		cmocka_unit_test_setup_teardown(test_released, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_pod_of_the_same_second_does_not_supersede_who_runs, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_may_claim, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_table_that_cannot_be_written_is_tried_again, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
