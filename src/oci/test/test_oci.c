// Containers end to end: real runc, real cgroups. Needs root.
// rows: D8.1 F1.4 F1.7
#include "oci/test/fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static struct td_oci_status run_status(const char *name, const char *script)
{
	struct td_oci_spec s = fx_spec(name, script);
	fx_start(&s);
	struct td_oci_status st = fx_wait(s.id);
	assert_int_equal(td_oci_delete(fx.r, s.id, true, NULL), 0);
	return st;
}

static void exit_codes_and_times_are_true(void **s)
{
	int64_t before = td_real_ms(&td_clock_system);
	struct td_oci_status st = run_status("exit", "exit 7");
	assert_int_equal(st.exit_code, 7);
	assert_int_equal(st.signal, 0);
	assert_false(st.oom_killed);
	assert_true(st.started_ms >= before - 1000 && st.finished_ms >= st.started_ms - 1000);

	st = run_status("exit0", "true");
	assert_int_equal(st.exit_code, 0);
	st = run_status("sig", "kill -SEGV $$");
	assert_int_equal(st.exit_code, 128 + SIGSEGV);
	assert_int_equal(st.signal, SIGSEGV);

	struct td_oci_spec sp = fx_spec("nocmd", "");
	static const char *const args[] = {"no-such-command", NULL};
	sp.args = args;
	fx_start(&sp);
	assert_int_equal(fx_wait(sp.id).exit_code, 127);
	td_auto_free char *log = fx_log(sp.id);
	assert_non_null(strstr(log, "no-such-command"));
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
}

static void signals_reach_the_command(void **s)
{
	struct td_oci_spec sp =
		fx_spec("term", "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
	fx_start(&sp);

	struct td_oci_status st;
	assert_int_equal(td_oci_status(fx.r, sp.id, &st, NULL), 0);
	assert_int_equal(st.state, TD_OCI_RUNNING);
	assert_true(st.pid > 1 && st.start_ticks > 0);

	for (int64_t end = td_mono_ms(&td_clock_system) + 60000;;) { // until the trap is set
		td_auto_free char *log = fx_log(sp.id);
		if (strstr(log, "ready"))
			break;
		assert_true(td_mono_ms(&td_clock_system) < end);
		td_cancel_wait(NULL, 2);
	}

	assert_int_equal(td_oci_signal(fx.r, sp.id, SIGTERM, NULL), 0);
	st = fx_wait(sp.id);
	assert_int_equal(st.exit_code, 5);
	assert_int_equal(td_oci_signal(fx.r, sp.id, SIGTERM, NULL), TD_NOT_FOUND);
	int fd;
	assert_int_equal(td_oci_pidfd(fx.r, sp.id, &fd, NULL), TD_NOT_FOUND);

	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
	assert_int_equal(td_oci_status(fx.r, sp.id, &st, NULL), 0);
	assert_int_equal(st.state, TD_OCI_ABSENT);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0); // absent is no error
}

static void a_signal_right_after_the_start_is_not_lost(void **s)
{
	for (int i = 0; i < 10; i++) {
		struct td_oci_spec sp = fx_spec("early", "sleep 1000");
		fx_start(&sp);
		assert_int_equal(td_oci_signal(fx.r, sp.id, SIGTERM, NULL), 0);
		assert_int_equal(fx_wait(sp.id).exit_code, 143);
	}
	td_auto_free char *id = fx_id("early");
	assert_int_equal(td_oci_delete(fx.r, id, true, NULL), 0);
}

static void killed_init_is_137_and_stays_so(void **s)
{
	struct td_oci_spec sp = fx_spec("kill", "sleep 1000");
	fx_start(&sp);
	assert_int_equal(td_oci_signal(fx.r, sp.id, SIGKILL, NULL), 0);
	struct td_oci_status a = fx_wait(sp.id), b = fx_wait(sp.id);
	assert_int_equal(a.exit_code, 137);
	assert_int_equal(a.signal, SIGKILL);
	assert_false(a.oom_killed);
	assert_int_equal(a.finished_ms, b.finished_ms);

	// A new start of the same id is a fresh container: an empty upper layer, no record.
	struct td_oci_spec again = fx_spec("kill", "test ! -e /mark && touch /mark");
	fx_start(&again);
	assert_int_equal(fx_wait(again.id).exit_code, 0);
	fx_start(&again);
	assert_int_equal(fx_wait(again.id).exit_code, 0);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
}

static void out_of_memory_is_told(void **s)
{
	struct td_oci_spec sp = fx_spec("oom", "exec tail /dev/zero");
	sp.memory_max = 24 << 20;
	fx_start(&sp);
	struct td_oci_status st = fx_wait(sp.id);
	assert_int_equal(st.exit_code, 137);
	assert_true(st.oom_killed);
	assert_int_equal(td_oci_delete(fx.r, sp.id, false, NULL), 0);

	// A process inside is killed but the container ends well: that is no end by lack of memory.
	struct td_oci_spec in = fx_spec("oom", "tail /dev/zero; true");
	in.memory_max = 24 << 20;
	fx_start(&in);
	st = fx_wait(in.id);
	assert_int_equal(st.exit_code, 0);
	assert_false(st.oom_killed);
	assert_int_equal(td_oci_delete(fx.r, in.id, true, NULL), 0);

	in.memory_max = 1000;
	pid_t pid;
	assert_int_equal(td_oci_start(fx.r, &in, NULL, &pid, NULL), TD_INVALID);
}

static int free_major(void)
{
	td_auto_buf struct td_buf b = {0};
	assert_int_equal(td_file_read("/proc/devices", 65536, &b, NULL), 0);
	for (int m = 240; m < 255; m++) {
		td_auto_free char *want = td_asprintf("\n%3d ", m);
		if (!strstr(b.s, want))
			return m;
	}
	fail_msg("no free major");
	return -1;
}

static void devices_are_exactly_the_listed(void **s)
{
	int major = free_major();
	struct td_oci_device d[] = {{"/dev/tandem-gpu0", 'c', major, 0, 0666},
				    {"/dev/tandem-gpu3", 'c', major, 3, 0666}};
	td_auto_free char *script =
		td_asprintf("ls /dev | grep tandem; mknod /dev/x1 c %d 1 && (cat /dev/x1; cat /dev/tandem-gpu0; cat "
			    "/dev/tandem-gpu3; cat /dev/null && echo null ok) 2>&1",
			    major);

	struct td_oci_spec sp = fx_spec("dev", script);
	// The capability is given on purpose: the cgroup must refuse what mknod(2) allows.
	static const char *const caps[] = {"CAP_MKNOD", NULL};
	sp.caps = caps;
	sp.devices = d;
	sp.n_devices = 2;

	td_auto_free char *log = fx_run("dev", NULL, &sp);
	assert_string_equal(log, "tandem-gpu0\ntandem-gpu3\n"
				 "cat: can't open '/dev/x1': Operation not permitted\n"
				 "cat: can't open '/dev/tandem-gpu0': No such device or address\n"
				 "cat: can't open '/dev/tandem-gpu3': No such device or address\n"
				 "null ok\n");
}

static void user_mounts_and_limits(void **s)
{
	td_auto_free char *vol = td_asprintf("%s/vol", fx.dir), *file = td_asprintf("%s/vol/in", fx.dir);
	assert_int_equal(td_mkdir_p(vol, 0777, NULL), 0);
	chmod(vol, 0777);
	assert_int_equal(td_file_write(file, "hello\n", 6, 0644, NULL), 0);

	struct td_oci_mount m[] = {{"bind", vol, "/data/deep/er", "rw"},
				   {"tmpfs", NULL, "/scratch", "nosuid,mode=1777,size=1m"},
				   {"bind", file, "/etc/one", "ro"}};

	struct td_oci_spec sp = fx_spec(
		"user",
		"id -u; id -g; id -G; pwd; hostname; cat /data/deep/er/in /etc/one; echo x > /data/deep/er/out && echo "
		"written; echo x > /etc/one || echo read-only; dd if=/dev/zero of=/scratch/f bs=1k count=2000 "
		"2>/dev/null || echo full; grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status; echo $K");

	static const char *const env[] = {"K=v w", "HOME=/", NULL};
	uint32_t groups[] = {2000, 3000};
	sp.uid = 1000;
	sp.gid = 1001;
	sp.groups = groups;
	sp.n_groups = 2;
	sp.cwd = "/tmp";
	sp.mounts = m;
	sp.n_mounts = 3;
	sp.env = env;
	sp.cpu_milli_max = 500;
	sp.cpu_milli_request = 100;
	sp.memory_max = 64 << 20;

	td_auto_free char *log = fx_run("user", NULL, &sp);
	assert_string_equal(log, "1000\n1001\n1001 2000 3000\n/tmp\nuser\nhello\nhello\nwritten\n"
				 "/bin/sh: can't create /etc/one: Read-only file "
				 "system\nread-only\nfull\nNoNewPrivs:\t1\nCapEff:\t0000000000000000\nv w\n");

	m[0].source = "/no/such/dir";
	pid_t pid;
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_oci_start(fx.r, &sp, NULL, &pid, &e), TD_INVALID);
	assert_non_null(strstr(e.msg, "/no/such/dir"));

	td_auto_strv struct td_strv ids = {0};
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
	assert_int_equal(td_oci_list(fx.r, &ids, NULL), 0);
	assert_false(td_strv_has(&ids, sp.id));
}

static void cgroups_inside(void **s)
{
	const char *dir = td_oci_cgroup_v2(fx.r) ? "/sys/fs/cgroup" : "/sys/fs/cgroup/freezer";
	td_auto_free char *script =
		td_asprintf("mkdir -p %1$s/uid_0/job_17; sleep 1000 & echo $! > %1$s/uid_0/job_17/cgroup.procs; echo "
			    "ready; wait; echo end; sleep 1000",
			    dir);

	struct td_oci_spec sp = fx_spec("cg", script);
	static const char *const caps[] = {"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", NULL};
	sp.caps = caps;
	sp.writable_cgroup = true;
	fx_start(&sp);

	bool busy = false;
	for (int64_t end = td_mono_ms(&td_clock_system) + 120000; !busy;) {
		assert_int_equal(td_oci_busy(fx.r, sp.id, "job_17", &busy, NULL), 0);
		assert_true(td_mono_ms(&td_clock_system) < end);
	}

	assert_int_equal(td_oci_busy(fx.r, sp.id, "job_1", &busy, NULL), 0);
	assert_false(busy);
	assert_int_equal(td_oci_busy(fx.r, sp.id, "", &busy, NULL), 0);
	assert_true(busy);

	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0); // with nested directories
	assert_int_equal(td_oci_busy(fx.r, sp.id, "", &busy, NULL), 0);
	assert_false(busy);

	td_auto_free char *ro = td_asprintf("mkdir %s/x", dir);
	struct td_oci_spec plain = fx_spec("cgro", ro);
	td_auto_free char *log = fx_run("cgro", NULL, &plain);
	assert_non_null(strstr(log, "Read-only file system"));
}

static void a_terminal_for_the_command(void **s)
{
	struct td_oci_spec sp = fx_spec("tty", "test -t 1 && tty; exit 3");
	sp.tty = true;
	sp.uid = 1000;
	fx_start(&sp);
	assert_int_equal(fx_wait(sp.id).exit_code, 3);
	td_auto_free char *log = fx_log(sp.id);
	assert_string_equal(log, "/dev/pts/0\r\n");
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
}

// ---- many at once ----
static void *start_one(void *arg)
{
	struct td_oci_spec s = *(struct td_oci_spec *)arg;
	pid_t pid;
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_start(fx.r, &s, NULL, &pid, &e))
		return td_strdup(e.msg);
	return NULL;
}

static void many_threads_start_at_once(void **s)
{
	enum { N = 16 };
	struct td_oci_spec sp[N];
	pthread_t t[N];
	int64_t t0 = td_mono_ms(&td_clock_system);

	for (int i = 0; i < N; i++) {
		char name[8];
		snprintf(name, sizeof(name), "m%d", i);
		sp[i] = fx_spec(name, "exit $(hostname | cut -c2-)");
		assert_int_equal(pthread_create(&t[i], NULL, start_one, &sp[i]), 0);
	}

	for (int i = 0; i < N; i++) {
		void *msg;
		pthread_join(t[i], &msg);
		if (msg)
			fail_msg("%s", (char *)msg);
	}

	print_message("%d containers started in %lld ms\n", N, (long long)(td_mono_ms(&td_clock_system) - t0));
	for (int i = 0; i < N; i++) {
		assert_int_equal(fx_wait(sp[i].id).exit_code, i);
		assert_int_equal(td_oci_delete(fx.r, sp[i].id, true, NULL), 0);
	}
}

// ---- network ----
// Does a connection from that network to port 80 of the address find somebody, who refuses it?
static bool reaches(const char *netns, const char *to, int ms)
{
	td_auto_close int fd = -1;
	struct td_error e = TD_ERROR_INIT;
	if (td_net_pod_socket(netns, &fd, &e))
		fail_msg("%s", e.msg);
	const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = inet_addr(to)};
	int r = connect(fd, (const struct sockaddr *)&at, sizeof(at));
	if (r < 0 && errno != EINPROGRESS)
		return errno == ECONNREFUSED;
	struct pollfd p = {fd, POLLOUT, 0};
	return poll(&p, 1, ms) == 1;
}

static void pods_reach_each_other(void **s)
{
	td_auto_free char *sw = td_asprintf("td%s", fx.id), *a = fx_id("net-a"), *b = fx_id("net-b"),
			  *prefix = td_asprintf("td%s-", fx.id);
	struct td_error e = TD_ERROR_INIT;
	if (td_net_switch_ensure(sw, "10.199.0.1/16", &e) || td_net_switch_ensure(sw, "10.199.0.1/16", &e))
		fail_msg("%s", e.msg);

	td_auto_free char *mac = td_asprintf("/sys/class/net/%s/address", sw);
	td_auto_buf struct td_buf mac1 = {0}, mac2 = {0};
	assert_int_equal(td_file_read(mac, 100, &mac1, NULL), 0);
	char before[64] = "", after[64] = "";
	assert_true(readlink("/proc/thread-self/ns/net", before, sizeof(before) - 1) > 0);

	int64_t t0 = td_mono_ms(&td_clock_system);
	for (int i = 0; i < 3; i++) // each time replaces the one before
		if (td_net_pod_add(a, &(struct td_net_pod){sw, "10.199.1.2", "10.199.0.1", 16, 0}, &e) ||
		    td_net_pod_add(b, &(struct td_net_pod){sw, "10.199.2.2", "10.199.0.1", 16, 0}, &e))
			fail_msg("%s", e.msg);

	print_message("6 pod networks in %lld ms\n", (long long)(td_mono_ms(&td_clock_system) - t0));
	assert_true(readlink("/proc/thread-self/ns/net", after, sizeof(after) - 1) > 0);
	assert_string_equal(before, after);
	assert_int_equal(td_file_read(mac, 100, &mac2, NULL), 0);
	assert_string_equal(mac1.s, mac2.s); // the ports' addresses do not change it
	td_auto_strv struct td_strv l = {0};
	assert_int_equal(td_net_list(prefix, &l, NULL), 0);
	assert_int_equal(l.n, 2);

	struct td_oci_spec
		srv = fx_spec("srv", "echo from-a | nc -l -p 80"),
		cli = fx_spec("cli",
			      "until nc -w 1 10.199.1.2 80 2>/dev/null; do sleep 0.1; done; ip -4 -o addr | grep -c .");
	srv.netns = a;
	srv.uid = 1000; // may bind low ports: they are the pod's own
	cli.netns = b;

	fx_start(&srv);
	td_auto_free char *log = fx_run("cli", NULL, &cli);
	assert_string_equal(log, "from-a\n2\n");
	assert_int_equal(fx_wait(srv.id).exit_code, 0);
	assert_int_equal(td_oci_delete(fx.r, srv.id, true, NULL), 0);

	// The filter of a: who may begin something with it, and where. Each replaces the one before.
	enum { HALF_S = 500 };
	const struct td_net_allow other = {.addr = inet_addr("10.199.3.3"), .prefix = 32},
				  block = {.addr = inet_addr("10.199.2.0"),
					   .prefix = 24,
					   .proto = 6,
					   .port = 70,
					   .last = 90},
				  udp = {.addr = inet_addr("10.199.2.0"), .prefix = 24, .proto = 17, .port = 80},
				  some[] = {other, {.addr = inet_addr("10.199.2.2"), .prefix = 32}},
				  any = {.prefix = 0};
	const struct {
		struct td_net_filter f;
		bool in, out;
	} tries[] = {
		{{.in = true, .from = some, .n_from = 2}, true, true},
		{{.in = true, .from = some, .n_from = 1}, false, true},
		{{.in = true, .out = true, .from = some, .n_from = 2}, true, false},
		{{.in = true, .from = &block, .n_from = 1}, true, true},
		{{.in = true, .from = &udp, .n_from = 1}, false, true},
		{{.in = true, .from = &any, .n_from = 1}, true, true},
		{{.in = true}, false, true},
		{{.out = true, .to = some + 1, .n_to = 1}, true, true},
		{{.in = false}, true, true},
	};
	for (size_t i = 0; i < TD_LEN(tries); i++) {
		td_auto_close int fd = -1; // it holds while the connection is open, too
		if (td_net_pod_filter(a, &tries[i].f, i % 2 ? &fd : NULL, &e))
			fail_msg("%zu: %s", i, e.msg);
		assert_int_equal(fd >= 0, i % 2);
		assert_int_equal(reaches(b, "10.199.1.2", HALF_S), tries[i].in);
		assert_int_equal(reaches(a, "10.199.2.2", HALF_S), tries[i].out);
		assert_true(reaches(a, "10.199.1.2", HALF_S)); // itself, by its own address
	}
	assert_int_equal(td_net_pod_filter("td-no-such", &tries[0].f, NULL, NULL), TD_NOT_FOUND);
	// What cannot be looked at is neither gone nor without filters.
	assert_int_equal(td_file_write("/run/netns/td-no-network", "x", 1, 0600, NULL), 0);
	assert_int_equal(td_net_pod_filter("td-no-network", &tries[0].f, NULL, NULL), TD_INTERNAL);
	assert_int_equal(unlink("/run/netns/td-no-network"), 0);

	assert_int_equal(td_net_pod_delete(a, NULL), 0);
	assert_int_equal(td_net_pod_delete(a, NULL), 0);

	assert_int_equal(td_net_pod_add(a, &(struct td_net_pod){"td-no-such", "10.199.1.2", NULL, 16, 0}, NULL),
			 TD_NOT_FOUND);
	assert_int_equal(td_net_pod_add(a, &(struct td_net_pod){sw, "10.199.1.x", NULL, 16, 0}, NULL), TD_INVALID);

	assert_int_equal(td_net_pod_delete(b, NULL), 0);
	assert_int_equal(td_net_switch_delete(sw, NULL), 0);
	assert_int_equal(td_net_switch_delete(sw, NULL), 0);
}

// ---- user namespaces ----

static void root_inside_is_not_root_outside(void **s)
{
	enum { USERS = 1900000000 }; // of nobody's home
	td_auto_free char *sw = td_asprintf("td%s", fx.id), *ns = fx_id("users"),
			  *vol = td_asprintf("%s/volume", fx.dir), *file = td_asprintf("%s/f", vol);
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_mkdir_p(vol, 0755, NULL), 0);
	if (td_net_switch_ensure(sw, "10.199.0.1/16", &e) ||
	    td_net_pod_add(ns, &(struct td_net_pod){sw, "10.199.1.2", "10.199.0.1", 16, USERS}, &e))
		fail_msg("%s", e.msg);

	const struct td_oci_mount m[] = {{"bind", vol, "/v", "rbind,rw"},
					 {"bind", vol, "/ro", "rbind,ro"},
					 {"bind", vol, "/kept", "rbind,rw", true},
					 {"bind", "/proc/version", "/odd", "rbind,ro"}};
	const struct td_oci_device d[] = {{"/dev/tandem-test", 'c', 240, 7, 0600}};
	struct td_oci_spec sp =
		fx_spec("users", "tr -s ' ' < /proc/self/uid_map; touch /v/f && chown 3:4 /v/f && stat -c %u:%g "
				 "/v/f /kept/f /dev/tandem-test; touch /ro/x 2>/dev/null || echo ro; cat "
				 "/dev/tandem-test 2>&1 | grep -c 'No such device'; ip -4 -o addr | grep -c .");
	static const char *const caps[] = {"CAP_CHOWN", NULL};
	sp.caps = caps;
	sp.netns = ns;
	sp.users = USERS;
	sp.mounts = m;
	sp.n_mounts = 3;
	sp.devices = d;
	sp.n_devices = 1;
	td_auto_free char *log = fx_run("users", NULL, &sp);
	assert_string_equal(log, " 0 1900000000 65536\n3:4\n65534:65534\n0:0\nro\n1\n2\n");
	struct stat st;
	assert_int_equal(stat(file, &st), 0);
	assert_true(st.st_uid == 3 && st.st_gid == 4);

	pid_t pid;
	sp.n_mounts = 4; // no file system of the kind
	assert_true(td_oci_start(fx.r, &sp, NULL, &pid, &e) < 0);
	assert_non_null(strstr(e.msg, "/proc/version: its file system cannot map owners for a user namespace"));
	sp.netns = NULL;
	assert_int_equal(td_oci_start(fx.r, &sp, NULL, &pid, &e), TD_INVALID);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);
	assert_int_equal(td_net_pod_delete(ns, NULL), 0);
	assert_int_equal(td_net_switch_delete(sw, NULL), 0);
}

// ---- exec ----
static char *slurp(int fd)
{
	struct td_buf b = {0};
	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		assert_int_equal(poll(&p, 1, 120000), 1);
		char buf[512];
		ssize_t n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return td_buf_take(&b); // EIO is the end of a pty
		td_buf_add(&b, buf, (size_t)n);
	}
}

static int exec_code(const char *id, const char *const *args)
{
	td_auto(td_oci_proc_free) struct td_oci_proc *p = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_exec(fx.r, id, &(struct td_oci_exec){.args = args}, &p, &e))
		fail_msg("%s", e.msg);
	int code = -1;
	assert_int_equal(td_oci_proc_wait(p, NULL, &code, NULL), 0);
	return code;
}

static void exec_inside(void **s)
{
	struct td_oci_spec sp = fx_spec("ex", "sleep 1000");
	fx_start(&sp);

	const char *cat[] = {"sh", "-c", "echo err >&2; echo $A; cat; exit 3", NULL}, *const env[] = {"A=b c", NULL};
	struct td_error e = TD_ERROR_INIT;
	int code = -1;

	{
		td_auto(td_oci_proc_free) struct td_oci_proc *p = NULL;
		if (td_oci_exec(fx.r, sp.id, &(struct td_oci_exec){.args = cat, .env = env, .stdin_open = true}, &p,
				&e))
			fail_msg("%s", e.msg);
		assert_int_equal(write(td_oci_proc_in(p), "to cat\n", 7), 7);
		td_oci_proc_close_in(p);
		td_auto_free char *out = slurp(td_oci_proc_out(p)), *er = slurp(td_oci_proc_err(p));
		assert_string_equal(out, "b c\nto cat\n");
		assert_string_equal(er, "err\n");
		assert_int_equal(td_oci_proc_wait(p, NULL, &code, NULL), 0);
		assert_int_equal(code, 3);
		assert_int_equal(td_oci_proc_wait(p, NULL, &code, NULL), 0);
		assert_int_equal(code, 3);
	}

	assert_int_equal(exec_code(sp.id, (const char *[]){"nothing-like-it", NULL}), 127);
	assert_int_equal(exec_code(sp.id, (const char *[]){"/etc", NULL}), 126);
	assert_int_equal(exec_code(sp.id, (const char *[]){"sh", "-c", "kill -9 $$", NULL}), 137);

	{ // a terminal
		const char *tty[] = {"sh", "-c", "tty; stty size; read x; stty size; echo got $x; exit 4", NULL};
		td_auto(td_oci_proc_free) struct td_oci_proc *p = NULL;
		if (td_oci_exec(fx.r, sp.id,
				&(struct td_oci_exec){
					.args = tty, .tty = true, .stdin_open = true, .rows = 33, .cols = 111},
				&p, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(td_oci_proc_err(p), -1);
		assert_int_equal(td_oci_proc_resize(p, 40, 120), 0);
		assert_int_equal(write(td_oci_proc_in(p), "word\n", 5), 5);
		td_auto_free char *out = slurp(td_oci_proc_out(p));
		assert_non_null(strstr(out, "/dev/pts/0"));
		assert_non_null(strstr(out, "40 120"));
		assert_non_null(strstr(out, "got word"));
		assert_int_equal(td_oci_proc_wait(p, NULL, &code, NULL), 0);
		assert_int_equal(code, 4);
	}

	{ // cancelled, then freed while it runs: it is gone
		td_auto(td_oci_proc_free) struct td_oci_proc *p = NULL;
		assert_int_equal(
			td_oci_exec(fx.r, sp.id,
				    &(struct td_oci_exec){
					    .args = (const char *[]){"sh", "-c", "sleep 777 & sleep 778", NULL}},
				    &p, NULL),
			0);
		td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
		td_cancel_fire(c);
		assert_int_equal(td_oci_proc_wait(p, c, &code, NULL), TD_CANCELLED);
	}

	const char *ps[] = {"sh", "-c", "! ps | grep -v grep | grep -q 'sleep 77'", NULL};
	assert_int_equal(exec_code(sp.id, ps), 0);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);

	td_auto(td_oci_proc_free) struct td_oci_proc *p = NULL;
	assert_int_equal(td_oci_exec(fx.r, sp.id, &(struct td_oci_exec){.args = cat}, &p, NULL), TD_NOT_FOUND);
}

static int tests(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(exit_codes_and_times_are_true),
		cmocka_unit_test(signals_reach_the_command),
		cmocka_unit_test(a_signal_right_after_the_start_is_not_lost),
		cmocka_unit_test(killed_init_is_137_and_stays_so),
		cmocka_unit_test(out_of_memory_is_told),
		cmocka_unit_test(devices_are_exactly_the_listed),
		cmocka_unit_test(user_mounts_and_limits),
		cmocka_unit_test(cgroups_inside),
		cmocka_unit_test(a_terminal_for_the_command),
		cmocka_unit_test(many_threads_start_at_once),
		cmocka_unit_test(pods_reach_each_other),
		cmocka_unit_test(root_inside_is_not_root_outside),
		cmocka_unit_test(exec_inside),
	};
	return cmocka_run_group_tests(t, fx_setup, fx_teardown);
}

int main(int argc, char **argv)
{
	return fx_main(argc, argv, tests);
}
