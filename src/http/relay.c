// Copies one exchange to a server on a unix socket, or at an address, and back.
//
// The authorisation was for this one request. So no byte that the client sends after it may reach
// the other side, unless that side has agreed to leave HTTP (101). Otherwise a pipelined second
// request would arrive there unauthorised. There is no deadline on a client that reads slowly:
// back-pressure keeps a paused `kubectl logs -f | less` alive. A client that is gone is noticed by
// its FIN, or by TCP keep-alive.
#include "http/server_priv.h"
#include "http/ws_frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { STEP = 32 * 1024, SNIFF = 12 };

struct half {
	struct td_buf b; // b.s[off .. b.len) is still to be written
	size_t off;
	bool eof, shut;
};

int td_http_far_dial(const char *ip, int port, int within_s)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	td_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = {.tv_sec = within_s};
	// One whose node has vanished silently is noticed after about two minutes, as a client is (server.c).
	int on = 1, idle = 60, every = 15, count = 4;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) < 0 ||
	    inet_pton(AF_INET, ip, &sa.sin_addr) != 1 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	return td_steal_fd(&fd);
}

static int dial(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(sa.sun_path))
		return -1;
	strcpy(sa.sun_path, path);

	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = {.tv_sec = 5}; // bounds a connect() to a full backlog
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;

	return td_steal_fd(&fd);
}

static bool hop_by_hop(const char *name)
{
	static const char *const no[] = {"Authorization",    "Connection", "Keep-Alive", "Proxy-Authorization",
					 "Proxy-Connection", "TE",         "Trailer",    "Transfer-Encoding",
					 "Content-Length",   "Expect",     "Upgrade"};
	for (size_t i = 0; i < TD_LEN(no); i++)
		if (strcasecmp(name, no[i]) == 0)
			return true;
	return false;
}

static bool goes_on(const char *const *only, const char *name)
{
	for (; only && *only; only++)
		if (strncasecmp(name, *only, strlen(*only)) == 0)
			return true;
	return false;
}

// Adds the cookies of a header without the one that is ours.
static void put_cookies(const char *value, const char *hide, struct td_buf *b)
{
	size_t n = strlen(hide), some = 0;
	for (const char *p = value; *p;) {
		p += strspn(p, "; ");
		size_t len = strcspn(p, ";");
		if (len && (strncmp(p, hide, n) != 0 || p[n] != '=')) {
			td_buf_printf(b, "%s%.*s", some ? "; " : "Cookie: ", (int)len, p);
			some++;
		}
		p += len;
	}
	if (some)
		td_buf_puts(b, "\r\n");
}

static void put_request(struct td_http_x *x, const struct td_http_far *far, const char *upgrade, struct td_buf *b)
{
	td_buf_printf(b, "%s %s HTTP/1.1\r\n", x->head.method, far->target);
	if (far->authorization)
		td_buf_printf(b, "Authorization: %s\r\n", far->authorization);

	bool host = false;
	for (int i = 0; i < x->head.n; i++) {
		if (hop_by_hop(x->head.h[i].name) || (far->only && !goes_on(far->only, x->head.h[i].name)) ||
		    (far->host && strcasecmp(x->head.h[i].name, "Host") == 0))
			continue;
		host = host || strcasecmp(x->head.h[i].name, "Host") == 0;
		if (far->hide && strcasecmp(x->head.h[i].name, "Cookie") == 0) {
			put_cookies(x->head.h[i].value, far->hide, b);
			continue;
		}
		td_buf_printf(b, "%s: %s\r\n", x->head.h[i].name, x->head.h[i].value);
	}

	if (!host)
		td_buf_printf(b, "Host: %s\r\n", far->host ? far->host : "relay");

	if (upgrade)
		td_buf_printf(b, "Connection: Upgrade, close\r\nUpgrade: %s\r\n", upgrade);
	else
		td_buf_puts(b, "Connection: close\r\n");

	if (x->body.len || x->head.has_length || x->head.chunked)
		td_buf_printf(b, "Content-Length: %zu\r\n", x->body.len);

	td_buf_puts(b, "\r\n");
	td_buf_add(b, td_buf_str(&x->body), x->body.len);
}

static bool empty(const struct half *h)
{
	return h->off == h->b.len;
}

static void consume(struct half *h, size_t n)
{
	h->off += n;
	if (!empty(h))
		return;
	h->off = 0;
	if (h->b.cap > 2 * STEP)
		td_buf_done(&h->b);
	else
		td_buf_reset(&h->b);
}

// Appends one read from the upstream. Returns true when something happened.
static bool read_up(int fd, struct half *down)
{
	td_buf_reserve(&down->b, STEP + 1);
	ssize_t k = recv(fd, down->b.s + down->b.len, STEP, MSG_DONTWAIT);
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (k > 0)
		down->b.len += (size_t)k;
	else
		down->eof = true;
	return true;
}

static bool read_client(struct td_conn *c, struct half *up, const struct td_http_far *far, struct td_ws_seen *seen)
{
	td_buf_reserve(&up->b, STEP + 1);
	ssize_t k = td_conn_try_read(c, up->b.s + up->b.len, STEP);
	if (k == -EAGAIN)
		return false;
	if (k > 0 && far->heard && td_ws_seen_data(seen, up->b.s + up->b.len, (size_t)k))
		far->heard(far->ctx);
	if (k > 0)
		up->b.len += (size_t)k;
	else
		up->eof = true;
	return true;
}

static bool write_up(int fd, struct half *up)
{
	bool moved = false;
	if (!empty(up)) {
		ssize_t k = send(fd, up->b.s + up->off, up->b.len - up->off, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (k > 0)
			consume(up, (size_t)k);
		else if (errno != EAGAIN && errno != EINTR) {
			// The upstream does not listen any more, but may still talk.
			consume(up, up->b.len - up->off);
			up->eof = true;
		}
		moved = k > 0 || errno != EAGAIN;
	}

	if (up->eof && empty(up) && !up->shut) {
		shutdown(fd, SHUT_WR);
		up->shut = true;
	}
	return moved;
}

// Copies until everything that the upstream said is written, the client is gone, or the server
// stops. Returns false when the upstream said nothing.
static bool copy(struct td_http_x *x, int fd, const struct td_http_far *far, struct half *up, struct half *down,
		 bool upgrade)
{
	struct td_conn *c = x->c;
	struct td_ws_seen seen = {0};
	bool sniffed = false, forward = false;

	for (;;) {
		bool moved = false;
		if (far->stop && td_cancelled(far->stop)) {
			c->broken = x->state == TD_X_TAKEN;
			return c->broken;
		}
		if (!down->eof && (empty(down) || !sniffed))
			moved = read_up(fd, down);

		if (!sniffed && (down->b.len >= SNIFF || down->eof)) {
			if (!down->b.len)
				return false;
			sniffed = true;
			forward = upgrade && down->b.len >= SNIFF && memcmp(down->b.s, "HTTP/1.1 101", SNIFF) == 0;
		}

		if (sniffed && !empty(down)) {
			x->state = TD_X_TAKEN;
			ssize_t k = td_conn_try_write(c, down->b.s + down->off, down->b.len - down->off);
			if (k < 0 && k != -EAGAIN)
				return true;
			if (k > 0)
				consume(down, (size_t)k);
			moved = moved || k > 0;
		}

		if (forward && !up->eof && empty(up))
			moved = read_client(c, up, far, &seen) || moved;
		moved = write_up(fd, up) || moved;

		if (sniffed && down->eof && empty(down))
			return true;
		if (moved)
			continue;

		short to_client = 0, to_up = 0;
		if (forward && !up->eof && empty(up))
			to_client |= td_conn_read_events(c);
		if (!forward && !up->eof)
			to_client |= POLLRDHUP;
		if (sniffed && !empty(down))
			to_client |= POLLOUT;
		if (!down->eof && (empty(down) || !sniffed))
			to_up |= POLLIN;
		if (!empty(up))
			to_up |= POLLOUT;

		struct pollfd p[4] = {{c->fd, to_client, 0},
				      {to_up ? fd : -1, to_up, 0},
				      {td_cancel_fd(c->stop), POLLIN, 0},
				      {far->stop ? td_cancel_fd(far->stop) : -1, POLLIN, 0}};
		poll(p, TD_LEN(p), -1);

		if (p[2].revents || p[0].revents & (POLLERR | POLLHUP | POLLNVAL)) {
			x->state = TD_X_TAKEN;
			c->broken = c->broken || !p[2].revents;
			return true;
		}

		if (p[0].revents & POLLRDHUP)
			up->eof = true; // the other side sees it and ends
	}
}

// What a client asks to leave HTTP for; NULL: it does not. With somebody else's identity it is nothing that could be HTTP
// once more (h2c): each request in that would be his.
static const char *leaves_for(const struct td_http_x *x, const struct td_http_far *far)
{
	const char *upgrade = td_http_header(x, "Upgrade");
	if (!upgrade || !td_head_has_token(td_http_header(x, "Connection"), "upgrade"))
		return NULL;
	return !far->only || !strcasecmp(upgrade, "websocket") || !strcasecmp(upgrade, "SPDY/3.1") ? upgrade : NULL;
}

static void relay(struct td_http_x *x, int dialled, const struct td_http_far *far)
{
	td_auto_close int fd = dialled;
	const char *upgrade = leaves_for(x, far);

	struct half up = {0}, down = {0};
	bool said = false;

	if (fd >= 0) {
		put_request(x, far, upgrade, &up.b);
		said = copy(x, fd, far, &up, &down, upgrade != NULL);
	}

	td_buf_done(&up.b);
	td_buf_done(&down.b);

	if (!said) {
		static const char why[] = "the server behind this one does not answer";
		td_http_send(x, 502, "text/plain; charset=utf-8", why, sizeof(why) - 1);
	}
}

void td_http_relay(struct td_http_x *x, const char *unix_socket, const char *target)
{
	if (x->state == TD_X_FRESH)
		relay(x, dial(unix_socket), &(const struct td_http_far){.target = target});
}

void td_http_relay_to(struct td_http_x *x, const struct td_http_far *far)
{
	if (x->state == TD_X_FRESH)
		td_http_relay_on(x, td_http_far_dial(far->ip, far->port, 5), far);
}

void td_http_relay_on(struct td_http_x *x, int fd, const struct td_http_far *far)
{
	if (x->state == TD_X_FRESH)
		relay(x, fd, far);
	else if (fd >= 0)
		close(fd);
}
