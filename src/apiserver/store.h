// The objects: all current ones in memory, every write on file first, a ring of events per resource.
//
// One revision counter for everything; an object's resourceVersion is the revision of its last write. Writers hand a
// whole new version to one writer thread, which checks it against the version it was made from, gives out revisions,
// commits a group to SQLite and only then shows it to readers: what anybody has seen survives kill -9. The file keeps
// as much of the past as the rings, so a watch goes on after a restart with the very events that it would have got
// without. Readers never wait for the disk. Thread-safe.
#pragma once

#include "apiserver/item.h"
#include "base/err.h"

struct td_store;
struct td_table; // all objects of one resource ("group/plural"); lives as long as the store

// ring_events: bound of each table's event ring (0: 2048); ring_bytes: of all rings together (0: 3 MiB), the largest
// gives way first.
int td_store_open(const char *path, size_t ring_events, size_t ring_bytes, struct td_store **ret, struct td_error *err);
// No call may run any more. Waits for the writer thread; queued writes are finished first.
struct td_store *td_store_close(struct td_store *s);
TD_DEFINE_AUTO(struct td_store *, td_store_close)

struct td_table *td_store_table(struct td_store *s, const char *group, const char *plural); // created on first use
const char *td_table_name(const struct td_table *t);                                        // "group/plural"

uint64_t td_store_revision(struct td_store *s); // of the last commit
struct td_item *td_store_get(struct td_store *s, struct td_table *t, const char *ns,
			     const char *name); // a copy, or NULL
size_t td_store_count(struct td_store *s, struct td_table *t);

// All objects (ns NULL or "": of every namespace), ordered by namespace and name, with the revision at which this is
// the state. at 0: now. Else the state at that revision, from the ring: TD_EXPIRED when the ring no longer reaches back
// so far.
int td_store_list(struct td_store *s, struct td_table *t, const char *ns, uint64_t at, struct td_items *ret,
		  uint64_t *ret_rv, struct td_error *err);
// At most max objects in that order, after ns/name (name NULL: from the beginning).
void td_store_page(struct td_store *s, struct td_table *t, const char *ns, const char *name, size_t max,
		   struct td_items *ret);

enum { TD_OBJECT_MAX = 1536 << 10 }; // bytes of one object, as etcd's

struct td_write {
	struct td_table *table;
	const char *ns, *name;
	uint64_t base;       // revision of the version that this one was made from; 0: it must not exist
	yyjson_mut_doc *doc; // the new version (resourceVersion is set here); NULL: delete
	bool in_namespace;   // ns must exist and must not be terminating (creates)
};
// Waits until the write is on file. *ret: the new version, for a delete the last one with the revision of the deletion,
// as a copy; may be NULL. TD_EXISTS, TD_CONFLICT (changed since base), TD_NOT_FOUND (gone), TD_DENIED (namespace
// absent: err->http 404, terminating: 403), TD_INVALID (too large: err->http 413; too deep, not UTF-8), TD_INTERNAL
// (nothing was written; full disk: err->http 507).
int td_store_write(struct td_store *s, const struct td_write *w, struct td_item **ret, struct td_error *err);

// ---- events ----
enum td_event_type { TD_EVENT_ADDED, TD_EVENT_MODIFIED, TD_EVENT_DELETED };
struct td_event {
	enum td_event_type type;
	struct td_item *item; // the new version; for DELETED the last one
	struct td_item *prev; // the version before; NULL for ADDED
};
struct td_events {
	struct td_event *v; // room for max; td_events_done drops the references of the first n
	size_t max, n;
	uint64_t at; // the revision up to which they are complete
};
// At most ret->max events after revision `after`, in order. TD_EXPIRED when the ring does not reach back to `after`.
int td_store_events(struct td_store *s, struct td_table *t, uint64_t after, struct td_events *ret,
		    struct td_error *err);
void td_events_done(struct td_event *v, size_t n);

// wake(ctx) is called after every commit that touched the table, from the writer thread: it must not block and not call
// the store.
struct td_sub {
	void (*wake)(void *ctx);
	void *ctx;
	struct td_sub *prev, *next; // the store's
	bool linked;
};
void td_store_subscribe(struct td_store *s, struct td_table *t, struct td_sub *sub);
void td_store_unsubscribe(struct td_store *s, struct td_table *t, struct td_sub *sub); // no wake runs after it returns
void td_store_wake_all(struct td_store *s); // every subscriber of every table

struct td_store_stats {
	uint64_t writes, groups, conflicts, objects, ring_events, ring_bytes;
	size_t tables, subs;
};
void td_store_stats(struct td_store *s, struct td_store_stats *ret);
