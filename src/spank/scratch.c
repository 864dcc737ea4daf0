// Taking away the directories of jobs that have ended.
#include "spank/scratch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "spank/filter.h"
#include "spank/scratch_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUND_MS = 1000, ASK_MS = 20000, WAIT_MAX_MS = 30000 };

static int lock(const char *dir, int *ret_fd, struct td_error *err)
{
	td_auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", dir);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", dir);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}

// With the lock, so that a step that begins does not meet it. -1: there is no such directory.
static int lives(const char *path)
{
	td_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB) < 0;
}

int td_scratch_release(const char *dir, const char *job, bool *ret_gone, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/jobs/%s", dir, job), *shm = td_asprintf("%s/" TD_SCRATCH_SHM, path);
	td_auto_close int held = -1;
	int r = lock(dir, &held, err);
	if (r)
		return r;
	int alive = lives(path);
	if (alive < 0 && errno != ENOENT)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	// Queued again the job may be for another account (filter.h).
	td_auto_free char *account = td_asprintf(TD_FILTER_JOBS "/%s", job);
	if (alive <= 0)
		unlink(account);
	if (alive == 0) {
		while (!umount2(shm, MNT_DETACH | UMOUNT_NOFOLLOW))
			;
		r = td_scratch_move(path, dir, err);
	}
	if (!r)
		*ret_gone = alive <= 0;
	return r;
}

void td_scratch_jobs(const char *dir, struct td_strv *ret)
{
	td_auto_free char *path = td_asprintf("%s/jobs", dir);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			td_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
}

int td_scratch_fresh(const char *dir, struct td_error *err)
{
	static const char *const dirs[] = {"", "/jobs", "/trash"};
	for (size_t i = 0; i < TD_LEN(dirs); i++) {
		td_auto_free char *path = td_asprintf("%s%s", dir, dirs[i]);
		int r = td_mkdir_p(path, 0700, err);
		if (r)
			return r;
		if (chmod(path, 0700) || chown(path, 0, 0))
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	}
	// What is unmounted here is then unmounted in the namespaces of containers too, which have copies of these
	// mounts and cannot unmount them themselves.
	if (mount(NULL, dir, NULL, MS_SHARED, NULL) && errno != EINVAL)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", dir);

	int r = td_scratch_node_tmp(dir, err);
	if (r)
		return r;
	td_auto_strv struct td_strv jobs = {0};
	td_scratch_jobs(dir, &jobs);
	for (size_t i = 0; i < jobs.n; i++) {
		bool gone = false;
		r = td_scratch_release(dir, jobs.v[i], &gone, err);
		if (r)
			return r;
		if (!gone)
			td_warn("scratch: a step of job %s lives, from before this container", jobs.v[i]);
	}
	return 0;
}

// ---- the service ----
// A job of which no step lives: salloc between two steps, or one that has ended.
struct quiet {
	char *job;
	int64_t next_ms, wait_ms; // when slurmctld is asked again
	bool seen;
};

enum state { GONE, ENDING, THERE };

// False: it is not known.
static bool listed(char *const argv[], const char *job, enum state *ret)
{
	td_auto_buf struct td_buf out = {0};
	td_auto_strv struct td_strv lines = {0};
	int status = 0;
	if (td_run(argv, NULL, ASK_MS, NULL, &status, &out, NULL) || status)
		return false;
	td_strv_split(&lines, td_buf_str(&out), '\n');
	td_auto_free char *ending = td_asprintf("%s CG", job), *there = td_asprintf("%s ", job);
	enum state s = td_strv_has(&lines, ending) ? ENDING : GONE;
	for (size_t i = 0; i < lines.n && s == GONE; i++)
		s = td_starts(lines.v[i], there) ? THERE : GONE;
	*ret = s;
	return true;
}

// Has slurmctld such a job on its nodes?
static bool ask(const char *job, const char *node, enum state *ret)
{
	// The list of all jobs is long. One job is a small question, but of one that slurmctld has forgotten it says no
	// more than of a question that failed.
	char *one[] = {"squeue", "-h", "-o", "%A %t", "-t", TD_SCRATCH_ALIVE, "-j", (char *)job, NULL};
	char *all[] = {"squeue", "-h", "-o", "%A %t", "-t", TD_SCRATCH_ALIVE, "-w", (char *)node, NULL};
	return listed(one, job, ret) || listed(all, job, ret);
}

static void look(const char *dir, const char *node, struct quiet *q)
{
	bool gone = false;
	enum state s = THERE;
	if (ask(q->job, node, &s) && s == GONE) {
		struct td_error err = TD_ERROR_INIT;
		if (td_scratch_release(dir, q->job, &gone, &err))
			td_warn("%s", err.msg);
		if (gone)
			td_info("scratch: job %s has ended", q->job);
	}
	if (s != THERE) // it is over, or is about to be
		q->wait_ms = ROUND_MS;
	else
		q->wait_ms = q->wait_ms * 2 < WAIT_MAX_MS ? q->wait_ms * 2 : WAIT_MAX_MS;
	q->next_ms = td_mono_ms(&td_clock_system) + q->wait_ms;
}

static struct quiet *find(struct quiet *v, size_t n, const char *job)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(v[i].job, job))
			return &v[i];
	return NULL;
}

// Brings the list up to date: who has no step now.
static void round_of(const char *dir, struct quiet **v, size_t *n)
{
	td_auto_strv struct td_strv jobs = {0};
	td_auto_close int held = -1;
	td_scratch_jobs(dir, &jobs);
	for (size_t i = 0; i < *n; i++)
		(*v)[i].seen = false;
	if (!jobs.n || !lock(dir, &held, NULL))
		for (size_t i = 0; i < jobs.n; i++) {
			td_auto_free char *path = td_asprintf("%s/jobs/%s", dir, jobs.v[i]);
			if (lives(path))
				continue;
			struct quiet *q = find(*v, *n, jobs.v[i]);
			if (!q) {
				*v = td_realloc(*v, (*n + 1) * sizeof(**v));
				q = &(*v)[(*n)++];
				*q = (struct quiet){.job = td_strdup(jobs.v[i]), .wait_ms = ROUND_MS / 2};
			}
			q->seen = true;
		}
	size_t kept = 0;
	for (size_t i = 0; i < *n; i++) {
		if ((*v)[i].seen)
			(*v)[kept++] = (*v)[i];
		else
			free((*v)[i].job);
	}
	*n = kept;
}

int td_scratch_keep(const char *dir, const char *node)
{
	struct quiet *v = NULL;
	size_t n = 0;
	bool told = false;
	if (fork() == 0) {
		td_scratch_bcast(dir);
		_exit(0);
	}
	pid_t watch = fork();
	if (watch == 0) {
		td_scratch_watch(dir, node);
		_exit(0);
	}
	for (;; poll(NULL, 0, ROUND_MS)) { // no event tells of a lock that nobody has any more
		struct td_error err = TD_ERROR_INIT;
		round_of(dir, &v, &n);
		for (size_t i = 0; i < n; i++)
			if (td_mono_ms(&td_clock_system) >= v[i].next_ms)
				look(dir, node, &v[i]);
		if (watch < 0 || waitpid(watch, NULL, WNOHANG) == watch)
			return 1; // slurmd.sh starts both again
		bool left = td_scratch_empty(dir, &err);
		if (left && !told)
			td_warn("%s", err.msg);
		told = left;
	}
}
