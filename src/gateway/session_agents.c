// What the agents of nodes say, on clusters. Where an agent is says the API: the pod of Tandem's that runs on the node,
// in a namespace where only administrators make pods. That is looked up again each minute, because an address may become
// somebody else's. The agent is asked for its metrics, as Prometheus asks; no credentials go there.
//
// What somebody could do who answers in its place is to say that sessions of that node do nothing: he would have to
// for as long as the rule says, and they are ended, and can be resumed.
#include "gateway/sessions.h"

#include "base/log.h"
#include "base/names.h"
#include "base/together.h"
#include "http/client.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

enum {
	ROUND_MS = 1000,
	ASKED_MOST = 32,    // in a round, side by side
	ASK_MS = 15000,     // how often each is asked
	WANTED_MS = 300000, // how long after it was last wanted
	WHERE_MS = 60000,   // how long an address holds
	CALL_MS = 3000,
	REPLY_MAX = 4 << 20,
	PORT = 7480,
};

struct agent {
	char node[254], where[80];             // where: URL; "": not known
	int64_t wanted_ms, asked_ms, where_ms; // monotonic; asked_ms 0: never
	struct td_session_said said;
	UT_hash_handle hh;
};

struct td_session_agents {
	pthread_mutex_t lock; // guards the rest; not held while somebody is asked
	struct agent *all;
};

struct td_session_agents *td_session_agents_new(void)
{
	struct td_session_agents *a = td_calloc(1, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

static void forget(struct td_session_agents *a, struct agent *k)
{
	HASH_DEL(a->all, k);
	td_session_said_done(&k->said);
	free(k);
}

struct td_session_agents *td_session_agents_free(struct td_session_agents *a)
{
	struct agent *k, *next;
	if (!a)
		return NULL;
	HASH_ITER (hh, a->all, k, next)
		forget(a, k);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}

void td_session_said_done(struct td_session_said *s)
{
	td_buf_done(&s->text);
}

void td_session_agents_said(struct td_session_agents *a, const char *node, struct td_session_said *ret)
{
	struct agent *k = NULL;
	pthread_mutex_lock(&a->lock);
	HASH_FIND_STR(a->all, node, k);
	if (!k) {
		k = td_calloc(1, sizeof(*k));
		snprintf(k->node, sizeof(k->node), "%s", node);
		HASH_ADD_STR(a->all, node, k);
	}
	k->wanted_ms = td_mono_ms(&td_clock_system);
	td_buf_add(&ret->text, td_buf_str(&k->said.text), k->said.text.len);
	memcpy(ret->why, k->said.why, sizeof(ret->why));
	ret->at_ms = k->said.at_ms;
	pthread_mutex_unlock(&a->lock);
}

void td_session_agents_keep(const char *metrics, struct td_buf *ret)
{
	static const char *const kept[] = {"tandem_agent_pod_cpu_seconds_total{", "tandem_device_holder{",
					   "tandem_device_use_ratio{", "tandem_agent_pod_gpu_use_ratio{"};
	for (const char *p = metrics, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		for (size_t i = 0; i < TD_LEN(kept); i++)
			if (td_starts(p, kept[i])) {
				td_buf_add(ret, p, (size_t)(end - p));
				td_buf_putc(ret, '\n');
			}
	}
}

// ---- one ask ----

struct round {
	struct td_gateway *g;
	struct agent v[ASKED_MOST]; // copies; `said` is what comes
	size_t n;
};

static int find_agent(struct td_gateway *g, struct agent *k, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *on = td_asprintf("spec.nodeName=%s", k->node);
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(g->kube, &td_pods, g->o.agents, TD_LABEL_NAME "=tandem-agent", on, c, &l, err);
	if (r)
		return td_wrap(err, "where Tandem's agent of node %s is", k->node);
	for (size_t i = 0; i < l.n; i++) {
		const char *ip = td_jstr(l.v[i]->root, "status.podIP");
		if (!ip || td_object_deleting(l.v[i]) || !td_streq(td_jstr(l.v[i]->root, "status.phase"), "Running"))
			continue;
		snprintf(k->where, sizeof(k->where), strchr(ip, ':') ? "http://[%s]:%d" : "http://%s:%d", ip, PORT);
		k->where_ms = td_mono_ms(&td_clock_system);
		return 0;
	}
	return td_fail(err, TD_NOT_FOUND, "no agent of Tandem's runs on node %s (namespace %s)", k->node, g->o.agents);
}

static int ask(void *ctx, size_t i, struct td_cancel *stop)
{
	struct round *round = ctx;
	struct agent *k = &round->v[i];
	struct td_error e = TD_ERROR_INIT;
	const struct td_http_call call = {
		.method = "GET", .path = "/metrics", .accept = "text/plain", .max_body = REPLY_MAX};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	td_auto_reply struct td_http_reply reply = {0};
	int r = *k->where ? 0 : find_agent(round->g, k, stop, &e);
	const struct td_http_client_opts o = {.base_url = k->where, .timeout_ms = CALL_MS};
	if (!r) {
		r = td_http_client_new(&o, &c, &e);
		if (!r)
			r = td_http_do(c, &call, stop, &reply, &e);
		if (!r && reply.status != 200)
			r = td_fail(&e, TD_TRANSIENT, "it answers %d", reply.status);
		if (r) {
			td_debug("the agent of node %s at %s: %s", k->node, k->where, e.msg);
			td_fail(&e, r, "the agent of node %s does not answer",
				k->node); // where it is is nobody's business
		}
	}
	if (r) {
		k->where[0] = '\0';
		snprintf(k->said.why, sizeof(k->said.why), "%s", e.msg);
	} else {
		td_session_agents_keep(td_buf_str(&reply.body), &k->said.text);
	}
	k->said.at_ms = td_real_ms(&td_clock_system);
	return r;
}

// ---- the thread ----

// Those that are due, the one first that waits for longest.
static void choose(struct td_session_agents *a, struct round *round)
{
	struct agent *k, *next;
	int64_t now = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&a->lock);
	HASH_ITER (hh, a->all, k, next)
		if (now - k->wanted_ms > WANTED_MS)
			forget(a, k);
	while (round->n < ASKED_MOST) {
		struct agent *due = NULL;
		for (k = a->all; k; k = k->hh.next)
			if ((!k->asked_ms || now - k->asked_ms >= ASK_MS) && (!due || k->asked_ms < due->asked_ms))
				due = k;
		if (!due)
			break;
		due->asked_ms = now;
		if (now - due->where_ms > WHERE_MS)
			due->where[0] = '\0';
		round->v[round->n] = *due;
		round->v[round->n++].said = (struct td_session_said){0};
	}
	pthread_mutex_unlock(&a->lock);
}

static void keep(struct td_session_agents *a, struct round *round)
{
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < round->n; i++) {
		struct agent *v = &round->v[i], *k = NULL;
		HASH_FIND_STR(a->all, v->node, k);
		if (!k) {
			td_session_said_done(&v->said);
			continue;
		}
		td_session_said_done(&k->said);
		k->said = v->said;
		k->where_ms = v->where_ms;
		memcpy(k->where, v->where, sizeof(k->where));
	}
	pthread_mutex_unlock(&a->lock);
}

void *td_session_agents_thread(void *gateway)
{
	struct td_gateway *g = gateway;
	while (!td_cancel_wait(g->cancel, ROUND_MS)) {
		struct round *round = td_calloc(1, sizeof(*round));
		round->g = g;
		choose(g->agents, round);
		td_together(&(const struct td_together){.call = ask, .ctx = round, .n = round->n}, g->cancel);
		keep(g->agents, round);
		free(round);
	}
	return NULL;
}
