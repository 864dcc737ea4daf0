// The server's end of a WebSocket. One thread receives (the handler's); any thread may send.
// A receive that is cancelled keeps its place: the next one continues in the middle of the frame.
#include "http/pki.h"
#include "http/server_priv.h"
#include "http/ws_frame.h"

#include <gnutls/crypto.h>
#include <string.h>
#include <strings.h>

enum { CLOSE_WAIT_MS = 1000, STEP = 16 * 1024, CONTROL_MAX = 125 };

struct td_ws {
	struct td_conn *c;
	int64_t write_ms;
	// Guards sent_close and the writing side of c; held while a frame goes out.
	pthread_mutex_t wlock;
	bool sent_close;
	// Used by the receiving thread only:
	bool got_close, in_frame;
	struct td_ws_frame f;
	uint64_t done;     // payload bytes of f that have been read
	int op;            // of a message that comes in parts; 0: none
	struct td_buf msg; // the bytes of that message so far
	char control[CONTROL_MAX];
};

struct td_ws *td_ws_free(struct td_ws *ws)
{
	if (!ws)
		return NULL;
	td_buf_done(&ws->msg);
	pthread_mutex_destroy(&ws->wlock);
	free(ws);
	return NULL;
}

static int turn_down(struct td_http_x *x, int status, const char *why, struct td_error *err)
{
	td_http_send(x, status, "text/plain; charset=utf-8", why, strlen(why));
	return td_fail(err, status == 403 ? TD_DENIED : TD_INVALID, "websocket: %s", why);
}

int td_ws_accept(struct td_http_x *x, const char *const *protocols, struct td_ws **ret, const char **ret_protocol,
		 struct td_error *err)
{
	const char *key = td_http_header(x, "Sec-WebSocket-Key"),
		   *offered = td_http_header(x, "Sec-WebSocket-Protocol");
	const char *version = td_http_header(x, "Sec-WebSocket-Version");

	if (x->state != TD_X_FRESH)
		return td_fail(err, TD_INTERNAL, "websocket: the reply was already sent");

	if (!td_streq(x->head.method, "GET") || x->head.minor != 1 || x->body.len ||
	    !td_head_has_token(td_http_header(x, "Upgrade"), "websocket") ||
	    !td_head_has_token(td_http_header(x, "Connection"), "upgrade") || !key || strlen(key) != 24)
		return turn_down(x, 400, "a WebSocket upgrade is needed here", err);

	if (!td_streq(version, "13")) {
		td_http_add_header(x, "Sec-WebSocket-Version", "13");
		return turn_down(x, 400, "WebSocket version 13 is needed", err);
	}

	const char *const *p = protocols;
	while (*p && !td_head_has_token(offered, *p))
		p++;
	if (!*p)
		return turn_down(x, 403, "none of the offered subprotocols is known", err);

	td_auto_free char *salted = td_asprintf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	unsigned char sum[20];
	if (gnutls_hash_fast(GNUTLS_DIG_SHA1, salted, strlen(salted), sum) < 0)
		return td_fail(err, TD_INTERNAL, "websocket: no SHA-1");

	td_auto_buf struct td_buf accept = {0}, b = {0};
	td_base64(&accept, sum, sizeof(sum));
	td_http_add_header(x, "Upgrade", "websocket");
	td_http_add_header(x, "Connection", "Upgrade");
	td_http_add_header(x, "Sec-WebSocket-Accept", accept.s);
	td_http_add_header(x, "Sec-WebSocket-Protocol", *p);
	td_http_reply_head(x, &b, 101, NULL);
	td_buf_puts(&b, "\r\n");

	x->state = TD_X_TAKEN;
	if (td_conn_write(x->c, b.s, b.len, x->s->o.write_ms, NULL) < 0)
		return td_fail(err, TD_NOT_FOUND, "websocket: the peer is gone");

	struct td_ws *ws = td_calloc(1, sizeof(*ws));
	ws->c = x->c;
	ws->write_ms = x->s->o.write_ms;
	pthread_mutex_init(&ws->wlock, NULL);
	x->ws = ws;

	*ret = ws;
	if (ret_protocol)
		*ret_protocol = *p;
	return 0;
}

static int send_frame(struct td_ws *ws, int op, const void *p, size_t n, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	uint8_t head[TD_WS_HEAD_MAX];
	td_buf_reserve(&b, n + sizeof(head));
	td_buf_add(&b, head, td_ws_frame_put(head, op, n));
	td_buf_add(&b, p, n);

	pthread_mutex_lock(&ws->wlock);
	int rc = ws->sent_close ? TD_NOT_FOUND : td_conn_write(ws->c, b.s, b.len, ws->write_ms, NULL);
	if (op == TD_WS_CLOSE)
		ws->sent_close = true;
	pthread_mutex_unlock(&ws->wlock);
	return rc < 0 ? td_fail(err, TD_NOT_FOUND, "websocket: the peer is gone or does not read") : 0;
}

static void send_close(struct td_ws *ws, int code)
{
	unsigned char p[2] = {(unsigned char)(code >> 8), (unsigned char)code};
	send_frame(ws, TD_WS_CLOSE, p, code ? 2 : 0, NULL);
}

static int broken(struct td_ws *ws, int code, const char *why, struct td_error *err)
{
	ws->got_close = true; // what follows cannot be read
	send_close(ws, code);
	return td_fail(err, TD_INVALID, "websocket: %s", why);
}

static int on_control(struct td_ws *ws, struct td_error *err)
{
	size_t n = (size_t)ws->f.len;
	if (ws->f.op == TD_WS_PING)
		return send_frame(ws, TD_WS_PONG, ws->control, n, err);
	if (ws->f.op == TD_WS_PONG)
		return 0;

	int code = n >= 2 ? (unsigned char)ws->control[0] << 8 | (unsigned char)ws->control[1] : 0;
	if (n == 1 || (n >= 2 && (!td_ws_close_code_valid(code) || !td_utf8_valid(ws->control + 2, n - 2))))
		return broken(ws, 1002, "bad close frame", err);

	ws->got_close = true;
	send_close(ws, code); // answers the peer's close; nothing is sent when theirs answers ours
	return td_fail(err, TD_NOT_FOUND, "websocket: closed by the peer (%d)", code);
}

// Checks whether the next frame, whose head is at hand, is allowed here.
static int check_frame(struct td_ws *ws, struct td_error *err)
{
	const struct td_ws_frame *f = &ws->f;
	if (f->op >= TD_WS_CLOSE)
		return 0;
	if (!f->op != !!ws->op)
		return broken(ws, 1002, f->op ? "a message inside another" : "a continuation of nothing", err);
	if (f->op)
		ws->op = f->op;
	if (f->len > TD_WS_MESSAGE_MAX || ws->msg.len > TD_WS_MESSAGE_MAX - f->len)
		return broken(ws, 1009, "message larger than 4 MiB", err);
	return 0;
}

// Takes payload bytes that were read ahead. Returns true when the frame is complete.
static bool take_payload(struct td_ws *ws)
{
	struct td_conn *c = ws->c;
	size_t have = c->in.len - c->in_off;
	uint64_t left = ws->f.len - ws->done;
	size_t n = have < left ? have : (size_t)left;
	if (n) {
		char *p = c->in.s + c->in_off;
		td_ws_mask(p, n, ws->f.mask, ws->done);
		if (ws->f.op >= TD_WS_CLOSE)
			memcpy(ws->control + ws->done, p, n);
		else
			td_buf_add(&ws->msg, p, n);
		c->in_off += n;
		ws->done += n;
	}
	return ws->done == ws->f.len;
}

int td_ws_recv(struct td_ws *ws, struct td_cancel *cancel, struct td_buf *ret, bool *ret_binary, struct td_error *err)
{
	struct td_conn *c = ws->c;
	for (;;) {
		if (ws->got_close)
			return td_fail(err, TD_NOT_FOUND, "websocket: closed");

		bool more = false;
		if (!ws->in_frame) {
			int n = c->in.len > c->in_off
					? td_ws_frame_head(c->in.s + c->in_off, c->in.len - c->in_off, &ws->f)
					: 0;
			if (n < 0)
				return broken(ws, 1002, "bad frame", err);
			more = n == 0;
			if (n) {
				c->in_off += (size_t)n;
				ws->done = 0;
				ws->in_frame = true;
				int rc = check_frame(ws, err);
				if (rc < 0)
					return rc;
			}
		}

		if (ws->in_frame && !(more = !take_payload(ws))) {
			ws->in_frame = false;
			if (ws->f.op >= TD_WS_CLOSE) {
				int rc = on_control(ws, err);
				if (rc < 0)
					return rc;
			} else if (ws->f.fin) {
				bool binary = ws->op == TD_WS_BINARY;
				ws->op = 0;
				if (!binary && !td_utf8_valid(td_buf_str(&ws->msg), ws->msg.len))
					return broken(ws, 1007, "text that is not UTF-8", err);
				td_buf_add(ret, td_buf_str(&ws->msg), ws->msg.len);
				if (ws->msg.cap > STEP)
					td_buf_done(&ws->msg);
				td_buf_reset(&ws->msg);
				if (ret_binary)
					*ret_binary = binary;
				return 0;
			}
		}

		if (!more)
			continue;

		size_t got = 0;
		int rc = td_conn_fill(c, STEP, TD_NEVER, cancel, &got);
		if (rc == TD_CANCELLED)
			return td_fail(err, TD_CANCELLED, "websocket: cancelled");

		if (rc < 0 || !got) {
			ws->got_close = true;
			return td_fail(err, TD_NOT_FOUND, "websocket: the peer is gone");
		}
	}
}

int td_ws_send(struct td_ws *ws, bool binary, const void *p, size_t n, struct td_error *err)
{
	return send_frame(ws, binary ? TD_WS_BINARY : TD_WS_TEXT, p, n, err);
}

void td_ws_close(struct td_ws *ws, int code)
{
	send_close(ws, td_ws_close_code_valid(code) ? code : code ? 1011 : 0);
	int64_t end = td_now() + CLOSE_WAIT_MS;
	while (!ws->got_close) { // frames before the peer's close are dropped
		struct td_conn *c = ws->c;

		int n = 0;
		if (!ws->in_frame && c->in.len > c->in_off)
			n = td_ws_frame_head(c->in.s + c->in_off, c->in.len - c->in_off, &ws->f);
		if (n < 0)
			return;

		if (n) {
			c->in_off += (size_t)n;
			ws->done = 0;
			ws->in_frame = true;
		}

		if (ws->in_frame && take_payload(ws)) {
			ws->in_frame = false;
			ws->got_close = ws->f.op == TD_WS_CLOSE;
			continue;
		}

		td_buf_reset(&ws->msg);
		size_t got = 0;
		if (td_conn_fill(c, STEP, end, NULL, &got) < 0 || !got)
			return;
	}
}
