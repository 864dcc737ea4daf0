#include "kubelet/pods/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_MS = 200, LAST_LINES = 80, RECORD_MAX = 1 << 16 };

int td_logfile_open(const char *path, struct td_logfile *ret, struct td_error *err)
{
	td_auto_free char *old = td_asprintf("%s.1", path);
	struct td_logfile f = {.now = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), .old = -1, .in_old = true};
	if (f.now < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, errno, "log %s", path);
	f.old = open(old, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (f.old >= 0 && !fstat(f.old, &st))
		f.moved_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	*ret = f;
	return 0;
}

void td_logfile_close(struct td_logfile *f)
{
	if (f->now >= 0)
		close(f->now);
	if (f->old >= 0)
		close(f->old);
	f->now = f->old = -1;
}

static int64_t size_of(int fd)
{
	struct stat st;
	return fd >= 0 && !fstat(fd, &st) ? st.st_size : 0;
}

// Takes the lock for reading. The container's init holds it while it moves the content. Somebody
// inside the container may hold it for ever; then the log is read all the same.
static void lock(const struct td_logfile *f, struct td_cancel *c)
{
	for (int ms = 0; ms < LOCK_MS && flock(f->now, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK; ms += 5)
		// No event tells that the lock is free, so ask again.
		if (td_cancel_wait(c, 5))
			return;
}

static void remember(struct td_logfile *f)
{
	f->n_seen = 0;
	if (f->in_old || f->at <= 0)
		return;
	size_t n = f->at < (int64_t)sizeof(f->seen) ? (size_t)f->at : sizeof(f->seen);
	if (pread(f->now, f->seen, n, f->at - (off_t)n) == (ssize_t)n)
		f->n_seen = n;
}

// Were the files rotated since the last look? Then what was in the newer one is in the older one,
// at the same offset.
static void follow_move(struct td_logfile *f)
{
	struct stat st;
	if (f->old < 0 || fstat(f->old, &st) < 0)
		return;
	int64_t moved = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	if (moved == f->moved_ns)
		return;
	f->moved_ns = moved;

	char is[sizeof(f->seen)];
	bool once = !f->in_old && pread(f->old, is, f->n_seen, f->at - (off_t)f->n_seen) == (ssize_t)f->n_seen &&
		    !memcmp(is, f->seen, f->n_seen);
	if (!once) {
		// What was left to read is gone. The next bytes are those of a former newer file
		// that was never read.
		f->at = 0;
		f->lost = true;
	}
	f->in_old = true;
}

ssize_t td_logfile_read(struct td_logfile *f, char *buf, size_t n, struct td_cancel *c)
{
	lock(f, c);
	follow_move(f);

	if (f->in_old && f->at >= size_of(f->old)) {
		f->in_old = false;
		f->at = 0;
	}
	if (!f->in_old && f->at > size_of(f->now)) // somebody truncated it
		f->at = 0;

	ssize_t k;
	do
		k = pread(f->in_old ? f->old : f->now, buf, n, f->at);
	while (k < 0 && errno == EINTR);
	if (k > 0)
		f->at += k;

	remember(f);
	flock(f->now, LOCK_UN);
	return k > 0 ? k : 0;
}

int64_t td_log_tail_offset(int fd, int64_t size, int64_t lines)
{
	char buf[8192];
	if (lines < 0)
		return 0;
	if (!lines)
		return size;

	int64_t at = size, seen = 0;
	while (at > 0) {
		size_t n = at < (int64_t)sizeof(buf) ? (size_t)at : sizeof(buf);
		at -= (int64_t)n;
		if (pread(fd, buf, n, at) != (ssize_t)n)
			return 0;
		for (size_t i = n; i-- > 0;) {
			// The end of the last line starts no line.
			if (buf[i] != '\n' || at + (int64_t)i == size - 1)
				continue;
			if (++seen == lines)
				return at + (int64_t)i + 1;
		}
	}
	return 0;
}

static int64_t lines_in(int fd, int64_t size)
{
	char buf[8192];
	int64_t n = 0;
	for (int64_t at = 0; at < size;) {
		ssize_t k = pread(fd, buf, sizeof(buf), at);
		if (k <= 0)
			break;
		for (ssize_t i = 0; i < k; i++)
			n += buf[i] == '\n';
		at += k;
	}
	return n;
}

void td_logfile_tail(struct td_logfile *f, int64_t lines)
{
	lock(f, NULL);
	follow_move(f);
	int64_t size = size_of(f->now), in_new = lines > 0 ? lines_in(f->now, size) : 0;
	f->in_old = lines < 0 || in_new < lines;
	f->at = f->in_old ? td_log_tail_offset(f->old, size_of(f->old), lines < 0 ? -1 : lines - in_new)
			  : td_log_tail_offset(f->now, size, lines);

	f->lost = false;
	remember(f);
	flock(f->now, LOCK_UN);
}

bool td_logline_parse(const char *line, size_t n, struct td_logline *ret)
{
	// 2006-01-02T15:04:05.000000000Z stdout F text
	enum { STAMP = 30, HEAD = 40 };
	bool ok = n >= HEAD && line[4] == '-' && line[10] == 'T' && line[STAMP - 1] == 'Z' && line[STAMP] == ' ' &&
		  line[HEAD - 3] == ' ' && line[HEAD - 1] == ' ' &&
		  (!strncmp(line + STAMP + 1, "stdout", 6) || !strncmp(line + STAMP + 1, "stderr", 6));

	if (!ok) {
		*ret = (struct td_logline){.text = line, .len = n};
		return false;
	}

	*ret = (struct td_logline){
		.stamp = line,
		.stamp_len = STAMP,
		.err = line[STAMP + 4] == 'e',
		.part = line[HEAD - 2] == 'P',
		.text = line + HEAD,
		.len = n - HEAD,
	};
	return true;
}

char *td_logfile_last(const char *path, size_t max)
{
	td_auto_logfile struct td_logfile f = {.now = -1, .old = -1};
	td_auto_buf struct td_buf raw = {0};
	struct td_buf text = {0};
	char buf[8192];
	if (td_logfile_open(path, &f, NULL))
		return NULL;

	td_logfile_tail(&f, LAST_LINES);
	for (ssize_t k; raw.len < LAST_LINES * RECORD_MAX && (k = td_logfile_read(&f, buf, sizeof(buf), NULL)) > 0;)
		td_buf_add(&raw, buf, (size_t)k);

	for (size_t at = 0; at < raw.len;) {
		struct td_logline l;
		const char *end = memchr(raw.s + at, '\n', raw.len - at);
		size_t n = end ? (size_t)(end - raw.s) - at : raw.len - at;
		td_logline_parse(raw.s + at, n, &l);
		td_buf_add(&text, l.text, l.len);
		if (!l.part)
			td_buf_putc(&text, '\n');
		at += n + 1;
	}

	if (!text.len)
		return NULL;

	td_auto_free char *all = td_buf_take(&text);
	size_t n = strlen(all);
	return td_strdup(all + (n > max ? n - max : 0));
}
