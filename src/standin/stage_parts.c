// Checkpoints of several parts: each process copies its own beside those of the others, and whoever sees that all are
// there makes it a whole one, by a rename. Who holds the directory ".commit" in it may do that, or take a part away.
#include "standin/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK ".commit"
#define LIST ".tandem-parts"
enum { PARTS_MAX = 65536 };

int td_stage_new_name(const struct stage_keeper *k, const char *name, char ret[256])
{
	if (snprintf(ret, 256, ".new-%s.%d.%s", k->attempt, k->parts, name) < 256)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static void part_name(int part, char ret[32])
{
	snprintf(ret, 32, "part-%d", part);
}

static int open_in(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int closing(int fd, int r)
{
	int why = errno;
	close(fd);
	errno = why;
	return r;
}

static int synced(int dir)
{
	return fsync(dir);
}

int td_stage_replace(int kept, const char *new, const char *name)
{
	char old[300];
	snprintf(old, sizeof(old), ".old-%s", name);
	for (int i = 0; i < 8; i++) {
		if (!renameat(kept, new, kept, name))
			return td_stage_remove(kept, old),
			       synced(kept); // what stays of the old one goes at the next start
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR && errno != EISDIR)
			return -1;
		if (td_stage_remove(kept, old) || (renameat(kept, name, kept, old) && errno != ENOENT))
			return -1;
	}
	return -1;
}

static int copy_part(struct stage_keeper *k, int in, int local, const struct stage_one *one)
{
	char part[32], half[34];
	part_name(k->part, part);
	snprintf(half, sizeof(half), ".%s", part);
	struct stage_seen now;
	if (td_stage_remove(in, half) || td_stage_copy(local, one->name, in, half))
		return -1;
	if (td_stage_look(local, one->name, &now) || now.stamp != one->seen.stamp) {
		errno = EAGAIN;
		return -1;
	}
	return renameat(in, half, in, part) ? -1 : synced(in);
}

int td_stage_part(struct stage_keeper *k, int kept, int local, const struct stage_one *one)
{
	char new[256];
	if (td_stage_new_name(k, one->name, new) || (mkdirat(kept, new, 0777) && errno != EEXIST))
		return -1;
	int in = open_in(kept, new);
	return in < 0 ? -1 : closing(in, copy_part(k, in, local, one));
}

bool td_stage_withdraw(struct stage_keeper *k, int kept, const char *name)
{
	char new[256], part[32], half[34];
	part_name(k->part, part);
	snprintf(half, sizeof(half), ".%s", part);
	int in = td_stage_new_name(k, name, new) ? -1 : open_in(kept, new);
	if (in < 0)
		return false;
	bool mine = !mkdirat(in, LOCK, 0777);
	if (mine && (td_stage_remove(in, half) || renameat(in, part, in, half)) && errno != ENOENT)
		td_stage_remove(in, part);
	if (mine)
		unlinkat(in, LOCK, AT_REMOVEDIR);
	close(in);
	return mine;
}

static bool has(int in, int part)
{
	char name[32];
	struct stat st;
	part_name(part, name);
	return !fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW);
}

// Is a part not there? io_lack: the first of them; a look at that alone is cheap where there are thousands.
static bool lacks(int in, int parts, int *io_lack)
{
	if (!has(in, *io_lack))
		return true;
	for (*io_lack = 0; *io_lack < parts; ++*io_lack)
		if (!has(in, *io_lack))
			return true;
	*io_lack = 0;
	return false;
}

void td_stage_missing(struct stage_keeper *k, int kept, const char *name, char ret[64])
{
	char new[256];
	size_t at = 0;
	ret[0] = '\0';
	int in = td_stage_new_name(k, name, new) ? -1 : open_in(kept, new);
	for (int i = 0; in >= 0 && i < k->parts && at < 60; i++) {
		if (has(in, i))
			continue;
		if (at + 16 < 64)
			at += (size_t)snprintf(ret + at, 64 - at, "%s%d", at ? "," : "", i);
		else
			at += (size_t)snprintf(ret + at, 64 - at, ",…");
	}
	if (in >= 0)
		close(in);
}

static int write_list(const struct stage_keeper *k, int in)
{
	td_stage_remove(in, LIST ".tmp");
	int fd = openat(in, LIST ".tmp", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	int r = dprintf(fd, "parts %d attempt %s\n", k->parts, k->attempt) < 0 ? -1 : 0;
	for (int i = 0; !r && i < k->parts; i++) {
		char part[32];
		struct stage_seen s;
		part_name(i, part);
		r = td_stage_look(in, part, &s) || dprintf(fd, "%d files %llu bytes %llu\n", i,
							   (unsigned long long)s.files, (unsigned long long)s.bytes) < 0
			    ? -1
			    : 0;
	}
	r = closing(fd, r || fsync(fd) ? -1 : 0);
	return r || renameat(in, LIST ".tmp", in, LIST) ? -1 : synced(in);
}

int td_stage_commit(struct stage_keeper *k, int kept, const char *name, int *io_lack)
{
	char new[256];
	int in = td_stage_new_name(k, name, new) ? -1 : open_in(kept, new);
	if (in < 0)
		return errno == ENOENT ? 1 : -1; // another part did it
	if (lacks(in, k->parts, io_lack) || mkdirat(in, LOCK, 0777))
		return closing(in, 0);
	if (lacks(in, k->parts, io_lack)) {
		unlinkat(in, LOCK, AT_REMOVEDIR);
		return closing(in, 0);
	}
	int r = write_list(k, in) || td_stage_replace(kept, new, name) ? -1 : 1;
	int why = errno;
	unlinkat(in, LOCK, AT_REMOVEDIR);
	errno = why;
	return closing(in, r);
}

// Reads "parts N …". False: it is not as it was written.
static bool read_number(FILE *f, int *ret_parts)
{
	char line[256], *end;
	if (!fgets(line, sizeof(line), f) || strncmp(line, "parts ", 6) != 0)
		return false;
	long parts = strtol(line + 6, &end, 10);
	if (parts < 2 || parts > PARTS_MAX || *end != ' ')
		return false;
	*ret_parts = (int)parts;
	return true;
}

int td_stage_parts_open(int kept, const char *name, int *ret_parts, FILE **ret)
{
	int in = open_in(kept, name);
	if (in < 0)
		return errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	int fd = openat(in, LIST, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int why = errno;
	close(in);
	if (fd < 0) {
		errno = why;
		return why == ENOENT ? 0 : -1;
	}
	FILE *f = fdopen(fd, "r");
	if (!f)
		return closing(fd, -1);
	if (!read_number(f, ret_parts)) {
		fclose(f);
		errno = EBADMSG;
		return -1;
	}
	*ret = f;
	return 1;
}

int td_stage_parts_next(FILE *f, int part, struct stage_seen *ret)
{
	char line[256];
	while (fgets(line, sizeof(line), f)) {
		int n;
		unsigned long long files, bytes;
		if (sscanf(line, "%d files %llu bytes %llu", &n, &files, &bytes) == 3 && n == part) {
			*ret = (struct stage_seen){.files = files, .bytes = bytes};
			return 0;
		}
	}
	errno = EBADMSG;
	return -1;
}

int td_stage_parts_read(int kept, const char *name, int part, int *ret_parts, struct stage_seen *ret)
{
	FILE *f;
	int r = td_stage_parts_open(kept, name, ret_parts, &f);
	if (r <= 0)
		return r;
	if (td_stage_parts_next(f, part, ret) && part < *ret_parts)
		r = -1;
	fclose(f);
	if (r < 0)
		errno = EBADMSG;
	return r;
}
