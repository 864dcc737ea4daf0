// A reflector and a store: LIST, then WATCH with bookmarks for ever; 410 lists again; errors back off with jitter.
// Reads never block on the network. One thread per informer.
#pragma once

#include "kube/kube.h"

struct td_informer;
struct td_informer_opts {
	const struct td_gvr *resource;
	const char *ns;              // NULL: all
	const char *labels, *fields; // selectors, or NULL
};
struct td_informer *td_informer_new(struct td_kube *k, const struct td_informer_opts *o);
// Before start. Called from the informer's thread after the store has changed, in order, without a lock held: old NULL
// = added, now NULL = deleted. A handler only marks keys; references must be taken to keep an object.
void td_informer_on_change(struct td_informer *i, void (*fn)(void *ctx, struct td_object *old, struct td_object *now),
			   void *ctx);
// Before start. An index: emit(values) for every object; looked up with td_informer_by_index.
void td_informer_add_index(struct td_informer *i, const char *name,
			   void (*fn)(const struct td_object *o, struct td_strv *ret_values));
int td_informer_start(struct td_informer *i, struct td_cancel *cancel, struct td_error *err);
bool td_informer_synced(const struct td_informer *i);          // the first list is in
const char *td_informer_resource(const struct td_informer *i); // "pods"
size_t td_informer_count(const struct td_informer *i);         // objects in the store
// Waits for all of them; TD_CANCELLED, or TD_TRANSIENT after timeout_ms naming the first that is not synced.
int td_informers_wait(struct td_informer *const *v, size_t n, int64_t timeout_ms, struct td_cancel *cancel,
		      struct td_error *err);
// The same for as long as it takes, with a warning every 10 s that begins with `meanwhile`: nothing may be decided on
// half-filled caches, and an API that is away, or a CRD that is not there yet, is no reason to end. TD_CANCELLED.
int td_informers_fill(struct td_informer *const *v, size_t n, const char *meanwhile, struct td_cancel *cancel,
		      struct td_error *err);
struct td_informer *td_informer_free(struct td_informer *i); // after cancel: joins the thread

struct td_object *td_informer_get(const struct td_informer *i, const char *ns,
				  const char *name);                                        // a reference, or NULL
void td_informer_list(const struct td_informer *i, const char *ns, struct td_objects *ret); // ns NULL: all
void td_informer_by_index(const struct td_informer *i, const char *index, const char *value, struct td_objects *ret);
