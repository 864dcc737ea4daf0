// Container logs: files that the containers append to themselves. Raw bytes: there is no time per line, so that --timestamps and --since
// are answered from what the file system knows (see since()).
#include "agent/pods/pod.h"
#include "agent/stream/stream.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 32768, LOOK_MS = 500 };

static int64_t number(const struct td_http_x *x, const char *name)
{
	const char *s = td_http_query(x, name);
	long long v;
	return s && td_parse_i64(s, &v) && v >= 0 ? v : -1;
}

struct out {
	struct td_http_x *x;
	int64_t left;     // bytes; -1: no limit
	bool stamps, bol; // beginning of a line
};

static int put(struct out *o, const char *s, size_t n)
{
	td_auto_buf struct td_buf b = {0};
	if (o->stamps) {
		char now[TD_TIME_LEN];
		td_time_format_micro(td_real_ms(&td_clock_system), now);
		for (size_t i = 0; i < n; i++) {
			if (o->bol)
				td_buf_printf(&b, "%s ", now);
			td_buf_putc(&b, s[i]);
			o->bol = s[i] == '\n';
		}
		s = td_buf_str(&b);
		n = b.len;
	}
	if (o->left >= 0 && (int64_t)n > o->left)
		n = (size_t)o->left;
	if (n && td_http_stream_write(o->x, s, n, NULL))
		return -1;
	if (o->left >= 0)
		o->left -= (int64_t)n;
	return o->left == 0 ? -1 : 0;
}

static int copy(struct out *o, int fd, int64_t *at)
{
	td_auto_free char *buf = td_malloc(BLOCK);
	for (;;) {
		ssize_t n = pread(fd, buf, BLOCK, *at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		*at += n;
		if (put(o, buf, (size_t)n))
			return -1;
	}
}

static bool running(struct td_pod *p, const struct td_ctr *c, int attempt)
{
	pthread_mutex_lock(&p->mu);
	bool r = c->attempt == attempt && c->wanted;
	pthread_mutex_unlock(&p->mu);
	return r;
}

static void follow(struct td_http_x *x, struct td_pod *p, struct td_ctr *c, int attempt, const char *path, int fd, int64_t at,
		   struct out *o)
{
	td_auto_close int in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (in >= 0)
		inotify_add_watch(in, path, IN_MODIFY);
	for (;;) {
		bool live = running(p, c, attempt); // before the read: what it wrote last is read after its end
		struct stat st;
		if (!fstat(fd, &st) && st.st_size < at)
			at = 0; // somebody truncated it
		if (copy(o, fd, &at) || !live)
			return;
		struct pollfd f[2] = {{in, POLLIN, 0}, {td_cancel_fd(td_http_cancel(x)), POLLIN, 0}};
		poll(f, 2, LOOK_MS);
		if (td_cancelled(td_http_cancel(x)))
			return;
		char drain[4096];
		while (in >= 0 && read(in, drain, sizeof(drain)) > 0)
			;
	}
}

void td_stream_logs(struct td_agent *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c)
{
	bool previous = td_stream_flag(x, "previous");
	pthread_mutex_lock(&p->mu);
	int attempt = c->attempt - (previous ? 1 : 0);
	pthread_mutex_unlock(&p->mu);
	if (attempt < 0) {
		if (previous)
			td_stream_error(x, 400, "previous terminated container \"%s\" in pod \"%s\" not found", c->name, p->name);
		else
			td_stream_error(x, 400, "container \"%s\" in pod \"%s\" is waiting to start: ContainerCreating", c->name, p->name);
		return;
	}
	td_auto_free char *path = td_pod_log_path(a, p, c, attempt);
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st = {0};
	if ((fd < 0 && errno != ENOENT) || (fd >= 0 && fstat(fd, &st) < 0)) {
		td_stream_error(x, 500, "log of %s/%s %s: %s", p->ns, p->name, c->name, strerror(errno));
		return;
	}
	struct out o = {.x = x, .left = number(x, "limitBytes"), .stamps = td_stream_flag(x, "timestamps"), .bol = true};
	// No line carries a time. The file's last change is the time of its newest line: when that is too old, all lines are.
	int64_t since = number(x, "sinceSeconds"), from = 0, now = td_real_ms(&td_clock_system);
	if (since >= 0)
		from = now - since * 1000;
	const char *t = td_http_query(x, "sinceTime");
	if (t)
		td_time_parse(t, &from);
	bool old = from && fd >= 0 && (int64_t)st.st_mtime * 1000 < from;
	int64_t at = fd < 0 ? 0 : old ? st.st_size : td_log_tail_offset(fd, st.st_size, number(x, "tailLines"));
	if (td_http_stream_begin(x, 200, "text/plain", NULL) || fd < 0)
		return;
	if (td_stream_flag(x, "follow") && !previous)
		follow(x, p, c, attempt, path, fd, at, &o);
	else
		copy(&o, fd, &at);
}
