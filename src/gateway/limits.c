// Buckets of tokens, one for each kind and name. A table of fixed size: names that share a place share
// a bucket, which at worst makes somebody wait a moment.
#include "gateway/door.h"

#include "base/hash.h"

#include <string.h>
#include <uthash.h>

enum { PLACES = 4096 };

struct rate_bucket {
	bool used;
	double have;
	int64_t at_ms;
};

// What one person has at once.
struct rate_held {
	char *name;
	int n;
	UT_hash_handle hh;
};

struct td_gateway_limits {
	pthread_mutex_t lock; // guards all below
	const struct td_clock *clock;
	struct rate_bucket buckets[PLACES];
	struct rate_held *held;
};

struct td_gateway_limits *td_gateway_limits_new(const struct td_clock *clock)
{
	struct td_gateway_limits *l = td_calloc(1, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	l->clock = clock;
	return l;
}

struct td_gateway_limits *td_gateway_limits_free(struct td_gateway_limits *l)
{
	struct rate_held *h, *next;
	if (!l)
		return NULL;
	HASH_ITER (hh, l->held, h, next) {
		HASH_DEL(l->held, h);
		free(h->name);
		free(h);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

int td_gateway_hold(struct td_gateway_limits *l, const char *name, int most, struct td_error *err)
{
	struct rate_held *h;
	pthread_mutex_lock(&l->lock);
	HASH_FIND_STR(l->held, name, h);
	if (!h) {
		h = td_calloc(1, sizeof(*h));
		h->name = td_strdup(name);
		HASH_ADD_KEYPTR(hh, l->held, h->name, strlen(h->name), h);
	}
	bool ok = h->n < most;
	h->n += ok;
	pthread_mutex_unlock(&l->lock);
	return ok ? 0
		  : td_fail(err, TD_THROTTLED,
			    "you have %d of these connections open already: close one, or let several programs share "
			    "one (ControlMaster in ~/.ssh/config)",
			    most);
}

void td_gateway_release(struct td_gateway_limits *l, const char *name)
{
	struct rate_held *h;
	pthread_mutex_lock(&l->lock);
	HASH_FIND_STR(l->held, name, h);
	if (h && !--h->n) {
		HASH_DEL(l->held, h);
		free(h->name);
		free(h);
	}
	pthread_mutex_unlock(&l->lock);
}

int td_gateway_limit(struct td_gateway_limits *l, const struct td_gateway_rate *rate, const char *name,
		     struct td_error *err)
{
	uint32_t h = td_hash32_str(td_hash32_str(TD_HASH32, rate->kind), name);

	pthread_mutex_lock(&l->lock);
	struct rate_bucket *b = &l->buckets[h % PLACES];
	int64_t now = td_mono_ms(l->clock);
	b->have = b->used ? b->have + (double)(now - b->at_ms) / 1000 * rate->per_s : rate->burst;
	b->have = b->have > rate->burst ? rate->burst : b->have;
	b->at_ms = now;
	b->used = true;
	bool ok = b->have >= 1;
	int wait_ms = ok ? 0 : (int)((1 - b->have) / rate->per_s * 1000) + 1;
	b->have -= ok;
	pthread_mutex_unlock(&l->lock);

	if (ok)
		return 0;
	td_fail(err, TD_THROTTLED, "too many %s: try again in %d s", rate->kind, wait_ms / 1000 + 1);
	if (err)
		err->retry_after_ms = wait_ms;
	return TD_THROTTLED;
}
