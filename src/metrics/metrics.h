// Counters, gauges and histograms with labels, written as Prometheus text (exposition format
// 0.0.4). Thread-safe: one lock per registry, held for one update or while the text is written.
// Names, types and labels are fixed in code, so a wrong one aborts.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_metrics; // a registry
// One name with its label names. It lives as long as the registry.
struct td_metric;

struct td_metrics *td_metrics_new(void);
struct td_metrics *td_metrics_free(struct td_metrics *m); // NULL ok
TD_DEFINE_AUTO(struct td_metrics *, td_metrics_free)
// The registry of this process. It is never freed.
struct td_metrics *td_metrics_process(void);

// Label names and label values are lists: TD_LABELS("code", "verb"), or NULL for none. Registering
// a name again with the same type and labels returns the same metric.
#define TD_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
struct td_metric *td_counter(struct td_metrics *m, const char *name, const char *help, const char *const *labels);
struct td_metric *td_gauge(struct td_metrics *m, const char *name, const char *help, const char *const *labels);
// bounds are the upper bounds of the buckets, rising and without +Inf. NULL means 15 buckets from
// 1 ms to 60 s, in seconds.
struct td_metric *td_histogram(struct td_metrics *m, const char *name, const char *help, const char *const *labels,
			       const double *bounds, size_t n);

// Values come in the order of the label names. A metric has at most 10,000 series; values of
// further ones are dropped and counted in tandem_metrics_dropped_total.
// add: for a counter (by >= 0) or a gauge. set: for a gauge, or a counter that is kept elsewhere.
void td_metric_add(struct td_metric *f, double by, const char *const *values);
void td_metric_set(struct td_metric *f, double to, const char *const *values);
// Makes the series, with 0, if it is not there.
void td_metric_zero(struct td_metric *f, const char *const *values);
// For a histogram.
void td_metric_observe(struct td_metric *f, double v, const char *const *values);
// Removes the series of an object that is gone; NULL removes every series.
void td_metric_forget(struct td_metric *f, const char *const *values);
// Returns 0 for an absent series, and the count for a histogram.
double td_metric_get(struct td_metric *f, const char *const *values);

// Calls `fn` at the start of every td_metrics_text, without the lock. For gauges whose value is
// read only on demand.
void td_metrics_on_collect(struct td_metrics *m, void (*fn)(void *ctx), void *ctx);
#define TD_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
// Appends the text, sorted by name and then by labels.
void td_metrics_text(struct td_metrics *m, struct td_buf *ret);
