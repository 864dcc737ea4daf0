// What sessions on machines without a kubelet use: one step of the session's job for each and gateway (`tandem-standin
// uses`), which tells it every 15 s. It runs while the session's figures are wanted, because a rule ends who does nothing.
//
// The step is the session's owner's, who could make it say anything of his own session, as he could compute for nothing.
// Of nobody else's: Slurm lets him into no other job, and nothing that listens there is asked.
#include "gateway/sessions.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "http/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, WANTED_MS = 60000, SILENT_MS = 60000, AGAIN_MS = 30000, LINE_MOST = 4096 };

struct measure {
	struct measure *next;
	struct td_session_measures *all;
	struct td_gateway *g;
	struct td_object *pod; // what stands for it
	struct td_cancel *stop;
	pthread_t thread;
	bool over;                      // the thread is done
	int64_t wanted_ms, over_ms;     // mono
	struct td_session_figures said; // cpu, gpu, why, at_ms of the last lines
	struct td_session_each each;    // (its thread's) of each machine
	char key[300];                  // whose, and of which job
};
struct td_session_measures {
	pthread_mutex_t lock; // guards the list, and over, wanted_ms, over_ms and said of each
	struct measure *first;
	int n;
};

struct td_session_measures *td_session_measures_new(void)
{
	struct td_session_measures *s = td_calloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

bool td_session_measure_read(const char *line, struct td_session_figures *f)
{
	char node[256];
	double cpu;
	int gpu, end = 0;
	if (sscanf(line, "%255s %lf %d%n", node, &cpu, &gpu, &end) != 3 || line[end] || !(cpu >= -1 && cpu < 1e12) ||
	    gpu < -2 || gpu > 100)
		return false;
	f->cpu = cpu < 0 ? -1 : cpu;
	f->gpu = gpu < 0 ? -1 : gpu / 100.0;
	f->why[0] = '\0';
	return true;
}

bool td_session_each_take(struct td_session_each *e, int nodes, const char *line, int64_t at_ms,
			  struct td_session_figures *ret)
{
	struct td_session_figures f = {.at_ms = at_ms}, all = {.at_ms = at_ms};
	int i = 0;
	size_t n = strcspn(line, " ");
	if (n >= sizeof(e->v[0].node) || !td_session_measure_read(line, &f))
		return false;
	while (i < e->n && (strlen(e->v[i].node) != n || strncmp(e->v[i].node, line, n) != 0))
		i++;
	if (i == e->n) {
		if (e->n >= nodes || e->n >= TD_SESSION_EACH_MOST)
			return false;
		snprintf(e->v[e->n++].node, sizeof(e->v[0].node), "%.*s", (int)n, line);
	}
	e->v[i].f = f;
	if (e->n < nodes)
		return false;
	for (i = 0; i < e->n; i++) {
		const struct td_session_figures *o = &e->v[i].f;
		all.cpu = o->cpu < 0 || all.cpu < 0 ? -1 : all.cpu + o->cpu;
		all.gpu = o->gpu < 0 || all.gpu < 0 ? -1 : o->gpu > all.gpu ? o->gpu : all.gpu;
		all.at_ms = o->at_ms < all.at_ms ? o->at_ms : all.at_ms; // a part of them would be a wrong rate
	}
	*ret = all;
	return true;
}

// What came, line by line; what is no line of it is left out.
static void take(struct measure *m, struct td_buf *text)
{
	char *s = text->s, *end;
	for (; s && (end = strchr(s, '\n')); s = end + 1) {
		struct td_session_figures f;
		*end = '\0';
		if (!td_session_each_take(&m->each, td_session_host_nodes(m->pod), s, td_real_ms(&td_clock_system), &f))
			continue;
		pthread_mutex_lock(&m->all->lock);
		m->said = f;
		pthread_mutex_unlock(&m->all->lock);
	}
	size_t left = s ? strlen(s) : 0;
	if (left && left < LINE_MOST)
		memmove(text->s, s, left);
	text->len = left < LINE_MOST ? left : 0;
	if (text->s)
		text->s[text->len] = '\0';
}

static int listen_to(struct measure *m, struct td_error *err)
{
	struct td_gateway_ask q = {.g = m->g, .stop = m->stop};
	td_auto_user struct td_gateway_user u = {0};
	td_auto(td_ws_far_free) struct td_ws_far *far = NULL;
	td_auto_buf struct td_buf text = {0};
	int r = td_gateway_user(m->g, td_object_annotation(m->pod, TD_ANN_SESSION_OWNER), &u, err);
	q.user = u;
	if (!r)
		r = td_session_host_uses(&q, m->pod, &far, err);
	while (!r) {
		td_ws_far_within(far, SILENT_MS);
		r = td_session_host_recv(far, m->g->limits, m->key, m->stop, &text, err);
		if (!r)
			take(m, &text);
	}
	if (far)
		td_ws_far_close(far);
	return r;
}

static void *measure_thread(void *arg)
{
	struct measure *m = arg;
	struct td_error e = TD_ERROR_INIT;
	listen_to(m, &e);
	pthread_mutex_lock(&m->all->lock);
	m->over = true;
	m->over_ms = td_mono_ms(&td_clock_system);
	m->said = (struct td_session_figures){.cpu = -1, .gpu = -1, .at_ms = td_real_ms(&td_clock_system)};
	snprintf(m->said.why, sizeof(m->said.why), "what it uses: %s", e.msg);
	pthread_mutex_unlock(&m->all->lock);
	return NULL;
}

// Ends those that nobody has wanted for a while, or all; and forgets those that are over, so that they begin anew.
static void sweep(struct td_session_measures *s, bool all)
{
	struct measure *out = NULL;
	int64_t now = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&s->lock);
	for (struct measure **p = &s->first; *p;) {
		struct measure *m = *p;
		bool left = all || now - m->wanted_ms > WANTED_MS;
		if (left)
			td_cancel_fire(m->stop);
		if (!(all || (m->over && (left || now - m->over_ms > AGAIN_MS)))) {
			p = &m->next;
			continue;
		}
		*p = m->next;
		m->next = out;
		out = m;
		s->n--;
	}
	pthread_mutex_unlock(&s->lock);
	for (struct measure *m; (m = out);) {
		out = m->next;
		pthread_join(m->thread, NULL);
		td_object_unref(m->pod);
		td_cancel_unref(m->stop);
		free(m);
	}
}

void td_session_measures_sweep(struct td_session_measures *s)
{
	sweep(s, false);
}

struct td_session_measures *td_session_measures_free(struct td_session_measures *s)
{
	if (!s)
		return NULL;
	sweep(s, true);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

// (locked) NULL: why says the reason.
static struct measure *begin_locked(struct td_gateway *g, const struct td_object *pod, const char *key,
				    const char **why)
{
	struct td_session_measures *s = g->measures;
	struct measure *m = s->n < MOST ? td_calloc(1, sizeof(*m)) : NULL;
	*why = "this gateway measures as many sessions on machines as it can";
	if (!m)
		return NULL;
	m->all = s;
	m->g = g;
	m->stop = td_cancel_new();
	m->said =
		(struct td_session_figures){.cpu = -1, .gpu = -1, .why = "what it uses: its machine was not asked yet"};
	snprintf(m->key, sizeof(m->key), "%s", key);
	m->pod = td_object_ref((struct td_object *)(uintptr_t)pod);
	if (pthread_create(&m->thread, NULL, measure_thread, m)) {
		*why = "the gateway has no thread for it now";
		td_object_unref(m->pod);
		td_cancel_unref(m->stop);
		free(m);
		return NULL;
	}
	m->next = s->first;
	s->first = m;
	s->n++;
	return m;
}

void td_session_measured(struct td_gateway *g, const struct td_object *pod, struct td_session_figures *ret)
{
	const char *why = "", *devices = td_object_annotation(pod, TD_ANN_DEVICES);
	td_auto_free char *key = td_asprintf("%s/%s/%lld", td_object_annotation(pod, TD_ANN_SESSION_OWNER), pod->uid,
					     (long long)td_session_number(pod, TD_ANN_JOB));
	pthread_mutex_lock(&g->measures->lock);
	struct measure *m = g->measures->first;
	while (m && strcmp(m->key, key) != 0)
		m = m->next;
	if (!m)
		m = begin_locked(g, pod, key, &why);
	if (m) {
		m->wanted_ms = td_mono_ms(&td_clock_system);
		*ret = m->said;
	} else {
		*ret = (struct td_session_figures){.cpu = -1, .gpu = -1, .at_ms = td_real_ms(&td_clock_system)};
		snprintf(ret->why, sizeof(ret->why), "what it uses: %s", why);
	}
	pthread_mutex_unlock(&g->measures->lock);
	ret->gpus = devices && *devices && strcmp(devices, "{}") != 0;
	if (!*ret->why && ret->cpu < 0)
		snprintf(ret->why, sizeof(ret->why), "the use of its CPUs: its machine does not say");
	else if (!*ret->why && ret->gpus && ret->gpu < 0)
		snprintf(ret->why, sizeof(ret->why),
			 "the use of its GPUs: no agent of Tandem's on machine %s measures them; it does not run, or "
			 "sees no driver, or they are parts of GPUs",
			 td_jstr_or(pod->root, "spec.nodeName", "?"));
	if (!ret->gpus)
		ret->gpu = -1;
}
