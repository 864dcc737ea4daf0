#include "base/together.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

struct together {
	const struct td_together *t;
	struct td_cancel *done; // of what is waited for
	size_t left;
};
struct together_call {
	struct together *all;
	struct td_cancel *stop;
	size_t i;
	pthread_t thread;
	bool runs;
};

static void *one(void *arg)
{
	struct together_call *x = arg;
	struct together *all = x->all;
	int r = all->t->call(all->t->ctx, x->i, x->stop);
	if (!__atomic_sub_fetch(&all->left, 1, __ATOMIC_ACQ_REL) || (all->t->first && !r))
		td_cancel_fire(all->done);
	return NULL;
}

void td_together(const struct td_together *t, struct td_cancel *c)
{
	if (!t->n)
		return;
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new(), *done = td_cancel_new();
	struct together all = {t, done, t->n};
	td_auto_free struct together_call *v = td_calloc(t->n, sizeof(*v));
	for (size_t i = 0; i < t->n; i++) {
		v[i] = (struct together_call){.all = &all, .stop = stop, .i = i};
		v[i].runs = !pthread_create(&v[i].thread, NULL, one, &v[i]);
	}
	for (size_t i = 0; i < t->n; i++)
		if (!v[i].runs) {
			v[i].stop = c; // nobody else fires it meanwhile
			one(&v[i]);
		}
	struct pollfd fds[] = {{.fd = td_cancel_fd(c), .events = POLLIN}, {.fd = td_cancel_fd(done), .events = POLLIN}};
	while (poll(fds, TD_LEN(fds), -1) < 0 && errno == EINTR)
		;
	td_cancel_fire(stop);
	for (size_t i = 0; i < t->n; i++)
		if (v[i].runs)
			pthread_join(v[i].thread, NULL);
}
