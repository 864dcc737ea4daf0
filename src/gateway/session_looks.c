// Which namespaces of sessions are looked at: those where there are some, every time, and the others now and then.
// There may be one for each person, and few of them have sessions.
#include "gateway/sessions.h"

#include <uthash.h>

enum { REST_MS = 120000 };

struct looked {
	char *ns;
	int64_t due_ms;
	bool woken; // since the look that goes on now
	UT_hash_handle hh;
};

struct td_session_looks {
	pthread_mutex_t lock; // guards the rest
	struct looked *all;
};

struct td_session_looks *td_session_looks_new(void)
{
	struct td_session_looks *l = td_calloc(1, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	return l;
}

struct td_session_looks *td_session_looks_free(struct td_session_looks *l)
{
	struct looked *k, *next;
	if (!l)
		return NULL;
	HASH_ITER (hh, l->all, k, next) {
		HASH_DEL(l->all, k);
		free(k->ns);
		free(k);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

// The lock is held.
static struct looked *at(struct td_session_looks *l, const char *ns)
{
	struct looked *k = NULL;
	HASH_FIND_STR(l->all, ns, k);
	if (k)
		return k;
	k = td_calloc(1, sizeof(*k));
	k->ns = td_strdup(ns);
	HASH_ADD_KEYPTR(hh, l->all, k->ns, strlen(k->ns), k);
	return k;
}

void td_session_looks_wake(struct td_session_looks *l, const char *ns)
{
	pthread_mutex_lock(&l->lock);
	struct looked *k = at(l, ns);
	k->due_ms = 0;
	k->woken = true;
	pthread_mutex_unlock(&l->lock);
}

bool td_session_looks_due(struct td_session_looks *l, const char *ns, int64_t now_ms)
{
	pthread_mutex_lock(&l->lock);
	struct looked *k = at(l, ns);
	bool due = k->due_ms <= now_ms;
	if (due)
		k->woken = false;
	pthread_mutex_unlock(&l->lock);
	return due;
}

void td_session_looks_empty(struct td_session_looks *l, const char *ns, int64_t now_ms)
{
	pthread_mutex_lock(&l->lock);
	struct looked *k = at(l, ns);
	if (!k->woken)
		k->due_ms = now_ms + REST_MS;
	pthread_mutex_unlock(&l->lock);
}
