// attach over WebSocket, with the channels of exec.c. The client gets what the container writes
// from now on, read from its log (pods/logfile.h), and may write to its standard input if the pod
// asks for one (stdin: true). Several clients may be attached at once; all see everything. Whoever is
// the first at an input that is given once (stdinOnce: `kubectl run -i`) also gets what the container
// wrote before: it was started for this client, who only came a moment later.
#include "kubelet/pods/logfile.h"
#include "kubelet/pods/sync.h"
#include "kubelet/stream/stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { BLOCK = 32768, LOOK_MS = 200, DATA_MAX = PIPE_BUF - 3 };

struct session {
	struct td_kubelet *a;
	struct td_pod *p;
	struct td_ctr *c;
	struct td_ws *ws;
	struct td_cancel *gone; // the peer closed: stop pumping
	struct td_cancel *done; // the container ended: stop receiving
	struct td_logfile log;
	int attempt, input;
	bool out, err, tty;
	char *path;
};

static int send_line(struct session *s, const char *line, size_t n)
{
	struct td_logline l;
	td_auto_buf struct td_buf b = {0};
	td_logline_parse(line, n, &l);
	td_buf_add(&b, l.text, l.len);
	if (!l.part)
		td_buf_putc(&b, '\n');

	if (l.err ? !s->err : !s->out)
		return 0;
	return td_stream_channel(s->ws, l.err ? 2 : 1, b.s, b.len);
}

static int copy(struct session *s, struct td_buf *in)
{
	td_auto_free char *buf = td_malloc(BLOCK);
	for (ssize_t n; (n = td_logfile_read(&s->log, buf, BLOCK, s->gone)) > 0;) {
		size_t at = 0;

		if (s->log.lost) {
			td_buf_reset(in);
			s->log.lost = false;
		}

		td_buf_add(in, buf, (size_t)n);
		for (const char *end; (end = memchr(in->s + at, '\n', in->len - at)); at = (size_t)(end - in->s) + 1)
			if (send_line(s, in->s + at, (size_t)(end - in->s) - at))
				return -1;

		memmove(in->s, in->s + at, in->len - at);
		in->len -= at;
	}
	return 0;
}

static bool running(struct session *s)
{
	pthread_mutex_lock(&s->p->mu);
	bool r = s->c->attempt == s->attempt && s->c->wanted;
	pthread_mutex_unlock(&s->p->mu);
	return r;
}

static void *pump(void *arg)
{
	struct session *s = arg;
	td_auto_buf struct td_buf in = {0};
	td_auto_close int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch >= 0)
		inotify_add_watch(watch, s->path, IN_MODIFY);

	while (!td_cancelled(s->gone)) {
		// Ask before the read, so that what the container wrote last is read after its end.
		bool live = running(s);
		if (copy(s, &in)) {
			td_cancel_fire(s->gone);
			break;
		}

		if (!live) {
			const char *ok = "{\"metadata\":{},\"status\":\"Success\"}";
			td_stream_channel(s->ws, 3, ok, strlen(ok));
			break;
		}

		struct pollfd f[2] = {{watch, POLLIN, 0}, {td_cancel_fd(s->gone), POLLIN, 0}};
		poll(f, 2, LOOK_MS);
		char drain[4096];
		while (watch >= 0 && read(watch, drain, sizeof(drain)) > 0)
			;
	}

	td_cancel_fire(s->done);
	return NULL;
}

// Writes one message whole, as pipes do with up to PIPE_BUF bytes. The container may never read, so
// the wait also ends when the container ends.
static void say(struct session *s, char type, const char *p, size_t n)
{
	char m[PIPE_BUF] = {type, (char)(n & 0xff), (char)(n >> 8)};
	memcpy(m + 3, p, n);
	while (s->input >= 0 && !td_cancelled(s->done)) {
		ssize_t k = write(s->input, m, n + 3);
		if (k >= 0 || (errno != EAGAIN && errno != EINTR))
			return;
		struct pollfd f[3] = {
			{s->input, POLLOUT, 0}, {td_cancel_fd(s->done), POLLIN, 0}, {td_cancel_fd(s->gone), POLLIN, 0}};
		poll(f, 3, -1);
		if (td_cancelled(s->gone))
			return;
	}
}

static void resize(struct session *s, const char *text, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!s->tty || td_json_parse(text, n, &j, NULL))
		return;
	int64_t cols = td_jint(td_json_root(j), "Width", 0), rows = td_jint(td_json_root(j), "Height", 0);
	if (cols <= 0 || rows <= 0 || cols > 65535 || rows > 65535)
		return;
	const char size[4] = {(char)(rows & 0xff), (char)(rows >> 8), (char)(cols & 0xff), (char)(cols >> 8)};
	say(s, 'w', size, sizeof(size));
}

static void receive(struct session *s, bool v5, bool once)
{
	td_auto_buf struct td_buf m = {0};
	// In these cases the end of the input is not passed on.
	bool closed = s->input < 0 || s->tty || !once;
	for (;;) {
		bool binary;
		td_buf_reset(&m);
		if (td_ws_recv(s->ws, s->done, &m, &binary, NULL))
			break;

		bool end = v5 && m.len > 1 && (unsigned char)m.s[0] == 255 && m.s[1] == 0;
		if (m.len && m.s[0] == 0)
			for (size_t at = 1; at < m.len; at += DATA_MAX)
				say(s, 'd', m.s + at, m.len - at < DATA_MAX ? m.len - at : DATA_MAX);
		else if (m.len && m.s[0] == 4)
			resize(s, m.s + 1, m.len - 1);
		else if (end && !closed) {
			say(s, 'c', "", 0);
			closed = true;
		}
	}

	// With stdinOnce the first session's end is the end of the input.
	if (!closed)
		say(s, 'c', "", 0);
	td_cancel_fire(s->gone);
}

void td_stream_attach(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p, struct td_ctr *c)
{
	static const char *const protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", NULL};
	td_auto(td_object_unref) struct td_object *o = td_pod_object(a, p);
	const yyjson_val *spec = o ? td_ctr_spec(o->root, c->name) : NULL;

	pthread_mutex_lock(&p->mu);
	bool runs = spec && c->state == TD_CTR_RUNNING && c->wanted;
	td_auto_free char *id = runs ? td_pod_container_id(a, p, c) : NULL;
	int attempt = c->attempt;
	bool once = td_jbool(spec, "stdinOnce", false),
	     first = once && td_stream_flag(x, "stdin") && c->attached <= attempt;
	if (runs && first)
		c->attached = attempt + 1;
	pthread_mutex_unlock(&p->mu);

	if (!runs) {
		td_stream_error(x, 409, "container %s of pod %s is not running", c->name, p->name);
		return;
	}

	td_auto(td_cancel_unref) struct td_cancel *gone = td_cancel_new(), *done = td_cancel_new();
	td_auto_close int input = -1;
	td_auto_free char *path = td_pod_log_path(a, p, c, attempt);
	struct session s = {
		.a = a,
		.p = p,
		.c = c,
		.gone = gone,
		.done = done,
		.attempt = attempt,
		.input = -1,
		.out = td_stream_flag(x, "stdout"),
		.err = td_stream_flag(x, "stderr"),
		.tty = td_jbool(spec, "tty", false),
		.path = path,
	};

	struct td_error err = TD_ERROR_INIT;
	if (td_stream_flag(x, "stdin")) {
		if (!td_jbool(spec, "stdin", false) || td_oci_input(a->oci, id, &input, &err)) {
			td_stream_error(x, 400,
					"container %s of pod %s was not started with stdin: true; attach without -i, "
					"or use `kubectl exec -i`",
					c->name, p->name);
			return;
		}
		s.input = input;
	}

	if (td_logfile_open(path, &s.log, &err)) {
		td_stream_error(x, 500, "%s", err.msg);
		return;
	}

	const char *protocol = NULL;
	if (td_ws_accept(x, protocols, &s.ws, &protocol, NULL)) {
		td_logfile_close(&s.log);
		return;
	}

	if (!first)
		td_logfile_tail(&s.log, 0);
	td_stream_hello(s.ws, s.out, s.err, td_mono_ms(&td_clock_system));

	pthread_t t;
	if (!pthread_create(&t, NULL, pump, &s)) {
		receive(&s, !strcmp(protocol, protocols[0]), once);
		pthread_join(t, NULL);
	}

	td_logfile_close(&s.log);
	td_ws_close(s.ws, 1000);
}
