#include "kube/store.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#define HASH_NONFATAL_OOM 0
#define uthash_malloc(n) td_malloc(n)
#include <uthash.h>

struct store_slot {
	char *key; // "ns/name"; "/name" for cluster-scoped
	struct td_object *o;
	UT_hash_handle hh;
};
struct bucket {
	char *value;
	struct td_object **v; // borrowed from the slots
	size_t n, cap;
	UT_hash_handle hh;
};
struct index {
	char *name;
	void (*fn)(const struct td_object *o, struct td_strv *ret_values);
	struct bucket *buckets;
};
struct td_kstore {
	pthread_rwlock_t lock; // guards everything below
	struct store_slot *slots;
	struct index v[8];
	size_t n;
};

struct td_kstore *td_kstore_new(void)
{
	struct td_kstore *s = td_calloc(1, sizeof(*s));
	pthread_rwlock_init(&s->lock, NULL);
	return s;
}

static void bucket_free(struct index *x, struct bucket *b)
{
	HASH_DEL(x->buckets, b);
	free(b->value);
	free(b->v);
	free(b);
}

struct td_kstore *td_kstore_free(struct td_kstore *s)
{
	if (!s)
		return NULL;

	for (size_t i = 0; i < s->n; i++) {
		struct bucket *b, *tmp;
		HASH_ITER (hh, s->v[i].buckets, b, tmp)
			bucket_free(&s->v[i], b);
		free(s->v[i].name);
	}

	struct store_slot *e, *tmp;
	HASH_ITER (hh, s->slots, e, tmp) {
		HASH_DEL(s->slots, e);
		td_object_unref(e->o);
		free(e->key);
		free(e);
	}
	pthread_rwlock_destroy(&s->lock);
	free(s);
	return NULL;
}

void td_kstore_add_index(struct td_kstore *s, const char *name,
			 void (*fn)(const struct td_object *o, struct td_strv *ret_values))
{
	if (s->n == TD_LEN(s->v))
		abort(); // a programming error: indexes are chosen in code
	s->v[s->n++] = (struct index){td_strdup(name), fn, NULL};
}

static void index_one_locked(struct index *x, struct td_object *o, bool in)
{
	td_auto_strv struct td_strv values = {0};
	x->fn(o, &values);
	for (size_t i = 0; i < values.n; i++) {
		struct bucket *b = NULL;
		HASH_FIND_STR(x->buckets, values.v[i], b);
		if (in) {
			if (!b) {
				b = td_calloc(1, sizeof(*b));
				b->value = td_strdup(values.v[i]);
				HASH_ADD_KEYPTR(hh, x->buckets, b->value, strlen(b->value), b);
			}
			if (b->n && b->v[b->n - 1] == o) // the same value was emitted twice
				continue;

			if (b->n == b->cap) {
				b->cap = b->cap ? b->cap * 2 : 4;
				b->v = td_realloc(b->v, b->cap * sizeof(*b->v));
			}
			b->v[b->n++] = o;
		} else if (b) {
			for (size_t j = 0; j < b->n; j++)
				if (b->v[j] == o) {
					b->v[j] = b->v[--b->n];
					break;
				}
			if (!b->n)
				bucket_free(x, b);
		}
	}
}

static void index_locked(struct td_kstore *s, struct td_object *o, bool in)
{
	for (size_t i = 0; i < s->n; i++)
		index_one_locked(&s->v[i], o, in);
}

static const char *key_of(char *buf, size_t n, const char *ns, const char *name)
{
	snprintf(buf, n, "%s/%s", ns ? ns : "", name);
	return buf;
}
// Two DNS subdomains; Kubernetes has no longer names.
#define KEY_MAX 520

void td_kstore_put(struct td_kstore *s, struct td_object *now, struct td_object **ret_old)
{
	char key[KEY_MAX];
	key_of(key, sizeof(key), now->ns, now->name);
	pthread_rwlock_wrlock(&s->lock);
	struct store_slot *e = NULL;
	HASH_FIND_STR(s->slots, key, e);
	if (!e) {
		e = td_calloc(1, sizeof(*e));
		e->key = td_strdup(key);
		HASH_ADD_KEYPTR(hh, s->slots, e->key, strlen(e->key), e);
	} else {
		index_locked(s, e->o, false);
	}
	*ret_old = e->o;
	e->o = td_object_ref(now);
	index_locked(s, now, true);
	pthread_rwlock_unlock(&s->lock);
}

struct td_object *td_kstore_take(struct td_kstore *s, const char *ns, const char *name)
{
	char key[KEY_MAX];
	key_of(key, sizeof(key), ns, name);
	struct td_object *o = NULL;
	pthread_rwlock_wrlock(&s->lock);
	struct store_slot *e = NULL;
	HASH_FIND_STR(s->slots, key, e);
	if (e) {
		o = e->o;
		index_locked(s, o, false);
		HASH_DEL(s->slots, e);
		free(e->key);
		free(e);
	}
	pthread_rwlock_unlock(&s->lock);
	return o;
}

struct td_object *td_kstore_get(struct td_kstore *s, const char *ns, const char *name)
{
	char key[KEY_MAX];
	key_of(key, sizeof(key), ns, name);
	pthread_rwlock_rdlock(&s->lock);
	struct store_slot *e = NULL;
	HASH_FIND_STR(s->slots, key, e);
	struct td_object *o = e ? td_object_ref(e->o) : NULL;
	pthread_rwlock_unlock(&s->lock);
	return o;
}

void td_kstore_list(struct td_kstore *s, const char *ns, struct td_objects *ret)
{
	pthread_rwlock_rdlock(&s->lock);
	for (struct store_slot *e = s->slots; e; e = e->hh.next)
		if (!ns || !*ns || td_streq(e->o->ns, ns))
			td_objects_add(ret, td_object_ref(e->o));
	pthread_rwlock_unlock(&s->lock);
}

void td_kstore_by_index(struct td_kstore *s, const char *index, const char *value, struct td_objects *ret)
{
	pthread_rwlock_rdlock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		if (td_streq(s->v[i].name, index)) {
			struct bucket *b = NULL;
			HASH_FIND_STR(s->v[i].buckets, value, b);
			for (size_t j = 0; b && j < b->n; j++)
				td_objects_add(ret, td_object_ref(b->v[j]));
		}
	pthread_rwlock_unlock(&s->lock);
}

size_t td_kstore_count(struct td_kstore *s)
{
	pthread_rwlock_rdlock(&s->lock);
	size_t n = HASH_COUNT(s->slots);
	pthread_rwlock_unlock(&s->lock);
	return n;
}
