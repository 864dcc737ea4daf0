// The store: revisions, conflicts, lists at a revision, expiry of the ring, restart, many writers,
// a killed process.
// rows: F1.2
#include "apiserver/expiry.h"
#include "apiserver/store.h"
#include "base/file.h"
#include "base/proc.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[96];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/td-store-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/state.db", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return td_rm_rf(dir, NULL);
}

static struct td_store *open_store(size_t ring)
{
	struct td_store *s = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_store_open(path, ring, 0, &s, &err) < 0)
		fail_msg("open: %s", err.msg);
	return s;
}

static int put(struct td_store *s, struct td_table *t, const char *ns, const char *name, uint64_t base, int value,
	       struct td_item **ret)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.name", name);
	if (*ns)
		td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_int(d, o, "value", value);
	const struct td_srv_write w = {.table = t, .ns = ns, .name = name, .base = base, .doc = d};
	struct td_error err = TD_ERROR_INIT;
	return td_store_write(s, &w, ret, &err);
}

static int del(struct td_store *s, struct td_table *t, const char *ns, const char *name, uint64_t base)
{
	const struct td_srv_write w = {.table = t, .ns = ns, .name = name, .base = base};
	return td_store_write(s, &w, NULL, NULL);
}

static void writes_and_conflicts(void **state)
{
	(void)state;
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "things");
	td_auto(td_item_unref) struct td_item *a = NULL, *b = NULL;
	assert_int_equal(put(s, t, "n", "a", 0, 1, &a), 0);
	assert_int_equal(put(s, t, "n", "a", 0, 2, NULL), TD_EXISTS);
	assert_int_equal(put(s, t, "n", "a", a->rv, 2, &b), 0);
	assert_true(b->rv > a->rv);
	assert_int_equal(b->crv, a->rv);
	assert_int_equal(put(s, t, "n", "a", a->rv, 3, NULL), TD_CONFLICT);
	assert_int_equal(put(s, t, "n", "zz", a->rv, 3, NULL), TD_NOT_FOUND);
	td_auto(td_item_unref) struct td_item *g = td_store_get(s, t, "n", "a");
	assert_non_null(g);
	assert_int_equal(td_jint(td_item_root(g), "value", 0), 2);
	char rv[24];
	snprintf(rv, sizeof(rv), "%llu", (unsigned long long)b->rv);
	assert_string_equal(td_jstr(td_item_root(g), "metadata.resourceVersion"), rv);
	assert_int_equal(del(s, t, "n", "a", a->rv), TD_CONFLICT);
	assert_int_equal(del(s, t, "n", "a", b->rv), 0);
	assert_null(td_store_get(s, t, "n", "a"));
}

static void lists_at_a_revision(void **state)
{
	(void)state;
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "things");
	td_auto(td_item_unref) struct td_item *a = NULL;
	put(s, t, "n", "b", 0, 1, NULL);
	put(s, t, "n", "a", 0, 1, &a);
	put(s, t, "m", "c", 0, 1, NULL);
	uint64_t then = td_store_revision(s), rv;
	put(s, t, "n", "a", a->rv, 2, NULL);
	put(s, t, "n", "new", 0, 1, NULL);
	td_auto(td_item_unref) struct td_item *b = td_store_get(s, t, "n", "b");
	assert_int_equal(del(s, t, "n", "b", b->rv), 0);
	td_auto_items struct td_items now = {0}, old = {0}, one = {0};
	assert_int_equal(td_store_list(s, t, NULL, 0, &now, &rv, NULL), 0);
	assert_int_equal(now.n, 3);
	assert_string_equal(now.v[0]->name, "c"); // namespace m first
	assert_string_equal(now.v[1]->name, "a");
	assert_int_equal(td_store_list(s, t, NULL, then, &old, &rv, NULL), 0);
	assert_int_equal(rv, then);
	assert_int_equal(old.n, 3);
	assert_string_equal(old.v[1]->name, "a");
	assert_int_equal(td_jint(td_item_root(old.v[1]), "value", 0), 1);
	assert_string_equal(old.v[2]->name, "b");
	assert_int_equal(td_store_list(s, t, "n", then, &one, &rv, NULL), 0);
	assert_int_equal(one.n, 2);
}

// td_store_events into v, which has room for max.
static int events(struct td_store *s, struct td_table *t, uint64_t after, struct td_srv_event *v, size_t max, size_t *n,
		  uint64_t *at)
{
	struct td_events got = {.v = v, .max = max};
	int r = td_store_events(s, t, after, &got, NULL);
	*n = got.n;
	*at = got.at;
	return r;
}

static void ring_expires(void **state)
{
	(void)state;
	td_auto(td_store_close) struct td_store *s = open_store(8);
	struct td_table *t = td_store_table(s, "", "things"), *quiet = td_store_table(s, "", "quiet");
	uint64_t start = td_store_revision(s), at;
	struct td_srv_event v[16];
	size_t n;
	for (int i = 0; i < 8; i++) {
		char name[16];
		snprintf(name, sizeof(name), "x%d", i);
		put(s, t, "", name, 0, i, NULL);
	}

	assert_int_equal(events(s, t, start, v, 16, &n, &at), 0);
	assert_int_equal(n, 8);
	assert_int_equal(at, td_store_revision(s));
	td_events_done(v, n);
	assert_int_equal(events(s, t, start, v, 3, &n, &at), 0);
	assert_int_equal(n, 3);
	assert_int_equal(at, v[2].item->rv); // complete only up to there
	td_events_done(v, n);
	put(s, t, "", "one-more", 0, 0, NULL);
	assert_int_equal(events(s, t, start, v, 16, &n, &at), TD_EXPIRED);
	assert_int_equal(events(s, t, start + 1, v, 16, &n, &at), 0);
	assert_int_equal(n, 8);
	td_events_done(v, n);

	// Changes of another table do not push a quiet table's cursor off the ring.
	assert_int_equal(events(s, quiet, start, v, 16, &n, &at), 0);
	assert_int_equal(n, 0);
	assert_int_equal(at, td_store_revision(s));
	td_auto_items struct td_items l = {0};
	assert_int_equal(td_store_list(s, t, NULL, start, &l, &at, NULL), TD_EXPIRED);
}

// All rings share one bound, and the busiest gives way; nothing in them is parsed.
static void rings_are_bounded(void **state)
{
	(void)state;
	struct td_store *made = NULL;
	assert_int_equal(td_store_open(path, 0, 16384, &made, NULL), 0);
	td_auto(td_store_close) struct td_store *s = made;
	struct td_table *busy = td_store_table(s, "", "busy"), *quiet = td_store_table(s, "", "quiet");
	uint64_t start = td_store_revision(s), at, rv = 0;
	struct td_srv_event v[8];
	size_t n;
	put(s, quiet, "", "a", 0, 1, NULL);
	put(s, quiet, "", "b", 0, 1, NULL);
	struct td_store_stats st;
	for (int i = 0; i < 300; i++) {
		td_auto(td_item_unref) struct td_item *now = NULL;
		assert_int_equal(put(s, busy, "", "x", rv, i, &now), 0);
		assert_int_equal(td_jint(td_item_root(now), "value", -1), i);
		rv = now->rv;
		td_store_stats(s, &st);
		assert_true(st.ring_bytes <= 16384);
	}

	assert_true(st.ring_events > 20);
	assert_int_equal(events(s, busy, start, v, 8, &n, &at), TD_EXPIRED);
	assert_int_equal(events(s, quiet, start, v, 8, &n, &at), 0);
	assert_int_equal(n, 2);
	td_events_done(v, n);

	// Readers get copies, so nothing parsed stays behind in the store.
	td_auto(td_item_unref) struct td_item *held = td_store_get(s, busy, "", "x");
	assert_int_equal(td_jint(td_item_root(held), "value", -1), 299);
	put(s, busy, "", "x", rv, 300, NULL);
	assert_int_equal(events(s, busy, rv - 1, v, 8, &n, &at), 0);
	assert_int_equal(n, 2);
	assert_ptr_not_equal(v[0].item, held);
	assert_null(v[0].item->doc);
	assert_ptr_equal(v[1].prev, v[0].item);
	assert_string_equal(v[0].item->bytes, held->bytes);
	assert_string_equal(v[0].item->name, "x");
	assert_int_equal(v[0].item->rv, rv);
	assert_int_equal(td_jint(td_item_root(v[0].item), "value", -1), 299);
	td_events_done(v, n);
}

static void survives_reopen(void **state)
{
	(void)state;
	td_auto(td_item_unref) struct td_item *a = NULL, *b = NULL;
	uint64_t rv, before;
	{
		td_auto(td_store_close) struct td_store *s = open_store(0);
		struct td_table *t = td_store_table(s, "g", "things");
		put(s, t, "n", "gone", 0, 1, &b);
		put(s, t, "n", "a", 0, 1, &a);
		before = a->rv;
		put(s, t, "n", "a", a->rv, 2, NULL);
		del(s, t, "n", "gone", b->rv);
		put(s, t, "n", "c", 0, 3, NULL);
		rv = td_store_revision(s);
	}
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "g", "things");
	assert_int_equal(td_store_revision(s), rv);
	assert_int_equal(td_store_count(s, t), 2);

	// A watch that saw everything up to `before` continues without a gap: a changed, gone
	// deleted, c added.
	struct td_srv_event v[16];
	size_t n;
	uint64_t at;
	assert_int_equal(events(s, t, before, v, 16, &n, &at), 0);
	assert_int_equal(n, 3);
	assert_int_equal(v[0].type, TD_EVENT_MODIFIED);
	assert_int_equal(td_jint(td_item_root(v[0].item), "value", 0), 2);
	assert_int_equal(v[1].type, TD_EVENT_DELETED);
	assert_string_equal(v[1].item->name, "gone");
	assert_int_equal(v[2].type, TD_EVENT_ADDED);
	td_events_done(v, n);

	// A watch that saw nothing gets every version, with the version before it.
	assert_int_equal(events(s, t, 1, v, 16, &n, &at), 0);
	assert_int_equal(n, 5);
	const char *names[] = {"gone", "a", "a", "gone", "c"};
	const enum td_srv_event_type types[] = {TD_EVENT_ADDED, TD_EVENT_ADDED, TD_EVENT_MODIFIED, TD_EVENT_DELETED,
						TD_EVENT_ADDED};
	const int befores[] = {-1, -1, 1, 0, -1};
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(v[i].item->name, names[i]);
		assert_int_equal(v[i].type, types[i]);
		assert_int_equal(v[i].item->rv, 2 + i);
		assert_ptr_equal(v[i].prev, befores[i] < 0 ? NULL : v[befores[i]].item);
	}

	td_events_done(v, n);
	td_auto_items struct td_items then = {0};
	assert_int_equal(td_store_list(s, t, NULL, before, &then, &at, NULL), 0);
	assert_int_equal(then.n, 2);
	assert_string_equal(then.v[1]->name, "gone");
	assert_int_equal(td_jint(td_item_root(then.v[0]), "value", 0), 1);
	td_auto(td_item_unref) struct td_item *c = NULL;
	assert_int_equal(put(s, t, "n", "d", 0, 4, &c), 0);
	assert_true(c->rv > rv);
}

static long long ask(const char *file, const char *sql)
{
	sqlite3 *h = NULL;
	sqlite3_stmt *st = NULL;
	assert_int_equal(sqlite3_open(file, &h), SQLITE_OK);
	for (; *sql; sql += strspn(sql, " ")) {
		sqlite3_finalize(st);
		assert_int_equal(sqlite3_prepare_v2(h, sql, -1, &st, &sql), SQLITE_OK);
		int rc = sqlite3_step(st);
		assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
	}
	long long v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(h);
	return v;
}

// The file does not grow with the number of writes, and forgets for each table only that table's
// past.
static void the_past_is_bounded(void **state)
{
	(void)state;
	setenv("TANDEM_DB_SYNC", "normal", 1); // the test does 10,000 writes
	struct td_store *s = open_store(0);
	struct td_table *busy = td_store_table(s, "", "busy"), *quiet = td_store_table(s, "", "quiet");
	td_auto(td_item_unref) struct td_item *q = NULL;
	assert_int_equal(put(s, quiet, "", "q", 0, 1, &q), 0);
	assert_int_equal(put(s, quiet, "", "q", q->rv, 2, NULL), 0);
	uint64_t rv = 0, at, middle = 0;
	for (int i = 0; i < 10000; i++) {
		td_auto(td_item_unref) struct td_item *x = NULL;
		assert_int_equal(put(s, busy, "", "x", rv, i, &x), 0);
		rv = x->rv;
		if (i == 9990)
			middle = rv;
	}

	td_store_close(s);
	long long rows = ask(path, "SELECT count(*) FROM log");
	assert_true(rows > 4096 && rows < 4096 + 600);
	assert_true(ask(path, "SELECT rv FROM floors WHERE res='/busy'") > 4000);
	s = open_store(0);
	busy = td_store_table(s, "", "busy"), quiet = td_store_table(s, "", "quiet");
	struct td_srv_event v[16];
	size_t n;
	assert_int_equal(events(s, busy, 100, v, 16, &n, &at), TD_EXPIRED);
	assert_int_equal(events(s, busy, middle, v, 16, &n, &at), 0);
	assert_int_equal(n, 9);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(v[i].item->rv, middle + i + 1);
	td_events_done(v, n);

	// The quiet table lost a version too; what came after it is complete.
	assert_int_equal(events(s, quiet, q->rv - 1, v, 16, &n, &at), TD_EXPIRED);
	assert_int_equal(events(s, quiet, q->rv + 1, v, 16, &n, &at), 0);
	assert_int_equal(n, 0);
	td_store_close(s);
	unsetenv("TANDEM_DB_SYNC");
}

// A file of version 1 is converted: the objects are there, and watches start anew.
static void older_file(void **state)
{
	(void)state;
	ask(path,
	    "CREATE TABLE objects(res TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, rv INTEGER NOT NULL, crv "
	    "INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY(res, ns, name)); CREATE TABLE tombstones(rv INTEGER "
	    "PRIMARY KEY, res TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, crv INTEGER NOT NULL, bytes BLOB "
	    "NOT NULL); CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL); INSERT INTO meta VALUES('revision', "
	    "9), ('floor', 0); INSERT INTO objects "
	    "VALUES('/things','n','a',7,3,'{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"},\"value\":7}'); INSERT "
	    "INTO tombstones VALUES(9,'/things','n','b',5,'{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\"}}'); "
	    "PRAGMA user_version=1;");

	for (int i = 0; i < 2; i++) {
		td_auto(td_store_close) struct td_store *s = open_store(0);
		struct td_table *t = td_store_table(s, "", "things");
		assert_int_equal(td_store_count(s, t), 1 + i);
		td_auto(td_item_unref) struct td_item *a = td_store_get(s, t, "n", "a");
		assert_int_equal(td_jint(td_item_root(a), "value", 0), 7);
		assert_int_equal(a->crv, 3);

		struct td_srv_event v[4];
		size_t n;
		uint64_t at;
		assert_int_equal(events(s, t, 8, v, 4, &n, &at), TD_EXPIRED);
		assert_int_equal(events(s, t, 9, v, 4, &n, &at), 0);
		td_events_done(v, n);
		assert_int_equal(n, i);

		if (i == 0)
			assert_int_equal(put(s, t, "n", "c", 0, 8, NULL), 0);
		td_auto(td_item_unref) struct td_item *c = td_store_get(s, t, "n", "c");
		assert_int_equal(c->rv, 10);
	}
}

static void namespaces_guard(void **state)
{
	(void)state;
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "pods"), *ns = td_store_table(s, "", "namespaces");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.name", "p");
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.namespace", "n");
	const struct td_srv_write w = {.table = t, .ns = "n", .name = "p", .doc = d, .in_namespace = true};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_store_write(s, &w, NULL, &err), TD_DENIED);
	assert_int_equal(err.http, 404);
	td_auto(td_item_unref) struct td_item *n = NULL;
	put(s, ns, "", "n", 0, 0, &n);
	assert_int_equal(td_store_write(s, &w, NULL, &err), 0);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *going = td_jm_copy(td_item_root(n));
	td_jm_str(going, yyjson_mut_doc_get_root(going), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z");
	const struct td_srv_write term = {.table = ns, .ns = "", .name = "n", .base = n->rv, .doc = going};
	assert_int_equal(td_store_write(s, &term, NULL, &err), 0);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.name", "q");
	const struct td_srv_write w2 = {.table = t, .ns = "n", .name = "q", .doc = d, .in_namespace = true};
	assert_int_equal(td_store_write(s, &w2, NULL, &err), TD_DENIED);
	assert_int_equal(err.http, 403);
}

struct incr {
	struct td_store *s;
	struct td_table *t;
	int times;
};

static void *increment(void *arg)
{
	struct incr *c = arg;
	for (int i = 0; i < c->times;) {
		td_auto(td_item_unref) struct td_item *it = td_store_get(c->s, c->t, "", "counter");
		if (put(c->s, c->t, "", "counter", it->rv, (int)td_jint(td_item_root(it), "value", 0) + 1, NULL) == 0)
			i++;
	}
	return NULL;
}

static void wakes(void *ctx)
{
	__atomic_add_fetch((int *)ctx, 1, __ATOMIC_RELAXED);
}

static void many_writers(void **state)
{
	(void)state;
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "things");
	put(s, t, "", "counter", 0, 0, NULL);
	uint64_t start = td_store_revision(s), at;
	int woken = 0;
	struct td_sub sub = {.wake = wakes, .ctx = &woken};
	td_store_subscribe(s, t, &sub);
	struct incr c = {s, t, 100};
	pthread_t th[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&th[i], NULL, increment, &c);
	for (int i = 0; i < 8; i++)
		pthread_join(th[i], NULL);
	td_store_unsubscribe(s, t, &sub);
	td_auto(td_item_unref) struct td_item *it = td_store_get(s, t, "", "counter");
	assert_int_equal(td_jint(td_item_root(it), "value", 0), 800); // no update was lost
	assert_true(woken > 0);

	// The ring holds every one of them, in order.
	uint64_t cursor = start;
	int seen = 0;
	for (;;) {
		struct td_srv_event v[64];
		size_t n;
		assert_int_equal(events(s, t, cursor, v, 64, &n, &at), 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(td_jint(td_item_root(v[i].item), "value", 0), ++seen);
		td_events_done(v, n);
		cursor = at;
		if (n < 64)
			break;
	}

	assert_int_equal(seen, 800);
	assert_int_equal(cursor, td_store_revision(s));
}

// A child acknowledges writes on a pipe and is killed in between: afterwards everything
// acknowledged is there.
static void killed_writer(void **state)
{
	(void)state;
	int p[2];
	assert_int_equal(pipe(p), 0);
	pid_t pid = fork(); // this process has no threads yet
	assert_true(pid >= 0);
	if (pid == 0) {
		close(p[0]);
		struct td_store *s = NULL;
		if (td_store_open(path, 0, 0, &s, NULL) < 0)
			_exit(1);
		struct td_table *t = td_store_table(s, "", "things");
		for (int i = 0;; i++) {
			char name[32];
			snprintf(name, sizeof(name), "w%d", i);
			if (put(s, t, "", name, 0, i, NULL) < 0 || write(p[1], &i, sizeof(i)) != sizeof(i))
				_exit(1);
		}
	}

	close(p[1]);
	int last = -1;
	while (last < 200)
		assert_int_equal(read(p[0], &last, sizeof(last)), sizeof(last));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (read(p[0], &last, sizeof(last)) == sizeof(last))
		;
	close(p[0]);
	td_auto(td_store_close) struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "things");
	for (int i = 0; i <= last; i++) {
		char name[32];
		snprintf(name, sizeof(name), "w%d", i);
		td_auto(td_item_unref) struct td_item *it = td_store_get(s, t, "", name);
		if (!it)
			fail_msg("write %d of %d was acknowledged and is lost", i, last);
	}
}

// ---- a damaged log ----
static void copy(const char *from, const char *to, size_t cut, size_t garble)
{
	td_auto_buf struct td_buf b = {0};
	assert_int_equal(td_file_read(from, 64 << 20, &b, NULL), 0);
	assert_true(b.len > cut && b.len > garble);
	if (garble)
		b.s[b.len - garble] ^= 0x55;
	assert_int_equal(td_file_write(to, b.s, b.len - cut, 0600, NULL), 0);
}

// Copies the files as kill -9 would leave them now, with `cut` bytes missing at the end of the log,
// and one byte changed, `garble` bytes from its end.
static char *crashed(size_t cut, size_t garble)
{
	static const char *const tails[] = {"", "-wal", "-mark"};
	char *to = td_asprintf("%s/copy.db", dir);
	for (size_t i = 0; i < TD_LEN(tails); i++) {
		td_auto_free char *a = td_asprintf("%s%s", path, tails[i]), *b = td_asprintf("%s%s", to, tails[i]);
		copy(a, b, i == 1 ? cut : 0, i == 1 ? garble : 0);
	}
	return to;
}

static void damaged_log(void **state)
{
	(void)state;
	struct td_store *s = open_store(0), *c = NULL;
	struct td_table *t = td_store_table(s, "", "things");
	char name[16];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "w%02d", i);
		assert_int_equal(put(s, t, "", name, 0, i, NULL), 0);
	}

	uint64_t acknowledged = td_store_revision(s);
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *whole = crashed(0, 0);
	assert_int_equal(td_store_open(whole, 0, 0, &c, &err), 0);
	assert_int_equal(td_store_count(c, td_store_table(c, "", "things")), 20);
	c = td_store_close(c);

	// Extra bytes, of a write that was never acknowledged: nothing is missing.
	td_auto_free char *more = crashed(0, 0), *wal = td_asprintf("%s-wal", more);
	FILE *f = fopen(wal, "a");
	assert_non_null(f);
	for (int i = 0; i < 5000; i++)
		fputc(i, f);
	fclose(f);
	assert_int_equal(td_store_open(more, 0, 0, &c, &err), 0);
	assert_int_equal(td_store_count(c, td_store_table(c, "", "things")), 20);
	c = td_store_close(c);

	// The log's end is missing, or a byte in the middle is wrong: SQLite alone would go on with
	// what is before that.
	const size_t damage[][2] = {{1, 0}, {9000, 0}, {0, 30000}};
	for (size_t i = 0; i < TD_LEN(damage); i++) {
		td_auto_free char *torn = crashed(damage[i][0], damage[i][1]);
		err = TD_ERROR_INIT;
		assert_int_equal(td_store_open(torn, 0, 0, &c, &err), TD_INVALID);
		assert_non_null(strstr(err.msg, "acknowledged writes are missing"));
		assert_non_null(strstr(err.msg, "mv "));
		// Opening again changes nothing.
		assert_int_equal(td_store_open(torn, 0, 0, &c, &err), TD_INVALID);
		td_auto_free char *mark = td_asprintf("%s-mark", torn),
				  *accepted = td_asprintf("%s-mark.accepted", torn);
		assert_int_equal(rename(mark, accepted), 0);
		if (td_store_open(torn, 0, 0, &c, &err) < 0)
			fail_msg("%s", err.msg);
		struct td_table *things = td_store_table(c, "", "things");
		size_t n = td_store_count(c, things);
		assert_true(n > 0 && n < 20);
		for (size_t k = 0; k < n; k++) { // what is before the damage is there
			snprintf(name, sizeof(name), "w%02zu", k);
			td_auto(td_item_unref) struct td_item *x = td_store_get(c, things, "", name);
			assert_non_null(x);
		}
		// Watches that saw the lost writes must list again, and no revision is given out
		// twice.
		struct td_srv_event ev[4];
		uint64_t at;
		assert_int_equal(events(c, things, acknowledged, ev, 4, &n, &at), TD_EXPIRED);
		assert_true(td_store_revision(c) > acknowledged);
		assert_int_equal(put(c, things, "", "new", 0, 1, NULL), 0);
		c = td_store_close(c);
		// The loss is accepted once and for all.
		assert_int_equal(td_store_open(torn, 0, 0, &c, &err), 0);
		c = td_store_close(c);
	}

	td_store_close(s);
}

// The file forgets deletions while older objects live on. Dropping those objects from the ring must
// not lower the floor.
static void floor_never_falls(void **state)
{
	(void)state;
	setenv("TANDEM_DB_SYNC", "normal", 1); // the test does 12,000 writes
	struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "things"), *other = td_store_table(s, "", "others");
	char name[16];
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "old%02d", i);
		assert_int_equal(put(s, t, "", name, 0, i, NULL), 0);
	}
	td_auto(td_item_unref) struct td_item *victim = NULL;
	assert_int_equal(put(s, t, "", "victim", 0, 1, &victim), 0);

	// A watch sees the victim; its deletion will be forgotten.
	uint64_t before = td_store_revision(s);
	assert_int_equal(del(s, t, "", "victim", victim->rv), 0);
	for (int i = 0; i < 6200; i++) {
		td_auto(td_item_unref) struct td_item *x = NULL;
		assert_int_equal(put(s, other, "", "brief", 0, i, &x), 0);
		assert_int_equal(del(s, other, "", "brief", x->rv), 0);
	}

	td_store_close(s);
	s = open_store(8);
	struct td_srv_event ev[4];
	size_t n;
	uint64_t at;
	assert_int_equal(events(s, td_store_table(s, "", "things"), before, ev, 4, &n, &at), TD_EXPIRED);
	td_store_close(s);
	unsetenv("TANDEM_DB_SYNC");
}

// ---- Events expire ----
static void event(struct td_store *s, const char *name, int64_t last_ms)
{
	char t[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_item_unref) struct td_item *old = td_store_get(s, td_store_table(s, "", "events"), "a", name);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", "a");
	td_jm_str(d, o, "lastTimestamp", td_time_format(last_ms, t));
	const struct td_srv_write w = {
		.table = td_store_table(s, "", "events"), .ns = "a", .name = name, .base = old ? old->rv : 0, .doc = d};
	assert_int_equal(td_store_write(s, &w, NULL, NULL), 0);
}

static size_t minutes(struct td_expiry *e, struct td_clock_manual *clock, int n)
{
	size_t gone = 0;
	for (int i = 0; i < n; i++) {
		td_clock_manual_add(clock, 60000);
		gone += td_expiry_turn(e);
	}
	return gone;
}

static void events_expire(void **state)
{
	(void)state;
	const int64_t day = 1700000000000;
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, day);
	struct td_store *s = open_store(0);
	struct td_table *t = td_store_table(s, "", "events");

	// Written before this server started: its own times count.
	event(s, "before", day);
	event(s, "long-before", day - 3500000);
	struct td_expiry *e = td_expiry_new(s, &clock.clock);
	assert_int_equal(td_expiry_turn(e), 0);
	event(s, "old-times", 0); // written now: its own times do not count
	event(s, "again", day);
	assert_int_equal(minutes(e, &clock, 2), 1);
	td_auto(td_item_unref) struct td_item *long_before = td_store_get(s, t, "a", "long-before");
	assert_null(long_before);
	assert_int_equal(minutes(e, &clock, 56), 0);
	event(s, "again", day);                     // a new write is a new hour
	assert_int_equal(minutes(e, &clock, 2), 1); // the Event "before"
	assert_int_equal(minutes(e, &clock, 1), 1); // old-times, at most a minute late
	assert_int_equal(td_store_count(s, t), 1);
	clock.real -= 7200000; // the machine's clock goes back: nothing changes
	assert_int_equal(minutes(e, &clock, 54), 0);
	assert_int_equal(minutes(e, &clock, 6), 1);
	assert_int_equal(td_store_count(s, t), 0);

	// A turn is bounded, and the next one continues.
	for (int i = 0; i < 700; i++) {
		char name[16];
		snprintf(name, sizeof(name), "e%03d", i);
		event(s, name, day);
	}

	td_expiry_turn(e);
	td_clock_manual_add(&clock, 60000);
	td_expiry_turn(e);
	td_clock_manual_add(&clock, 3600000);
	assert_int_equal(td_expiry_turn(e), TD_EXPIRY_DELETES);
	assert_int_equal(td_expiry_turn(e), TD_EXPIRY_DELETES);
	assert_int_equal(td_expiry_turn(e), 700 - 2 * TD_EXPIRY_DELETES);
	assert_int_equal(td_store_count(s, t), 0);
	td_expiry_free(e);
	td_store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(killed_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(writes_and_conflicts, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_at_a_revision, setup, teardown),
		cmocka_unit_test_setup_teardown(ring_expires, setup, teardown),
		cmocka_unit_test_setup_teardown(rings_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(survives_reopen, setup, teardown),
		cmocka_unit_test_setup_teardown(namespaces_guard, setup, teardown),
		cmocka_unit_test_setup_teardown(many_writers, setup, teardown),
		cmocka_unit_test_setup_teardown(the_past_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(older_file, setup, teardown),
		cmocka_unit_test_setup_teardown(events_expire, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_log, setup, teardown),
		cmocka_unit_test_setup_teardown(floor_never_falls, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
