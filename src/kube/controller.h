// Work queue and controller frame. A key is an object's name ("ns/name" or "name"), never an event: reconcile reads the
// current state, is idempotent, and one that changes nothing writes nothing.
#pragma once

#include "kube/informer.h"

// ---- work queue: each key at most once in line, never processed twice at the same time, per-key exponential back-off
// ----
struct td_queue;
struct td_queue *td_queue_new(const struct td_clock *clock);
struct td_queue *td_queue_free(struct td_queue *q);
void td_queue_add(struct td_queue *q, const char *key);
void td_queue_add_after(struct td_queue *q, const char *key, int64_t ms); // the earliest of several wins
void td_queue_retry(struct td_queue *q, const char *key);                 // with back-off: 5 ms · 2^n, at most 30 s
void td_queue_forget(struct td_queue *q, const char *key);                // resets the back-off
int td_queue_get(struct td_queue *q, struct td_cancel *c, char **ret_key,
		 struct td_error *err);                  // blocks; caller frees; TD_CANCELLED
void td_queue_done(struct td_queue *q, const char *key); // after td_queue_get, always
size_t td_queue_len(const struct td_queue *q);
void td_queue_measure(struct td_queue *q, const char *name); // shows its length as tandem_queue_depth; NULL: no more

// ---- controller ----
struct td_controller {
	const char *name;
	int workers; // threads
	struct td_queue *queue;
	// 0: done (forgotten; again after *again_ms when that was set > 0). Errors: retried with back-off and logged
	// once with the key; CONFLICT and NOT_FOUND are retried without a log line at warn.
	int (*reconcile)(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
	void *ctx;
};
// Runs until cancel; joins its workers.
int td_controller_run(const struct td_controller *c, struct td_cancel *cancel, struct td_error *err);
// Ready-made change handlers for td_informer_on_change, ctx = the queue: the object's own key; the key of its
// controlling owner (same namespace).
void td_enqueue_self(void *queue, struct td_object *old, struct td_object *now);
void td_enqueue_owner(void *queue, struct td_object *old, struct td_object *now);
// "ns/name" → parts (ns "" when there is none). Caller frees both.
void td_key_split(const char *key, char **ret_ns, char **ret_name);
char *td_key_of(const struct td_object *o);

// ---- leader election by Lease ----
struct td_lease_opts {
	const char *ns, *name, *identity;
	// Who stands in line waits duration_s; a leader that could not renew for renew_s stops leading; it renews every
	// retry_s. 0: 15 s, two thirds of the duration, two fifteenths of it.
	int duration_s, renew_s, retry_s;
};
int td_lease_check(const struct td_lease_opts *o, struct td_error *err); // duration > renew > retry
// Blocks until we lead, then runs fn in this thread with a cancel that fires when leadership is lost or `cancel` fires;
// releases the lease on a clean end. Lease age is judged by local observation. Returns fn's result, TD_CANCELLED, or
// TD_CONFLICT when leadership was lost.
int td_lease_run(struct td_kube *k, const struct td_lease_opts *o, struct td_cancel *cancel,
		 int (*fn)(void *ctx, struct td_cancel *c, struct td_error *err), void *ctx, struct td_error *err);

// True while this process may act as its leader, or never stood for election. Asked right before a write that its API
// cannot refuse to a leader of yesterday: one that was frozen may wake up anywhere, before its cancel has reached the
// thread.
bool td_lease_holds(void);

// ---- events ----
struct td_recorder;
struct td_recorder *
td_recorder_new(struct td_kube *k,
		const char *component); // one thread; never blocks callers; drops beyond 1,000 waiting
struct td_recorder *td_recorder_free(struct td_recorder *r);
// What an Event is about.
struct td_about {
	const struct td_object *object;
	const struct td_gvr *gvr; // the object's
};
#define TD_ABOUT(object, gvr) (&(const struct td_about){object, gvr})
// type "Normal" or "Warning". Equal (object, reason, message) within 10 minutes raise the count of one Event.
void td_record(struct td_recorder *r, const struct td_about *about, const char *type, const char *reason,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
