#include "controllers/ctl.h"

#include <pthread.h>
#include <string.h>
#include <uthash.h>

#define OPEN_MS (5 * 60 * 1000)

struct owner {
	char *uid;
	struct td_strv open;
	int64_t at; // when the last one was added, in monotonic ms
	UT_hash_handle hh;
};
struct ctl_expect {
	const struct td_clock *clock;
	pthread_mutex_t lock; // guards owners
	struct owner *owners;
};

struct ctl_expect *td_ctl_expect_new(const struct td_clock *clock)
{
	struct ctl_expect *e = td_calloc(1, sizeof(*e));
	e->clock = clock;
	pthread_mutex_init(&e->lock, NULL);
	return e;
}

static void drop_locked(struct ctl_expect *e, struct owner *o)
{
	HASH_DEL(e->owners, o);
	td_strv_done(&o->open);
	free(o->uid);
	free(o);
}

struct ctl_expect *td_ctl_expect_free(struct ctl_expect *e)
{
	if (!e)
		return NULL;
	struct owner *o, *tmp;
	HASH_ITER (hh, e->owners, o, tmp)
		drop_locked(e, o);
	pthread_mutex_destroy(&e->lock);
	free(e);
	return NULL;
}

static void add(struct ctl_expect *e, const char *owner_uid, const char *what)
{
	pthread_mutex_lock(&e->lock);
	struct owner *o = NULL;
	HASH_FIND_STR(e->owners, owner_uid, o);

	if (!o) {
		o = td_calloc(1, sizeof(*o));
		o->uid = td_strdup(owner_uid);
		HASH_ADD_KEYPTR(hh, e->owners, o->uid, strlen(o->uid), o);
	}

	// A look at an old cache deletes a pod once more, and one event tells of both.
	if (!td_strv_has(&o->open, what))
		td_strv_add(&o->open, what);
	o->at = td_mono_ms(e->clock);
	pthread_mutex_unlock(&e->lock);
}

void td_ctl_expect_create(struct ctl_expect *e, const char *owner_uid, const char *name)
{
	add(e, owner_uid, name);
}

void td_ctl_expect_delete(struct ctl_expect *e, const char *owner_uid, const char *uid)
{
	add(e, owner_uid, uid);
}

void td_ctl_expect_seen(struct ctl_expect *e, const char *owner_uid, const char *name_or_uid)
{
	pthread_mutex_lock(&e->lock);
	struct owner *o = NULL;
	HASH_FIND_STR(e->owners, owner_uid, o);

	for (size_t i = 0; o && i < o->open.n; i++)
		if (td_streq(o->open.v[i], name_or_uid)) {
			free(o->open.v[i]);
			o->open.v[i] = o->open.v[--o->open.n];
			o->open.v[o->open.n] = NULL;
			break;
		}

	if (o && !o->open.n)
		drop_locked(e, o);
	pthread_mutex_unlock(&e->lock);
}

bool td_ctl_expect_done(struct ctl_expect *e, const char *owner_uid)
{
	pthread_mutex_lock(&e->lock);
	struct owner *o = NULL;
	HASH_FIND_STR(e->owners, owner_uid, o);
	if (o && td_mono_ms(e->clock) - o->at > OPEN_MS) {
		drop_locked(e, o);
		o = NULL;
	}
	pthread_mutex_unlock(&e->lock);
	return !o;
}

void td_ctl_expect_forget(struct ctl_expect *e, const char *owner_uid)
{
	pthread_mutex_lock(&e->lock);
	struct owner *o = NULL;
	HASH_FIND_STR(e->owners, owner_uid, o);
	if (o)
		drop_locked(e, o);
	pthread_mutex_unlock(&e->lock);
}

void td_ctl_expect_pod(struct ctl_expect *e, const char *owner_kind, const struct td_object *old,
		       const struct td_object *now)
{
	const struct td_object *o = now ? now : old;
	yyjson_val *ref = td_object_owner(o);
	const char *uid = td_jstr(ref, "uid");
	if (!uid || !td_streq(td_jstr(ref, "kind"), owner_kind))
		return;

	// However it is seen, it was made.
	td_ctl_expect_seen(e, uid, o->name);
	if (!now || td_object_deleting(now))
		td_ctl_expect_seen(e, uid, o->uid);
}
