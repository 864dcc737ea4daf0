// Structured merge, diff and removal, driven by the list and map types of the schema.
#include "api/typed.h"

#include <string.h>

enum typed_kind { LEAF, MAP, LIST };

// How a value is treated. Atomic values and scalars are leaves. Without a schema, maps are joined
// and lists are atomic.
static enum typed_kind kind_of(const struct td_schema *s, const yyjson_val *v)
{
	if (yyjson_is_obj(td_unconst(v)))
		return s && s->map_atomic ? LEAF : MAP;
	if (yyjson_is_arr(td_unconst(v)))
		return s && s->list_type != TD_L_ATOMIC ? LIST : LEAF;
	return LEAF;
}

static const struct td_schema *prop(const struct td_schema *s, const char *key)
{
	return s ? td_schema_prop(s, key) : NULL;
}

// The path element of a list item: v:<value>, or k:{the keys, sorted}.
static char *item_pe(const struct td_schema *s, const yyjson_val *item)
{
	if (s->list_type == TD_L_SET) {
		td_auto_free char *t = td_json_text(item, NULL);
		return td_asprintf("v:%s", t);
	}
	const char *keys[8];
	size_t n = s->n_keys < TD_LEN(keys) ? s->n_keys : TD_LEN(keys);
	for (size_t i = 0; i < n; i++) { // insertion sort: there are few
		size_t p = i;
		for (; p && strcmp(keys[p - 1], s->keys[i]) > 0; p--)
			keys[p] = keys[p - 1];
		keys[p] = s->keys[i];
	}

	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "k:{");
	for (size_t i = 0; i < n; i++) {
		const yyjson_val *v = td_api_item_key(s, item, keys[i]);
		td_auto_free char *t = v ? td_json_text(v, NULL) : td_strdup("null");
		td_buf_printf(&b, "%s\"%s\":%s", i ? "," : "", keys[i], t);
	}
	td_buf_putc(&b, '}');
	return td_buf_take(&b);
}

static char *key_pe(const char *key)
{
	return td_asprintf("f:%s", key);
}

static void set_of(struct td_arena *a, const struct td_schema *s, yyjson_val *v, bool containers, struct td_fields *to,
		   int depth)
{
	size_t i, max;
	yyjson_val *k, *x;
	enum typed_kind kind = kind_of(s, v);
	if (kind == LEAF || !yyjson_get_len(v)) {
		to->member = depth > 0;
		return;
	}

	if (kind == MAP) {
		to->member = to->member || (containers && depth > 0);
		yyjson_obj_foreach (v, i, max, k, x) {
			td_auto_free char *pe = key_pe(td_keystr(k));
			set_of(a, prop(s, td_keystr(k)), x, containers, td_fields_get(a, to, pe), depth + 1);
		}
		return;
	}

	to->member = to->member || (containers && depth > 0);
	yyjson_arr_foreach (v, i, max, x) {
		td_auto_free char *pe = item_pe(s, x);
		struct td_fields *c = td_fields_get(a, to, pe);
		c->member = true;
		if (s->list_type == TD_L_MAP)
			set_of(a, s->items, x, containers, c, depth + 1);
		c->member = true;
	}
}

void td_typed_set(struct td_arena *a, const struct td_schema *s, const yyjson_val *v, bool containers,
		  struct td_fields *to)
{
	set_of(a, s, td_unconst(v), containers, to, 0);
}

// A list indexed by path element, so that lookups stay cheap for long lists from outside.
struct entry {
	char *pe;
	yyjson_val *v;
	size_t pos;
};
struct items {
	// v is by position, sorted by path element and then position.
	struct entry *v, **sorted;
	size_t n;
};

static int cmp_entry(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
	int c = strcmp(x->pe, y->pe);
	return c ? c : x->pos < y->pos ? -1 : x->pos > y->pos;
}

static void items_done(struct items *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].pe);
	free(l->v);
	free(l->sorted);
}

static void items_init(struct items *l, const struct td_schema *s, yyjson_val *list)
{
	size_t i, max;
	yyjson_val *x;

	l->n = yyjson_arr_size(list);
	l->v = td_calloc(l->n + 1, sizeof(*l->v));
	l->sorted = td_calloc(l->n + 1, sizeof(*l->sorted));
	yyjson_arr_foreach (list, i, max, x) {
		l->v[i] = (struct entry){item_pe(s, x), x, i};
		l->sorted[i] = &l->v[i];
	}
	qsort(l->sorted, l->n, sizeof(*l->sorted), cmp_entry);
}

// Returns the first item with this path element, or NULL.
static struct entry *items_find(const struct items *l, const char *pe)
{
	size_t lo = 0, hi = l->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (strcmp(l->sorted[mid]->pe, pe) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->n && !strcmp(l->sorted[lo]->pe, pe) ? l->sorted[lo] : NULL;
}
#define td_auto_items __attribute__((cleanup(items_done)))

struct difference {
	struct td_fields *changed, *removed;
};

static struct difference below(struct td_arena *a, struct difference to, const char *pe)
{
	return (struct difference){td_fields_get(a, to.changed, pe), td_fields_get(a, to.removed, pe)};
}

static void diff(struct td_arena *a, const struct td_schema *s, yyjson_val *old, yyjson_val *now, struct difference to,
		 int depth)
{
	size_t i, max;
	yyjson_val *k, *x;
	if (!old || !now) {
		set_of(a, s, old ? old : now, true, now ? to.changed : to.removed, depth);
		return;
	}

	enum typed_kind kind = kind_of(s, now);
	if (kind != kind_of(s, old) || kind == LEAF || yyjson_get_type(old) != yyjson_get_type(now)) {
		if (!td_jequal(old, now))
			to.changed->member = true;
		return;
	}
	if (td_jequal(old, now))
		return;

	if (kind == MAP) {
		yyjson_obj_foreach (now, i, max, k, x) {
			td_auto_free char *pe = key_pe(td_keystr(k));
			diff(a, prop(s, td_keystr(k)), td_jkey(old, td_keystr(k)), x, below(a, to, pe), depth + 1);
		}
		yyjson_obj_foreach (old, i, max, k, x) {
			if (td_jkey(now, td_keystr(k)))
				continue;
			td_auto_free char *pe = key_pe(td_keystr(k));
			diff(a, prop(s, td_keystr(k)), x, NULL, below(a, to, pe), depth + 1);
		}
		return;
	}

	td_auto_items struct items was = {0}, is = {0};
	items_init(&was, s, old);
	items_init(&is, s, now);
	for (i = 0; i < is.n; i++) {
		const char *pe = is.v[i].pe;
		const struct entry *o = items_find(&was, pe);
		struct difference its = below(a, to, pe);
		if (s->list_type == TD_L_MAP)
			diff(a, s->items, o ? o->v : NULL, is.v[i].v, its, depth + 1);
		its.changed->member = its.changed->member || !o;
	}

	for (i = 0; i < was.n; i++) {
		if (items_find(&is, was.v[i].pe))
			continue;
		struct td_fields *r = td_fields_get(a, to.removed, was.v[i].pe);
		if (s->list_type == TD_L_MAP)
			set_of(a, s->items, was.v[i].v, true, r, depth + 1);
		r->member = true;
	}
}

// Removes branches without a member.
static void tidy(struct td_fields *f)
{
	size_t w = 0;
	for (size_t i = 0; i < f->n; i++) {
		tidy(f->v[i]);
		if (!td_fields_empty(f->v[i]))
			f->v[w++] = f->v[i];
	}
	f->n = w;
}

void td_typed_diff(struct td_arena *a, const struct td_schema *s, const yyjson_val *old, const yyjson_val *now,
		   struct td_fields *changed, struct td_fields *removed)
{
	if (!old && !now)
		return;
	diff(a, s, td_unconst(old), td_unconst(now), (struct difference){changed, removed}, 0);
	tidy(changed);
	tidy(removed);
}

static yyjson_mut_val *merge(yyjson_mut_doc *d, const struct td_schema *s, yyjson_val *base, yyjson_val *over);

static yyjson_mut_val *merge_lists(yyjson_mut_doc *d, const struct td_schema *s, yyjson_val *base, yyjson_val *over)
{
	yyjson_mut_val *out = yyjson_mut_arr(d);
	td_auto_items struct items was = {0}, is = {0};
	items_init(&was, s, base);
	items_init(&is, s, over);

	// Applied items keep their order. Items that only the base has stay before the item that
	// they preceded, as far as possible.
	size_t next = 0, b = 0;
	td_auto_free bool *done = td_calloc(is.n + 1, sizeof(*done));
	for (size_t i = 0; i < is.n || b < was.n;) {
		while (next < is.n && (done[next] || !items_find(&was, is.v[next].pe)))
			next++; // the next item that both have

		const struct entry *twin = b < was.n ? items_find(&is, was.v[b].pe) : NULL;
		if (b < was.n && !twin) {
			yyjson_mut_arr_append(out, yyjson_val_mut_copy(d, was.v[b++].v));
			continue;
		}
		if (b < was.n && (done[twin->pos] || (i < is.n && twin->pos != i && twin->pos != next))) {
			b++;
			continue;
		}

		if (i >= is.n)
			break;
		// Of equal items the first counts.
		if (!done[i] && items_find(&is, is.v[i].pe)->pos == i) {
			const struct entry *old = items_find(&was, is.v[i].pe);
			yyjson_mut_arr_append(out, s->list_type == TD_L_MAP && old
							   ? merge(d, s->items, old->v, is.v[i].v)
							   : yyjson_val_mut_copy(d, is.v[i].v));
		}

		done[i] = true;
		if (twin && twin->pos == i)
			b++;
		i++;
	}
	return out;
}

static yyjson_mut_val *merge(yyjson_mut_doc *d, const struct td_schema *s, yyjson_val *base, yyjson_val *over)
{
	if (!over)
		return yyjson_val_mut_copy(d, base);
	enum typed_kind kind = kind_of(s, over);
	if (!base || kind == LEAF || kind != kind_of(s, base))
		return yyjson_val_mut_copy(d, over);
	if (kind == LIST)
		return merge_lists(d, s, base, over);

	yyjson_mut_val *o = yyjson_mut_obj(d);
	size_t i, max;
	yyjson_val *k, *x;
	yyjson_obj_foreach (base, i, max, k, x)
		td_jm_key_set(d, o, td_keystr(k), merge(d, prop(s, td_keystr(k)), x, td_jkey(over, td_keystr(k))));
	yyjson_obj_foreach (over, i, max, k, x) {
		if (!td_jkey(base, td_keystr(k)))
			td_jm_key_set(d, o, td_keystr(k), yyjson_val_mut_copy(d, x));
	}
	return o;
}

yyjson_mut_val *td_typed_merge(yyjson_mut_doc *d, const struct td_schema *s, const yyjson_val *base,
			       const yyjson_val *over)
{
	return merge(d, s, td_unconst(base), td_unconst(over));
}

void td_typed_remove(const struct td_schema *s, yyjson_mut_val *v, const struct td_fields *gone, struct td_fields *keep)
{
	for (size_t i = 0; i < gone->n; i++) {
		const struct td_fields *g = gone->v[i];
		struct td_fields *k = td_fields_child(keep, g->pe);

		if (g->pe[0] == 'f' && yyjson_mut_is_obj(v)) {
			yyjson_mut_val *x = yyjson_mut_obj_get(v, g->pe + 2);
			if (x && !k)
				yyjson_mut_obj_remove_key(v, g->pe + 2);
			else if (x && g->n)
				td_typed_remove(prop(s, g->pe + 2), x, g, k);
			continue;
		}

		if (!yyjson_mut_is_arr(v) || !s || s->list_type == TD_L_ATOMIC)
			continue;

		yyjson_mut_arr_iter it;
		yyjson_mut_arr_iter_init(v, &it);
		for (yyjson_mut_val *x; (x = yyjson_mut_arr_iter_next(&it));) {
			td_auto(td_json_unref) struct td_json *item = td_json_from_mut(x);
			td_auto_free char *pe = item_pe(s, td_json_root(item));
			if (strcmp(pe, g->pe))
				continue;
			if (!k)
				yyjson_mut_arr_iter_remove(&it);
			else if (g->n)
				td_typed_remove(s->items, x, g, k);
		}
	}
}
