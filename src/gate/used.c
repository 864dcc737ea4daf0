#include "gate/used.h"

#include "api/condition.h"
#include "base/log.h"
#include "base/names.h"
#include "kube/service.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

// Devices are looked at every 5 s (useful.c).
enum { LEAST_MS = 5000, MOST_MS = 1800000, SERVICE_MS = 600000 };

struct used_pod {
	char uid[40];
	struct td_useful_part fresh; // what no pass has seen yet
	struct td_kube_use sum, said;
	int64_t began_ms, said_ms; // 0: not yet
	uint64_t pass;
	UT_hash_handle hh;
};
struct used_service { // whose series are there
	char key[64 + TD_SERVICE_NAME + 40];
	char ns[64], name[TD_SERVICE_NAME];
	const char *kind;
	int64_t seen_ms;
	UT_hash_handle hh;
};
static struct {
	pthread_mutex_t mu; // guards pods' `fresh` and the table
	struct used_pod *pods;
	struct used_service *services; // of the passes
	uint64_t pass;
} live = {.mu = PTHREAD_MUTEX_INITIALIZER};

void td_used_add(const char *uid, const struct td_useful_part *p)
{
	pthread_mutex_lock(&live.mu);
	struct used_pod *x = NULL;
	HASH_FIND_STR(live.pods, uid, x);
	if (!x) {
		x = td_calloc(1, sizeof(*x));
		snprintf(x->uid, sizeof(x->uid), "%s", uid);
		x->pass = live.pass;
		HASH_ADD_STR(live.pods, uid, x);
	}
	x->fresh.busy += p->busy;
	x->fresh.idle += p->idle;
	x->fresh.unknown += p->unknown;
	pthread_mutex_unlock(&live.mu);
}

int64_t td_used_next_ms(int64_t age_ms)
{
	int64_t gap = age_ms / 4;
	return gap < LEAST_MS ? LEAST_MS : gap > MOST_MS ? MOST_MS : gap;
}

static struct td_metric *by_service(void)
{
	return td_counter(
		td_metrics_process(), "tandem_service_device_seconds_total",
		"Seconds of the devices that the pods of a service hold here: busy (as far as they computed), "
		"idle, or unknown (the device does not say).",
		TD_LABELS("namespace", "kind", "service", "state"));
}

static void forget_service(struct used_service *s)
{
	static const char *const states[] = {"busy", "idle", "unknown"};
	for (size_t i = 0; i < TD_LEN(states); i++)
		td_metric_forget(by_service(), TD_LABELS(s->ns, s->kind, s->name, states[i]));
	HASH_DEL(live.services, s);
	free(s);
}

static void count(const struct td_object *pod, const struct td_useful_part *fresh, int64_t now_ms)
{
	struct td_service of;
	if (!td_service_of(pod, &of))
		return;
	td_auto_free char *key = td_asprintf("%s/%s/%s", pod->ns, of.kind, of.name);
	struct used_service *s = NULL;
	HASH_FIND_STR(live.services, key, s);
	if (!s) {
		s = td_calloc(1, sizeof(*s));
		snprintf(s->key, sizeof(s->key), "%s", key);
		snprintf(s->ns, sizeof(s->ns), "%s", pod->ns);
		snprintf(s->name, sizeof(s->name), "%s", of.name);
		s->kind = of.kind;
		HASH_ADD_STR(live.services, key, s);
	}
	s->seen_ms = now_ms;
	td_metric_add(by_service(), fresh->busy, TD_LABELS(s->ns, s->kind, s->name, "busy"));
	td_metric_add(by_service(), fresh->idle, TD_LABELS(s->ns, s->kind, s->name, "idle"));
	td_metric_add(by_service(), fresh->unknown, TD_LABELS(s->ns, s->kind, s->name, "unknown"));
}

// Writes the condition. What fails is written with the next pass.
static bool say(const struct td_used_pass *p, const struct td_object *pod, const struct td_kube_use *u,
		struct td_cancel *c)
{
	td_auto_free char *text = td_kube_use_text(u);
	struct td_error err = TD_ERROR_INIT;
	int r = td_kube_pod_condition(p->kube, pod, TD_CONDITION(TD_COND_USED, "True", "Measured", text), p->clock, c,
				      &err);
	if (r && r != TD_NOT_FOUND && r != TD_CONFLICT && r != TD_CANCELLED)
		td_warn("pod %s/%s: saying how much its devices computed: %s", pod->ns, pod->name, err.msg);
	return !r;
}

static void one(const struct td_used_pass *p, const struct td_object *pod, int64_t now_ms, struct td_cancel *c)
{
	struct td_useful_part fresh = {0};
	struct used_pod *x = NULL;
	pthread_mutex_lock(&live.mu);
	HASH_FIND_STR(live.pods, pod->uid, x);
	if (x) { // only passes remove it
		fresh = x->fresh;
		x->fresh = (struct td_useful_part){0};
		x->pass = live.pass;
	}
	pthread_mutex_unlock(&live.mu);
	if (!x)
		return;
	if (!x->began_ms) {
		x->began_ms = x->said_ms = now_ms;
		if (td_kube_use_read(pod->root, &x->sum))
			x->said = x->sum;
	}
	if (fresh.busy + fresh.idle + fresh.unknown > 0)
		count(pod, &fresh, now_ms);
	x->sum.busy += fresh.busy;
	x->sum.idle += fresh.idle;

	bool over = td_kube_pod_ended(pod->root), news = x->sum.busy + x->sum.idle > x->said.busy + x->said.idle;
	if (news && (over || now_ms - x->said_ms >= td_used_next_ms(now_ms - x->began_ms)) && say(p, pod, &x->sum, c)) {
		x->said = x->sum;
		x->said_ms = now_ms;
	}
}

void td_used_look(const struct td_used_pass *p, struct td_cancel *c)
{
	int64_t now_ms = td_mono_ms(p->clock);
	pthread_mutex_lock(&live.mu);
	live.pass++;
	pthread_mutex_unlock(&live.mu);
	for (size_t i = 0; i < p->pods->n; i++)
		one(p, p->pods->v[i], now_ms, c);

	struct used_pod *x, *tmp;
	pthread_mutex_lock(&live.mu);
	HASH_ITER (hh, live.pods, x, tmp)
		if (x->pass + 1 < live.pass) { // one that is new may have come before the list shows its pod
			HASH_DEL(live.pods, x);
			free(x);
		}
	pthread_mutex_unlock(&live.mu);
	struct used_service *s, *next;
	HASH_ITER (hh, live.services, s, next)
		if (now_ms - s->seen_ms > SERVICE_MS)
			forget_service(s);
}
