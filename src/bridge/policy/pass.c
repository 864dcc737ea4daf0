// A pass over the jobs that wait: which policy is whose, what pool/ decides, and the few moves.
#include "bridge/cuts.h"
#include "bridge/grow.h"
#include "bridge/policy/policies.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"
#include "kube/health.h"
#include "pool/starve.h"
#include "slurm/tocome.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// A move costs slurmctld 0.7 ms (S-Q7): MOVES a second are 5 % of a core at most.
enum { EVERY_MS = 1000, TIMES = 2, MOVES = 64, SHARE = 20, PAUSE_MS = 5000 };

struct placed { // what the last pass said of a job
	int64_t id;
	size_t rule, place, of;
	int64_t gpus;    // on one node
	char *partition; // "a,b": any of them
};
struct td_policies {
	// ---- the thread's own ----
	struct td_policies_facts facts;
	struct td_policies_moves moves;
	bool swept;             // what an earlier bridge left is known
	int64_t grow_ms;        // mono: when grow.h looks again
	struct td_settings *of; // whose rules `plugins` speaks of
	struct td_policies_plugin *plugins;

	pthread_mutex_t lock;  // guards the rest
	struct td_settings *s; // whose rules `placed` speaks of
	struct placed *placed; // sorted by id
	size_t n_placed;
	struct td_policies_counts counts;
	struct td_policies_words words[TD_POLICIES_HEADS];
	size_t n_words;
};

struct td_policies *td_policies_new(void)
{
	struct td_policies *p = td_calloc(1, sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void forget_plugins(struct td_policies *p)
{
	for (size_t i = 0; p->of && i < p->of->n_policies; i++)
		free(p->plugins[i].order);
	free(p->plugins);
	p->plugins = NULL;
	p->of = td_settings_unref(p->of);
}

static void free_placed(struct placed *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].partition);
	free(v);
}

struct td_policies *td_policies_free(struct td_policies *p)
{
	if (!p)
		return NULL;
	forget_plugins(p);
	td_policies_facts_done(&p->facts);
	td_settings_unref(p->s);
	free_placed(p->placed, p->n_placed);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

static bool covers(const struct td_policies_rule *r, const char *partition)
{
	for (size_t i = 0; i < r->n_partitions; i++)
		if (!strcmp(r->partitions[i], partition))
			return true;
	return !r->n_partitions;
}

// The first rule that has one of the job's partitions; -1: none.
static int rule_of(const struct td_settings *s, const struct td_policies_known *k)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, k->partition ? k->partition : "", ',');
	for (size_t r = 0; r < s->n_policies; r++)
		for (size_t i = 0; i < l.n; i++)
			if (covers(&s->policies[r], l.v[i]))
				return (int)r;
	return -1;
}

static int64_t urgency(const struct td_settings *s, const char *qos)
{
	size_t len = strcspn(qos ? qos : "", ",");
	for (size_t i = 0; i < s->n_qos; i++)
		if (strlen(s->qos[i].name) == len && !strncasecmp(s->qos[i].name, qos, len))
			return s->qos[i].priority;
	return 0;
}

// What the partitions of a rule have all together.
static void totals(struct td_bridge *b, const struct td_policies_rule *r, int64_t *ret)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	for (size_t i = 0; snap && i < snap->nodes.n; i++) {
		const struct td_slurm_node *x = &snap->nodes.v[i];
		td_auto_strv struct td_strv l = {0};
		bool in = false;
		td_strv_split(&l, x->partitions ? x->partitions : "", ',');
		for (size_t k = 0; k < l.n && !in; k++)
			in = covers(r, l.v[k]);
		if (!in || td_slurm_is_to_come(x->features))
			continue;
		ret[TD_POLICY_CPU] += x->cpus;
		ret[TD_POLICY_MEMORY] += x->memory_mb;
		ret[TD_POLICY_GPU] += td_devices_of_gres(x->gres, "gpu");
	}
}

struct pass {
	struct td_bridge *b;
	struct td_policies *p;
	const struct td_settings *s;
	struct td_slurm *slurm;
	int *rules; // of each known job; -1: none
	struct placed *placed;
	size_t n_placed, moves, failed;
};

// Makes one move. False: no more now.
static bool move(struct pass *a, struct td_policies_known *k, int64_t value)
{
	if (a->moves + a->failed == MOVES || td_cancelled(a->b->cancel))
		return false;
	int64_t site = value ? value - (k->own > 0 ? k->own : 0) : 0;
	struct td_error e = TD_ERROR_INIT;
	const struct td_slurm_job_change ch = {.site = true, .site_factor = site};
	if (!td_slurm_job_update(a->slurm, k->id, &ch, a->b->cancel, &e)) {
		td_policies_facts_moved(k, value, site);
		a->moves++;
		return true;
	}
	// It has started, has ended, or is nothing that can be moved: the next look tells. A reply that was lost
	// may have moved it: the look tells that, too.
	k->stale = true;
	a->failed++;
	td_debug("policy: %s", e.msg);
	return e.code == TD_NOT_FOUND || e.code == TD_INVALID || e.code == TD_CONFLICT;
}

// Asks the site's own. False: it has no order, and the rule does not count.
static bool ask_plugin(struct pass *a, size_t rule, const struct td_policy_input *in, const size_t *known,
		       const struct td_policies_known *const *runs, size_t *ret)
{
	const struct td_policies_facts *f = &a->p->facts;
	td_auto_free const struct td_policies_known **waits = td_calloc(in->n + 1, sizeof(*waits));
	td_auto_free int64_t *urgent = td_calloc(in->n + 1, sizeof(*urgent));
	for (size_t i = 0; i < in->n; i++) {
		waits[i] = &f->v[known[i]];
		urgent[i] = in->v[i].urgency;
	}
	const struct td_policies_ask ask = {.dir = a->b->o.policies,
					    .rule = &a->s->policies[rule],
					    .waiting = waits,
					    .running = runs,
					    .urgency = urgent,
					    .n = in->n,
					    .n_running = in->n_held,
					    .total = in->total,
					    .now_s = td_real_ms(a->b->clock) / 1000,
					    .now_ms = td_now(a->b),
					    .cancel = a->b->cancel};
	struct td_error e = TD_ERROR_INIT;
	int r = td_policies_plugin(&a->p->plugins[rule], &ask, ret, &e);
	if (r && r != TD_THROTTLED && r != TD_CANCELLED)
		td_warn("policy %s: %s; its jobs wait in Slurm's own order", ask.rule->name, e.msg);
	for (size_t i = 0; r && r != TD_CANCELLED && i < f->n; i++)
		a->rules[i] = a->rules[i] == (int)rule ? -1 : a->rules[i];
	return !r;
}

// Orders the jobs of one rule and moves what must be moved.
static void run_rule(struct pass *a, size_t rule)
{
	struct td_policies_facts *f = &a->p->facts;
	const struct td_policies_rule *r = &a->s->policies[rule];
	struct td_policy_input in = {.kind = r->kind, .queue = r->queue};
	td_auto_free struct td_policy_job *jobs = td_calloc(f->n + 1, sizeof(*jobs));
	td_auto_free struct td_policy_held *held = td_calloc(f->n + 1, sizeof(*held));
	td_auto_free size_t *known = td_calloc(f->n + 1, sizeof(*known)), *order = td_calloc(f->n + 1, sizeof(*order));
	td_auto_free const struct td_policies_known **runs = td_calloc(f->n + 1, sizeof(*runs));
	for (size_t i = 0; i < f->n; i++) {
		const struct td_policies_known *k = &f->v[i];
		if (a->rules[i] != (int)rule)
			continue;
		if (k->phase != TD_PHASE_WAITING) {
			runs[in.n_held] = k;
			held[in.n_held] = (struct td_policy_held){.user = k->user, .account = k->account};
			memcpy(held[in.n_held++].tres, k->tres, sizeof(k->tres));
		} else if (!k->held && !k->fixed) {
			known[in.n] = i;
			jobs[in.n] = (struct td_policy_job){.id = k->id,
							    .user = k->user,
							    .account = k->account,
							    .submit_s = k->submit_s,
							    .urgency = urgency(a->s, k->qos),
							    .nice = k->nice,
							    .aside = k->aside};
			memcpy(jobs[in.n++].tres, k->tres, sizeof(k->tres));
		}
	}
	in.v = jobs;
	in.held = held;
	if (!in.n)
		return;
	totals(a->b, r, in.total);
	if (r->kind != TD_POLICY_PLUGIN)
		td_policy_order(&in, order);
	else if (!ask_plugin(a, rule, &in, known, runs, order))
		return;

	td_auto_free struct td_policy_place *places = td_calloc(in.n, sizeof(*places));
	td_auto_free struct td_policy_move *moves = td_calloc(in.n, sizeof(*moves));
	for (size_t i = 0; i < in.n; i++) {
		const struct td_policies_known *k = &f->v[known[order[i]]];
		places[i] = (struct td_policy_place){k->id, k->value, k->own > 0 ? k->own : 0};
		struct placed *x = &a->placed[a->n_placed++];
		*x = (struct placed){.id = k->id, .rule = rule, .place = i + 1, .of = in.n};
		x->gpus = (k->tres[TD_POLICY_GPU] + k->nodes - 1) / k->nodes;
		x->partition = td_strdup(k->partition);
	}
	size_t n = td_policy_plan(places, in.n, TD_POLICY_DEPTH, moves);
	for (size_t i = 0; i < n; i++)
		if (!move(a, &f->v[known[order[moves[i].at]]], moves[i].value))
			return;
}

static int by_id(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

// What no rule covers any more has its own priority again.
static void give_back(struct pass *a)
{
	struct td_policies_facts *f = &a->p->facts;
	for (size_t i = 0; i < f->n; i++) {
		struct td_policies_known *k = &f->v[i];
		if (a->rules[i] < 0 && k->read && k->phase == TD_PHASE_WAITING && !k->held && !k->fixed &&
		    k->value >= TD_POLICY_LOW && !move(a, k, 0))
			return;
	}
}

// Is there nothing to do, and nothing that could be left over?
static bool idle(const struct td_policies *p, const struct td_settings *s)
{
	bool ours = false;
	for (size_t i = 0; i < p->facts.n; i++)
		ours |= td_pool_starve_at_front(p->facts.v[i].nice) ||
			(p->facts.v[i].value >= TD_POLICY_LOW && p->facts.v[i].phase == TD_PHASE_WAITING &&
			 !p->facts.v[i].fixed);
	return !s->n_policies && p->swept && !ours && !td_policies_slices(s) && !s->defragment_s && !s->starve_s &&
	       !td_policies_moves_open(&p->moves);
}

static void publish(struct td_policies *p, struct td_settings *s, const struct td_policies_counts *more,
		    struct placed *v, size_t n)
{
	if (n)
		qsort(v, n, sizeof(*v), by_id);
	pthread_mutex_lock(&p->lock);
	struct td_settings *old = p->s;
	struct placed *was = p->placed;
	size_t n_was = p->n_placed;
	p->s = td_settings_ref(s);
	p->placed = v;
	p->n_placed = n;
	p->counts.passes += more->passes;
	p->counts.reads += more->reads;
	p->counts.moves += more->moves;
	p->n_words = s->defragment_s || s->starve_s ? p->n_words : 0;
	pthread_mutex_unlock(&p->lock);
	td_settings_unref(old);
	free_placed(was, n_was);
}

static void defragment(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm)
{
	struct td_policies *p = b->policies;
	struct td_policies_words words[TD_POLICIES_HEADS];
	int64_t began = td_now(b);
	if (began < p->moves.next_ms)
		return;
	size_t n = td_policies_defrag_pass(b, s, slurm, &p->facts, &p->moves, words);
	pthread_mutex_lock(&p->lock);
	memcpy(p->words, words, n * sizeof(*words));
	p->n_words = n;
	pthread_mutex_unlock(&p->lock);
	int64_t pause = (td_now(b) - began) * SHARE; // waiting for Slurm is in it, too
	p->moves.next_ms = td_now(b) + (pause < PAUSE_MS ? pause : PAUSE_MS);
}

static int pass(struct td_bridge *b, struct td_settings *s, struct td_slurm *slurm, struct td_error *err)
{
	struct td_policies *p = b->policies;
	// Without a policy only what is to have its own priority again is looked for. Who may move, or has used time, runs.
	bool cuts = td_cuts_on(b),
	     only_waiting = !s->n_policies && !s->defragment_s && !s->starve_s && !td_policies_slices(s);
	int r = td_policies_facts_read(&p->facts, slurm, only_waiting, td_now(b), b->cancel, err);
	if (r)
		return r;

	if (p->of != s) {
		forget_plugins(p);
		p->of = td_settings_ref(s);
		p->plugins = td_calloc(s->n_policies + 1, sizeof(*p->plugins));
	}
	td_auto_free int *rules = td_calloc(p->facts.n + 1, sizeof(*rules));
	for (size_t i = 0; i < p->facts.n; i++)
		rules[i] = p->facts.v[i].read ? rule_of(s, &p->facts.v[i]) : -1;
	struct pass a = {.b = b,
			 .p = p,
			 .s = s,
			 .slurm = slurm,
			 .rules = rules,
			 .placed = td_calloc(p->facts.n + 1, sizeof(*a.placed))};
	for (size_t i = 0; i < s->n_policies; i++)
		run_rule(&a, i);
	give_back(&a);
	td_policies_slices_pass(b, s, slurm, &p->facts);
	defragment(b, s, slurm);
	if (cuts)
		td_cuts_pass(b, slurm, &p->facts);
	if (td_growth_on(b))
		td_growth_pass(b, slurm, &p->facts, &p->grow_ms);
	p->swept |= !p->facts.more;
	const struct td_policies_counts more = {1, p->facts.n_reads, a.moves};
	p->facts.n_reads = 0;
	publish(p, s, &more, a.placed, a.n_placed);

	td_auto_free struct td_policies_state *states = td_calloc(s->n_policies + 1, sizeof(*states));
	for (size_t i = 0; i < s->n_policies; i++)
		states[i] = (struct td_policies_state){s->policies[i].name,
						       *p->plugins[i].problem ? p->plugins[i].problem : NULL};
	return td_policies_show(b, states, s->n_policies, err);
}

// Nothing is ordered, and what was said of policies that are gone is taken back.
static int rest(struct td_bridge *b, struct td_settings *s, struct td_error *err)
{
	td_policies_facts_done(&b->policies->facts);
	publish(b->policies, s, &(const struct td_policies_counts){0}, NULL, 0);
	return td_policies_show(b, NULL, 0, err);
}

void *td_policies_thread(void *bridge)
{
	struct td_bridge *b = bridge;
	int64_t wait = EVERY_MS;
	bool failing = false;
	struct td_slurm_pace pace = {0};
	td_auto(td_loop_free) struct td_loop *loop = td_loop_new("policies", 0);

	while (!td_cancel_wait(b->cancel, wait)) {
		td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
		wait = EVERY_MS;
		if (!s || !l || atomic_load(&b->away))
			continue;
		td_loop_busy(loop);
		struct td_error e = TD_ERROR_INIT;
		int64_t began = td_now(b);
		int r = idle(b->policies, s) && !td_cuts_on(b) && !td_growth_on(b) ? rest(b, s, &e)
										   : pass(b, s, l->slurm, &e);
		if (r && !failing && r != TD_CANCELLED)
			td_warn("policies: %s", e.msg);
		failing = r;
		wait = td_slurm_pace_wait(&pace, td_now(b) - began, TIMES, EVERY_MS);
		td_loop_idle(loop);
	}
	return NULL;
}

void td_policies_largest(struct td_bridge *b, const struct td_strv *partitions, int64_t *most)
{
	struct td_policies *p = b->policies;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n_placed; i++)
		for (size_t k = 0; k < partitions->n; k++)
			if (p->placed[i].gpus > most[k] && td_bridge_lists(p->placed[i].partition, partitions->v[k]))
				most[k] = p->placed[i].gpus;
	pthread_mutex_unlock(&p->lock);
}

struct td_policies_counts td_policies_counts(struct td_bridge *b)
{
	pthread_mutex_lock(&b->policies->lock);
	struct td_policies_counts c = b->policies->counts;
	pthread_mutex_unlock(&b->policies->lock);
	return c;
}

void td_policies_words(struct td_bridge *b, int64_t job, struct td_buf *ret)
{
	struct td_policies *p = b->policies;
	const struct placed key = {.id = job};
	pthread_mutex_lock(&p->lock);
	const struct placed *x = p->n_placed ? bsearch(&key, p->placed, p->n_placed, sizeof(*p->placed), by_id) : NULL;
	if (x)
		td_buf_printf(ret, " Policy %s (%s) orders it: place %zu of %zu.", p->s->policies[x->rule].name,
			      td_policies_rule_words(&p->s->policies[x->rule]), x->place, x->of);
	for (size_t i = 0; i < p->n_words; i++)
		if (p->words[i].job == job)
			td_buf_printf(ret, " %s", p->words[i].text);
	pthread_mutex_unlock(&p->lock);
}
