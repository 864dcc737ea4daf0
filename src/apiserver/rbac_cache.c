// The compiled access rules of a store. After a write to one of the four tables the store wakes
// this cache before it answers the writer: the compiled rules are then stale, and the next question
// compiles anew. So an answered write is always seen, and a restart begins with nothing.
#include "apiserver/rbac.h"

#include "apiserver/store.h"

#include <pthread.h>

enum { TABLES = 4 };
static const char *const plurals[TABLES] = {"clusterroles", "roles", "clusterrolebindings", "rolebindings"};

struct td_rbac_cache {
	struct td_store *store;
	struct td_table *tables[TABLES];
	struct td_sub subs[TABLES];
	uint64_t writes;      // atomic: number of groups of writes to the tables
	pthread_mutex_t lock; // guards made, made_at; held while compiling: one thread compiles
	struct td_rbac *made;
	uint64_t made_at; // `writes` before the tables were read
};

static void stale(void *ctx)
{
	struct td_rbac_cache *c = ctx;
	__atomic_add_fetch(&c->writes, 1, __ATOMIC_RELEASE);
}

struct td_rbac_cache *td_rbac_cache_new(struct td_store *s)
{
	struct td_rbac_cache *c = td_calloc(1, sizeof(*c));
	c->store = s;
	pthread_mutex_init(&c->lock, NULL);
	for (size_t i = 0; i < TABLES; i++) {
		c->tables[i] = td_store_table(s, "rbac.authorization.k8s.io", plurals[i]);
		c->subs[i] = (struct td_sub){.wake = stale, .ctx = c};
		td_store_subscribe(s, c->tables[i], &c->subs[i]);
	}
	return c;
}

struct td_rbac_cache *td_rbac_cache_free(struct td_rbac_cache *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < TABLES; i++)
		td_store_unsubscribe(c->store, c->tables[i], &c->subs[i]);
	td_rbac_unref(c->made);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static struct td_rbac *compile(struct td_rbac_cache *c)
{
	struct td_items l[TABLES] = {0};
	uint64_t rv;
	for (size_t i = 0; i < TABLES; i++)
		// The present state is always available.
		td_store_list(c->store, c->tables[i], NULL, 0, &l[i], &rv, NULL);
	struct td_rbac *r = td_rbac_new(&l[0], &l[1], &l[2], &l[3]);
	for (size_t i = 0; i < TABLES; i++)
		td_items_done(&l[i]);
	return r;
}

struct td_rbac *td_rbac_cache_get(struct td_rbac_cache *c)
{
	pthread_mutex_lock(&c->lock);
	uint64_t now = __atomic_load_n(&c->writes, __ATOMIC_ACQUIRE);
	if (!c->made || c->made_at != now) {
		struct td_rbac *r = compile(c);
		td_rbac_unref(c->made);
		c->made = r;
		c->made_at = now;
	}
	struct td_rbac *r = td_rbac_ref(c->made);
	pthread_mutex_unlock(&c->lock);
	return r;
}
