// Removing what jobs left. Root works here in directories that users made and may still have open, so
// nothing is followed and nothing is entered but by a descriptor: a directory with something in it is moved
// up into the trash, which is root's alone, and emptied there in its turn. So every directory that is opened
// lies directly in the trash, and no depth and no change meanwhile leads out of it.
#include "spank/scratch_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What one directory gets at a time, and all together: somebody who fills his meanwhile shall not keep the others
// waiting.
enum { AT_ONCE = 100000, TIME_MS = 10000 };

// Moves `name` of the directory `from` into the trash, under a name that nothing has.
static int to_trash(int from, const char *name, int trash)
{
	static unsigned long next;
	for (;;) {
		char fresh[64];
		snprintf(fresh, sizeof(fresh), "%lx.%lx.%lx", (unsigned long)time(NULL), (unsigned long)getpid(),
			 next++);
		if (!renameat2(from, name, trash, fresh, RENAME_NOREPLACE))
			return 0;
		if (errno != EEXIST)
			return -1;
	}
}

int td_scratch_move(const char *path, const char *dir, struct td_error *err)
{
	td_auto_free char *to = td_asprintf("%s/trash", dir);
	td_auto_close int trash = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return trash < 0 || to_trash(AT_FDCWD, path, trash)
		       ? td_fail_errno(err, TD_INTERNAL, errno, "move %s to %s", path, to)
		       : 0;
}

// True: something was removed or moved.
static bool empty_one(int trash, const char *name)
{
	int fd = openat(trash, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return !unlinkat(trash, name, 0);
	DIR *d = fdopendir(fd);
	bool moved = false;
	int n = 0;
	for (struct dirent *e; d && n < AT_ONCE && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		n++;
		bool done = !unlinkat(fd, e->d_name, 0) ||
			    (errno == EISDIR &&
			     (!unlinkat(fd, e->d_name, AT_REMOVEDIR) ||
			      ((errno == ENOTEMPTY || errno == EEXIST) && !to_trash(fd, e->d_name, trash))));
		moved |= done;
	}
	if (d)
		closedir(d);
	else
		close(fd);
	return !unlinkat(trash, name, AT_REMOVEDIR) || moved;
}

int td_scratch_empty(const char *dir, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/trash", dir);
	td_auto_close int trash = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (trash < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	bool more = true, left = true;
	int64_t end = td_mono_ms(&td_clock_system) + TIME_MS;
	while (more && td_mono_ms(&td_clock_system) < end) {
		more = left = false;
		// Read anew each time: what is moved here meanwhile is found in the next round.
		int again = openat(trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = again < 0 ? NULL : fdopendir(again);
		if (!d)
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
		for (struct dirent *e; (e = readdir(d));)
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
				left = true;
				more |= empty_one(trash, e->d_name);
			}
		closedir(d);
	}
	return left ? td_fail(err, TD_TRANSIENT, "%s: something that jobs left cannot be removed yet", path) : 0;
}
