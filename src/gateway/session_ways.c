// How many requests of this gateway wait at each replica of endpoints, and which of them were not reached. It is
// known by the pod's uid, and forgotten as soon as there is nothing to know.
#include "gateway/sessions.h"

#include "base/clock.h"

#include <string.h>

// The mark of one that was not reached fades, unless the health check renews it: its pod may be gone.
enum { FADES_MS = 10000 };

struct way {
	char *uid; // owned
	int in_flight;
	int64_t out_ms; // mono: until then it counts as not reached; 0: it is reached
};

struct td_session_ways {
	pthread_mutex_t lock; // guards the rest
	struct way *v;
	size_t n;
	uint64_t turn;
};

struct td_session_ways *td_session_ways_new(void)
{
	struct td_session_ways *w = td_calloc(1, sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

struct td_session_ways *td_session_ways_free(struct td_session_ways *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].uid);
	pthread_mutex_destroy(&w->lock);
	free(w->v);
	free(w);
	return NULL;
}

static struct way *find(struct td_session_ways *w, const char *uid)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->v[i].uid, uid))
			return &w->v[i];
	return NULL;
}

static bool is_out(const struct way *x)
{
	return x->out_ms > td_mono_ms(&td_clock_system);
}

static void forget(struct td_session_ways *w, struct way *x)
{
	if (x->in_flight || is_out(x))
		return;
	free(x->uid);
	*x = w->v[--w->n];
}

static struct way *at(struct td_session_ways *w, const char *uid)
{
	struct way *x = find(w, uid);
	if (x)
		return x;
	for (size_t i = w->n; i-- > 0;)
		forget(w, &w->v[i]);
	w->v = td_realloc(w->v, (w->n + 1) * sizeof(*w->v));
	w->v[w->n] = (struct way){.uid = td_strdup(uid)};
	return &w->v[w->n++];
}

int td_session_ways_take(struct td_session_ways *w, const char *const *uids, int n)
{
	struct td_replica_way v[TD_REPLICAS_MOST] = {0};
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < n; i++) {
		const struct way *x = uids[i] ? find(w, uids[i]) : NULL;
		v[i] = (struct td_replica_way){
			.ready = uids[i], .out = x && is_out(x), .in_flight = x ? x->in_flight : 0};
	}
	int k = n > 0 ? td_replica_pick(v, n, w->turn++) : -1;
	if (k >= 0)
		at(w, uids[k])->in_flight++;
	pthread_mutex_unlock(&w->lock);
	return k;
}

void td_session_ways_release(struct td_session_ways *w, const char *uid)
{
	pthread_mutex_lock(&w->lock);
	struct way *x = find(w, uid);
	if (x) {
		x->in_flight -= x->in_flight > 0;
		forget(w, x);
	}
	pthread_mutex_unlock(&w->lock);
}

void td_session_ways_reached(struct td_session_ways *w, const char *uid, bool reached)
{
	pthread_mutex_lock(&w->lock);
	struct way *x = reached ? find(w, uid) : at(w, uid);
	if (x) {
		x->out_ms = reached ? 0 : td_mono_ms(&td_clock_system) + FADES_MS;
		forget(w, x);
	}
	pthread_mutex_unlock(&w->lock);
}

bool td_session_ways_out(struct td_session_ways *w, const char *uid)
{
	pthread_mutex_lock(&w->lock);
	const struct way *x = find(w, uid);
	bool out = x && is_out(x);
	pthread_mutex_unlock(&w->lock);
	return out;
}

int td_session_ways_waiting(struct td_session_ways *w, const char *uid)
{
	pthread_mutex_lock(&w->lock);
	const struct way *x = find(w, uid);
	int n = x ? x->in_flight : 0;
	pthread_mutex_unlock(&w->lock);
	return n;
}
