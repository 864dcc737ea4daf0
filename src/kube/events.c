// The recorder of Events: a bounded line of waiting notes, one thread that writes them, and a table
// of Events already written, so that a repetition raises a count.
#include "base/log.h"
#include "base/rand.h"
#include "kube/controller.h"
#include "metrics/metrics.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#define WAITING_MAX 1000
#define SAID_MAX 4096
#define SAME_MS (10 * 60 * 1000)
#define MESSAGE_MAX 1024 // the limit of core/v1

struct event_note {
	char *ns, *name, *uid, *rv, *api_version, *kind;
	char *type, *reason, *message;
	int64_t real;
	struct event_note *prev, *next;
};
struct said {
	char *key, *ns, *event;
	int count;
	int64_t at; // monotonic ms of the last repetition
	UT_hash_handle hh;
};
struct td_recorder {
	struct td_kube *k;
	char *component, *host;
	struct td_cancel *stop;
	int fd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; // guards line and n
	struct event_note *line;
	size_t n;
	struct said *said; // used by the thread only
};

static void note_free(struct event_note *n)
{
	free(n->ns);
	free(n->name);
	free(n->uid);
	free(n->rv);
	free(n->api_version);
	free(n->kind);
	free(n->type);
	free(n->reason);
	free(n->message);
	free(n);
}

static void said_free(struct td_recorder *r, struct said *s)
{
	HASH_DEL(r->said, s);
	free(s->key);
	free(s->ns);
	free(s->event);
	free(s);
}

static void counted(const char *type, const char *reason, const char *result)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_events_total",
				 "Events that this process had to tell, by reason; result: written, repeated (the "
				 "count of an earlier one was raised), failed, or dropped (too many waited).",
				 TD_LABELS("type", "reason", "result")),
		      1, TD_LABELS(type, reason, result));
}

// The table is in order of first use, so the oldest entries go first.
static void trim(struct td_recorder *r, int64_t now)
{
	struct said *s, *tmp;
	HASH_ITER (hh, r->said, s, tmp) {
		if (HASH_COUNT(r->said) < SAID_MAX && now - s->at < SAME_MS)
			break;
		said_free(r, s);
	}
}

static int repeat(struct td_recorder *r, struct said *s, const struct event_note *n)
{
	char t[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_int(d, o, "count", s->count + 1);
	td_jm_str(d, o, "lastTimestamp", td_time_format(n->real, t));
	return td_kube_patch(r->k, TD_AT(&td_events, s->ns, s->event), TD_PATCH_MERGE, o, r->stop, NULL, NULL);
}

static void publish(struct td_recorder *r, const struct event_note *n)
{
	int64_t now = td_mono_ms(&td_clock_system);
	td_auto_free char *key =
		td_asprintf("%s/%s/%s\x1f%s\x1f%s\x1f%s", n->ns, n->name, n->uid, n->type, n->reason, n->message);
	struct said *s = NULL;
	HASH_FIND_STR(r->said, key, s);
	if (s && now - s->at < SAME_MS && repeat(r, s, n) == 0) {
		s->count++;
		s->at = now;
		counted(n->type, n->reason, "repeated");
		return;
	}

	// The Event is gone on the server, or too old: write a new one.
	if (s)
		said_free(r, s);

	const char *ns = *n->ns ? n->ns : "default";
	char t[TD_TIME_LEN];
	uint64_t id;
	td_random(&id, sizeof(id));
	td_auto_free char *event = td_asprintf("%.230s.%016llx", n->name, (unsigned long long)id);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "Event");
	td_jm_str(d, o, "metadata.name", event);
	td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_str(d, o, "involvedObject.apiVersion", n->api_version);
	td_jm_str(d, o, "involvedObject.kind", n->kind);
	if (*n->ns)
		td_jm_str(d, o, "involvedObject.namespace", n->ns);
	td_jm_str(d, o, "involvedObject.name", n->name);
	td_jm_str(d, o, "involvedObject.uid", n->uid);
	td_jm_str(d, o, "involvedObject.resourceVersion", n->rv);
	td_jm_str(d, o, "type", n->type);
	td_jm_str(d, o, "reason", n->reason);
	td_jm_str(d, o, "message", n->message);

	td_jm_str(d, o, "firstTimestamp", td_time_format(n->real, t));
	td_jm_str(d, o, "lastTimestamp", t);
	td_jm_int(d, o, "count", 1);
	td_jm_str(d, o, "source.component", r->component);
	td_jm_str(d, o, "reportingComponent", r->component);
	td_jm_str(d, o, "reportingInstance", r->host);

	struct td_error err = TD_ERROR_INIT;
	int e = td_kube_create(r->k, &td_events, ns, o, r->stop, NULL, &err);
	if (e == TD_TRANSIENT || e == TD_THROTTLED) {
		// The write is surely not done, so one retry cannot write it twice.
		if (td_cancel_wait(r->stop, err.retry_after_ms ? err.retry_after_ms : 500))
			return;
		e = td_kube_create(r->k, &td_events, ns, o, r->stop, NULL, &err);
	}
	if (e) {
		counted(n->type, n->reason, "failed");
		td_debug("event %s of %s/%s was not written: %s", n->reason, n->ns, n->name, err.msg);
		return;
	}

	counted(n->type, n->reason, "written");
	trim(r, now);
	s = td_calloc(1, sizeof(*s));
	s->key = td_steal(key);
	s->ns = td_strdup(ns);
	s->event = td_steal(event);
	s->count = 1;
	s->at = now;
	HASH_ADD_KEYPTR(hh, r->said, s->key, strlen(s->key), s);
}

static void *run(void *arg)
{
	struct td_recorder *r = arg;
	while (!td_cancelled(r->stop)) {
		pthread_mutex_lock(&r->lock);
		struct event_note *n = r->line;
		if (n) {
			DL_DELETE(r->line, n);
			r->n--;
		}
		pthread_mutex_unlock(&r->lock);
		if (n) {
			publish(r, n);
			note_free(n);
			continue;
		}

		struct pollfd p[2] = {{r->fd, POLLIN, 0}, {td_cancel_fd(r->stop), POLLIN, 0}};
		poll(p, 2, -1);
		uint64_t v;
		if (p[0].revents)
			(void)!read(r->fd, &v, sizeof(v));
	}
	return NULL;
}

struct td_recorder *td_recorder_new(struct td_kube *k, const char *component)
{
	struct td_recorder *r = td_calloc(1, sizeof(*r));
	char host[256] = "";
	gethostname(host, sizeof(host) - 1);
	r->k = k;
	r->component = td_strdup(component);
	r->host = td_asprintf("%s-%s", component, host);
	r->stop = td_cancel_new();
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->fd < 0)
		abort();

	pthread_mutex_init(&r->lock, NULL);
	r->started = pthread_create(&r->thread, NULL, run, r) == 0;
	return r;
}

struct td_recorder *td_recorder_free(struct td_recorder *r)
{
	if (!r)
		return NULL;
	td_cancel_fire(r->stop);
	if (r->started)
		pthread_join(r->thread, NULL);

	struct event_note *n, *tmp;
	DL_FOREACH_SAFE(r->line, n, tmp)
	{
		DL_DELETE(r->line, n);
		note_free(n);
	}

	struct said *s, *next;
	HASH_ITER (hh, r->said, s, next)
		said_free(r, s);

	td_cancel_unref(r->stop);
	close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r->component);
	free(r->host);
	free(r);
	return NULL;
}

void td_kube_record(struct td_recorder *r, const struct td_about *about, const char *type, const char *reason,
		    const char *fmt, ...)
{
	if (!r || !r->started)
		return;
	struct event_note *n = td_calloc(1, sizeof(*n));

	va_list ap;
	va_start(ap, fmt);
	n->message = td_vasprintf(fmt, ap);
	va_end(ap);

	if (strlen(n->message) > MESSAGE_MAX)
		strcpy(n->message + MESSAGE_MAX - 3, "...");
	n->ns = td_strdup(about->object->ns);
	n->name = td_strdup(about->object->name);
	n->uid = td_strdup(about->object->uid);
	n->rv = td_strdup(about->object->rv);
	n->api_version = *about->gvr->group ? td_asprintf("%s/%s", about->gvr->group, about->gvr->version)
					    : td_strdup(about->gvr->version);
	n->kind = td_strdup(about->gvr->kind);
	n->type = td_strdup(type);
	n->reason = td_strdup(reason);
	n->real = td_real_ms(&td_clock_system);

	bool full;
	pthread_mutex_lock(&r->lock);
	full = r->n >= WAITING_MAX;
	if (!full) {
		DL_APPEND(r->line, n);
		r->n++;
	}
	pthread_mutex_unlock(&r->lock);

	if (full) {
		counted(type, reason, "dropped");
		note_free(n);
		return;
	}

	uint64_t one = 1;
	(void)!write(r->fd, &one, sizeof(one));
}
