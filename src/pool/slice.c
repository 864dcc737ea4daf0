// The time limit that counts over all runs (slice.h).
#include "pool/slice.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "tandem: used "

enum { LATE_MS = 60000, MINUTE_S = 60, MOST = 1 << 30 };

// How many runs follow this one that have ended, too.
static size_t newer(const struct td_pool_slice *f, size_t i)
{
	size_t n = 0;
	for (size_t k = 0; k < f->n_runs; k++) {
		const struct td_pool_slice_run *a = &f->runs[k], *b = &f->runs[i];
		n += a->ended && (a->submit_s > b->submit_s || (a->submit_s == b->submit_s && k > i));
	}
	return n;
}

// Slurm's limits are whole minutes, and one at least.
static int64_t minutes(int64_t s)
{
	return s <= MINUTE_S ? 1 : (s + MINUTE_S - 1) / MINUTE_S;
}

struct td_pool_slice_plan td_pool_slice(const struct td_pool_slice *f)
{
	struct td_pool_slice_plan p = {.what = TD_SLICE_LEAVE};
	const struct td_pool_slice_mark *m = &f->mark;
	if (f->restarts <= 0 || f->limit_min <= 0 || (m->is && m->runs >= f->restarts))
		return p;

	// The newest runs, as many as were not counted yet: older ones may be another job's that had this id
	// before Slurm began to count anew.
	size_t want = (size_t)(f->restarts - (m->is ? m->runs : 0)), found = 0;
	int64_t used = 0, first_min = 0, first_s = 0;
	for (size_t i = 0; i < f->n_runs; i++) {
		const struct td_pool_slice_run *r = &f->runs[i];
		if (!r->ended || newer(f, i) >= want)
			continue;
		found++;
		used += r->elapsed_s > 0 ? r->elapsed_s : 0;
		if (!first_s || r->submit_s < first_s) {
			first_s = r->submit_s;
			first_min = r->limit_min;
		}
	}
	if (found < want && f->since_ms < LATE_MS) {
		p.what = TD_SLICE_WAIT;
		return p;
	}

	// With a mark it is what was left then, to the second, so that rounding adds up to nothing; or what
	// somebody has made of the limit since. Without one nothing was taken off yet, or the mark is lost: the
	// first run had the whole.
	int64_t whole = !m->is && first_min > f->limit_min ? first_min : f->limit_min;
	int64_t left = (m->is && f->limit_min == minutes(m->left_s) ? m->left_s : whole * MINUTE_S) - used;
	p.what = TD_SLICE_WRITE;
	p.last = left <= 0;
	p.limit_min = minutes(left);
	if (p.limit_min > f->limit_min)
		p.limit_min = f->limit_min;
	p.mark = (struct td_pool_slice_mark){.is = true,
					     .used_s = (m->is ? m->used_s : 0) + used,
					     .runs = f->restarts,
					     .left_s = left > 0 ? left : 0};
	return p;
}

// The mark as it stands in the text; *ret_end is behind it. NULL: none.
static const char *find(const char *comment, struct td_pool_slice_mark *ret, const char **ret_end)
{
	const char *at = comment ? strstr(comment, MARK) : NULL;
	int n = 0;
	struct td_pool_slice_mark m = {.is = true};
	if (!at ||
	    sscanf(at, MARK "%" SCNd64 " s in %" SCNd64 " runs, %" SCNd64 " s left;%n", &m.used_s, &m.runs, &m.left_s,
		   &n) != 3 ||
	    !n || m.used_s < 0 || m.runs < 0 || m.left_s < 0 || m.used_s > MOST || m.runs > MOST || m.left_s > MOST)
		return NULL;
	*ret = m;
	*ret_end = at + n;
	return at;
}

struct td_pool_slice_mark td_pool_slice_read(const char *comment)
{
	struct td_pool_slice_mark m = {0};
	const char *end;
	find(comment, &m, &end);
	return m;
}

char *td_pool_slice_write(const struct td_pool_slice_mark *m, const char *comment)
{
	struct td_pool_slice_mark old;
	const char *end, *at = find(comment, &old, &end);
	if (!at)
		at = end = comment ? comment : "";
	while (*end == ' ')
		end++;
	int before = comment ? (int)(at - comment) : 0;
	bool rest = before || *end;
	return td_asprintf(MARK "%" PRId64 " s in %" PRId64 " runs, %" PRId64 " s left;%s%.*s%s", m->used_s, m->runs,
			   m->left_s, rest ? " " : "", before, comment ? comment : "", end);
}

static char *span(int64_t s)
{
	if (s < MINUTE_S)
		return td_asprintf("%" PRId64 " s", s);
	if (s < MINUTE_S * MINUTE_S)
		return td_asprintf("%" PRId64 " min", s / MINUTE_S);
	return td_asprintf("%" PRId64 " h %" PRId64 " min", s / MINUTE_S / MINUTE_S, s / MINUTE_S % MINUTE_S);
}

char *td_pool_slice_words(const char *comment)
{
	struct td_pool_slice_mark m = td_pool_slice_read(comment);
	if (!m.is)
		return NULL;
	td_auto_free char *used = span(m.used_s), *left = span(m.left_s);
	const char *runs = m.runs == 1 ? "1 run" : NULL;
	td_auto_free char *many = runs ? NULL : td_asprintf("%" PRId64 " runs", m.runs);
	if (!m.left_s)
		return td_asprintf("Its time counts over all its runs: it has used %s in %s, and has one last minute.",
				   used, runs ? runs : many);
	return td_asprintf("Its time counts over all its runs: it has used %s in %s, and had %s left then.", used,
			   runs ? runs : many, left);
}

static bool ran(const struct td_pool_slice_pod *p)
{
	return p->start_s > 0 && p->end_s >= p->start_s;
}

static int by_start(const void *a, const void *b)
{
	const struct td_pool_slice_pod *x = a, *y = b;
	return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

// For how long one of them ran at least.
static int64_t together(const struct td_pool_slice_pod *v, size_t n)
{
	td_auto_free struct td_pool_slice_pod *l = td_calloc(n + 1, sizeof(*l));
	size_t k = 0;
	for (size_t i = 0; i < n; i++)
		if (ran(&v[i]))
			l[k++] = v[i];
	qsort(l, k, sizeof(*l), by_start);
	int64_t used = 0, upto = 0;
	for (size_t i = 0; i < k; i++) {
		int64_t from = l[i].start_s > upto ? l[i].start_s : upto;
		used += l[i].end_s > from ? l[i].end_s - from : 0;
		upto = l[i].end_s > upto ? l[i].end_s : upto;
	}
	return used;
}

struct td_pool_slice_turn td_pool_slice_turn(int64_t limit_min, const struct td_pool_slice_pod *v, size_t n)
{
	struct td_pool_slice_turn t = {.limit_min = limit_min, .left_s = limit_min * MINUTE_S};
	bool beside = false;
	for (size_t i = 0; i < n; i++) {
		beside |= !v[i].end_s;
		t.pods += ran(&v[i]);
	}
	t.used_s = together(v, n);
	if (beside || !t.pods || limit_min <= 0)
		return (struct td_pool_slice_turn){.limit_min = limit_min, .left_s = limit_min * MINUTE_S};
	t.left_s = t.used_s < t.left_s ? t.left_s - t.used_s : 0;
	t.limit_min = t.left_s ? minutes(t.left_s) : 0;
	return t;
}

char *td_pool_slice_turn_words(const struct td_pool_slice_turn *t, const char *owner)
{
	if (!t->pods)
		return NULL;
	td_auto_free char *used = span(t->used_s), *left = t->left_s ? span(t->left_s) : td_strdup("nothing");
	if (!owner)
		return td_asprintf(
			"Its time counts over all runs of its gang: %zu before it ran for %s, and %s %s left.", t->pods,
			used, left, t->left_s ? "are" : "is");
	return td_asprintf("Its time counts over all pods of %s: %zu before it ran for %s, and %s %s left.", owner,
			   t->pods, used, left, t->left_s ? "are" : "is");
}
