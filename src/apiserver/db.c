// The SQLite database, in WAL mode. Durability: synchronous=FULL syncs the log once per group
// before anybody hears of it, so neither kill -9 nor a power cut loses an acknowledged write
// (measured: 0.3 ms per group on the build machine's disk; the writes of a group share it).
// TANDEM_DB_SYNC=normal leaves the sync to checkpoints: kill -9 still loses nothing (the kernel
// holds the pages); a power cut may lose the last commits, but never an older one and never the
// file's consistency.
#include "apiserver/db.h"

#include "apiserver/mark.h"
#include "base/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// PAST: how much of the past the file keeps at least. SLACK: how much more gathers before the
// oldest is deleted, so that a few pages are written once for many rows.
#define PAST_ROWS 4096
#define PAST_BYTES (8u << 20)
#define SLACK_ROWS 512
#define SLACK_BYTES (1u << 20)

// A row that is not current. It is deleted when nobody can ask for the event that replaced it,
// because that event also tells the version before.
struct past {
	uint64_t rv, until; // until: the revision of that event
	size_t len;
};

struct td_db {
	sqlite3 *h;
	sqlite3_stmt *put, *rev, *forget, *floor_of, *floor_all;
	uint64_t revision, floor;
	struct past *past; // in order of `until`
	size_t n, cap;
	size_t group_n; // how many of them the current group added
	uint64_t bytes; // of all of past
	int mark;
};

static int fail(struct td_db *db, struct td_error *err, const char *what)
{
	int code = sqlite3_errcode(db->h), rc;
	rc = td_fail(err, TD_INTERNAL, "state database: %s: %s", what, sqlite3_errmsg(db->h));
	if (code == SQLITE_FULL && err) {
		td_fail(err, TD_INTERNAL,
			"state database: the file system is full: nothing was written; free some space and try again");
		err->http = 507;
		err->retry_after_ms = 5000;
	}
	return rc;
}

static int exec(struct td_db *db, const char *sql, struct td_error *err)
{
	if (sqlite3_exec(db->h, sql, NULL, NULL, NULL) != SQLITE_OK)
		return fail(db, err, sql);
	return 0;
}

static int prep(struct td_db *db, const char *sql, sqlite3_stmt **ret, struct td_error *err)
{
	if (sqlite3_prepare_v2(db->h, sql, -1, ret, NULL) != SQLITE_OK)
		return fail(db, err, sql);
	return 0;
}

static int get_int(struct td_db *db, const char *sql, uint64_t *ret, struct td_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = prep(db, sql, &st, err);
	if (rc < 0)
		return rc;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = (uint64_t)sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : fail(db, err, sql);
}

struct td_db *td_db_close(struct td_db *db)
{
	if (!db)
		return NULL;
	sqlite3_stmt *all[] = {db->put, db->rev, db->forget, db->floor_of, db->floor_all};
	for (size_t i = 0; i < TD_LEN(all); i++)
		sqlite3_finalize(all[i]);
	sqlite3_close(db->h);
	if (db->mark >= 0)
		close(db->mark);
	free(db->past);
	free(db);
	return NULL;
}

// Secrets are in the file, so nobody else may read it. SQLite gives the log the same mode. The
// descriptor is closed before SQLite opens the file: closing it later would drop SQLite's locks.
static int make_private(const char *path, struct td_error *err)
{
	td_auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "state database %s", path);
	return 0;
}

static int run(struct td_db *db, sqlite3_stmt *st, struct td_error *err, const char *what)
{
	int rc = sqlite3_step(st);
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : fail(db, err, what);
}

// Opens the mark. Revisions that were given out for lost writes are not given out again, and every
// watch starts anew.
static int open_mark(struct td_db *db, const char *path, bool lossy, struct td_error *err)
{
	uint64_t jump = 0;
	int rc = td_mark_open(path, db->revision, lossy, &db->mark, &jump, err);
	if (rc < 0 || !jump)
		return rc;
	sqlite3_bind_int64(db->floor_all, 1, (sqlite3_int64)jump);
	sqlite3_bind_int64(db->rev, 1, (sqlite3_int64)jump);
	if ((rc = exec(db, "BEGIN IMMEDIATE", err)) < 0 ||
	    (rc = run(db, db->floor_all, err, "writing the floor")) < 0 ||
	    (rc = run(db, db->rev, err, "writing the revision")) < 0 || (rc = exec(db, "COMMIT", err)) < 0)
		return td_wrap(err, "%s", path);
	db->revision = db->floor = jump;
	td_mark_set(db->mark, jump);
	td_mark_accepted(path);
	return 0;
}

extern const struct td_embedded td_apiserver_files[]; // sql/

static const char *sql(const char *file)
{
	return td_embedded(td_apiserver_files, file)->text;
}

int td_db_open(const char *path, struct td_db **ret, struct td_error *err)
{
	td_auto(td_db_close) struct td_db *db = td_calloc(1, sizeof(*db));
	db->mark = -1;

	int rc = make_private(path, err);
	if (rc < 0)
		return rc;
	if (sqlite3_open_v2(path, &db->h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return td_fail(err, TD_INTERNAL, "state database %s: %s", path,
			       db->h ? sqlite3_errmsg(db->h) : "out of memory");

	sqlite3_busy_timeout(db->h, 10000);
	const char *sync = getenv("TANDEM_DB_SYNC");
	bool lossy = sync && !strcmp(sync, "normal");
	uint64_t version = 0;

	// locking_mode=EXCLUSIVE: a second apiserver on the same file is refused instead of
	// interleaving revisions.
	if ((rc = exec(db, "PRAGMA locking_mode=EXCLUSIVE", err)) < 0 ||
	    (rc = exec(db, "PRAGMA journal_mode=WAL", err)) < 0 ||
	    (rc = exec(db, lossy ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", err)) < 0 ||
	    (rc = exec(db, "PRAGMA wal_autocheckpoint=1000", err)) < 0 ||
	    (rc = exec(db, "PRAGMA cache_size=-256", err)) < 0 ||
	    (rc = get_int(db, "PRAGMA user_version", &version, err)) < 0)
		return td_wrap(err, "%s", path);

	if (version > 2)
		return td_fail(err, TD_INVALID,
			       "state database %s has version %llu, this program knows 2: use the newer program", path,
			       (unsigned long long)version);
	if ((version == 0 && (rc = exec(db, sql("create.sql"), err)) < 0) ||
	    (version == 1 && (rc = exec(db, sql("from-1.sql"), err)) < 0))
		return td_wrap(err, "%s", path);
	if ((rc = get_int(db, "SELECT v FROM meta WHERE k='revision'", &db->revision, err)) < 0 ||
	    (rc = get_int(db, "SELECT v FROM meta WHERE k='floor'", &db->floor, err)) < 0 ||
	    (rc = prep(db, "INSERT INTO log(rv,res,ns,name,crv,deleted,bytes) VALUES(?1,?2,?3,?4,?5,?6,?7)", &db->put,
		       err)) < 0 ||
	    (rc = prep(db, "UPDATE meta SET v=?1 WHERE k='revision'", &db->rev, err)) < 0 ||
	    (rc = prep(db,
		       "INSERT INTO floors(res,rv) SELECT res, ?2 FROM log WHERE rv=?1 ON CONFLICT(res) DO UPDATE SET "
		       "rv=?2",
		       &db->floor_of, err)) < 0 ||
	    (rc = prep(db, "DELETE FROM log WHERE rv=?1", &db->forget, err)) < 0 ||
	    (rc = prep(db, "UPDATE meta SET v=?1 WHERE k='floor'", &db->floor_all, err)) < 0)
		return td_wrap(err, "%s", path);

	if ((rc = open_mark(db, path, lossy, err)) < 0)
		return rc;
	*ret = td_steal(db);
	return 0;
}

uint64_t td_db_revision(const struct td_db *db)
{
	return db->revision;
}

uint64_t td_db_floor(const struct td_db *db)
{
	return db->floor;
}

static void add_past(struct td_db *db, uint64_t rv, uint64_t until, size_t len)
{
	if (db->n == db->cap) {
		db->cap = db->cap ? db->cap * 2 : 256;
		db->past = td_realloc(db->past, db->cap * sizeof(*db->past));
	}
	db->past[db->n++] = (struct past){rv, until, len};
	db->bytes += len;
	db->group_n++;
}

static void add_row(struct td_db *db, const struct td_db_row *r)
{
	if (r->prev)
		add_past(db, r->prev, r->rv, r->prev_len);
	if (r->deleted)
		add_past(db, r->rv, r->rv, r->len);
}

static int load_floors(struct td_db *db, const struct td_db_loader *l, struct td_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = prep(db, "SELECT res, rv FROM floors", &st, err);
	if (rc < 0)
		return rc;
	int step;
	while ((step = sqlite3_step(st)) == SQLITE_ROW)
		l->floor(l->ctx, (const char *)sqlite3_column_text(st, 0), (uint64_t)sqlite3_column_int64(st, 1));
	if (step != SQLITE_DONE)
		rc = fail(db, err, "reading floors");
	sqlite3_finalize(st);
	return rc;
}

int td_db_load(struct td_db *db, const struct td_db_loader *l, struct td_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = load_floors(db, l, err);
	if (rc < 0 ||
	    (rc = prep(db, "SELECT res, ns, name, rv, crv, deleted, bytes FROM log ORDER BY rv", &st, err)) < 0)
		return rc;
	int step;
	while ((step = sqlite3_step(st)) == SQLITE_ROW) {
		struct td_db_row r = {
			.res = (const char *)sqlite3_column_text(st, 0),
			.ns = (const char *)sqlite3_column_text(st, 1),
			.name = (const char *)sqlite3_column_text(st, 2),
			.rv = (uint64_t)sqlite3_column_int64(st, 3),
			.crv = (uint64_t)sqlite3_column_int64(st, 4),
			.deleted = sqlite3_column_int(st, 5),
			.bytes = sqlite3_column_blob(st, 6),
			.len = (size_t)sqlite3_column_bytes(st, 6),
		};
		if ((rc = l->row(l->ctx, &r, err)) < 0)
			break;
		add_row(db, &r);
	}

	if (rc == 0 && step != SQLITE_DONE)
		rc = fail(db, err, "reading objects");
	sqlite3_finalize(st);

	return rc;
}

int td_db_begin(struct td_db *db, struct td_error *err)
{
	db->group_n = 0;
	return exec(db, "BEGIN IMMEDIATE", err);
}

int td_db_put(struct td_db *db, const struct td_db_row *r, struct td_error *err)
{
	sqlite3_stmt *st = db->put;
	sqlite3_bind_int64(st, 1, (sqlite3_int64)r->rv);
	sqlite3_bind_text(st, 2, r->res, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 3, r->ns, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 4, r->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 5, (sqlite3_int64)r->crv);
	sqlite3_bind_int(st, 6, r->deleted);
	sqlite3_bind_blob(st, 7, r->bytes, (int)r->len, SQLITE_STATIC);
	int rc = run(db, st, err, "writing an object");
	if (rc == 0)
		add_row(db, r);
	return rc;
}

// Deletes the oldest part of the past, in the same transaction. Watches that start before it get
// 410. *ret_n, *ret_bytes: how many rows and bytes.
static int forget(struct td_db *db, size_t *ret_n, uint64_t *ret_bytes, struct td_error *err)
{
	size_t n = 0;
	uint64_t bytes = 0;
	for (; n < db->n && (db->n - n > PAST_ROWS || db->bytes - bytes > PAST_BYTES); n++) {
		const struct past *p = &db->past[n];
		sqlite3_bind_int64(db->floor_of, 1, (sqlite3_int64)p->rv);
		sqlite3_bind_int64(db->floor_of, 2, (sqlite3_int64)p->until);
		sqlite3_bind_int64(db->forget, 1, (sqlite3_int64)p->rv);
		int rc = run(db, db->floor_of, err, "writing a floor");
		if (rc < 0 || (rc = run(db, db->forget, err, "forgetting an old version")) < 0)
			return rc;
		bytes += p->len;
	}
	*ret_n = n;
	*ret_bytes = bytes;
	return 0;
}

int td_db_commit(struct td_db *db, uint64_t revision, struct td_error *err)
{
	size_t n = 0;
	uint64_t bytes = 0;
	int rc;

	if ((db->n > PAST_ROWS + SLACK_ROWS || db->bytes > PAST_BYTES + SLACK_BYTES) &&
	    (rc = forget(db, &n, &bytes, err)) < 0)
		return rc;
	sqlite3_bind_int64(db->rev, 1, (sqlite3_int64)revision);
	if ((rc = run(db, db->rev, err, "writing the revision")) < 0 || (rc = exec(db, "COMMIT", err)) < 0)
		return rc;
	td_mark_set(db->mark, revision);
	db->revision = revision;
	db->n -= n;
	db->bytes -= bytes;
	if (n)
		memmove(db->past, db->past + n, db->n * sizeof(*db->past));

	return 0;
}

void td_db_rollback(struct td_db *db)
{
	for (; db->group_n; db->group_n--)
		db->bytes -= db->past[--db->n].len;
	sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
}
