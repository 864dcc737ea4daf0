// rows: D5.3
// The pull secret on a machine that runs slurmd itself: which Secret, what is taken of it, and where it lies.
#include "cli/host.h"
#include "slurm/containers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/proc.h"

static struct td_json *json(const char *text)
{
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void which_secret(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *named =
		json("{\"spec\": {\"containers\": {\"images\": {\"pullSecret\": \"ours\"}}}}");
	td_auto(td_json_unref) struct td_json *none = json("{\"spec\": {}}");
	td_auto_free char *a = td_slurm_pull_secret(td_json_root(named), "main"),
			  *b = td_slurm_pull_secret(td_json_root(none), "main"),
			  *c = td_slurm_pull_secret(NULL, "main");
	assert_string_equal(a, "ours");
	assert_string_equal(b, "main-image-pull");
	assert_string_equal(c, "main-image-pull");
}

// Who writes a SlurmCluster cannot have another kind of Secret, as one of Slurm's keys, lie on machines.
static void only_a_docker_config_is_taken(void **state)
{
	(void)state;
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *good = json("{\"type\": \"kubernetes.io/dockerconfigjson\", \"data\": "
							   "{\".dockerconfigjson\": \"e30=\", \"more\": \"eA==\"}}");
	td_auto(td_json_unref) struct td_json *opaque =
		json("{\"type\": \"Opaque\", \"data\": {\".dockerconfigjson\": \"e30=\"}}");
	td_auto(td_json_unref) struct td_json *empty =
		json("{\"type\": \"kubernetes.io/dockerconfigjson\", \"data\": {\"slurm.key\": \"e30=\"}}");
	assert_int_equal(td_host_pull_read(td_json_root(opaque), &b, &e), TD_INVALID);
	assert_non_null(strstr(e.msg, "kubernetes.io/dockerconfigjson"));
	assert_int_equal(td_host_pull_read(td_json_root(empty), &b, &e), TD_INVALID);
	assert_int_equal(b.len, 0);
	assert_int_equal(td_host_pull_read(td_json_root(good), &b, &e), 0);
	assert_string_equal(td_buf_str(&b), "{}");
}

static mode_t mode(const char *path)
{
	struct stat s;
	assert_int_equal(stat(path, &s), 0);
	return s.st_mode & 07777;
}

static void it_is_for_roots_eyes(void **state)
{
	(void)state;
	char top[] = "/tmp/td-pull-XXXXXX";
	struct td_error e = TD_ERROR_INIT;
	assert_non_null(mkdtemp(top));
	td_auto_free char *run = td_asprintf("%s/run", top), *at = td_asprintf("%s/etc/tandem/pull-secret", top),
			  *own = td_asprintf("%s/pull-secret", run), *file = td_asprintf("%s/.dockerconfigjson", at),
			  *site = td_asprintf("%s/site", top), *there = td_asprintf("%s/.dockerconfigjson", site);
	td_auto_buf struct td_buf one = {0}, other = {0}, got = {0};
	td_buf_puts(&one, "{\"auths\": {}}");
	td_buf_puts(&other, "{}");
	assert_int_equal(td_host_pull_write(run, at, &(const struct td_buf){0}, &e), 0); // nothing was there
	assert_false(td_path_exists(at));
	assert_int_equal(td_host_pull_write(run, at, &one, &e), 0);
	assert_int_equal(mode(own), 0700);
	assert_int_equal(mode(file), 0400);
	assert_int_equal(td_host_pull_write(run, at, &one, &e), 0);
	assert_int_equal(td_host_pull_write(run, at, &other, &e), 0); // it was changed
	assert_int_equal(td_file_read(file, 99, &got, &e), 0);
	assert_string_equal(td_buf_str(&got), "{}");
	assert_int_equal(mode(file), 0400);
	td_auto_free char *cut = td_asprintf("%s.tmp-x", file); // by a crash in the middle of a write
	assert_int_equal(td_file_write(cut, one.s, one.len, 0400, &e), 0);
	assert_int_equal(td_host_pull_write(run, at, &(const struct td_buf){0}, &e), 0); // it was taken
	assert_false(td_path_exists(own));
	assert_int_equal(td_host_pull_write(run, at, &one, &e), 0); // and comes again
	assert_int_equal(mode(file), 0400);
	// The link of a time with another directory leads nowhere after a reboot.
	assert_int_equal(unlink(at), 0);
	assert_int_equal(symlink("/nowhere/pull-secret", at), 0);
	assert_int_equal(td_host_pull_write(run, at, &one, &e), 0);
	assert_int_equal(mode(file), 0400);
	// A site's own stays as it is.
	assert_int_equal(td_mkdir_p(site, 0700, &e), 0);
	assert_int_equal(td_host_pull_write(run, site, &one, &e), 0);
	assert_false(td_path_exists(there));
	char *argv[] = {"rm", "-rf", top, NULL};
	assert_int_equal(td_run_ok(argv, 10000, NULL, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_secret),
		cmocka_unit_test(only_a_docker_config_is_taken),
		cmocka_unit_test(it_is_for_roots_eyes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
