// The controller frame: workers that take keys and call reconcile.
#include "kube/controller.h"

#include "base/log.h"
#include "kube/health.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct frame {
	const struct td_controller *c;
	struct td_cancel *cancel;
};

static void failed(const struct td_controller *c, int code, double by)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_reconcile_errors_total",
				 "Looks at an object that failed and are tried again, by the kind of failure.",
				 TD_LABELS("controller", "code")),
		      by, TD_LABELS(c->name, td_code_name(code)));
}

static void measure(const struct td_controller *c, int code, int64_t took_ms)
{
	struct td_metrics *m = td_metrics_process();
	td_metric_observe(td_histogram(m, "tandem_reconcile_duration_seconds",
				       "How long one look at one object took, in seconds; result: ok, or retry when it "
				       "has to be tried again.",
				       TD_LABELS("controller", "result"), NULL, 0),
			  (double)took_ms / 1000, TD_LABELS(c->name, code ? "retry" : "ok"));
	if (code)
		failed(c, code, 1);
}

static void one(const struct td_controller *c, const char *key, struct td_cancel *cancel)
{
	int64_t again = 0, began = td_mono_ms(&td_clock_system);
	struct td_error err = TD_ERROR_INIT;

	int r = c->reconcile(c->ctx, key, &again, cancel, &err);
	if (!td_cancelled(cancel))
		measure(c, r, td_mono_ms(&td_clock_system) - began);
	if (!r) {
		td_queue_forget(c->queue, key);
		if (again > 0)
			td_queue_add_after(c->queue, key, again);
	} else if (r != TD_CANCELLED || !td_cancelled(cancel)) {
		if (r == TD_CONFLICT || r == TD_NOT_FOUND)
			td_debug("%s %s: %s: %s", c->name, key, td_code_name(r), err.msg);
		else
			td_warn("%s %s: %s: %s", c->name, key, td_code_name(r), err.msg);
		if (r == TD_THROTTLED && err.retry_after_ms > 0)
			td_queue_add_after(c->queue, key, err.retry_after_ms);
		else
			td_queue_retry(c->queue, key);
	}
	td_queue_done(c->queue, key);
}

static void *worker(void *arg)
{
	struct frame *f = arg;
	struct td_loop *l = td_loop_new(f->c->name, 0);
	for (;;) {
		td_auto_free char *key = NULL;
		if (td_queue_get(f->c->queue, f->cancel, &key, NULL))
			break;
		td_loop_busy(l);
		one(f->c, key, f->cancel);
		td_loop_idle(l);
	}
	td_loop_free(l);
	return NULL;
}

int td_controller_run(const struct td_controller *c, struct td_cancel *cancel, struct td_error *err)
{
	struct frame f = {c, cancel};
	int n = c->workers > 0 ? c->workers : 1, started = 0, e = 0;
	td_auto_free pthread_t *t = td_calloc((size_t)n, sizeof(*t));

	td_queue_measure(c->queue, c->name);
	// Registered with 0 so that the metric exists from the start: rate() then sees its first
	// step.
	failed(c, TD_TRANSIENT, 0);

	while (started < n && !(e = pthread_create(&t[started], NULL, worker, &f)))
		started++;
	if (!started)
		return td_fail_errno(err, TD_INTERNAL, e, "controller %s: no thread", c->name);

	for (int i = 0; i < started; i++)
		pthread_join(t[i], NULL);
	td_queue_measure(c->queue, NULL);

	return 0;
}

char *td_key_of(const struct td_object *o)
{
	return *o->ns ? td_asprintf("%s/%s", o->ns, o->name) : td_strdup(o->name);
}

void td_key_split(const char *key, char **ret_ns, char **ret_name)
{
	const char *slash = strchr(key, '/');
	*ret_ns = slash ? td_strndup(key, (size_t)(slash - key)) : td_strdup("");
	*ret_name = td_strdup(slash ? slash + 1 : key);
}

void td_enqueue_self(void *queue, struct td_object *old, struct td_object *now)
{
	td_auto_free char *key = td_key_of(now ? now : old);
	td_queue_add(queue, key);
}

static void enqueue_owner_of(struct td_queue *q, const struct td_object *o)
{
	const char *name = td_jstr(td_object_owner(o), "name");
	if (!name)
		return;
	td_auto_free char *key = *o->ns ? td_asprintf("%s/%s", o->ns, name) : td_strdup(name);
	td_queue_add(q, key);
}

void td_enqueue_owner(void *queue, struct td_object *old, struct td_object *now)
{
	// Both: an object may have changed its owner.
	if (old)
		enqueue_owner_of(queue, old);
	if (now)
		enqueue_owner_of(queue, now);
}
