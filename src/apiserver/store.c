// The store: opening, reading, subscriptions. store_priv.h says how its files fit together.
#include "apiserver/store_priv.h"

#include <string.h>
#include <utlist.h>

// ---- tables ----
struct td_table *td_store_table(struct td_store *s, const char *group, const char *plural)
{
	td_auto_free char *name = td_asprintf("%s/%s", group, plural);
	pthread_rwlock_rdlock(&s->lock);
	struct td_table *t = td_table_find(s, name);
	pthread_rwlock_unlock(&s->lock);
	if (t)
		return t;
	pthread_rwlock_wrlock(&s->lock);
	// A table that was never written has no history, but for what the file forgot before it was
	// loaded.
	t = td_table_get(s, name, td_db_floor(s->db));
	pthread_rwlock_unlock(&s->lock);
	return t;
}

const char *td_table_name(const struct td_table *t)
{
	return t->name;
}

// ---- reading ----
uint64_t td_store_revision(struct td_store *s)
{
	pthread_rwlock_rdlock(&s->lock);
	uint64_t rv = s->revision;
	pthread_rwlock_unlock(&s->lock);
	return rv;
}

struct td_item *td_store_get(struct td_store *s, struct td_table *t, const char *ns, const char *name)
{
	size_t at;
	pthread_rwlock_rdlock(&s->lock);
	td_auto(td_item_unref) struct td_item *i =
		td_items_find(t->v, t->n, ns ? ns : "", name, &at) ? td_item_ref(t->v[at]) : NULL;
	pthread_rwlock_unlock(&s->lock);
	return td_item_copy(i);
}

size_t td_store_count(struct td_store *s, struct td_table *t)
{
	pthread_rwlock_rdlock(&s->lock);
	size_t n = t->n;
	pthread_rwlock_unlock(&s->lock);
	return n;
}

static void list_locked(const struct td_table *t, const char *ns, struct td_items *ret)
{
	size_t at = 0;
	if (ns && *ns)
		td_items_find(t->v, t->n, ns, "", &at);
	for (; at < t->n && (!ns || !*ns || !strcmp(t->v[at]->ns, ns)); at++)
		td_items_add(ret, td_item_ref(t->v[at]));
}

void td_store_page(struct td_store *s, struct td_table *t, const char *ns, const char *name, size_t max,
		   struct td_items *ret)
{
	size_t at = 0;
	pthread_rwlock_rdlock(&s->lock);
	if (name && td_items_find(t->v, t->n, ns ? ns : "", name, &at))
		at++;
	for (size_t n = 0; at < t->n && n < max; at++, n++)
		td_items_add(ret, td_item_ref(t->v[at]));
	pthread_rwlock_unlock(&s->lock);
}

// Undoes the events after `at`, newest first, on a list l of the present state.
static void rewind_locked(const struct td_table *t, const char *ns, uint64_t at, struct td_items *l)
{
	const struct td_ring *r = &t->ring;
	for (size_t i = r->n; i-- > 0;) {
		const struct td_srv_event *e = td_ring_at(r, i);
		if (e->item->rv <= at)
			break;
		if (ns && *ns && strcmp(e->item->ns, ns) != 0)
			continue;
		size_t k;
		bool there = td_items_find(l->v, l->n, e->item->ns, e->item->name, &k);
		if (there) {
			td_item_unref(l->v[k]);
			if (e->prev) {
				l->v[k] = td_item_ref(e->prev);
			} else {
				memmove(l->v + k, l->v + k + 1, (l->n - k - 1) * sizeof(*l->v));
				l->n--;
			}
		} else if (e->prev) {
			td_items_add(l, NULL);
			memmove(l->v + k + 1, l->v + k, (l->n - 1 - k) * sizeof(*l->v));
			l->v[k] = td_item_ref(e->prev);
		}
	}
}

static int expired(struct td_error *err, uint64_t rv, uint64_t floor)
{
	return td_fail(err, TD_EXPIRED, "too old resource version: %llu (%llu)", (unsigned long long)rv,
		       (unsigned long long)floor + 1);
}

int td_store_list(struct td_store *s, struct td_table *t, const char *ns, uint64_t at, struct td_items *ret,
		  uint64_t *ret_rv, struct td_error *err)
{
	td_auto_items struct td_items l = {0};
	int rc = 0;

	pthread_rwlock_rdlock(&s->lock);
	uint64_t rv = at ? at : s->revision;
	if (at && at < t->ring.floor)
		rc = expired(err, at, t->ring.floor);
	else
		list_locked(t, ns, &l);
	if (rc == 0 && at && at < s->revision)
		rewind_locked(t, ns, at, &l);
	pthread_rwlock_unlock(&s->lock);
	if (rc < 0)
		return rc;

	*ret = l;
	l = (struct td_items){0};
	*ret_rv = rv;
	return 0;
}

int td_store_events(struct td_store *s, struct td_table *t, uint64_t after, struct td_events *ret, struct td_error *err)
{
	pthread_rwlock_rdlock(&s->lock);
	const struct td_ring *r = &t->ring;
	if (after < r->floor) {
		int rc = expired(err, after, r->floor);
		pthread_rwlock_unlock(&s->lock);
		return rc;
	}

	size_t n = 0;
	size_t i = td_ring_after(r, after);
	for (; i < r->n && n < ret->max; i++, n++) {
		ret->v[n] = *td_ring_at(r, i);
		td_item_ref(ret->v[n].item);
		td_item_ref(ret->v[n].prev);
	}

	ret->n = n;
	uint64_t at = i < r->n ? ret->v[n - 1].item->rv : s->revision;
	ret->at = at > after ? at : after; // `after` may be in the future
	pthread_rwlock_unlock(&s->lock);
	return 0;
}

void td_events_done(struct td_srv_event *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		td_item_unref(v[i].item);
		td_item_unref(v[i].prev);
	}
}

// ---- subscriptions ----
void td_store_subscribe(struct td_store *s, struct td_table *t, struct td_sub *sub)
{
	pthread_mutex_lock(&s->sub_lock);
	DL_APPEND(t->subs, sub);
	sub->linked = true;
	pthread_mutex_unlock(&s->sub_lock);
}

void td_store_unsubscribe(struct td_store *s, struct td_table *t, struct td_sub *sub)
{
	pthread_mutex_lock(&s->sub_lock);
	if (sub->linked)
		DL_DELETE(t->subs, sub);
	sub->linked = false;
	pthread_mutex_unlock(&s->sub_lock);
}

void td_store_wake_all(struct td_store *s)
{
	pthread_rwlock_rdlock(&s->lock);
	pthread_mutex_lock(&s->sub_lock);
	struct td_table *t;
	LL_FOREACH (s->tables, t) {
		struct td_sub *sub;
		DL_FOREACH (t->subs, sub)
			sub->wake(sub->ctx);
	}
	pthread_mutex_unlock(&s->sub_lock);
	pthread_rwlock_unlock(&s->lock);
}

void td_store_stats(struct td_store *s, struct td_store_stats *ret)
{
	struct td_store_stats st = {
		.writes = __atomic_load_n(&s->writes, __ATOMIC_RELAXED),
		.groups = __atomic_load_n(&s->groups, __ATOMIC_RELAXED),
		.conflicts = __atomic_load_n(&s->conflicts, __ATOMIC_RELAXED),
	};

	pthread_rwlock_rdlock(&s->lock);
	pthread_mutex_lock(&s->sub_lock);
	struct td_table *t;
	LL_FOREACH (s->tables, t) {
		st.tables++;
		st.objects += t->n;
		st.ring_events += t->ring.n;
		st.ring_bytes += t->ring.bytes;
		struct td_sub *sub;
		DL_FOREACH (t->subs, sub)
			st.subs++;
	}
	pthread_mutex_unlock(&s->sub_lock);
	pthread_rwlock_unlock(&s->lock);
	*ret = st;
}

// ---- open and close ----
static void load_floor(void *ctx, const char *res, uint64_t rv)
{
	struct td_store *s = ctx;
	uint64_t floor = td_db_floor(s->db);
	td_table_get(s, res, rv > floor ? rv : floor);
}

static int load_row(void *ctx, struct td_db_row *r, struct td_error *err)
{
	struct td_store *s = ctx;
	struct td_item *i = NULL;

	int rc = td_item_parse(r->bytes, r->len, r->rv, r->crv, &i, err);
	if (rc < 0)
		return td_wrap(err, "state database: object %s %s/%s", r->res, r->ns, r->name);
	struct td_table *t = td_table_get(s, r->res, td_db_floor(s->db));
	size_t at;
	if (td_items_find(t->v, t->n, r->ns, r->name, &at)) {
		r->prev = t->v[at]->rv;
		r->prev_len = t->v[at]->len;
	}
	enum td_srv_event_type type = r->deleted ? TD_EVENT_DELETED : r->prev ? TD_EVENT_MODIFIED : TD_EVENT_ADDED;
	if (!r->prev && r->rv != r->crv && r->rv > t->ring.floor)
		// The versions before this one are forgotten: a watch that has not seen it must
		// list.
		t->ring.floor = r->rv;
	if (r->rv > t->ring.floor)
		td_table_apply(s, t, type, i);
	else
		td_table_set(t, type, i);

	return 0;
}

struct td_store *td_store_close(struct td_store *s)
{
	if (!s)
		return NULL;
	td_writer_stop(s);
	struct td_table *t, *tmp;
	LL_FOREACH_SAFE(s->tables, t, tmp)
	td_table_free(s, t);
	td_db_close(s->db);
	pthread_rwlock_destroy(&s->lock);
	pthread_mutex_destroy(&s->queue_lock);
	pthread_mutex_destroy(&s->sub_lock);
	pthread_cond_destroy(&s->queue_cond);
	free(s);
	return NULL;
}

int td_store_open(const char *path, size_t ring_events, size_t ring_bytes, struct td_store **ret, struct td_error *err)
{
	td_auto(td_store_close) struct td_store *s = td_calloc(1, sizeof(*s));
	s->ring_events = ring_events ? ring_events : 2048;
	s->ring_bytes = ring_bytes ? ring_bytes : 3u << 20;

	pthread_rwlockattr_t a;
	pthread_rwlockattr_init(&a);

	// Many readers must not keep the writer thread out.
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&s->lock, &a);
	pthread_rwlockattr_destroy(&a);

	pthread_mutex_init(&s->queue_lock, NULL);
	pthread_mutex_init(&s->sub_lock, NULL);
	pthread_cond_init(&s->queue_cond, NULL);

	const struct td_db_loader l = {.floor = load_floor, .row = load_row, .ctx = s};
	int rc;
	if ((rc = td_db_open(path, &s->db, err)) < 0 || (rc = td_db_load(s->db, &l, err)) < 0)
		return rc;

	s->revision = td_db_revision(s->db);
	s->namespaces = td_table_get(s, "/namespaces", td_db_floor(s->db));
	if ((rc = td_writer_start(s, err)) < 0)
		return rc;

	*ret = td_steal(s);
	return 0;
}
