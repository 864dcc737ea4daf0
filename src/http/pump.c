// The pump's thread, its table of connections, and pushed replies.
//
// Invariants: only the pump's thread touches a connection in the pump. No callback runs under
// `lock`. An event carries the fd and a generation, so an event that was fetched before its
// connection went away is recognised as stale.
#include "http/pump.h"

#include "base/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

enum { BATCH = 64, DISCARD_MAX = 64 * 1024, BUF_KEEP = 4096, ROUNDS_MAX = 16 };

struct td_http_push_handle {
	struct td_pump *p;
	struct td_conn *c; // the pump's, from attach on
	struct td_http_push push;
	bool chunked, ended;
	bool want_out; // EPOLLOUT is asked for
	uint32_t gen;
	size_t discarded;  // bytes from a peer that should not send any
	struct td_buf out; // unsent: out.s[off .. out.len)
	size_t off;
	int woken;                                 // atomic
	bool attached, queued;                     // guarded by p->lock
	struct td_http_push_handle *prev, *next;   // in p->queue; guarded by p->lock
	int64_t end_at, stall_at;                  // TD_NEVER: none
	struct td_heap_node timer;                 // at the earlier of end_at and stall_at
	struct td_http_push_handle *lprev, *lnext; // in p->live
};

struct pump_entry {
	uint32_t gen;
	struct td_cancel *cancel;      // watched for a handler …
	struct td_http_push_handle *h; // … or pushed
};

struct td_pump {
	int ep, wake_fd, max;
	int64_t write_ms;
	pthread_t thread;
	bool stop;            // atomic
	int n_push;           // atomic: number of existing handles
	pthread_mutex_t lock; // guards v, n, gen, queue
	struct pump_entry *v; // by fd
	size_t n;
	uint32_t gen;
	struct td_http_push_handle *queue;
	// Used by the pump's thread only:
	struct td_http_push_handle *live;
	struct td_heap timers;
};

static void kick(struct td_pump *p)
{
	uint64_t one = 1;
	(void)!write(p->wake_fd, &one, sizeof(one));
}

// ---- the table by fd ----

static uint32_t enter(struct td_pump *p, int fd, struct td_cancel *cancel, struct td_http_push_handle *h,
		      uint32_t events)
{
	pthread_mutex_lock(&p->lock);
	if ((size_t)fd >= p->n) {
		size_t n = (size_t)fd * 2 + 64;
		p->v = td_realloc(p->v, n * sizeof(*p->v));
		memset(p->v + p->n, 0, (n - p->n) * sizeof(*p->v));
		p->n = n;
	}

	uint32_t gen = ++p->gen ? p->gen : ++p->gen; // never 0
	p->v[fd] = (struct pump_entry){.gen = gen, .cancel = td_cancel_ref(cancel), .h = h};
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)gen << 32 | (uint32_t)fd};
	if (epoll_ctl(p->ep, EPOLL_CTL_ADD, fd, &e) < 0)
		abort(); // ENOMEM, or a bug
	pthread_mutex_unlock(&p->lock);

	return gen;
}

static void leave(struct td_pump *p, int fd)
{
	pthread_mutex_lock(&p->lock);
	epoll_ctl(p->ep, EPOLL_CTL_DEL, fd, NULL);
	struct td_cancel *c = p->v[fd].cancel;
	p->v[fd] = (struct pump_entry){0};
	pthread_mutex_unlock(&p->lock);
	td_cancel_unref(c);
}

void td_pump_watch(struct td_pump *p, int fd, struct td_cancel *cancel)
{
	enter(p, fd, cancel, NULL, EPOLLRDHUP | EPOLLONESHOT);
}

void td_pump_unwatch(struct td_pump *p, int fd)
{
	leave(p, fd);
}

static void enqueue(struct td_http_push_handle *h, struct td_conn *attach)
{
	struct td_pump *p = h->p;
	pthread_mutex_lock(&p->lock);

	bool first = !p->queue;
	if (attach) {
		h->c = attach;
		h->attached = true;
	}
	if (!h->queued) {
		h->queued = true;
		DL_APPEND(p->queue, h);
	}

	// Wake the thread under the lock: once the lock is released, the pump may close and free
	// the push.
	if (first)
		kick(p);
	pthread_mutex_unlock(&p->lock);
}

// ---- pushed replies ----

static void close_push(struct td_pump *p, struct td_http_push_handle *h)
{
	leave(p, h->c->fd);
	td_heap_remove(&p->timers, &h->timer);
	DL_DELETE2(p->live, h, lprev, lnext);

	td_conn_free(h->c);
	if (h->push.closed)
		// Until closed() returns, others may still wake this push.
		h->push.closed(h->push.ctx);

	pthread_mutex_lock(&p->lock);
	if (h->queued)
		DL_DELETE(p->queue, h);
	pthread_mutex_unlock(&p->lock);

	td_buf_done(&h->out);
	free(h);
	__atomic_sub_fetch(&p->n_push, 1, __ATOMIC_ACQ_REL);
}

static void set_timer(struct td_pump *p, struct td_http_push_handle *h)
{
	int64_t at = h->end_at < h->stall_at ? h->end_at : h->stall_at;
	if (h->timer.pos && h->timer.at == at)
		return;
	td_heap_remove(&p->timers, &h->timer);
	h->timer.at = at;
	if (at != TD_NEVER)
		td_heap_push(&p->timers, &h->timer);
}

static void want_out(struct td_pump *p, struct td_http_push_handle *h, bool on)
{
	if (h->want_out == on)
		return;
	h->want_out = on;
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (on ? EPOLLOUT : 0),
				.data.u64 = (uint64_t)h->gen << 32 | (uint32_t)h->c->fd};
	epoll_ctl(p->ep, EPOLL_CTL_MOD, h->c->fd, &e);
}

// Calls fill() and appends what it gave as one chunk.
static void refill(struct td_http_push_handle *h)
{
	td_auto_buf struct td_buf data = {0};
	int rc = h->push.fill(h->push.ctx, &data);

	if (data.len && h->chunked) {
		td_buf_reserve(&h->out, data.len + 32);
		td_buf_printf(&h->out, "%zx\r\n", data.len);
		td_buf_add(&h->out, data.s, data.len);
		td_buf_puts(&h->out, "\r\n");
	} else if (data.len) {
		td_buf_done(&h->out);
		h->out = data;
		data = (struct td_buf){0};
	}

	h->ended = rc != 0;
	if (h->ended && h->chunked)
		td_buf_puts(&h->out, "0\r\n\r\n");
}

// Writes and fills until there is nothing to do or the peer has to read first. Returns false when
// the push was closed.
static bool advance(struct td_pump *p, struct td_http_push_handle *h)
{
	for (int rounds = 0;; rounds++) {
		while (h->off < h->out.len) {
			ssize_t k = td_conn_try_write(h->c, h->out.s + h->off, h->out.len - h->off);
			if (k == -EAGAIN && h->out.len - h->off <= TD_PUSH_UNSENT_MAX) {
				if (h->stall_at == TD_NEVER)
					h->stall_at = td_now() + p->write_ms;
				want_out(p, h, true);
				set_timer(p, h);
				return true;
			}
			if (k < 0) {
				close_push(p, h);
				return false;
			}
			h->off += (size_t)k;
			h->stall_at = TD_NEVER;
		}

		if (h->out.cap > BUF_KEEP)
			td_buf_done(&h->out);
		else
			td_buf_reset(&h->out);
		h->off = 0;

		if (h->ended) {
			td_conn_finish(h->c, 0);
			close_push(p, h);
			return false;
		}

		if (rounds == ROUNDS_MAX && __atomic_load_n(&h->woken, __ATOMIC_ACQUIRE)) {
			enqueue(h, NULL); // let the others go first
			break;
		}

		if (!__atomic_exchange_n(&h->woken, 0, __ATOMIC_ACQ_REL))
			break;
		refill(h);
		if (!h->out.len && !h->ended)
			break;
	}

	want_out(p, h, false);
	set_timer(p, h);
	return true;
}

// Reads and drops what the peer sends. Returns false when the push was closed because the peer is
// gone or sends too much.
static bool discard(struct td_pump *p, struct td_http_push_handle *h)
{
	char buf[4096];
	for (;;) {
		ssize_t k = td_conn_try_read(h->c, buf, sizeof(buf));
		if (k == -EAGAIN)
			return true;
		h->discarded += k > 0 ? (size_t)k : 0;
		if (k <= 0 || h->discarded > DISCARD_MAX) {
			close_push(p, h);
			return false;
		}
	}
}

static void on_timer(struct td_pump *p, struct td_http_push_handle *h, int64_t now)
{
	if (now >= h->stall_at) {
		close_push(p, h);
		return;
	}

	if (now < h->end_at)
		return;

	h->end_at = TD_NEVER;
	if (!h->ended) {
		h->ended = true;
		if (h->chunked)
			td_buf_puts(&h->out, "0\r\n\r\n");
	}
	advance(p, h);
}

static void on_event(struct td_pump *p, const struct epoll_event *e)
{
	int fd = (int)(uint32_t)e->data.u64;
	uint32_t gen = (uint32_t)(e->data.u64 >> 32);

	pthread_mutex_lock(&p->lock);
	struct td_http_push_handle *h = (size_t)fd < p->n && p->v[fd].gen == gen ? p->v[fd].h : NULL;
	if (!h && (size_t)fd < p->n && p->v[fd].gen == gen && p->v[fd].cancel)
		td_cancel_fire(p->v[fd].cancel);
	pthread_mutex_unlock(&p->lock);

	if (!h)
		return;

	if (e->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		close_push(p, h);
	else if (!(e->events & EPOLLIN) || discard(p, h))
		advance(p, h);
}

static void on_queue(struct td_pump *p)
{
	pthread_mutex_lock(&p->lock);
	// What is queued behind `last` comes in the next round.
	struct td_http_push_handle *h, *last = p->queue ? p->queue->prev : NULL;

	while (last && (h = p->queue)) {
		DL_DELETE(p->queue, h);
		h->queued = false;
		bool attached = h->attached, done = h == last;
		pthread_mutex_unlock(&p->lock);

		if (attached && !h->gen) {
			DL_APPEND2(p->live, h, lprev, lnext);
			h->gen = enter(p, h->c->fd, NULL, h, EPOLLIN | EPOLLRDHUP);
			if (discard(p, h)) // bytes that TLS has read ahead cause no event
				advance(p, h);
		} else if (attached) {
			advance(p, h);
		}

		pthread_mutex_lock(&p->lock);
		if (done)
			break;
	}

	bool more = p->queue;
	pthread_mutex_unlock(&p->lock);
	if (more)
		kick(p);
}

static void *pump_thread(void *arg)
{
	struct td_pump *p = arg;
	while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
		struct td_heap_node *t = td_heap_peek(&p->timers);
		int64_t ms = t ? t->at - td_now() : 60000;
		struct epoll_event ev[BATCH];
		int n = epoll_wait(p->ep, ev, BATCH, ms < 0 ? 0 : ms > 60000 ? 60000 : (int)ms);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64 == UINT64_MAX) {
				uint64_t v;
				(void)!read(p->wake_fd, &v, sizeof(v));
			} else {
				on_event(p, &ev[i]);
			}
		}

		on_queue(p);

		int64_t now = td_now();
		while ((t = td_heap_peek(&p->timers)) && t->at <= now) {
			td_heap_pop(&p->timers);
			on_timer(p, td_container_of(t, struct td_http_push_handle, timer), now);
		}
	}

	// Connections that were handed over last. No worker runs any more.
	on_queue(p);
	while (p->live)
		close_push(p, p->live);
	return NULL;
}

int td_pump_new(int64_t write_ms, int max, struct td_pump **ret, struct td_error *err)
{
	struct td_pump *p = td_calloc(1, sizeof(*p));
	p->write_ms = write_ms;
	p->max = max;
	pthread_mutex_init(&p->lock, NULL);

	p->ep = epoll_create1(EPOLL_CLOEXEC);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
	int rc = 0;

	if (p->ep < 0 || p->wake_fd < 0 || epoll_ctl(p->ep, EPOLL_CTL_ADD, p->wake_fd, &e) < 0)
		rc = td_fail_errno(err, TD_TRANSIENT, errno, "HTTP server: epoll");
	else if ((rc = pthread_create(&p->thread, NULL, pump_thread, p)) != 0)
		rc = td_fail_errno(err, TD_TRANSIENT, rc, "HTTP server: pump thread");

	if (rc < 0) {
		td_close_auto(&p->ep);
		td_close_auto(&p->wake_fd);
		pthread_mutex_destroy(&p->lock);
		free(p);
		return rc;
	}

	*ret = p;
	return 0;
}

struct td_pump *td_pump_free(struct td_pump *p)
{
	if (!p)
		return NULL;
	__atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
	kick(p);
	pthread_join(p->thread, NULL);

	close(p->ep);
	close(p->wake_fd);
	td_heap_done(&p->timers);
	pthread_mutex_destroy(&p->lock);
	free(p->v);
	free(p);
	return NULL;
}

bool td_pump_full(struct td_pump *p)
{
	return __atomic_load_n(&p->n_push, __ATOMIC_ACQUIRE) >= p->max;
}

struct td_http_push_handle *td_push_new(struct td_pump *p, const struct td_http_push *push, struct td_buf *head,
					bool chunked, bool ended)
{
	struct td_http_push_handle *h = td_calloc(1, sizeof(*h));
	__atomic_add_fetch(&p->n_push, 1, __ATOMIC_ACQ_REL);

	h->p = p;
	h->push = *push;
	h->chunked = chunked;
	h->ended = ended;
	h->out = *head;
	*head = (struct td_buf){0};

	h->end_at = push->timeout_ms > 0 ? td_now() + push->timeout_ms : TD_NEVER;
	h->stall_at = TD_NEVER;
	return h;
}

void td_push_attach(struct td_http_push_handle *h, struct td_conn *c)
{
	if (c->in_off == c->in.len) {
		td_buf_done(&c->in);
		c->in_off = 0;
	}
	enqueue(h, c);
}

void td_http_push_wake(struct td_http_push_handle *h)
{
	if (!__atomic_exchange_n(&h->woken, 1, __ATOMIC_ACQ_REL))
		enqueue(h, NULL);
}
