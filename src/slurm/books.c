#include "slurm/books.h"

#include <string.h>
#include <strings.h>

static void row_done(struct td_books_row *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].value);
	free(r->v);
	free(r->name);
	free(r->in);
	free(r->partition);
}

void td_books_done(struct td_books *b)
{
	for (size_t i = 0; i < b->n; i++)
		row_done(&b->v[i]);
	free(b->v);
	td_strv_done(&b->left);
	*b = (struct td_books){0};
}

void td_books_plan_done(struct td_books_plan *p)
{
	td_buf_done(&p->commands);
	td_strv_done(&p->differs);
	td_strv_done(&p->left);
	td_strv_done(&p->rights);
}

// No comma, quote or blank: sacctmgr takes lists, and tells words by blanks.
bool td_books_is_name(const char *a)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@+-";
	size_t n = strspn(a, letters);
	return n && n <= 128 && !a[n] && *a != '-' && *a != '+';
}

char *td_books_column(char *line, char **ret)
{
	char *bar = strchr(line, '|');
	*ret = line;
	if (bar)
		*bar = '\0';
	return bar ? bar + 1 : NULL;
}

void td_books_printable(char *text)
{
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
}

int td_books_order(const void *a, const void *b)
{
	const struct td_books_row *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	int r = strcmp(x->name, y->name);
	if (!r)
		r = strcmp(x->in, y->in);
	return r ? r : strcmp(x->partition, y->partition);
}

const struct td_books_row *td_books_find(const struct td_books *b, enum td_books_kind kind, const char *name,
					 const char *in, const char *partition)
{
	const struct td_books_row key = {.kind = kind,
					 .name = (char *)(uintptr_t)name,
					 .in = (char *)(uintptr_t)in,
					 .partition = (char *)(uintptr_t)partition};
	return b->n ? bsearch(&key, b->v, b->n, sizeof(*b->v), td_books_order) : NULL;
}

const char *td_books_get(const struct td_books_row *r, const char *field)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcasecmp(r->v[i].name, field))
			return r->v[i].value;
	return NULL;
}
