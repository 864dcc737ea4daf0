// Counters, gauges and histograms with labels, written out as Prometheus text (exposition format 0.0.4).
// Thread-safe; one lock per registry, held for nanoseconds. Names and label names are compile-time facts: a bad one
// aborts.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_metrics; // a registry
struct td_metric;  // one name with its labels' names; lives as long as the registry

struct td_metrics *td_metrics_new(void);
struct td_metrics *td_metrics_free(struct td_metrics *m); // NULL ok
TD_DEFINE_AUTO(struct td_metrics *, td_metrics_free)
struct td_metrics *td_metrics_process(void); // the registry of this process; never freed

// Label names and values are lists: TD_LABELS("code", "verb"), or NULL for none. Registering the same name again with
// the same type and labels gives the same metric.
#define TD_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})
struct td_metric *td_counter(struct td_metrics *m, const char *name, const char *help, const char *const *labels);
struct td_metric *td_gauge(struct td_metrics *m, const char *name, const char *help, const char *const *labels);
// bounds: upper bounds, rising, without +Inf; NULL: 1 ms to 60 s in 15 steps.
struct td_metric *td_histogram(struct td_metrics *m, const char *name, const char *help, const char *const *labels,
			       const double *bounds, size_t n);

// Values come in the order of the label names. At most 10,000 series per metric: more are dropped and counted in
// tandem_metrics_dropped_total.
void td_metric_add(struct td_metric *f, double by, const char *const *values);    // counter (by >= 0) or gauge
void td_metric_set(struct td_metric *f, double to, const char *const *values);    // gauge, or a counter kept elsewhere
void td_metric_observe(struct td_metric *f, double v, const char *const *values); // histogram
void td_metric_forget(struct td_metric *f, const char *const *values); // the object is gone; NULL: every series
double td_metric_get(struct td_metric *f, const char *const *values);  // 0 when absent; histogram: the count

// Calls `fn` at the start of every td_metrics_text(), without the lock: for gauges that are read when they are asked
// for.
void td_metrics_on_collect(struct td_metrics *m, void (*fn)(void *ctx), void *ctx);
#define TD_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
void td_metrics_text(struct td_metrics *m, struct td_buf *ret); // appends; sorted by name, then labels
