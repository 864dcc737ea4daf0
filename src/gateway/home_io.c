// `tandem home-io`: does one thing in one person's home. It starts as root, makes the home its root
// directory, becomes the person for good, and only then looks at a path. So whatever it is told, it
// can do no more than the person could, and nothing outside of the home.
//
//   tandem home-io --homes DIR --home NAME --uid N --gid N -- VERB [WORD…]
//
// Standard input and output belong to the verb. A failure is one line on stderr, and the exit code is
// 100 - its code (enum td_code).
#include "gateway/home_io.h"

#include "base/file.h"
#include "base/options.h"
#include "cmd/roles.h"
#include "gateway/path.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEAST_UID = 1000, LEAST_GID = 100, CODE_BASE = 100 };

static int beneath(int dir, const char *path, int flags, mode_t mode)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
			       .mode = flags & O_CREAT ? mode : 0,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static int failed(struct td_error *err, const char *what, const char *path)
{
	int e = errno;
	if (e == ELOOP || e == EXDEV)
		return td_fail(err, TD_DENIED, "%s is a link, or leads through one: links are not followed here", path);
	int code = e == ENOENT                   ? TD_NOT_FOUND
		   : e == EACCES || e == EPERM   ? TD_DENIED
		   : e == EEXIST                 ? TD_EXISTS
		   : e == ENOSPC || e == EDQUOT  ? TD_THROTTLED
		   : e == ENOTDIR || e == EISDIR ? TD_INVALID
						 : TD_INTERNAL;
	return td_fail_errno(err, code, e, "%s %s", what, path);
}

int td_home_at(const char *path, int flags, mode_t mode, struct td_error *err)
{
	int fd = beneath(AT_FDCWD, path, flags, mode);
	return fd < 0 ? failed(err, flags & O_CREAT ? "write" : "open", path) : fd;
}

int td_home_mkdirs(const char *path, struct td_error *err)
{
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, path, '/');
	td_auto_close int dir = beneath(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
	for (size_t i = 0; i < parts.n; i++) {
		if (mkdirat(dir, parts.v[i], 0755) < 0 && errno != EEXIST)
			return failed(err, "make directory", path);
		int next = beneath(dir, parts.v[i], O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return failed(err, "make directory", path);
		close(dir);
		dir = next;
	}
	return 0;
}

int td_home_input(size_t most, struct td_buf *ret, struct td_error *err)
{
	char buf[65536];
	for (ssize_t n; (n = read(STDIN_FILENO, buf, sizeof(buf))) != 0;) {
		if (n < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "read the input");
		if (ret->len + (size_t)n > most)
			return td_fail(err, TD_INVALID, "the input is larger than %zu bytes", most);
		td_buf_add(ret, buf, (size_t)n);
	}
	return 0;
}

int td_home_put(const char *path, const void *p, size_t n, mode_t mode, struct td_error *err)
{
	td_auto_free char *temp = td_asprintf("%s.tmp-%d", path, (int)getpid());
	td_auto_close int fd = td_home_at(temp, O_WRONLY | O_CREAT | O_EXCL, mode, err);
	if (fd < 0)
		return fd;
	int r = td_write_all(fd, p, n, err);
	if (!r && renameat(AT_FDCWD, temp, AT_FDCWD, path) < 0)
		r = failed(err, "write", path);
	if (r)
		unlink(temp);
	return r;
}

int td_home_get(const char *path, size_t most, struct td_buf *ret, struct td_error *err)
{
	struct stat st;
	td_auto_close int fd = td_home_at(path, O_RDONLY | O_NONBLOCK, 0, err);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return td_fail(err, TD_INVALID, "%s is no plain file", path);
	if ((size_t)st.st_size > most)
		return td_fail(err, TD_INVALID, "%s is larger than %zu bytes", path, most);
	char buf[65536];
	size_t got = 0;
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0 && got <= most; got += (size_t)n)
		td_buf_add(ret, buf, (size_t)n);
	return 0;
}

// td_rm_rf() follows no links below the path; the path's own parents are ours.
int td_home_remove(const char *path, struct td_error *err)
{
	return td_rm_rf(path, err);
}

// ---- becoming the person ----

// Makes the home, as a login pod would, of a person who has not logged in yet.
static int make_home(int root, const char *home, uid_t uid, gid_t gid, struct td_error *err)
{
	td_auto_free char *temp = td_asprintf(".new-%s", home);
	if (mkdirat(root, temp, 0700) < 0 && errno != EEXIST)
		return td_fail_errno(err, TD_TRANSIENT, errno, "make the home %s", home);
	if (fchownat(root, temp, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    syscall(SYS_renameat2, root, temp, root, home, 1 /* RENAME_NOREPLACE */) < 0)
		unlinkat(root, temp, AT_REMOVEDIR);
	return 0;
}

static int enter(const char *homes, const char *home, uid_t uid, gid_t gid, struct td_error *err)
{
	td_auto_close int root = open(homes, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "the homes at %s", homes);

	td_auto_close int there = beneath(root, home, O_PATH | O_DIRECTORY, 0);
	int r = there < 0 && errno == ENOENT && !strchr(home, '/') ? make_home(root, home, uid, gid, err) : 0;
	if (r)
		return r;

	// It is opened with the person's own rights: root needs none to other people's files then, and a file
	// server that takes root for nobody opens it too.
	int groups = setgroups(1, &gid);
	setfsgid(gid);
	setfsuid(uid);
	if (groups < 0 || setfsgid((gid_t)-1) != (int)gid ||
	    setfsuid((uid_t)-1) != (int)uid) // these say what counts now
		return td_fail_errno(err, TD_INTERNAL, errno, "become user %u", (unsigned)uid);
	td_auto_close int dir = beneath(root, home, O_PATH | O_DIRECTORY, 0);
	if (dir < 0 && errno == EACCES)
		return td_fail_errno(err, TD_DENIED, EACCES, "the home %s cannot be reached by its owner", home);
	if (dir < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "the home %s", home);
	if (fchdir(dir) < 0)
		return td_fail_errno(err, errno == EACCES ? TD_DENIED : TD_INTERNAL, errno,
				     "the home %s is not its owner's", home);
	if (chroot(".") < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "enter the home %s", home);
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "become user %u", (unsigned)uid);
	if (chdir("/") < 0)
		return td_fail_errno(err, TD_DENIED, errno, "the home %s is not its owner's", home);
	umask(022);
	return 0;
}

static const struct td_home_verb verbs[] = {
	{"missing", 0, td_home_missing},
	{"store", 0, td_home_store},
	{"write", 0, td_home_write},
	{"list", 1, td_home_list},
	{"read", 3, td_home_read},
	{"follow", 2, td_home_follow},
	{"size", 1, td_home_size},
	{"make", 0, td_home_make},
	{"record", 1, td_home_record},
	{"runs", 0, td_home_runs},
	{"one", 1, td_home_one},
	{"want", 2, td_home_want},
	{"made", 1, td_home_made},
	{"unmake", 2, td_home_unmake},
	{"tail", 1, td_home_tail},
	{"schedule-put", 1, td_home_schedule_put},
	{"schedule-get", 1, td_home_schedule_get},
	{"schedule-drop", 1, td_home_schedule_drop},
	{"federated-put", 1, td_home_federated_put},
	{"federated-get", 1, td_home_federated_get},
	{"federated-drop", 1, td_home_federated_drop},
	{"chunks", 0, td_home_chunks},
	{"consent", 1, td_home_consent},
};

static int run(char **words, struct td_error *err)
{
	int n = 0;
	while (words[n])
		n++;
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		if (n && !strcmp(verbs[i].name, words[0]) && verbs[i].words == n - 1)
			return verbs[i].run(words + 1, err);
	return td_fail(err, TD_INTERNAL, "home-io has no such verb: %s", n ? words[0] : "none");
}

int td_home_io_main(int argc, char **argv)
{
	const char *homes = NULL, *home = NULL;
	int uid = 0, gid = 0, code;
	char **words;
	struct td_error err = TD_ERROR_INIT;
	const struct td_option options[] = {
		{.name = "homes", .value = "DIR", TD_OPT_TEXT(&homes), .required = true, .help = "where homes are"},
		{.name = "home", .value = "NAME", TD_OPT_TEXT(&home), .required = true, .help = "this one"},
		{.name = "uid",
		 .value = "N",
		 TD_OPT_INT(&uid, LEAST_UID, INT32_MAX),
		 .required = true,
		 .help = "whose"},
		{.name = "gid",
		 .value = "N",
		 TD_OPT_INT(&gid, LEAST_GID, INT32_MAX),
		 .required = true,
		 .help = "group"},
	};
	const struct td_command c = {.name = "home-io",
				     .about = "Does one thing in a home, as its owner. The gateway starts it.",
				     .options = options,
				     .n = TD_LEN(options),
				     .min_args = 1,
				     .max_args = 4,
				     .args = "VERB"};
	if (!td_command_line(&c, argc, argv, &words, &code))
		return code;

	int r = td_gateway_path_check(home, &err);
	if (!r)
		r = enter(homes, home, (uid_t)uid, (gid_t)gid, &err);
	if (!r)
		r = run(words, &err);
	if (r)
		fprintf(stderr, "%s\n", err.msg);
	// Nothing that runs at the end of a process, such as a sanitizer's search for leaks, could look at
	// the machine from in here.
	fflush(NULL);
	_exit(r ? CODE_BASE - r : 0);
}
