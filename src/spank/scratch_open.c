// What deleted files hold of the disk that a job's processes have open or mapped: no directory has them. The processes
// of a job are those of its cgroup. Needs SYS_PTRACE: a process may have hidden itself from its own user.
#include "spank/scratch_internal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { OVERLAY = 0x794c7630, CGROUP_MOST = 16 << 10, MAPS_MOST = 4 << 20, MOST = 1 << 20 };

static void add(struct td_scratch_open *o, const char *job, const struct stat *st)
{
	if (o->n == MOST)
		return;
	o->v = td_realloc(o->v, (o->n + 1) * sizeof(*o->v));
	o->v[o->n++] = (struct td_scratch_deleted){atoll(job), st->st_dev, st->st_ino, (int64_t)st->st_blocks * 512};
}

// A link of /proc, which is looked through: it may be of a disk of jobs, or of what a container writes.
static void look(struct td_scratch_open *o, int dir, const char *name, const char *job)
{
	struct stat st;
	struct statfs fs;
	if (fstatat(dir, name, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink)
		return;
	bool disk = false;
	for (size_t i = 0; i < o->n_disks; i++)
		disk |= o->disks[i] == st.st_dev;
	char path[300];
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.255s", dir, name);
	if (disk || (!statfs(path, &fs) && fs.f_type == OVERLAY))
		add(o, job, &st);
}

static void look_in(struct td_scratch_open *o, const char *proc, const char *pid, const char *job)
{
	td_auto_free char *path = td_asprintf("%s/%s/fd", proc, pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			look(o, dirfd(d), e->d_name, job);
	if (d)
		closedir(d);

	// "FROM-TO rights offset device inode path (deleted)"
	td_auto_free char *maps = td_asprintf("%s/%s/maps", proc, pid),
			  *files = td_asprintf("%s/%s/map_files", proc, pid);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(maps, MAPS_MOST, &b, NULL) || !strstr(td_buf_str(&b), " (deleted)\n"))
		return;
	td_auto_close int dir = open(files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (char *line = b.s, *end; dir >= 0 && line && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		char *space = strchr(line, ' ');
		if (!space || !td_ends(line, " (deleted)"))
			continue;
		*space = '\0';
		unsigned long from, to; // there without the zeros before it
		char name[64];
		if (sscanf(line, "%lx-%lx", &from, &to) == 2) {
			snprintf(name, sizeof(name), "%lx-%lx", from, to);
			look(o, dir, name, job);
		}
	}
}

// The number of the job in "…/job_12/step_0/…" of its cgroups. False: it is of none.
static bool job_of(const char *proc, const char *pid, char ret[24])
{
	td_auto_free char *path = td_asprintf("%s/%s/cgroup", proc, pid);
	td_auto_buf struct td_buf b = {0};
	const char *at = td_file_read(path, CGROUP_MOST, &b, NULL) ? NULL : strstr(td_buf_str(&b), "/job_");
	size_t n = at ? strspn(at + strlen("/job_"), "0123456789") : 0;
	if (!n || n >= 20)
		return false;
	snprintf(ret, 24, "%.*s", (int)n, at + strlen("/job_"));
	return true;
}

static int by_file(const void *a, const void *b)
{
	const struct td_scratch_deleted *x = a, *y = b;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

void td_scratch_open_scan(const char *proc, struct td_scratch_open *o)
{
	DIR *d = opendir(proc);
	o->n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		char job[24];
		if (e->d_name[strspn(e->d_name, "0123456789")] == '\0' && job_of(proc, e->d_name, job))
			look_in(o, proc, e->d_name, job);
	}
	if (d)
		closedir(d);
	if (!o->n)
		return;
	qsort(o->v, o->n, sizeof(*o->v), by_file);
	size_t kept = 1;
	for (size_t i = 1; i < o->n; i++) // several processes have one file
		if (by_file(&o->v[i], &o->v[kept - 1]))
			o->v[kept++] = o->v[i];
	o->n = kept;
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
