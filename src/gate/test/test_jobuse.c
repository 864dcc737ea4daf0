// rows: A14.9 A14.10
// What native jobs' devices did: added up, kept over a restart, said of jobs that have ended and idled.
#include "gate/jobuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void hold(struct td_jobuse *u, int64_t job, int64_t start, double busy, double idle, int64_t now_ms)
{
	const struct td_holder h = {.job = job, .start = start};
	td_jobuse_add(u, &h, &(const struct td_useful_part){.busy = busy, .idle = idle}, now_ms);
}

static void says(struct td_jobuse *u, int64_t now_ms, const char *want)
{
	td_auto_free char *text = td_jobuse_ended(u, now_ms);
	if (want)
		assert_string_equal(text ? text : "(nothing)", want);
	else
		assert_null(text);
}

static void only_jobs_that_have_ended_and_idled(void **state)
{
	struct td_jobuse *u = td_jobuse_new(NULL, 0);
	hold(u, 7, 100, 5, 15, 1000);
	hold(u, 7, 100, 0, 20, 6000); // two devices, or two looks
	hold(u, 8, 100, 900, 4, 6000);
	hold(u, 9, 100, 1000, 6, 6000);
	td_jobuse_add(u, &(const struct td_holder){.job = 10, .start = 100, .pod = true},
		      &(const struct td_useful_part){.idle = 90}, 6000);
	says(u, 10000, NULL); // they may still run
	says(u, 20000, "7:100:5:35");
	// Again, ever more seldom, until it is written down.
	says(u, 79000, NULL);
	says(u, 80000, "7:100:5:35");
	says(u, 190000, NULL);
	says(u, 200000, "7:100:5:35");
	// Another run of it is another.
	hold(u, 7, 300, 0, 50, 200000);
	td_jobuse_done(u, 7, 100);
	says(u, 900000, "7:300:0:50");
	double busy = -1, idle = -1;
	assert_false(td_jobuse_of(u, 7, 100, &busy, &idle));
	assert_true(td_jobuse_of(u, 9, 100, &busy, &idle) && busy == 1000 && idle == 6);
	td_jobuse_free(u);
}

static void an_agent_that_starts_anew_goes_on(void **state)
{
	char path[] = "/tmp/tandem-jobuse-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	struct td_jobuse *u = td_jobuse_new(path, 0);
	hold(u, 7, 100, 5, 15, 1000);
	td_jobuse_keep(u, 1000); // not yet due
	hold(u, 7, 100, 0, 20, 31000);
	td_jobuse_keep(u, 31000);
	td_jobuse_free(u);
	u = td_jobuse_new(path, 5000); // another clock
	says(u, 6000, NULL);
	hold(u, 7, 100, 1, 1, 7000);
	says(u, 30000, "7:100:6:36");
	td_jobuse_free(u);

	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("rubbish\n7:100:-1:5\n8:100:1\n\n9:100:3:50\n9:100:9:90\n", f);
	fclose(f);
	u = td_jobuse_new(path, 0);
	says(u, 20000, "9:100:3:50");
	td_jobuse_free(u);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_jobs_that_have_ended_and_idled),
		cmocka_unit_test(an_agent_that_starts_anew_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
