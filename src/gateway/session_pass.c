// The proxy in front of sessions.
#include "gateway/hub.h"
#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/names.h"
#include "metrics/metrics.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

// How long a connection may take. NEXT_S: while there are others to ask; DIALS_MS: then no further one is tried.
enum { DIAL_S = 5, NEXT_S = 2, DIALS_MS = 10000 };

struct heard {
	struct td_session_traffic *traffic;
	const char *id;
};

static void heard(void *ctx)
{
	const struct heard *h = ctx;
	td_session_touch(h->traffic, h->id);
}

// A browser sends the cookie to this host whatever page made it ask, also one of another port. So
// what can change something, and a WebSocket, must come from a page of ours, where the browser says
// whence it comes.
int td_session_from_us(struct td_gateway_ask *q, struct td_error *err)
{
	const char *origin = td_http_header(q->x, "Origin"), *host = td_http_header(q->x, "Host");
	const char *from = origin ? strstr(origin, "://") : NULL;
	bool reads = !strcmp(td_http_method(q->x), "GET") || !strcmp(td_http_method(q->x), "HEAD");
	if (q->key || !origin || (reads && !td_http_header(q->x, "Upgrade")) ||
	    (from && host && !strcmp(from + 3, host)))
		return 0;
	return td_fail(err, TD_DENIED, "this does not come from a page of this address (Origin)");
}

static void send_terminal(struct td_http_x *x)
{
	const struct td_embedded *f = td_embedded(td_gateway_files, "terminal.html");
	td_http_add_header(x, "Cache-Control", "no-store");
	td_http_send(x, 200, "text/html; charset=utf-8", f->text, f->len);
}

// One that was ended by the rules keeps its address: a person is led to where it is resumed.
static int absent(struct td_gateway_ask *q, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *kept = NULL;
	const char *accept = td_http_header(q->x, "Accept");
	int r = td_session_record_of(q, name, &kept, err);
	if (r)
		return r;
	if (!strcmp(td_http_method(q->x), "GET") && accept && strstr(accept, "text/html")) {
		td_http_add_header(q->x, "Location", "/#sessions");
		td_http_add_header(q->x, "Cache-Control", "no-store");
		td_http_send(q->x, 302, "text/plain", "", 0);
		return 0;
	}
	return td_fail(err, TD_TRANSIENT, "session %s does not run: `tandem session resume %s`", name, name);
}

// A WebSocket is no request that is answered, so nobody measures it. fd: the connection; -1: it was not reached.
static void pass(struct td_gateway_ask *q, int fd, const struct td_http_far *far, const char *name, bool measured)
{
	if (!measured) {
		td_http_relay_on(q->x, fd, far);
		return;
	}
	struct td_metrics *m = td_metrics_process();
	struct td_metric *waits = td_gauge(m, "tandem_gateway_endpoint_requests_in_flight",
					   "Requests to endpoints of people that are not answered yet.", NULL),
			 *took = td_histogram(m, "tandem_gateway_endpoint_request_duration_seconds",
					      "From a request to an endpoint to the end of its answer.", NULL, NULL, 0);
	int64_t began = td_mono_ms(&td_clock_system);
	uint64_t life = td_session_asked(q->g->traffic, name);
	td_metric_add(waits, 1, NULL);
	td_http_relay_on(q->x, fd, far);
	int64_t ms = td_mono_ms(&td_clock_system) - began;
	td_session_answered(q->g->traffic, name, life, ms);
	td_metric_add(waits, -1, NULL);
	td_metric_observe(took, (double)ms / 1000, NULL);
}

static bool answers(const struct td_object *o)
{
	return !td_object_deleting(o) && td_condition_true(o->root, "Ready");
}

// Where a session's pod answers; NULL: it does not, or not yet.
static const char *address_of(const struct td_object *o)
{
	const char *ip = td_jstr(o->root, "status.podIP");
	struct in_addr a;
	return answers(o) && ip && inet_pton(AF_INET, ip, &a) == 1 ? ip : NULL;
}

// One in another cluster or on a machine has no address here (session_other.c).
static bool by_line(const struct td_object *o)
{
	return td_session_other(o) || td_session_host(o);
}

static bool is_reached(const struct td_object *o)
{
	return by_line(o) ? answers(o) : address_of(o) != NULL;
}

// Connects to it. *ret_fd -1: it takes no connection; the line, if there is one, is closed after that.
static int reach(struct td_gateway_ask *q, const struct td_object *o, const struct td_http_far *far, int timeout_s,
		 struct td_session_line **ret_line, int *ret_fd, struct td_error *err)
{
	*ret_line = NULL;
	*ret_fd = -1;
	if (by_line(o))
		return td_session_line_open(q, o, ret_line, ret_fd, err);
	*ret_fd = td_http_far_dial(far->ip, far->port, timeout_s);
	return 0;
}

static int silent(const char *name, struct td_error *err)
{
	return td_fail(err, TD_TRANSIENT, "session %s does not answer yet, or no more: `tandem session list`", name);
}

// One with replicas: the request goes to the one that has the fewest. When that one takes no connection, nothing was
// sent, and another gets it.
static int pass_to_one(struct td_gateway_ask *q, const struct td_object *record, const char *path, struct td_error *err)
{
	const char *uids[TD_REPLICAS_MOST] = {0}, *name = td_object_label(record, TD_LABEL_SESSION);
	td_auto_set struct td_session_set s = {0};
	int r = td_session_set_find(q->g, record, td_http_cancel(q->x), &s, err), left = 0;
	if (r)
		return r;
	for (int i = 0; i < s.asked; i++)
		if (s.pods[i] && is_reached(s.pods[i]) && td_session_kind_of(s.pods[i])->measured) {
			uids[i] = s.pods[i]->uid;
			left++;
		}
	td_session_touch(q->g->traffic, name);
	struct heard h = {q->g->traffic, name};
	const int64_t end = td_mono_ms(&td_clock_system) + DIALS_MS;
	for (int k; (k = td_session_ways_take(q->g->ways, uids, s.asked)) >= 0; left--) {
		const char *uid = uids[k];
		const struct td_http_far far = {.ip = address_of(s.pods[k]),
						.port = (int)td_session_number(s.pods[k], TD_ANN_SESSION_PORT),
						.target = path,
						.hide = "tandem",
						.heard = heard,
						.ctx = &h};
		struct td_session_line *line;
		struct td_error e = TD_ERROR_INIT;
		int fd;
		if (reach(q, s.pods[k], &far, left > 1 ? NEXT_S : DIAL_S, &line, &fd, &e) == TD_THROTTLED) {
			td_session_ways_release(q->g->ways, uid); // he has too many, whichever replica it is
			return td_fail(err, TD_THROTTLED, "%s", e.msg);
		}
		td_session_ways_reached(q->g->ways, uid, fd >= 0);
		if (fd >= 0)
			pass(q, fd, &far, name, !td_http_header(q->x, "Upgrade"));
		td_session_line_close(line);
		td_session_ways_release(q->g->ways, uid);
		if (fd >= 0) {
			td_session_touch(q->g->traffic, name);
			return 0;
		}
		uids[k] = NULL;
		if (td_mono_ms(&td_clock_system) >= end)
			break;
	}
	return silent(name, err);
}

int td_session_pass(struct td_gateway_ask *q, struct td_error *err)
{
	const char *target = td_http_target(q->x), *id = target + strlen("/s/");
	if (!td_starts(target, "/s/"))
		return td_fail(err, TD_NOT_FOUND, "there is no such session");
	size_t n = strcspn(id, "/?");
	td_auto_free char *name = td_strndup(id, n);
	td_auto(td_object_unref) struct td_object *o = NULL, *record = NULL;
	struct td_error none = TD_ERROR_INIT;
	int r = td_session_find(q, name, &o, err), known = TD_NOT_FOUND;
	// Only endpoints have replicas, and the first of these may be away.
	if (r == TD_NOT_FOUND || (!r && td_session_kind_of(o)->measured))
		known = td_session_record_of(q, name, &record, &none);
	int passed;
	if ((r == TD_NOT_FOUND || r == TD_UNSUPPORTED) && known && td_hub_session_pass(q, name, &passed, err))
		return passed;
	if (known && known != TD_NOT_FOUND) // it is not known who may be asked
		return td_fail(err, known, "%s", none.msg);
	bool several = td_session_replicas(record) && !td_jstr(record->root, "data.ended");
	if (r == TD_NOT_FOUND && !several)
		return absent(q, name, err);
	if (r == TD_NOT_FOUND)
		r = 0;
	if (!r)
		r = td_session_from_us(q, err);
	if (r)
		return r;
	const struct td_session_kind *kind = several ? td_session_kind("endpoint") : td_session_kind_of(o);
	if (!kind->served)
		return td_fail(err, TD_NOT_FOUND, "session %s is a %s: it has no page", name, kind->name);
	if (id[n] != '/') { // links of a page are relative to its directory
		td_auto_free char *to = td_asprintf("/s/%s/%s", name, id + n);
		td_http_add_header(q->x, "Location", to);
		td_http_send(q->x, 302, "text/plain", "", 0);
		return 0;
	}
	if (several)
		return pass_to_one(q, record, id + n, err);
	const char *path = id + n, *token = td_session_token(o);
	if (!is_reached(o))
		return silent(name, err);
	td_session_touch(q->g->traffic, name);
	if (kind->terminal && strcmp(path, "/tty") != 0) {
		if (path[1] && path[1] != '?')
			return td_fail(err, TD_NOT_FOUND, "a terminal has nothing at %.40s", path);
		send_terminal(q->x);
		return 0;
	}
	td_auto_free char *proof = kind->token && token ? td_asprintf("token %s", token) : NULL;
	struct heard h = {q->g->traffic, name};
	const struct td_http_far far = {.ip = address_of(o),
					.port = (int)td_session_number(o, TD_ANN_SESSION_PORT),
					.target = kind->whole ? target : path,
					.hide = "tandem",
					.authorization = proof,
					.heard = heard,
					.ctx = &h};
	bool measured = kind->measured && !td_http_header(q->x, "Upgrade");
	struct td_session_line *line;
	int fd;
	if (!(r = reach(q, o, &far, DIAL_S, &line, &fd, err)))
		pass(q, fd, &far, name, measured);
	td_session_line_close(line);
	td_session_touch(q->g->traffic, name);
	return r;
}
