// The container's log. PID 1 writes it, so that logging goes on while the node agent is away. Lines
// have the format of the kubelet:
//   2006-01-02T15:04:05.000000000Z stdout F text
// F is the whole rest of a line, P a part of one. Two files bound the size: when the newer one is
// full, its content moves to the older one. Nobody else writes them. A reader takes a shared lock
// (flock on the newer file) while it looks at both.
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16384, OUT_MAX = 32768, HEAD_MAX = 64 };

static struct {
	long long max, size;
	char part[2][LINE_MAX_BYTES];
	size_t n[2];
	char out[OUT_MAX];
	size_t out_n;
	bool at_once;
} l;

static void write_all(const char *p, size_t n)
{
	for (ssize_t k; n; p += k, n -= (size_t)k)
		if ((k = write(INIT_LOG_FD, p, n)) <= 0) {
			if (k < 0 && errno == EINTR)
				k = 0;
			else
				return; // a full disk must not stop the command
		}
}

// Moves the newer file's content to the older file. While a reader holds the lock, this waits until
// the file is twice its size; no longer, because the reader may be stopped for ever.
static void rotate(void)
{
	if (flock(INIT_LOG_FD, LOCK_EX | LOCK_NB) < 0 && l.size < 2 * l.max)
		return;
	off_t at = 0;
	if (!ftruncate(INIT_LOG_OLD_FD, 0) && !lseek(INIT_LOG_OLD_FD, 0, SEEK_SET))
		while (sendfile(INIT_LOG_OLD_FD, INIT_LOG_FD, &at, 1 << 20) > 0)
			;
	if (!ftruncate(INIT_LOG_FD, 0))
		l.size = 0;
	flock(INIT_LOG_FD, LOCK_UN);
}

static void flush(void)
{
	if (!l.out_n)
		return;
	if (l.size && l.size + (long long)l.out_n > l.max)
		rotate();
	write_all(l.out, l.out_n);
	l.size += (long long)l.out_n;
	l.out_n = 0;
}

static void put(const char *stamp, int stream, char tag, const char *p, size_t n)
{
	if (l.out_n + HEAD_MAX + n + 1 > sizeof(l.out))
		flush();
	l.out_n += (size_t)snprintf(l.out + l.out_n, HEAD_MAX, "%s %s %c ", stamp, stream ? "stderr" : "stdout", tag);
	memcpy(l.out + l.out_n, p, n);
	l.out_n += n;
	l.out[l.out_n++] = '\n';
}

static void now(char stamp[40])
{
	struct timespec t;
	struct tm tm;
	char s[24];
	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	strftime(s, sizeof(s), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp, 40, "%s.%09ldZ", s, t.tv_nsec);
}

bool log_open(long long max)
{
	struct stat st;
	if (max <= 0 || fstat(INIT_LOG_FD, &st) < 0 || fcntl(INIT_LOG_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(INIT_LOG_OLD_FD, F_SETFD, FD_CLOEXEC) < 0)
		return false;
	l.max = max;
	l.size = st.st_size;
	return true;
}

void log_at_once(void)
{
	l.at_once = true;
}

void log_add(int stream, const char *p, size_t n)
{
	char stamp[40];
	now(stamp);
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t k = end ? (size_t)(end - p) : n, room = LINE_MAX_BYTES - l.n[stream];
		bool whole = end && k <= room;
		if (k > room)
			k = room;
		memcpy(l.part[stream] + l.n[stream], p, k);
		l.n[stream] += k;
		p += k + whole;
		n -= k + whole;

		if (whole || l.n[stream] == LINE_MAX_BYTES) {
			put(stamp, stream, whole ? 'F' : 'P', l.part[stream], l.n[stream]);
			l.n[stream] = 0;
		}
	}

	if (l.at_once && l.n[stream]) {
		put(stamp, stream, 'P', l.part[stream], l.n[stream]);
		l.n[stream] = 0;
	}
	flush();
}

void log_end(void)
{
	char stamp[40];
	now(stamp);
	for (int s = 0; s < 2; s++)
		if (l.n[s])
			put(stamp, s, 'P', l.part[s], l.n[s]);
	l.n[0] = l.n[1] = 0;
	flush();
}
