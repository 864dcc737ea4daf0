// The store: tables and rings in memory, one writer thread over db.h. Invariants: only the writer thread changes tables and rings,
// under `lock` for writing; readers take `lock` for reading and copy references out. A group is applied after its commit.
#include "apiserver/store.h"

#include "apiserver/db.h"
#include "base/fault.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#define GROUP_MAX 128 // writes per commit
#define QUEUE_MAX 4096

struct ring {
	struct td_event *v; // circular, cap entries
	size_t cap, head, n;
	size_t bytes;
	uint64_t floor; // events with revision <= floor are not here any more
};

struct td_table {
	char *name;
	struct td_item **v; // sorted by namespace, name
	size_t n, cap;
	struct ring ring;
	struct td_sub *subs; // under sub_lock
	struct td_table *next;
	bool touched; // the writer's: in the current group
};

struct pending {
	const struct td_write *w;
	struct td_item *item, *prev; // result; prev: version before
	enum td_event_type type;
	int rc;
	struct td_error err;
	bool done;
	pthread_cond_t cond;
	struct pending *pv, *next;
};

struct td_store {
	struct td_db *db;
	size_t ring_events, ring_bytes; // bounds: of each ring, of all together
	size_t ring_used;               // bytes of all rings
	pthread_rwlock_t lock;          // tables' contents, rings, revision, list of tables
	struct td_table *tables;
	struct td_table *namespaces;
	uint64_t revision;
	pthread_mutex_t queue_lock; // queue, queued, stop, pending.done
	pthread_cond_t queue_cond;
	struct pending *queue;
	size_t queued;
	bool stop;
	pthread_mutex_t sub_lock; // subs of all tables
	pthread_t writer;
	bool started;
	uint64_t writes, groups, conflicts; // atomic
};

// ---- ring ----
static struct td_event *ring_at(const struct ring *r, size_t i)
{
	return &r->v[(r->head + i) % r->cap];
}

static void ring_drop(struct td_store *s, struct ring *r)
{
	struct td_event *e = ring_at(r, 0);
	if (e->item->rv > r->floor) // what the file forgot lies above objects that it still has
		r->floor = e->item->rv;
	r->bytes -= td_item_cost(e->item);
	s->ring_used -= td_item_cost(e->item);
	td_item_unref(e->item);
	td_item_unref(e->prev);
	r->head = (r->head + 1) % r->cap;
	r->n--;
}

static void ring_add(struct td_store *s, struct ring *r, struct td_event e)
{
	size_t max_n = s->ring_events;
	if (r->n == r->cap && r->cap < max_n) {
		size_t cap = r->cap ? r->cap * 2 : 64;
		if (cap > max_n)
			cap = max_n;
		struct td_event *v = td_calloc(cap, sizeof(*v));
		for (size_t i = 0; i < r->n; i++)
			v[i] = *ring_at(r, i);
		free(r->v);
		r->v = v;
		r->cap = cap;
		r->head = 0;
	}
	if (r->n == r->cap)
		ring_drop(s, r);
	*ring_at(r, r->n++) = e;
	r->bytes += td_item_cost(e.item);
	s->ring_used += td_item_cost(e.item);
	while (s->ring_used > s->ring_bytes) {
		struct td_table *t, *most = NULL;
		LL_FOREACH (s->tables, t)
			if (t->ring.n > 1 && (!most || t->ring.bytes > most->ring.bytes))
				most = t;
		if (!most)
			break;
		ring_drop(s, &most->ring);
	}
}

// Index of the first event with revision > after.
static size_t ring_find(const struct ring *r, uint64_t after)
{
	size_t lo = 0, hi = r->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (ring_at(r, mid)->item->rv > after)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

// ---- sorted arrays of items ----
static bool find(struct td_item **v, size_t n, const char *ns, const char *name, size_t *ret)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = td_item_cmp(v[mid]->ns, v[mid]->name, ns, name);
		if (c == 0) {
			*ret = mid;
			return true;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo;
	return false;
}

static void table_put(struct td_table *t, struct td_item *i) // takes the reference
{
	size_t at;
	if (find(t->v, t->n, i->ns, i->name, &at)) {
		td_item_unref(t->v[at]);
		t->v[at] = i;
		return;
	}
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 16;
		t->v = td_realloc(t->v, t->cap * sizeof(*t->v));
	}
	memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
	t->v[at] = i;
	t->n++;
}

static void table_del(struct td_table *t, const char *ns, const char *name)
{
	size_t at;
	if (!find(t->v, t->n, ns, name, &at))
		return;
	td_item_unref(t->v[at]);
	memmove(t->v + at, t->v + at + 1, (t->n - at - 1) * sizeof(*t->v));
	t->n--;
}

static struct td_table *table_find(struct td_store *s, const char *name)
{
	struct td_table *t;
	LL_FOREACH (s->tables, t)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static struct td_table *table_get_locked(struct td_store *s, const char *name, uint64_t floor)
{
	struct td_table *t = table_find(s, name);
	if (t)
		return t;
	t = td_calloc(1, sizeof(*t));
	t->name = td_strdup(name);
	t->ring.floor = floor;
	LL_PREPEND(s->tables, t);
	return t;
}

struct td_table *td_store_table(struct td_store *s, const char *group, const char *plural)
{
	td_auto_free char *name = td_asprintf("%s/%s", group, plural);
	pthread_rwlock_rdlock(&s->lock);
	struct td_table *t = table_find(s, name);
	pthread_rwlock_unlock(&s->lock);
	if (t)
		return t;
	pthread_rwlock_wrlock(&s->lock);
	// A table that was never written has no history to miss but what the file forgot before it was loaded.
	t = table_get_locked(s, name, td_db_floor(s->db));
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
	td_auto(td_item_unref) struct td_item *i = find(t->v, t->n, ns ? ns : "", name, &at) ? td_item_ref(t->v[at]) : NULL;
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
		find(t->v, t->n, ns, "", &at);
	for (; at < t->n && (!ns || !*ns || !strcmp(t->v[at]->ns, ns)); at++)
		td_items_add(ret, td_item_ref(t->v[at]));
}

void td_store_page(struct td_store *s, struct td_table *t, const char *ns, const char *name, size_t max, struct td_items *ret)
{
	size_t at = 0;
	pthread_rwlock_rdlock(&s->lock);
	if (name && find(t->v, t->n, ns ? ns : "", name, &at))
		at++;
	for (size_t n = 0; at < t->n && n < max; at++, n++)
		td_items_add(ret, td_item_ref(t->v[at]));
	pthread_rwlock_unlock(&s->lock);
}

// Undoes the events after `at`, newest first, on a list of the present state.
static int rewind_locked(const struct td_table *t, const char *ns, uint64_t at, struct td_items *l, struct td_error *err)
{
	const struct ring *r = &t->ring;
	for (size_t i = r->n; i-- > 0;) {
		const struct td_event *e = ring_at(r, i);
		if (e->item->rv <= at)
			break;
		if (e->restored && e->item->crv <= at)
			return td_fail(err, TD_EXPIRED, "too old resource version: %llu (the server was restarted since)",
				       (unsigned long long)at);
		if (ns && *ns && strcmp(e->item->ns, ns) != 0)
			continue;
		size_t k;
		bool there = find(l->v, l->n, e->item->ns, e->item->name, &k);
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
	return 0;
}

static int expired(struct td_error *err, uint64_t rv, uint64_t floor)
{
	return td_fail(err, TD_EXPIRED, "too old resource version: %llu (%llu)", (unsigned long long)rv, (unsigned long long)floor + 1);
}

int td_store_list(struct td_store *s, struct td_table *t, const char *ns, uint64_t at, struct td_items *ret, uint64_t *ret_rv,
		  struct td_error *err)
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
		rc = rewind_locked(t, ns, at, &l, err);
	pthread_rwlock_unlock(&s->lock);
	if (rc < 0)
		return rc;
	*ret = l;
	l = (struct td_items){0};
	*ret_rv = rv;
	return 0;
}

int td_store_events(struct td_store *s, struct td_table *t, uint64_t after, struct td_event *ret, size_t max, size_t *ret_n,
		    uint64_t *ret_at, struct td_error *err)
{
	pthread_rwlock_rdlock(&s->lock);
	const struct ring *r = &t->ring;
	if (after < r->floor) {
		int rc = expired(err, after, r->floor);
		pthread_rwlock_unlock(&s->lock);
		return rc;
	}
	size_t n = 0;
	size_t i = ring_find(r, after);
	for (; i < r->n && n < max; i++, n++) {
		ret[n] = *ring_at(r, i);
		td_item_ref(ret[n].item);
		td_item_ref(ret[n].prev);
	}
	*ret_n = n;
	uint64_t at = i < r->n ? ret[n - 1].item->rv : s->revision;
	*ret_at = at > after ? at : after; // `after` may be in the future
	pthread_rwlock_unlock(&s->lock);
	return 0;
}

void td_events_done(struct td_event *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		td_item_unref(v[i].item);
		td_item_unref(v[i].prev);
	}
}

// ---- writing ----
// The version that the next write of the group sees: the group's own writes first, then the table.
static struct td_item *latest(struct pending *group, struct pending *upto, struct td_table *t, const char *ns, const char *name)
{
	struct td_item *i = NULL;
	size_t at;
	if (find(t->v, t->n, ns, name, &at)) // the writer thread is the only one that changes it: no lock
		i = t->v[at];
	for (struct pending *p = group; p && p != upto; p = p->next)
		if (p->rc == 0 && p->w->table == t && !strcmp(p->item->name, name) && !strcmp(p->item->ns, ns))
			i = p->type == TD_EVENT_DELETED ? NULL : p->item;
	return i;
}

static int check_namespace(struct td_store *s, struct pending *group, struct pending *p)
{
	const char *ns = p->w->ns;
	struct td_item *n = latest(group, p, s->namespaces, "", ns);
	if (!n) {
		td_fail(&p->err, TD_DENIED, "namespaces \"%s\" not found", ns);
		p->err.http = 404;
		return TD_DENIED;
	}
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(n);
	if (!td_jget(td_json_root(doc), "metadata.deletionTimestamp"))
		return 0;
	td_fail(&p->err, TD_DENIED, "unable to create new content in namespace %s because it is being terminated", ns);
	p->err.http = 403;
	return TD_DENIED;
}

// What is written can be read again, by us and by everybody: text that is UTF-8, no deeper and no larger than what is let in.
static int check_readable(struct pending *p)
{
	td_auto(td_json_unref) struct td_json *doc = NULL;
	if (p->item->len > TD_OBJECT_MAX) {
		td_fail(&p->err, TD_INVALID, "%s \"%s\" of %zu bytes is too large: limit is %d", p->w->table->name, p->w->name,
			p->item->len, TD_OBJECT_MAX);
		p->err.http = 413;
		return TD_INVALID;
	}
	int rc = td_json_parse(p->item->bytes, p->item->len, &doc, &p->err);
	return rc < 0 ? td_wrap(&p->err, "%s \"%s\" cannot be stored", p->w->table->name, p->w->name) : 0;
}

static int prepare(struct td_store *s, struct pending *group, struct pending *p, uint64_t rv)
{
	const struct td_write *w = p->w;
	const char *ns = w->ns ? w->ns : "";
	int rc;
	if (w->in_namespace && (rc = check_namespace(s, group, p)) < 0)
		return rc;
	struct td_item *cur = latest(group, p, w->table, ns, w->name);
	if (!w->base && cur)
		return td_fail(&p->err, TD_EXISTS, "%s \"%s\" already exists", w->table->name, w->name);
	if (w->base && !cur)
		return td_fail(&p->err, TD_NOT_FOUND, "%s \"%s\" not found", w->table->name, w->name);
	if (w->base && cur->rv != w->base) {
		__atomic_add_fetch(&s->conflicts, 1, __ATOMIC_RELAXED);
		return td_fail(&p->err, TD_CONFLICT, "%s \"%s\" has changed", w->table->name, w->name);
	}
	if (w->doc) {
		p->item = td_item_new(w->doc, rv, cur ? cur->crv : rv);
		p->type = cur ? TD_EVENT_MODIFIED : TD_EVENT_ADDED;
	} else {
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(cur);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(doc));
		p->item = td_item_new(d, rv, cur->crv);
		p->type = TD_EVENT_DELETED;
	}
	p->prev = td_item_ref(cur);
	rc = w->doc ? check_readable(p) : 0;
	const struct td_db_row row = {
		.res = w->table->name,
		.ns = ns,
		.name = w->name,
		.rv = rv,
		.crv = p->item->crv,
		.deleted = !w->doc,
		.bytes = p->item->bytes,
		.len = p->item->len,
	};
	rc = rc < 0 ? rc : td_db_put(s->db, &row, &p->err);
	if (rc < 0) {
		p->item = td_item_unref(p->item);
		p->prev = td_item_unref(p->prev);
	}
	return rc;
}

static void apply_locked(struct td_store *s, struct pending *p)
{
	struct td_table *t = p->w->table;
	if (p->type == TD_EVENT_DELETED)
		table_del(t, p->item->ns, p->item->name);
	else
		table_put(t, td_item_ref(p->item));
	ring_add(s, &t->ring, (struct td_event){.type = p->type, .item = td_item_ref(p->item), .prev = td_item_ref(p->prev)});
	t->touched = true;
}

static void fail_group(struct pending *group, const struct td_error *err)
{
	for (struct pending *p = group; p; p = p->next)
		if (p->rc == 0) {
			p->item = td_item_unref(p->item);
			p->prev = td_item_unref(p->prev);
			p->err = *err;
			p->rc = err->code;
		}
}

static void commit_group(struct td_store *s, struct pending *group)
{
	struct td_error err = TD_ERROR_INIT;
	uint64_t rv = s->revision; // only this thread writes it
	struct pending *p;
	if (td_db_begin(s->db, &err) < 0) {
		fail_group(group, &err);
		return;
	}
	size_t n = 0;
	bool broken = false;
	LL_FOREACH (group, p) {
		if (broken) {
			p->rc = TD_INTERNAL;
			p->err = err;
			continue;
		}
		p->rc = prepare(s, group, p, rv + 1);
		if (p->rc == 0) {
			rv++;
			n++;
		} else if (p->rc == TD_INTERNAL) { // the file refused: the whole group goes
			broken = true;
			err = p->err;
		}
	}
	if (broken || (n && (td_fault_at(&err, "apiserver.commit.before") < 0 || td_db_commit(s->db, rv, &err) < 0))) {
		td_db_rollback(s->db);
		fail_group(group, &err);
		return;
	}
	if (!n) {
		td_db_rollback(s->db);
		return;
	}
	(void)td_fault_at(NULL, "apiserver.commit.after"); // crash and delay only: what is in the file must be in memory
	__atomic_add_fetch(&s->writes, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->groups, 1, __ATOMIC_RELAXED);
	pthread_rwlock_wrlock(&s->lock);
	LL_FOREACH (group, p)
		if (p->rc == 0)
			apply_locked(s, p);
	s->revision = rv;
	pthread_rwlock_unlock(&s->lock);
	pthread_mutex_lock(&s->sub_lock);
	LL_FOREACH (group, p) {
		struct td_table *t = p->w->table;
		if (!t->touched)
			continue;
		t->touched = false;
		struct td_sub *sub;
		DL_FOREACH (t->subs, sub)
			sub->wake(sub->ctx);
	}
	pthread_mutex_unlock(&s->sub_lock);
}

static void *writer(void *arg)
{
	struct td_store *s = arg;
	pthread_mutex_lock(&s->queue_lock);
	for (;;) {
		while (!s->queue && !s->stop)
			pthread_cond_wait(&s->queue_cond, &s->queue_lock);
		if (!s->queue)
			break;
		struct pending *group = NULL, *p, *tmp;
		for (size_t n = 0; s->queue && n < GROUP_MAX; n++) {
			p = s->queue;
			DL_DELETE2(s->queue, p, pv, next);
			DL_APPEND2(group, p, pv, next);
			s->queued--;
		}
		pthread_mutex_unlock(&s->queue_lock);
		commit_group(s, group);
		pthread_mutex_lock(&s->queue_lock);
		DL_FOREACH_SAFE2(group, p, tmp, next)
		{
			p->done = true;
			pthread_cond_signal(&p->cond); // p may be gone as soon as the lock is
		}
	}
	pthread_mutex_unlock(&s->queue_lock);
	return NULL;
}

int td_store_write(struct td_store *s, const struct td_write *w, struct td_item **ret, struct td_error *err)
{
	struct pending p = {.w = w, .cond = PTHREAD_COND_INITIALIZER};
	pthread_mutex_lock(&s->queue_lock);
	if (s->stop || s->queued >= QUEUE_MAX) {
		bool stop = s->stop;
		pthread_mutex_unlock(&s->queue_lock);
		return td_fail(err, stop ? TD_CANCELLED : TD_THROTTLED, stop ? "the server is stopping" : "too many writes are waiting");
	}
	DL_APPEND2(s->queue, &p, pv, next);
	s->queued++;
	pthread_cond_signal(&s->queue_cond);
	while (!p.done)
		pthread_cond_wait(&p.cond, &s->queue_lock);
	pthread_mutex_unlock(&s->queue_lock);
	pthread_cond_destroy(&p.cond);
	td_item_unref(p.prev);
	if (p.rc < 0) {
		if (err)
			*err = p.err;
		return p.rc;
	}
	if (ret)
		*ret = td_item_copy(p.item);
	td_item_unref(p.item);
	return 0;
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
static int load_row(void *ctx, const struct td_db_row *r, struct td_error *err)
{
	struct td_store *s = ctx;
	struct td_item *i = NULL;
	int rc = td_item_parse(r->bytes, r->len, r->rv, r->crv, &i, err);
	if (rc < 0)
		return td_wrap(err, "state database: object %s %s/%s", r->res, r->ns, r->name);
	struct td_table *t = table_get_locked(s, r->res, td_db_floor(s->db));
	ring_add(s, &t->ring,
		 (struct td_event){.type = r->deleted        ? TD_EVENT_DELETED
					   : r->rv == r->crv ? TD_EVENT_ADDED
							     : TD_EVENT_MODIFIED,
				   .item = td_item_ref(i),
				   .restored = true});
	if (r->deleted)
		td_item_unref(i);
	else
		table_put(t, i);
	return 0;
}

struct td_store *td_store_close(struct td_store *s)
{
	if (!s)
		return NULL;
	if (s->started) {
		pthread_mutex_lock(&s->queue_lock);
		s->stop = true;
		pthread_cond_signal(&s->queue_cond);
		pthread_mutex_unlock(&s->queue_lock);
		pthread_join(s->writer, NULL);
	}
	struct td_table *t, *tmp;
	LL_FOREACH_SAFE(s->tables, t, tmp)
	{
		for (size_t i = 0; i < t->n; i++)
			td_item_unref(t->v[i]);
		while (t->ring.n)
			ring_drop(s, &t->ring);
		free(t->ring.v);
		free(t->v);
		free(t->name);
		free(t);
	}
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
	// A crowd of readers must not keep the writer thread out.
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&s->lock, &a);
	pthread_rwlockattr_destroy(&a);
	pthread_mutex_init(&s->queue_lock, NULL);
	pthread_mutex_init(&s->sub_lock, NULL);
	pthread_cond_init(&s->queue_cond, NULL);
	int rc;
	if ((rc = td_db_open(path, &s->db, err)) < 0 || (rc = td_db_load(s->db, load_row, s, err)) < 0)
		return rc;
	s->revision = td_db_revision(s->db);
	s->namespaces = table_get_locked(s, "/namespaces", td_db_floor(s->db));
	if (pthread_create(&s->writer, NULL, writer, s) != 0)
		return td_fail(err, TD_INTERNAL, "cannot start the store's writer thread");
	s->started = true;
	*ret = td_steal(s);
	return 0;
}
