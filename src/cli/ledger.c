#include "cli/ledger.h"

#include <string.h>

void td_ledger_done(struct td_ledger *l)
{
	for (size_t i = 0; i < l->n; i++)
		for (int k = 0; k < TD_LEDGER_KEYS; k++)
			free(l->v[i].key[k]);
	free(l->v);
	*l = (struct td_ledger){0};
}

static struct td_ledger_row *add(struct td_ledger *l)
{
	if ((l->n & (l->n - 1)) == 0)
		l->v = td_realloc(l->v, (l->n ? l->n * 2 : 1) * sizeof(*l->v));
	l->v[l->n] = (struct td_ledger_row){0};
	return &l->v[l->n++];
}

static bool number(const char *s, double *ret)
{
	if (!*s || strspn(s, "0123456789") != strlen(s) || strlen(s) > 18)
		return false;
	*ret = strtod(s, NULL);
	return true;
}

// Cuts one line at its bars. Unlike td_strv_split it keeps empty names.
static size_t cut(char *line, char **ret, size_t most)
{
	size_t n = 0;
	for (char *p = line; p && n < most; n++) {
		ret[n] = p;
		p = strchr(p, '|');
		if (p)
			*p++ = '\0';
		else
			return n + 1;
	}
	return most + 1; // too many
}

size_t td_ledger_read(const char *text, int sums, struct td_ledger *ret)
{
	size_t skipped = 0;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		char *w[TD_LEDGER_KEYS + TD_LEDGER_SUMS];
		struct td_ledger_row row = {0};
		bool good = cut(lines.v[i], w, TD_LEN(w)) == (size_t)(TD_LEDGER_KEYS + sums);
		for (int k = 0; k < sums && good; k++)
			good = number(w[TD_LEDGER_KEYS + k], &row.sum[k]);
		if (!good) {
			skipped++;
			continue;
		}
		for (int k = 0; k < TD_LEDGER_KEYS; k++)
			row.key[k] = td_strdup(w[k]);
		*add(ret) = row;
	}
	return skipped;
}

struct td_ledger_row *td_ledger_at(struct td_ledger *l, const char *a)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].key[0], a))
			return &l->v[i];
	struct td_ledger_row *r = add(l);
	r->key[0] = td_strdup(a);
	r->key[1] = td_strdup("");
	r->key[2] = td_strdup("");
	return r;
}

static int order(const void *a, const void *b)
{
	const struct td_ledger_row *x = a, *y = b;
	for (int k = 0; k < TD_LEDGER_KEYS; k++) {
		int d = strcmp(x->key[k], y->key[k]);
		if (d)
			return d;
	}
	return 0;
}

void td_ledger_sort(struct td_ledger *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), order);
}
