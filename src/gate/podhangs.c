#include "gate/podhangs.h"

#include "api/condition.h"
#include "base/log.h"
#include "base/names.h"
#include "gate/hangs.h"
#include "gate/podbeats.h"
#include "gate/podframes.h"
#include "gate/podstacks.h"
#include "gate/used.h"
#include "metrics/metrics.h"
#include "pool/hang.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

enum {
	EVERY_MIN_MS = 500,
	EVERY_MAX_MS = 10000,
	IDLE_MS = 3000,
	AFTER_MIN_S = 2,
	AFTER_MAX_S = 604800,
	STEPS = 10,
	FRAMES_MS = 20000
};

struct still_pod { // a pod that is watched
	char uid[40];
	struct td_pool_hang state;
	struct td_pool_hang_said said;
	struct td_podbeat beat;
	char *does;    // what its processes did when it began to hang; NULL: it does not
	uint64_t pass; // of the last look
	UT_hash_handle hh;
};
struct hang_pass {
	const struct td_podhangs *h;
	struct still_pod *seen;
	uint64_t n;
	int64_t next_ms;   // how soon the next one is wanted
	int64_t framed_ms; // what functions took in this pass
	struct td_cancel *c;
};
struct hang_watch { // how one pod is watched
	struct td_pool_hang_rule rule;
	bool beats; // that its beats are still is enough
	bool end, stacks;
	int signal; // 0: none
};

static bool named(const yyjson_val *policy, const char *ns)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(policy, "namespaces"), i, n, v)
		if (td_streq(yyjson_get_str(v), "*") || td_streq(yyjson_get_str(v), ns))
			return true;
	return false;
}

// False: it is not watched. Without a policy nobody is, whatever the pod says of itself.
static bool watched(const struct td_object *pod, const yyjson_val *policy, struct hang_watch *ret)
{
	long long after = td_jint(policy, "afterSeconds", 1800), own = 0;
	const char *text = td_object_annotation(pod, TD_ANN_HANG_AFTER);
	bool asks = text && td_parse_i64(text, &own) && own >= AFTER_MIN_S && own <= AFTER_MAX_S;
	bool beats = td_podbeat_asks(pod), listed = named(policy, pod->ns);
	if (!policy || (!asks && !beats && !listed))
		return false;
	// Who beats says by that that he wants to be watched, and by which sign; a list that names him has its own signs
	// beside. Who does not beat has no such sign.
	unsigned signs = td_hangs_signs(policy);
	if (beats)
		signs = listed ? signs : TD_SIGN_HEARTBEAT;
	else
		signs &= ~(unsigned)TD_SIGN_HEARTBEAT;
	*ret = (struct hang_watch){{signs, (asks ? own : after) * 1000},
				   beats,
				   td_streq(td_jstr(policy, "action"), "requeue"),
				   td_jbool(policy, "stacks", true),
				   td_hangs_signal(td_jstr(policy, "signal"))};
	return ret->rule.signs;
}

static void count(const char *node, const char *action, double n)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_pod_hangs_total",
				 "Pods that made no progress for as long as the policy says, by what is to be done.",
				 TD_LABELS("node", "action")),
		      n, TD_LABELS(node, action));
}

// Writes the condition, unless the pod has it.
static void say(struct hang_pass *p, const struct td_object *pod, const struct td_condition_want *w)
{
	yyjson_val *was = td_condition(pod->root, TD_COND_HANGS);
	if (was ? td_streq(td_jstr(was, "status"), w->status) && td_streq(td_jstr(was, "reason"), w->reason)
		: !strcmp(w->status, "False"))
		return;
	struct td_error err = TD_ERROR_INIT;
	int r = td_kube_pod_condition(p->h->kube, pod, w, p->h->clock, p->c, &err);
	if (r && r != TD_NOT_FOUND && r != TD_CANCELLED)
		td_warn("pod %s/%s: saying whether it hangs: %s", pod->ns, pod->name, err.msg); // the next look says it
	if (!r && !strcmp(w->status, "True")) {
		td_warn("pod %s/%s hangs: %s", pod->ns, pod->name, w->message);
		count(td_jstr_or(pod->root, "spec.nodeName", ""), !strcmp(w->reason, TD_HANGS_END) ? "end" : "tell", 1);
	}
}

static struct still_pod *of(struct hang_pass *p, const struct td_object *pod)
{
	struct still_pod *s = NULL;
	HASH_FIND_STR(p->seen, pod->uid, s);
	if (!s) {
		s = td_calloc(1, sizeof(*s));
		snprintf(s->uid, sizeof(s->uid), "%s", pod->uid);
		HASH_ADD_STR(p->seen, uid, s);
	}
	s->pass = p->n;
	return s;
}

static void soon(struct hang_pass *p, int64_t ms)
{
	ms = ms < EVERY_MIN_MS ? EVERY_MIN_MS : ms > EVERY_MAX_MS ? EVERY_MAX_MS : ms;
	p->next_ms = ms < p->next_ms ? ms : p->next_ms;
}

static size_t pids_again(void *ctx, pid_t *v, size_t max)
{
	const void *const *x = ctx;
	const struct td_podhangs *h = x[0];
	return h->pids(h->ctx, x[1], v, max);
}

// What its processes do, once: ", "-separated words behind what is known already. Those that catch the signal get it.
static char *does(struct hang_pass *p, const struct td_object *pod, const struct hang_watch *w)
{
	td_auto_free pid_t *v = td_calloc(TD_PODSTACKS_PIDS, sizeof(*v));
	size_t n = p->h->pids && (w->stacks || w->signal) ? p->h->pids(p->h->ctx, pod, v, TD_PODSTACKS_PIDS) : 0;
	char text[TD_PODSTACKS_TEXT] = "", in[TD_PODFRAMES_TEXT] = "";
	if (w->stacks)
		td_podstacks_words("/proc", v, n, text, sizeof(text));
	// Pods whose user keeps that waiting keep the others' hangs unseen: of a pass it begins in the first 20 s.
	const int64_t from = td_mono_ms(p->h->clock);
	if (w->stacks && p->h->frames && p->framed_ms < FRAMES_MS) {
		p->h->frames(p->h->ctx, pod, in, sizeof(in));
		p->framed_ms += td_mono_ms(p->h->clock) - from;
	} else if (w->stacks && p->h->frames) {
		snprintf(in, sizeof(in), "functions are not known: those of other pods took too long");
	}
	const void *who[] = {p->h, pod};
	if (w->signal)
		td_podstacks_tell("/proc", v, n, w->signal, pids_again, who);
	return td_asprintf("%s%s%s%s", *text ? "; " : "", text, *in ? "; " : "", in);
}

static void look_at(struct hang_pass *p, int node, const struct td_object *pod, int64_t job, const struct hang_watch *w,
		    const struct td_checkup_facts *f)
{
	struct still_pod *s = of(p, pod);
	struct td_podhangs_signs signs = {-1, -1};
	p->h->look(p->h->ctx, node, pod, &signs);
	const struct td_pool_hang_look now = {.at_ms = td_mono_ms(p->h->clock),
					      .heartbeat = td_podbeat_sign(&s->beat),
					      .output = signs.output,
					      .cpu_ms = signs.cpu_us < 0 ? -1 : signs.cpu_us / 1000,
					      .gpu_percent = td_hangs_gpu(p->h->gate, node, job, f)};
	char words[160 + TD_PODSTACKS_TEXT + TD_PODFRAMES_TEXT];
	const struct td_pool_hang_rule own = {TD_SIGN_HEARTBEAT, w->rule.after_ms}, *rule = &w->rule;
	if (!s->state.begun) // an agent that is new goes on with what was said before
		s->said.told = td_condition_true(pod->root, TD_COND_HANGS);
	bool hangs = td_pool_hang(rule, &s->state, &now);
	// Of the same moment, so no sign moves by it.
	if (!hangs && w->beats && td_pool_hang(&own, &s->state, &now)) {
		hangs = true;
		rule = &own;
	}
	hangs = td_pool_hang_say(&s->said, hangs, now.at_ms);
	if (hangs && !s->does)
		s->does = does(p, pod, w);
	if (!hangs)
		free(s->does), s->does = NULL;
	td_pool_hang_words(rule, words, sizeof(words));
	size_t n = strlen(words);
	if (s->beat.beats.n && s->beat.beats.last >= 0)
		n += (size_t)snprintf(words + n, sizeof(words) - n, "; its last step was %lld",
				      (long long)s->beat.beats.last);
	snprintf(words + n, sizeof(words) - n, "%s", s->does ? s->does : "");
	say(p, pod,
	    hangs ? TD_CONDITION(TD_COND_HANGS, "True", w->end ? TD_HANGS_END : TD_HANGS_TOLD, words)
		  : TD_CONDITION(TD_COND_HANGS, "False", "Progress", "it makes progress"));
	soon(p, w->rule.after_ms / 10);
}

// What the pod says in its log. pace: the policy about slow ranks; NULL: there is none.
static void hear(struct hang_pass *p, const struct td_object *pod, const yyjson_val *pace)
{
	const char *container = td_podbeat_container(pod);
	struct still_pod *s = of(p, pod);
	int64_t steps = td_jint(pace, "steps", STEPS);
	td_auto_close int fd = container && p->h->log ? p->h->log(p->h->ctx, pod, container) : -1;
	td_podbeat_read(&s->beat, fd, steps < 1 ? 1 : (int)steps);
	if (!pace)
		return;
	td_podbeat_say(&s->beat, p->h->kube, pod, p->h->clock, p->c);
	soon(p, td_jint(pace, "everySeconds", 10) * 1000);
}

static struct td_json *note(const struct td_object *node, const char *key)
{
	const char *text = td_object_annotation(node, key);
	struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? j : NULL;
}

// Those of one node. f: room for facts.
static void node_pods(struct hang_pass *p, int node, const struct td_objects *pods, struct td_checkup_facts *f)
{
	const char *name = td_gate_node_name(p->h->gate, node);
	td_auto(td_object_unref) struct td_object *o = td_informer_get(p->h->nodes, NULL, name);
	if (!o)
		return;
	td_auto(td_json_unref) struct td_json *hang = note(o, TD_ANN_HANG), *slow = note(o, TD_ANN_STRAGGLER);
	if (!hang && td_object_annotation(o, TD_ANN_HANG))
		return; // it cannot be read: nothing is said, and nothing is taken back
	const yyjson_val *policy = hang ? td_json_root(hang) : NULL, *pace = slow ? td_json_root(slow) : NULL;
	bool known = policy && td_nodehealth_facts(p->h->health, node, f);
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *pod = pods->v[i];
		const char *id = td_object_annotation(pod, TD_ANN_JOB);
		long long job;
		struct hang_watch w;
		if (!id || !td_streq(td_jstr(pod->root, "spec.nodeName"), name) || !td_parse_i64(id, &job) ||
		    job <= 0 || !td_streq(td_jstr(pod->root, "status.phase"), "Running") || td_object_deleting(pod))
			continue;
		if ((policy || pace) && td_podbeat_asks(pod))
			hear(p, pod, pace);
		if (watched(pod, policy, &w))
			look_at(p, node, pod, job, &w, known ? f : NULL);
		else if (td_condition_true(pod->root, TD_COND_HANGS))
			// What was said of it once is not known any more, and must not end its gang.
			say(p, pod,
			    TD_CONDITION(TD_COND_HANGS, "False", "NotWatched",
					 "nobody looks whether it makes progress"));
	}
}

static void forget(struct hang_pass *p, bool all)
{
	struct still_pod *s, *tmp;
	HASH_ITER (hh, p->seen, s, tmp)
		if (all || s->pass != p->n) {
			HASH_DEL(p->seen, s);
			free(s->does);
			free(s);
		}
}

int td_podhangs_run(const struct td_podhangs *h, struct td_cancel *c, struct td_error *err)
{
	struct hang_pass p = {.h = h, .c = c};
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	for (int i = 0; i < td_gate_nodes(h->gate); i++) {
		count(td_gate_node_name(h->gate, i), "end", 0);
		count(td_gate_node_name(h->gate, i), "tell", 0);
	}
	do {
		td_auto_objects struct td_objects pods = {0};
		td_informer_list(h->pods, NULL, &pods);
		p.n++;
		p.next_ms = IDLE_MS;
		p.framed_ms = 0;
		for (int i = 0; i < td_gate_nodes(h->gate); i++)
			node_pods(&p, i, &pods, f);
		forget(&p, false);
		td_used_look(&(const struct td_used_pass){h->kube, &pods, h->clock}, c);
	} while (!td_cancel_wait(c, p.next_ms));
	forget(&p, true);
	return 0;
}
