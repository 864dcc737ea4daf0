// The reflector: LIST, then WATCH without end, from one thread per informer.
//
// Lists are consistent reads (no resourceVersion), so they are never older than the request. A list
// may still be older than what was seen before, when a member of the control plane lags or the
// store was restored from a backup. Such a list is requested again a few times before it is
// accepted. A relist is compared with the store, so that handlers see the deletions that the watch
// missed. After a cut the watch goes on from the last resourceVersion seen; half a line is dropped,
// its event comes again.
#include "kube/informer.h"

#include "base/log.h"
#include "base/rand.h"
#include "kube/health.h"
#include "kube/internal.h"
#include "kube/store.h"
#include "metrics/metrics.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uthash.h>

#define LINE_MAX_BYTES TD_JSON_MAX
// Bookmarks come about every minute, so a connection that is silent for longer is dead.
#define IDLE_MS 150000
#define BACKOFF_MIN 100
#define BACKOFF_MAX 15000
#define STALE_TRIES 5

struct td_informer {
	struct td_kube *kube;
	const struct td_gvr *gvr;
	const char *name;
	char *ns, *labels, *fields;
	struct td_kstore *store;
	struct {
		void (*fn)(void *ctx, struct td_object *old, struct td_object *now);
		void *ctx;
	} handlers[16];
	size_t n_handlers;
	struct td_cancel *cancel;
	pthread_t thread;
	bool started, apart;
	int synced, synced_fd; // atomic; synced_fd: an eventfd that becomes readable with it
	pthread_mutex_t lock;  // guards last_error
	char last_error[256];

	// Used by the informer's thread only.
	char *rv;
	struct td_buf line;
	int watch_code; // why our own callback ended the stream
	struct td_error watch_err;
	uint64_t events;
};

struct td_informer *td_informer_new(struct td_kube *k, const struct td_informer_opts *o)
{
	struct td_informer *i = td_calloc(1, sizeof(*i));
	i->kube = k;
	i->gvr = o->resource;
	i->name = o->name ? o->name : o->resource->resource;
	i->apart = o->apart;
	i->ns = td_strdup(o->ns);
	i->labels = td_strdup(o->labels);
	i->fields = td_strdup(o->fields);
	i->store = td_kstore_new();
	i->synced_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (i->synced_fd < 0)
		abort();
	pthread_mutex_init(&i->lock, NULL);
	return i;
}

struct td_informer *td_informer_free(struct td_informer *i)
{
	if (!i)
		return NULL;
	td_health_informer(i, false);
	if (i->started)
		pthread_join(i->thread, NULL);
	td_cancel_unref(i->cancel);
	td_kstore_free(i->store);
	close(i->synced_fd);
	pthread_mutex_destroy(&i->lock);
	td_buf_done(&i->line);
	free(i->rv);
	free(i->ns);
	free(i->labels);
	free(i->fields);
	free(i);
	return NULL;
}

void td_informer_on_change(struct td_informer *i, void (*fn)(void *ctx, struct td_object *old, struct td_object *now),
			   void *ctx)
{
	if (i->started || i->n_handlers == TD_LEN(i->handlers))
		abort(); // a programming error
	i->handlers[i->n_handlers].fn = fn;
	i->handlers[i->n_handlers++].ctx = ctx;
}

void td_informer_add_index(struct td_informer *i, const char *name,
			   void (*fn)(const struct td_object *o, struct td_strv *ret_values))
{
	td_kstore_add_index(i->store, name, fn);
}

bool td_informer_synced(const struct td_informer *i)
{
	return __atomic_load_n(&i->synced, __ATOMIC_ACQUIRE);
}

const char *td_informer_resource(const struct td_informer *i)
{
	return i->name;
}

size_t td_informer_count(const struct td_informer *i)
{
	return td_kstore_count(i->store);
}

struct td_object *td_informer_get(const struct td_informer *i, const char *ns, const char *name)
{
	return name ? td_kstore_get(i->store, ns, name) : NULL;
}

void td_informer_list(const struct td_informer *i, const char *ns, struct td_objects *ret)
{
	td_kstore_list(i->store, ns, ret);
}

void td_informer_by_index(const struct td_informer *i, const char *index, const char *value, struct td_objects *ret)
{
	td_kstore_by_index(i->store, index, value, ret);
}

static void count(const struct td_informer *i, const char *name, const char *help)
{
	td_metric_add(td_counter(td_metrics_process(), name, help, TD_LABELS("resource")), 1, TD_LABELS(i->name));
}

// ---- changes ----

static void notify(struct td_informer *i, struct td_object *old, struct td_object *now)
{
	for (size_t h = 0; h < i->n_handlers; h++)
		i->handlers[h].fn(i->handlers[h].ctx, old, now);
}

// Applies the current state of one object. A state that the store already has, or an older one, is
// dropped.
static void upsert(struct td_informer *i, struct td_object *now)
{
	td_auto(td_object_unref) struct td_object *have = td_kstore_get(i->store, now->ns, now->name);
	bool same = have && td_streq(have->uid, now->uid);
	if (same && (td_streq(have->rv, now->rv) || td_rv_older(now->rv, have->rv)))
		return;
	// The object was deleted and created again between two reads.
	if (have && !same) {
		td_object_unref(td_kstore_take(i->store, have->ns, have->name));
		notify(i, have, NULL);
	}
	td_auto(td_object_unref) struct td_object *old = NULL;
	td_kstore_put(i->store, now, &old);
	notify(i, old, now);
}

// `last` is the state that the API server sent with the deletion, or the one in the store. Handlers
// get it as `old`.
static void removed(struct td_informer *i, struct td_object *last)
{
	td_auto(td_object_unref) struct td_object *have = td_kstore_get(i->store, last->ns, last->name);
	// Unknown, or its successor is already in the store.
	if (!have || (*last->uid && !td_streq(have->uid, last->uid)))
		return;
	td_object_unref(td_kstore_take(i->store, last->ns, last->name));
	notify(i, last, NULL);
}

// ---- list ----

struct seen {
	const char *key; // points to buf
	UT_hash_handle hh;
	char buf[];
};

static void seen_done(struct seen **s)
{
	struct seen *e, *tmp;
	HASH_ITER (hh, *s, e, tmp) {
		HASH_DEL(*s, e);
		free(e);
	}
}

static char *seen_key(const struct td_object *o)
{
	return td_asprintf("%s/%s", o->ns, o->name);
}

static int relist(struct td_informer *i, int *stale, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(i->kube, i->gvr, i->ns, i->labels, i->fields, i->cancel, &l, err);
	if (r)
		return r;

	count(i, "tandem_informer_lists_total",
	      "Complete lists that the cache of this resource was filled from; more than one: a gap.");
	if (td_rv_older(l.rv, i->rv) && ++*stale < STALE_TRIES)
		return td_fail(err, TD_TRANSIENT, "the list of %s (%s) is older than what was seen before (%s)",
			       i->gvr->resource, l.rv, i->rv);
	bool restored = td_rv_older(l.rv, i->rv);
	*stale = 0;

	struct seen *seen __attribute__((cleanup(seen_done))) = NULL;
	for (size_t n = 0; n < l.n; n++) {
		td_auto_free char *key = seen_key(l.v[n]);
		struct seen *e = NULL;
		HASH_FIND_STR(seen, key, e);
		if (e)
			continue;
		e = td_malloc(sizeof(*e) + strlen(key) + 1);
		e->key = strcpy(e->buf, key);
		HASH_ADD_KEYPTR(hh, seen, e->key, strlen(e->key), e);
	}

	td_auto_objects struct td_objects have = {0};
	td_kstore_list(i->store, NULL, &have);
	for (size_t n = 0; n < have.n; n++) {
		td_auto_free char *key = seen_key(have.v[n]);
		struct seen *e = NULL;
		HASH_FIND_STR(seen, key, e);
		// After a restore resourceVersions start again, so every object counts as new.
		if (!e || restored)
			removed(i, have.v[n]);
	}

	for (size_t n = 0; n < l.n; n++)
		upsert(i, l.v[n]);

	free(i->rv);
	i->rv = td_steal(l.rv);
	if (!td_informer_synced(i)) {
		__atomic_store_n(&i->synced, 1, __ATOMIC_RELEASE);
		uint64_t one = 1;
		(void)!write(i->synced_fd, &one, sizeof(one));
	}
	return 0;
}

// ---- watch ----

static void set_rv(struct td_informer *i, const char *rv)
{
	if (rv && *rv && !td_streq(rv, i->rv)) {
		free(i->rv);
		i->rv = td_strdup(rv);
	}
}

static int one_event(struct td_informer *i, const char *p, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_json_parse(p, n, &j, &i->watch_err);
	if (r)
		return r;

	yyjson_val *root = td_json_root(j), *obj = td_jget(root, "object");
	const char *type = td_jstr_or(root, "type", "");
	if (td_streq(type, "ERROR")) {
		bool gone = td_jint(obj, "code", 0) == 410 || td_streq(td_jstr(obj, "reason"), "Expired") ||
			    td_streq(td_jstr(obj, "reason"), "Gone");
		return td_fail(&i->watch_err, gone ? TD_EXPIRED : TD_INTERNAL, "%s",
			       td_jstr_or(obj, "message", "the watch failed"));
	}

	if (td_streq(type, "BOOKMARK")) {
		set_rv(i, td_jstr(obj, "metadata.resourceVersion"));
		i->events++;
		return 0;
	}

	if (!td_jstr(obj, "metadata.name") || !td_jstr(obj, "metadata.resourceVersion"))
		return td_fail(&i->watch_err, TD_INTERNAL, "a watch event of type \"%s\" without an object", type);
	td_auto(td_object_unref) struct td_object *o = td_object_kept(obj);
	if (td_streq(type, "DELETED"))
		removed(i, o);
	else if (td_streq(type, "ADDED") || td_streq(type, "MODIFIED"))
		upsert(i, o);
	else
		return td_fail(&i->watch_err, TD_INTERNAL, "a watch event of unknown type \"%s\"", type);

	set_rv(i, o->rv);
	i->events++;
	count(i, "tandem_informer_events_total", "Changes of objects that watches of this resource told of.");
	return 0;
}

static int on_data(void *ctx, const char *p, size_t n)
{
	struct td_informer *i = ctx;
	while (n) {
		if (td_cancelled(i->cancel))
			return i->watch_code = TD_CANCELLED;

		const char *nl = memchr(p, '\n', n);
		size_t part = nl ? (size_t)(nl - p) : n;
		if (i->line.len + part > LINE_MAX_BYTES)
			return i->watch_code = td_fail(&i->watch_err, TD_INTERNAL,
						       "a watch event is longer than %u bytes", LINE_MAX_BYTES);

		if (!nl) {
			td_buf_add(&i->line, p, part);
			return 0;
		}

		int r = 0;
		if (i->line.len) {
			td_buf_add(&i->line, p, part);
			r = one_event(i, i->line.s, i->line.len);
			td_buf_reset(&i->line);
		} else if (part) {
			r = one_event(i, p, part);
		}

		if (r)
			return i->watch_code = r;
		p += part + 1;
		n -= part + 1;
	}
	return 0;
}

static int watch(struct td_informer *i, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_kube_path(&path, i->gvr, i->ns, NULL, NULL);
	td_buf_puts(&path, "?watch=1&allowWatchBookmarks=true&resourceVersion=");
	td_url_escape(&path, i->rv);
	// The timeout is random so that informers that started together do not all reconnect
	// together.
	td_buf_printf(&path, "&timeoutSeconds=%u", 300 + td_random_below(300));
	td_kube_selectors(&path, i->labels, i->fields);
	td_buf_reset(&i->line);
	i->watch_code = 0;
	i->watch_err = TD_ERROR_INIT;

	int r = td_kube_stream(i->kube, path.s, IDLE_MS, on_data, i, i->cancel, err);
	td_buf_reset(&i->line);
	// One giant object must not hold its memory for ever.
	if (i->line.cap > (1u << 20))
		td_buf_done(&i->line);

	if (i->watch_code) {
		*err = i->watch_err;
		return i->watch_code;
	}
	return r;
}

static void note(struct td_informer *i, const struct td_error *err)
{
	td_debug("informer of %s: %s: %s", i->gvr->resource, td_code_name(err->code), err->msg);
	pthread_mutex_lock(&i->lock);
	snprintf(i->last_error, sizeof(i->last_error), "%s", err->msg);
	pthread_mutex_unlock(&i->lock);
}

static int backoff(const struct td_informer *i, int failures, const struct td_error *err)
{
	int64_t ms = BACKOFF_MIN;
	for (int n = 1; n < failures && ms < BACKOFF_MAX; n++)
		ms *= 2;
	if (ms > BACKOFF_MAX)
		ms = BACKOFF_MAX;
	ms = ms / 2 + td_random_below((uint32_t)ms / 2 + 1);
	if (err->retry_after_ms > ms)
		ms = err->retry_after_ms + td_random_below(500);
	return td_cancel_wait(i->cancel, ms);
}

static void *run(void *arg)
{
	struct td_informer *i = arg;
	bool need_list = true;
	int failures = 0, stale = 0;
	while (!td_cancelled(i->cancel)) {
		struct td_error err = TD_ERROR_INIT;
		if (need_list) {
			if (relist(i, &stale, &err)) {
				if (td_cancelled(i->cancel))
					break;
				note(i, &err);
				backoff(i, ++failures, &err);
				continue;
			}
			need_list = false;
		}

		uint64_t before = i->events;
		int64_t start = td_mono_ms(&td_clock_system);
		int r = watch(i, &err);
		if (td_cancelled(i->cancel))
			break;
		if (r)
			note(i, &err);
		need_list = r == TD_EXPIRED || r == TD_INTERNAL || r == TD_INVALID || r == TD_NOT_FOUND ||
			    r == TD_UNSUPPORTED;
		// A watch that delivered something, or lasted 5 s, was healthy. Others must not
		// reconnect in a tight loop.
		if (i->events != before || td_mono_ms(&td_clock_system) - start > 5000)
			failures = 0;
		else
			failures++;
		if (failures && !(r == TD_EXPIRED && failures == 1))
			backoff(i, failures, &err);
	}
	return NULL;
}

int td_informer_start(struct td_informer *i, struct td_cancel *cancel, struct td_error *err)
{
	i->cancel = td_cancel_ref(cancel);
	int e = pthread_create(&i->thread, NULL, run, i);
	if (e)
		return td_fail_errno(err, TD_INTERNAL, e, "informer of %s: no thread", i->gvr->resource);
	i->started = true;
	if (!i->apart)
		td_health_informer(i, true);
	return 0;
}

int td_informers_wait(struct td_informer *const *v, size_t n, int64_t timeout_ms, struct td_cancel *cancel,
		      struct td_error *err)
{
	int64_t end = td_mono_ms(&td_clock_system) + timeout_ms;

	for (size_t k = 0; k < n; k++) {
		while (!td_informer_synced(v[k])) {
			int64_t left = end - td_mono_ms(&td_clock_system);
			if (td_cancelled(cancel))
				return td_fail(err, TD_CANCELLED, "cancelled while waiting for %s",
					       v[k]->gvr->resource);
			if (left <= 0) {
				struct td_informer *i = v[k];
				char why[sizeof(i->last_error)];
				pthread_mutex_lock(&i->lock);
				memcpy(why, i->last_error, sizeof(why));
				pthread_mutex_unlock(&i->lock);
				return td_fail(err, TD_TRANSIENT, "no list of %s after %lld ms: %s", i->gvr->resource,
					       (long long)timeout_ms, why[0] ? why : "the API has not answered");
			}
			struct pollfd p[2] = {{v[k]->synced_fd, POLLIN, 0}, {td_cancel_fd(cancel), POLLIN, 0}};
			poll(p, cancel ? 2 : 1, left > 60000 ? 60000 : (int)left);
		}
	}
	return 0;
}

int td_informers_fill(struct td_informer *const *v, size_t n, const char *meanwhile, struct td_cancel *cancel,
		      struct td_error *err)
{
	for (;;) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_informers_wait(v, n, 10000, cancel, &e);
		if (r != TD_TRANSIENT) {
			if (r && err)
				*err = e;
			return r;
		}
		td_warn("%s: %s", meanwhile, e.msg);
	}
}
