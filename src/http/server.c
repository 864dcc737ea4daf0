// The server: listeners, the accept loop, and the orderly end.
#include "http/server_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

enum { LISTENERS_MAX = 16, WATCHES_PER_CONN = 8, STACK = 2 << 20, PATIENCE_MS = 1000 };

// Removes a socket file that is in the way of bind(), but only when nobody listens on it any more.
static int clear_stale_socket(const char *path, const struct sockaddr_un *sa, struct td_error *err)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return td_fail(err, TD_EXISTS, "listen on unix:%s: a file that is no socket is there", path);

	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 || errno != ECONNREFUSED))
		return td_fail(err, TD_EXISTS, "listen on unix:%s: another process listens there", path);
	unlink(path);
	return 0;
}

static int listen_unix(struct td_http_server *s, const char *path, mode_t mode, struct td_error *err)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof(sa.sun_path))
		return td_fail(err, TD_INVALID, "listen on unix:%s: the path must have 1 to %zu bytes", path,
			       sizeof(sa.sun_path) - 1);

	strcpy(sa.sun_path, path);
	int rc = clear_stale_socket(path, &sa, err);
	if (rc < 0)
		return rc;

	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	// Nobody can connect between bind() and listen(), so the mode is right before the first
	// connection comes.
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || chmod(path, mode) < 0 || listen(fd, 1024) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "listen on unix:%s", path);

	td_strv_add(&s->unix_paths, path);
	s->listeners[s->n_listeners++] = (struct listener){td_steal_fd(&fd), true};
	return 0;
}

static int listen_tcp(struct td_http_server *s, const char *spec, struct td_error *err)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {0};

	const char *colon = strrchr(spec, ':');
	long long port;
	if (!colon || !td_parse_i64(colon + 1, &port) || port < 0 || port > 65535)
		return td_fail(err, TD_INVALID, "listen on \"%s\": give ADDRESS:PORT or unix:PATH", spec);

	bool six = spec[0] == '[';
	size_t n = (size_t)(colon - spec);
	td_auto_free char *host = six && n > 2 && colon[-1] == ']' ? td_strndup(spec + 1, n - 2) : td_strndup(spec, n);
	if (six && inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons((uint16_t)port);
	} else if (!six && inet_pton(AF_INET, host, &a.v4.sin_addr) == 1) {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons((uint16_t)port);
	} else {
		return td_fail(err, TD_INVALID, "listen on \"%s\": not an IP address; IPv6 goes in [ ]", spec);
	}

	socklen_t len = six ? sizeof(a.v6) : sizeof(a.v4);
	td_auto_close int fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) || bind(fd, &a.sa, len) < 0 ||
	    listen(fd, 1024) < 0 || getsockname(fd, &a.sa, &len) < 0)
		return td_fail_errno(err, errno == EADDRINUSE ? TD_EXISTS : TD_TRANSIENT, errno, "listen on %s", spec);

	if (!s->port)
		s->port = ntohs(six ? a.v6.sin6_port : a.v4.sin_port);
	s->listeners[s->n_listeners++] = (struct listener){td_steal_fd(&fd), false};
	return 0;
}

TD_DEFINE_AUTO(struct td_http_server *, td_http_server_free)

int td_http_server_new(const struct td_http_server_opts *o, struct td_http_server **ret, struct td_error *err)
{
	if (!o->handler || !o->listen || !o->listen[0] || !o->cert_file != !o->key_file)
		return td_fail(err, TD_INVALID,
			       "HTTP server: a handler, an address, and certificate with key or neither are needed");

	td_auto(td_http_server_free) struct td_http_server *s = td_calloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	s->o = *o;
	s->o.listen = NULL;
	s->o.cert_file = s->o.key_file = s->o.client_ca_file = NULL;
	s->o.max_body = o->max_body ? o->max_body : 3u << 20;
	s->o.max_conns = o->max_conns > 0 ? o->max_conns : 1024;
	s->o.header_ms = o->header_ms > 0 ? o->header_ms : 10000;
	s->o.body_ms = o->body_ms > 0 ? o->body_ms : 30000;
	s->o.write_ms = o->write_ms > 0 ? o->write_ms : 30000;
	s->o.idle_ms = o->idle_ms > 0 ? o->idle_ms : 120000;

	s->stop = td_cancel_new();
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "HTTP server: eventfd");
	int rc = o->cert_file ? td_tls_new(o->cert_file, o->key_file, o->client_ca_file, &s->tls, err) : 0;
	if (rc < 0)
		return rc;

	s->listeners = td_calloc(LISTENERS_MAX, sizeof(*s->listeners));
	for (const char *const *l = o->listen; *l; l++) {
		if (s->n_listeners == LISTENERS_MAX)
			return td_fail(err, TD_INVALID, "HTTP server: at most %d addresses", LISTENERS_MAX);
		rc = td_starts(*l, "unix:") ? listen_unix(s, *l + 5, o->unix_mode ? o->unix_mode : 0600, err)
					    : listen_tcp(s, *l, err);
		if (rc < 0)
			return rc;
	}

	rc = td_pump_new(s->o.write_ms, s->o.max_conns * WATCHES_PER_CONN, &s->pump, err);
	if (rc < 0)
		return rc;

	*ret = td_steal(s);
	return 0;
}

struct td_http_server *td_http_server_free(struct td_http_server *s)
{
	if (!s)
		return NULL;

	td_pump_free(s->pump);
	for (int i = 0; i < s->n_listeners; i++)
		td_close_auto(&s->listeners[i].fd);

	free(s->listeners);
	for (size_t i = 0; i < s->unix_paths.n; i++)
		unlink(s->unix_paths.v[i]);
	td_strv_done(&s->unix_paths);

	td_tls_free(s->tls);
	td_cancel_unref(s->stop);
	td_close_auto(&s->wake_fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

int td_http_server_port(const struct td_http_server *s)
{
	return s->port;
}

// ---- workers ----

static void *worker_thread(void *arg)
{
	struct td_worker *w = arg;
	struct td_http_server *s = w->s;
	bool ours = td_serve(w);

	pthread_mutex_lock(&s->lock);
	struct td_conn *c = w->conn;
	w->conn = NULL;
	DL_DELETE(s->workers, w);
	pthread_mutex_unlock(&s->lock);

	if (ours)
		td_conn_free(c);

	pthread_mutex_lock(&s->lock);
	LL_PREPEND(s->ended, w);
	pthread_mutex_unlock(&s->lock);

	uint64_t one = 1;
	(void)!write(s->wake_fd, &one, sizeof(one));
	return NULL;
}

static void reap(struct td_http_server *s)
{
	uint64_t v;
	(void)!read(s->wake_fd, &v, sizeof(v));

	pthread_mutex_lock(&s->lock);
	struct td_worker *w = s->ended;
	s->ended = NULL;
	pthread_mutex_unlock(&s->lock);

	while (w) {
		struct td_worker *next = w->next;
		pthread_join(w->thread, NULL);
		free(w);
		s->n_workers--; // only the accept loop counts workers
		w = next;
	}
}

// Accepts one connection and starts its worker. Returns false when no connection can be taken right
// now.
static bool take(struct td_http_server *s, const struct listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;

	struct td_conn *c = td_conn_new(fd, s->stop);
	if (l->is_unix) {
		struct ucred cred;
		socklen_t n = sizeof(cred);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0)
			c->peer_uid = (int)cred.uid;
	} else {
		// A peer that vanished silently is noticed after about two minutes.
		int on = 1, idle = 60, every = 15, count = 4;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	}

	struct td_worker *w = td_calloc(1, sizeof(*w));
	w->s = s;
	w->conn = c;
	w->waits_since = td_now();

	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);

	pthread_mutex_lock(&s->lock);
	DL_APPEND(s->workers, w);
	pthread_mutex_unlock(&s->lock);

	int rc = pthread_create(&w->thread, &attr, worker_thread, w);
	pthread_attr_destroy(&attr);
	if (rc == 0) {
		s->n_workers++;
		return true;
	}

	pthread_mutex_lock(&s->lock);
	DL_DELETE(s->workers, w);
	pthread_mutex_unlock(&s->lock);
	td_conn_free(c);
	free(w);
	return false;
}

// Makes room when all places are taken and somebody connects: cuts the connection that has waited
// longest without a whole request. So a crowd that sends nothing, or sends slowly, keeps nobody
// out. Returns false when all connections are being served or have only just come: a client that is
// about to send is not cut.
static bool make_room(struct td_http_server *s)
{
	struct td_worker *oldest = NULL;
	int64_t since = td_now() - PATIENCE_MS;

	pthread_mutex_lock(&s->lock);
	for (struct td_worker *w = s->workers; w; w = w->next) {
		int64_t t = __atomic_load_n(&w->waits_since, __ATOMIC_RELAXED);
		if (t && w->conn && t < since) {
			oldest = w;
			since = t;
		}
	}

	if (oldest) {
		__atomic_store_n(&oldest->sent_away, true, __ATOMIC_RELAXED);
		shutdown(oldest->conn->fd, SHUT_RDWR);
	}

	pthread_mutex_unlock(&s->lock);
	return oldest;
}

static void end_all(struct td_http_server *s)
{
	pthread_mutex_lock(&s->lock);
	td_cancel_fire(s->stop);
	for (struct td_worker *w = s->workers; w; w = w->next)
		if (w->cancel)
			td_cancel_fire(w->cancel);
	pthread_mutex_unlock(&s->lock);

	int64_t cut = td_now() + TD_GRACE_MS;
	for (reap(s); s->n_workers; reap(s)) {
		int64_t left = cut - td_now();
		if (left <= 0) {
			// Whoever waits for the peer gets an error now. A handler that ignores its
			// cancel is waited for.
			pthread_mutex_lock(&s->lock);
			for (struct td_worker *w = s->workers; w; w = w->next)
				if (w->conn)
					shutdown(w->conn->fd, SHUT_RDWR);
			pthread_mutex_unlock(&s->lock);
			left = 100;
		}

		struct pollfd p = {s->wake_fd, POLLIN, 0};
		poll(&p, 1, (int)left);
	}

	s->pump = td_pump_free(s->pump);
}

int td_http_server_run(struct td_http_server *s, struct td_cancel *cancel, struct td_error *err)
{
	if (!s->pump)
		return td_fail(err, TD_INTERNAL, "HTTP server: runs once only");

	// Out of descriptors or memory: look again when a connection has ended, or shortly.
	bool starved = false;
	// Until then nobody else is cut, because somebody is already on the way out.
	int64_t leaving = 0;

	while (!td_cancelled(cancel)) {
		struct pollfd p[LISTENERS_MAX + 2];
		p[0] = (struct pollfd){td_cancel_fd(cancel), POLLIN, 0};
		p[1] = (struct pollfd){s->wake_fd, POLLIN, 0};
		bool full = s->n_workers >= s->o.max_conns, deaf = starved || (full && td_now() < leaving);

		for (int i = 0; i < s->n_listeners; i++)
			p[2 + i] = (struct pollfd){deaf ? -1 : s->listeners[i].fd, POLLIN, 0};

		poll(p, (nfds_t)s->n_listeners + 2, deaf ? 100 : -1);
		reap(s);

		if (s->n_workers < s->o.max_conns)
			leaving = 0;
		starved = false;

		for (int i = 0; i < s->n_listeners; i++) {
			if (deaf || !p[2 + i].revents)
				continue;
			if (s->n_workers < s->o.max_conns)
				starved = !take(s, &s->listeners[i]) || starved;
			else if (!make_room(s))
				starved = true; // look again shortly
			else
				leaving = td_now() + 1000;
		}
	}

	for (int i = 0; i < s->n_listeners; i++)
		td_close_auto(&s->listeners[i].fd);
	for (int i = 0; i < s->n_listeners; i++)
		s->listeners[i].fd = -1;

	end_all(s);
	return 0;
}
