// For which account a job is: a file for each, written by Slurm's Prolog for those who look at the account before they
// start anything of the user's (src/spank/filter.h). One that is absent is asked of slurmctld, so old ones may go.
#include "standin/standin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OLD_S = 24 * 3600, SWEEP_EVERY = 64 };

static void sweep(int dir)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	struct stat st;
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && !fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    time(NULL) - st.st_mtime > OLD_S)
			unlinkat(dir, e->d_name, 0);
	if (d)
		closedir(d);
	else if (again >= 0)
		close(again);
}

void td_standin_account(const char *job, const char *account)
{
	int dir = open(STANDIN_ACCOUNTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return;
	char next[64];
	snprintf(next, sizeof(next), "%.40s.new", job);
	unlinkat(dir, job, 0);
	unlinkat(dir, next, 0); // of a Prolog that ended half way
	int fd = openat(dir, next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t n = strlen(account);
	bool whole = fd >= 0 && write(fd, account, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
	if (fd >= 0 && close(fd))
		whole = false;
	if (!whole || renameat(dir, next, dir, job))
		fprintf(stderr,
			"tandem gate: " STANDIN_ACCOUNTS "/%s: %s: slurmctld will be asked for the job's account\n",
			job, strerror(errno));
	if (atoll(job) % SWEEP_EVERY == 0)
		sweep(dir);
	close(dir);
}
