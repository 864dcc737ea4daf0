// `tandem sandbox`: the start of one container, in a single-threaded process of its own. It
// unshares the mount namespace, mounts the overlay there, opens the log and the exit record, and
// becomes `runc run -d`. The overlay lives only in this namespace and in the container: when both
// are gone, nothing is left to unmount, whatever crashed.
//
//   tandem sandbox --dir DIR --lower DIR --runc FILE --state DIR --id ID --log FILE
//                  [--users UID --netns NAME --root DIR] [--rotate | --rotate-stdin]
//
// Descriptors of init: 3 is the exit record. With --rotate or --rotate-stdin, 4 and 5 are the log
// FILE and FILE.1; otherwise init's stdout and stderr are the log. With --rotate-stdin, 6 is the
// FIFO DIR/stdin. With --users the container is in the user namespace of that network: its root is
// mounted at --root instead of DIR/rootfs, its volumes and devices below DIR/m (users.c).
#include "base/options.h"
#include "cmd/roles.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// overlayfs splits its options at ',' and its lower directories at ':'. Both can be escaped.
static char *escape(const char *s)
{
	struct td_buf b = {0};
	for (; *s; s++) {
		if (strchr(",:\\", *s))
			td_buf_putc(&b, '\\');
		td_buf_putc(&b, *s);
	}
	return td_buf_take(&b);
}

static int fail(const char *what, const char *name)
{
	fprintf(stderr, "%s%s%s: %s\n", what, name ? " " : "", name ? name : "", strerror(errno));
	return 1;
}

int td_sandbox_main(int argc, char **argv)
{
	const char *dir = NULL, *lower = NULL, *runc = NULL, *state = NULL, *id = NULL, *log = NULL;
	const char *netns = NULL, *root = NULL, *users_text = NULL;
	bool rotate = false, input = false;
	long long users = 0;
	int code;
	const struct td_option options[] = {
		{.name = "dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&dir),
		 .required = true,
		 .help = "the container's own directory"},
		{.name = "lower", .value = "DIR", TD_OPT_TEXT(&lower), .required = true, .help = "the image's root"},
		{.name = "runc", .value = "FILE", TD_OPT_TEXT(&runc), .required = true, .help = "the program"},
		{.name = "state", .value = "DIR", TD_OPT_TEXT(&state), .required = true, .help = "its state"},
		{.name = "id", .value = "ID", TD_OPT_TEXT(&id), .required = true, .help = "the container's name"},
		{.name = "log",
		 .value = "FILE",
		 TD_OPT_TEXT(&log),
		 .required = true,
		 .help = "what it writes goes there"},
		{.name = "users", .value = "UID", TD_OPT_TEXT(&users_text), .help = "root's uid in its user namespace"},
		{.name = "netns", .value = "NAME", TD_OPT_TEXT(&netns), .help = "the network of that namespace"},
		{.name = "root", .value = "DIR", TD_OPT_TEXT(&root), .help = "where its root is mounted"},
		{.name = "rotate", TD_OPT_SWITCH(&rotate), .help = "init gets the log's descriptors and rotates it"},
		{.name = "rotate-stdin", TD_OPT_SWITCH(&input), .help = "so, and it gets the FIFO DIR/stdin"},
	};
	const struct td_command c = {.name = "sandbox",
				     .usage = "OPTION…",
				     .about = "One container's start. The node agent starts this, nobody else.",
				     .options = options,
				     .n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, &code))
		return code;
	rotate = rotate || input;

	if (chdir(dir) < 0)
		return fail("enter", dir);
	if (unshare(CLONE_NEWNS) < 0)
		return fail("unshare the mount namespace", NULL);
	// Slave, not private: later mounts of the node reach volumes with mountPropagation
	// HostToContainer, and no mount of the container reaches the node.
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return fail("make the mounts a slave of the node's", NULL);

	if (users_text && (!td_parse_i64(users_text, &users) || users < 1 || users > UINT32_MAX || !netns || !root)) {
		fputs("--users wants a uid, --netns and --root\n", stderr);
		return 2;
	}
	struct td_error err = TD_ERROR_INIT;
	if (users && td_users_mounts(netns, (uint32_t)users, lower, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}

	td_auto_free char *l = escape(users ? TD_USERS_DIR "/lower" : lower);
	// The paths are relative, so that no path of the home can break the options, and the page
	// that they must fit in is left to the image's path.
	td_auto_free char *o = td_asprintf("lowerdir=%s,upperdir=upper,workdir=work", l);
	if (mount("overlay", users ? root : "rootfs", "overlay", 0, o) < 0) {
		int e = errno;
		fprintf(stderr, "mount the overlay of image %s in %s: %s%s\n", lower, dir, strerror(e),
			e == EINVAL ? " (the directory must be on a file system that can hold an overlay: ext4, xfs, "
				      "btrfs or tmpfs)"
				    : "");
		return 1;
	}

	td_auto_free char *old_log = td_asprintf("%s.1", log);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC),
	    out = open(log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640),
	    record = open("exit", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640),
	    old = rotate ? open(old_log, O_RDWR | O_CREAT | O_CLOEXEC, 0640) : null;

	unlink("stdin");
	// Open for reading and writing: then the FIFO does not end when a session goes, and opening
	// it does not need one.
	int in = !input ? null : mkfifo("stdin", 0600) < 0 ? -1 : open("stdin", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (null < 0 || out < 0 || record < 0 || old < 0 || in < 0)
		return fail("open the log or the exit record", log);

	// Move all sources above the range that is filled below, so that none is overwritten.
	int keep = fcntl(2, F_DUPFD_CLOEXEC, 10), lock = fcntl(3, F_DUPFD, 10);

	const int to[] = {null, out, out, record, out, old, in};
	int src[TD_LEN(to)], n = input ? 7 : rotate ? 6 : 4;
	for (int i = 0; i < n; i++)
		src[i] = fcntl(to[i], F_DUPFD_CLOEXEC, 10);
	for (int i = 0; i < n; i++)
		if (src[i] < 0 || dup2(src[i], i) < 0)
			return fail("place the descriptors", NULL);

	syscall(SYS_close_range, (unsigned)n, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
	if (lock >= 0)
		fcntl(lock, F_SETFD, 0); // runc holds it until it ends; closed before init

	execl(runc, "runc", "--root", state, "--log", "runc.log", "--log-format", "json", "run", "--preserve-fds",
	      input    ? "4"
	      : rotate ? "3"
		       : "1",
	      "-d", "--pid-file", "pid", "-b", ".", id, (char *)NULL);
	dprintf(keep, "run %s: %s\n", runc, strerror(errno));
	return 1;
}
