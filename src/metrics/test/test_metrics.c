// The text format, the limit of series, and updates from several threads.
// rows: A14.1

#include "metrics/metrics.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void collect(void *ctx)
{
	td_metric_add(ctx, 1, NULL);
}

static void test_text(void **state)
{
	td_auto(td_metrics_free) struct td_metrics *m = td_metrics_new();
	struct td_metric *req = td_counter(m, "req_total", "Requests\nby \\ code", TD_LABELS("code", "verb"));
	struct td_metric *up = td_gauge(m, "up", "Is it up", NULL);
	const double bounds[] = {0.1, 1};
	struct td_metric *h = td_histogram(m, "lat_seconds", "Latency", TD_LABELS("v"), bounds, 2);

	td_metric_add(req, 2, TD_LABELS("200", "get"));
	td_metric_add(req, 1, TD_LABELS("200", "a\"b\\c\nd"));
	td_metric_add(req, 1, TD_LABELS("200", "get"));
	td_metric_set(up, 1, NULL);
	td_metric_observe(h, 0.1, TD_LABELS("x")); // a bound is inclusive
	td_metric_observe(h, 0.5, TD_LABELS("x"));
	td_metric_observe(h, 7, TD_LABELS("x"));
	td_metrics_on_collect(m, collect, up);

	td_auto_buf struct td_buf b = {0};
	td_metrics_text(m, &b);
	assert_string_equal(td_buf_str(&b), "# HELP lat_seconds Latency\n# TYPE lat_seconds histogram\n"
					    "lat_seconds_bucket{v=\"x\",le=\"0.1\"} 1\n"
					    "lat_seconds_bucket{v=\"x\",le=\"1\"} 2\n"
					    "lat_seconds_bucket{v=\"x\",le=\"+Inf\"} 3\n"
					    "lat_seconds_sum{v=\"x\"} 7.6\nlat_seconds_count{v=\"x\"} 3\n"
					    "# HELP req_total Requests\\nby \\\\ code\n# TYPE req_total counter\n"
					    "req_total{code=\"200\",verb=\"a\\\"b\\\\c\\nd\"} 1\n"
					    "req_total{code=\"200\",verb=\"get\"} 3\n"
					    "# HELP up Is it up\n# TYPE up gauge\nup 2\n");

	assert_true(td_metric_get(h, TD_LABELS("x")) == 3);
	assert_ptr_equal(td_gauge(m, "up", "Is it up", NULL), up);
	td_metric_forget(req, TD_LABELS("200", "get"));
	assert_true(td_metric_get(req, TD_LABELS("200", "get")) == 0);
	assert_true(td_metric_get(req, TD_LABELS("200", "a\"b\\c\nd")) == 1);
}

static void test_bound(void **state)
{
	td_auto(td_metrics_free) struct td_metrics *m = td_metrics_new();
	struct td_metric *g = td_gauge(m, "g", "g", TD_LABELS("i"));
	for (int i = 0; i < 10005; i++) {
		char v[16];
		snprintf(v, sizeof(v), "%d", i);
		td_metric_set(g, NAN, TD_LABELS(v));
	}

	td_auto_buf struct td_buf b = {0};
	td_metrics_text(m, &b);
	assert_non_null(strstr(b.s, "tandem_metrics_dropped_total 5\n"));
	assert_non_null(strstr(b.s, "g{i=\"9999\"} NaN\n"));
	assert_null(strstr(b.s, "10000"));
}

static void *hammer(void *arg)
{
	for (int i = 0; i < 1000; i++)
		td_metric_add(arg, 1, TD_LABELS(i % 2 ? "odd" : "even"));
	return NULL;
}

static void test_threads(void **state)
{
	td_auto(td_metrics_free) struct td_metrics *m = td_metrics_new();
	struct td_metric *c = td_counter(m, "c_total", "c", TD_LABELS("p"));

	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, hammer, c);
	td_auto_buf struct td_buf b = {0};
	td_metrics_text(m, &b);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);

	assert_true(td_metric_get(c, TD_LABELS("odd")) == 2000);
	assert_true(td_metric_get(c, TD_LABELS("even")) == 2000);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_bound),
				       cmocka_unit_test(test_threads)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
