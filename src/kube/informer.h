// An informer: a reflector and a store of one resource. It lists, then watches with bookmarks until
// it is cancelled; after a 410 it lists again; after other errors it backs off with jitter. Reads
// never block on the network. Each informer has one thread.
#pragma once

#include "kube/kube.h"

struct td_informer;
struct td_informer_opts {
	const struct td_gvr *resource;
	const char *ns;              // NULL: all
	const char *labels, *fields; // selectors, or NULL
	bool apart;                  // the role is ready without it: it is about another cluster
	const char *name;            // of this part of it, for metrics and /readyz; NULL: the resource's
};
struct td_informer *td_informer_new(struct td_kube *k, const struct td_informer_opts *o);
// Must be called before start. The handler runs in the informer's thread, in order, after the store
// has changed and without a lock held. old is NULL for an added object, now is NULL for a deleted
// one. A handler only adds keys to queues; it must take a reference to keep an object.
void td_informer_on_change(struct td_informer *i, void (*fn)(void *ctx, struct td_object *old, struct td_object *now),
			   void *ctx);
// Must be called before start. fn appends the index values of an object; td_informer_by_index looks
// them up.
void td_informer_add_index(struct td_informer *i, const char *name,
			   void (*fn)(const struct td_object *o, struct td_strv *ret_values));
int td_informer_start(struct td_informer *i, struct td_cancel *cancel, struct td_error *err);
bool td_informer_synced(const struct td_informer *i);          // the first list is complete
const char *td_informer_resource(const struct td_informer *i); // "pods"
size_t td_informer_count(const struct td_informer *i);         // objects in the store
// Waits until all informers are synced. TD_CANCELLED; or TD_TRANSIENT after timeout_ms, naming the
// first that is not.
int td_informers_wait(struct td_informer *const *v, size_t n, int64_t timeout_ms, struct td_cancel *cancel,
		      struct td_error *err);
// Waits without a limit and logs a warning every 10 s that begins with `meanwhile`. Nothing may be
// decided on half-filled caches, and an API server that is away, or a CRD that does not exist yet,
// is no reason to end. TD_CANCELLED.
int td_informers_fill(struct td_informer *const *v, size_t n, const char *meanwhile, struct td_cancel *cancel,
		      struct td_error *err);
// Joins the thread: fire the cancel that was given to start first.
struct td_informer *td_informer_free(struct td_informer *i);

// Returns a reference, or NULL.
struct td_object *td_informer_get(const struct td_informer *i, const char *ns, const char *name);
// ns NULL means all namespaces. The caller ends the list with td_objects_done.
void td_informer_list(const struct td_informer *i, const char *ns, struct td_objects *ret);
void td_informer_by_index(const struct td_informer *i, const char *index, const char *value, struct td_objects *ret);
