// User namespaces of pods. The namespace is held by the pod's network namespace, which belongs to it,
// so that it needs no name of its own: whoever has the network finds it (NS_GET_USERNS), also after
// the agent was started again, and it goes when the network goes.
//
// Files keep their ids on disk: the image and the volumes are idmapped mounts, which show the file
// of uid 0 as that of the namespace's root. They are made in the sandbox's mount namespace, because
// runc before 1.2 cannot, and vanish with it and the container. What the container writes beside its
// volumes (the overlay's upper layer) is owned on disk by the machine's ids.
#include "base/file.h"
#include "oci/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 64 << 10, LIST_MAX = 1 << 20 };

// ---- the namespace ----

// In a process that shares the caller's memory: system calls only.
__attribute__((no_sanitize("address", "thread", "undefined"))) static int wait_here(void *parent)
{
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (syscall(SYS_getppid) == *(const pid_t *)parent) // else it was killed before that counted
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

static int map_write(pid_t pid, const char *file, uint32_t base, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/proc/%d/%s", (int)pid, file),
			  *line = td_asprintf("0 %u %d\n", base, TD_OCI_IDS);
	td_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s of the user namespace", file);
	return 0;
}

int td_users_network(uint32_t base, int *ret_fd, struct td_error *err)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return td_fail_errno(err, TD_INTERNAL, errno, "a stack of %d bytes", STACK);
	// A threaded process may neither fork nor make a user namespace for itself. No signal must run a handler in
	// the memory that is shared.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid_t me = getpid(), pid = clone(wait_here, stack + STACK, CLONE_VM | CLONE_NEWUSER | CLONE_NEWNET, &me);
	int e = errno, r = 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	td_auto_free char *net = td_asprintf("/proc/%d/ns/net", (int)pid);
	td_auto_close int fd = -1;
	if (pid < 0)
		r = td_fail_errno(err, TD_UNSUPPORTED, e,
				  "this machine allows no user namespaces (see user.max_user_namespaces)");
	if (!r && !(r = map_write(pid, "uid_map", base, err)))
		r = map_write(pid, "gid_map", base, err);
	if (!r && (fd = open(net, O_RDONLY | O_CLOEXEC)) < 0)
		r = td_fail_errno(err, TD_INTERNAL, errno, "open %s", net);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	}
	munmap(stack, STACK);
	if (!r)
		*ret_fd = td_steal_fd(&fd);
	return r;
}

uint32_t td_users_root_of(pid_t pid)
{
	td_auto_free char *path = td_asprintf("/proc/%d/uid_map", (int)pid);
	td_auto_buf struct td_buf b = {0};
	unsigned inside = 0, outside = 0;
	if (td_file_read(path, 4096, &b, NULL) || sscanf(td_buf_str(&b), "%u %u", &inside, &outside) != 2 || inside)
		return 0;
	return outside;
}

// ---- in the sandbox ----

// Puts `source` at `at`, of which it makes a file or a directory. flags: as in internal.h.
static int put(const char *source, const char *at, const char *flags, int ns, struct td_error *err)
{
	td_auto_close int fd =
		(int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "open %s", source);

	struct mount_attr a = {0};
	for (const char *f = flags; *f && *f != ' ' && *f != '='; f++)
		a.attr_set |= *f == 'r'   ? MOUNT_ATTR_RDONLY
			      : *f == 's' ? MOUNT_ATTR_NOSUID
			      : *f == 'd' ? MOUNT_ATTR_NODEV
					  : 0;
	if (flags[strcspn(flags, "= ")] != '=') {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (uint64_t)ns;
	}
	if (a.attr_set && syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a)))
		return td_fail_errno(
			err, TD_UNSUPPORTED, errno,
			"%s: its file system cannot map owners for a user namespace (idmapped mount), as ext4, xfs, "
			"btrfs and, from Linux 6.3 on, tmpfs can: take another one, or no user namespace",
			source);

	int f = S_ISDIR(st.st_mode) ? mkdir(at, 0700) : open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "make %s", at);
	if (!S_ISDIR(st.st_mode))
		close(f);
	return syscall(SYS_move_mount, fd, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0
		       ? td_fail_errno(err, TD_INTERNAL, errno, "mount %s", at)
		       : 0;
}

static int device(const char *line, const char *at, uint32_t base, struct td_error *err)
{
	unsigned ma, mi, mode;
	if (sscanf(line + 1, " %u:%u %o", &ma, &mi, &mode) != 3)
		return td_fail(err, TD_INVALID, "device \"%s\"", line);
	// mknod has the umask taken off.
	if (mknod(at, (*line == 'c' ? S_IFCHR : S_IFBLK) | mode, makedev(ma, mi)) < 0 || chmod(at, mode) < 0 ||
	    chown(at, base, base) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "make the device file %u:%u", ma, mi);
	return 0;
}

static int namespace_of(const char *netns, int *ret, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/run/netns/%s", netns), *from = NULL;
	td_auto_close int net = open(path, O_RDONLY | O_CLOEXEC);
	td_auto_close int ns = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
	if (ns < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "the user namespace of %s", path);
	td_auto_close int at = open(TD_USERS_DIR "/user", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	from = td_asprintf("/proc/self/fd/%d", ns);
	if (at < 0 || mount(from, TD_USERS_DIR "/user", NULL, MS_BIND, NULL) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "name the user namespace");
	*ret = td_steal_fd(&ns);
	return 0;
}

int td_users_mounts(const char *netns, uint32_t base, const char *lower, struct td_error *err)
{
	td_auto_buf struct td_buf list = {0};
	td_auto_close int ns = -1;
	int r = td_file_read(TD_USERS_LIST, LIST_MAX, &list, err);
	if (r)
		return r;
	// Of the machine, so that device files in it may be opened, wherever the containers' directories lie.
	if (mount("tmpfs", TD_USERS_DIR, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=700,size=4m") < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "mount tmpfs on %s", TD_USERS_DIR);
	if ((r = namespace_of(netns, &ns, err)) || (r = put(lower, TD_USERS_DIR "/lower", "mr", ns, err)))
		return r;
	if (chown("upper", base, base) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "chown upper");

	size_t i = 0;
	for (const char *l = td_buf_str(&list), *end = l + list.len; l < end && !r; l += strlen(l) + 1, i++) {
		td_auto_free char *at = td_asprintf(TD_USERS_DIR "/%zu", i);
		const char *source = strchr(l, ' ');
		if (*l == 'c' || *l == 'b')
			r = device(l, at, base, err);
		else if (!source)
			r = td_fail(err, TD_INVALID, "mount \"%s\"", l);
		else
			r = put(source + 1, at, l, ns, err);
	}
	return r;
}
