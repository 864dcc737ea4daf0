#include "metrics/metrics.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <uthash.h>

enum { SERIES_MAX = 10000, LABELS_MAX = 16, COLLECTORS_MAX = 32 };
enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

struct series {
	char *labels;      // as written: a="x",b="y"
	double value;      // of a histogram: the sum
	uint64_t *buckets; // n_bounds + 1 of them, not cumulative
	UT_hash_handle hh;
};

struct td_metric {
	struct td_metrics *m;
	char *name, *help;
	enum metric_kind kind;
	struct td_strv labels;
	double *bounds;
	size_t n_bounds;
	struct series *series;
	UT_hash_handle hh;
};

struct td_metrics {
	pthread_mutex_t lock; // guards all members, metrics and series
	struct td_metric *metrics;
	struct {
		void (*fn)(void *);
		void *ctx;
	} collect[COLLECTORS_MAX];
	int n_collect;
	uint64_t dropped;
};

struct td_metrics *td_metrics_new(void)
{
	struct td_metrics *m = td_calloc(1, sizeof(*m));
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

static struct td_metrics *process_registry;
static void make_process_registry(void)
{
	process_registry = td_metrics_new();
}

struct td_metrics *td_metrics_process(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_process_registry);
	return process_registry;
}

static void drop(struct td_metric *f, struct series *s)
{
	HASH_DEL(f->series, s);
	free(s->labels);
	free(s->buckets);
	free(s);
}

struct td_metrics *td_metrics_free(struct td_metrics *m)
{
	if (!m)
		return NULL;

	struct td_metric *f, *tf;
	HASH_ITER (hh, m->metrics, f, tf) {
		struct series *s, *ts;
		HASH_ITER (hh, f->series, s, ts)
			drop(f, s);
		HASH_DEL(m->metrics, f);
		free(f->name);
		free(f->help);
		free(f->bounds);
		td_strv_done(&f->labels);
		free(f);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
	return NULL;
}

static bool name_ok(const char *s, bool colon)
{
	for (const char *c = s; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' || (colon && *c == ':') ||
		      (c > s && *c >= '0' && *c <= '9')))
			return false;
	return *s;
}

struct bounds {
	const double *v;
	size_t n;
};

static struct td_metric *metric(struct td_metrics *m, enum metric_kind kind, const char *name, const char *help,
				const char *const *labels, struct bounds b)
{
	if (!name_ok(name, true))
		abort();

	pthread_mutex_lock(&m->lock);
	struct td_metric *f;
	HASH_FIND_STR(m->metrics, name, f);
	bool known = f;
	if (!known) {
		f = td_calloc(1, sizeof(*f));
		f->m = m;
		f->kind = kind;
		f->name = td_strdup(name);
		f->help = td_strdup(help);
		for (const char *const *l = labels; l && *l; l++)
			td_strv_add(&f->labels, *l);
		f->n_bounds = b.n;
		f->bounds = b.n ? td_memdup(b.v, b.n * sizeof(*b.v)) : NULL;
		HASH_ADD_KEYPTR(hh, m->metrics, f->name, strlen(f->name), f);
	}

	size_t k = 0;
	for (; labels && labels[k]; k++)
		if (!name_ok(labels[k], false) || k >= f->labels.n || !td_streq(labels[k], f->labels.v[k]))
			abort();
	if (f->kind != kind || k != f->labels.n || k > LABELS_MAX || f->n_bounds != b.n)
		abort();
	for (size_t i = 0; i < b.n; i++)
		if (f->bounds[i] != b.v[i] || !isfinite(b.v[i]) || (i && b.v[i] <= b.v[i - 1]))
			abort();

	pthread_mutex_unlock(&m->lock);
	return f;
}

struct td_metric *td_counter(struct td_metrics *m, const char *name, const char *help, const char *const *labels)
{
	return metric(m, COUNTER, name, help, labels, (struct bounds){0});
}

struct td_metric *td_gauge(struct td_metrics *m, const char *name, const char *help, const char *const *labels)
{
	return metric(m, GAUGE, name, help, labels, (struct bounds){0});
}

struct td_metric *td_histogram(struct td_metrics *m, const char *name, const char *help, const char *const *labels,
			       const double *bounds, size_t n)
{
	static const double seconds[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60};
	return metric(m, HISTOGRAM, name, help, labels,
		      bounds ? (struct bounds){bounds, n} : (struct bounds){seconds, TD_LEN(seconds)});
}

static void escape(struct td_buf *b, const char *s, bool quotes)
{
	for (; *s; s++) {
		if (*s == '\\' || (quotes && *s == '"'))
			td_buf_putc(b, '\\');
		if (*s == '\n')
			td_buf_puts(b, "\\n");
		else
			td_buf_putc(b, *s);
	}
}

static void key_of(const struct td_metric *f, const char *const *values, struct td_buf *b)
{
	for (size_t i = 0; i < f->labels.n; i++) {
		if (!values || !values[i])
			abort(); // fewer values than labels
		td_buf_printf(b, "%s%s=\"", i ? "," : "", f->labels.v[i]);
		escape(b, values[i], true);
		td_buf_putc(b, '"');
	}
	if (values && values[f->labels.n])
		abort();
}

static struct series *find(struct td_metric *f, const struct td_buf *key)
{
	struct series *s;
	HASH_FIND(hh, f->series, td_buf_str(key), key->len, s);
	return s;
}

static struct series *find_or_add(struct td_metric *f, const struct td_buf *key)
{
	struct series *s = find(f, key);
	if (s)
		return s;
	if (HASH_COUNT(f->series) >= SERIES_MAX) {
		f->m->dropped++;
		return NULL;
	}
	s = td_calloc(1, sizeof(*s));
	s->labels = td_strdup(td_buf_str(key));
	s->buckets = f->kind == HISTOGRAM ? td_calloc(f->n_bounds + 1, sizeof(*s->buckets)) : NULL;
	HASH_ADD_KEYPTR(hh, f->series, s->labels, key->len, s);
	return s;
}

void td_metric_add(struct td_metric *f, double by, const char *const *values)
{
	if (f->kind == HISTOGRAM || (f->kind == COUNTER && !(by >= 0)))
		abort();

	td_auto_buf struct td_buf key = {0};
	key_of(f, values, &key);
	pthread_mutex_lock(&f->m->lock);
	struct series *s = find_or_add(f, &key);
	if (s)
		s->value += by;
	pthread_mutex_unlock(&f->m->lock);
}

void td_metric_set(struct td_metric *f, double to, const char *const *values)
{
	if (f->kind == HISTOGRAM)
		abort();

	td_auto_buf struct td_buf key = {0};
	key_of(f, values, &key);
	pthread_mutex_lock(&f->m->lock);
	struct series *s = find_or_add(f, &key);
	if (s)
		s->value = to;
	pthread_mutex_unlock(&f->m->lock);
}

void td_metric_zero(struct td_metric *f, const char *const *values)
{
	td_auto_buf struct td_buf key = {0};
	key_of(f, values, &key);
	pthread_mutex_lock(&f->m->lock);
	(void)find_or_add(f, &key);
	pthread_mutex_unlock(&f->m->lock);
}

void td_metric_observe(struct td_metric *f, double v, const char *const *values)
{
	if (f->kind != HISTOGRAM)
		abort();

	td_auto_buf struct td_buf key = {0};
	key_of(f, values, &key);
	size_t i = 0;
	while (i < f->n_bounds && !(v <= f->bounds[i]))
		i++;

	pthread_mutex_lock(&f->m->lock);
	struct series *s = find_or_add(f, &key);
	if (s) {
		s->buckets[i]++;
		s->value += v;
	}
	pthread_mutex_unlock(&f->m->lock);
}

void td_metric_forget(struct td_metric *f, const char *const *values)
{
	td_auto_buf struct td_buf key = {0};
	if (values)
		key_of(f, values, &key);
	pthread_mutex_lock(&f->m->lock);

	struct series *s, *t;
	HASH_ITER (hh, f->series, s, t) {
		if (!values || strcmp(s->labels, td_buf_str(&key)) == 0)
			drop(f, s);
	}
	pthread_mutex_unlock(&f->m->lock);
}

static uint64_t count_of(const struct td_metric *f, const struct series *s)
{
	uint64_t n = 0;
	for (size_t i = 0; i <= f->n_bounds; i++)
		n += s->buckets[i];
	return n;
}

double td_metric_get(struct td_metric *f, const char *const *values)
{
	td_auto_buf struct td_buf key = {0};
	key_of(f, values, &key);
	pthread_mutex_lock(&f->m->lock);
	struct series *s = find(f, &key);
	double v = !s ? 0 : f->kind == HISTOGRAM ? (double)count_of(f, s) : s->value;
	pthread_mutex_unlock(&f->m->lock);
	return v;
}

void td_metrics_on_collect(struct td_metrics *m, void (*fn)(void *ctx), void *ctx)
{
	pthread_mutex_lock(&m->lock);
	if (m->n_collect == COLLECTORS_MAX)
		abort();
	m->collect[m->n_collect].fn = fn;
	m->collect[m->n_collect++].ctx = ctx;
	pthread_mutex_unlock(&m->lock);
}

// ---- text ----

static int by_name(const struct td_metric *a, const struct td_metric *b)
{
	return strcmp(a->name, b->name);
}

static int by_labels(const struct series *a, const struct series *b)
{
	return strcmp(a->labels, b->labels);
}

static void put_number(struct td_buf *b, double v)
{
	if (isnan(v))
		td_buf_puts(b, "NaN");
	else if (isinf(v))
		td_buf_puts(b, v > 0 ? "+Inf" : "-Inf");
	else
		td_buf_printf(b, "%.15g", v);
}

static void put_line(struct td_buf *b, const struct td_metric *f, const char *suffix, const char *labels,
		     const char *le, double v)
{
	td_buf_printf(b, "%s%s", f->name, suffix);

	if (*labels || le)
		td_buf_printf(b, "{%s%s%s}", labels, *labels && le ? "," : "", le ? le : "");
	td_buf_putc(b, ' ');
	put_number(b, v);
	td_buf_putc(b, '\n');
}

static void put_series(struct td_buf *b, const struct td_metric *f, const struct series *s)
{
	if (f->kind != HISTOGRAM) {
		put_line(b, f, "", s->labels, NULL, s->value);
		return;
	}

	uint64_t n = 0;
	for (size_t i = 0; i <= f->n_bounds; i++) {
		td_auto_buf struct td_buf le = {0};
		td_buf_puts(&le, "le=\"");
		put_number(&le, i < f->n_bounds ? f->bounds[i] : INFINITY);
		td_buf_putc(&le, '"');
		n += s->buckets[i];
		put_line(b, f, "_bucket", s->labels, le.s, (double)n);
	}
	put_line(b, f, "_sum", s->labels, NULL, s->value);
	put_line(b, f, "_count", s->labels, NULL, (double)n);
}

void td_metrics_text(struct td_metrics *m, struct td_buf *b)
{
	static const char *const type[] = {"counter", "gauge", "histogram"};
	pthread_mutex_lock(&m->lock);
	int n = m->n_collect; // collectors are only ever added
	pthread_mutex_unlock(&m->lock);
	for (int i = 0; i < n; i++)
		m->collect[i].fn(m->collect[i].ctx);

	pthread_mutex_lock(&m->lock);
	HASH_SORT(m->metrics, by_name);
	for (struct td_metric *f = m->metrics; f; f = f->hh.next) {
		td_buf_printf(b, "# HELP %s ", f->name);
		escape(b, f->help, false);
		td_buf_printf(b, "\n# TYPE %s %s\n", f->name, type[f->kind]);
		HASH_SORT(f->series, by_labels);
		for (struct series *s = f->series; s; s = s->hh.next)
			put_series(b, f, s);
	}
	if (m->dropped)
		td_buf_printf(b,
			      "# HELP tandem_metrics_dropped_total Values not kept: too many series.\n"
			      "# TYPE tandem_metrics_dropped_total counter\ntandem_metrics_dropped_total %llu\n",
			      (unsigned long long)m->dropped);
	pthread_mutex_unlock(&m->lock);
}
