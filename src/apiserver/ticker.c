// The ticker: see ticker.h.
#include "apiserver/ticker.h"

#include "base/log.h"

#include <pthread.h>

#define BOOKMARK_CHECK_MS 5000
#define EVENT_TTL_MS 3600000
#define FORGET_EVERY 12 // of the above

struct td_ticker {
	struct td_srv *s;
	struct td_cancel *cancel;
	pthread_t thread;
};

size_t td_events_forget(struct td_srv *s, int64_t now)
{
	struct td_table *t = td_store_table(s->store, "", "events");
	td_auto_items struct td_items l = {0};
	uint64_t rv;
	size_t n = 0;
	if (td_store_list(s->store, t, NULL, 0, &l, &rv, NULL) < 0)
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		static const char *const times[] = {"series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"};
		int64_t last = 0, v;
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(l.v[i]);
		for (size_t k = 0; k < TD_LEN(times); k++) {
			const char *x = td_jstr(td_json_root(doc), times[k]);
			if (x && td_time_parse(x, &v) == 0 && v > last)
				last = v;
		}
		if (now - last < EVENT_TTL_MS)
			continue;
		const struct td_write w = {.table = t, .ns = l.v[i]->ns, .name = l.v[i]->name, .base = l.v[i]->rv};
		if (td_store_write(s->store, &w, NULL, NULL) == 0)
			n++;
	}
	return n;
}

static void *run(void *arg)
{
	struct td_ticker *t = arg;
	for (unsigned turn = 1; td_cancel_wait(t->cancel, BOOKMARK_CHECK_MS) == 0; turn++) {
		td_store_wake_all(t->s->store);
		if (turn % FORGET_EVERY == 0) {
			size_t n = td_events_forget(t->s, td_real_ms(t->s->clock));
			if (n)
				td_debug("%zu old events forgotten", n);
		}
	}
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
