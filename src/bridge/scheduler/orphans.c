// The list of pods that was asked for last (orphans.h).
#include "bridge/scheduler/orphans.h"

#include "base/clock.h"

#include <string.h>

enum { KEEP_MS = 5000 };

struct td_orphans {
	pthread_mutex_t lock; // guards all; nobody holds it while the API is asked
	struct td_objects pods;
	char *scheduler;
	int64_t began, used; // mono; began 0: there is no list
	bool busy;
};

struct td_orphans *td_orphans_new(void)
{
	struct td_orphans *o = td_calloc(1, sizeof(*o));
	pthread_mutex_init(&o->lock, NULL);
	return o;
}

static void forget_locked(struct td_orphans *o)
{
	td_objects_done(&o->pods);
	o->pods = (struct td_objects){0};
	free(o->scheduler);
	o->scheduler = NULL;
	o->began = 0;
}

struct td_orphans *td_orphans_free(struct td_orphans *o)
{
	if (!o)
		return NULL;
	forget_locked(o);
	pthread_mutex_destroy(&o->lock);
	free(o);
	return NULL;
}

void td_orphans_forget(struct td_bridge *b)
{
	struct td_orphans *o = b->orphans;
	pthread_mutex_lock(&o->lock);
	if (o->began && td_now(b) - o->used > KEEP_MS)
		forget_locked(o);
	pthread_mutex_unlock(&o->lock);
}

static void copy(const struct td_objects *from, struct td_objects *ret)
{
	for (size_t i = 0; i < from->n; i++)
		td_objects_add(ret, td_object_ref(from->v[i]));
}

int td_orphans_pods(struct td_bridge *b, const char *scheduler, int64_t since_ms, struct td_objects *ret,
		    bool *ret_wait, struct td_cancel *c, struct td_error *err)
{
	struct td_orphans *o = b->orphans;
	pthread_mutex_lock(&o->lock);
	bool good = o->began > since_ms && !strcmp(o->scheduler, scheduler), mine = !good && !o->busy;
	*ret_wait = !good && !mine;
	if (good) {
		copy(&o->pods, ret);
		o->used = td_now(b);
	}
	o->busy |= mine;
	pthread_mutex_unlock(&o->lock);
	if (!mine)
		return 0;

	td_auto_free char *sel = td_asprintf("spec.schedulerName=%s", scheduler);
	const int64_t began = td_mono_ms(&td_clock_system); // as made_ms of asks
	int r = td_kube_list(b->kube, &td_pods, NULL, NULL, sel, c, ret, err);
	pthread_mutex_lock(&o->lock);
	o->busy = false;
	if (!r) {
		forget_locked(o);
		copy(ret, &o->pods);
		o->scheduler = td_strdup(scheduler);
		o->began = began;
		o->used = td_now(b);
	}
	pthread_mutex_unlock(&o->lock);
	return r;
}
