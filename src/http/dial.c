// libcurl makes the connection (names, TLS, certificates), and lends it (CURLOPT_CONNECT_ONLY); what is
// said on it is ours. curl's handle is for one thread at a time and never blocks: `lock` is held for one
// call of it. `wlock` keeps frames whole, and is held while one goes out.
#include "http/dial.h"

#include "base/clock.h"
#include "base/rand.h"
#include "http/client_priv.h"
#include "http/pki.h"
#include "http/ws_frame.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

enum {
	ANSWER_MS = 30000, // for the other end's answer, or for room in its buffers
	PING_MS = 25000,   // what lies between often lets go of what says nothing for a minute
	HEAD_MAX = 64 * 1024,
	STEP = 32 * 1024,
};

struct td_ws_far {
	CURLM *multi;
	CURL *easy;
	int fd;
	pthread_mutex_t lock, wlock;
	bool said_close; // guarded by wlock
	// Of the receiving thread:
	struct td_buf in, msg;
	size_t off;
	int op; // of a message that comes in parts; 0: none
	bool over;
	int64_t end; // mono: nothing is waited for longer; < 0: no end
};

static int64_t now_ms(void)
{
	return td_mono_ms(&td_clock_system);
}

struct td_ws_far *td_ws_far_free(struct td_ws_far *w)
{
	if (!w)
		return NULL;
	if (w->easy && w->multi)
		curl_multi_remove_handle(w->multi, w->easy);
	curl_easy_cleanup(w->easy);
	curl_multi_cleanup(w->multi);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->wlock);
	td_buf_done(&w->in);
	td_buf_done(&w->msg);
	free(w);
	return NULL;
}

// Waits for the socket, until `end` (< 0: for ever). TD_THROTTLED: the time is over.
static int wait_for(const struct td_ws_far *w, short events, int64_t end, const struct td_cancel *cancel)
{
	int64_t left = end < 0 ? -1 : end - now_ms();
	if (td_cancelled(cancel))
		return TD_CANCELLED;
	if (end >= 0 && left <= 0)
		return TD_THROTTLED;
	struct pollfd p[2] = {{w->fd, events, 0}, {td_cancel_fd(cancel), POLLIN, 0}};
	poll(p, 2, (int)left);
	return td_cancelled(cancel) ? TD_CANCELLED : 0;
}

static int send_all(struct td_ws_far *w, const char *p, size_t n, const struct td_cancel *cancel, struct td_error *err)
{
	int64_t end = now_ms() + ANSWER_MS;
	while (n) {
		size_t k = 0;
		pthread_mutex_lock(&w->lock);
		CURLcode c = curl_easy_send(w->easy, p, n, &k);
		pthread_mutex_unlock(&w->lock);
		p += k;
		n -= k;
		if (k)
			end = now_ms() + ANSWER_MS;
		if (c != CURLE_OK && c != CURLE_AGAIN)
			return td_fail(err, TD_NOT_FOUND, "websocket: the other end is gone");
		int r = c == CURLE_AGAIN ? wait_for(w, POLLOUT, end, cancel) : 0;
		if (r)
			return td_fail(err, r == TD_CANCELLED ? r : TD_NOT_FOUND,
				       r == TD_CANCELLED ? "websocket: cancelled"
							 : "websocket: the other end takes nothing");
	}
	return 0;
}

// Appends what there is. TD_THROTTLED: nothing came until `end`.
static int fill(struct td_ws_far *w, int64_t end, const struct td_cancel *cancel, struct td_error *err)
{
	if (w->off == w->in.len)
		td_buf_reset(&w->in);
	else if (w->off > STEP) {
		memmove(w->in.s, w->in.s + w->off, w->in.len - w->off);
		w->in.len -= w->off;
	}
	if (w->off > STEP || !w->in.len)
		w->off = 0;
	td_buf_reserve(&w->in, STEP + 1);
	for (;;) {
		size_t k = 0;
		pthread_mutex_lock(&w->lock);
		CURLcode c = curl_easy_recv(w->easy, w->in.s + w->in.len, STEP, &k);
		pthread_mutex_unlock(&w->lock);
		if (c == CURLE_OK && k) {
			w->in.len += k;
			return 0;
		}
		if (c != CURLE_AGAIN)
			return td_fail(err, TD_NOT_FOUND, "websocket: the other end is gone");
		int r = wait_for(w, POLLIN, end, cancel);
		if (r)
			return td_fail(err, r, r == TD_CANCELLED ? "websocket: cancelled" : "websocket: no answer");
	}
}

// ---- the beginning ----

int td_http_client_connect(struct td_http_client *c, CURLM *multi, CURL *easy, struct td_cancel *cancel, int *ret_fd,
			   struct td_error *err)
{
	char why[CURL_ERROR_SIZE] = "";
	curl_socket_t fd = CURL_SOCKET_BAD;
	td_http_client_reach(c, easy, td_http_client_base(c), ANSWER_MS);
	curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	if (curl_multi_add_handle(multi, easy) != CURLM_OK)
		abort();
	int running = 1, left;
	while (curl_multi_perform(multi, &running) == CURLM_OK && running) {
		struct curl_waitfd also = {.fd = td_cancel_fd(cancel), .events = CURL_WAIT_POLLIN};
		if (td_cancelled(cancel))
			return td_fail(err, TD_CANCELLED, "%s: cancelled", td_http_client_base(c));
		curl_multi_poll(multi, &also, cancel ? 1 : 0, 1000, NULL);
	}
	CURLMsg *m = curl_multi_info_read(multi, &left);
	CURLcode res = m && m->msg == CURLMSG_DONE ? m->data.result : CURLE_FAILED_INIT;
	if (res == CURLE_OK)
		res = curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	if (res != CURLE_OK || fd == CURL_SOCKET_BAD)
		return td_fail(err, TD_TRANSIENT, "%s: %s", td_http_client_base(c),
			       why[0] ? why : curl_easy_strerror(res));
	*ret_fd = (int)fd;
	return 0;
}

static void ask(const struct td_ws_dial *d, const char *base, const char *auth, const char *key, struct td_buf *b)
{
	const char *host = strstr(base, "://") + 3, *prefix = strchr(host, '/');
	td_buf_printf(b, "GET %s%s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: tandem/" TD_VERSION "\r\n",
		      prefix ? prefix : "", d->path, (int)(prefix ? (size_t)(prefix - host) : strlen(host)), host);
	td_buf_printf(b,
		      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		      "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n",
		      key, d->protocol);
	if (auth)
		td_buf_printf(b, "%s\r\n", auth);
	for (const char *const *h = d->headers; h && *h; h++)
		td_buf_printf(b, "%s\r\n", *h);
	td_buf_puts(b, "\r\n");
}

static int shake_hands(struct td_ws_far *w, const struct td_ws_dial *d, struct td_http_client *c,
		       struct td_cancel *cancel, struct td_http_reply *refused, struct td_error *err)
{
	uint8_t random[16], sum[20];
	td_auto_buf struct td_buf key = {0}, accept = {0}, request = {0};
	td_auto_free char *auth = NULL;
	struct td_ws_answer a = {0};
	long head = 0;
	td_random(random, sizeof(random));
	td_base64(&key, random, sizeof(random));
	td_auto_free char *salted = td_asprintf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", td_buf_str(&key));
	if (gnutls_hash_fast(GNUTLS_DIG_SHA1, salted, strlen(salted), sum) < 0)
		return td_fail(err, TD_INTERNAL, "websocket: no SHA-1");
	td_base64(&accept, sum, sizeof(sum));
	int r = td_http_client_auth(c, &auth, err);
	if (r)
		return r;
	ask(d, td_http_client_base(c), auth, td_buf_str(&key), &request);
	r = send_all(w, td_buf_str(&request), request.len, cancel, err);
	int64_t end = now_ms() + ANSWER_MS;
	while (!r && !(head = td_ws_answer_read(td_buf_str(&w->in), w->in.len, td_buf_str(&accept), d->protocol, &a)) &&
	       w->in.len < HEAD_MAX)
		r = fill(w, end, cancel, err);
	if (r)
		return r == TD_CANCELLED ? r : td_fail(err, TD_TRANSIENT, "it does not answer");
	if (head <= 0)
		return td_fail(err, TD_INVALID, "what answers there speaks no WebSocket of %s", d->protocol);
	w->off = (size_t)head;
	if (a.status == 101)
		return 0;
	struct td_error gone = TD_ERROR_INIT; // the end of the connection is the end of the body
	size_t most = a.length >= 0 && a.length < HEAD_MAX ? (size_t)a.length : HEAD_MAX;
	while (w->in.len - w->off < most && !fill(w, end, cancel, &gone))
		;
	*refused = (struct td_http_reply){.status = a.status};
	td_buf_add(&refused->body, w->in.s + w->off, w->in.len - w->off < most ? w->in.len - w->off : most);
	return 0;
}

int td_ws_dial(struct td_http_client *c, const struct td_ws_dial *d, struct td_cancel *cancel, struct td_ws_far **ret,
	       struct td_http_reply *ret_refused, struct td_error *err)
{
	td_auto(td_ws_far_free) struct td_ws_far *w = td_calloc(1, sizeof(*w));
	w->end = -1;
	struct td_http_reply refused = {0};
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->wlock, NULL);
	w->easy = curl_easy_init();
	w->multi = curl_multi_init();
	if (!w->easy || !w->multi)
		abort();
	int r = td_http_client_connect(c, w->multi, w->easy, cancel, &w->fd, err);
	if (r)
		return r;
	if ((r = shake_hands(w, d, c, cancel, &refused, err)))
		return td_wrap(err, "%s%.80s", td_http_client_base(c), d->path);
	if (refused.status)
		*ret_refused = refused;
	else
		*ret = td_steal(w);
	return 0;
}

// ---- frames ----

static int send_frame(struct td_ws_far *w, int op, const void *p, size_t n, const struct td_cancel *cancel,
		      struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	uint8_t head[TD_WS_HEAD_MAX], mask[4];
	td_random(mask, sizeof(mask));
	size_t k = td_ws_frame_put(head, op, n);
	head[1] |= 128;
	td_buf_reserve(&b, n + sizeof(head) + sizeof(mask));
	td_buf_add(&b, head, k);
	td_buf_add(&b, mask, sizeof(mask));
	td_buf_add(&b, p, n);
	td_ws_mask(b.s + k + sizeof(mask), n, mask, 0);

	pthread_mutex_lock(&w->wlock);
	int r = w->said_close ? td_fail(err, TD_NOT_FOUND, "websocket: closed")
			      : send_all(w, td_buf_str(&b), b.len, cancel, err);
	if (r || op == TD_WS_CLOSE) // after a part of a frame, nothing else can be said
		w->said_close = true;
	pthread_mutex_unlock(&w->wlock);
	return r;
}

int td_ws_far_send(struct td_ws_far *w, const void *p, size_t n, struct td_cancel *cancel, struct td_error *err)
{
	return send_frame(w, TD_WS_BINARY, p, n, cancel, err);
}

static void say_close(struct td_ws_far *w, const struct td_cancel *cancel)
{
	static const uint8_t normal[2] = {1000 >> 8, 1000 & 255};
	send_frame(w, TD_WS_CLOSE, normal, sizeof(normal), cancel, NULL);
}

void td_ws_far_close(struct td_ws_far *w)
{
	say_close(w, NULL);
}

static int broken(struct td_ws_far *w, const char *why, const struct td_cancel *cancel, struct td_error *err)
{
	w->over = true;
	say_close(w, cancel);
	return td_fail(err, TD_INVALID, "websocket: %s", why);
}

static int control(struct td_ws_far *w, int op, const char *p, size_t n, const struct td_cancel *cancel,
		   struct td_error *err)
{
	if (op == TD_WS_PING)
		return send_frame(w, TD_WS_PONG, p, n, cancel, err);
	if (op == TD_WS_PONG)
		return 0;
	w->over = true;
	say_close(w, cancel);
	return td_fail(err, TD_NOT_FOUND, "websocket: closed by the other end");
}

// Takes a whole frame that has come. Returns 1 when it ends a message.
static int take(struct td_ws_far *w, const struct td_ws_frame *f, const struct td_cancel *cancel, struct td_error *err)
{
	const char *p = w->in.s + w->off;
	size_t n = (size_t)f->len;
	w->off += n;
	if (f->op >= TD_WS_CLOSE)
		return control(w, f->op, p, n, cancel, err);
	if (!f->op != !!w->op)
		return broken(w, "a message inside another", cancel, err);
	if (n > TD_WS_MESSAGE_MAX - w->msg.len)
		return broken(w, "message larger than 4 MiB", cancel, err);
	w->op = f->op ? f->op : w->op;
	td_buf_add(&w->msg, p, n);
	return f->fin ? 1 : 0;
}

void td_ws_far_within(struct td_ws_far *w, int ms)
{
	w->end = ms < 0 ? -1 : now_ms() + ms;
}

int td_ws_far_recv(struct td_ws_far *w, struct td_cancel *cancel, struct td_buf *ret, bool *ret_binary,
		   struct td_error *err)
{
	int64_t ping = now_ms() + PING_MS;
	while (!w->over) {
		struct td_ws_frame f;
		int head = w->in.len > w->off ? td_ws_frame_head_plain(w->in.s + w->off, w->in.len - w->off, &f) : 0, r;
		if (head < 0 || (head && f.len > TD_WS_MESSAGE_MAX))
			return broken(w, "bad frame, or one larger than 4 MiB", cancel, err);
		if (head && w->in.len - w->off - (size_t)head >= f.len) {
			w->off += (size_t)head;
			if ((r = take(w, &f, cancel, err)) < 0)
				return r;
			if (!r)
				continue;
			td_buf_add(ret, td_buf_str(&w->msg), w->msg.len);
			*ret_binary = w->op == TD_WS_BINARY;
			w->op = 0;
			td_buf_reset(&w->msg);
			return 0;
		}
		bool last = w->end >= 0 && w->end <= ping;
		r = fill(w, last ? w->end : ping, cancel, err);
		if (r == TD_THROTTLED && last)
			return td_fail(err, TD_TRANSIENT, "websocket: no answer in time");
		if (r == TD_THROTTLED) {
			r = send_frame(w, TD_WS_PING, "", 0, cancel, err);
			ping = now_ms() + PING_MS;
		}
		if (r)
			return r;
	}
	return td_fail(err, TD_NOT_FOUND, "websocket: closed");
}
