#include "base/cancel.h"

#include "base/err.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct td_cancel {
	int fd, refs, fired;
};

struct td_cancel *td_cancel_new(void)
{
	struct td_cancel *c = td_calloc(1, sizeof(*c));
	c->refs = 1;
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->fd < 0)
		abort();
	return c;
}

struct td_cancel *td_cancel_ref(struct td_cancel *c)
{
	if (c)
		__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

struct td_cancel *td_cancel_unref(struct td_cancel *c)
{
	if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		close(c->fd);
		free(c);
	}
	return NULL;
}

void td_cancel_fire(struct td_cancel *c)
{
	int e = errno;
	__atomic_store_n(&c->fired, 1, __ATOMIC_RELEASE);
	uint64_t one = 1;
	(void)!write(c->fd, &one, sizeof(one));
	errno = e;
}

bool td_cancelled(const struct td_cancel *c)
{
	return c && __atomic_load_n(&c->fired, __ATOMIC_ACQUIRE);
}

int td_cancel_fd(const struct td_cancel *c)
{
	return c ? c->fd : -1;
}

static int64_t mono(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int td_cancel_wait(const struct td_cancel *c, int64_t ms)
{
	int64_t end = ms < 0 ? 0 : mono() + ms;
	for (;;) {
		if (td_cancelled(c))
			return TD_CANCELLED;
		int64_t left = ms < 0 ? -1 : end - mono();
		if (ms >= 0 && left <= 0)
			return 0;
		struct pollfd p = {td_cancel_fd(c), POLLIN, 0};
		poll(&p, c ? 1 : 0, left > 1000000 ? 1000000 : (int)left);
	}
}

static void *signal_thread(void *arg)
{
	struct td_cancel *c = arg;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	int sig;
	sigwait(&set, &sig);
	td_cancel_fire(c);

	td_cancel_unref(c);
	return NULL;
}

void td_cancel_on_signals(struct td_cancel *c)
{
	signal(SIGPIPE, SIG_IGN);

	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);

	pthread_t t;
	if (pthread_create(&t, NULL, signal_thread, td_cancel_ref(c)) == 0)
		pthread_detach(t);
	else
		abort();
}
