// `copy DIR`: copies this program into a directory, under the names that Slurm's configuration
// uses, and the two files of containers in jobs (../lib/tandem). An init container runs it, so that
// any Slurm image will do. Each file is complete or absent; a second run replaces it.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *what, const char *path)
{
	fprintf(stderr, "tandem-standin copy: %s %s: %s\n", what, path, strerror(errno));
	return 1;
}

static int copy_file(const char *from, const char *to, mode_t mode)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t n = -1;
	if (in >= 0 && out >= 0)
		while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
			;

	bool ok = n == 0 && !fchmod(out, mode); // whatever the umask
	int why = errno;
	if (in >= 0)
		close(in);
	if (out >= 0 && close(out) && ok)
		ok = false, why = errno;
	errno = why;
	return ok ? 0 : -1;
}

int td_standin_copy(const char *dir)
{
	char tmp[4096], to[4096], link[4096];
	if (snprintf(tmp, sizeof(tmp), "%s/.tandem-standin", dir) >= (int)sizeof(tmp)) {
		errno = ENAMETOOLONG;
		return failed("write to", dir);
	}
	snprintf(to, sizeof(to), "%s/tandem-standin", dir);
	snprintf(link, sizeof(link), "%s/task-prolog", dir);
	if (copy_file("/proc/self/exe", tmp, 0755) || rename(tmp, to))
		return failed("write", to);

	static const char *const others[] = {"tandem-container", "tandem-spank.so", "tandem-scratch.so",
					     "tandem-filter.so", "tandem-login.so"};
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	char *name = strrchr(self, '/');
	for (size_t i = 0; name && i < sizeof(others) / sizeof(*others); i++) {
		char from[8192];
		snprintf(from, sizeof(from), "%.*s/../lib/tandem/%s", (int)(name - self), self, others[i]);
		if (access(from, F_OK) && errno == ENOENT)
			continue; // a build tree
		snprintf(to, sizeof(to), "%s/%s", dir, others[i]);
		// A program that its user may not read cannot be traced by him until it has become another one:
		// tandem-container enters containers before it sets a project's filter of system calls.
		if (copy_file(from, tmp, i ? 0755 : 0711) || rename(tmp, to))
			return failed("write", to);
	}
	if ((unlink(tmp) && errno != ENOENT) || symlink("tandem-standin", tmp) || rename(tmp, link))
		return failed("write", link);
	snprintf(link, sizeof(link), "%s/tandem-stage", dir);
	if (symlink("tandem-standin", tmp) || rename(tmp, link))
		return failed("write", link);
	return 0;
}
