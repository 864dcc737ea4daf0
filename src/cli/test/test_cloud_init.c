// What cloud-init is told of a new virtual machine, read as cloud-init reads it.
// rows: D5.2
#include "base/mem.h"
#include "cli/cloud_init.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n# no comment: {token}\n-----END PRIVATE KEY-----\n"
#define SERVER "https://10.0.0.1:6443"

static void the_file_says_how_it_joins(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *t = NULL;
	td_auto_json_list struct td_json_list l = {0};
	const char *doc = "{\"token\": \"abcdef.0123456789abcdef\", \"node\": \"vm1\", \"server\": \"" SERVER
			  "\", \"caHash\": \"sha256:00\", \"expires\": \"2026-11-27T18:00:00Z\"}";
	assert_int_equal(td_json_parse(doc, strlen(doc), &t, &err), 0);
	td_auto_free char *text = td_cli_cloud_init(td_json_root(t), KEY);
	assert_int_equal(strncmp(text, "#cloud-config\n", 14), 0); // else cloud-init passes over it
	assert_int_equal(td_yaml_parse(text, strlen(text), &l, &err), 0);
	assert_int_equal(l.n, 1);
	yyjson_val *o = td_json_root(l.v[0]), *file = yyjson_arr_get(td_jget(o, "write_files"), 0);
	assert_string_equal(td_jstr(o, "hostname"), "vm1");
	assert_string_equal(td_jstr(file, "content"), KEY);
	assert_string_equal(td_jstr(file, "permissions"), "0600");
	assert_string_equal(td_jstr(file, "path"), "/var/lib/tandem-machine/key.pem");
	yyjson_val *run = td_jget(o, "runcmd"), *join = yyjson_arr_get(run, 1);
	static const char *const argv[] = {"tandem",    "join",      "--server", SERVER,
					   "--ca-hash", "sha256:00", "--token",  "abcdef.0123456789abcdef",
					   "--name",    "vm1"};
	assert_int_equal(yyjson_arr_size(join), TD_LEN(argv));
	for (size_t i = 0; i < TD_LEN(argv); i++)
		assert_string_equal(yyjson_get_str(yyjson_arr_get(join, i)), argv[i]);
	assert_string_equal(yyjson_get_str(yyjson_arr_get(run, 0)), "set -e");
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(the_file_says_how_it_joins)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
