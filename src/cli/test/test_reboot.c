// rows: B2.4
// What is said of a node that is being rebooted.
#include "cli/reboot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void add(struct td_objects *l, const char *text)
{
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	td_objects_add(l, td_object_new(j));
}

#define ACT(name, node, phase, step)                                                                                   \
	"{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"node\":\"" node "\"},\"status\":{\"phase\":\"" phase        \
	"\",\"step\":\"" step "\"}}"
#define POD(what, node)                                                                                                \
	"{\"metadata\":{\"name\":\"p\",\"labels\":{\"app.kubernetes.io/name\":\"" what                                 \
	"\"}},\"spec\":{\"nodeName\":\"" node "\"}}"

static void a_reboot_says_what_is_away_with_its_node(void **state)
{
	td_auto_objects struct td_objects actions = {0}, pods = {0};
	add(&actions, ACT("old", "n0", "Succeeded", "reboot"));
	add(&actions, ACT("waits", "n1", "Running", "drain"));
	assert_null(td_cli_rebooting(&actions, &pods, "n0"));
	assert_null(td_cli_rebooting(&actions, &pods, "n1"));
	add(&actions, ACT("heal-1", "n0", "Running", "reboot"));
	add(&pods, POD("slurmdbd", "n0"));
	add(&pods, POD("slurmctld", "n0"));
	add(&pods, POD("slurmd", "n0"));
	add(&pods, POD("slurmrestd", "n1"));
	td_auto_free char *words = td_cli_rebooting(&actions, &pods, "n0");
	assert_string_equal(words, "node n0 is rebooting (NodeAction heal-1): Slurm answers when it is back, because "
				   "slurmctld and slurmdbd are there");
	assert_null(td_cli_rebooting(&actions, &pods, "n1"));
	add(&actions, ACT("heal-2", "n2", "Running", "reboot"));
	td_auto_free char *other = td_cli_rebooting(&actions, &pods, "n2");
	assert_string_equal(other, "node n2 is rebooting (NodeAction heal-2)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_reboot_says_what_is_away_with_its_node)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
