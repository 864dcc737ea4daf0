// From a pod's creation until it is ready, for whoever scales services: how long a request waits when there is
// no pod for it yet.
#include "bridge/ready.h"

#include "api/condition.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <uthash.h>

enum { SAME_MS = 2000 };

struct pod {
	char uid[40];
	int64_t created_ms;
	bool done; // it has been ready, or may have been
	UT_hash_handle hh;
};
struct td_readies {
	pthread_mutex_t lock; // guards pods
	struct pod *pods;
};

struct td_readies *td_readies_new(void)
{
	struct td_readies *r = td_calloc(1, sizeof(*r));
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

struct td_readies *td_readies_free(struct td_readies *r)
{
	struct pod *p, *tmp;
	if (!r)
		return NULL;
	HASH_ITER (hh, r->pods, p, tmp) {
		HASH_DEL(r->pods, p);
		free(p);
	}
	pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

// A pod that is seen for the first time. One that runs already may have been ready and be no longer.
static struct pod *add(struct td_readies *r, const struct td_object *o, int64_t real_ms)
{
	struct pod *p = td_calloc(1, sizeof(*p));
	snprintf(p->uid, sizeof(p->uid), "%s", o->uid);
	HASH_ADD_STR(r->pods, uid, p);

	p->created_ms = real_ms;
	(void)td_time_parse(td_jstr_or(o->root, "metadata.creationTimestamp", ""), &p->created_ms);
	// creationTimestamp has whole seconds. Who saw the pod as it was created knows the time better.
	if (real_ms >= p->created_ms && real_ms - p->created_ms < SAME_MS)
		p->created_ms = real_ms;
	p->done = !td_streq(td_jstr_or(o->root, "status.phase", "Pending"), "Pending");
	return p;
}

int64_t td_readies_look(struct td_readies *r, const struct td_object *old, const struct td_object *now, int64_t real_ms)
{
	int64_t ms = -1;
	struct pod *p = NULL;

	pthread_mutex_lock(&r->lock);
	if (old && (!now || !td_streq(old->uid, now->uid))) {
		HASH_FIND_STR(r->pods, old->uid, p);
		if (p)
			HASH_DEL(r->pods, p);
		free(p);
		p = NULL;
	}
	if (now) {
		HASH_FIND_STR(r->pods, now->uid, p);
		if (!p)
			p = add(r, now, real_ms);
		if (!p->done && td_condition_true(now->root, "Ready")) {
			p->done = true;
			ms = real_ms > p->created_ms ? real_ms - p->created_ms : 0;
		}
	}
	pthread_mutex_unlock(&r->lock);
	return ms;
}
