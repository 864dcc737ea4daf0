// The ways to sessions on machines that serve HTTP: for each session and gateway one step of its job, which carries all
// its requests (lines.h). A way stays for a minute after its last request, because a page makes a hundred of them.
#include "gateway/sessions.h"

#include "base/clock.h"
#include "base/names.h"
#include "gateway/lines.h"
#include "kube/exec.h"
#include "standin/lines.h"

#include <string.h>

enum { IDLE_MS = 60000, LOOK_MS = 50 };

struct session_road {
	struct session_road *next;
	char *key;              // whose, and of which job
	struct td_lines *lines; // NULL: it is being made
	struct td_ws_far *step; // the lines', from when there are some
	struct td_gateway_limits *limits;
	int users;       // that have it, or make it
	int64_t idle_ms; // mono, since when nobody does
};
struct td_session_lines {
	pthread_mutex_t lock; // guards the rest
	struct session_road *first;
};
struct td_session_via {
	struct td_session_lines *all;
	struct session_road *way;
	struct td_line_one *one;
};

struct td_session_lines *td_session_lines_new(void)
{
	struct td_session_lines *s = td_calloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void way_free(struct session_road *w)
{
	td_lines_free(w->lines);
	free(w->key);
	free(w);
}

// Takes out those that nobody has: all, or those of long ago and those that are over.
static void sweep(struct td_session_lines *s, bool all)
{
	struct session_road *out = NULL;
	int64_t now = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&s->lock);
	for (struct session_road **p = &s->first; *p;) {
		struct session_road *w = *p;
		if (w->users || !(all || !w->lines || now - w->idle_ms >= IDLE_MS || td_lines_over(w->lines))) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		w->next = out;
		out = w;
	}
	pthread_mutex_unlock(&s->lock);
	for (struct session_road *w; (w = out);) {
		out = w->next;
		way_free(w);
	}
}

void td_session_lines_sweep(struct td_session_lines *s)
{
	sweep(s, false);
}

struct td_session_lines *td_session_lines_free(struct td_session_lines *s)
{
	if (!s)
		return NULL;
	sweep(s, true);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static int way_send(void *ctx, const void *p, size_t n, struct td_cancel *c, struct td_error *err)
{
	char m[1 + LINES_HEAD + LINES_PIECE] = {TD_EXEC_IN};
	if (n > sizeof(m) - 1)
		return td_fail(err, TD_INTERNAL, "a frame of %zu bytes", n);
	memcpy(m + 1, p, n);
	const struct session_road *w = ctx;
	return td_ws_far_send(w->step, m, n + 1, c, err);
}

static int way_recv(void *ctx, struct td_cancel *c, struct td_buf *ret, struct td_error *err)
{
	const struct session_road *w = ctx;
	return td_session_host_recv(w->step, w->limits, w->key, c, ret, err);
}

static void way_done(void *ctx)
{
	struct session_road *w = ctx;
	td_ws_far_close(w->step);
	w->step = td_ws_far_free(w->step);
}

static struct session_road *way_of(struct td_session_lines *s, const char *key)
{
	for (struct session_road *w = s->first; w; w = w->next)
		if (!strcmp(w->key, key) && (!w->lines ? w->users : !td_lines_over(w->lines)))
			return w;
	return NULL;
}

static void leave(struct td_session_lines *s, struct session_road *w)
{
	pthread_mutex_lock(&s->lock);
	w->users--;
	w->idle_ms = td_mono_ms(&td_clock_system);
	pthread_mutex_unlock(&s->lock);
}

// Its way, which is made where there is none. *ret_new: it was.
static int way_take(struct td_gateway_ask *q, const struct td_object *pod, struct session_road **ret, bool *ret_new,
		    struct td_error *err)
{
	struct td_session_lines *s = q->g->lines;
	td_auto_free char *key =
		td_asprintf("%s/%s/%lld", q->user.name, pod->uid, (long long)td_session_number(pod, TD_ANN_JOB));
	struct session_road *w;
	for (;;) {
		pthread_mutex_lock(&s->lock);
		w = way_of(s, key);
		bool made = w && !w->lines; // by somebody else, now
		*ret_new = !w;
		if (!w) {
			w = td_calloc(1, sizeof(*w));
			*w = (struct session_road){.next = s->first, .key = td_steal(key), .limits = q->g->limits};
			s->first = w;
		}
		w->users += !made;
		pthread_mutex_unlock(&s->lock);
		if (!made)
			break;
		if (td_cancel_wait(td_http_cancel(q->x), LOOK_MS))
			return td_fail(err, TD_CANCELLED, "nobody waits any more");
	}
	*ret = w;
	if (!*ret_new)
		return 0;
	int r = td_session_host_dial(q, pod, "lines", &w->step, err);
	const struct td_lines_way way = {.ctx = w, .send = way_send, .recv = way_recv, .done = way_done};
	struct td_lines *l = r ? NULL : td_lines_new(&way);
	if (!r && !l)
		r = td_fail(err, TD_TRANSIENT, "the gateway has no thread for it now");
	pthread_mutex_lock(&s->lock);
	w->lines = l;
	pthread_mutex_unlock(&s->lock);
	if (r)
		leave(s, w);
	return r;
}

int td_session_via_open(struct td_gateway_ask *q, const struct td_object *pod, struct td_session_via **ret, int *ret_fd,
			struct td_error *err)
{
	struct td_session_via via = {.all = q->g->lines};
	bool made = false;
	int r;
	do { // one that was there may end at this moment
		r = way_take(q, pod, &via.way, &made, err);
		if (r)
			return r;
		r = td_lines_open(via.way->lines, td_http_cancel(q->x), &via.one, ret_fd, err);
		if (!r)
			break;
		bool over = td_lines_over(via.way->lines);
		leave(via.all, via.way);
		if (!over || made)
			break;
	} while (r == TD_TRANSIENT);
	if (r)
		return td_wrap(err, "session %s does not answer yet, or no more",
			       td_object_label(pod, TD_LABEL_SESSION));
	*ret = td_malloc(sizeof(via));
	**ret = via;
	return 0;
}

struct td_session_via *td_session_via_close(struct td_session_via *v)
{
	if (!v)
		return NULL;
	td_line_one_close(v->one);
	leave(v->all, v->way);
	free(v);
	return NULL;
}
