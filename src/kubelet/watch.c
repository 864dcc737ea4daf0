#include "kubelet/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

// One wait: an exit has `key`, a deadline has `cancel`. The watch's list owns it; the holder of a
// deadline also has a pointer to it.
struct td_deadline {
	struct td_watch *w;
	int fd;
	char *key;
	struct td_cancel *cancel;
	struct td_deadline *prev, *next;
};
struct td_watch {
	struct td_queue *queue;
	int ep, stop;
	pthread_t thread;
	pthread_mutex_t mu; // guards `all`, and keeps its items alive while the thread uses one
	struct td_deadline *all;
};

static void item_free_locked(struct td_deadline *d)
{
	DL_DELETE(d->w->all, d);
	// This takes a timer out of the epoll set. A duplicated pidfd stays in it as long as the
	// original is open, but it is one-shot and has fired.
	close(d->fd);
	free(d->key);
	td_cancel_unref(d->cancel);
	free(d);
}

static void *run(void *arg)
{
	struct td_watch *w = arg;
	for (;;) {
		struct epoll_event ev;
		// Take one event at a time: handling an event may free the item of another one.
		int n = epoll_wait(w->ep, &ev, 1, -1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || !ev.data.ptr)
			return NULL;

		char *key = NULL;
		pthread_mutex_lock(&w->mu);
		struct td_deadline *d = w->all;
		while (d && d != ev.data.ptr)
			d = d->next;
		// The item may be a new one at the address of a dropped one, so ask its own
		// descriptor.
		struct pollfd pf = {d ? d->fd : -1, POLLIN, 0};
		if (d && poll(&pf, 1, 0) <= 0)
			d = NULL;
		if (d && d->key) {
			key = td_steal(d->key);
			item_free_locked(d);
		} else if (d) {
			// The descriptor is one-shot: it reports nothing more until its holder
			// drops the deadline.
			td_cancel_fire(d->cancel);
		}

		pthread_mutex_unlock(&w->mu);
		if (key)
			td_queue_add(w->queue, key);
		free(key);
	}
}

int td_watch_new(struct td_queue *queue, struct td_watch **ret, struct td_error *err)
{
	struct td_watch *w = td_calloc(1, sizeof(*w));
	w->queue = queue;
	pthread_mutex_init(&w->mu, NULL);
	w->ep = epoll_create1(EPOLL_CLOEXEC);
	w->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	if (w->ep < 0 || w->stop < 0 || epoll_ctl(w->ep, EPOLL_CTL_ADD, w->stop, &ev) < 0 ||
	    pthread_create(&w->thread, NULL, run, w)) {
		int e = errno;
		close(w->ep);
		close(w->stop);
		pthread_mutex_destroy(&w->mu);
		free(w);
		return td_fail_errno(err, TD_INTERNAL, e, "watch thread");
	}
	*ret = w;
	return 0;
}

struct td_watch *td_watch_free(struct td_watch *w)
{
	if (!w)
		return NULL;
	eventfd_write(w->stop, 1);
	pthread_join(w->thread, NULL);
	while (w->all)
		item_free_locked(w->all);
	close(w->ep);
	close(w->stop);
	pthread_mutex_destroy(&w->mu);
	free(w);
	return NULL;
}

static struct td_deadline *add(struct td_watch *w, int fd, const char *key, struct td_cancel *cancel)
{
	struct td_deadline *d = td_calloc(1, sizeof(*d));
	d->w = w;
	d->fd = fd;
	d->key = td_strdup(key);
	d->cancel = cancel ? td_cancel_ref(cancel) : NULL;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = d};

	pthread_mutex_lock(&w->mu);
	DL_APPEND(w->all, d);
	if (epoll_ctl(w->ep, EPOLL_CTL_ADD, fd, &ev) < 0) {
		item_free_locked(d);
		d = NULL;
	}
	pthread_mutex_unlock(&w->mu);
	return d;
}

int td_watch_exit(struct td_watch *w, int pidfd, const char *key, struct td_error *err)
{
	int fd = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || !add(w, fd, key, NULL))
		return td_fail_errno(err, TD_INTERNAL, errno, "watch the end of a container");
	return 0;
}

struct td_deadline *td_watch_deadline(struct td_watch *w, struct td_cancel *cancel, int64_t ms)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ms < 1)
		ms = 1;
	struct itimerspec t = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}};
	if (fd < 0)
		return NULL;
	timerfd_settime(fd, 0, &t, NULL);
	return add(w, fd, NULL, cancel);
}

struct td_deadline *td_deadline_drop(struct td_deadline *d)
{
	if (!d)
		return NULL;
	struct td_watch *w = d->w;
	pthread_mutex_lock(&w->mu);
	item_free_locked(d);
	pthread_mutex_unlock(&w->mu);
	return NULL;
}
