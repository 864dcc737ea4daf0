// What the agent says about ranks that are slower than the others.
#include "gate/stragglers.h"

#include "base/log.h"
#include "base/names.h"
#include "metrics/metrics.h"
#include "pool/straggle.h"
#include "json/json.h"

#include <pthread.h>
#include <string.h>

// A run of a job is told of at most so often: its ranks' files are its user's.
enum { JOBS = 256, TELLS = 8, TEXT_MAX = TD_STRAGGLE_RANKS * 128, FORGET_MS = 120000 };

static const char *const actions[] = {"tell", "requeue", "drain"};

struct stragglers_job {
	int64_t id, seen_ms; // id 0: free
	int tells;
	bool drained;
	struct td_buf text; // of a look that comes in parts
	struct td_pool_straggle *state;
};
struct td_stragglers {
	struct td_hangs_opts o;
	pthread_mutex_t mu; // guards v
	struct stragglers_job (*v)[JOBS];
};

static void count(const char *node, const char *action, double n)
{
	td_metric_add(
		td_counter(td_metrics_process(), "tandem_job_stragglers_total",
			   "Ranks of Slurm's jobs that were slower than the others for as many steps as the policy "
			   "says, by the job's first node and what was done.",
			   TD_LABELS("node", "action")),
		n, TD_LABELS(node, action));
}

struct td_stragglers *td_stragglers_new(const struct td_hangs_opts *o)
{
	struct td_stragglers *s = td_calloc(1, sizeof(*s));
	s->o = *o;
	s->v = td_calloc((size_t)o->n, sizeof(*s->v));
	pthread_mutex_init(&s->mu, NULL);
	for (int i = 0; i < o->n; i++)
		for (size_t k = 0; k < TD_LEN(actions); k++)
			count(o->names[i], actions[k], 0);
	return s;
}

static void forget(struct stragglers_job *j)
{
	free(j->state);
	td_buf_done(&j->text);
	*j = (struct stragglers_job){0};
}

struct td_stragglers *td_stragglers_free(struct td_stragglers *s)
{
	if (!s)
		return NULL;
	for (int i = 0; i < s->o.n; i++)
		for (int k = 0; k < JOBS; k++)
			forget(&s->v[i][k]);
	pthread_mutex_destroy(&s->mu);
	free(s->v);
	free(s);
	return NULL;
}

static struct td_json *policy_of(struct td_stragglers *s, int node)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(s->o.nodes, NULL, s->o.names[node]);
	const char *text = o ? td_object_annotation(o, TD_ANN_STRAGGLER) : NULL;
	struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? j : NULL;
}

static int64_t every_ms(const yyjson_val *policy)
{
	int64_t every = td_jint(policy, "everySeconds", 10);
	return (every < 1 ? 1 : every) * 1000;
}

int64_t td_stragglers_every_ms(struct td_stragglers *s, int node)
{
	td_auto(td_json_unref) struct td_json *j = policy_of(s, node);
	return j ? every_ms(td_json_root(j)) : 0;
}

// The job's record, made when it is new. NULL: there is no room. A record that nobody asked about for forget_ms goes.
// The caller holds the lock.
static struct stragglers_job *of(struct td_stragglers *s, int node, int64_t job, int64_t now, int64_t forget_ms)
{
	struct stragglers_job *free_one = NULL, *mine = NULL;
	for (int i = 0; i < JOBS; i++) {
		struct stragglers_job *j = &s->v[node][i];
		if (j->id && now - j->seen_ms > forget_ms)
			forget(j);
		if (j->id == job)
			mine = j;
		else if (!j->id && !free_one)
			free_one = j;
	}
	if (!mine && free_one) {
		mine = free_one;
		mine->id = job;
		mine->state = td_calloc(1, sizeof(*mine->state));
	}
	if (mine)
		mine->seen_ms = now;
	return mine;
}

// What is done about this job: for those that no list names it is only told, because the word is its user's.
static const char *action_of(yyjson_val *policy, const struct td_gate_request *q)
{
	const char *wish = td_hangs_named(policy, q) ? td_jstr_or(policy, "action", "tell") : "tell";
	for (size_t i = 0; i < TD_LEN(actions); i++)
		if (!strcmp(actions[i], wish))
			return actions[i];
	return actions[0];
}

static bool judge(struct td_stragglers *s, int node, const struct td_gate_request *q, yyjson_val *policy,
		  struct td_pool_straggler *ret, const char **action)
{
	const struct td_pool_straggle_rule r = {(int)td_jint(policy, "percent", 150),
						(int)td_jint(policy, "steps", 10)};
	bool found = false;
	pthread_mutex_lock(&s->mu);
	struct stragglers_job *j = of(s, node, q->h.job, td_mono_ms(s->o.clock), FORGET_MS + 2 * every_ms(policy));
	if (j && q->part == 0)
		td_buf_reset(&j->text);
	if (j && j->text.len + strlen(q->ranks) < TEXT_MAX)
		td_buf_printf(&j->text, "%s%s", j->text.len ? "," : "", q->ranks);
	if (j && q->part + 1 >= q->parts) {
		td_auto_free struct td_pool_pace *v = td_calloc(TD_STRAGGLE_RANKS, sizeof(*v));
		size_t n = td_pool_paces(td_buf_str(&j->text), v, TD_STRAGGLE_RANKS);
		found = j->tells < TELLS && td_pool_straggle(&r, j->state->rank, v, n, ret);
		td_buf_reset(&j->text);
	}
	if (found) {
		// One job takes at most one node out of service, and who is queued again is another run.
		*action = action_of(policy, q);
		if (!strcmp(*action, "drain") && j->drained)
			*action = "tell";
		j->drained = j->drained || !strcmp(*action, "drain");
		j->tells++;
		if (!strcmp(*action, "requeue"))
			forget(j);
	}
	pthread_mutex_unlock(&s->mu);
	return found;
}

void td_stragglers_ask(struct td_stragglers *s, int node, const struct td_gate_request *q, char **ret)
{
	*ret = NULL;
	td_auto(td_json_unref) struct td_json *j = policy_of(s, node);
	struct td_pool_straggler who;
	const char *action = NULL;
	if (!j || !judge(s, node, q, td_json_root(j), &who, &action))
		return;
	char why[256];
	td_pool_straggle_words(&who, why, sizeof(why));
	td_warn("node %s: job %lld has a straggler: %s", s->o.names[node], (long long)q->h.job, why);
	count(s->o.names[node], action, 1);
	*ret = td_asprintf("action=%s node=%s why=%s", action, who.pace.node, why);
}

int td_stragglers_accuse(struct td_kube *k, struct td_informer *nodes, const char *by, const struct td_gate_request *q,
			 struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(nodes, NULL, q->slow), *got = NULL;
	// An agent of one node sees that one only.
	int r = o ? 0 : td_kube_get(k, &td_nodes, NULL, q->slow, c, &got, err);
	const struct td_object *node = o ? o : got;
	if (r)
		return td_wrap(err, "job %lld: node %s of a slow rank", (long long)q->h.job, q->slow);
	if (td_object_annotation(node, TD_ANN_SLOW)) // the first one counts
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *what = td_jm_new(), *d = td_jm_new();
	yyjson_mut_val *w = yyjson_mut_doc_get_root(what), *root = yyjson_mut_doc_get_root(d);
	td_jm_int(what, w, "job", q->h.job);
	td_jm_str(what, w, "by", by);
	td_auto_free char *why = td_strdup(q->why);
	for (char *p = why; *p; p++)
		if (*p == '_')
			*p = ' ';
	td_jm_str(what, w, "why", why);
	td_auto_free char *text = td_json_mut_text(w, NULL);
	td_jm_str(d, root, "metadata.uid", node->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_SLOW, text);
	return td_kube_patch(k, TD_AT(&td_nodes, NULL, q->slow), TD_PATCH_MERGE, root, c, NULL, err);
}
