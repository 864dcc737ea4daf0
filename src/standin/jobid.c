// `first-job-id`: prints the id from which slurmctld may give job ids, so that none is given twice.
//
// slurmctld saves the last id that it gave only every few seconds, so after a kill it would give
// some ids again. slurmd runs no Prolog for an id that it still knows: nobody would ask the gate,
// and a pod whose stand-in is an allocation has no task that asks once more.
//
// So, after a slurmctld that was killed, ids go on 10000 above the last saved one, which is more
// than Slurm gives out between two saves. It was killed when its pid file is still there: an
// orderly end removes the file after everything is saved.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A job_state begins with a counted word of 17 bytes, 2 bytes of version and 8 of time; then comes
// the last job id. Numbers are big-endian.
enum { WORD = 17, ID_AT = 4 + WORD + 2 + 8, HEAD = ID_AT + 4, GAP = 10000 };
#define MAX_DEFAULT 67043328u // Slurm's MaxJobId

static uint32_t big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool standin_job_state_id(const uint8_t *head, size_t n, uint32_t *ret)
{
	if (n < HEAD || big_endian(head) != WORD)
		return false;
	*ret = big_endian(head + ID_AT);
	return true;
}

// Reads the first bytes of a file and returns how many; -1: an error, with errno.
static ssize_t read_head(const char *path, void *buf, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size_t len = 0;
	ssize_t k = 0;
	while (len < n && (k = read(fd, (char *)buf + len, n - len)) > 0)
		len += (size_t)k;

	int e = errno;
	close(fd);
	errno = e;
	return k < 0 ? -1 : (ssize_t)len;
}

// Reads a decimal number of at most 32 bits. False: it is none.
static bool number(const char *s, uint32_t *ret)
{
	size_t n = strspn(s, "0123456789");
	if (!n || n > 10 || s[n])
		return false;
	unsigned long long v = strtoull(s, NULL, 10);
	if (v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static int failed(const char *what, const char *path)
{
	fprintf(stderr, "tandem-standin first-job-id: %s %s: %s\n", what, path, strerror(errno));
	return 1;
}

// The id that the last start wrote; 0: none, or it cannot be read.
static uint32_t noted(const char *path)
{
	char text[32];
	uint32_t v = 0;
	ssize_t n = read_head(path, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return number(text, &v) ? v : 0;
}

static bool note(const char *state, const char *path, uint32_t id)
{
	char tmp[4096];
	snprintf(tmp, sizeof(tmp), "%s/first-job-id.new", state);
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	bool ok = dprintf(fd, "%u\n", id) > 0 && !fsync(fd);
	int e = errno;
	close(fd);
	errno = e;
	return ok && !rename(tmp, path);
}

// The highest last id in the saved states, but at least `least`.
static uint32_t last_saved(const char *state, uint32_t least)
{
	static const char *const files[] = {"job_state", "job_state.old"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[4096];
		uint8_t head[HEAD];
		uint32_t id;
		snprintf(path, sizeof(path), "%s/%s", state, files[i]);

		ssize_t n = read_head(path, head, sizeof(head));
		if (n == 0 || (n < 0 && errno == ENOENT))
			continue;
		if (n < 0 || !standin_job_state_id(head, (size_t)n, &id))
			fprintf(stderr,
				"tandem-standin first-job-id: %s is of no known form: its last job id is not known\n",
				path);
		else if (id > least)
			least = id;
	}
	return least;
}

int standin_first_job_id(int argc, char **argv)
{
	const char *state = NULL;
	uint32_t first = 1, max = MAX_DEFAULT;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		uint32_t *to = !strcmp(argv[i], "--first") ? &first : !strcmp(argv[i], "--max") ? &max : NULL;
		if (value && !strcmp(argv[i], "--state"))
			state = value;
		else if (!value || !to || (*value && !number(value, to))) { // empty: the default
			fprintf(stderr, "tandem-standin first-job-id: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
		i++;
	}

	char path[4096], pid[4096];
	if (!state || strlen(state) > sizeof(path) - 32) {
		fputs("tandem-standin first-job-id: --state DIR is missing or too long\n", stderr);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/first-job-id", state);
	snprintf(pid, sizeof(pid), "%s/slurmctld.pid", state);

	uint32_t next = noted(path);
	if (next < first)
		next = first;

	struct stat st;
	if (!stat(pid, &st)) {
		uint64_t id = (uint64_t)last_saved(state, next) + GAP;
		next = id < max ? (uint32_t)id : first;
		fprintf(stderr, "tandem-standin first-job-id: the last slurmctld was killed: job ids go on at %u\n",
			next);
	} else if (errno != ENOENT) {
		return failed("look at", pid);
	}

	if (!note(state, path, next))
		return failed("write", path);
	printf("%u\n", next);
	return fflush(stdout) ? 1 : 0;
}
