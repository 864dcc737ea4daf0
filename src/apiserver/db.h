// The store's file: a SQLite database in WAL mode. Only one thread at a time uses it: the store's
// loader at start, then its writer.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct td_db;
// Opens the file, or creates it. TD_INVALID: the file has another version, or has lost acknowledged
// writes (mark.h).
int td_db_open(const char *path, struct td_db **ret, struct td_error *err);
struct td_db *td_db_close(struct td_db *db); // NULL ok
TD_DEFINE_AUTO(struct td_db *, td_db_close)

uint64_t td_db_revision(const struct td_db *db); // of the last commit
// Up to this revision no history is known for any table: lost writes were accepted there (mark.h),
// or an older file was taken over.
uint64_t td_db_floor(const struct td_db *db);

// One version of one object. The file is a log of versions: the current ones, and as much of the
// past as watches may still ask for.
struct td_db_row {
	const char *res, *ns, *name; // res: "group/plural"
	uint64_t rv, crv;
	bool deleted; // the object's deletion; bytes are its last state
	const char *bytes;
	size_t len;
	uint64_t prev; // the version that this one replaces; 0: none
	size_t prev_len;
};
// Callbacks of the loading at start. First floor() is called for each table whose past up to a
// revision was forgotten. Then row() is called for every version, in order of revision; it sets
// r->prev and r->prev_len.
struct td_db_loader {
	void (*floor)(void *ctx, const char *res, uint64_t rv);
	int (*row)(void *ctx, struct td_db_row *r, struct td_error *err);
	void *ctx;
};
int td_db_load(struct td_db *db, const struct td_db_loader *l, struct td_error *err);

// A group of writes: begin, puts, commit. After a failure call rollback; nothing of the group is
// stored then. Full disk: err->http 507.
int td_db_begin(struct td_db *db, struct td_error *err);
int td_db_put(struct td_db *db, const struct td_db_row *r, struct td_error *err);
int td_db_commit(struct td_db *db, uint64_t revision, struct td_error *err);
void td_db_rollback(struct td_db *db);
