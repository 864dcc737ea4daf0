// One resource in memory: its sorted objects, and the ring of its last events. All rings share one
// bound; the largest drops events first.
#include "apiserver/store_priv.h"

#include <string.h>
#include <utlist.h>

// ---- ring ----
struct td_srv_event *td_ring_at(const struct td_ring *r, size_t i)
{
	return &r->v[(r->head + i) % r->cap];
}

static void ring_drop(struct td_store *s, struct td_ring *r)
{
	struct td_srv_event *e = td_ring_at(r, 0);
	if (e->item->rv > r->floor)
		r->floor = e->item->rv;
	r->bytes -= td_item_cost(e->item);
	s->ring_used -= td_item_cost(e->item);
	td_item_unref(e->item);
	td_item_unref(e->prev);
	r->head = (r->head + 1) % r->cap;
	r->n--;
}

static void ring_add(struct td_store *s, struct td_ring *r, struct td_srv_event e)
{
	size_t max_n = s->ring_events;
	if (r->n == r->cap && r->cap < max_n) {
		size_t cap = r->cap ? r->cap * 2 : 64;
		if (cap > max_n)
			cap = max_n;
		struct td_srv_event *v = td_calloc(cap, sizeof(*v));
		for (size_t i = 0; i < r->n; i++)
			v[i] = *td_ring_at(r, i);
		free(r->v);
		r->v = v;
		r->cap = cap;
		r->head = 0;
	}

	if (r->n == r->cap)
		ring_drop(s, r);
	*td_ring_at(r, r->n++) = e;
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

size_t td_ring_after(const struct td_ring *r, uint64_t after)
{
	size_t lo = 0, hi = r->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (td_ring_at(r, mid)->item->rv > after)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

// ---- sorted arrays of items ----
bool td_items_find(struct td_item **v, size_t n, const char *ns, const char *name, size_t *ret)
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
	if (td_items_find(t->v, t->n, i->ns, i->name, &at)) {
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
	if (!td_items_find(t->v, t->n, ns, name, &at))
		return;
	td_item_unref(t->v[at]);
	memmove(t->v + at, t->v + at + 1, (t->n - at - 1) * sizeof(*t->v));
	t->n--;
}

struct td_table *td_table_find(struct td_store *s, const char *name)
{
	struct td_table *t;
	LL_FOREACH (s->tables, t)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

struct td_table *td_table_get(struct td_store *s, const char *name, uint64_t floor)
{
	struct td_table *t = td_table_find(s, name);
	if (t)
		return t;
	t = td_calloc(1, sizeof(*t));
	t->name = td_strdup(name);
	t->ring.floor = floor;
	LL_PREPEND(s->tables, t);
	return t;
}

void td_table_set(struct td_table *t, enum td_srv_event_type type, struct td_item *item)
{
	if (type != TD_EVENT_DELETED) {
		table_put(t, item);
		return;
	}
	table_del(t, item->ns, item->name);
	td_item_unref(item);
}

void td_table_apply(struct td_store *s, struct td_table *t, enum td_srv_event_type type, struct td_item *item)
{
	size_t at;
	struct td_item *prev = td_items_find(t->v, t->n, item->ns, item->name, &at) ? td_item_ref(t->v[at]) : NULL;
	ring_add(s, &t->ring, (struct td_srv_event){.type = type, .item = td_item_ref(item), .prev = prev});
	td_table_set(t, type, item);
}

void td_table_free(struct td_store *s, struct td_table *t)
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
