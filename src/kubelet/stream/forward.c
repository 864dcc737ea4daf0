// port-forward as kubectl speaks it: SPDY/3.1 (spdy.h) inside a WebSocket. Each connection of the
// user is two streams with one requestid: `data`, and `error`, on which we say why the connection
// failed (or nothing) and which we then close. A data stream becomes a connection to 127.0.0.1:PORT
// in the pod's own network namespace, as with a kubelet, and has a thread. The receiving thread
// hands it what came.
//
// A program that wants one port need not speak SPDY: with the protocol v4.channel.k8s.io and the port
// in the query there is one connection, and each message begins with a byte: 0 its bytes, 1 why it
// failed. The first message on each says the port, in two bytes, the lower one first. The WebSocket
// ends with the connection.
#include "kubelet/pods/pod.h"
#include "kubelet/stream/spdy.h"
#include "kubelet/stream/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

enum { BLOCK = 32768, STREAMS_MAX = 128, QUEUE_MAX = 1 << 20, DIAL_MS = 10000 };

struct session;
struct forward_stream {
	struct session *s;
	uint32_t id, error_id; // error_id: of a data stream, the id of its error stream
	int port;
	char *request;
	bool data;
	pthread_t thread;
	int wake; // eventfd: the queue changed
	// under s->mu:
	struct td_buf in; // from the peer, not yet written to the pod
	bool in_end;      // the peer says no more
	bool dead;        // reset, or the session ends
	bool over;        // its thread has ended
	struct forward_stream *prev, *next;
};
struct session {
	struct td_kubelet *a;
	struct td_pod *p;
	struct td_ws *ws;
	char *netns;
	struct td_spdy_headers headers;
	bool reply_begun;
	bool channels;          // one connection, without SPDY
	struct td_cancel *peer; // the peer is gone
	struct td_cancel *stop; // the session ends
	pthread_mutex_t mu;     // guards the streams' marked fields
	pthread_cond_t room;
	struct forward_stream *streams; // used by the receiving thread only
	size_t n;
};

static int send_data(struct session *s, uint32_t id, uint8_t flags, const void *p, size_t n)
{
	td_auto_buf struct td_buf b = {0};
	if (s->channels)
		return n ? td_stream_channel(s->ws, (char)id, p, n) : 0;
	td_spdy_data(&b, id, flags, p, n);
	return td_ws_send(s->ws, true, b.s, b.len, NULL);
}

// ---- one connection ----

static int dial(struct forward_stream *t, struct td_error *err)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)t->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	td_auto_close int fd = -1;
	int r = td_net_pod_socket(t->s->netns, &fd, err), e = 0;
	socklen_t n = sizeof(e);

	if (r)
		return r;

	struct pollfd f[2] = {{fd, POLLOUT, 0}, {td_cancel_fd(t->s->stop), POLLIN, 0}};
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS)
		return td_fail_errno(err, TD_TRANSIENT, errno, "connect to port %d", t->port);
	if (poll(f, 2, DIAL_MS) <= 0 || !f[0].revents)
		return td_fail(err, TD_TRANSIENT, "connect to port %d: no answer", t->port);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0 || e)
		return td_fail_errno(err, TD_TRANSIENT, e, "connect to port %d", t->port);
	return td_steal_fd(&fd);
}

// Writes what the peer sent. False: the connection is broken.
static bool write_in(struct forward_stream *t, int fd, bool *shut)
{
	struct session *s = t->s;
	bool ok = true;
	pthread_mutex_lock(&s->mu);

	while (t->in.len && ok) {
		ssize_t k = send(fd, t->in.s, t->in.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		ok = k >= 0;
		if (k > 0) {
			memmove(t->in.s, t->in.s + k, t->in.len - (size_t)k);
			t->in.len -= (size_t)k;
		}
	}

	if (ok && t->in_end && !t->in.len && !*shut) {
		shutdown(fd, SHUT_WR);
		*shut = true;
	}

	pthread_cond_broadcast(&s->room);
	pthread_mutex_unlock(&s->mu);
	return ok;
}

static void pump(struct forward_stream *t, int fd)
{
	td_auto_free char *buf = td_malloc(BLOCK);
	bool shut = false, end = false;
	while (!end) {
		pthread_mutex_lock(&t->s->mu);
		bool more = t->in.len > 0, dead = t->dead;
		pthread_mutex_unlock(&t->s->mu);
		if (dead)
			return;

		// A session with channels waits for `stop` alone: when the server stops it ends by this.
		struct pollfd f[4] = {{fd, (short)(POLLIN | (more ? POLLOUT : 0)), 0},
				      {t->wake, POLLIN, 0},
				      {td_cancel_fd(t->s->stop), POLLIN, 0},
				      {td_cancel_fd(t->s->peer), POLLIN, 0}};
		poll(f, TD_LEN(f), -1);

		eventfd_t v;
		if (f[1].revents)
			eventfd_read(t->wake, &v);
		if (f[2].revents || f[3].revents || !write_in(t, fd, &shut))
			return;

		if (!(f[0].revents & ~POLLOUT))
			continue;

		ssize_t k = recv(fd, buf, BLOCK, MSG_DONTWAIT);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		end = k <= 0;
		if (!end && send_data(t->s, t->id, 0, buf, (size_t)k))
			return;
	}
}

static void *run(void *arg)
{
	struct forward_stream *t = arg;
	struct session *s = t->s;
	struct td_error e = TD_ERROR_INIT;
	td_auto_close int fd = dial(t, &e);
	td_auto_free char *why = NULL;

	if (fd >= 0)
		pump(t, fd);
	else
		why = td_asprintf("error forwarding port %d to pod %s, uid %s: %s", t->port, s->p->name, s->p->uid,
				  e.msg);

	send_data(s, t->id, TD_SPDY_FIN, NULL, 0);
	send_data(s, t->error_id, TD_SPDY_FIN, why, why ? strlen(why) : 0);

	pthread_mutex_lock(&s->mu);
	t->over = true;
	pthread_cond_broadcast(&s->room);
	pthread_mutex_unlock(&s->mu);
	if (s->channels)
		td_cancel_fire(s->stop);
	return NULL;
}

// ---- the session ----

static struct forward_stream *find(struct session *s, uint32_t id)
{
	struct forward_stream *t = s->streams;
	while (t && t->id != id)
		t = t->next;
	return t;
}

static void forget(struct session *s, struct forward_stream *t)
{
	if (t->data) {
		pthread_join(t->thread, NULL);
		close(t->wake);
	}
	DL_DELETE(s->streams, t);
	s->n--;
	td_buf_done(&t->in);
	free(t->request);
	free(t);
}

// Frees the connections that have ended (all: every connection), with their error streams.
static void sweep(struct session *s, bool all)
{
	struct forward_stream *t, *next;
	DL_FOREACH_SAFE(s->streams, t, next)
	{
		pthread_mutex_lock(&s->mu);
		bool over = t->over;
		t->dead = t->dead || all;
		pthread_mutex_unlock(&s->mu);
		if (!t->data || !(over || all))
			continue;

		eventfd_write(t->wake, 1);
		struct forward_stream *error = find(s, t->error_id);
		if (error) {
			if (error == next)
				next = next->next;
			forget(s, error);
		}
		forget(s, t);
	}

	while (all && s->streams)
		forget(s, s->streams);
}

static const char *header(const struct td_strv *h, const char *name)
{
	for (size_t i = 0; i + 1 < h->n; i += 2)
		if (!strcmp(h->v[i], name))
			return h->v[i + 1];
	return "";
}

// Begins to connect.
static int begin(struct forward_stream *t, struct td_error *err)
{
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->data = !pthread_create(&t->thread, NULL, run, t);
	return t->data ? 0 : td_fail(err, TD_INTERNAL, "port-forward: no thread");
}

static int open_stream(struct session *s, const struct td_spdy_frame *f, struct td_error *err)
{
	td_auto_strv struct td_strv h = {0};
	td_auto_buf struct td_buf reply = {0};
	long long port = 0;

	int r = td_spdy_headers_read(&s->headers, f->data, f->n, &h, err);
	if (r)
		return r;

	const char *type = header(&h, "streamtype"), *request = header(&h, "requestid");
	bool data = !strcmp(type, "data");
	if ((!data && strcmp(type, "error")) || !td_parse_i64(header(&h, "port"), &port) || port < 1 || port > 65535 ||
	    find(s, f->stream))
		return td_fail(err, TD_INVALID, "port-forward: stream %u of type \"%.20s\", port \"%.20s\"", f->stream,
			       type, header(&h, "port"));

	sweep(s, false);
	if (s->n >= STREAMS_MAX)
		return td_fail(err, TD_THROTTLED, "port-forward: more than %d streams", STREAMS_MAX);

	struct forward_stream *t = td_calloc(1, sizeof(*t)), *e;
	t->s = s;
	t->id = f->stream;
	t->port = (int)port;
	t->request = td_strdup(request);

	td_spdy_reply(&reply, f->stream, &s->reply_begun);
	td_ws_send(s->ws, true, reply.s, reply.len, NULL);

	DL_FOREACH (s->streams, e) {
		if (data && !e->data && !strcmp(e->request, request))
			t->error_id = e->id;
	}

	DL_APPEND(s->streams, t);
	s->n++;

	return data ? begin(t, err) : 0;
}

static void take(struct session *s, const struct td_spdy_frame *f)
{
	struct forward_stream *t = find(s, f->stream);
	if (!t || !t->data)
		return;

	pthread_mutex_lock(&s->mu);
	// A pod that does not read holds up its own session, and does not fill this process's
	// memory.
	while (t->in.len > QUEUE_MAX && !t->over && !td_cancelled(s->peer)) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++; // a cancel does not wake a condition
		pthread_cond_timedwait(&s->room, &s->mu, &until);
	}

	if (f->type == TD_SPDY_RST_STREAM)
		t->dead = true;
	else if (f->n)
		td_buf_add(&t->in, f->data, f->n);
	t->in_end = t->in_end || f->flags & TD_SPDY_FIN;
	pthread_mutex_unlock(&s->mu);

	eventfd_write(t->wake, 1);
}

static int frame(struct session *s, const struct td_spdy_frame *f, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	switch (f->type) {
	case TD_SPDY_SYN_STREAM:
		return open_stream(s, f, err);
	case TD_SPDY_DATA:
	case TD_SPDY_RST_STREAM:
		take(s, f);
		return 0;
	case TD_SPDY_PING:
		td_spdy_ping(&b, f->stream);
		td_ws_send(s->ws, true, b.s, b.len, NULL);
		return 0;
	default:
		return 0;
	}
}

// The one connection of a session with channels, until one end of it has closed.
static int channels(struct session *s, int port)
{
	const char said[] = {(char)(port & 0xff), (char)(port >> 8)};
	td_auto_buf struct td_buf in = {0};
	bool binary;
	struct forward_stream *t = td_calloc(1, sizeof(*t));
	*t = (struct forward_stream){.s = s, .id = 0, .error_id = 1, .port = port};
	DL_APPEND(s->streams, t);
	s->n++;
	for (char i = 0; i < 2; i++)
		td_stream_channel(s->ws, i, said, sizeof(said));
	int r = begin(t, NULL);
	while (!r && !td_ws_recv(s->ws, s->stop, &in, &binary, NULL)) {
		const struct td_spdy_frame f = {.type = TD_SPDY_DATA,
						.data = in.len ? in.s + 1 : NULL,
						.n = in.len && !in.s[0] ? in.len - 1 : 0};
		take(s, &f);
		td_buf_reset(&in);
	}
	return r;
}

static int frames(struct session *s)
{
	td_auto_buf struct td_buf in = {0};
	struct td_error err = TD_ERROR_INIT;
	bool binary;
	int r = 0;
	while (!r && !td_ws_recv(s->ws, s->peer, &in, &binary, NULL)) {
		size_t at = 0, used = 0;
		struct td_spdy_frame f;
		while (!(r = td_spdy_frame_read(in.s + at, in.len - at, &f, &used, &err)) && used &&
		       !(r = frame(s, &f, &err)))
			at += used;
		memmove(in.s, in.s + at, in.len - at);
		in.len -= at;
	}
	return r;
}

// The port that is asked for in the query, by an API server's word or a kubelet's; 0: none, or several.
static int port_of(const struct td_http_x *x)
{
	td_auto_strv struct td_strv v = {0};
	long long port = 0;
	td_http_query_all(x, "port", &v);
	td_http_query_all(x, "ports", &v);
	return v.n == 1 && td_parse_i64(v.v[0], &port) && port > 0 && port < 65536 ? (int)port : 0;
}

void td_stream_forward(struct td_kubelet *a, struct td_http_x *x, struct td_pod *p)
{
	static const char *const protocols[] = {"SPDY/3.1+portforward.k8s.io", NULL};
	static const char *const one_port[] = {"SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", NULL};
	td_auto_free char *netns = td_pod_netns(a, p);
	const char *protocol = NULL;
	int port = port_of(x);

	pthread_mutex_lock(&p->mu);
	bool up = p->host_network || p->net_up;
	pthread_mutex_unlock(&p->mu);
	if (!up) {
		td_stream_error(x, 409, "pod %s is not running", p->name);
		return;
	}

	struct session s = {.a = a,
			    .p = p,
			    .netns = p->host_network ? NULL : netns,
			    .peer = td_http_cancel(x),
			    .stop = td_cancel_new()};
	if (td_ws_accept(x, port ? one_port : protocols, &s.ws, &protocol, NULL)) {
		td_cancel_unref(s.stop);
		return;
	}

	pthread_mutex_init(&s.mu, NULL);
	pthread_cond_init(&s.room, NULL);
	s.channels = protocol && !strcmp(protocol, one_port[1]);
	int r = s.channels ? channels(&s, port) : frames(&s);

	td_cancel_fire(s.stop);
	sweep(&s, true);
	td_spdy_headers_done(&s.headers);
	td_ws_close(s.ws, r ? 1002 : 1000);
	pthread_cond_destroy(&s.room);
	pthread_mutex_destroy(&s.mu);
	td_cancel_unref(s.stop);
}
