// How quickly memory and a disk of the node are read and written, for tests of idle nodes (docs/health.md).
#include "checkup/checkup.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMORY = 32 << 20, STEP = 4 << 20, DISK = 32 << 20 };

static double now_s(void)
{
	return (double)td_mono_ms(&td_clock_system) / 1000;
}

int td_checkup_memory(int64_t ms, struct td_cancel *c, double *ret_mb_s, struct td_error *err)
{
	char *a = mmap(NULL, 2 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (a == MAP_FAILED)
		return td_fail_errno(err, TD_INTERNAL, errno, "memory for a test of the memory");
	memset(a, 1, MEMORY);
	int64_t begun = td_mono_ms(&td_clock_system), at = begun;
	double bytes = 0;
	for (size_t k = 0; at - begun < ms && !td_cancelled(c); k += STEP, at = td_mono_ms(&td_clock_system)) {
		memcpy(a + MEMORY + k % MEMORY, a + k % MEMORY, STEP);
		bytes += 2.0 * STEP; // read and written
	}
	bool well = a[MEMORY] == 1;
	munmap(a, 2 * MEMORY);
	if (td_cancelled(c))
		return td_fail(err, TD_CANCELLED, "the test was ended");
	*ret_mb_s = at > begun && well ? bytes / ((double)(at - begun) * 1000) : 0;
	return 0;
}

// One way: writes all of it, or reads it.
static int pass(int fd, bool writes, char *buf, struct td_cancel *c, double *ret_mb_s, struct td_error *err)
{
	double begun = now_s();
	for (off_t at = 0; at < DISK; at += STEP) {
		if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "the test was ended");
		for (ssize_t done = 0, n; done < STEP; done += n) {
			n = writes ? pwrite(fd, buf + done, (size_t)(STEP - done), at + done)
				   : pread(fd, buf + done, (size_t)(STEP - done), at + done);
			if (n <= 0 && !(n < 0 && errno == EINTR))
				return td_fail_errno(err, TD_INTERNAL, n ? errno : EIO, "%s a file",
						     writes ? "writing" : "reading");
			n = n < 0 ? 0 : n;
		}
		// In parts, so that who comes meanwhile waits for no more than one.
		if (writes && fdatasync(fd) < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "writing a file to the disk");
	}
	double took = now_s() - begun;
	*ret_mb_s = took > 0 ? DISK / took / 1e6 : 0;
	return 0;
}

int td_checkup_disk(const char *dir, struct td_cancel *c, double *ret_write, double *ret_read, struct td_error *err)
{
	td_auto_close int fd =
		open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); // it has no name, so a crash leaves nothing
	td_auto_free char *buf = td_malloc(STEP);
	double w = 0, r = 0;
	if (fd < 0)
		return td_fail_errno(err, errno == EOPNOTSUPP ? TD_UNSUPPORTED : TD_INTERNAL, errno, "a file in %s",
				     dir);
	for (size_t i = 0; i < STEP; i++)
		buf[i] = (char)(i * 2654435761u >> 24);
	int e = pass(fd, true, buf, c, &w, err);
	if (e)
		return e;
	posix_fadvise(fd, 0, DISK, POSIX_FADV_DONTNEED); // so that it is read from the disk, where the file system can
	if ((e = pass(fd, false, buf, c, &r, err)))
		return e;
	*ret_write = w;
	*ret_read = r;
	return 0;
}
