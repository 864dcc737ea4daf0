// Container logs over HTTP: what `kubectl logs` asks for, from the files that pods/logfile.h reads.
#include "base/clock.h"
#include "kubelet/pods/logfile.h"
#include "kubelet/pods/pod.h"
#include "kubelet/pods/status.h"
#include "kubelet/stream/stream.h"

#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { BLOCK = 32768, RECORD_MAX = 1 << 16, LOOK_MS = 500 };

static int64_t number(const struct td_http_x *x, const char *name)
{
	const char *s = td_http_query(x, name);
	long long v;
	return s && td_parse_i64(s, &v) && v >= 0 ? v : -1;
}

struct out {
	struct td_http_x *x;
	int64_t left;        // bytes that may still be sent; -1: no limit
	int64_t from_ms;     // older lines are left out; 0: no limit
	bool stamps, middle; // middle: in the middle of a line
	struct td_buf in;    // the beginning of a stored line
};

static int send_some(struct out *o, const char *s, size_t n)
{
	if (o->left >= 0 && (int64_t)n > o->left)
		n = (size_t)o->left;
	if (n && td_http_stream_write(o->x, s, n, NULL))
		return -1;
	if (o->left >= 0)
		o->left -= (int64_t)n;
	return o->left == 0 ? -1 : 0;
}

static bool too_old(struct out *o, const struct td_logline *l)
{
	int64_t ms;
	char stamp[TD_TIME_LEN];
	if (!o->from_ms || !l->stamp)
		return false;
	memcpy(stamp, l->stamp, l->stamp_len);
	stamp[l->stamp_len] = '\0';
	if (!td_time_parse(stamp, &ms) && ms < o->from_ms)
		return true;
	o->from_ms = 0; // the others are younger
	return false;
}

static void put_line(struct out *o, const char *s, size_t n, struct td_buf *b)
{
	struct td_logline l;
	td_logline_parse(s, n, &l);
	if (too_old(o, &l))
		return;
	if (o->stamps && !o->middle && l.stamp) {
		td_buf_add(b, l.stamp, l.stamp_len);
		td_buf_putc(b, ' ');
	}
	td_buf_add(b, l.text, l.len);
	if (!l.part)
		td_buf_putc(b, '\n');
	o->middle = l.part;
}

// Sends everything that is there now.
static int copy(struct out *o, struct td_logfile *f)
{
	td_auto_free char *buf = td_malloc(BLOCK);
	for (ssize_t n; (n = td_logfile_read(f, buf, BLOCK, td_http_cancel(o->x))) > 0;) {
		td_auto_buf struct td_buf b = {0};
		size_t at = 0;

		if (f->lost) {
			td_buf_reset(&o->in);
			f->lost = false;
		}

		td_buf_add(&o->in, buf, (size_t)n);
		for (const char *end; (end = memchr(o->in.s + at, '\n', o->in.len - at));
		     at = (size_t)(end - o->in.s) + 1)
			put_line(o, o->in.s + at, (size_t)(end - o->in.s) - at, &b);

		if (o->in.len - at > RECORD_MAX) { // not a log of ours
			put_line(o, o->in.s + at, o->in.len - at, &b);
			at = o->in.len;
		}

		memmove(o->in.s, o->in.s + at, o->in.len - at);
		o->in.len -= at;
		if (b.len && send_some(o, b.s, b.len))
			return -1;
	}
	return 0;
}

static bool running(struct td_pod *p, const struct td_ctr *c, int attempt)
{
	pthread_mutex_lock(&p->mu);
	bool r = c->attempt == attempt && c->wanted;
	pthread_mutex_unlock(&p->mu);
	return r;
}

static void follow(struct td_pod *p, struct td_ctr *c, int attempt, const char *path, struct td_logfile *f,
		   struct out *o)
{
	td_auto_close int in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (in >= 0)
		inotify_add_watch(in, path, IN_MODIFY);

	for (;;) {
		// Ask before the read, so that what the container wrote last is read after its end.
		bool live = running(p, c, attempt);
		if (copy(o, f) || !live)
			return;

		struct pollfd w[2] = {{in, POLLIN, 0}, {td_cancel_fd(td_http_cancel(o->x)), POLLIN, 0}};
		poll(w, 2, LOOK_MS);
		if (td_cancelled(td_http_cancel(o->x)))
			return;

		char drain[4096];
		while (in >= 0 && read(in, drain, sizeof(drain)) > 0)
			;
	}
}

void td_stream_logs(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c)
{
	bool previous = td_stream_flag(x, "previous");
	pthread_mutex_lock(&p->mu);
	int attempt = c->attempt - (previous ? 1 : 0);
	pthread_mutex_unlock(&p->mu);

	if (attempt < 0) {
		if (previous)
			td_stream_error(x, 400, "previous terminated container \"%s\" in pod \"%s\" not found", c->name,
					p->name);
		else
			td_stream_error(x, 400, "container \"%s\" in pod \"%s\" is waiting to start: %s", c->name,
					p->name, td_status_waiting(p));
		return;
	}

	struct out o = {.x = x, .left = number(x, "limitBytes"), .stamps = td_stream_flag(x, "timestamps")};
	int64_t since = number(x, "sinceSeconds");
	const char *t = td_http_query(x, "sinceTime");

	if (since >= 0)
		o.from_ms = td_real_ms(&td_clock_system) - since * 1000;
	if (t && td_time_parse(t, &o.from_ms)) {
		td_stream_error(x, 400, "sinceTime \"%.60s\" is not an RFC 3339 time", t);
		return;
	}

	td_auto_free char *path = td_pod_log_path(a, p, c, attempt);
	td_auto_logfile struct td_logfile f = {.now = -1, .old = -1};
	struct td_error e = TD_ERROR_INIT;

	int r = td_logfile_open(path, &f, &e);
	if (r && r != TD_NOT_FOUND) {
		td_stream_error(x, 500, "log of %s/%s %s: %s", p->ns, p->name, c->name, e.msg);
		return;
	}

	if (!r)
		td_logfile_tail(&f, number(x, "tailLines"));

	if (td_http_stream_begin(x, 200, "text/plain", NULL) || r)
		return;

	if (td_stream_flag(x, "follow") && !previous)
		follow(p, c, attempt, path, &f, &o);
	else
		copy(&o, &f);
	td_buf_done(&o.in);
}
