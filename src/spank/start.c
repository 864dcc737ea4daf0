// An image's entry point.
#include "spank/start.h"

#include "base/file.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Scripts use the low descriptors as they like.
enum { HIGH_FD = 200, NOTE_MAX = 1 << 20, LOG_MAX = 64 << 10 };

int td_ct_started(int argc, char **argv)
{
	// What shells set for themselves.
	static const char *const shells[] = {"PWD=", "OLDPWD=", "SHLVL=", "_="};
	long long fd;
	char cwd[4096];
	if (argc != 2 || !td_parse_i64(argv[1], &fd) || fd < HIGH_FD || !getcwd(cwd, sizeof(cwd)))
		return 1;
	td_auto_buf struct td_buf b = {0};
	td_buf_add(&b, cwd, strlen(cwd) + 1);
	for (char **e = environ; *e; e++) {
		bool left_out = false;
		for (size_t i = 0; i < TD_LEN(shells); i++)
			left_out |= td_starts(*e, shells[i]);
		if (!left_out)
			td_buf_add(&b, *e, strlen(*e) + 1);
	}
	return td_write_all((int)fd, td_buf_str(&b), b.len, NULL) ? 1 : 0;
}

static void environment(const struct td_ct_start *s)
{
	td_auto_strv struct td_strv kept = {0}, names = {0};
	td_strv_split(&names, s->keep, ',');
	td_strv_add(&names, "HOME");
	td_strv_add(&names, "TERM");
	for (size_t i = 0; i < names.n; i++) {
		const char *v = getenv(names.v[i]);
		if (v)
			td_strv_addf(&kept, "%s=%s", names.v[i], v);
	}
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	td_ct_set_environment(&s->image->env, "");
	for (size_t i = 0; i < kept.n; i++)
		putenv(td_strdup(kept.v[i]));
}

static void child(const struct td_ct_start *s, int note, int log)
{
	char program[64], number[16];
	int null = open("/dev/null", O_RDONLY);
	int self = fcntl(s->self, F_DUPFD, HIGH_FD), out = fcntl(note, F_DUPFD, HIGH_FD);
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	snprintf(program, sizeof(program), "/proc/self/fd/%d", self);
	snprintf(number, sizeof(number), "%d", out);
	td_auto_strv struct td_strv a = {0};
	const struct td_buf *entry = &s->image->entry;
	for (const char *p = entry->s; p < entry->s + entry->len; p += strlen(p) + 1)
		td_strv_add(&a, p);
	td_strv_add(&a, program);
	td_strv_add(&a, "started");
	td_strv_add(&a, number);
	environment(s);
	execvp(a.v[0], a.v);
	dprintf(2, "%s: %s\n", a.v[0], strerror(errno));
	_exit(127);
}

static void read_all(int fd, size_t max, struct td_buf *ret)
{
	char buf[65536];
	for (ssize_t n; ret->len < max && (n = pread(fd, buf, sizeof(buf), (off_t)ret->len)) > 0;)
		td_buf_add(ret, buf, (size_t)n);
}

static int run(const struct td_ct_start *s, struct td_error *err)
{
	td_auto_close int note = openat(s->own, "started.new", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
					0600),
			  log = memfd_create("entry point", MFD_CLOEXEC);
	struct stat st;
	if (note < 0 || log < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "a file for the entry point");
	pid_t pid = fork();
	if (pid < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "fork");
	if (pid == 0)
		child(s, note, log);
	int code = td_wait_code(pid);
	td_auto_buf struct td_buf text = {0};
	read_all(log, LOG_MAX, &text);
	bool ok = !fstat(note, &st) && st.st_size > 0 && code == 0;
	if (s->log || !ok)
		(void)!write(2, td_buf_str(&text), text.len);
	if (!ok)
		return td_fail(
			err, TD_INVALID,
			"--container-entrypoint: the image's entry point %.100s ended with %d and did not start its "
			"command; leave the option out (or write --no-container-entrypoint) and begin your command "
			"with what the entry point would do",
			td_buf_str(&s->image->entry), code);
	if (renameat(s->own, "started.new", s->own, "started"))
		return td_fail_errno(err, TD_INTERNAL, errno, "the note of the entry point");
	return 0;
}

int td_ct_start(const struct td_ct_start *s, char **ret_cwd, struct td_buf *ret_env, struct td_error *err)
{
	// The first task runs it, and the others wait. The lock ends with the process, and is not inherited.
	td_auto_close int lock = openat(s->own, "start.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || s->self < 0 || flock(lock, LOCK_EX))
		return td_fail_errno(err, TD_INTERNAL, errno, "the lock of the entry point");
	td_auto_close int there = openat(s->own, "started", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = there < 0 ? run(s, err) : 0;
	if (r)
		return r;
	if (there < 0)
		there = openat(s->own, "started", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	td_auto_buf struct td_buf note = {0};
	read_all(there, NOTE_MAX, &note);
	size_t cwd = strlen(td_buf_str(&note)) + 1;
	if (note.len <= cwd)
		return td_fail(err, TD_INTERNAL, "the note of the entry point is empty");
	*ret_cwd = td_strdup(note.s);
	td_buf_reset(ret_env);
	td_buf_add(ret_env, note.s + cwd, note.len - cwd);
	return 0;
}
