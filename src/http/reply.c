// One exchange as its handler sees it: the parts of the request, whole replies, streams, and the
// hand-over to the pump.
#include "http/server_priv.h"

#include "base/clock.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

void td_http_x_done(struct td_http_x *x)
{
	td_ws_free(x->ws);
	pthread_mutex_lock(&x->s->lock);
	struct td_cancel *cancel = x->w->cancel;
	x->w->cancel = NULL;
	pthread_mutex_unlock(&x->s->lock);

	if (cancel)
		td_pump_unwatch(x->s->pump, x->c->fd);
	td_cancel_unref(cancel);

	td_head_done(&x->head);
	td_buf_done(&x->body);
	td_buf_done(&x->extra);
	td_strv_done(&x->decoded);
}

const char *td_http_method(const struct td_http_x *x)
{
	return x->head.method;
}

const char *td_http_path(const struct td_http_x *x)
{
	return x->head.path;
}

const char *td_http_target(const struct td_http_x *x)
{
	return x->head.target;
}

const char *td_http_header(const struct td_http_x *x, const char *name)
{
	return td_head_get(&x->head, name);
}

bool td_http_header_at(const struct td_http_x *x, size_t i, const char **ret_name, const char **ret_value)
{
	if (i >= (size_t)x->head.n)
		return false;
	*ret_name = x->head.h[i].name;
	*ret_value = x->head.h[i].value;
	return true;
}

// Returns the next decoded value of `name` in the query at *q and moves *q on; NULL at the end. The
// caller frees the value.
static char *next_value(const char **q, const char *name)
{
	while (**q) {
		const char *p = *q;
		size_t n = strcspn(p, "&"), key = strcspn(p, "=&");
		*q = p + n + (p[n] == '&');
		td_auto_free char *k = td_url_decode(p, key, true);
		if (td_streq(k, name)) // "name" without "=" has the empty value
			return key < n ? td_url_decode(p + key + 1, n - key - 1, true) : td_strdup("");
	}
	return NULL;
}

const char *td_http_query(const struct td_http_x *cx, const char *name)
{
	// Casting const away is safe: x keeps what it hands out, and one thread only uses it.
	struct td_http_x *x = (struct td_http_x *)cx;
	const char *q = x->head.query;
	char *v = next_value(&q, name);
	if (v)
		td_strv_steal(&x->decoded, v);
	return v;
}

void td_http_query_all(const struct td_http_x *x, const char *name, struct td_strv *ret)
{
	const char *q = x->head.query;
	for (char *v; (v = next_value(&q, name));)
		td_strv_steal(ret, v);
}

const char *td_http_body(const struct td_http_x *x, size_t *ret_len)
{
	if (ret_len)
		*ret_len = x->body.len;
	return td_buf_str(&x->body);
}

const char *td_http_peer_cn(const struct td_http_x *x)
{
	return x->c->peer_cn;
}

const struct td_strv *td_http_peer_orgs(const struct td_http_x *x)
{
	return &x->c->peer_orgs;
}

int td_http_peer_uid(const struct td_http_x *x)
{
	return x->c->peer_uid;
}

struct td_cancel *td_http_cancel(struct td_http_x *x)
{
	if (x->w->cancel)
		return x->w->cancel;
	struct td_cancel *c = td_cancel_new();
	td_pump_watch(x->s->pump, x->c->fd, c);
	pthread_mutex_lock(&x->s->lock);
	x->w->cancel = c;
	if (td_cancelled(x->s->stop))
		td_cancel_fire(c);
	pthread_mutex_unlock(&x->s->lock);
	return c;
}

// ---- replies ----

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} t[] = {{100, "Continue"},
		 {101, "Switching Protocols"},
		 {200, "OK"},
		 {201, "Created"},
		 {202, "Accepted"},
		 {204, "No Content"},
		 {206, "Partial Content"},
		 {301, "Moved Permanently"},
		 {302, "Found"},
		 {304, "Not Modified"},
		 {307, "Temporary Redirect"},
		 {400, "Bad Request"},
		 {401, "Unauthorized"},
		 {403, "Forbidden"},
		 {404, "Not Found"},
		 {405, "Method Not Allowed"},
		 {406, "Not Acceptable"},
		 {408, "Request Timeout"},
		 {409, "Conflict"},
		 {410, "Gone"},
		 {413, "Content Too Large"},
		 {415, "Unsupported Media Type"},
		 {417, "Expectation Failed"},
		 {422, "Unprocessable Content"},
		 {429, "Too Many Requests"},
		 {431, "Request Header Fields Too Large"},
		 {500, "Internal Server Error"},
		 {501, "Not Implemented"},
		 {502, "Bad Gateway"},
		 {503, "Service Unavailable"},
		 {504, "Gateway Timeout"},
		 {505, "HTTP Version Not Supported"}};

	for (size_t i = 0; i < TD_LEN(t); i++)
		if (t[i].status == status)
			return t[i].text;
	return "Status";
}

// Replaces line breaks, so that nobody can inject a header.
static void put_clean(struct td_buf *b, const char *s)
{
	for (; *s; s++)
		td_buf_putc(b, (unsigned char)*s < 0x20 || *s == 0x7f ? ' ' : *s);
}

void td_http_add_header(struct td_http_x *x, const char *name, const char *value)
{
	put_clean(&x->extra, name);
	td_buf_puts(&x->extra, ": ");
	put_clean(&x->extra, value);
	td_buf_puts(&x->extra, "\r\n");
}

void td_http_reply_head(struct td_http_x *x, struct td_buf *b, int status, const char *content_type)
{
	char date[64];
	struct tm tm;
	time_t t = (time_t)(td_real_ms(&td_clock_system) / 1000);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &tm));

	td_buf_printf(b, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, reason(status), date);

	if (content_type) {
		td_buf_puts(b, "Content-Type: ");
		put_clean(b, content_type);
		td_buf_puts(b, "\r\n");
	}

	if (td_cancelled(x->s->stop))
		x->keep_alive = false;
	if (status != 101 && !x->keep_alive)
		td_buf_puts(b, "Connection: close\r\n");
	else if (status != 101 && x->head.minor == 0)
		td_buf_puts(b, "Connection: keep-alive\r\n");

	td_buf_add(b, td_buf_str(&x->extra), x->extra.len);
}

static bool has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

void td_http_send(struct td_http_x *x, int status, const char *content_type, const void *body, size_t len)
{
	if (x->state != TD_X_FRESH)
		return; // the first reply stands

	x->state = TD_X_SENT;
	td_auto_buf struct td_buf b = {0};
	td_http_reply_head(x, &b, status, content_type);
	if (has_body(status))
		td_buf_printf(&b, "Content-Length: %zu\r\n", len);
	td_buf_puts(&b, "\r\n");

	// A small reply goes out in one write.
	bool with = has_body(status) && !x->head_only && len, one = with && len <= 64 * 1024;
	if (one)
		td_buf_add(&b, body, len);

	if (td_conn_write(x->c, b.s, b.len, x->s->o.write_ms, NULL) < 0 ||
	    (with && !one && td_conn_write(x->c, body, len, x->s->o.write_ms, NULL) < 0))
		x->keep_alive = false;
}

// Starts a reply of unknown length and decides how it is framed.
static void stream_head(struct td_http_x *x, struct td_buf *b, int status, const char *content_type)
{
	x->chunked = x->head.minor == 1;
	if (!x->chunked)
		x->keep_alive = false;
	td_http_reply_head(x, b, status, content_type);
	td_buf_puts(b, x->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
}

int td_http_stream_begin(struct td_http_x *x, int status, const char *content_type, struct td_error *err)
{
	if (x->state != TD_X_FRESH)
		return td_fail(err, TD_INTERNAL, "HTTP stream: the reply was already sent");
	x->state = TD_X_STREAM;
	td_auto_buf struct td_buf b = {0};
	stream_head(x, &b, status, content_type);
	if (td_conn_write(x->c, b.s, b.len, x->s->o.write_ms, NULL) < 0)
		return td_fail(err, TD_NOT_FOUND, "HTTP stream: the peer is gone");
	return 0;
}

int td_http_stream_sized(struct td_http_x *x, const char *content_type, uint64_t length, struct td_error *err)
{
	if (x->state != TD_X_FRESH)
		return td_fail(err, TD_INTERNAL, "HTTP stream: the reply was already sent");
	x->state = TD_X_STREAM;
	x->sized = true;
	x->left = length;
	td_auto_buf struct td_buf b = {0};
	td_http_reply_head(x, &b, 200, content_type);
	td_buf_printf(&b, "Content-Length: %" PRIu64 "\r\n\r\n", length);
	if (td_conn_write(x->c, b.s, b.len, x->s->o.write_ms, NULL) < 0)
		return td_fail(err, TD_NOT_FOUND, "HTTP stream: the peer is gone");
	return 0;
}

int td_http_stream_write(struct td_http_x *x, const void *p, size_t n, struct td_error *err)
{
	if (x->state != TD_X_STREAM)
		return td_fail(err, TD_INTERNAL, "HTTP stream: not begun");
	if (x->head_only || !n)
		return 0;
	if (x->sized && n > x->left)
		return td_fail(err, TD_INTERNAL, "HTTP stream: it is longer than was said");
	if (td_conn_peer_gone(x->c))
		x->c->broken = true;

	int rc;
	if (!x->chunked) {
		rc = td_conn_write(x->c, p, n, x->s->o.write_ms, td_http_cancel(x));
		x->left -= x->sized && rc >= 0 ? n : 0;
	} else {
		td_auto_buf struct td_buf b = {0};
		td_buf_reserve(&b, n + 32);
		td_buf_printf(&b, "%zx\r\n", n);
		td_buf_add(&b, p, n);
		td_buf_puts(&b, "\r\n");
		rc = td_conn_write(x->c, b.s, b.len, x->s->o.write_ms, td_http_cancel(x));
	}

	return rc < 0 ? td_fail(err, TD_NOT_FOUND, "HTTP stream: the peer is gone or does not read") : 0;
}

void td_http_stream_cut(struct td_http_x *x)
{
	x->c->broken = true;
	x->keep_alive = false;
}

struct td_http_push_handle *td_http_push(struct td_http_x *x, int status, const char *content_type,
					 const struct td_http_push *p)
{
	td_auto_buf struct td_buf b = {0};
	bool late = x->state != TD_X_FRESH, full = td_pump_full(x->s->pump);
	x->state = TD_X_PUSH;
	x->keep_alive = false; // the connection ends with the stream

	if (full) {
		td_http_add_header(x, "Retry-After", "1");
		td_http_reply_head(x, &b, 503, NULL);
		td_buf_puts(&b, "Content-Length: 0\r\n\r\n");
	} else if (!late) {
		stream_head(x, &b, status, content_type);
	}

	x->push = td_push_new(x->s->pump, p, &b, x->chunked, full || late || x->head_only);
	return x->push;
}
