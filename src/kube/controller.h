// The work queue, the controller frame, leader election and events.
//
// A key is the name of an object ("ns/name" or "name"), never an event. A reconcile reads the
// current state and is idempotent; when nothing has to change, it writes nothing.
#pragma once

#include "kube/informer.h"

// ---- work queue ----
//
// A key waits in the queue at most once and is never processed by two workers at the same time.
// Each key has its own exponential back-off. All functions are thread-safe.
struct td_queue;
struct td_queue *td_queue_new(const struct td_clock *clock);
struct td_queue *td_queue_free(struct td_queue *q);
void td_queue_add(struct td_queue *q, const char *key);
// The earliest of several calls for one key wins.
void td_queue_add_after(struct td_queue *q, const char *key, int64_t ms);
// Adds the key again after its back-off: 5 ms · 2^failures, at most 30 s.
void td_queue_retry(struct td_queue *q, const char *key);
// Resets the back-off of the key.
void td_queue_forget(struct td_queue *q, const char *key);
// Blocks until a key is due. The caller frees *ret_key. TD_CANCELLED: `c` fired.
int td_queue_get(struct td_queue *q, struct td_cancel *c, char **ret_key, struct td_error *err);
// Must follow every successful td_queue_get.
void td_queue_done(struct td_queue *q, const char *key);
size_t td_queue_len(const struct td_queue *q);
// Shows the length of the queue as metric tandem_queue_depth. The string must outlive the queue;
// NULL ends it.
void td_queue_measure(struct td_queue *q, const char *name);

// ---- controller ----
struct td_controller {
	const char *name;
	int workers; // threads
	struct td_queue *queue;
	// Returns 0 when the object is done: the back-off is reset, and the key comes back after
	// *again_ms if that is above 0. An error is logged once with the key and retried with
	// back-off; CONFLICT and NOT_FOUND are logged at debug level only. THROTTLED is retried
	// after the server's Retry-After.
	int (*reconcile)(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
	void *ctx;
};
// Starts the workers, blocks until `cancel` fires and joins them.
int td_controller_run(const struct td_controller *c, struct td_cancel *cancel, struct td_error *err);
// Change handlers for td_informer_on_change with the queue as ctx. The first adds the object's own
// key, the second the key of its controlling owner (same namespace), of the old and of the new
// state.
void td_enqueue_self(void *queue, struct td_object *old, struct td_object *now);
void td_enqueue_owner(void *queue, struct td_object *old, struct td_object *now);
// Splits "ns/name" into its parts; without a slash ns is "". The caller frees both.
void td_key_split(const char *key, char **ret_ns, char **ret_name);
// Caller frees.
char *td_key_of(const struct td_object *o);

// ---- leader election by Lease ----
struct td_lease_opts {
	const char *ns, *name, *identity;
	// A follower waits until the Lease has not changed for duration_s. A leader stops leading
	// when it could not renew for renew_s; it renews every retry_s. 0 means the default: 15 s,
	// two thirds of the duration, two fifteenths of the duration.
	int duration_s, renew_s, retry_s;
};
// Checks that duration > renew > retry, defaults included. TD_INVALID names the flags.
int td_lease_check(const struct td_lease_opts *o, struct td_error *err);
// Blocks until this process leads, then runs fn in the calling thread. The cancel that fn gets
// fires when leadership is lost or `cancel` fires. A clean end releases the Lease. The age of a
// Lease is measured with the local clock only. Returns the result of fn, TD_CANCELLED, or
// TD_CONFLICT when leadership was lost.
int td_lease_run(struct td_kube *k, const struct td_lease_opts *o, struct td_cancel *cancel,
		 int (*fn)(void *ctx, struct td_cancel *c, struct td_error *err), void *ctx, struct td_error *err);

// True while this process may act as leader, or when it never stood for election. Callers ask right
// before a write that the API behind it cannot refuse to a former leader: a process that was frozen
// may wake up anywhere, before its cancel has reached the thread.
bool td_lease_holds(void);

// ---- events ----
struct td_recorder;
// The recorder has a thread of its own and never blocks its callers. It drops events while 1,000
// wait.
struct td_recorder *td_recorder_new(struct td_kube *k, const char *component);
struct td_recorder *td_recorder_free(struct td_recorder *r);
// What an Event is about.
struct td_about {
	const struct td_object *object;
	const struct td_gvr *gvr; // the object's
};
#define TD_ABOUT(object, gvr) (&(const struct td_about){object, gvr})
// type is "Normal" or "Warning". Events with equal object, type, reason and message within
// 10 minutes raise the count of one Event.
void td_kube_record(struct td_recorder *r, const struct td_about *about, const char *type, const char *reason,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
