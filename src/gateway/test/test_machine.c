// rows: D5.1 D5.3
// Sessions on machines without a kubelet: which partition their job names.
#include "gateway/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *partition(const char *spec, const char *account)
{
	static char name[64];
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(spec, strlen(spec), &j, NULL), 0);
	const char *p = td_session_host_partition(td_json_root(j), "metal", account);
	return p ? strncpy(name, p, sizeof(name) - 1) : NULL;
}

static void the_partition_that_has_the_machines(void **state)
{
	(void)state;
	assert_null(partition("{\"spec\": {}}", NULL));
	assert_null(partition("{\"spec\": {\"partitions\": [{\"name\": \"all\", \"default\": true}]}}", NULL));
	static const char two[] =
		"{\"spec\": {\"partitions\": [{\"name\": \"all\", \"default\": true, \"nodeSets\": [\"pool\"]}, "
		"{\"name\": "
		"\"theirs\", \"nodeSets\": [\"metal\"], \"allowAccounts\": [\"physics\"]}, {\"name\": \"bare\", "
		"\"nodeSets\": [\"metal\", \"pool\"]}]}}";
	assert_string_equal(partition(two, NULL), "bare");
	assert_string_equal(partition(two, "physics"), "theirs");
	static const char closed[] = "{\"spec\": {\"partitions\": [{\"name\": \"theirs\", \"nodeSets\": [\"metal\"], "
				     "\"allowAccounts\": [\"physics\"]}]}}";
	assert_string_equal(partition(closed, "maths"), "theirs"); // Slurm says that it is not his
	static const char group[] = "{\"spec\": {\"partitions\": [{\"name\": \"bare\", \"nodeSets\": [\"pool\"]}], "
				    "\"resourceGroups\": [{\"name\": \"g\", \"nodeSets\": [\"metal\"]}]}}";
	assert_null(partition(group, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_partition_that_has_the_machines)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
