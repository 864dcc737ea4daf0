// Reads sshare's lines, and writes records of assoc_usage.
#include "slurm/books_use.h"

#include "slurm/books.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ROWS_MAX = 1000000, FIELDS = 5, TRES_MAX = 4096, DIGITS_MAX = 15 };
enum { ACCOUNT, USER, PARTITION, RAW, TRES };
static const char *const columns[FIELDS] = {"Account", "User", "Partition", "RawUsage", "GrpTRESRaw"};

void td_use_done(struct td_use *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->v[i].account);
		free(u->v[i].user);
		free(u->v[i].partition);
		free(u->v[i].tres);
	}
	free(u->v);
	td_strv_done(&u->left);
	*u = (struct td_use){0};
}

void td_use_plan_done(struct td_use_plan *p)
{
	td_buf_done(&p->rows);
	td_buf_done(&p->records);
	td_strv_done(&p->left);
	*p = (struct td_use_plan){0};
}

// ---- reading ----

// Cuts the line at '|' in place; a part has no blanks around it: sshare indents accounts. Returns the number of parts.
static size_t cut(char *line, char *part[], size_t max)
{
	size_t n = 0;
	for (char *p; line && n < max; part[n++] = p) {
		line = td_books_column(line, &p);
		p += strspn(p, " ");
		for (size_t l = strlen(p); l && p[l - 1] == ' ';)
			p[--l] = '\0';
	}
	return n;
}

static bool number(const char *s, long long *ret)
{
	return strlen(s) <= DIGITS_MAX && td_parse_i64(s, ret) && *ret >= 0;
}

static struct td_use_row *add(struct td_use *u)
{
	if (u->n == u->room) {
		u->room = u->room ? u->room * 2 : 64;
		u->v = td_realloc(u->v, u->room * sizeof(*u->v));
	}
	return &u->v[u->n++];
}

int td_use_read(const char *name, const char *text, struct td_use *ret, struct td_error *err)
{
	td_auto_strv struct td_strv lines = {0};
	size_t at[FIELDS], max = 0;
	char *part[64];
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < FIELDS; i++)
		at[i] = TD_LEN(part);
	size_t n = lines.n ? cut(lines.v[0], part, TD_LEN(part)) : 0;
	for (size_t c = 0; c < n; c++)
		for (size_t i = 0; i < FIELDS; i++)
			if (!strcasecmp(part[c], columns[i]))
				at[i] = c, max = c > max ? c : max;
	if (at[ACCOUNT] >= n || at[USER] >= n || at[RAW] >= n)
		return td_fail(err, TD_INVALID,
			       "%s: its first line does not name Account, User and RawUsage: give what `sshare -a -m "
			       "-P -o " TD_USE_FORMAT "` wrote",
			       name);
	if (lines.n > ROWS_MAX)
		return td_fail(err, TD_INVALID, "%s has more than %d lines", name, ROWS_MAX);
	for (size_t l = 1; l < lines.n; l++) {
		long long raw = 0;
		n = cut(lines.v[l], part, TD_LEN(part));
		if (n > max && !*part[at[USER]])
			continue; // an account's: the sum of its people's
		const char *partition = n > max && at[PARTITION] < n ? part[at[PARTITION]] : "";
		const char *tres = n > max && at[TRES] < n ? part[at[TRES]] : "";
		if (n <= max || !td_books_is_name(part[at[ACCOUNT]]) || !td_books_is_name(part[at[USER]]) ||
		    (*partition && !td_books_is_name(partition)) || !number(part[at[RAW]], &raw) ||
		    strlen(tres) > TRES_MAX) {
			td_strv_addf(&ret->left, "%s: line %zu is no row of sshare's", name, l + 1);
			continue;
		}
		*add(ret) = (struct td_use_row){td_strdup(part[at[ACCOUNT]]), td_strdup(part[at[USER]]),
						td_strdup(partition), raw, td_strdup(tres)};
	}
	return 0;
}

// ---- what the pool knows ----

struct use_id {
	char *key; // "account|user|partition", or "gres/gpu"
	long long id;
};
struct use_ids {
	struct use_id *v;
	size_t n;
};

static void ids_done(struct use_ids *ids)
{
	for (size_t i = 0; i < ids->n; i++)
		free(ids->v[i].key);
	free(ids->v);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct use_id *)a)->key, ((const struct use_id *)b)->key);
}

static void ids_read(const char *text, bool tres, struct use_ids *ret)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	ret->v = td_calloc(lines.n + 1, sizeof(*ret->v));
	for (size_t i = 0; i < lines.n; i++) {
		char *part[5];
		long long id;
		size_t n = cut(lines.v[i], part, TD_LEN(part));
		if (tres ? n < 3 || !number(part[2], &id) : n < 4 || !number(part[0], &id) || !*part[2])
			continue;
		ret->v[ret->n++] = (struct use_id){!tres      ? td_asprintf("%s|%s|%s", part[1], part[2], part[3])
						   : *part[1] ? td_asprintf("%s/%s", part[0], part[1])
							      : td_strdup(part[0]),
						   id};
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_key);
}

// 0: there is none.
static long long id_of(const struct use_ids *ids, char *key)
{
	const struct use_id k = {key, 0};
	const struct use_id *f = ids->n ? bsearch(&k, ids->v, ids->n, sizeof(k), by_key) : NULL;
	return f ? f->id : 0;
}

// ---- records ----

static void put(struct td_buf *to, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;
	for (size_t i = 0; i < n; i++)
		td_buf_printf(to, "\\%03o", b[i]);
}

static void put32(struct td_buf *to, unsigned long long v)
{
	const unsigned char b[] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16), (unsigned char)(v >> 8),
				   (unsigned char)v};
	put(to, b, sizeof(b));
}

// Slurm counts a text's end in its length; one that is not there has length 0.
static void put_text(struct td_buf *to, const char *s)
{
	size_t n = *s ? strlen(s) + 1 : 0;
	put32(to, n);
	put(to, s, n);
}

// "1=300.000000,1001=60.000000": seconds of each TRES by its number.
static void tres_of(const char *minutes, const struct use_ids *tres, struct td_buf *ret, struct td_strv *left)
{
	td_auto_strv struct td_strv list = {0};
	td_strv_split(&list, minutes, ',');
	for (size_t i = 0; i < list.n; i++) {
		char *is = strchr(list.v[i], '=');
		long long n = 0;
		if (!is || (*is = '\0', !number(is + 1, &n)) || !n)
			continue;
		long long id = id_of(tres, list.v[i]);
		if (id) {
			td_buf_printf(ret, "%s%lld=%lld.000000", ret->len ? "," : "", id, n * 60);
			continue;
		}
		td_auto_free char *text = td_asprintf("minutes of %.100s: the pool does not count them", list.v[i]);
		td_books_printable(text);
		if (!td_strv_has(left, text))
			td_strv_add(left, text);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void td_use_give(const struct td_use *u, const struct td_use_pool *pool, struct td_use_plan *ret)
{
	__attribute__((cleanup(ids_done))) struct use_ids assocs = {0}, tres = {0};
	td_auto_strv struct td_strv taken = {0};
	ids_read(pool->assocs, false, &assocs);
	ids_read(pool->tres, true, &tres);
	td_strv_split(&taken, pool->taken, '\n');
	if (taken.n)
		qsort(taken.v, taken.n, sizeof(*taken.v), by_text);
	for (size_t i = 0; i < u->n; i++) {
		const struct td_use_row *r = &u->v[i];
		td_auto_free char *key = td_asprintf("%s|%s|%s", r->account, r->user, r->partition);
		td_auto_buf struct td_buf counts = {0};
		if (taken.n && bsearch(&key, taken.v, taken.n, sizeof(*taken.v), by_text)) {
			ret->before++;
			continue;
		}
		tres_of(r->tres, &tres, &counts, &ret->left);
		if (!r->raw && !counts.len)
			continue;
		long long id = id_of(&assocs, key);
		if (!id) {
			td_strv_addf(&ret->left,
				     "%lld of %s in account %s%s%s: the pool has no such row; `tandem adopt accounts` "
				     "makes it",
				     r->raw, r->user, r->account, *r->partition ? ", partition " : "", r->partition);
			continue;
		}
		td_auto_free char *raw = td_asprintf("%lld.000000", r->raw);
		put32(&ret->records, (unsigned long long)id);
		put_text(&ret->records, raw);
		put_text(&ret->records, td_buf_str(&counts));
		put32(&ret->records, 0); // wall time: sshare does not print it
		td_buf_putc(&ret->records, '\n');
		td_buf_printf(&ret->rows, "%s\n", key);
		ret->n++;
	}
}

size_t td_use_missing(const struct td_use_plan *p, const struct td_use *is)
{
	td_auto_strv struct td_strv rows = {0}, has = {0};
	size_t missing = 0;
	td_strv_split(&rows, td_buf_str(&p->rows), '\n');
	for (size_t i = 0; i < is->n; i++)
		if (is->v[i].raw || *is->v[i].tres)
			td_strv_addf(&has, "%s|%s|%s", is->v[i].account, is->v[i].user, is->v[i].partition);
	if (has.n)
		qsort(has.v, has.n, sizeof(*has.v), by_text);
	for (size_t i = 0; i < rows.n; i++)
		missing += !has.n || !bsearch(&rows.v[i], has.v, has.n, sizeof(*has.v), by_text);
	return missing;
}
