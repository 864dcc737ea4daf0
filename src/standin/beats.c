// What the ranks of a job say of their own pace (docs/health.md): a small file for each, beside TANDEM_HEARTBEAT. Runs as
// the job's own user; the files are his, so nothing in them is believed but their form.
#include "standin/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 200, ENTRIES = 200000 };
// The rank in "beat.12" for a file "beat"; -1: it is no such name.
static int rank_of(const char *name, const char *base)
{
	size_t n = strlen(base);
	if (strncmp(name, base, n) != 0 || name[n] != '.')
		return -1;
	const char *rank = name + n + 1;
	size_t digits = strspn(rank, "0123456789");
	if (!digits || digits > 4 || rank[digits] || (rank[0] == '0' && digits > 1))
		return -1;
	return atoi(rank) < STANDIN_RANKS ? atoi(rank) : -1;
}

static bool read_beat(int dir, const char *name, struct standin_beat *ret)
{
	char text[LINE + 1];
	struct stat st;
	// Neither a link nor a pipe nor a device is read: what lies there may be anything.
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? read(fd, text, LINE) : -1;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 && td_standin_beat(text, ret);
}

void td_standin_beats(const char *proc, const struct standin_job *j, char *out, size_t n)
{
	char path[STANDIN_BEAT_PATH] = "", *base;
	size_t len = 0;
	out[0] = '\0';
	for (int i = 0; i < j->n && !*path; i++)
		td_standin_heartbeat(proc, j->pids[i], path);
	base = strrchr(path, '/');
	if (!base || !base[1])
		return;
	*base++ = '\0';
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (fd >= 0 && !d)
		close(fd);
	struct dirent *e;
	for (int i = 0; d && i < ENTRIES && (e = readdir(d)) != NULL; i++) {
		struct standin_beat b;
		int rank = rank_of(e->d_name, base);
		if (rank < 0 || !read_beat(dirfd(d), e->d_name, &b))
			continue;
		int k = snprintf(out + len, n - len, "%s%d:%lld:%lld:%s:%d", len ? "," : "", rank, b.step, b.us, b.node,
				 b.gpu);
		if (k < 0 || (size_t)k >= n - len) {
			out[len] = '\0';
			break;
		}
		len += (size_t)k;
	}
	if (d)
		closedir(d);
}
