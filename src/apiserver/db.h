// The store's file: SQLite in WAL mode, used by one thread at a time (the store's writer, and at start the loader).
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct td_db;
// Creates the file when it is absent. TD_INVALID: a file of another version, or one that lost acknowledged writes (mark.h).
int td_db_open(const char *path, struct td_db **ret, struct td_error *err);
struct td_db *td_db_close(struct td_db *db); // NULL ok
TD_DEFINE_AUTO(struct td_db *, td_db_close)

// What is on file: the last revision, and the revision up to which deletions have been forgotten.
uint64_t td_db_revision(const struct td_db *db);
uint64_t td_db_floor(const struct td_db *db);

struct td_db_row {
	const char *res, *ns, *name; // res: "group/plural"
	uint64_t rv, crv;
	bool deleted; // a tombstone: bytes are the last state
	const char *bytes;
	size_t len;
};
// Every object and tombstone, in order of revision.
int td_db_load(struct td_db *db, int (*row)(void *ctx, const struct td_db_row *r, struct td_error *err), void *ctx, struct td_error *err);

// One group: begin, puts, commit. After a failure: rollback; nothing of the group is there. A full disk: err->http 507.
int td_db_begin(struct td_db *db, struct td_error *err);
int td_db_put(struct td_db *db, const struct td_db_row *r, struct td_error *err); // deleted: removes the object, writes the tombstone
int td_db_commit(struct td_db *db, uint64_t revision, struct td_error *err);
void td_db_rollback(struct td_db *db);
