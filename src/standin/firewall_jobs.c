// Whose jobs run on this node, and for which accounts: a file for each, by Slurm's Prolog, "UID ACCOUNT\n". A job that
// lives has sockets of slurmstepd in slurmd's spool directory, NODE_JOB.STEP; what is said of others does not count.
#include "standin/firewall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 4096, OLD_S = 3600 };

bool td_firewall_jobs_close(const char *jobs)
{
	if (!chmod(jobs, 0755) || errno == ENOENT)
		return true;
	fprintf(stderr, "tandem firewall: %s: %s: any user could say there for which account he has a job\n", jobs,
		strerror(errno));
	return false;
}

bool td_firewall_job(const char *job, const char *uid, const char *account)
{
	char path[512], next[520], text[256];
	if (access(FIREWALL_JOBS, F_OK))
		return true;
	snprintf(path, sizeof(path), FIREWALL_JOBS "/%s", job);
	snprintf(next, sizeof(next), "%s.new", path);
	int n = snprintf(text, sizeof(text), "%s %s\n", uid, account), fd, e = 0;
	unlink(next); // of a Prolog that ended half way
	fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || n < 0 || (size_t)n >= sizeof(text) || write(fd, text, (size_t)n) != n)
		e = errno ? errno : EINVAL;
	if (fd >= 0 && close(fd) && !e)
		e = errno;
	if (!e && rename(next, path))
		e = errno;
	if (e)
		fprintf(stderr, "tandem gate: %s: %s: the firewall does not know the job's account\n", path,
			strerror(e));
	return !e;
}

static int by_number(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;
	return (x > y) - (x < y);
}

// The jobs that live, sorted; *ret_n: how many. False: there may be more, because the directory could not be read to its
// end.
static bool living(const char *spool, long long v[JOBS_MAX], size_t *ret_n)
{
	size_t n = 0;
	DIR *d = opendir(spool);
	struct dirent *e = NULL;
	errno = 0;
	while (d && n < JOBS_MAX && (e = readdir(d))) {
		const char *at = strrchr(e->d_name, '_');
		size_t k = at ? strspn(at + 1, "0123456789") : 0;
		if (k && k < 19 && at[1 + k] == '.')
			v[n++] = atoll(at + 1);
	}
	bool whole = d && !e && !errno;
	if (d)
		closedir(d);
	qsort(v, n, sizeof(*v), by_number);
	*ret_n = n;
	return whole;
}

// Calls f for what is said of each job.
struct job_said {
	int dir;
	const char *name;
	bool lives, gone; // neither: it is not known
};
static void each(const char *jobs, const char *spool, void (*f)(void *ctx, const struct job_said *s), void *ctx)
{
	static long long live[JOBS_MAX];
	size_t n;
	bool whole = living(spool, live, &n);
	DIR *d = opendir(jobs);
	for (struct dirent *e; d && (e = readdir(d));) {
		size_t k = strspn(e->d_name, "0123456789");
		if (!k || k >= 19 || e->d_name[k])
			continue;
		long long job = atoll(e->d_name);
		bool lives = bsearch(&job, live, n, sizeof(job), by_number);
		f(ctx, &(struct job_said){dirfd(d), e->d_name, lives, whole && !lives});
	}
	if (d)
		closedir(d);
}

struct jobs_wanted {
	uint32_t uid;
	char *ret;
	size_t n;
};

static void add(void *ctx, const struct job_said *s)
{
	struct jobs_wanted *w = ctx;
	char text[256];
	int fd = s->lives ? openat(s->dir, s->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct stat st;
	ssize_t n = fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	char *end;
	unsigned long long uid = strtoull(text, &end, 10);
	size_t k = *end == ' ' ? strcspn(end + 1, "\n") : 0;
	if (end == text || uid != w->uid || !k || end[1 + k] != '\n')
		return;
	// He may have several of one.
	if (td_firewall_line(w->ret, end + 1, k) || w->n + k + 2 > FIREWALL_ACCOUNTS)
		return;
	memcpy(w->ret + w->n, end + 1, k + 1);
	w->n += k + 1;
	w->ret[w->n] = '\0';
}

void td_firewall_accounts(const char *jobs, const char *spool, uint32_t uid, char ret[FIREWALL_ACCOUNTS])
{
	*ret = '\0';
	each(jobs, spool, add, &(struct jobs_wanted){uid, ret, 0});
}

static void drop(void *ctx, const struct job_said *s)
{
	(void)ctx;
	struct stat st;
	if (s->gone && !fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) && time(NULL) - st.st_mtime > OLD_S)
		unlinkat(s->dir, s->name, 0);
}

void td_firewall_sweep(const char *jobs, const char *spool)
{
	each(jobs, spool, drop, NULL);
}
