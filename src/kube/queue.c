// The work queue. A key waits at most once and is never with two workers at the same time: a key
// that is added while a worker has it comes back when that worker is done. Waiting uses one
// eventfd. The worker that clears it looks again under the lock and raises it again when more is
// left than it took, so no wake-up is lost and none piles up.
#include "base/heap.h"
#include "kube/controller.h"
#include "metrics/metrics.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#define RETRY_MIN 5
#define RETRY_MAX 30000

struct item {
	char *key;
	bool queued, working, again;
	bool due; // in q->due, not in q->line
	int failures;
	struct td_heap_node later;
	struct item *prev, *next; // in q->line or q->due
	UT_hash_handle hh;
};
struct td_queue {
	const struct td_clock *clock;
	int fd;
	pthread_mutex_t lock; // guards everything below
	struct item *items;
	// Two lines, served in turns. `due` holds keys whose delay has passed, which are work
	// already begun. In a burst they would otherwise wait behind everything new, and nothing
	// would be finished before the last was begun.
	struct item *line, *due;
	bool due_next;
	struct td_heap later;
	size_t len;
	const char *name; // guarded by measured.lock; NULL: not shown
	struct td_queue *prev, *next;
};

struct td_queue *td_queue_new(const struct td_clock *clock)
{
	struct td_queue *q = td_calloc(1, sizeof(*q));
	q->clock = clock ? clock : &td_clock_system;
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->fd < 0)
		abort();
	pthread_mutex_init(&q->lock, NULL);
	return q;
}

struct td_queue *td_queue_free(struct td_queue *q)
{
	if (!q)
		return NULL;
	td_queue_measure(q, NULL);
	struct item *e, *tmp;
	HASH_ITER (hh, q->items, e, tmp) {
		HASH_DEL(q->items, e);
		free(e->key);
		free(e);
	}
	td_heap_done(&q->later);
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
	return NULL;
}

static void wake(struct td_queue *q)
{
	uint64_t one = 1;
	(void)!write(q->fd, &one, sizeof(one));
}

static struct item *item_locked(struct td_queue *q, const char *key)
{
	struct item *e = NULL;
	HASH_FIND_STR(q->items, key, e);
	if (!e) {
		e = td_calloc(1, sizeof(*e));
		e->key = td_strdup(key);
		HASH_ADD_KEYPTR(hh, q->items, e->key, strlen(e->key), e);
	}
	return e;
}

static void drop_if_idle_locked(struct td_queue *q, struct item *e)
{
	if (e->queued || e->working || e->later.pos || e->failures)
		return;
	HASH_DEL(q->items, e);
	free(e->key);
	free(e);
}

static void add_locked(struct td_queue *q, struct item *e, bool due)
{
	if (e->working) {
		e->again = true;
	} else if (!e->queued) {
		e->queued = true;
		e->due = due;
		if (due)
			DL_APPEND(q->due, e);
		else
			DL_APPEND(q->line, e);
		q->len++;
		wake(q);
	}
}

static void after_locked(struct td_queue *q, struct item *e, int64_t ms)
{
	int64_t at = td_mono_ms(q->clock) + ms;
	if (e->later.pos && e->later.at <= at)
		return;
	td_heap_remove(&q->later, &e->later);
	e->later.at = at;
	td_heap_push(&q->later, &e->later);
	if (td_heap_peek(&q->later) == &e->later)
		wake(q);
}

void td_queue_add(struct td_queue *q, const char *key)
{
	pthread_mutex_lock(&q->lock);
	add_locked(q, item_locked(q, key), false);
	pthread_mutex_unlock(&q->lock);
}

void td_queue_add_after(struct td_queue *q, const char *key, int64_t ms)
{
	pthread_mutex_lock(&q->lock);
	struct item *e = item_locked(q, key);
	if (ms <= 0)
		add_locked(q, e, false);
	else
		after_locked(q, e, ms);
	pthread_mutex_unlock(&q->lock);
}

void td_queue_retry(struct td_queue *q, const char *key)
{
	pthread_mutex_lock(&q->lock);
	struct item *e = item_locked(q, key);
	int64_t ms = RETRY_MIN;
	for (int n = 0; n < e->failures && ms < RETRY_MAX; n++)
		ms *= 2;
	e->failures++;
	after_locked(q, e, ms < RETRY_MAX ? ms : RETRY_MAX);
	pthread_mutex_unlock(&q->lock);
}

void td_queue_forget(struct td_queue *q, const char *key)
{
	pthread_mutex_lock(&q->lock);
	struct item *e = NULL;
	HASH_FIND_STR(q->items, key, e);
	if (e) {
		e->failures = 0;
		drop_if_idle_locked(q, e);
	}
	pthread_mutex_unlock(&q->lock);
}

// Takes the first key in line. *ret_wait is the time in ms until the next delayed key, -1 when
// there is none.
static struct item *take_locked(struct td_queue *q, int64_t *ret_wait)
{
	int64_t now = td_mono_ms(q->clock);
	struct td_heap_node *h;
	while ((h = td_heap_peek(&q->later)) && h->at <= now) {
		td_heap_pop(&q->later);
		add_locked(q, td_container_of(h, struct item, later), true);
	}
	*ret_wait = h ? h->at - now : -1;

	struct item *e = q->due && (q->due_next || !q->line) ? q->due : q->line;
	q->due_next = q->due && q->line && !q->due_next;

	if (e) {
		if (e->due)
			DL_DELETE(q->due, e);
		else
			DL_DELETE(q->line, e);
		q->len--;
		e->queued = false;
		e->working = true;
		// The other workers must look too: they may sleep longer than until the next
		// delayed key.
		if (q->line || q->due || h)
			wake(q);
	}
	return e;
}

int td_queue_get(struct td_queue *q, struct td_cancel *c, char **ret_key, struct td_error *err)
{
	for (;;) {
		if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "the queue was stopped");
		int64_t wait;

		pthread_mutex_lock(&q->lock);
		struct item *e = take_locked(q, &wait);
		if (e)
			*ret_key = td_strdup(e->key);
		pthread_mutex_unlock(&q->lock);
		if (e)
			return 0;

		struct pollfd p[2] = {{q->fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		poll(p, c ? 2 : 1, wait > 60000 ? 60000 : (int)wait);
		if (p[0].revents) {
			uint64_t n;
			(void)!read(q->fd, &n, sizeof(n));
		}
	}
}

void td_queue_done(struct td_queue *q, const char *key)
{
	pthread_mutex_lock(&q->lock);
	struct item *e = NULL;
	HASH_FIND_STR(q->items, key, e);
	if (e) {
		e->working = false;
		if (e->again) {
			e->again = false;
			add_locked(q, e, false);
		}
		drop_if_idle_locked(q, e);
	}
	pthread_mutex_unlock(&q->lock);
}

size_t td_queue_len(const struct td_queue *q)
{
	struct td_queue *w = (struct td_queue *)q;
	pthread_mutex_lock(&w->lock);
	size_t n = w->len;
	pthread_mutex_unlock(&w->lock);
	return n;
}

// ---- metrics ----

static struct {
	pthread_mutex_t lock; // guards queues and their names
	struct td_queue *queues;
} measured = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct td_metric *depth(void)
{
	return td_gauge(td_metrics_process(), "tandem_queue_depth",
			"Objects that wait to be looked at by this controller.", TD_LABELS("controller"));
}

static void collect(void *ctx)
{
	struct td_queue *q;
	pthread_mutex_lock(&measured.lock);
	DL_FOREACH (measured.queues, q)
		td_metric_set(depth(), (double)td_queue_len(q), TD_LABELS(q->name));
	pthread_mutex_unlock(&measured.lock);
}

static void collected(void)
{
	td_metrics_on_collect(td_metrics_process(), collect, NULL);
}

void td_queue_measure(struct td_queue *q, const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (name)
		pthread_once(&once, collected);

	pthread_mutex_lock(&measured.lock);
	if (name && !q->name)
		DL_APPEND(measured.queues, q);
	else if (!name && q->name)
		DL_DELETE(measured.queues, q);
	if (!name && q->name)
		td_metric_forget(depth(), TD_LABELS(q->name));
	q->name = name;
	pthread_mutex_unlock(&measured.lock);
}
