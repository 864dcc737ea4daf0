// The image store: names, import, list, remove, locks, mirrors. Needs root where a container runs
// from an image.
//   test_oci_image build DIR NAME   builds a recipe for real; run by hand (network, half a minute)
// rows: F1.4
#include "oci/image.h"
#include "oci/image_internal.h"
#include "oci/internal.h"
#include "oci/test/fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *store(void)
{
	return td_asprintf("%s/images", fx.dir);
}

static char *image_tar(void)
{
	char *tar = td_asprintf("%s/busybox.tar.gz", fx.dir);
	struct td_error e = TD_ERROR_INIT;
	if (td_run_ok((char *[]){"tar", "-C", fx.image, "-czf", tar, ".", NULL}, 30000, NULL, &e))
		fail_msg("%s", e.msg);
	return tar;
}

static void put(const char *dir, const char *file, const char *text)
{
	td_auto_free char *p = td_asprintf("%s/%s", dir, file);
	assert_int_equal(td_file_write(p, text, strlen(text), 0644, NULL), 0);
}

// What the default filter allows to containers with and without a capability.
static void seccomp_rules(void **state)
{
	static const char *const none[] = {NULL}, *const admin[] = {"CAP_SYS_ADMIN", NULL};
	const char *const *const caps[] = {none, admin};

	for (size_t i = 0; i < TD_LEN(caps); i++) {
		const struct td_oci_spec spec = {.caps = caps[i], .seccomp = true};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_oci_seccomp(d, yyjson_mut_doc_get_root(d), &spec);
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
		const yyjson_val *rules = td_jget(td_json_root(j), "seccomp.syscalls");
		assert_string_equal(td_jstr(td_json_root(j), "seccomp.defaultAction"), "SCMP_ACT_ERRNO");

		bool mounts = false, reads = false, masked = false, no_clone3 = false;
		size_t k, n;
		yyjson_val *r;
		yyjson_arr_foreach ((yyjson_val *)(uintptr_t)rules, k, n, r) {
			td_auto_strv struct td_strv names_ = {0};
			td_jstrs(td_jkey(r, "names"), &names_);
			bool allow = td_streq(td_jstr(r, "action"), "SCMP_ACT_ALLOW");
			const yyjson_val *arg = yyjson_arr_get(td_jkey(r, "args"), 0);
			mounts |= allow && td_strv_has(&names_, "mount");
			reads |= allow && td_strv_has(&names_, "read");
			masked |= allow && td_strv_has(&names_, "clone") && td_jint(arg, "value", 0) == 0x7e020000;
			no_clone3 |= !allow && td_strv_has(&names_, "clone3") && td_jint(r, "errnoRet", 0) == 38;
			assert_false(td_strv_has(&names_, "keyctl") || td_strv_has(&names_, "io_uring_setup"));
		}
		assert_true(reads && mounts == (i == 1) && masked == (i == 0) && no_clone3 == (i == 0));
	}
}

// A filter of the site's own: what is none is refused, and one that is goes into the configuration as it is.
static void seccomp_own(void **state)
{
	static const char *const bad[] = {
		"[]",
		"{\"defaultAction\":\"SCMP_ACT_NONE\"}",
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}",
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"ptrace\"]}]}",
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[],\"action\":\"SCMP_ACT_ERRNO\"}]}",
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[1],\"action\":\"SCMP_ACT_ERRNO\"}]}",
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"mount\"],\"action\":\"SCMP_ACT_"
		"ALLOW\","
		"\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}}]}"};
	struct td_error err = TD_ERROR_INIT;
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		assert_int_equal(td_json_parse(bad[i], strlen(bad[i]), &j, NULL), 0);
		assert_int_equal(td_oci_seccomp_check(td_json_root(j), &err), TD_INVALID);
	}
	static const char good[] =
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"ptrace\"],\"action\":"
		"\"SCMP_ACT_ERRNO\",\"errnoRet\":38}]}";
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(good, strlen(good), &j, NULL), 0);
	assert_int_equal(td_oci_seccomp_check(td_json_root(j), &err), 0);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_oci_seccomp_own(d, yyjson_mut_doc_get_root(d), td_json_root(j));
	td_auto(td_json_unref) struct td_json *is = td_json_from_mut(yyjson_mut_doc_get_root(d));
	const yyjson_val *r = td_json_root(is);
	assert_string_equal(td_jstr(r, "seccomp.defaultAction"), "SCMP_ACT_ALLOW");
	assert_string_equal(td_jstr(r, "seccomp.syscalls.[0].names.[0]"), "ptrace");
	assert_int_equal(td_jint(r, "seccomp.syscalls.[0].errnoRet", 0), 38);
}

static void names(void **s)
{
	static const char *const good[][3] = {{"debian:13", "debian", "13"},
					      {"debian", "debian", "latest"},
					      {"docker.io/library/debian:13", "debian", "13"},
					      {"docker.io/nvidia/cuda:12", "nvidia+cuda", "12"},
					      {"tandem/slurm:24.11", "tandem+slurm", "24.11"},
					      {"localhost:5000/a/b", "localhost:5000+a+b", "latest"}};
	for (size_t i = 0; i < TD_LEN(good); i++) {
		td_auto_free char *n = NULL, *t = NULL;
		assert_int_equal(td_img_name(good[i][0], &n, &t, NULL), 0);
		assert_string_equal(n, good[i][1]);
		assert_string_equal(t, good[i][2]);
	}

	static const char *const bad[] = {"",   "..", "../x:1", "a:..",  "/etc", "a b",
					  "a:", ":1", "a\n:1",  ".lock", NULL};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		char *n = NULL, *t = NULL;
		assert_int_equal(td_img_name(bad[i], &n, &t, NULL), TD_INVALID);
		assert_null(n);
	}
}

static void import_list_resolve_remove(void **s)
{
	td_auto_free char *dir = store(), *tar = image_tar();
	struct td_error e = TD_ERROR_INIT;
	struct td_image *v = NULL, img;
	size_t n = 9;

	assert_int_equal(td_image_list(dir, &v, &n, NULL), 0); // there is no store yet
	assert_int_equal(n, 0);
	assert_int_equal(td_image_resolve(dir, "busybox:1", &img, &e), TD_NOT_FOUND);
	assert_non_null(strstr(e.msg, "tandem image list"));

	if (td_image_import(dir, "acme/busybox:1", tar, NULL, NULL, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	// A second import replaces the image.
	if (td_image_import(dir, "acme/busybox:1", tar, NULL, NULL, NULL, NULL, &e))
		fail_msg("%s", e.msg);

	assert_int_equal(td_image_resolve(dir, "docker.io/acme/busybox:1", &img, NULL), 0);
	assert_string_equal(img.name, "acme/busybox:1");
	assert_int_equal(strlen(img.key), 64);
	assert_true(img.bytes > 1000000);
	assert_true(img.created_ms > 0);
	assert_string_equal(img.cmd.v[0], "/bin/sh");

	td_auto_free char *sh = td_asprintf("%s/bin/sh", img.rootfs);
	struct stat st;
	assert_int_equal(lstat(sh, &st), 0);

	// While a container runs from it, it can neither be removed nor replaced.
	struct td_oci_spec sp = fx_spec("img", "sleep 1000");
	sp.rootfs = img.rootfs;
	fx_start(&sp);
	assert_int_equal(td_image_remove(dir, "acme/busybox:1", NULL), TD_CONFLICT);
	assert_int_equal(td_image_import(dir, "acme/busybox:1", tar, NULL, NULL, NULL, NULL, &e), TD_CONFLICT);
	assert_int_equal(td_oci_delete(fx.r, sp.id, true, NULL), 0);

	assert_int_equal(td_image_list(dir, &v, &n, NULL), 0);
	assert_int_equal(n, 1);
	td_image_done(&v[0]);
	free(v);
	td_image_done(&img);
	assert_int_equal(td_image_remove(dir, "acme/busybox:1", NULL), 0);
	assert_int_equal(td_image_remove(dir, "acme/busybox:1", NULL), TD_NOT_FOUND);

	// No half-made image stays, neither of a failed import nor of one that crashed.
	td_auto_free char *crashed = td_asprintf("%s/.new-dead/rootfs", dir);
	assert_int_equal(td_mkdir_p(crashed, 0755, NULL), 0);
	assert_int_equal(td_image_import(dir, "x:1", "/no/such.tar", NULL, NULL, NULL, NULL, NULL), TD_NOT_FOUND);

	put(fx.dir, "not.tar", "this is no archive");
	td_auto_free char *bad = td_asprintf("%s/not.tar", fx.dir);
	assert_int_not_equal(td_image_import(dir, "x:1", bad, NULL, NULL, NULL, NULL, NULL), 0);
	td_auto_free char *count = td_asprintf("test \"$(ls -A %s)\" = .lock", dir);
	assert_int_equal(td_run_ok((char *[]){"sh", "-c", count, NULL}, 5000, NULL, NULL), 0);
}

static void mirrors(void **s)
{
	td_auto_free char *apt = td_asprintf("%s/apt", fx.dir), *parts = td_asprintf("%s/apt/sources.list.d", fx.dir);
	assert_int_equal(td_mkdir_p(parts, 0755, NULL), 0);
	assert_null(td_img_mirror(apt));

	put(parts, "debian.sources",
	    "Types: deb\n# comment\nURIs: http://mirror.example/debian-security\nSuites: x\n\nTypes: deb\nURIs:  "
	    "http://deb822.example/debian/ \n");
	td_auto_free char *deb822 = td_img_mirror(apt);
	assert_string_equal(deb822, "http://deb822.example/debian");

	put(apt, "sources.list",
	    "# deb http://old.example/debian x main\ndeb http://security.example/debian-security x main\n"
	    "deb [signed-by=/k arch=amd64] https://list.example/debian/ bookworm main\n");
	td_auto_free char *list = td_img_mirror(apt);
	assert_string_equal(list, "https://list.example/debian");
}

static void the_lock_can_be_cancelled(void **s)
{
	td_auto_free char *dir = store(), *tar = image_tar();
	td_auto_close int lock = -1;
	assert_int_equal(td_img_lock(dir, NULL, &lock, NULL), 0);
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_fire(c);
	assert_int_equal(td_image_import(dir, "b:1", tar, NULL, NULL, c, NULL, NULL), TD_CANCELLED);
}

static void *import_one(void *arg)
{
	td_auto_free char *dir = store(), *tar = td_asprintf("%s/busybox.tar.gz", fx.dir);
	return (void *)(intptr_t)td_image_import(dir, arg, tar, NULL, NULL, NULL, NULL, NULL);
}

static void two_builders_at_once(void **s)
{
	td_auto_free char *dir = store(), *tar = image_tar();
	pthread_t t[4];
	static const char *const name[] = {"same:1", "same:1", "other:2", "other:2"};

	for (size_t i = 0; i < TD_LEN(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, import_one, (void *)name[i]), 0);
	for (size_t i = 0; i < TD_LEN(t); i++) {
		void *r;
		pthread_join(t[i], &r);
		assert_null(r);
	}

	struct td_image *v;
	size_t n;
	assert_int_equal(td_image_list(dir, &v, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(v[0].name, "other:2");
	for (size_t i = 0; i < n; i++)
		td_image_done(&v[i]);
	free(v);
}

static void unknown_recipes_are_refused(void **s)
{
	td_auto_free char *dir = store();
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_image_build(dir, "no/recipe:1", NULL, NULL, NULL, &e), TD_NOT_FOUND);
	assert_non_null(strstr(e.msg, "import"));
	size_t n = 0;
	for (const char *const *r = td_image_recipes(); *r; r++)
		n++;
	assert_int_equal(n, 3);
}

// Uses a fake mmdebstrap that says its version, makes a root, and counts its runs.
static void an_image_that_is_there_needs_no_tool(void **s)
{
	td_auto_free char *dir = store(), *bin = td_asprintf("%s/bin", fx.dir),
			  *tool = td_asprintf("%s/mmdebstrap", bin), *runs = td_asprintf("%s/runs", fx.dir),
			  *path = td_asprintf("%s:%s", bin, getenv("PATH")), *before = td_strdup(getenv("PATH"));
	td_auto_free char *script = td_asprintf("#!/bin/sh\n"
						"echo run >>%s\n"
						"if [ \"$1\" = --version ]; then echo fake 1; exit 0; fi\n"
						"for a; do case $a in /*) mkdir -p \"$a\";; esac; done\n",
						runs);

	struct td_error e = TD_ERROR_INIT;
	struct td_image img;
	assert_int_equal(td_mkdir_p(bin, 0755, NULL), 0);
	assert_int_equal(td_file_write(tool, script, strlen(script), 0755, NULL), 0);

	setenv("PATH", path, 1);
	int r = td_image_build(dir, "debian:13", NULL, NULL, NULL, &e);
	if (!r)
		r = td_image_build(dir, "debian:13", NULL, NULL, NULL, &e);
	setenv("PATH", before, 1);
	if (r)
		fail_msg("%s", e.msg);

	assert_int_equal(td_image_resolve(dir, "debian:13", &img, NULL), 0);
	assert_string_equal(img.tool, "fake 1\n");
	td_image_done(&img);

	td_auto_buf struct td_buf log = {0};
	assert_int_equal(td_file_read(runs, 4096, &log, NULL), 0);
	// One run for the version and one for the build; none the second time.
	assert_string_equal(td_buf_str(&log), "run\nrun\n");
}

static void show(void *ctx, int percent, const char *what)
{
	printf("%3d%% %s\n", percent, what);
	fflush(stdout);
}

static int tests(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(seccomp_rules),
		cmocka_unit_test(seccomp_own),
		cmocka_unit_test(import_list_resolve_remove),
		cmocka_unit_test(mirrors),
		cmocka_unit_test(the_lock_can_be_cancelled),
		cmocka_unit_test(two_builders_at_once),
		cmocka_unit_test(unknown_recipes_are_refused),
		cmocka_unit_test(an_image_that_is_there_needs_no_tool),
	};
	return cmocka_run_group_tests(t, fx_setup, fx_teardown);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "build")) {
		struct td_error e = TD_ERROR_INIT;
		if (td_image_build(argv[2], argv[3], show, NULL, NULL, &e)) {
			fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		return 0;
	}
	return fx_main(argc, argv, tests);
}
