#include "base/heap.h"

#include "base/mem.h"

static void put(struct td_heap *h, size_t i, struct td_heap_node *x)
{
	h->v[i] = x;
	x->pos = i;
}

static void up(struct td_heap *h, size_t i, struct td_heap_node *x)
{
	for (; i > 1 && h->v[i / 2]->at > x->at; i /= 2)
		put(h, i, h->v[i / 2]);
	put(h, i, x);
}

static void down(struct td_heap *h, size_t i, struct td_heap_node *x)
{
	for (size_t c; (c = i * 2) <= h->n; i = c) {
		if (c < h->n && h->v[c + 1]->at < h->v[c]->at)
			c++;
		if (h->v[c]->at >= x->at)
			break;
		put(h, i, h->v[c]);
	}
	put(h, i, x);
}

void td_heap_push(struct td_heap *h, struct td_heap_node *node)
{
	if (h->n + 2 > h->cap) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->v = td_realloc(h->v, h->cap * sizeof(*h->v));
	}
	up(h, ++h->n, node);
}

struct td_heap_node *td_heap_peek(const struct td_heap *h)
{
	return h->n ? h->v[1] : NULL;
}

void td_heap_remove(struct td_heap *h, struct td_heap_node *node)
{
	size_t i = node->pos;
	if (!i)
		return;
	node->pos = 0;
	struct td_heap_node *last = h->v[h->n--];
	if (last == node)
		return;
	if (i > 1 && h->v[i / 2]->at > last->at)
		up(h, i, last);
	else
		down(h, i, last);
}

struct td_heap_node *td_heap_pop(struct td_heap *h)
{
	struct td_heap_node *top = td_heap_peek(h);
	if (top)
		td_heap_remove(h, top);
	return top;
}

void td_heap_done(struct td_heap *h)
{
	free(h->v);
	*h = (struct td_heap){0};
}
