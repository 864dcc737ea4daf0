// `copy DIR`: copies this program into a directory, under the names that Slurm's configuration
// uses. An init container runs it, so that any Slurm image will do. Each file is complete or
// absent; a second run replaces it.
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

static int copy_self(const char *to)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t n = -1;
	if (in >= 0 && out >= 0)
		while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
			;

	bool ok = n == 0 && !fchmod(out, 0755); // whatever the umask
	int why = errno;
	if (in >= 0)
		close(in);
	if (out >= 0 && close(out) && ok)
		ok = false, why = errno;
	errno = why;
	return ok ? 0 : -1;
}

int standin_copy(const char *dir)
{
	char tmp[4096], to[4096], link[4096];
	if (snprintf(tmp, sizeof(tmp), "%s/.tandem-standin", dir) >= (int)sizeof(tmp)) {
		errno = ENAMETOOLONG;
		return failed("write to", dir);
	}
	snprintf(to, sizeof(to), "%s/tandem-standin", dir);
	snprintf(link, sizeof(link), "%s/task-prolog", dir);
	if (copy_self(tmp) || rename(tmp, to))
		return failed("write", to);
	if ((unlink(tmp) && errno != ENOENT) || symlink("tandem-standin", tmp) || rename(tmp, link))
		return failed("write", link);
	return 0;
}
