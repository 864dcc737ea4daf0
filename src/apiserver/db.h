// The store's file: SQLite in WAL mode, used by one thread at a time (the store's writer, and at start the loader).
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct td_db;
// Creates the file when it is absent. TD_INVALID: a file of another version, or one that lost acknowledged writes
// (mark.h).
int td_db_open(const char *path, struct td_db **ret, struct td_error *err);
struct td_db *td_db_close(struct td_db *db); // NULL ok
TD_DEFINE_AUTO(struct td_db *, td_db_close)

uint64_t td_db_revision(const struct td_db *db); // of the last commit
// The revision up to which no history is known for any table: where lost writes were accepted (mark.h), or an older
// file was taken over.
uint64_t td_db_floor(const struct td_db *db);

// One version of one object. The file is a log of them: what is current, and behind that as much of the past as watches
// may still ask for.
struct td_db_row {
	const char *res, *ns, *name; // res: "group/plural"
	uint64_t rv, crv;
	bool deleted; // the end of the object: bytes are its last state
	const char *bytes;
	size_t len;
	uint64_t prev; // the version that this one replaces; 0: none
	size_t prev_len;
};
// At start, once: first floor() for each table whose past was forgotten up to a revision, then row() for every version,
// in order of revision, which sets r->prev and r->prev_len.
struct td_db_loader {
	void (*floor)(void *ctx, const char *res, uint64_t rv);
	int (*row)(void *ctx, struct td_db_row *r, struct td_error *err);
	void *ctx;
};
int td_db_load(struct td_db *db, const struct td_db_loader *l, struct td_error *err);

// One group: begin, puts, commit. After a failure: rollback; nothing of the group is there. A full disk: err->http 507.
int td_db_begin(struct td_db *db, struct td_error *err);
int td_db_put(struct td_db *db, const struct td_db_row *r, struct td_error *err);
int td_db_commit(struct td_db *db, uint64_t revision, struct td_error *err);
void td_db_rollback(struct td_db *db);
