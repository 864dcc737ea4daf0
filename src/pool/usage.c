#include "pool/usage.h"

#include <stdlib.h>
#include <string.h>

static void row_done(struct td_usage_row *r)
{
	free(r->account);
	free(r->user);
	free(r->type);
}

void td_usage_done(struct td_usage *u)
{
	for (size_t i = 0; i < u->n; i++)
		row_done(&u->v[i]);
	free(u->v);
	*u = (struct td_usage){0};
}

static int by_key(const void *a, const void *b)
{
	const struct td_usage_row *x = a, *y = b;
	if (x->day != y->day)
		return x->day < y->day ? -1 : 1;
	int d = strcmp(x->account, y->account);
	if (!d)
		d = strcmp(x->user, y->user);
	return d ? d : strcmp(x->type, y->type);
}

void td_usage_sums_add(struct td_usage_sums *to, const struct td_usage_sums *s)
{
	to->runs += s->runs;
	to->gpu += s->gpu;
	to->cpu += s->cpu;
	to->lost += s->lost;
	to->idle += s->idle;
	to->wait += s->wait;
	to->cost += s->cost;
}

void td_usage_settle(struct td_usage *u)
{
	size_t n = 0;
	if (!u->n)
		return;
	qsort(u->v, u->n, sizeof(*u->v), by_key);
	for (size_t i = 1; i < u->n; i++) {
		struct td_usage_row *to = &u->v[n], *r = &u->v[i];
		if (by_key(to, r) != 0) {
			u->v[++n] = *r;
			continue;
		}
		td_usage_sums_add(&to->sum, &r->sum);
		row_done(r);
	}
	u->n = n + 1;
}

void td_usage_put(struct td_usage *u, const struct td_usage_row *row)
{
	// Many runs are of few people: before it grows, it is seen whether it has to.
	if (u->n == u->cap) {
		td_usage_settle(u);
		if (u->n * 2 >= u->cap) {
			u->cap = u->cap ? u->cap * 2 : 64;
			u->v = td_realloc(u->v, u->cap * sizeof(*u->v));
		}
	}
	u->v[u->n++] = (struct td_usage_row){.day = row->day,
					     .account = td_strdup(row->account),
					     .user = td_strdup(row->user),
					     .type = td_strdup(row->type),
					     .sum = row->sum};
}

static double seconds(int64_t a, int64_t b, int64_t from, int64_t to)
{
	a = a > from ? a : from;
	b = b < to ? b : to;
	return b > a ? (double)(b - a) : 0;
}

// What a run did in a part of one day.
static void add_day(struct td_usage *u, const struct td_usage_run *r, int64_t from, int64_t to)
{
	int64_t began = r->start ? r->start : r->end ? r->end : to; // one that never began has waited to its end
	double held = r->start ? seconds(r->start, r->end ? r->end : to, from, to) : 0;
	struct td_usage_row row = {.day = from / TD_USAGE_DAY_S,
				   .account = (char *)(uintptr_t)r->account,
				   .user = (char *)(uintptr_t)r->user,
				   .type = (char *)(uintptr_t)""};
	bool lost = td_yield_lost(r->fate);
	double rest = (double)r->gpus;
	for (size_t i = 0; i < r->n_types; i++)
		rest -= (double)r->types[i].count;
	if (rest < 0)
		rest = 0;
	row.sum = (struct td_usage_sums){.runs = r->start >= from && r->start < to,
					 .cpu = held * (double)r->cpus,
					 .gpu = held * rest,
					 .lost = lost ? held * rest : 0,
					 .idle = r->idle * held * rest,
					 .wait = r->eligible ? seconds(r->eligible, began, from, to) : 0};
	if (row.sum.runs || row.sum.cpu || row.sum.gpu || row.sum.wait)
		td_usage_put(u, &row);
	for (size_t i = 0; i < r->n_types; i++) {
		double s = held * (double)r->types[i].count;
		row.type = (char *)(uintptr_t)r->types[i].name;
		row.sum = (struct td_usage_sums){.gpu = s, .lost = lost ? s : 0, .idle = r->idle * s};
		if (s > 0)
			td_usage_put(u, &row);
	}
}

void td_usage_add(struct td_usage *u, const struct td_usage_run *r, int64_t from, int64_t to)
{
	int64_t first = r->eligible ? r->eligible : r->start, last = r->end ? r->end : to;
	if (r->start && (!first || r->start < first))
		first = r->start;
	if (!first || from < 0)
		return;
	int64_t at = first > from ? first : from;
	if (last >= to)
		last = to - 1;
	for (; at <= last;) {
		int64_t next = (at / TD_USAGE_DAY_S + 1) * TD_USAGE_DAY_S;
		add_day(u, r, at, next < to ? next : to);
		at = next;
	}
}

bool td_usage_may(const struct td_usage_viewer *v, const char *account, const char *user)
{
	return v->all || td_streq(v->user, user) || (v->leads && td_strv_has(v->leads, account));
}
