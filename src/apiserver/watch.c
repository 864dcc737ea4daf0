// watch: each watcher has a cursor (a revision) over the table's ring. When the store wakes it, the
// HTTP server's pump asks for bytes. Nothing here blocks, and a slow reader holds up only its own
// cursor. A watch whose cursor has fallen off the ring ends with 410 Expired.
#include "apiserver/srv.h"

#include "api/selector.h"
#include "base/rand.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FILL_BYTES (256u << 10) // bytes per fill; the rest waits for the next turn
#define FILL_EVENTS 128
#define BOOKMARK_MS 45000

struct watch {
	struct td_srv *s;
	struct td_snap *snap; // keeps k alive
	const struct td_kind *k;
	struct td_table *table;
	char *ns, *include;
	struct td_filter filter;
	enum td_as as;
	bool columns_sent, bookmarks, end_mark;
	struct td_items initial; // to be sent as ADDED; those before initial_at have been
	size_t initial_at;
	uint64_t cursor;
	int64_t next_bookmark;
	struct td_http_push_handle *h;
	struct td_sub sub;
};

static void watch_free(struct watch *w)
{
	td_filter_done(&w->filter);
	td_items_done(&w->initial);
	td_snap_unref(w->snap);
	free(w->ns);
	free(w->include);
	free(w);
}

static void put_object(struct watch *w, const struct td_item *i, struct td_buf *out)
{
	if (w->as == TD_AS_TABLE) {
		struct td_item *v[1] = {(struct td_item *)(uintptr_t)i};
		char rv[24];
		snprintf(rv, sizeof(rv), "%llu", (unsigned long long)i->rv);
		td_table_write(w->k, v, 1,
			       &(struct td_table_head){.columns = !w->columns_sent, .include = w->include, .rv = rv},
			       td_real_ms(w->s->clock), out);
		w->columns_sent = true;
	} else if (w->as == TD_AS_PARTIAL) {
		td_partial_write(i, out);
	} else {
		td_item_write(w->k, i, out);
	}
}

static void put_event(struct watch *w, const char *type, const struct td_item *i, struct td_buf *out)
{
	td_buf_printf(out, "{\"type\":\"%s\",\"object\":", type);
	put_object(w, i, out);
	td_buf_puts(out, "}\n");
	__atomic_add_fetch(&w->s->count.watch_events, 1, __ATOMIC_RELAXED);
}

// A bookmark has the parts of its kind, empty, as a real API server's: a client in Java (Spark's) reads them.
static const char *empty(const struct watch *w, const char *part, const char *text)
{
	return w->as == TD_AS_OBJECT && w->k->builtin && td_jget(w->k->raw, part) ? text : "";
}

static void put_bookmark(struct watch *w, bool end_mark, struct td_buf *out)
{
	td_buf_puts(out, "{\"type\":\"BOOKMARK\",\"object\":");
	const char *mark = end_mark ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "";
	const struct td_kind *k = w->k;
	if (w->as == TD_AS_TABLE)
		td_buf_printf(
			out,
			"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/"
			"v1\",\"metadata\":{\"resourceVersion\":\"%llu\"%s},\"columnDefinitions\":null,\"rows\":[]}",
			(unsigned long long)w->cursor, mark);
	else
		td_buf_printf(
			out,
			"{\"kind\":\"%s\",\"apiVersion\":\"%s%s%s\",\"metadata\":{\"resourceVersion\":\"%llu\"%s}%s%s}",
			w->as == TD_AS_PARTIAL ? "PartialObjectMetadata" : k->kind,
			w->as == TD_AS_PARTIAL ? "meta.k8s.io" : k->group,
			w->as == TD_AS_PARTIAL || *k->group ? "/" : "", w->as == TD_AS_PARTIAL ? "v1" : k->version,
			(unsigned long long)w->cursor, mark, empty(w, "properties.spec", ",\"spec\":{}"),
			empty(w, "properties.status", ",\"status\":{}"));

	td_buf_puts(out, "}\n");
	// The times are spread, so that a thousand watchers do not get their bookmarks at once.
	w->next_bookmark = td_mono_ms(w->s->clock) + BOOKMARK_MS - (int64_t)td_random_below(BOOKMARK_MS / 4);
}

static void put_expired(const struct td_error *err, struct td_buf *out)
{
	td_auto_refusal struct td_refusal r = {0};
	td_refuse(&r, 410, "Expired", "%s", err->msg);
	size_t len = 0;
	td_auto_free char *text = td_refusal_text(&r, &len);
	td_buf_puts(out, "{\"type\":\"ERROR\",\"object\":");
	td_buf_add(out, text, len);
	td_buf_puts(out, "}\n");
}

// An object that leaves the selection is reported as deleted: its old state, with the revision of
// the change.
static void put_left(struct watch *w, const struct td_srv_event *e, struct td_buf *out)
{
	td_auto(td_json_unref) struct td_json *was = td_item_doc(e->prev ? e->prev : e->item);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(was));
	td_auto(td_item_unref) struct td_item *i = td_item_new(d, e->item->rv, e->item->crv);
	put_event(w, "DELETED", i, out);
}

static void put_change(struct watch *w, const struct td_srv_event *e, struct td_buf *out)
{
	const struct td_filter *f = &w->filter;
	if (f->ns && *f->ns && strcmp(e->item->ns, f->ns) != 0)
		return;
	bool now = td_filter_matches(f, e->item);
	bool before = e->prev && td_filter_matches(f, e->prev);
	if (e->type == TD_EVENT_DELETED) {
		if (before)
			put_event(w, "DELETED", e->item, out);
	} else if (now) {
		put_event(w, before ? "MODIFIED" : "ADDED", e->item, out);
	} else if (before) {
		put_left(w, e, out);
	}
}

static int fill(void *ctx, struct td_buf *out)
{
	struct watch *w = ctx;
	size_t start = out->len;

	while (w->initial_at < w->initial.n && out->len - start < FILL_BYTES) {
		struct td_item *i = w->initial.v[w->initial_at++];
		put_event(w, "ADDED", i, out);
	}

	if (w->initial_at < w->initial.n) {
		td_http_push_wake(w->h);
		return 0;
	}

	if (w->initial.n) {
		td_items_done(&w->initial);
		w->initial_at = 0;
	}

	if (w->end_mark) {
		w->end_mark = false;
		put_bookmark(w, true, out);
	}

	while (out->len - start < FILL_BYTES) {
		struct td_srv_event v[FILL_EVENTS];
		struct td_error err = TD_ERROR_INIT;
		struct td_events got = {.v = v, .max = FILL_EVENTS};
		if (td_store_events(w->s->store, w->table, w->cursor, &got, &err) < 0) {
			put_expired(&err, out);
			__atomic_add_fetch(&w->s->count.watch_expired, 1, __ATOMIC_RELAXED);
			return 1;
		}

		for (size_t i = 0; i < got.n; i++)
			put_change(w, &v[i], out);
		td_events_done(v, got.n);
		w->cursor = got.at;
		if (got.n < FILL_EVENTS) {
			if (w->bookmarks && td_mono_ms(w->s->clock) >= w->next_bookmark)
				put_bookmark(w, false, out);
			return 0;
		}
	}

	td_http_push_wake(w->h); // more is left: continue when these bytes are out
	return 0;
}

static void wake(void *ctx)
{
	struct watch *w = ctx;
	td_http_push_wake(w->h);
}

static void closed(void *ctx)
{
	struct watch *w = ctx;
	td_store_unsubscribe(w->s->store, w->table, &w->sub);
	__atomic_sub_fetch(&w->s->count.watches, 1, __ATOMIC_RELAXED);
	watch_free(w);
}

static int begin(struct td_req *q, const struct td_list_options *o, struct watch *w, struct td_refusal *r)
{
	uint64_t rv = 0;
	int rc = td_srv_parse_rv(q, "resourceVersion", o->rv, &rv, r);
	if (rc < 0)
		return rc;
	w->bookmarks = o->bookmarks;
	w->next_bookmark = td_mono_ms(q->s->clock) + BOOKMARK_MS;
	bool initial = o->has_initial ? o->initial : rv == 0;
	w->end_mark = initial && w->bookmarks && (o->has_initial || !*o->rv);
	struct td_error err = TD_ERROR_INIT;
	if (initial) {
		td_auto_items struct td_items l = {0};
		if (td_store_list(q->s->store, w->table, w->ns, 0, &l, &w->cursor, &err) < 0)
			return td_refuse_err(r, &err);
		if (rv > w->cursor) {
			td_refuse(r, 504, "Timeout", "Timeout: Too large resource version: %llu, current: %llu",
				  (unsigned long long)rv, (unsigned long long)w->cursor);
			td_cause_add(&r->causes, "ResourceVersionTooLarge", "", "Too large resource version");
			r->retry_after_s = 1;
			return TD_EXPIRED;
		}
		for (size_t i = 0; i < l.n; i++)
			if (td_filter_matches(&w->filter, l.v[i]))
				td_items_add(&w->initial, td_item_ref(l.v[i]));
	} else {
		w->cursor = rv ? rv : td_store_revision(q->s->store);
	}

	return 0;
}

// A watch is a plain HTTP reply here. A client that asks for a WebSocket would wait for the end of that reply; this one
// ends at once, and is the answer upon which such clients (Java's, as Spark has) ask for the plain one. With an error
// they would ask the same again and again.
static bool no_socket(struct td_req *q)
{
	static const char text[] = "watches are no WebSockets here: ask without the header Upgrade\n";
	const char *up = td_http_header(q->x, "upgrade");
	if (!up || strcasecmp(up, "websocket") != 0)
		return false;
	td_http_send(q->x, 200, "text/plain", text, sizeof(text) - 1);
	return true;
}

int td_do_watch(struct td_req *q, struct td_refusal *r)
{
	if (no_socket(q))
		return 0;
	struct watch *w = td_calloc(1, sizeof(*w));
	w->s = q->s;
	w->snap = td_snap_ref(q->snap);
	w->k = q->k;
	w->table = q->res->table;
	w->as = q->as;
	struct td_list_options o = {0};
	int rc = td_list_options(q, &o, r);
	if (rc == 0)
		rc = td_filter_init(q, &w->filter, r);
	if (rc == 0 && w->as == TD_AS_TABLE)
		rc = td_check_include(td_http_query(q->x, "includeObject"), r);
	if (rc == 0) {
		w->ns = td_strdup(q->ns); // the request's strings end with the request
		w->filter.ns = w->ns;
		w->include = td_strdup(td_http_query(q->x, "includeObject"));
		rc = begin(q, &o, w, r);
	}

	if (rc < 0) {
		watch_free(w);
		return rc;
	}
	long long timeout = o.timeout_s;

	// As in a real API server: between 30 and 60 minutes.
	if (!timeout || timeout > 86400)
		timeout = 1800 + td_random_below(1800);
	w->sub = (struct td_sub){.wake = wake, .ctx = w};
	const struct td_http_push p = {
		.fill = fill, .closed = closed, .ctx = w, .timeout_ms = timeout < 0 ? 1 : timeout * 1000};
	__atomic_add_fetch(&q->s->count.watches, 1, __ATOMIC_RELAXED);
	w->h = td_http_push(q->x, 200, "application/json", &p);
	td_store_subscribe(q->s->store, w->table, &w->sub);
	td_http_push_wake(w->h);

	return 0;
}
