// rows: D4.1 F2.2
// Which jobs are on a node, by the cgroups of its processes: as Slurm names them up to 25.11 and on cgroup v1, and as
// 26.05 does on cgroup v2.
#include "standin/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64];

static void put(int pid, const char *name, const char *text, size_t n)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%d", root, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/%s", root, pid, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	fclose(f);
}

static void process(int pid, int uid, const char *cgroup, const char *cmdline)
{
	char text[128];
	put(pid, "cgroup", cgroup, strlen(cgroup));
	put(pid, "cmdline", cmdline, strlen(cmdline) + 1);
	int n = snprintf(text, sizeof(text), "Name:\tx\nUid:\t%d\t%d\nGid:\t%d\t%d\n", uid, uid, uid, uid);
	put(pid, "status", text, (size_t)n);
}

static void jobs_are_found_by_both_names(void **state)
{
	struct standin_job v[8];
	process(10, 1000, "3:freezer:/a/slurm_n0/uid_1000/job_5/step_batch/task_0\n", "bash");
	process(11, 0, "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV500/step_0/slurm\n", "slurmstepd: [12.0]");
	process(12, 1001, "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n", "python3");
	// Nobody's title makes him a slurmstepd, and a job without one is not named.
	process(13, 1002, "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV511/step_0/user/task_0\n", "slurmstepd: [12.0]");
	process(15, 0, "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV511/step_0/user/task_0\n", "slurmstepd: [12.0]");
	process(14, 1002, "0::/user.slice\n", "slurmstepd: [12.0]");
	assert_int_equal(td_standin_jobs(root, v, 8), 2);
	const struct standin_job *five = v[0].id == 5 ? &v[0] : &v[1], *twelve = v[0].id == 5 ? &v[1] : &v[0];
	assert_int_equal(five->id, 5);
	assert_int_equal(five->batch, 10);
	assert_int_equal(twelve->id, 12);
	assert_int_equal(twelve->uid, 1001);
	assert_int_equal(twelve->n, 1);
	assert_int_equal(twelve->pids[0], 12);
}

static void a_job_of_many_steps_hides_no_other(void **state)
{
	static struct standin_job v[16];
	char cgroup[96], title[32];
	for (int i = 0; i < 600; i++) {
		snprintf(cgroup, sizeof(cgroup), "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV5A0/step_%d/slurm\n", i);
		snprintf(title, sizeof(title), "slurmstepd: [40.%d]", i);
		process(1000 + i, 0, cgroup, title);
	}
	for (int i = 0; i < 6; i++) {
		snprintf(cgroup, sizeof(cgroup), "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV5B%d/step_0/slurm\n", i);
		snprintf(title, sizeof(title), "slurmstepd: [%d.0]", 41 + i);
		process(1600 + i, 0, cgroup, title);
		snprintf(cgroup, sizeof(cgroup), "0::/a/n0_slurmstepd.scope/sEKNKTV3WPV5B%d/step_0/user/task_0\n", i);
		process(1700 + i, 1001, cgroup, "python3");
	}
	int n = td_standin_jobs(root, v, 16), found = 0;
	for (int i = 0; i < n; i++)
		found += v[i].id >= 41 && v[i].id <= 46;
	assert_int_equal(found, 6);
}

static void the_cgroup_of_a_session_on_a_machine(void **state)
{
	(void)state;
	char dir[64];
	assert_int_equal(td_standin_uses_cgroup("0::/system.slice/h0_slurmstepd.scope/job_12/step_3/user/task_0\n", dir,
						sizeof(dir)),
			 12);
	assert_string_equal(dir, "/system.slice/h0_slurmstepd.scope/job_12");
	// v1 has the job elsewhere, and nothing there that tells of it.
	assert_int_equal(
		td_standin_uses_cgroup("5:devices:/slurm_n0/uid_0/job_3/step_0\n0::/init.scope\n", dir, sizeof(dir)),
		3);
	assert_string_equal(dir, "");
	assert_int_equal(td_standin_uses_cgroup("0::/user.slice\n", dir, sizeof(dir)), 0);
	assert_string_equal(dir, "");
	assert_int_equal(td_standin_uses_cgroup("", dir, sizeof(dir)), 0);
	assert_int_equal(
		td_standin_uses_cgroup("0::/a-path-that-is-much-too-long-for-what-there-is-of-room/and-more/job_4/x",
				       dir, sizeof(dir)),
		4);
	assert_string_equal(dir, "");
}

int main(void)
{
	snprintf(root, sizeof(root), "/tmp/test_look.XXXXXX");
	if (!mkdtemp(root))
		return 1;
	const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_are_found_by_both_names),
					   cmocka_unit_test(a_job_of_many_steps_hides_no_other),
					   cmocka_unit_test(the_cgroup_of_a_session_on_a_machine)};
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	char command[96];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) || r;
}
