// What is sent of one connection waits for what the other end lets go, and each has two threads of its own: the thread that
// reads the way waits for none of them.
#include "gateway/lines.h"

#include "base/clock.h"
#include "base/file.h"
#include "standin/lines.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 100, ASKED_MS = LINES_DIAL_MS + 5000, CLOSES_MS = 10000 };

enum line_one_state { ASKED, THERE, REFUSED };
struct td_line_one {
	struct td_lines *of;
	struct td_line_one *next;
	uint32_t number;
	enum line_one_state state;
	int why;             // REFUSED: errno
	int fd;              // this end of the caller's socket
	struct td_buf comes; // not passed on yet; LINES_WINDOW at most
	size_t may;          // bytes that may still be sent
	bool gone;           // the other end has closed it
	bool closing;        // this one does
	int threads;         // that run
	pthread_t down, up;
	bool downs, ups;
};
struct td_lines {
	struct td_lines_way way;
	struct td_cancel *over;
	pthread_t reader;
	pthread_mutex_t sends; // one at a time
	pthread_mutex_t lock;  // guards the rest
	pthread_cond_t changed;
	struct td_line_one *first;
	uint32_t number;
	int count;
	bool ended;
};

static int send_frame(struct td_lines *l, uint8_t *frame, size_t n)
{
	pthread_mutex_lock(&l->sends);
	int r = td_cancelled(l->over) ? TD_CANCELLED : l->way.send(l->way.ctx, frame, n, l->over, NULL);
	pthread_mutex_unlock(&l->sends);
	if (r)
		td_cancel_fire(l->over); // half of a frame may have gone
	return r;
}

static int say(struct td_lines *l, char letter, uint32_t number, uint32_t n)
{
	uint8_t head[LINES_HEAD];
	lines_head(head, letter, number, n);
	return send_frame(l, head, sizeof(head));
}

// One frame from there. False: it breaks the rules.
static bool hear(struct td_lines *l, const struct lines_frame *f)
{
	struct td_line_one *o = l->first;
	while (o && o->number != f->number)
		o = o->next;
	if (!o || o->gone)
		return true; // it is over here
	if (f->letter == LINES_OPENED) {
		o->state = THERE;
	} else if (f->letter == LINES_REFUSED) {
		o->state = REFUSED;
		o->why = (int)f->n;
		o->gone = true;
	} else if (f->letter == LINES_CLOSE) {
		o->gone = true;
	} else if (f->letter == LINES_ACK) {
		o->may += f->n;
		return o->may <= LINES_WINDOW;
	} else if (f->letter == LINES_DATA && o->comes.len + f->n <= LINES_WINDOW) {
		td_buf_add(&o->comes, f->data, f->n);
	} else {
		return false;
	}
	return true;
}

// Reads what comes, whosever it is. It waits for no connection: each has a window.
static void *reads(void *arg)
{
	struct td_lines *l = arg;
	td_auto_buf struct td_buf in = {0};
	struct lines_frame f;
	for (bool good = true; good && !l->way.recv(l->way.ctx, l->over, &in, NULL);) {
		size_t at = 0;
		long n = 0;
		pthread_mutex_lock(&l->lock);
		while (good && (n = lines_read((const uint8_t *)in.s + at, in.len - at, &f)) > 0) {
			good = hear(l, &f);
			at += (size_t)n;
		}
		pthread_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
		good = good && n == 0;
		memmove(in.s, in.s + at, in.len - at);
		in.len -= at;
	}
	td_cancel_fire(l->over);
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	for (struct td_line_one *o = l->first; o; o = o->next)
		o->gone = true;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

struct td_lines *td_lines_new(const struct td_lines_way *way)
{
	struct td_lines *l = td_calloc(1, sizeof(*l));
	*l = (struct td_lines){.way = *way, .over = td_cancel_new()};
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &a);
	pthread_condattr_destroy(&a);
	pthread_mutex_init(&l->sends, NULL);
	pthread_mutex_init(&l->lock, NULL);
	if (!pthread_create(&l->reader, NULL, reads, l))
		return l;
	l->way.done(l->way.ctx);
	td_cancel_unref(l->over);
	free(l);
	return NULL;
}

struct td_lines *td_lines_free(struct td_lines *l)
{
	if (!l)
		return NULL;
	td_cancel_fire(l->over);
	pthread_join(l->reader, NULL);
	l->way.done(l->way.ctx);
	td_cancel_unref(l->over);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->sends);
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

bool td_lines_over(struct td_lines *l)
{
	pthread_mutex_lock(&l->lock);
	bool over = l->ended || l->number + 1 >= LINES_NUMBERS;
	pthread_mutex_unlock(&l->lock);
	return over || td_cancelled(l->over);
}

int td_lines_count(struct td_lines *l)
{
	pthread_mutex_lock(&l->lock);
	int n = l->count;
	pthread_mutex_unlock(&l->lock);
	return n;
}

// Waits under the lock for a change, until_ms (mono) at most. False: it is then.
static bool waits(struct td_lines *l, int64_t until_ms)
{
	int64_t now = td_mono_ms(&td_clock_system), then = now + LOOK_MS < until_ms ? now + LOOK_MS : until_ms;
	struct timespec t = {.tv_sec = then / 1000, .tv_nsec = then % 1000 * 1000000};
	pthread_cond_timedwait(&l->changed, &l->lock, &t);
	return td_mono_ms(&td_clock_system) < until_ms;
}

static void leaves(struct td_line_one *o)
{
	pthread_mutex_lock(&o->of->lock);
	o->threads--;
	pthread_cond_broadcast(&o->of->changed);
	pthread_mutex_unlock(&o->of->lock);
}

// A thread's: from there to the caller.
static void *down(void *arg)
{
	struct td_line_one *o = arg;
	struct td_lines *l = o->of;
	td_auto_buf struct td_buf now = {0};
	for (bool good = true; good;) {
		pthread_mutex_lock(&l->lock);
		while (!o->comes.len && !o->gone && !o->closing)
			pthread_cond_wait(&l->changed, &l->lock);
		struct td_buf empty = now;
		now = o->comes;
		o->comes = empty;
		bool last = o->gone;
		pthread_mutex_unlock(&l->lock);
		good = now.len && !td_write_all(o->fd, now.s, now.len, NULL) &&
		       (last || !say(l, LINES_ACK, o->number, (uint32_t)now.len));
		td_buf_reset(&now);
	}
	shutdown(o->fd, SHUT_RDWR); // what was written is read still
	leaves(o);
	return NULL;
}

// How much may be sent now; 0: nothing any more.
static size_t may_send(struct td_line_one *o)
{
	struct td_lines *l = o->of;
	pthread_mutex_lock(&l->lock);
	while (!o->may && !o->gone && !o->closing)
		pthread_cond_wait(&l->changed, &l->lock);
	size_t n = o->gone || o->closing ? 0 : o->may < LINES_PIECE ? o->may : LINES_PIECE;
	pthread_mutex_unlock(&l->lock);
	return n;
}

// A thread's: from the caller to there.
static void *up(void *arg)
{
	struct td_line_one *o = arg;
	struct td_lines *l = o->of;
	uint8_t *frame = td_malloc(LINES_HEAD + LINES_PIECE);
	for (size_t n; (n = may_send(o));) {
		ssize_t k = recv(o->fd, frame + LINES_HEAD, n, 0);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			break;
		pthread_mutex_lock(&l->lock);
		o->may -= (size_t)k;
		pthread_mutex_unlock(&l->lock);
		lines_head(frame, LINES_DATA, o->number, (uint32_t)k);
		if (send_frame(l, frame, LINES_HEAD + (size_t)k))
			break;
	}
	free(frame);
	pthread_mutex_lock(&l->lock);
	bool gone = o->gone;
	pthread_mutex_unlock(&l->lock);
	if (!gone)
		say(l, LINES_CLOSE, o->number, 0);
	leaves(o);
	return NULL;
}

struct td_line_one *td_line_one_close(struct td_line_one *o)
{
	if (!o)
		return NULL;
	struct td_lines *l = o->of;
	bool tells = false;
	if (o->fd >= 0)
		shutdown(o->fd, SHUT_RDWR);
	pthread_mutex_lock(&l->lock);
	o->closing = true;
	tells = !o->ups && !o->gone;
	pthread_cond_broadcast(&l->changed);
	for (int64_t until = td_mono_ms(&td_clock_system) + CLOSES_MS; o->threads && waits(l, until);)
		;
	bool stuck = o->threads;
	pthread_mutex_unlock(&l->lock);
	if (stuck)
		td_cancel_fire(l->over); // it takes nothing, of nobody
	if (o->downs)
		pthread_join(o->down, NULL);
	if (o->ups)
		pthread_join(o->up, NULL);
	if (tells)
		say(l, LINES_CLOSE, o->number, 0);
	pthread_mutex_lock(&l->lock);
	struct td_line_one **p = &l->first;
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	l->count--;
	pthread_mutex_unlock(&l->lock);
	if (o->fd >= 0)
		close(o->fd);
	td_buf_done(&o->comes);
	free(o);
	return NULL;
}

// Asks for it, and waits for the answer.
static int asks(struct td_line_one *o, struct td_cancel *c, struct td_error *err)
{
	struct td_lines *l = o->of;
	int64_t until = td_mono_ms(&td_clock_system) + ASKED_MS;
	int r = say(l, LINES_OPEN, o->number, 0);
	pthread_mutex_lock(&l->lock);
	while (!r && o->state == ASKED && !o->gone && !td_cancelled(c) && waits(l, until))
		;
	enum line_one_state state = o->state;
	int why = o->why;
	bool gone = o->gone;
	pthread_mutex_unlock(&l->lock);
	if (state == THERE)
		return 0;
	if (td_cancelled(c))
		return td_fail(err, TD_CANCELLED, "nobody waits any more");
	if (state == REFUSED)
		return td_fail_errno(err, TD_TRANSIENT, why, "its server");
	return td_fail(err, TD_TRANSIENT, "the way to it %s", r || gone ? "is gone" : "does not answer");
}

int td_lines_open(struct td_lines *l, struct td_cancel *c, struct td_line_one **ret, int *ret_fd, struct td_error *err)
{
	int both[2];
	if (td_lines_over(l))
		return td_fail(err, TD_TRANSIENT, "the way to it is gone");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "a pair of sockets");
	td_auto_close int fd = both[1];
	struct td_line_one *o = td_calloc(1, sizeof(*o));
	*o = (struct td_line_one){.of = l, .fd = both[0], .may = LINES_WINDOW};
	pthread_mutex_lock(&l->lock);
	o->number = ++l->number;
	o->gone = l->ended;
	o->next = l->first;
	l->first = o;
	l->count++;
	pthread_mutex_unlock(&l->lock);
	int r = asks(o, c, err);
	if (!r) {
		o->threads = 2;
		o->downs = !pthread_create(&o->down, NULL, down, o);
		o->ups = o->downs && !pthread_create(&o->up, NULL, up, o);
		if (!o->ups) {
			pthread_mutex_lock(&l->lock);
			o->threads -= o->downs ? 1 : 2;
			pthread_mutex_unlock(&l->lock);
			r = td_fail(err, TD_TRANSIENT, "the gateway has no thread for it now");
		}
	}
	if (r) {
		td_line_one_close(o);
		return r;
	}
	*ret_fd = td_steal_fd(&fd);
	*ret = o;
	return 0;
}
