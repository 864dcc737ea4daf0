// ssh into a session: a WebSocket of its owner's, from which an sshd of his own is served that runs in the
// session's pod for this one connection (programs/session-ssh.sh). It is started by the API server's exec, so
// nothing listens in the pod, and every kind of session has it.
//
// The first message to the client is a text: the pod's host key, or "error: " and why there is none. Then
// bytes of ssh go both ways as they are. The client has made its key itself; that the gateway knows whose
// API key came with it is what authorises it, for this connection only.
#include "gateway/hub.h"
#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/embedded.h"
#include "base/log.h"
#include "kube/exec.h"
#include "slurm/conf.h"

#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { FIRST_MOST = 8192, WORDS_MOST = 2000, FIRST_MS = 60000, LINES_MOST = 32 };

struct ssh_line {
	struct td_ws *near;    // the client
	struct td_ws_far *far; // the program in the pod
	struct td_cancel *far_over, *near_over;
	struct td_buf first, words; // until the host key was said; what the program complains of
	bool said;
};

static void say(struct ssh_line *l, const char *words)
{
	td_ws_send(l->near, false, words, strlen(words), NULL);
	l->said = true;
}

// What the program says first. False: that is no host key.
static bool begin(struct ssh_line *l, const char *p, size_t n)
{
	static const char mark[] = "tandem-ssh ";
	td_buf_add(&l->first, p, n);
	char *text = l->first.s, *end = memchr(text, '\n', l->first.len);
	if (!end)
		return l->first.len < FIRST_MOST;
	*end = '\0';
	if (!td_starts(text, mark) || !td_slurm_is_public_key(text + strlen(mark)))
		return false;
	say(l, text + strlen(mark));
	td_ws_far_within(l->far, -1); // a session of ssh may be silent for as long as it likes
	size_t used = (size_t)(end + 1 - text), left = l->first.len - used;
	return !left || !td_ws_send(l->near, true, text + used, left, NULL);
}

static void complain(struct ssh_line *l, const char *p, size_t n)
{
	td_buf_add(&l->words, p, n < WORDS_MOST - l->words.len ? n : WORDS_MOST - l->words.len);
}

// From the pod to the client, until one of them has ended.
static void *down(void *arg)
{
	struct ssh_line *l = arg;
	td_auto_buf struct td_buf m = {0};
	bool binary, good = true;
	td_ws_far_within(l->far, FIRST_MS);
	while (good && !td_ws_far_recv(l->far, l->near_over, &m, &binary, NULL)) {
		int channel = m.len ? m.s[0] : TD_EXEC_OUT;
		size_t n = m.len ? m.len - 1 : 0;
		if (channel == TD_EXEC_STATUS)
			break;
		if (channel == TD_EXEC_ERR)
			complain(l, m.s + 1, n);
		else if (channel == TD_EXEC_OUT && n)
			good = l->said ? !td_ws_send(l->near, true, m.s + 1, n, NULL) : begin(l, m.s + 1, n);
		td_buf_reset(&m);
	}
	while (l->words.len && l->words.s[l->words.len - 1] == '\n')
		l->words.s[--l->words.len] = '\0';
	if (l->words.len || !l->said) {
		td_auto_free char *words = td_asprintf("error: %s", l->words.len ? td_buf_str(&l->words)
										 : "the session's pod did not answer");
		td_ws_send(l->near, false, words, strlen(words), NULL);
	}
	td_cancel_fire(l->far_over);
	return NULL;
}

// From the client to the pod.
static void up(struct ssh_line *l, struct td_gateway_ask *q)
{
	td_auto_buf struct td_buf m = {0};
	bool binary;
	for (;;) {
		td_buf_reset(&m);
		td_buf_putc(&m, TD_EXEC_IN);
		if (td_ws_recv(l->near, l->far_over, &m, &binary, NULL))
			return;
		td_session_touch(q->g->traffic, q->args[0]);
		if (td_ws_far_send(l->far, td_buf_str(&m), m.len, l->far_over, NULL))
			return;
	}
}

static int carry(struct td_gateway_ask *q, struct td_ws_far *far, struct td_error *err)
{
	static const char *const protocols[] = {"tandem-ssh", NULL};
	struct ssh_line l = {.far = far};
	pthread_t t;
	if (td_ws_accept(q->x, protocols, &l.near, NULL, err))
		return 0; // it has answered
	td_auto(td_cancel_unref) struct td_cancel *far_over = td_cancel_new(), *near_over = td_cancel_new();
	l.far_over = far_over;
	l.near_over = near_over;
	if (pthread_create(&t, NULL, down, &l)) {
		say(&l, "error: the gateway has no thread for it now");
	} else {
		up(&l, q);
		td_cancel_fire(near_over);
		pthread_join(t, NULL);
	}
	td_ws_far_close(far); // sshd reads the end, and ends
	td_ws_close(l.near, 1000);
	td_buf_done(&l.first);
	td_buf_done(&l.words);
	return 0;
}

static int connect_ssh(struct td_gateway_ask *q, struct td_error *err)
{
	const char *id = q->args[0], *key = td_http_header(q->x, "X-Tandem-Ssh-Key");
	td_auto(td_object_unref) struct td_object *o = NULL, *kept = NULL;
	td_auto(td_ws_far_free) struct td_ws_far *far = NULL;
	if (!q->key) // a browser would bring the cookie from any page
		return td_fail(err, TD_DENIED, "come with an API key, as `tandem ssh` does");
	if (!td_slurm_is_public_key(key))
		return td_fail(err, TD_INVALID, "X-Tandem-Ssh-Key: give a public key as it stands in a .pub file");
	int r = td_session_find(q, id, &o, err), passed;
	if (r == TD_NOT_FOUND && !(r = td_session_record_of(q, id, &kept, err)))
		return td_fail(err, TD_TRANSIENT, "session %s does not run: `tandem session resume %s`", id, id);
	// At a member of the federation, by its own gateway: this one only carries.
	if ((r == TD_NOT_FOUND || r == TD_UNSUPPORTED) && td_hub_session_pass(q, id, &passed, err))
		return passed;
	if (r)
		return r;
	const char *host = td_session_host(o);
	if (td_object_deleting(o) || (host ? !td_condition_true(o->root, "Ready")
					   : !td_jget(o->root, "status.containerStatuses.[0].state.running")))
		return td_fail(err, TD_TRANSIENT, "session %s does not run yet, or no more: `tandem session list`", id);
	td_session_touch(q->g->traffic, id);

	const struct td_embedded *f = td_embedded(td_gateway_files, "session-ssh.sh");
	const char *const argv[] = {"/bin/sh", "-c", f->text, "session-ssh", NULL};
	const struct td_kube_exec e = {.ns = o->ns, .pod = o->name, .container = "session", .argv = argv};
	td_auto_free char *line = td_asprintf("%c%s\n", TD_EXEC_IN + 1, key);
	line[0] = TD_EXEC_IN;
	if ((r = host ? td_session_host_ssh(q, o, f->text, &far, err)
		      : td_kube_exec(q->g->kube, &e, td_http_cancel(q->x), &far, err)) ||
	    (r = td_ws_far_send(far, line, strlen(key) + 2, td_http_cancel(q->x), err)))
		return td_wrap(err, "a program in the session's pod %s/%s", o->ns, o->name);
	td_info("ssh of %s into session %s", q->user.name, id);
	return carry(q, far, err);
}

int td_session_ssh(struct td_gateway_ask *q, struct td_error *err)
{
	int r = td_gateway_hold(q->g->limits, q->user.name, LINES_MOST, err);
	if (r)
		return r;
	r = connect_ssh(q, err);
	td_gateway_release(q->g->limits, q->user.name);
	return r;
}
