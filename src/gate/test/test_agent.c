// The gate beside a real kubelet: what its cgroups say, when a pod is done with its devices, and
// what a table says after a reboot.
// rows: A7.4 F2.1 B3.7
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "gate/agent.h"
#include "gate/busy.h"
#include "gate/table.h"
#include "gate/test/holders.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UID "1111aaaa-2222-3333-4444-555566667777"
#define UID_ "1111aaaa_2222_3333_4444_555566667777"
#define NEXT "1111aaaa-2222-3333-4444-555566667778"

// ---- cgroups: fixture trees ----

struct tree {
	char root[32];
};

static int setup(void **state)
{
	struct tree *t = td_calloc(1, sizeof(*t));
	strcpy(t->root, "/tmp/td-cg-XXXXXX");
	assert_non_null(mkdtemp(t->root));
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct tree *t = *state;
	td_rm_rf(t->root, NULL);
	free(t);
	return 0;
}

static void put(const struct tree *t, const char *dir, const char *file, const char *text)
{
	td_auto_free char *d = td_asprintf("%s/%s", t->root, dir), *f = td_asprintf("%s/%s", d, file);
	assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	assert_int_equal(td_file_write(f, text, strlen(text), 0644, NULL), 0);
}

static int pod(const struct tree *t, const char *uid)
{
	enum td_cg_state s = 99;
	return td_cg_pod(t->root, uid, &s, NULL) ? -1 : (int)s;
}

static int job(const struct tree *t, int64_t id)
{
	enum td_cg_state s = 99;
	return td_cg_job(t->root, id, "sEKNKTV3WPV500", &s, NULL) ? -1 : (int)s;
}

static void test_v1_cgroupfs(void **state)
{
	struct tree *t = *state;
	assert_int_equal(pod(t, UID), -1); // no cgroups at all: unknown, never free
	put(t, "pids/kubepods/burstable", "cgroup.procs", "");
	assert_int_equal(pod(t, UID), TD_CG_NONE);
	put(t, "pids/kubepods/burstable/pod" UID "/c1", "cgroup.procs", "");
	put(t, "pids/kubepods/burstable/pod" NEXT "/c1", "cgroup.procs", "12\n");
	assert_int_equal(pod(t, UID), TD_CG_EMPTY);
	put(t, "pids/kubepods/burstable/pod" UID "/c1/sub/sub", "cgroup.procs", "7\n8\n");
	assert_int_equal(pod(t, UID), TD_CG_BUSY);
	// A guaranteed pod lies one level higher, and kubepods itself may lie deeper (cgroupRoot).
	put(t, "pids/a/b/kubepods/pod2222", "cgroup.procs", "1\n");
	assert_int_equal(pod(t, "2222"), TD_CG_BUSY);
	assert_int_equal(pod(t, "222"), TD_CG_NONE);
}

static void test_cpu_time(void **state)
{
	struct tree *t = *state;
	int64_t us;
	assert_int_not_equal(td_cg_pod_cpu(t->root, UID, &us, NULL), 0);
	put(t, "cpuacct/kubepods/burstable/pod" NEXT, "cpuacct.usage", "9000\n");
	assert_int_equal(td_cg_pod_cpu(t->root, UID, &us, NULL), TD_NOT_FOUND);
	put(t, "cpuacct/kubepods/burstable/pod" UID, "cpuacct.usage", "1234567\n");
	assert_int_equal(td_cg_pod_cpu(t->root, UID, &us, NULL), 0);
	assert_int_equal(us, 1234);
	static const char at[] = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice";
	put(t, ".", "cgroup.controllers", "cpu pids\n");
	put(t, at, "cpu.stat", "usage_usec 5678\nuser_usec 1\n");
	assert_int_equal(td_cg_pod_cpu(t->root, UID, &us, NULL), 0);
	assert_int_equal(us, 5678);
	put(t, at, "cpu.stat", "nothing\n");
	assert_int_equal(td_cg_pod_cpu(t->root, UID, &us, NULL), TD_NOT_FOUND);
}

static void test_v1_jobs(void **state)
{
	struct tree *t = *state;
	put(t, "pids/kubepods/pod" UID "/c1", "cgroup.procs", "7\n");
	assert_int_equal(job(t, 7), -1); // no freezer hierarchy: Slurm's jobs cannot be seen
	put(t, "freezer/kubepods/pod" UID "/c1/slurm_n0/uid_0/job_7", "cgroup.procs", "");
	put(t, "freezer/kubepods/pod" UID "/c1/slurm_n0/uid_0/job_77/step_0", "cgroup.procs", "3\n");
	put(t, "freezer/elsewhere/job_7", "cgroup.procs", "3\n"); // in no pod
	assert_int_equal(job(t, 7), TD_CG_EMPTY);
	assert_int_equal(job(t, 8), TD_CG_NONE);
	put(t, "freezer/kubepods/pod" UID "/c1/slurm_n0/uid_0/job_7/step_batch/task_0", "cgroup.procs", "3\n");
	assert_int_equal(job(t, 7), TD_CG_BUSY);
}

static void test_v2(void **state)
{
	struct tree *t = *state;
	put(t, ".", "cgroup.controllers", "cpu pids\n");
	static const char at[] = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice";
	put(t, at, "cgroup.events", "populated 0\nfrozen 0\n");
	assert_int_equal(pod(t, UID), TD_CG_EMPTY);
	assert_int_equal(pod(t, NEXT), TD_CG_NONE);
	put(t, at, "cgroup.events", "populated 1\nfrozen 0\n");
	assert_int_equal(pod(t, UID), TD_CG_BUSY);
	put(t, "kubepods.slice/kubepods-pod1-2.slice", "cgroup.events", "populated 1\n");
	assert_int_equal(pod(t, "1-2"), TD_CG_NONE);
	put(t, "kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-1.scope/system.slice/slurmstepd.scope/job_5",
	    "cgroup.events", "populated 1\n");
	assert_int_equal(job(t, 5), TD_CG_BUSY);
	assert_int_equal(job(t, 6), TD_CG_NONE);
	put(t, "kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-1.scope/system.slice/slurmstepd.scope/job_4",
	    "cgroup.events", "populated 0\n");
	int64_t jobs[4];
	assert_true(td_cg_jobs(t->root, jobs, 4) == 1 && jobs[0] == 5);
	// The name that Slurm 26.05 gives it there; job() looks for it beside every number.
	put(t,
	    "kubepods.slice/kubepods-pod" UID_
	    ".slice/cri-containerd-1.scope/system.slice/slurmstepd.scope/sEKNKTV3WPV500",
	    "cgroup.events", "populated 1\n");
	assert_int_equal(job(t, 6), TD_CG_BUSY);
}

static void test_v2_cgroupfs(void **state)
{
	struct tree *t = *state;
	put(t, ".", "cgroup.controllers", "cpu pids\n");
	put(t, "kubepods/besteffort/pod" UID, "cgroup.events", "populated 1\n");
	assert_int_equal(pod(t, UID), TD_CG_BUSY);
}

// ---- the decision: every combination, and the words of some ----

static void test_decision(void **state)
{
	int free_ones = 0;
	for (int seen = TD_SEEN_ACTIVE; seen <= TD_SEEN_WAITS; seen++)
		for (int known = TD_KNOWN_NO; known <= TD_KNOWN_UNANSWERED; known++)
			for (int code = 0; code >= TD_INTERNAL; code += TD_INTERNAL)
				for (int cg = TD_CG_NONE; cg <= TD_CG_BUSY; cg++) {
					char why[200] = "old";
					struct td_sight s = {.seen = seen,
							     .known = known,
							     .cg_code = code,
							     .cg = cg,
							     .pod = "ml/x",
							     .text = "t"};
					bool busy = td_sight_busy(&s, why, sizeof(why));
					bool may =
						!code && cg != TD_CG_BUSY &&
						(seen == TD_SEEN_TERMINAL || seen == TD_SEEN_NEVER ||
						 seen == TD_SEEN_WAITS ||
						 (seen == TD_SEEN_ABSENT && known == TD_KNOWN_NO && cg == TD_CG_NONE));
					assert_int_equal(busy, !may);
					assert_int_equal(busy, *why != '\0');
					assert_true(!busy || strstr(why, "ml/x"));
					free_ones += !busy;
				}

	// Free are: a pod that has ended, cannot come or has not come, with an empty cgroup or
	// none, whatever the kubelet says; and a pod that is gone everywhere.
	assert_int_equal(free_ones, 3 * 3 * 2 + 1);
	char why[200];
	struct td_sight s = {.seen = TD_SEEN_ABSENT, .coming = true, .pod = "u"};
	assert_true(td_sight_busy(&s, why, sizeof(why)));
	assert_string_equal(why, "pod u has not come here, and may be bound at this moment");
	s = (struct td_sight){.seen = TD_SEEN_WAITS, .coming = true, .pod = "u", .text = "403"};
	assert_true(td_sight_busy(&s, why, sizeof(why)));
	assert_string_equal(why, "pod u may be bound at this moment, and cannot be fenced: 403");
	s = (struct td_sight){.seen = TD_SEEN_ACTIVE, .cg = TD_CG_BUSY, .pod = "ml/x"};
	assert_true(td_sight_busy(&s, why, sizeof(why)));
	assert_string_equal(why, "pod ml/x still runs");
	s = (struct td_sight){.seen = TD_SEEN_ABSENT, .known = TD_KNOWN_UNANSWERED, .pod = "u", .text = "timeout"};
	assert_true(td_sight_busy(&s, why, sizeof(why)));
	assert_string_equal(why, "pod u is gone from the API, and its kubelet does not say whether it knows: timeout");
}

// ---- a pod that only a job's comment names: fence it? ----

static enum td_seen named(const char *text, int64_t start)
{
	struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(text, strlen(text), &j, &err))
		fail_msg("%s: %s", text, err.msg);
	enum td_seen s = td_seen_named(td_json_root(j), "n0", 104, start);
	td_json_unref(j);
	return s;
}

#define FENCED(words)                                                                                                  \
	"{\"status\":{\"conditions\":[{\"type\":\"tandem.dev/GrantEnded\",\"status\":\"True\",\"message\":\"" words    \
	"\"}]}}"

static void test_fence(void **state)
{
	assert_int_equal(td_seen_named(NULL, "n0", 104, 9), TD_SEEN_ABSENT);
	assert_int_equal(named("{}", 9), TD_SEEN_WAITS);
	assert_int_equal(named("{\"spec\":{\"nodeName\":\"\"}}", 9), TD_SEEN_WAITS);
	assert_int_equal(named("{\"spec\":{\"nodeName\":\"n0\"}}", 9), TD_SEEN_ACTIVE);
	assert_int_equal(named("{\"spec\":{\"nodeName\":\"n0\"},\"status\":{\"phase\":\"Failed\"}}", 9),
			 TD_SEEN_TERMINAL);
	assert_int_equal(named("{\"spec\":{\"nodeName\":\"n00\"}}", 9), TD_SEEN_NEVER);
	assert_int_equal(named("{\"metadata\":{\"deletionTimestamp\":\"x\"}}", 9), TD_SEEN_NEVER);
	assert_int_equal(named("{\"metadata\":{\"deletionTimestamp\":\"x\"},\"spec\":{\"nodeName\":\"n0\"}}", 9),
			 TD_SEEN_ACTIVE);

	// One fence for each run of a job is enough. A fence for another run was written before
	// this one started, so it stops nothing of this one.
	assert_int_equal(named(FENCED("Slurm job 104 (start 9) ended"), 9), TD_SEEN_NEVER);
	assert_int_equal(named(FENCED("Slurm job 104 (start 8) ended"), 9), TD_SEEN_WAITS);
	assert_int_equal(named(FENCED("Slurm job 10 (start 9) ended"), 9), TD_SEEN_WAITS);
	// Nobody knows which run that was.
	assert_int_equal(named(FENCED("Slurm job 104 (start 0) ended"), 0), TD_SEEN_WAITS);
}

// ---- the table ----

static void test_boots(void **state)
{
	struct tree *t = *state;
	td_auto_free char *path = td_asprintf("%s/n.json", t->root);
	struct td_gate_table a = {.n = 4}, b;
	struct td_holder h = native(7, 100);
	bool changed;
	strcpy(h.ask, UID);
	strcpy(h.ask_pod, "ml/train-0");
	assert_int_equal(td_gate_claim(&a, 0x3, &h, &changed, NULL), 0);
	assert_int_equal(td_gate_save(path, &a, "boot-1", NULL), 0);
	assert_int_equal(td_gate_load(path, 4, "boot-1", &b, NULL), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(td_gate_load(path, 4, NULL, &b, NULL), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(td_gate_load(path, 4, "boot-2", &b, NULL), 0);
	assert_false(b.dev[0].held || b.dev[1].held);

	// A table without a boot id was written before this boot.
	assert_int_equal(td_gate_save(path, &a, NULL, NULL), 0);
	assert_int_equal(td_gate_load(path, 4, "boot-2", &b, NULL), 0);
	assert_false(b.dev[0].held);
}

static void test_tell(void **state)
{
	struct td_gate_table t = {.n = 4};
	struct td_holder out[8], a = native(7, 100), b = native(8, 200);
	bool changed;
	assert_int_equal(td_gate_claim(&t, 0x3, &a, &changed, NULL), 0);

	// The node sees the pod of job 7. From then on it is that job's pod, also after the next
	// claim.
	struct td_holder pa = with_pod(7, 100, UID);
	assert_true(td_gate_tell(&t, 0x3, &pa));
	assert_false(td_gate_tell(&t, 0x3, &pa));
	assert_int_equal(td_gate_claim(&t, 0x2, &b, &changed, NULL), 0);
	assert_int_equal(td_gate_pending(&t, 0x2, out, 8), 1);
	assert_true(out[0].pod && !strcmp(out[0].uid, UID));
	assert_false(td_gate_tell(&t, 0x3, &pa)); // to be told again takes nothing back
	assert_true(td_gate_holds(&t, 0x2, &b));

	// The pod of job 8 is learned only after that job was superseded.
	struct td_holder pb = with_pod(8, 200, NEXT), c = native(9, 300);
	assert_int_equal(td_gate_claim(&t, 0x2, &c, &changed, NULL), 0);
	assert_true(td_gate_tell(&t, 0, &pb));
	assert_int_equal(td_gate_pending(&t, 0x2, out, 8), 2);
	assert_true(out[1].pod && !strcmp(out[1].uid, NEXT));

	// A pod that nobody let in holds what nobody holds, counts as an earlier holder elsewhere,
	// and never supersedes.
	struct td_holder pd = with_pod(5, 50, "d");
	assert_true(td_gate_tell(&t, 0xa, &pd));
	assert_true(td_gate_holds(&t, 0x8, &pd));
	assert_true(td_gate_holds(&t, 0x2, &c));
	assert_int_equal(td_gate_pending(&t, 0x2, out, 8), 3);
	assert_true(td_gate_forget(&t, &pd));
	assert_int_equal(td_gate_pending(&t, 0x2, out, 8), 2);
	assert_true(td_gate_holds(&t, 0x8, &pd));
}

static void test_pods_of_a_cgroup(void **state)
{
	static const struct {
		const char *text, *first, *second;
	} t[] = {
		{"4:pids:/kubepods/burstable/pod" UID "/0123abcd\n", UID, NULL},
		{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		 ".slice/cri-containerd-aa.scope\n",
		 UID, NULL},
		{"0::/../../kubepods-pod" UID_ ".slice", UID, NULL},
		{"4:pids:/kubepods/pod" NEXT "/x/kubepods/besteffort/pod" UID "\n", NEXT, UID},
		// The second is what a pod made below itself.
		{"4:pids:/kubepods/pod" UID "/pod" NEXT "/y\n", UID, NEXT},
		{"0::/system.slice/sshd.service\n1:name=systemd:/\n", NULL, NULL},
		{"0::/podman/pod/pods-of-me/pod1111aaaa", NULL, NULL},
		{"0::/xpod" UID "/pod" UID "x/", NULL, NULL},
		{"", NULL, NULL},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		char uid[40] = "";
		const char *at = t[i].text;
		assert_int_equal(td_cg_next_pod(&at, uid), t[i].first != NULL);
		assert_string_equal(uid, t[i].first ? t[i].first : "");
		if (t[i].first)
			assert_int_equal(td_cg_next_pod(&at, uid), t[i].second != NULL);
		assert_string_equal(uid, t[i].second ? t[i].second : t[i].first ? t[i].first : "");
	}
}

static struct td_object *pod_of(const char *uid, const char *more, const char *spec)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"namespace\":\"ml\",\"name\":\"p\",\"resourceVersion\":\"1\","
			    "\"uid\":\"%s\"%s},\"spec\":{%s}}",
			    uid, more, spec);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_object_new(j);
}

// Who ends a test of the idle node.
static void test_who_comes(void **state)
{
	static const char here[] = "\"nodeName\":\"n1\"";
	td_auto(td_object_unref) struct td_object *waits = pod_of("u1", "", ""), *bound = pod_of("u1", "", here),
						  *next = pod_of("u2", "", here);
	td_auto(td_object_unref) struct td_object *daemon =
		pod_of("u3", ",\"ownerReferences\":[{\"kind\":\"DaemonSet\"}]", here);
	td_auto(td_object_unref) struct td_object *mirror =
		pod_of("u4", ",\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"}", here);
	assert_true(td_gate_agent_comes(NULL, bound) && td_gate_agent_comes(waits, bound) &&
		    td_gate_agent_comes(bound, next));
	assert_false(td_gate_agent_comes(NULL, waits) || td_gate_agent_comes(bound, bound) ||
		     td_gate_agent_comes(bound, NULL));
	assert_false(td_gate_agent_comes(NULL, daemon) || td_gate_agent_comes(NULL, mirror));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_v1_cgroupfs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cpu_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_v1_jobs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_v2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_v2_cgroupfs, setup, teardown),
		cmocka_unit_test(test_pods_of_a_cgroup),
		cmocka_unit_test(test_decision),
		cmocka_unit_test(test_fence),
		cmocka_unit_test_setup_teardown(test_boots, setup, teardown),
		cmocka_unit_test(test_tell),
		cmocka_unit_test(test_who_comes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
