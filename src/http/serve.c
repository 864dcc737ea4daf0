// One connection of the server: its requests one after the other. Each is read whole before its
// handler runs.
#include "http/server_priv.h"

#include <string.h>

enum { TRAILER_MAX = 8 * 1024, LINGER_MS = 1000 };

// Answers a request that could not be read, and ends the connection.
static bool refuse(struct td_http_x *x, int status, const char *why)
{
	x->keep_alive = false;
	if (x->s->o.refused)
		x->s->o.refused(x, status, why, x->s->o.ctx);
	else
		td_http_send(x, status, "text/plain; charset=utf-8", why, strlen(why));
	return false;
}

// Reads the head of the next request. Returns 0, or anything else when the connection is over; an
// answer, where one is due, has been sent then.
static int read_head(struct td_http_x *x, bool first)
{
	struct td_conn *c = x->c;
	int64_t deadline = td_now() + (first ? x->s->o.header_ms : x->s->o.idle_ms);
	bool begun = false;
	for (;;) {
		while (!begun && c->in.len - c->in_off >= 2 && memcmp(c->in.s + c->in_off, "\r\n", 2) == 0)
			c->in_off += 2; // RFC 9112 §2.2: ignore empty lines in front

		size_t have = c->in.len - c->in_off;
		if (have && !begun) {
			begun = true;
			deadline = td_now() + x->s->o.header_ms;
		}

		size_t n = have ? td_head_find(c->in.s + c->in_off, have < TD_HEAD_MAX ? have : TD_HEAD_MAX) : 0;
		if (n) {
			const char *why = "bad request";
			int status = td_head_parse(c->in.s + c->in_off, n, &x->head, &why);
			c->in_off += n;
			if (status)
				refuse(x, status, why);
			return status;
		}

		if (have >= TD_HEAD_MAX) {
			refuse(x, 431, "request head too large");
			return 431;
		}

		size_t got = 0;
		int rc = td_conn_fill(c, TD_HEAD_MAX, deadline, NULL, &got);
		if (rc == TD_EXPIRED && begun)
			refuse(x, 408, "request head too slow");
		if (rc < 0 || !got) {
			if (rc == 0 || rc == TD_NOT_FOUND)
				c->broken = true; // nobody is there to say goodbye to
			return -1;
		}
	}
}

// Reads at least one more byte into c->in. Returns 0, or the HTTP status to answer (-1: none).
static int more(struct td_http_x *x, size_t max, int64_t deadline)
{
	size_t got;
	int rc = td_conn_fill(x->c, max ? max : 1, deadline, NULL, &got);
	return rc == TD_EXPIRED ? 408 : rc < 0 || !got ? -1 : 0;
}

static int read_sized(struct td_http_x *x, uint64_t length, int64_t deadline)
{
	struct td_conn *c = x->c;
	while (length) {
		size_t have = c->in.len - c->in_off;
		if (!have) {
			int rc = more(x, length < 65536 ? (size_t)length : 65536, deadline);
			if (rc)
				return rc;
			continue;
		}

		size_t n = have < length ? have : (size_t)length;
		td_buf_add(&x->body, c->in.s + c->in_off, n);
		c->in_off += n;
		length -= n;
	}
	return 0;
}

static int read_chunked(struct td_http_x *x, int64_t deadline)
{
	struct td_conn *c = x->c;

	for (;;) {
		uint64_t size = 0;
		int n, rc;

		while ((n = td_chunk_line(c->in.s ? c->in.s + c->in_off : "", c->in.len - c->in_off, &size)) == 0)
			if ((rc = more(x, 4096, deadline)) != 0)
				return rc;
		if (n < 0)
			return 400;
		c->in_off += (size_t)n;

		if (!size)
			break;
		if (size > x->s->o.max_body - x->body.len)
			return 413;
		if ((rc = read_sized(x, size, deadline)) != 0)
			return rc;

		while (c->in.len - c->in_off < 2)
			if ((rc = more(x, 4096, deadline)) != 0)
				return rc;
		if (memcmp(td_buf_str(&c->in) + c->in_off, "\r\n", 2) != 0)
			return 400;
		c->in_off += 2;
	}

	for (size_t total = 0;;) { // trailers are dropped
		size_t have = c->in.len - c->in_off;
		const char *p = c->in.s + c->in_off, *e = memmem(p, have, "\r\n", 2);
		size_t n = e ? (size_t)(e - p) + 2 : 0;
		c->in_off += n;
		total += n;

		if (e == p)
			return 0;

		if (total + (e ? 0 : have) > TRAILER_MAX)
			return 431;

		int rc = e ? 0 : more(x, 4096, deadline);
		if (rc)
			return rc;
	}
}

static bool read_body(struct td_http_x *x)
{
	struct td_head *h = &x->head;
	if (h->length > x->s->o.max_body)
		return refuse(x, 413, "request body too large");

	bool any = h->chunked || h->length;
	if (any && h->expect_continue && x->c->in.len == x->c->in_off) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
		if (td_conn_write(x->c, go_on, sizeof(go_on) - 1, x->s->o.write_ms, NULL) < 0)
			return false;
	}

	int64_t deadline = td_now() + x->s->o.body_ms;
	int rc = h->chunked ? read_chunked(x, deadline) : any ? read_sized(x, h->length, deadline) : 0;
	switch (rc) {
	case 0:
		return true;
	case 400:
		return refuse(x, 400, "bad chunk");
	case 408:
		return refuse(x, 408, "request body too slow");
	case 413:
		return refuse(x, 413, "request body too large");
	case 431:
		return refuse(x, 431, "trailers too large");
	default:
		x->c->broken = true;
		return false;
	}
}

// Finishes what the handler left open. Returns true when another request may follow.
static bool conclude(struct td_http_x *x)
{
	switch (x->state) {
	case TD_X_FRESH:
		td_http_send(x, 500, "text/plain; charset=utf-8", "no reply", 8);
		return x->keep_alive;
	case TD_X_SENT:
		return x->keep_alive;
	case TD_X_STREAM:
		if (x->chunked && !x->head_only && td_conn_write(x->c, "0\r\n\r\n", 5, x->s->o.write_ms, NULL) < 0)
			return false;
		if (x->sized && x->left && !x->head_only)
			return false; // the reader sees that there should be more
		return x->keep_alive && (x->chunked || x->sized || x->head_only);
	case TD_X_PUSH:
	case TD_X_TAKEN:
		return false;
	}
	return false;
}

bool td_serve(struct td_worker *w)
{
	struct td_http_server *s = w->s;
	struct td_conn *c = w->conn;

	if (s->tls && c->peer_uid < 0 && td_tls_accept(s->tls, c, td_now() + s->o.header_ms) < 0)
		return true;

	bool go_on = true, pushed = false;
	for (bool first = true; go_on; first = false) {
		struct td_http_x x = {.s = s, .w = w, .c = c};
		__atomic_store_n(&w->waits_since, td_now(), __ATOMIC_RELAXED);
		go_on = read_head(&x, first) == 0;
		if (go_on) {
			x.keep_alive = x.head.keep_alive;
			x.head_only = strcmp(x.head.method, "HEAD") == 0;
			go_on = read_body(&x);
		}

		__atomic_store_n(&w->waits_since, 0, __ATOMIC_RELAXED);
		if (go_on) {
			s->o.handler(&x, s->o.ctx);
			go_on = conclude(&x);
		}

		go_on = go_on && !c->broken && !td_cancelled(s->stop);
		struct td_http_push_handle *push = x.push;
		td_http_x_done(&x); // takes the connection out of the pump's watch
		if (push) {
			pushed = true;
			pthread_mutex_lock(&s->lock);
			w->conn = NULL;
			pthread_mutex_unlock(&s->lock);
			td_push_attach(push, c);
		}
	}

	if (!pushed && !__atomic_load_n(&w->sent_away, __ATOMIC_RELAXED))
		td_conn_finish(c, LINGER_MS);
	return !pushed;
}
