// Days of Slurm's history, added up. A day is kept for longer the longer ago it is, because its records
// change less and less; nothing is kept on disk. However large a day is, a read of Slurm is bounded: what
// is too large is read in halves, because what is added up of two halves is that of the whole.
#include "gateway/usage.h"

#include "base/clock.h"
#include "pool/notes.h"
#include "slurm/rest.h"

#include <string.h>

enum { SLOTS = 512, NOW_MS = 2000, MOST_MS = 3600 * 1000, PART = 24, LEAST_S = 300, TURN_MS = 5 };

struct day {
	int64_t day, read_ms; // read_ms: mono, when it was asked for
	bool known;
	struct td_usage u;
};
struct td_gateway_days {
	pthread_mutex_t lock;    // guards v
	struct day v[SLOTS];     // day modulo SLOTS
	pthread_mutex_t reading; // held by the one that asks Slurm; guards what follows
	int64_t failed_ms;       // mono: when Slurm's history could last not be asked
	struct td_error why;     // of that
};

struct td_gateway_days *td_gateway_days_new(void)
{
	struct td_gateway_days *d = td_calloc(1, sizeof(*d));
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->reading, NULL);
	d->failed_ms = INT64_MIN;
	return d;
}

struct td_gateway_days *td_gateway_days_free(struct td_gateway_days *d)
{
	if (d) {
		for (size_t i = 0; i < SLOTS; i++)
			td_usage_done(&d->v[i].u);
		pthread_mutex_destroy(&d->lock);
		pthread_mutex_destroy(&d->reading);
		free(d);
	}
	return NULL;
}

static bool fresh(const struct day *d, int64_t day, int64_t now_s)
{
	int64_t over_s = now_s - (day + 1) * TD_USAGE_DAY_S, life = over_s > 0 ? over_s * 1000 / PART : 0;
	life = life < NOW_MS ? NOW_MS : life > MOST_MS ? MOST_MS : life;
	return d->known && d->day == day && td_mono_ms(&td_clock_system) - d->read_ms < life;
}

static bool has_use(const struct td_slurm_run *x)
{
	return x->admin_comment && strstr(x->admin_comment, "tandem-use:");
}

static int by_job(const void *a, const void *b)
{
	const struct td_slurm_run *x = *(const struct td_slurm_run *const *)a,
				  *y = *(const struct td_slurm_run *const *)b;
	return x->id < y->id ? -1 : x->id > y->id;
}

// The part of its time that the devices of x idled. The comment of a job that was queued again is that of its last run,
// and says it of each. uses: the runs whose comments say something of the kind, by job.
static double idle_of(const struct td_slurm_run *x, const struct td_slurm_run *const *uses, size_t n)
{
	struct td_notes notes;
	const struct td_slurm_run *const *u = NULL;
	bool known = td_notes_read(x->admin_comment, &notes) || td_notes_use(x->admin_comment, x->start, &notes);
	if (!known && n && (u = bsearch(&x, uses, n, sizeof(*uses), by_job)))
		while (u > uses && u[-1]->id == x->id)
			u--;
	for (; u && !known && u < uses + n && (*u)->id == x->id; u++)
		known = td_notes_use((*u)->admin_comment, x->start, &notes);
	return known && td_notes_idle(&notes) > 0 ? td_notes_idle(&notes) : 0;
}

static int read_part(struct td_gateway *g, struct td_slurm *s, int64_t from, int64_t to, struct td_cancel *c,
		     struct td_usage *ret, struct td_error *err)
{
	td_auto_runs struct td_slurm_runs runs = {0};
	int r = td_slurm_history(s, g->o.cluster, from, to, c, &runs, err);
	if (r == TD_UNSUPPORTED && !err->http && to - from > LEAST_S) {
		int64_t middle = from + (to - from) / 2;
		r = read_part(g, s, from, middle, c, ret, err);
		return r ? r : read_part(g, s, middle, to, c, ret, err);
	}
	if (r)
		return r;
	td_auto_free struct td_usage_type *types = NULL;
	td_auto_free const struct td_slurm_run **uses = td_calloc(runs.n + 1, sizeof(*uses));
	size_t n_uses = 0;
	for (size_t i = 0; i < runs.n; i++)
		if (has_use(&runs.v[i]))
			uses[n_uses++] = &runs.v[i];
	if (n_uses)
		qsort(uses, n_uses, sizeof(*uses), by_job);
	for (size_t i = 0; i < runs.n; i++) {
		const struct td_slurm_run *x = &runs.v[i];
		types = td_realloc(types, (x->n_types + 1) * sizeof(*types));
		for (size_t k = 0; k < x->n_types; k++)
			types[k] = (struct td_usage_type){x->types[k].tres, x->types[k].count};
		const char *state =
			td_yield_state(x->state, x->admin_comment, x->start && x->end ? x->end - x->start : 0);
		const struct td_usage_run run = {.account = x->account,
						 .user = x->user,
						 .eligible = x->eligible,
						 .start = x->start,
						 .end = x->end,
						 .cpus = x->cpus,
						 .gpus = x->gpus,
						 .types = types,
						 .n_types = x->n_types,
						 .fate = td_yield_of(state),
						 .idle = idle_of(x, uses, n_uses)};
		td_usage_add(ret, &run, from, to);
	}
	return 0;
}

// Reads days anew, all in one call. err is not NULL.
static int read_days(struct td_gateway *g, int64_t from, int64_t to, int64_t now_s, struct td_cancel *c,
		     struct td_error *err)
{
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(g, err);
	td_auto_usage struct td_usage all = {0};
	if (!l)
		return err->code;
	int64_t at = td_mono_ms(&td_clock_system), end = to * TD_USAGE_DAY_S;
	int r = read_part(g, l->client, from * TD_USAGE_DAY_S, end < now_s + 1 ? end : now_s + 1, c, &all, err);
	if (r)
		return r;
	td_usage_settle(&all);
	pthread_mutex_lock(&g->days->lock);
	for (int64_t day = from; day < to; day++) {
		struct day *d = &g->days->v[day % SLOTS];
		td_usage_done(&d->u);
		*d = (struct day){.day = day, .read_ms = at, .known = true};
	}
	for (size_t i = 0; i < all.n; i++)
		td_usage_put(&g->days->v[all.v[i].day % SLOTS].u, &all.v[i]);
	pthread_mutex_unlock(&g->days->lock);
	return 0;
}

// The first run of days that are to be read: [*ret_from, *ret_to). False: there are none.
static bool stale(struct td_gateway_days *d, int64_t from, int64_t to, int64_t now_s, int64_t *ret_from,
		  int64_t *ret_to)
{
	int64_t a, b;
	pthread_mutex_lock(&d->lock);
	for (a = from; a < to && fresh(&d->v[a % SLOTS], a, now_s); a++)
		;
	for (b = a; b < to && !fresh(&d->v[b % SLOTS], b, now_s); b++)
		;
	pthread_mutex_unlock(&d->lock);
	*ret_from = a;
	*ret_to = b;
	return a < to;
}

// Reads what is to be read; the caller holds `reading`, for which it has waited since begun_ms.
static int bring(struct td_gateway *g, const struct td_gateway_span *s, int64_t begun_ms, struct td_cancel *c,
		 struct td_error *err)
{
	struct td_gateway_days *d = g->days;
	int64_t now_s = td_real_ms(&td_clock_system) / 1000, a = s->from, b = s->to;
	int r = 0;
	for (int64_t at = s->from; !r && at < s->to && (s->anew || stale(d, at, s->to, now_s, &a, &b)); at = b) {
		if (d->failed_ms >= begun_ms) {
			if (err)
				*err = d->why;
			return d->why.code;
		}
		struct td_error e = TD_ERROR_INIT;
		r = read_days(g, a, b, now_s, c, &e);
		if (r && err)
			*err = e;
		if (r == TD_TRANSIENT) { // of all days: whoever waits here need not find out again
			d->failed_ms = td_mono_ms(&td_clock_system);
			d->why = e;
		}
	}
	return r;
}

int td_gateway_used(struct td_gateway *g, const struct td_gateway_span *span, struct td_cancel *c, struct td_usage *ret,
		    struct td_error *err)
{
	struct td_gateway_span s = *span;
	int64_t begun_ms = td_mono_ms(&td_clock_system),
		tomorrow = td_real_ms(&td_clock_system) / 1000 / TD_USAGE_DAY_S + 1;
	if (s.to > tomorrow)
		s.to = tomorrow;
	if (s.from < 0 || s.to - s.from > TD_GATEWAY_DAYS)
		return td_fail(err, TD_INVALID, "ask for at most %d days", TD_GATEWAY_DAYS);
	int r = 0;
	// Whoever reads may read for long, and who waits for him may have gone.
	while (pthread_mutex_trylock(&g->days->reading))
		if ((r = td_cancel_wait(c, TURN_MS)))
			return td_fail(err, r, "nobody waits for the answer any more");
	r = bring(g, &s, begun_ms, c, err);
	// Copied before another reader may take a day's slot.
	pthread_mutex_lock(&g->days->lock);
	for (int64_t day = s.from; day < s.to && !r; day++) {
		const struct day *d = &g->days->v[day % SLOTS];
		for (size_t i = 0; i < d->u.n; i++)
			td_usage_put(ret, &d->u.v[i]);
	}
	pthread_mutex_unlock(&g->days->lock);
	pthread_mutex_unlock(&g->days->reading);
	return r;
}

double td_gateway_hours(double seconds)
{
	return (double)(long long)(seconds / 3.6 + 0.5) / 1000;
}

double td_gateway_cents(double x)
{
	return (double)(long long)(x * 100 + 0.5) / 100;
}

int td_gateway_wants_csv(struct td_gateway_ask *q, bool *ret, struct td_error *err)
{
	const char *format = td_http_query(q->x, "format");
	if (format && strcmp(format, "json") != 0 && strcmp(format, "csv") != 0)
		return td_fail(err, TD_INVALID, "format=%.40s: give json or csv", format);
	*ret = td_streq(format, "csv");
	return 0;
}

void td_gateway_csv(struct td_buf *b, const char *s)
{
	bool formula = *s && strchr("=+-@\t\r", *s), quote = formula || strpbrk(s, ",\"\r\n");
	if (quote)
		td_buf_putc(b, '"');
	if (formula)
		td_buf_putc(b, '\'');
	for (; *s; s++) {
		if (*s == '"')
			td_buf_putc(b, '"');
		td_buf_putc(b, *s);
	}
	if (quote)
		td_buf_putc(b, '"');
	td_buf_putc(b, ',');
}
