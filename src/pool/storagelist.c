// The list of who has which file system of a storage group (storagelist.h).
#include "pool/storagelist.h"

#include <stdlib.h>
#include <string.h>

struct person {
	const char *user, *set;
};

static int by_user(const void *a, const void *b)
{
	const struct td_pool_storage_has *x = a, *y = b;
	int r = strcmp(x->user, y->user);
	return r ? r : (x->file > y->file) - (x->file < y->file);
}

static int by_set(const void *a, const void *b)
{
	const struct person *x = a, *y = b;
	int r = strcmp(x->set, y->set);
	return r ? r : strcmp(x->user, y->user);
}

// Each user once, with the names of all that he has.
static size_t people(struct td_arena *arena, struct td_pool_storage_list *l, struct person *ret)
{
	td_auto_buf struct td_buf set = {0};
	const char *last = "";
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_user);
	for (size_t i = 0; i < l->n; i++) {
		bool same = i && !strcmp(l->v[i].user, l->v[i - 1].user), ends = i + 1 == l->n;
		if (!same)
			td_buf_reset(&set);
		if (!same || l->v[i].file != l->v[i - 1].file)
			td_buf_printf(&set, "%s%s", set.len ? "," : "", l->files[l->v[i].file].name);
		if (!ends && !strcmp(l->v[i].user, l->v[i + 1].user))
			continue;
		if (strcmp(last, td_buf_str(&set)) != 0) // most have what the one before has
			last = td_arena_strdup(arena, td_buf_str(&set));
		ret[n++] = (struct person){l->v[i].user, last};
	}
	return n;
}

char *td_pool_storage_text(struct td_pool_storage_list *l, size_t most, size_t *ret_left)
{
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	struct person *v = td_arena_alloc(arena, (l->n + 1) * sizeof(*v));
	size_t n = people(arena, l, v), i = 0;
	struct td_buf b = {0};
	for (size_t f = 0; f < l->n_files; f++)
		td_buf_printf(&b, "file %s %s\n", l->files[f].name, l->files[f].path);
	if (n)
		qsort(v, n, sizeof(*v), by_set);
	for (; i < n; i++) {
		bool same = i && !strcmp(v[i].set, v[i - 1].set);
		size_t room = strlen(v[i].user) + 1 + (same ? 0 : strlen("\npeople ") + strlen(v[i].set));
		if (b.len + room + 1 > most)
			break;
		if (!same)
			td_buf_printf(&b, "%speople %s", i ? "\n" : "", v[i].set);
		td_buf_printf(&b, " %s", v[i].user);
	}
	if (i)
		td_buf_puts(&b, "\n");
	*ret_left = n - i;
	return td_buf_take(&b);
}
