// sbcast and `srun --bcast`: slurmd writes those files itself, as the user, and outside of every job. What it writes
// into /tmp is for the user's jobs, so it is given to them. The kernel asks before slurmd's open succeeds: by the time
// that sbcast has sent anything, the file is where the job finds it.
#include "spank/scratch_internal.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE_TMP "/tmp"

int td_scratch_node_tmp(const char *dir, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/" TD_SCRATCH_NODE, dir);
	if (!td_scratch_move(path, dir, NULL))
		errno = 0; // what an earlier container left
	if (mkdir(path, 0700) || chmod(path, 01777) || mount(path, NODE_TMP, NULL, MS_BIND, NULL) ||
	    mount(NULL, NODE_TMP, NULL, MS_PRIVATE, NULL))
		return td_fail_errno(err, TD_INTERNAL, errno, "%s as %s", path, NODE_TMP);
	return 0;
}

// Is jobs/JOB that user's? A link that the plug-in made says so.
static bool is_his(int jobs, const char *job, uid_t uid)
{
	td_auto_free char *path = td_asprintf("%s/uid", job), *want = td_asprintf("%u", uid);
	char text[32];
	ssize_t n = readlinkat(jobs, path, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return td_streq(text, want);
}

// The job's own directory of that name for libraries (sbcast --send-libs), made unless it is there. The job may have put
// anything in its place: a link is not followed, and another's directory is none. -1: there is none.
static int libraries(int tmp, const char *name, const struct stat *file)
{
	struct stat st;
	bool made = !mkdirat(tmp, name, 0700);
	td_auto_close int fd = openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || (made && st.st_uid == 0 && fchown(fd, file->st_uid, file->st_gid)))
		return -1;
	return made || st.st_uid == file->st_uid ? td_steal_fd(&fd) : -1;
}

// Libraries come as DIRECTORY/NAME, into a directory that slurmd made beside the program.
static void give_library(const char *dir, const char *name, const struct stat *file)
{
	td_auto_free char *from = td_asprintf("%s/" TD_SCRATCH_NODE "/%s", dir, name),
			  *all = td_asprintf("%s/jobs", dir), *half = td_asprintf("%s/given", dir);
	const char *slash = strchr(name, '/');
	td_auto_free char *libs = td_strndup(name, (size_t)(slash - name));
	DIR *d = opendir(all);
	bool given = false;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || !is_his(dirfd(d), e->d_name, file->st_uid))
			continue;
		td_auto_free char *path = td_asprintf("%s/tmp", e->d_name);
		td_auto_close int tmp = openat(dirfd(d), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
				  to = tmp < 0 ? -1 : libraries(tmp, libs, file);
		unlink(half);
		given |= to >= 0 && !link(from, half) && !renameat(AT_FDCWD, half, to, slash + 1);
	}
	if (d)
		closedir(d);
	if (given)
		unlink(from);
}

// The file becomes that of all his jobs here, usually one, and is not the node's any more. One of the name that a job
// has already is replaced, as sbcast --force does.
static void give(const char *dir, const char *name, uid_t uid)
{
	td_auto_free char *from = td_asprintf("%s/" TD_SCRATCH_NODE "/%s", dir, name),
			  *all = td_asprintf("%s/jobs", dir), *half = td_asprintf("%s/given", dir);
	DIR *d = opendir(all);
	bool given = false;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || !is_his(dirfd(d), e->d_name, uid))
			continue;
		td_auto_free char *to = td_asprintf("%s/%s/tmp/%s", all, e->d_name, name);
		unlink(half);
		given |= !link(from, half) && !rename(half, to);
	}
	if (d)
		closedir(d);
	if (given)
		unlink(from);
}

// Somebody opens a file of the node's /tmp. What is no user's own file directly there is left alone.
static void opened(const char *dir, int fd)
{
	char link[64], path[PATH_MAX];
	struct stat st;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid == 0 || st.st_nlink != 1)
		return;
	path[n] = '\0';
	const char *name = strncmp(path, NODE_TMP "/", strlen(NODE_TMP "/")) ? "" : path + strlen(NODE_TMP "/");
	const char *slash = strchr(name, '/');
	if (*name && !slash)
		give(dir, name, st.st_uid);
	else if (slash && td_scratch_is_libraries(name, (size_t)(slash - name)) && slash[1] && !strchr(slash + 1, '/'))
		give_library(dir, name, &st);
}

void td_scratch_bcast(const char *dir)
{
	// Who waits for an answer goes on if this process ends.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int fan = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
	if (fan < 0 || fanotify_mark(fan, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN_PERM, AT_FDCWD, NODE_TMP)) {
		fprintf(stderr, "tandem: scratch: what sbcast writes into " NODE_TMP " reaches no job that runs: %s\n",
			strerror(errno));
		return;
	}
	static char buf[8192] __attribute__((aligned(8)));
	for (ssize_t n; (n = read(fan, buf, sizeof(buf))) > 0 || errno == EINTR;) {
		struct fanotify_event_metadata *m = (struct fanotify_event_metadata *)buf;
		for (; n > 0 && FAN_EVENT_OK(m, n); m = FAN_EVENT_NEXT(m, n)) {
			if (m->fd < 0)
				continue;
			opened(dir, m->fd);
			struct fanotify_response r = {.fd = m->fd, .response = FAN_ALLOW};
			(void)!write(fan, &r, sizeof(r));
			close(m->fd);
		}
	}
}
