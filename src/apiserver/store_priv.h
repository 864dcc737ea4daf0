// The inside of the store, for its three files: store.c (open, read, subscribe), store_table.c (the
// tables in memory), store_write.c (the writer thread). Invariants: only the writer thread changes
// tables and rings, with `lock` held for writing. Readers hold `lock` for reading and copy
// references out. A group is applied to the tables after its commit.
#pragma once

#include "apiserver/db.h"
#include "apiserver/store.h"

#include <pthread.h>

struct td_pending; // a queued write

struct td_ring {
	struct td_srv_event *v; // circular, cap entries
	size_t cap, head, n;
	size_t bytes;
	uint64_t floor; // events with revision <= floor have been dropped
};

struct td_table {
	char *name;
	struct td_item **v; // sorted by namespace, name
	size_t n, cap;
	struct td_ring ring;
	struct td_sub *subs; // under sub_lock
	struct td_table *next;
	bool touched; // used by the writer: the current group changed it
};

struct td_store {
	struct td_db *db;
	size_t ring_events, ring_bytes; // bounds: of each ring; of all together
	size_t ring_used;               // bytes of all rings
	pthread_rwlock_t lock;          // guards tables' contents, rings, revision, list of tables
	struct td_table *tables;
	struct td_table *namespaces;
	uint64_t revision;
	pthread_mutex_t queue_lock; // guards queue, queued, stop, pending.done
	pthread_cond_t queue_cond;
	struct td_pending *queue;
	size_t queued;
	bool stop;
	pthread_mutex_t sub_lock; // guards the subs of all tables
	pthread_t writer;
	bool started;
	uint64_t writes, groups, conflicts; // atomic
};

// ---- the tables; the caller holds `lock`, for writing where something changes ----
// Finds ns/name in a sorted list. *ret: its index, or the index where it would be inserted.
bool td_items_find(struct td_item **v, size_t n, const char *ns, const char *name, size_t *ret);
struct td_table *td_table_find(struct td_store *s, const char *name);
// Returns the table, and creates it when absent.
struct td_table *td_table_get(struct td_store *s, const char *name, uint64_t floor);
// Applies the change to the table and adds it to the ring as the newest event. Takes the reference.
void td_table_apply(struct td_store *s, struct td_table *t, enum td_srv_event_type type, struct td_item *item);
// Applies the change to the table only: for a version that watches know already. Takes the
// reference.
void td_table_set(struct td_table *t, enum td_srv_event_type type, struct td_item *item);
struct td_srv_event *td_ring_at(const struct td_ring *r, size_t i);
// Returns the index of the first event with revision > after.
size_t td_ring_after(const struct td_ring *r, uint64_t after);
void td_table_free(struct td_store *s, struct td_table *t);

// ---- the writer thread ----
int td_writer_start(struct td_store *s, struct td_error *err);
void td_writer_stop(struct td_store *s); // queued writes are finished first
