// The ticker (ticker.h).
#include "apiserver/ticker.h"

#include "apiserver/expiry.h"
#include "base/log.h"

#include <pthread.h>

#define BOOKMARK_CHECK_MS 5000

struct td_ticker {
	struct td_srv *s;
	struct td_cancel *cancel;
	pthread_t thread;
};

static void *run(void *arg)
{
	struct td_ticker *t = arg;
	struct td_expiry *e = td_expiry_new(t->s->store, t->s->clock);
	while (td_cancel_wait(t->cancel, BOOKMARK_CHECK_MS) == 0) {
		td_store_wake_all(t->s->store);
		struct td_error err = TD_ERROR_INIT;
		if (td_srv_bootstrap_api(t->s, &err) < 0)
			td_warn("Service default/kubernetes: %s", err.msg);
		size_t n = td_expiry_turn(e);
		if (n)
			td_debug("%zu old events are gone", n);
	}
	td_expiry_free(e);
	return NULL;
}

struct td_ticker *td_ticker_start(struct td_srv *s, struct td_cancel *cancel)
{
	struct td_ticker *t = td_calloc(1, sizeof(*t));
	t->s = s;
	t->cancel = cancel;
	if (pthread_create(&t->thread, NULL, run, t) != 0)
		abort();
	return t;
}

void td_ticker_join(struct td_ticker *t)
{
	if (!t)
		return;
	pthread_join(t->thread, NULL);
	free(t);
}
