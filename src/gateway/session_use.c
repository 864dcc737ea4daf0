// What sessions do: when somebody used one, and how much of the CPUs it uses.
//
// CPU use comes from the node agent's counters (tandem_agent_pod_cpu_seconds_total), and the use of
// GPUs from what it measures of those that the pod holds (tandem_device_holder,
// tandem_device_use_ratio, or, of those that a device plug-in gave, tandem_agent_pod_gpu_use_ratio):
// of one agent for all (--usage), or of that of the pod's node (--agents). Two looks give a rate of
// CPUs; what one look does not find is not known, and not idle. The counter goes on meanwhile: when
// the next look finds it soon enough, it tells of the time between, so that one lost reply does not
// let a count begin anew.
//
// Of several gateways each sees its own requests only. So each writes down in the session's record when it was used,
// every TELL_S at most, and believes what another one wrote down to be LATER_S later: used in between is not told.
// All but that is this process's own memory: after a restart it begins anew, later rather than sooner.
#include "gateway/sessions.h"

#include "base/log.h"
#include "http/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACKED = 1024, USAGE_MAX = 8 << 20, GAP_MS = 60000, TELL_S = 20, LATER_S = 30 };

struct use {
	char id[64];
	struct td_answers *answers; // of an endpoint that was asked; owned
	uint64_t life;              // which `answers` these are; 0: there are none
	int64_t traffic;            // 0: none was seen
	int64_t told, others;       // what this gateway and another one wrote down of that; 0: nothing
	double cpu_s;               // the counter; -1: not known
	int64_t cpu_ms;             // when it was read
	int64_t low_since;          // -1: it is not low, or not known
	bool unseen;                // the last look did not find it; what stands above is of the one before
	int64_t looked_ms;          // what that look saw was of then; 0: there was none
	char lacks[200];            // what it did not know
};

struct td_session_traffic {
	const struct td_clock *clock;
	pthread_mutex_t lock; // guards the rest
	int64_t began;        // what was before is not known
	uint64_t lives;       // how many `answers` there were, of all
	struct use v[TRACKED];
	size_t n;
};

struct td_session_traffic *td_session_traffic_new(const struct td_clock *clock)
{
	struct td_session_traffic *t = td_calloc(1, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	t->clock = clock;
	t->began = td_real_ms(clock) / 1000;
	return t;
}

struct td_session_traffic *td_session_traffic_free(struct td_session_traffic *t)
{
	if (t)
		pthread_mutex_destroy(&t->lock);
	for (size_t i = 0; t && i < t->n; i++)
		free(t->v[i].answers);
	free(t);
	return NULL;
}

static struct use *find(struct td_session_traffic *t, const char *id)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].id, id))
			return &t->v[i];
	return NULL;
}

// When the table is full, the one that was not used for longest makes room.
static struct use *at(struct td_session_traffic *t, const char *id)
{
	struct use *u = find(t, id);
	if (u)
		return u;
	u = &t->v[0];
	for (size_t i = 1; i < t->n; i++)
		u = t->v[i].traffic < u->traffic ? &t->v[i] : u;
	if (t->n < TRACKED)
		u = &t->v[t->n++];
	free(u->answers);
	*u = (struct use){.cpu_s = -1, .low_since = -1};
	snprintf(u->id, sizeof(u->id), "%s", id);
	return u;
}

void td_session_touch(struct td_session_traffic *t, const char *id)
{
	pthread_mutex_lock(&t->lock);
	at(t, id)->traffic = td_real_ms(t->clock) / 1000;
	pthread_mutex_unlock(&t->lock);
}

void td_session_fresh(struct td_session_traffic *t, const char *id)
{
	pthread_mutex_lock(&t->lock);
	struct use *u = at(t, id);
	free(u->answers);
	u->answers = NULL;
	u->life = 0;
	u->cpu_s = u->low_since = -1;
	u->unseen = false;
	u->lacks[0] = '\0';
	u->traffic = td_real_ms(t->clock) / 1000;
	pthread_mutex_unlock(&t->lock);
}

void td_session_seen(struct td_session_traffic *t, const char *id, struct td_idle_seen *ret)
{
	pthread_mutex_lock(&t->lock);
	const struct use *u = find(t, id);
	ret->traffic = u && u->traffic > t->began ? u->traffic : t->began; // not seen counts from our start
	int64_t now = td_real_ms(t->clock) / 1000, others = !u || !u->others            ? 0
							    : u->others < now - LATER_S ? u->others + LATER_S
											: now;
	ret->traffic = others > ret->traffic ? others : ret->traffic;
	ret->low_cpu_since = u && !u->unseen ? u->low_since : -1;
	pthread_mutex_unlock(&t->lock);
}

int64_t td_session_tell(struct td_session_traffic *t, const char *id, int64_t kept)
{
	pthread_mutex_lock(&t->lock);
	struct use *u = at(t, id);
	if (kept != u->told)
		u->others = kept;
	int64_t last = u->told > kept ? u->told : kept, now = td_real_ms(t->clock) / 1000;
	last = last < now ? last : now; // it is its owner's to change
	bool tells = u->traffic > last + TELL_S;
	if (tells)
		u->told = u->traffic;
	int64_t ret = tells ? u->traffic : 0;
	pthread_mutex_unlock(&t->lock);
	return ret;
}

uint64_t td_session_asked(struct td_session_traffic *t, const char *id)
{
	pthread_mutex_lock(&t->lock);
	struct use *u = at(t, id);
	if (!u->answers) {
		u->answers = td_calloc(1, sizeof(*u->answers));
		u->life = ++t->lives;
	}
	td_answers_asked(u->answers);
	uint64_t life = u->life;
	pthread_mutex_unlock(&t->lock);
	return life;
}

void td_session_answered(struct td_session_traffic *t, const char *id, uint64_t life, int64_t took_ms)
{
	pthread_mutex_lock(&t->lock);
	struct use *u = find(t, id);
	if (u && u->answers && u->life == life) // else it began anew meanwhile
		td_answers_done(u->answers, td_real_ms(t->clock), took_ms);
	pthread_mutex_unlock(&t->lock);
}

bool td_session_answers(struct td_session_traffic *t, const char *id, struct td_answers_said *ret)
{
	pthread_mutex_lock(&t->lock);
	const struct use *u = find(t, id);
	bool known = u && u->answers;
	if (known)
		td_answers_say(u->answers, td_real_ms(t->clock), ret);
	pthread_mutex_unlock(&t->lock);
	return known;
}

bool td_session_look(struct td_session_traffic *t, const char *id, const struct td_idle_rules *rules,
		     const struct td_session_figures *f)
{
	int64_t now = f->at_ms;
	pthread_mutex_lock(&t->lock);
	struct use *u = at(t, id);
	bool news = now && now != u->looked_ms;
	if (news) {
		u->looked_ms = now;
		snprintf(u->lacks, sizeof(u->lacks), "%s", f->why);
		// No counter tells what GPUs did between.
		u->unseen = f->cpu < 0 && !f->gpus && now - u->cpu_ms <= GAP_MS;
	}
	if (!news || u->unseen) {
		pthread_mutex_unlock(&t->lock);
		return news;
	}
	struct td_idle_use use = {.cpu = -1, .gpus = f->gpus, .gpu = f->gpu};
	if (f->cpu >= 0 && u->cpu_s >= 0 && f->cpu >= u->cpu_s && now > u->cpu_ms)
		use.cpu = (f->cpu - u->cpu_s) * 1000 / (double)(now - u->cpu_ms);
	// The first look says nothing of before it: it is neither low nor busy.
	u->low_since = td_idle_low(rules, u->low_since, (use.cpu >= 0 ? u->cpu_ms : now) / 1000, &use);
	u->cpu_s = f->cpu;
	u->cpu_ms = now;
	pthread_mutex_unlock(&t->lock);
	return true;
}

bool td_session_lacks(struct td_session_traffic *t, const char *id, char *ret, size_t n)
{
	pthread_mutex_lock(&t->lock);
	const struct use *u = find(t, id);
	snprintf(ret, n, "%s", u ? u->lacks : "");
	pthread_mutex_unlock(&t->lock);
	return *ret;
}

static const char *next_line(const char *p)
{
	const char *end = strchr(p, '\n');
	return end ? end + 1 : NULL;
}

// The value of this series; -1: it is not there, or no number that counts.
static double series_value(const char *text, const char *series)
{
	for (const char *p = text; p && *p; p = next_line(p))
		if (td_starts(p, series)) {
			char *stop;
			double v = strtod(p + strlen(series), &stop);
			return (*stop == '\n' || !*stop) && v >= 0 ? v : -1;
		}
	return -1;
}

double td_session_cpu_read(const char *text, const char *ns, const char *pod)
{
	td_auto_free char *series =
		td_asprintf("tandem_agent_pod_cpu_seconds_total{namespace=\"%s\",pod=\"%s\"} ", ns, pod);
	return series_value(text, series);
}

double td_session_gpu_read(const char *text, const char *ns, const char *pod)
{
	static const char holder[] = "tandem_device_holder{";
	td_auto_free char *of = td_asprintf(",pod=\"%s/%s\",", ns, pod);
	double most = -1;
	for (const char *p = text; p && *p; p = next_line(p)) {
		td_auto_free char *line = td_strndup(p, strcspn(p, "\n"));
		const char *job = strstr(line, ",job=\""); // node and device stand before it
		if (!td_starts(line, holder) || !job || !strstr(job, of) || !td_ends(line, "} 1"))
			continue;
		td_auto_free char *series =
			td_asprintf("tandem_device_use_ratio{%.*s} ", (int)(job - line - (ptrdiff_t)strlen(holder)),
				    line + strlen(holder));
		double v = series_value(text, series);
		if (v < 0)
			return -1;
		most = v > most ? v : most;
	}
	return most;
}

double td_session_gpu_counted(const char *text, const char *ns, const char *pod)
{
	td_auto_free char *series =
		td_asprintf("tandem_agent_pod_gpu_use_ratio{namespace=\"%s\",pod=\"%s\"} ", ns, pod);
	return series_value(text, series);
}

int td_session_usage(struct td_gateway *g, struct td_buf *ret, struct td_error *err)
{
	const struct td_http_client_opts o = {.base_url = g->o.usage, .timeout_ms = 5000};
	const struct td_http_call call = {
		.method = "GET", .path = "/metrics", .accept = "text/plain", .max_body = USAGE_MAX};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	td_auto_reply struct td_http_reply reply = {0};
	int r = td_http_client_new(&o, &c, err);
	if (!r)
		r = td_http_do(c, &call, g->cancel, &reply, err);
	if (!r && reply.status != 200)
		r = td_fail(err, TD_TRANSIENT, "%s/metrics answers %d", g->o.usage, reply.status);
	if (!r)
		td_buf_add(ret, td_buf_str(&reply.body), reply.body.len);
	return r;
}
