// What users write for containers in jobs.
// rows: A11.1 A11.2 A11.5 D8.1
#include "spank/enroot.h"
#include "spank/logins.h"
#include "spank/mounts.h"
#include "spank/pretend.h"
#include "spank/reference.h"
#include "spank/settings.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static const char *value(const char *name)
{
	return !strcmp(name, "HOST") ? "n0" : NULL;
}

static void test_environment(void **state)
{
	(void)state;
	td_auto_buf struct td_buf b = {0}, back = {0};
	static const char want[] = "A=1\0B=two words\0C='x\0D=on n0, not ,${,$HOST\0E=\0F=";
	td_ct_environment_parse(
		"# no\nA=1\n  B=\"two words\"  \nC='x\n1=no\nno\nD=on ${HOST}, not ${OTHER},${,$HOST\nE=''\n\nF=",
		value, &b);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.s, want, sizeof(want));
	td_ct_environment_write("A=1\0B=two\nlines\0C=x", sizeof("A=1\0B=two\nlines\0C=x"), &back);
	assert_string_equal(td_buf_str(&back), "A=1\nC=x\n");
}

static void test_rc(void **state)
{
	(void)state;
	static const struct {
		const char *text, *dir;
	} rcs[] = {
		{"mkdir -p \"/a b\" 2> /dev/null\ncd \"/a b\" && unset OLDPWD || exit 1\n", "/a b"},
		{"cd '/it'\\''s' || exit 1\ncd /other\n", "/it's"},
		{" cd /plain;x", "/plain"},
		{"cd \"$HOME\"\ncd /later\n", NULL},
		{"cd 'never ends", NULL},
		{"cd relative\n", NULL},
		{"abcd /x\n", NULL},
		{"", NULL},
	};
	for (size_t i = 0; i < TD_LEN(rcs); i++) {
		td_auto_free char *dir = td_ct_rc_workdir(rcs[i].text);
		assert_true(td_streq(dir, rcs[i].dir));
	}

	// What is written is read again, and a shell understands it.
	static const char entry[] = "/it's\0--a b";
	td_auto_buf struct td_buf b = {0};
	td_ct_rc_write("/work's $x", entry, sizeof(entry), &b);
	td_auto_free char *dir = td_ct_rc_workdir(td_buf_str(&b));
	assert_string_equal(dir, "/work's $x");
	assert_non_null(strstr(td_buf_str(&b), "exec '/it'\\''s' '--a b' \"$@\"\n"));
	td_buf_reset(&b);
	td_ct_rc_write("", NULL, 0, &b);
	assert_non_null(strstr(td_buf_str(&b), "\ncd '/' ||"));
	assert_non_null(strstr(td_buf_str(&b), "\nexec \"$@\"\n"));
}

// What the holder of a container may do, whoever traces it.
static void test_only_wait(void **state)
{
	(void)state;
	for (int opens = 0; opens < 2; opens++) {
		pid_t pid = fork();
		if (pid == 0) {
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			if (td_ct_only_wait(NULL))
				syscall(SYS_exit_group, 1);
			prctl(PR_SET_DUMPABLE, 1);
			if (opens)
				syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
			syscall(SYS_exit_group, 0);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (opens)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),    cmocka_unit_test(test_patterns),
					   cmocka_unit_test(test_mounts),   cmocka_unit_test(test_logins),
					   cmocka_unit_test(test_settings), cmocka_unit_test(test_environment),
					   cmocka_unit_test(test_rc),       cmocka_unit_test(test_only_wait)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
