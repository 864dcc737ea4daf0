// What deleted files hold of the disk that a job's processes have open or mapped: no directory has them. The processes
// of a job are those of its cgroup. Needs SYS_PTRACE: a process may have hidden itself from its own user.
#include "spank/scratch_internal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { OVERLAY = 0x794c7630, CGROUP_MOST = 16 << 10, LEAST = 256, MOST = 1 << 20 };

static int by_file(const void *a, const void *b)
{
	const struct td_scratch_deleted *x = a, *y = b;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

// Each file once for each job: one descriptor after the other may lead to it.
static void once(struct td_scratch_open *o)
{
	size_t kept = 0;
	if (o->n)
		qsort(o->v, o->n, sizeof(*o->v), by_file);
	for (size_t i = 0; i < o->n; i++)
		if (!kept || by_file(&o->v[i], &o->v[kept - 1]))
			o->v[kept++] = o->v[i];
	o->n = kept;
}

static void add(struct td_scratch_open *o, const char *job, const struct stat *st)
{
	if (o->n == o->room) {
		once(o);
		if (o->n > o->room / 2)
			o->room *= 2;
		o->room = o->room ? o->room : LEAST;
		o->v = td_realloc(o->v, o->room * sizeof(*o->v));
	}
	if (o->n < MOST)
		o->v[o->n++] =
			(struct td_scratch_deleted){atoll(job), st->st_dev, st->st_ino, (int64_t)st->st_blocks * 512};
}

// A link of /proc, which is looked through: it may be of a disk of jobs, or of what a container writes. What is known
// here is enough, so that nobody waits for a file server that does not answer.
static void look(struct td_scratch_open *o, int dir, const char *name, const char *job)
{
	struct statx x;
	struct statfs fs;
	if (statx(dir, name, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) || !S_ISREG(x.stx_mode) || x.stx_nlink ||
	    !x.stx_blocks)
		return;
	const struct stat st = {.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
				.st_ino = x.stx_ino,
				.st_blocks = (blkcnt_t)x.stx_blocks};
	bool disk = false;
	for (size_t i = 0; i < o->n_disks; i++)
		disk |= o->disks[i] == st.st_dev;
	char path[300];
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.255s", dir, name);
	if (disk || (!statfs(path, &fs) && fs.f_type == OVERLAY))
		add(o, job, &st);
}

static void look_at_files(struct td_scratch_open *o, const char *task, const char *job)
{
	td_auto_free char *path = td_asprintf("%s/fd", task);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			look(o, dirfd(d), e->d_name, job);
	if (d)
		closedir(d);
}

// Its program and what it has mapped: lines "FROM-TO rights offset device inode path (deleted)". False: it has no memory,
// because it has ended.
static bool look_at_memory(struct td_scratch_open *o, const char *task, const char *job)
{
	td_auto_free char *maps = td_asprintf("%s/maps", task), *files = td_asprintf("%s/map_files", task),
			  *line = NULL;
	td_auto_close int all = open(task, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			  dir = open(files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FILE *f = fopen(maps, "re");
	bool any = false;
	size_t room = 0;
	for (ssize_t n; f && (n = getline(&line, &room, f)) > 0; any = true) {
		line[n - (line[n - 1] == '\n')] = '\0';
		unsigned long from, to; // there without the zeros before it
		char name[64];
		if (dir < 0 || !td_ends(line, " (deleted)") || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		snprintf(name, sizeof(name), "%lx-%lx", from, to);
		look(o, dir, name, job);
	}
	if (f)
		fclose(f);
	if (all >= 0)
		look(o, all, "exe", job);
	return any;
}

// The number of the job in "…/job_12/step_0/…" of its cgroups. False: it is of none.
static bool job_of(const char *task, char ret[24])
{
	td_auto_free char *path = td_asprintf("%s/cgroup", task);
	td_auto_buf struct td_buf b = {0};
	const char *at = td_file_read(path, CGROUP_MOST, &b, NULL) ? NULL : strstr(td_buf_str(&b), "/job_");
	size_t n = at ? strspn(at + strlen("/job_"), "0123456789") : 0;
	if (!n || n >= 20)
		return false;
	snprintf(ret, 24, "%.*s", (int)n, at + strlen("/job_"));
	return true;
}

// Threads are looked at, too: each may have files of its own, and they live on when the first one has ended, of which
// nothing is seen then. They are found beside the processes by their number, though not listed there. Where the kernel
// does not say which files are the same, each thread is looked at.
static void look_in(struct td_scratch_open *o, const char *proc, const char *pid)
{
	char job[24];
	int seen = 0;
	bool memory = false, its = false;
	td_auto_free char *tasks = td_asprintf("%s/%s/task", proc, pid);
	DIR *d = opendir(tasks);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		td_auto_free char *task = td_asprintf("%s/%s", proc, e->d_name);
		if (!its && !(its = job_of(task, job))) // of one that has ended the cgroup may not be told
			continue;
		memory = memory || look_at_memory(o, task, job);
		int id = atoi(e->d_name);
		if (!seen || syscall(SYS_kcmp, seen, id, KCMP_FILES, 0, 0) != 0)
			look_at_files(o, task, job);
		seen = id;
	}
	if (d)
		closedir(d);
}

void td_scratch_open_scan(const char *proc, struct td_scratch_open *o)
{
	DIR *d = opendir(proc);
	o->n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[strspn(e->d_name, "0123456789")] == '\0')
			look_in(o, proc, e->d_name);
	if (d)
		closedir(d);
	once(o);
}

int64_t td_scratch_open_sum(const struct td_scratch_open *o, const char *job)
{
	int64_t sum = 0;
	long long id = atoll(job);
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].job == id)
			sum += o->v[i].bytes;
	return sum;
}
