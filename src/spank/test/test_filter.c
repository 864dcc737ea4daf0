// A project's filter of system calls on native jobs: what a profile says is what the kernel does.
// rows: D3.9
#include "spank/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct td_calls_filter made;

static void make(const char *json)
{
	struct td_error err = TD_ERROR_INIT;
	if (td_calls_compile(json, strlen(json), &made, &err))
		fail_msg("%s", err.msg);
}

// What a program of the kernel's answers, worked out here: for calls that a test cannot make.
static uint32_t answer(const struct td_calls_filter *f, const struct seccomp_data *d)
{
	uint32_t a = 0;
	for (unsigned i = 0, steps = 0; i < f->n && steps < BPF_MAXINSNS; i++, steps++) {
		const struct sock_filter *s = &f->v[i];
		switch (s->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)d + s->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= s->k;
			break;
		case BPF_JMP | BPF_JA:
			i += s->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			i += a == s->k ? s->jt : s->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			i += a > s->k ? s->jt : s->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			i += a >= s->k ? s->jt : s->jf;
			break;
		case BPF_RET | BPF_K:
			return s->k;
		default:
			fail_msg("step %u: %x", i, s->code);
		}
	}
	fail_msg("it does not end");
	return 0;
}

static struct seccomp_data call(unsigned nr, uint64_t arg)
{
	struct seccomp_data d = {.nr = (int)nr, .args = {arg, arg, arg, arg, arg, arg}};
	memcpy(&d.arch, &made.v[1].k, 4);
	return d;
}

static uint32_t of(unsigned nr, uint64_t arg)
{
	struct seccomp_data d = call(nr, arg);
	return answer(&made, &d);
}

#define REFUSED(e) ((uint32_t)SECCOMP_RET_ERRNO | (e))

static void test_arguments(void **state)
{
	(void)state;
	static const uint64_t big = 0x500000003;
	static const struct {
		const char *op;
		uint64_t at;
		bool holds;
	} t[] = {
		{"EQ", 0x500000003, true},
		{"EQ", 3, false},
		{"EQ", 0x500000004, false},
		{"NE", 0x500000003, false},
		{"NE", 3, true},
		{"NE", 0x500000004, true},
		{"LT", 0x500000003, false},
		{"LT", 0x500000002, true},
		{"LT", 0x4ffffffff, true},
		{"LT", 0x600000000, false},
		{"LE", 0x500000003, true},
		{"LE", 0x500000004, false},
		{"LE", 9, true},
		{"LE", UINT64_MAX, false},
		{"GT", 0x500000003, false},
		{"GT", 0x500000004, true},
		{"GT", 0x4ffffffff, false},
		{"GT", 0x600000000, true},
		{"GE", 0x500000003, true},
		{"GE", 0x500000002, false},
		{"GE", UINT64_MAX, true},
		{"GE", 0, false},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *json = td_asprintf("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":["
						      "\"read\",\"close\"],\"action\":"
						      "\"SCMP_ACT_ERRNO\",\"errnoRet\":7,\"args\":[{\"index\":2,"
						      "\"value\":%llu,\"op\":\"SCMP_CMP_%s\"}]}]}",
						      (unsigned long long)big, t[i].op);
		make(json);
		uint32_t want = t[i].holds ? REFUSED(7) : SECCOMP_RET_ALLOW;
		if (of(SYS_read, t[i].at) != want || of(SYS_close, t[i].at) != want)
			fail_msg("%s %llx", t[i].op, (unsigned long long)t[i].at);
		assert_int_equal(of(SYS_write, t[i].at), SECCOMP_RET_ALLOW);
	}
	make("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_KILL\","
	     "\"args\":[{"
	     "\"index\":0,\"value\":64424509440,\"valueTwo\":4294967296,\"op\":\"SCMP_CMP_MASKED_EQ\"}]}]}");
	assert_int_equal(of(SYS_read, 0x1000000ff), SECCOMP_RET_KILL_THREAD);
	assert_int_equal(of(SYS_read, 0x300000000), SECCOMP_RET_ALLOW);
}

static void test_rules(void **state)
{
	(void)state;
	// The first without args decides; those with args in their order; one argument twice is one or the other.
	make("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":13,\"architectures\":[\"SCMP_ARCH_X86\"],"
	     "\"syscalls\":["
	     "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_"
	     "EQ\"}]},"
	     "{\"names\":[\"read\",\"write\"],\"action\":\"SCMP_ACT_LOG\"},{\"names\":[\"write\"],\"action\":\"SCMP_"
	     "ACT_ALLOW\"},"
	     "{\"names\":[\"close\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_"
	     "CMP_EQ\"},"
	     "{\"index\":0,\"value\":2,\"op\":\"SCMP_CMP_EQ\"}]},"
	     "{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_"
	     "GE\"},"
	     "{\"index\":1,\"value\":9,\"op\":\"SCMP_CMP_LE\"}]},"
	     "{\"names\":[\"lseek\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":13},{\"names\":[\"lseek\"],\"action\":"
	     "\"SCMP_ACT_ALLOW\"},"
	     "{\"names\":[\"no_such_call\",\"getpid\"],\"action\":\"SCMP_ACT_KILL_PROCESS\",\"args\":null,\"comment\":"
	     "\"\\\"\"}]}");
	assert_int_equal(of(SYS_read, 1), SECCOMP_RET_LOG);
	assert_int_equal(of(SYS_read, 2), SECCOMP_RET_LOG);
	assert_int_equal(of(SYS_write, 0), SECCOMP_RET_LOG);
	assert_int_equal(of(SYS_close, 1), SECCOMP_RET_ALLOW);
	assert_int_equal(of(SYS_close, 2), SECCOMP_RET_ALLOW);
	assert_int_equal(of(SYS_close, 3), REFUSED(13));
	assert_int_equal(of(SYS_dup, 5), SECCOMP_RET_ALLOW);
	assert_int_equal(of(SYS_dup, 0), REFUSED(13));
	assert_int_equal(of(SYS_dup, 10), REFUSED(13));
	assert_int_equal(of(SYS_lseek, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(of(SYS_getpid, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(of(1000, 0), REFUSED(ENOSYS)); // a call of tomorrow
	assert_int_equal(of(100000, 0), REFUSED(ENOSYS));

	// Programs of another architecture have other numbers.
	struct seccomp_data d = call(SYS_read, 0);
	d.arch = 0x40000003; // i386
	assert_int_equal(answer(&made, &d), SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
	assert_int_equal(of(0x40000000 + SYS_read, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(of(0xffffffff, 0), REFUSED(13));
#endif
}

// Every call of this architecture is answered as the profile says, wherever its number lies.
static void test_each_call(void **state)
{
	(void)state;
	for (const struct td_calls_one *c = td_calls_known; c->name; c++) {
		td_auto_free char *json =
			td_asprintf("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"%s\"],"
				    "\"action\":\"SCMP_ACT_ERRNO\"}]}",
				    c->name);
		make(json);
		assert_int_equal(of(c->number, 0), REFUSED(EPERM));
		assert_int_equal(of(c->number + 1, 0), SECCOMP_RET_ALLOW);
		assert_int_equal(of(c->number ? c->number - 1 : 2, 0), SECCOMP_RET_ALLOW);
	}
}

static void test_what_is_refused(void **state)
{
	(void)state;
#define RULE(x) "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[" x "]}"
	static const struct {
		const char *json, *words;
	} t[] = {
		{"", "no JSON"},
		{"{}", "defaultAction: \"\" is no action"},
		{"{\"defaultAction\":\"SCMP_ACT_ALLOW\"", "no JSON"},
		{"{\"defaultAction\":\"SCMP_ACT_ALLOW\"} x", "no JSON"},
		{"{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", "SCMP_ACT_NOTIFY"},
		{"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultAction\":\"SCMP_ACT_LOG\"}", "twice"},
		{"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}", "defaultAction"},
		{RULE("{\"names\":[\"read\"]}"), "syscalls[0].action"},
		{RULE("{\"action\":\"SCMP_ACT_ERRNO\"}"), "syscalls[0].names"},
		{RULE("{\"names\":[],\"action\":\"SCMP_ACT_ERRNO\"}"), "syscalls[0].names"},
		{RULE("{\"names\":[1],\"action\":\"SCMP_ACT_ERRNO\"}"), "no JSON"},
		{RULE("{\"names\":[\"unsh\\u0061re\"],\"action\":\"SCMP_ACT_ERRNO\"}"), "syscalls[0].names"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"includes\":{\"caps\":[]}}"),
		 "includes and excludes"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":-1}"), "whole number"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":99999999999999999999}"),
		 "too great"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":6,\"op\":\"SCMP_CMP_"
		      "EQ\"}]}"),
		 "arguments 0 to 5"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"op\":\"LIKE\"}]}"),
		 "args[0]"},
		{RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"value\":1,"
		      "\"valueTwo\":2,"
		      "\"op\":\"SCMP_CMP_MASKED_EQ\"}]}"),
		 "never hold"},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(td_calls_compile(t[i].json, strlen(t[i].json), &made, &err), TD_INVALID);
		if (!strstr(err.msg, t[i].words))
			fail_msg("%s: %s", t[i].json, err.msg);
	}
	td_auto_buf struct td_buf deep = {0};
	td_buf_puts(&deep, "{\"x\":");
	for (int i = 0; i < 100000; i++)
		td_buf_putc(&deep, '[');
	assert_int_equal(td_calls_compile(td_buf_str(&deep), deep.len, &made, NULL), TD_INVALID);
}

static int under(const struct td_calls_filter *f, int (*what)(void))
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(td_calls_set(f) ? what() : 100);
	int status = 0;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

// The usual profile, as the kernel takes it: programs run, and no namespaces are made.
static int usual(void)
{
	if (!syscall(SYS_unshare, 0) || errno != EPERM)
		return 1;
	if (socket(40 /* AF_VSOCK */, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 2;
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0 || personality(0xffffffff) < 0)
		return 3;
	if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != ENOSYS)
		return 4;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 5;
	// Another filter on top takes nothing of this one away.
	static struct td_calls_filter open;
	static const char json[] = "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}";
	if (td_calls_compile(json, strlen(json), &open, NULL) || !td_calls_set(&open))
		return 6;
	if (!syscall(SYS_unshare, 0) || errno != EPERM)
		return 7;
	execl("/bin/sh", "sh", "-c", "x=$(echo | cat); exec true", NULL);
	return 8;
}

static void test_the_usual_profile(void **state)
{
	(void)state;
	struct td_error err = TD_ERROR_INIT;
	if (td_calls_load("RuntimeDefault", "/nowhere", &made, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(under(&made, usual), 0);

	// As words of a command line.
	td_auto_free char *text = td_calls_text(&made);
	static struct td_calls_filter again;
	assert_true(strlen(text) < 100000 && td_calls_parse(text, &again));
	assert_int_equal(again.n, made.n);
	assert_memory_equal(again.v, made.v, made.n * sizeof(*made.v));
	assert_false(td_calls_parse("", &again));
	assert_false(td_calls_parse("0", &again));
	assert_false(td_calls_parse("000600000000000g", &again));
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !fchmod(fd, mode));
	close(fd);
}

static void test_whose(void **state)
{
	(void)state;
	static const char list[] = "physics RuntimeDefault\nphysics.dev localhost/quiet.json\n";
	td_auto_free char *a = td_calls_of(list, "physics"), *b = td_calls_of(list, "Physics.dev"),
			  *c = td_calls_of(list, "phys"), *d = td_calls_of(list, "");
	assert_string_equal(a, "RuntimeDefault");
	assert_string_equal(b, "localhost/quiet.json");
	assert_null(c);
	assert_null(d);
	// Tasks of an array, as squeue lists them.
	td_auto_free char *task = td_calls_of("7 free\n17 free\n1 physics\n", "1");
	assert_string_equal(task, "physics");

	char dir[] = "/tmp/tandem-filter-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *path = td_asprintf("%s/quiet.json", dir);
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_calls_load("localhost/quiet.json", dir, &made, &err), TD_NOT_FOUND);
	assert_non_null(strstr(err.msg, "quiet.json"));
	put(path, "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}", 0644);
	assert_int_equal(td_calls_load("localhost/quiet.json", dir, &made, &err), 0);
	// What others may write, or leads elsewhere, is no filter.
	put(path, "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}", 0664);
	assert_int_equal(td_calls_load("localhost/quiet.json", dir, &made, &err), TD_DENIED);
	static const char *const no[] = {"",           "localhost/", "localhost/../x", "localhost/.x", "localhost/a/b",
					 "Unconfined", "quiet.json"};
	for (size_t i = 0; i < TD_LEN(no); i++)
		assert_int_equal(td_calls_load(no[i], dir, &made, &err), TD_INVALID);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),         cmocka_unit_test(test_rules),
		cmocka_unit_test(test_each_call),         cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_the_usual_profile), cmocka_unit_test(test_whose),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
