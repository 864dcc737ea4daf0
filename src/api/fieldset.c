// Sets of fields (FieldsV1).
#include "api/fieldset.h"

#include <string.h>

struct td_fields *td_fields_new(struct td_arena *a)
{
	return td_arena_alloc(a, sizeof(struct td_fields));
}

// The index of pe in f->v, or where it would be inserted.
static size_t place(const struct td_fields *f, const char *pe, bool *ret_found)
{
	size_t lo = 0, hi = f->n;
	*ret_found = false;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = strcmp(f->v[mid]->pe, pe);
		if (!c) {
			*ret_found = true;
			return mid;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct td_fields *td_fields_child(struct td_fields *f, const char *pe)
{
	bool found = false;
	size_t i = f ? place(f, pe, &found) : 0;
	return found ? f->v[i] : NULL;
}

struct td_fields *td_fields_get(struct td_arena *a, struct td_fields *f, const char *pe)
{
	bool found;
	size_t i = place(f, pe, &found);
	if (found)
		return f->v[i];

	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 4;
		struct td_fields **v = td_arena_alloc(a, cap * sizeof(struct td_fields *));
		if (f->n)
			memcpy(v, f->v, f->n * sizeof(struct td_fields *));
		f->v = v;
		f->cap = cap;
	}

	memmove(&f->v[i + 1], &f->v[i], (f->n - i) * sizeof(struct td_fields *));
	struct td_fields *c = td_fields_new(a);
	c->pe = td_arena_strdup(a, pe);
	f->v[i] = c;
	f->n++;
	return c;
}

static void parse(struct td_arena *a, struct td_fields *f, yyjson_val *v, bool root)
{
	size_t i, max;
	yyjson_val *k, *x;
	if (!yyjson_obj_size(v) && !root)
		f->member = true;
	yyjson_obj_foreach (v, i, max, k, x) {
		const char *pe = yyjson_get_str(k);
		if (!strcmp(pe, "."))
			f->member = true;
		else if ((td_starts(pe, "f:") || td_starts(pe, "k:") || td_starts(pe, "v:")) && yyjson_is_obj(x))
			parse(a, td_fields_get(a, f, pe), x, false);
	}
}

struct td_fields *td_fields_parse(struct td_arena *a, const yyjson_val *v)
{
	struct td_fields *f = td_fields_new(a);
	if (yyjson_is_obj((yyjson_val *)(uintptr_t)v))
		parse(a, f, (yyjson_val *)(uintptr_t)v, true);
	return f;
}

yyjson_mut_val *td_fields_emit(yyjson_mut_doc *d, const struct td_fields *f)
{
	yyjson_mut_val *o = yyjson_mut_obj(d);
	if (f->member && f->n)
		yyjson_mut_obj_add(o, yyjson_mut_strcpy(d, "."), yyjson_mut_obj(d));
	for (size_t i = 0; i < f->n; i++)
		yyjson_mut_obj_add(o, yyjson_mut_strcpy(d, f->v[i]->pe), td_fields_emit(d, f->v[i]));
	return o;
}

bool td_fields_empty(const struct td_fields *f)
{
	return !f || (!f->member && !f->n);
}

bool td_fields_equal(const struct td_fields *a, const struct td_fields *b)
{
	if (a->member != b->member || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i]->pe, b->v[i]->pe) || !td_fields_equal(a->v[i], b->v[i]))
			return false;
	return true;
}

void td_fields_add(struct td_arena *a, struct td_fields *to, const struct td_fields *from)
{
	to->member = to->member || from->member;
	for (size_t i = 0; i < from->n; i++)
		td_fields_add(a, td_fields_get(a, to, from->v[i]->pe), from->v[i]);
}

void td_fields_sub(struct td_fields *from, const struct td_fields *what)
{
	if (what->member)
		from->member = false;

	size_t w = 0;
	for (size_t i = 0; i < from->n; i++) {
		struct td_fields *c = td_fields_child((struct td_fields *)(uintptr_t)what, from->v[i]->pe);
		if (c)
			td_fields_sub(from->v[i], c);
		if (!td_fields_empty(from->v[i]))
			from->v[w++] = from->v[i];
	}
	from->n = w;
}

void td_fields_drop(struct td_fields *f, const char *pe)
{
	bool found;
	size_t i = place(f, pe, &found);
	if (!found)
		return;
	memmove(&f->v[i], &f->v[i + 1], (f->n - i - 1) * sizeof(struct td_fields *));
	f->n--;
}

static void path_element(struct td_buf *b, const char *pe)
{
	if (pe[0] == 'f') {
		td_buf_printf(b, ".%s", pe + 2);
		return;
	}
	if (pe[0] == 'v') {
		td_buf_printf(b, "[=%s]", pe + 2);
		return;
	}

	struct td_json *j = NULL;
	if (td_json_parse(pe + 2, strlen(pe + 2), &j, NULL)) {
		td_buf_printf(b, "[%s]", pe + 2);
		return;
	}

	size_t i, max;
	yyjson_val *k, *v;
	td_buf_putc(b, '[');
	yyjson_obj_foreach (td_json_root(j), i, max, k, v) {
		td_auto_free char *t = td_json_text(v, NULL);
		td_buf_printf(b, "%s%s=%s", i ? "," : "", yyjson_get_str(k), t);
	}
	td_buf_putc(b, ']');
	td_json_unref(j);
}

static void common(const struct td_fields *a, const struct td_fields *b, struct td_buf *path, td_fields_path_f f,
		   void *arg)
{
	if (a->member && b->member && a->pe)
		f(td_buf_str(path), arg);
	for (size_t i = 0; i < a->n; i++) {
		const struct td_fields *c = td_fields_child((struct td_fields *)(uintptr_t)b, a->v[i]->pe);
		if (!c)
			continue;
		size_t len = path->len;
		path_element(path, a->v[i]->pe);
		common(a->v[i], c, path, f, arg);
		path->len = len;
		path->s[len] = '\0';
	}
}

void td_fields_common(const struct td_fields *a, const struct td_fields *b, td_fields_path_f f, void *arg)
{
	td_auto_buf struct td_buf path = {0};
	common(a, b, &path, f, arg);
}
