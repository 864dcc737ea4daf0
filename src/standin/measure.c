// How quickly memory and a disk of the node are read and written, for the job that tests it. The agent has the same for idle
// nodes (src/checkup/bandwidth.c), and this program includes nothing.
#include "standin/standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY = 64 << 20, STEP = 4 << 20, DISK = 32 << 20, MEMORY_MS = 200 };

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double memory(void)
{
	char *a = mmap(NULL, 2 * (size_t)MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a == MAP_FAILED)
		return 0;
	memset(a, 1, 2 * (size_t)MEMORY); // all of it is there before it counts
	double begun = now_s(), took = 0, bytes = 0;
	for (size_t k = 0; took * 1000 < MEMORY_MS; k += STEP, took = now_s() - begun) {
		memcpy(a + MEMORY + k % MEMORY, a + k % MEMORY, STEP);
		bytes += 2.0 * STEP; // read and written
	}
	const int well = a[MEMORY] == 1 && a[2 * MEMORY - 1] == 1;
	munmap(a, 2 * (size_t)MEMORY);
	return well && took > 0 ? bytes / took / 1e6 : 0;
}

// One way; 0: it failed.
static double pass(int fd, int writes, char *buf)
{
	double begun = now_s();
	for (off_t at = 0; at < DISK; at += STEP)
		for (ssize_t done = 0, n; done < STEP; done += n) {
			n = writes ? pwrite(fd, buf + done, (size_t)(STEP - done), at + done)
				   : pread(fd, buf + done, (size_t)(STEP - done), at + done);
			if (n <= 0)
				return 0;
		}
	if (writes && fdatasync(fd) < 0)
		return 0;
	double took = now_s() - begun;
	return took > 0 ? DISK / took / 1e6 : 0;
}

void td_standin_measure(const char *dir, struct td_measured *ret)
{
	char path[4096];
	*ret = (struct td_measured){.memory = memory()};
	snprintf(path, sizeof(path), "%s/.tandem-test-XXXXXX", dir);
	int fd = mkostemp(path, O_CLOEXEC);
	char *buf = malloc(STEP);
	if (fd >= 0)
		unlink(path); // without a name nothing is left
	if (fd >= 0 && buf) {
		for (size_t i = 0; i < STEP; i++)
			buf[i] = (char)(i * 2654435761u >> 24);
		ret->disk_write = pass(fd, 1, buf);
		posix_fadvise(fd, 0, DISK, POSIX_FADV_DONTNEED); // so that it is read from the disk, where that can be
		ret->disk_read = ret->disk_write > 0 ? pass(fd, 0, buf) : 0;
	}
	free(buf);
	if (fd >= 0)
		close(fd);
}
