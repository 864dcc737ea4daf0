// A job of which a rank is slow is queued again: how often, and off which nodes.
// rows: B6.4
#include "standin/standin.h"
#include "standin/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *restarts, *job, *nodes, *hosts; // what Slurm says; NULL: it fails
static char acts[512];

int64_t td_standin_now_ms(void)
{
	return 0;
}

int td_standin_command(char *const argv[], bool errors, int64_t deadline_ms, char **ret, char *why, size_t n_why)
{
	(void)errors, (void)deadline_ms, (void)why, (void)n_why;
	const char *says = !strcmp(argv[0], "scontrol") ? hosts
			   : !strcmp(argv[0], "sinfo")  ? nodes
			   : !strcmp(argv[4], "-O")     ? restarts
							: job;
	*ret = says ? strdup(says) : NULL;
	return says ? 0 : 1;
}

bool td_standin_act(const char *who, char *const argv[], int64_t deadline_ms)
{
	(void)who, (void)deadline_ms;
	for (; *argv; argv++)
		snprintf(acts + strlen(acts), sizeof(acts) - strlen(acts), "%s%s", *acts ? " " : "", *argv);
	return true;
}

static void does(const char *want)
{
	*acts = '\0';
	assert_int_equal(td_standin_again("7", "n1"), *want != '\0');
	assert_string_equal(acts, want);
}

static void test_again(void **state)
{
	(void)state;
	restarts = "2                   \n";
	job = "||gpu|2|(null)|(null)\n";
	nodes = "4\n";
	does("scontrol requeue 7 scontrol update jobid=7 excnodelist=n1");
	job = "|n[0,3]|gpu|2|(null)|(null)\n";
	hosts = "n0\nn3\n";
	does("scontrol requeue 7"); // one node would be left for two
	nodes = "5\n";
	does("scontrol requeue 7 scontrol update jobid=7 excnodelist=n[0,3],n1");
	hosts = NULL;
	does("scontrol requeue 7");
	job = "|(null)|gpu|2|N/A|N/A\n";
	does("scontrol requeue 7 scontrol update jobid=7 excnodelist=n1");

	static const char *const bound[] = {"n[0-1]||gpu|2|(null)|(null)\n", "||gpu|2|res1|(null)\n",
					    "||gpu|2|(null)|h100\n", "||gpu,cpu|2|(null)|(null)\n", "|\n"};
	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		job = bound[i];
		does("scontrol requeue 7");
	}
	job = NULL;
	does("scontrol requeue 7");
	restarts = "3\n";
	does("");
	restarts = NULL; // nobody knows how often
	does("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_again)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
