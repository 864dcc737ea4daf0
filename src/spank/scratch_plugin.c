// Each job's own /tmp, /var/tmp and /dev/shm: the plug-in that slurmstepd loads (scratch.h).
//
// slurmstepd calls slurm_spank_init_post_opt as root, before it opens anything for the step. From then on it is in
// a mount namespace of its own, and its tasks, its input and output, PMIx's files and TaskProlog with it. The
// directories belong to the job, so that its steps meet there, also those of MPI programs in /dev/shm.
//
// Where Slurm has devices, each task besides has a view of /dev (devview.h). What it may open is known when it has
// become its user, who mounts nothing: so a child of the task stays root in the task's mounts and waits to be told.
// Slurm's code and this one run in the task until TaskProlog; nobody traces it, because it changed its user.
#include "spank/devview.h"
#include "spank/groupfs.h"
#include "spank/scratch.h"
#include "spank/spank_api.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TD_SPANK_EXPORT const char plugin_name[] = "tandem_scratch";
TD_SPANK_EXPORT const char plugin_type[] = "spank";
TD_SPANK_EXPORT const unsigned int spank_plugin_version = 1;

static bool broken;      // the step has no directories of its own
static bool has_devices; // Slurm has some, of which the step may hold fewer
static int viewer = -1;  // the task's end of what it says to the child that makes its view of /dev
static pid_t viewer_pid;
static char why[256]; // what slurmstepd says so early is nowhere to be read: its tasks say it

static int failed(const char *what)
{
	snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
	return -1;
}

// The tmpfs is mounted once for the job. Its memory counts in the cgroup of the step that writes.
static int make_shm(const char *dir, const char *size)
{
	char shm[96], options[96];
	struct stat above, at;
	snprintf(shm, sizeof(shm), "%s/" TD_SCRATCH_SHM, dir);
	snprintf(options, sizeof(options), "mode=1777,size=%s", size);
	if (mkdir(shm, 0700) && errno != EEXIST)
		return failed(shm);
	if (stat(dir, &above) || stat(shm, &at))
		return failed(shm);
	if (above.st_dev != at.st_dev)
		return 0; // an earlier step mounted it
	return mount("tmpfs", shm, "tmpfs", MS_NOSUID | MS_NODEV, options) ? failed(shm) : 0;
}

// What sbcast wrote here before the job's first step on this node (scratch_bcast.c gives it to later ones).
static void take_cast(const char *dir, uid_t uid)
{
	DIR *d = opendir(TD_SCRATCH "/" TD_SCRATCH_NODE);
	struct stat st;
	for (struct dirent *e; d && (e = readdir(d));) {
		char to[PATH_MAX];
		snprintf(to, sizeof(to), "%s/tmp/%s", dir, e->d_name);
		bool libs = td_scratch_is_libraries(e->d_name, strlen(e->d_name));
		if (!fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_uid == uid &&
		    (S_ISREG(st.st_mode) || (libs && S_ISDIR(st.st_mode))))
			renameat(dirfd(d), e->d_name, AT_FDCWD, to);
	}
	if (d)
		closedir(d);
}

// Says whose job it is, for sbcast. Another step of the job may have said so.
static int sign(const char *dir, uid_t uid)
{
	char path[96], text[16];
	snprintf(path, sizeof(path), "%s/uid", dir);
	snprintf(text, sizeof(text), "%u", uid);
	if (!symlink(text, path))
		take_cast(dir, uid);
	else if (errno != EEXIST)
		return failed(path);
	return 0;
}

// Makes the job's directories unless they are there, and says that a step of it lives, as long as this process does.
static int make(uint32_t job, uid_t uid, const char *size, char *dir, size_t n)
{
	static const char *const own[] = {"tmp", "var-tmp"};
	snprintf(dir, n, TD_SCRATCH_JOBS "/%u", job);
	int lock = open(TD_SCRATCH, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return failed(TD_SCRATCH);
	int r = -1;
	while ((r = flock(lock, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (r)
		r = failed("lock " TD_SCRATCH);
	if (!r && mkdir(dir, 0700) && errno != EEXIST)
		r = failed(dir);
	for (int i = 0; i < 2 && !r; i++) {
		char path[96];
		snprintf(path, sizeof(path), "%s/%s", dir, own[i]);
		if ((mkdir(path, 0700) && errno != EEXIST) || chmod(path, 01777))
			r = failed(path);
	}
	if (!r)
		r = make_shm(dir, size);
	if (!r)
		r = sign(dir, uid);
	// This descriptor stays open on purpose.
	int alive = r ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!r && (alive < 0 || flock(alive, LOCK_SH | LOCK_NB)))
		r = failed(dir);
	close(lock);
	return r;
}

// A clone of what is at `from`, on `to`.
static int show(const char *from, const char *to, bool optional)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
	int r = fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a)) ||
				syscall(SYS_move_mount, fd, "", AT_FDCWD, to,
					MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS)
			? -1
			: 0;
	if (r && (!optional || errno != ENOENT))
		failed(to);
	else
		r = 0;
	if (fd >= 0)
		close(fd);
	return r;
}

static int enter(const char *dir, uid_t uid)
{
	static const struct {
		const char *from, *to;
		bool optional;
	} shown[] = {{"tmp", "/tmp", false}, {"var-tmp", "/var/tmp", true}, {TD_SCRATCH_SHM, "/dev/shm", true}};
	// What is mounted or unmounted in the pod later still counts here, but nothing that is done here counts there.
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return failed("a mount namespace of the step's own");
	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
		char from[96];
		snprintf(from, sizeof(from), "%s/%s", dir, shown[i].from);
		if (show(from, shown[i].to, shown[i].optional))
			return -1;
	}
	char text[16 << 10];
	struct passwd p, *who = NULL;
	// Who cannot be found is nobody who has one.
	const char *user = !getpwuid_r(uid, &p, text, sizeof(text), &who) && who ? who->pw_name : NULL;
	if (td_groupfs_show(TD_GROUPFS, TD_GROUPFS_LIST, user, why, sizeof(why)))
		return -1;
	// Other jobs' tmpfs are mounted below; a step that kept them would keep their memory.
	return umount2(TD_SCRATCH, MNT_DETACH) ? failed("unmount " TD_SCRATCH) : 0;
}

// Does gres.conf name device files, or let Slurm look for them? Without the file there are none, and Slurm keeps nobody from
// any; one that cannot be read may name some.
static bool names_files(const char *path)
{
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(path, "re");
	bool any = !f && errno != ENOENT;
	while (f && !any && getline(&line, &room, f) > 0)
		any = line[strspn(line, " \t")] != '#' &&
		      (strcasestr(line, "File=") || strcasestr(line, "Files=") ||
		       (strcasestr(line, "AutoDetect=") && !strcasestr(line, "AutoDetect=off")));
	free(line);
	if (!f)
		return any;
	any |= ferror(f) != 0;
	fclose(f);
	return any;
}

// In the child, as root: makes the view that the task asks for, and says what failed. It ends with the task.
static void make_view(int fd)
{
	static char list[TD_DEVVIEW_LIST];
	char said[TD_DEVVIEW_WHY] = "";
	ssize_t n;
	while ((n = recv(fd, list, sizeof(list), 0)) < 0 && errno == EINTR)
		;
	if (n > 0 && (list[n - 1] || td_devview_make("/dev", list, (size_t)n, said)) && !*said)
		snprintf(said, sizeof(said), "what it is to leave out is not a list");
	if (n > 0)
		send(fd, said, sizeof(said), MSG_NOSIGNAL);
	_exit(0);
}

// As root: mounts of the task's own, and the child.
static int start_viewer(void)
{
	int two[2];
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return failed("mounts of the task's own");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, two))
		return failed("socketpair");
	viewer_pid = fork();
	if (viewer_pid == 0) {
		// slurmstepd knows by its pipes when a task is gone.
		int fd = two[1] == 0 ? 0 : dup2(two[1], 0);
		close_range(1, ~0U, 0);
		make_view(fd);
	}
	close(two[1]);
	viewer = two[0];
	return viewer_pid < 0 ? failed("fork") : 0;
}

// As the user: says what is to be left out, and waits until it is.
static int ask_viewer(char said[TD_DEVVIEW_WHY])
{
	static char list[TD_DEVVIEW_LIST];
	ssize_t n = td_devview_refused("/dev", list, sizeof(list)), k = 0;
	if (n < 0)
		snprintf(said, TD_DEVVIEW_WHY, "/dev: %s", strerror(errno));
	if (n > 0 && send(viewer, list, (size_t)n, MSG_NOSIGNAL) == n)
		while ((k = recv(viewer, said, TD_DEVVIEW_WHY, 0)) < 0 && errno == EINTR)
			;
	if (n > 0 && k != TD_DEVVIEW_WHY)
		snprintf(said, TD_DEVVIEW_WHY, "the process that makes it has ended");
	close(viewer);
	while (waitpid(viewer_pid, NULL, 0) < 0 && errno == EINTR)
		;
	return *said ? -1 : 0;
}

TD_SPANK_EXPORT int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	uint32_t job;
	uid_t uid;
	char dir[64], size[64] = "50%";
	if (spank_context() != S_CTX_REMOTE)
		return 0;
	for (int i = 0; i < ac; i++)
		if (!strncmp(av[i], "shm=", 4))
			snprintf(size, sizeof(size), "%s", av[i] + 4);
	// A slurmd pod that is older than spec.scratch has no such directory; slurmd.sh makes it before slurmd starts.
	if (access(TD_SCRATCH_JOBS, F_OK) && errno == ENOENT)
		return 0;
	broken = true;
	if (spank_get_item(sp, S_JOB_ID, &job) || spank_get_item(sp, S_JOB_UID, &uid)) {
		snprintf(why, sizeof(why), "Slurm does not say whose step this is");
		return -1;
	}
	broken = make(job, uid, size, dir, sizeof(dir)) || enter(dir, uid);
	has_devices = names_files(TD_SCRATCH_GRES);
	if (!broken)
		spank_setenv(sp, "TMPDIR", "/tmp", 0); // the user's own wins
	return broken ? -1 : 0;
}

// Slurm goes on without a plug-in that is not required, also when it fails. A task that would show its files to others
// does not begin.
TD_SPANK_EXPORT int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av)
{
	(void)sp, (void)ac, (void)av;
	if (!broken && (!has_devices || !start_viewer()))
		return 0;
	slurm_error("scratch: the job cannot have a /tmp, a /dev/shm and a /dev of its own on this node: %s", why);
	_exit(1);
}

// When this is called the task is in its cgroup.
TD_SPANK_EXPORT int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void)sp, (void)ac, (void)av;
	char said[TD_DEVVIEW_WHY] = "";
	if (viewer < 0 || !ask_viewer(said))
		return 0;
	slurm_error("scratch: the task cannot have a /dev with its job's devices only on this node, and does not run "
		    "without it: %s. Tell whoever runs the cluster.",
		    said);
	_exit(1);
}
