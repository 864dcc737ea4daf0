// What users write for containers in jobs.
// rows: A11.1 A11.2 A11.5
#include "spank/logins.h"
#include "spank/mounts.h"
#include "spank/reference.h"
#include "spank/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_names(void **state)
{
	(void)state;
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const struct {
		const char *text, *full; // full NULL: refused
	} t[] = {
		{"debian", "docker.io/library/debian:latest"},
		{"debian:13", "docker.io/library/debian:13"},
		{"docker://nvidia/cuda:12", "docker.io/nvidia/cuda:12"},
		{"nvcr.io#nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch:25.01-py3"},
		{"nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch:25.01-py3"},
		{"docker://me@registry.example.com:5000#a/b:c", "registry.example.com:5000/a/b:c"},
		{"localhost/x", "localhost/x:latest"},
		{"10.0.0.1:5000/x/y@" DIGEST, "10.0.0.1:5000/x/y@" DIGEST},
		{"10.0.0.1:5000/x/y:tag@" DIGEST, "10.0.0.1:5000/x/y@" DIGEST},
		{"", NULL},
		{"Upper", NULL},
		{"a//b", NULL},
		{"a/../b", NULL},
		{"a:", NULL},
		{"a b", NULL},
		{"a:t --insecure", NULL},
		{"reg istry#x", NULL},
		{"x@sha256:12", NULL},
		{"dockerd://x", NULL},
		{"-x", "docker.io/library/-x:latest"},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_reference struct td_ct_reference r = {0};
		struct td_error err = TD_ERROR_INIT;
		int got = td_ct_reference_parse(t[i].text, &r, &err);
		if (!t[i].full) {
			assert_int_equal(got, TD_INVALID);
			assert_non_null(strstr(err.msg, "REGISTRY#"));
			continue;
		}
		assert_int_equal(got, 0);
		td_auto_free char *full = td_ct_reference_text(&r);
		assert_string_equal(full, t[i].full);
	}
}

static void test_patterns(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *image;
		bool yes;
	} t[] = {
		{"*", "x", true},
		{"docker.io/library/*", "debian:13", true},
		{"debian:13", "debian:13", true},
		{"debian:13", "debian:12", false},
		{"debian", "debian:13", false}, // the pattern means debian:latest
		{"docker.io/library/debian", "debian:13", true},
		{"nvcr.io/nvidia/*", "nvcr.io#nvidia/pytorch:25.01-py3", true},
		{"nvcr.io/nvidia/*", "evil.example.com/nvcr.io/nvidia/x:1", false},
		{"nvcr.io/nvidia/*", "nvcr.io.evil.com/nvidia/x:1", false},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_reference struct td_ct_reference r = {0};
		assert_int_equal(td_ct_reference_parse(t[i].image, &r, NULL), 0);
		assert_int_equal(td_ct_pattern_allows(t[i].pattern, &r), t[i].yes);
	}
	assert_true(td_ct_pattern_allows_path("/images/*", "/images/a.tar"));
	assert_false(td_ct_pattern_allows_path("*", "/images/a.tar")); // files are allowed by patterns of files
}

static void test_mounts(void **state)
{
	(void)state;
	td_auto_mounts struct td_ct_mounts m = {0};
	assert_int_equal(td_ct_mounts_parse("/a:/b:ro+rprivate,/c,./d:/e,tmpfs:/t,umount:/u", &m, NULL), 0);
	assert_int_equal(m.n, 5);
	assert_true(m.v[0].read_only);
	assert_string_equal(m.v[1].to, "/c");
	assert_false(m.v[1].read_only);
	assert_string_equal(m.v[2].from, "./d");
	assert_int_equal(m.v[3].kind, TD_CT_TMPFS);
	assert_int_equal(m.v[4].kind, TD_CT_UMOUNT);
	static const char *const wrong[] = {"a:/b", "devpts:/d", "/a:b", "/a:", "/a:/b:rox", "tmpfs", "~/x:/x"};
	for (size_t i = 0; i < TD_LEN(wrong); i++) {
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(td_ct_mounts_parse(wrong[i], &m, &err), TD_INVALID);
		assert_non_null(strstr(err.msg, wrong[i]));
	}
}

static void test_logins(void **state)
{
	(void)state;
	static const char text[] =
		"machine auth.docker.io login a password b\nmachine nvcr.io login $oauthtoken\n  password key\n";
	td_auto_free char *hub = td_ct_logins_netrc(text, "docker.io"), *nv = td_ct_logins_netrc(text, "nvcr.io"),
			  *none = td_ct_logins_netrc(text, "other"),
			  *half = td_ct_logins_netrc("machine x login y", "x");
	assert_string_equal(hub, "{\"auths\":{\"docker.io\":{\"auth\":\"YTpi\"}}}\n");
	assert_string_equal(nv, "{\"auths\":{\"nvcr.io\":{\"auth\":\"JG9hdXRodG9rZW46a2V5\"}}}\n");
	assert_null(none);
	assert_null(half);
}

static void test_settings(void **state)
{
	(void)state;
	char path[] = "/tmp/td-settings-XXXXXX";
	int fd = mkstemp(path);
	static const char text[] =
		"limit 1024\nmount-home yes\nread-only no\nallow a/*\nallow b\npull c\ninsecure d:5\nlater thing\n";
	assert_int_equal(write(fd, text, sizeof(text) - 1), (int)sizeof(text) - 1);
	close(fd);
	td_auto_settings struct td_ct_settings s = {0};
	assert_int_equal(td_ct_settings_read(path, &s, NULL), 0);
	assert_int_equal(s.limit, 1024);
	assert_true(s.home);
	assert_false(s.read_only);
	assert_int_equal(s.allow.n, 2);
	assert_string_equal(s.pull.v[0], "c");
	assert_string_equal(s.insecure.v[0], "d:5");
	unlink(path);
	assert_int_equal(td_ct_settings_read(path, &s, NULL), TD_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_patterns),
					   cmocka_unit_test(test_mounts), cmocka_unit_test(test_logins),
					   cmocka_unit_test(test_settings)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
