// Frames of a connection (RFC 9113).
#include "http/grpc_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION };
enum { ENDS = 1, ACK = 1, LAST = 4, PADDED = 8, PRIORITISED = 32 }; // flags
enum { FRAME = 16384, HEAD = 9, BLOCK_MAX = 64 << 10, GIVEN = 1 << 24, INITIAL_WINDOW = 4, WINDOW_FIRST = 65535 };
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE (sizeof(preface) - 1)

void td_h2_init(struct td_h2 *h, int fd, bool server)
{
	*h = (struct td_h2){
		.fd = fd, .server = server, .greeted = !server, .window = WINDOW_FIRST, .initial = WINDOW_FIRST};
}

void td_h2_forget(struct td_h2_stream *s)
{
	td_buf_done(&s->body);
	td_buf_done(&s->said);
	*s = (struct td_h2_stream){0};
}

void td_h2_done(struct td_h2 *h)
{
	for (size_t i = 0; i < TD_LEN(h->v); i++)
		td_h2_forget(&h->v[i]);
	td_hpack_done(&h->hpack);
	td_buf_done(&h->in);
	td_buf_done(&h->block);
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

struct td_h2_stream *td_h2_find(struct td_h2 *h, uint32_t id)
{
	for (size_t i = 0; id && i < TD_LEN(h->v); i++)
		if (h->v[i].id == id)
			return &h->v[i];
	return NULL;
}

struct td_h2_stream *td_h2_open(struct td_h2 *h, uint32_t id)
{
	for (size_t i = 0; i < TD_LEN(h->v); i++)
		if (!h->v[i].id) {
			h->v[i] = (struct td_h2_stream){.id = id, .window = h->initial, .status = -1};
			return &h->v[i];
		}
	return NULL;
}

// ---- what is sent ----

static void put32(unsigned char *p, uint32_t v)
{
	p[0] = (unsigned char)(v >> 24);
	p[1] = (unsigned char)(v >> 16);
	p[2] = (unsigned char)(v >> 8);
	p[3] = (unsigned char)v;
}

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int send_all(const struct td_h2 *h, const char *p, size_t n, struct td_error *err)
{
	while (n) {
		ssize_t k = send(h->fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return td_fail_errno(err, TD_TRANSIENT, errno, "gRPC: writing");
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

struct h2_frame {
	int type, flags;
	uint32_t id;
	const void *p;
	size_t len;
};

static int frame(const struct td_h2 *h, const struct h2_frame *f, struct td_error *err)
{
	unsigned char head[HEAD] = {(unsigned char)(f->len >> 16), (unsigned char)(f->len >> 8), (unsigned char)f->len,
				    (unsigned char)f->type, (unsigned char)f->flags};
	td_auto_buf struct td_buf b = {0};
	put32(head + 5, f->id);
	td_buf_add(&b, head, sizeof(head));
	td_buf_add(&b, f->p, f->len);
	return send_all(h, td_buf_str(&b), b.len, err);
}

static int window(const struct td_h2 *h, uint32_t more, struct td_error *err)
{
	unsigned char n[4];
	put32(n, more);
	return frame(h, &(struct h2_frame){WINDOW, 0, 0, n, sizeof(n)}, err);
}

int td_h2_greet(struct td_h2 *h, struct td_error *err)
{
	unsigned char settings[6] = {0, INITIAL_WINDOW};
	put32(settings + 2, GIVEN);
	int r = h->server ? 0 : send_all(h, preface, PREFACE, err);
	if (!r)
		r = frame(h, &(struct h2_frame){SETTINGS, 0, 0, settings, sizeof(settings)}, err);
	return r ? r : window(h, GIVEN, err);
}

static void text(struct td_buf *b, const char *s)
{
	size_t n = strlen(s);
	td_buf_putc(b, (char)(n < 127 ? n : 127));
	for (size_t left = n - 127; n >= 127; left >>= 7) {
		td_buf_putc(b, (char)(left > 127 ? left | 128 : left));
		if (left <= 127)
			break;
	}
	td_buf_puts(b, s);
}

void td_h2_header(struct td_buf *b, const char *name, const char *value)
{
	td_buf_putc(b, 0);
	text(b, name);
	text(b, value);
}

int td_h2_headers(struct td_h2 *h, uint32_t id, const struct td_buf *block, bool ends, struct td_error *err)
{
	return frame(h, &(struct h2_frame){HEADERS, LAST | (ends ? ENDS : 0), id, td_buf_str(block), block->len}, err);
}

int td_h2_message(struct td_h2 *h, struct td_h2_stream *s, const void *p, size_t len, bool ends, struct td_error *err)
{
	unsigned char head[5] = {0};
	td_auto_buf struct td_buf b = {0};
	put32(head + 1, (uint32_t)len);
	td_buf_add(&b, head, sizeof(head));
	td_buf_add(&b, p, len);
	if ((long long)b.len > h->window || (long long)b.len > s->window)
		return td_fail(err, TD_INVALID, "gRPC: %zu bytes are more than the other end lets us send now", b.len);
	h->window -= (long long)b.len;
	s->window -= (long long)b.len;
	for (size_t at = 0; at < b.len; at += FRAME) {
		size_t n = b.len - at < FRAME ? b.len - at : FRAME;
		int flags = ends && at + n == b.len ? ENDS : 0, r;
		if ((r = frame(h, &(struct h2_frame){DATA, flags, s->id, b.s + at, n}, err)))
			return r;
	}
	return 0;
}

// ---- what comes ----

static int wrong(struct td_error *err, const char *what)
{
	return td_fail(err, TD_INVALID, "HTTP/2: %s", what);
}

static void field(void *ctx, const char *name, const char *value)
{
	struct td_h2_stream *s = ctx;
	long long n;
	if (!s)
		return;
	if (!strcmp(name, ":path"))
		snprintf(s->method, sizeof(s->method), "%s", value);
	else if (!strcmp(name, "grpc-status") && td_parse_i64(value, &n))
		s->status = (int)(n & 255);
	else if (!strcmp(name, "grpc-message"))
		snprintf(s->message, sizeof(s->message), "%s", value);
}

static int headers(struct td_h2 *h, struct td_error *err)
{
	struct td_h2_stream *s = td_h2_find(h, h->block_of);
	if (!s && h->server) {
		s = td_h2_open(h, h->block_of);
		if (!s)
			return wrong(err, "too many calls at once");
	}
	int r = td_hpack_read(&h->hpack, td_buf_str(&h->block), h->block.len, field, s, err);
	if (s) {
		s->headers = true;
		s->ended |= h->block_ends;
	}
	h->block_of = 0;
	td_buf_reset(&h->block);
	return r;
}

// Without its padding and its priority.
static int inside(struct h2_frame *f, struct td_error *err)
{
	const unsigned char *p = f->p;
	size_t pad = 0, skip = 0;
	if (f->flags & PADDED) {
		pad = f->len ? *p : 0;
		skip = 1;
	}
	if (f->type == HEADERS && f->flags & PRIORITISED)
		skip += 5;
	if (skip + pad > f->len)
		return wrong(err, "a frame's padding");
	f->p = p + skip;
	f->len -= skip + pad;
	return 0;
}

static int settings(struct td_h2 *h, const struct h2_frame *f, struct td_error *err)
{
	const unsigned char *p = f->p;
	if (f->flags & ACK)
		return 0;
	for (size_t i = 0; i + 6 <= f->len; i += 6) {
		if (((unsigned)p[i] << 8 | p[i + 1]) != INITIAL_WINDOW)
			continue;
		long long now = get32(p + i + 2);
		if (now > INT32_MAX)
			return wrong(err, "a window");
		for (size_t k = 0; k < TD_LEN(h->v); k++)
			h->v[k].window += now - h->initial;
		h->initial = now;
	}
	return frame(h, &(struct h2_frame){SETTINGS, ACK, 0, NULL, 0}, err);
}

static int data(struct td_h2 *h, const struct h2_frame *f, size_t whole, struct td_error *err)
{
	struct td_h2_stream *s = td_h2_find(h, f->id);
	if (s && s->body.len + f->len > TD_GRPC_MESSAGE + 5)
		return wrong(err, "a message that is too large");
	if (s) {
		td_buf_add(&s->body, f->p, f->len);
		s->ended |= f->flags & ENDS;
	}
	return whole ? window(h, (uint32_t)whole, err) : 0;
}

static int take(struct td_h2 *h, struct h2_frame *f, struct td_error *err)
{
	size_t whole = f->len;
	struct td_h2_stream *s;
	int r = f->type == DATA || f->type == HEADERS ? inside(f, err) : 0;
	if (r)
		return r;
	if (h->block_of && (f->type != CONTINUATION || f->id != h->block_of))
		return wrong(err, "headers that do not go on");
	switch (f->type) {
	case DATA:
		return data(h, f, whole, err);
	case HEADERS:
		if (!f->id)
			return wrong(err, "headers of no call");
		h->block_of = f->id;
		h->block_ends = f->flags & ENDS;
		__attribute__((fallthrough));
	case CONTINUATION:
		if (!h->block_of || h->block.len + f->len > BLOCK_MAX)
			return wrong(err, "headers that are too long");
		td_buf_add(&h->block, f->p, f->len);
		return f->flags & LAST ? headers(h, err) : 0;
	case RESET:
		if ((s = td_h2_find(h, f->id)) && h->server)
			td_h2_forget(s);
		else if (s)
			s->ended = true;
		return 0;
	case SETTINGS:
		return settings(h, f, err);
	case PING:
		return f->flags & ACK || f->len != 8 ? 0 : frame(h, &(struct h2_frame){PING, ACK, 0, f->p, 8}, err);
	case WINDOW:
		s = td_h2_find(h, f->id);
		if (f->len == 4 && !f->id)
			h->window += get32(f->p) & INT32_MAX;
		else if (f->len == 4 && s)
			s->window += get32(f->p) & INT32_MAX;
		return 0;
	default: // what is not known says nothing (RFC 9113 5.5); after GOAWAY the other end closes
		return 0;
	}
}

int td_h2_take(struct td_h2 *h, struct td_error *err)
{
	char part[16384];
	ssize_t n = recv(h->fd, part, sizeof(part), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n ? td_fail_errno(err, TD_TRANSIENT, errno, "gRPC: reading")
			 : td_fail(err, TD_TRANSIENT, "gRPC: the other end closed the connection");
	td_buf_add(&h->in, part, (size_t)n);
	size_t at = 0;
	if (!h->greeted) {
		size_t k = h->in.len < PREFACE ? h->in.len : PREFACE;
		if (memcmp(h->in.s, preface, k) != 0)
			return wrong(err, "the other end speaks something else");
		if (k < PREFACE)
			return 0;
		h->greeted = true;
		at = PREFACE;
	}
	int r = 0;
	while (!r && h->in.len - at >= HEAD) {
		const unsigned char *p = (const unsigned char *)h->in.s + at;
		size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
		if (len > FRAME) // as we did not allow more
			return wrong(err, "a frame that is too large");
		if (h->in.len - at < HEAD + len)
			break;
		struct h2_frame f = {p[3], p[4], get32(p + 5) & INT32_MAX, p + HEAD, len};
		r = take(h, &f, err);
		at += HEAD + len;
	}
	memmove(h->in.s, h->in.s + at, h->in.len - at);
	h->in.len -= at;
	return r;
}
