// The object store: all current objects in memory, every write on file first, and a ring of events
// per resource.
//
// There is one revision counter for all resources; an object's resourceVersion is the revision of
// its last write. Callers hand a whole new version to one writer thread. It checks the write
// against the version that it was made from, gives out revisions, commits a group of writes to
// SQLite, and only then shows them to readers: kill -9 loses nothing that anybody has seen. The
// file keeps as much of the past as the rings do, so that a watch continues after a restart with
// the events that it would have got without one. Readers never wait for the disk. Thread-safe.
#pragma once

#include "apiserver/item.h"
#include "base/err.h"

struct td_store;
// All objects of one resource ("group/plural"). A table lives as long as the store.
struct td_table;

// Opens the store on the database file `path`. ring_events: the most events in a table's ring (0:
// 2048). ring_bytes: the most bytes of all rings together (0: 3 MiB); the largest ring drops events
// first.
int td_store_open(const char *path, size_t ring_events, size_t ring_bytes, struct td_store **ret, struct td_error *err);
// Closes the store. No other call may still be running. Queued writes are finished first, then the
// writer thread ends.
struct td_store *td_store_close(struct td_store *s);
TD_DEFINE_AUTO(struct td_store *, td_store_close)

// Returns the table of a resource; the first call creates it.
struct td_table *td_store_table(struct td_store *s, const char *group, const char *plural);
const char *td_table_name(const struct td_table *t); // "group/plural"

uint64_t td_store_revision(struct td_store *s); // of the last commit
// Returns a copy of the object, or NULL.
struct td_item *td_store_get(struct td_store *s, struct td_table *t, const char *ns, const char *name);
size_t td_store_count(struct td_store *s, struct td_table *t);

// Lists all objects (ns NULL or "": of every namespace), ordered by namespace and name, with the
// revision of that state. at 0: the present state. Else the state at that revision, rebuilt from
// the ring: TD_EXPIRED when the ring does not reach back so far.
int td_store_list(struct td_store *s, struct td_table *t, const char *ns, uint64_t at, struct td_items *ret,
		  uint64_t *ret_rv, struct td_error *err);
// Lists at most max objects in that order, beginning after ns/name (name NULL: at the beginning).
void td_store_page(struct td_store *s, struct td_table *t, const char *ns, const char *name, size_t max,
		   struct td_items *ret);

enum { TD_OBJECT_MAX = 1536 << 10 }; // bytes of one object; etcd's limit

struct td_srv_write {
	struct td_table *table;
	const char *ns, *name;
	uint64_t base;       // revision of the version that this one was made from; 0: create
	yyjson_mut_doc *doc; // the new version (the store sets resourceVersion); NULL: delete
	bool in_namespace;   // for creates: ns must exist and must not be terminating
};
// Writes and waits until the write is on file. *ret (may be NULL): a copy of the new version; for a
// delete the last version, with the revision of the deletion. Errors: TD_EXISTS; TD_CONFLICT
// (changed since base); TD_NOT_FOUND (gone); TD_DENIED (namespace absent: err->http 404,
// terminating: 403); TD_INVALID (too large: err->http 413; nested too deep, not UTF-8); TD_INTERNAL
// (nothing was written; full disk: err->http 507); TD_THROTTLED (too many writes are queued);
// TD_CANCELLED (the store is closing).
int td_store_write(struct td_store *s, const struct td_srv_write *w, struct td_item **ret, struct td_error *err);

// ---- events ----
enum td_srv_event_type { TD_EVENT_ADDED, TD_EVENT_MODIFIED, TD_EVENT_DELETED };
struct td_srv_event {
	enum td_srv_event_type type;
	struct td_item *item; // the new version; for DELETED the last one
	struct td_item *prev; // the version before; NULL for ADDED
};
struct td_events {
	struct td_srv_event *v; // room for max; td_events_done drops the references of the first n
	size_t max, n;
	uint64_t at; // the revision up to which they are complete
};
// Fills ret with at most ret->max events after revision `after`, in order. Returns TD_EXPIRED when
// the ring does not reach back to `after`.
int td_store_events(struct td_store *s, struct td_table *t, uint64_t after, struct td_events *ret,
		    struct td_error *err);
void td_events_done(struct td_srv_event *v, size_t n);

// A subscription. The writer thread calls wake(ctx) after every commit that touched the table: wake
// must not block and must not call the store.
struct td_sub {
	void (*wake)(void *ctx);
	void *ctx;
	struct td_sub *prev, *next; // of the store's list
	bool linked;
};
void td_store_subscribe(struct td_store *s, struct td_table *t, struct td_sub *sub);
// After it returns, no wake runs any more.
void td_store_unsubscribe(struct td_store *s, struct td_table *t, struct td_sub *sub);
void td_store_wake_all(struct td_store *s); // wakes every subscriber

struct td_store_stats {
	uint64_t writes, groups, conflicts, objects, ring_events, ring_bytes;
	size_t tables, subs;
};
void td_store_stats(struct td_store *s, struct td_store_stats *ret);
