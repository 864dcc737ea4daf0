// Brings the begin of jobs forward that were queued again (again.h).
#include "bridge/again.h"

#include "base/log.h"
#include "kube/controller.h"
#include "pool/again.h"
#include "pool/leave.h"
#include "pool/said.h"
#include "slurm/history.h"
#include "slurm/hostlist.h"

#include <inttypes.h>
#include <string.h>
#include <uthash.h>

// NEAR_MS: a node's failure and what it does to a job are not seen at one time. KEEP_MS: for so long a job's past and a
// node's failure are known; longer than pool/again.c counts in a row, and than Slurm's own pause. MOST: jobs beyond
// that wait as Slurm wants them to. SAYS: looks at whether a job that may begin says why it does again.
enum { NEAR_MS = 5000, KEEP_MS = 1200000, MOST = 50000, LOOK_MS = 5000, SEEN_MS = 250, OVER_MS = 180000, SAYS = 3 };

struct again_job {
	int64_t id, from_ms, to_ms; // mono: it was queued again between the two
	bool ends;                  // its run still ends somewhere
	int says;                   // so often it is looked at whether it says why
	struct td_pool_again_past past;
	UT_hash_handle hh;
};
struct again_node {
	char *name, *reason; // reason: why, as Slurm said it then; "": it did not
	int64_t since_ms;    // mono: it had not failed yet; of many nodes the list can be seldom (slurm/view.h)
	int64_t at_ms;       // mono: it was seen to have failed
	bool drained;        // it has been drained since then, so it came back, or will, when somebody let it
};
struct td_agains {
	pthread_mutex_t lock; // guards all
	struct again_job *jobs;
	struct again_node *nodes; // in the order of at_ms
	size_t n_nodes;
	int64_t blind_ms; // mono: when the nodes were not to be read, the last time; 0: never
	uint64_t begun;
};

struct td_agains *td_agains_new(void)
{
	struct td_agains *a = td_calloc(1, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

static void forget_node(struct again_node *n)
{
	free(n->name);
	free(n->reason);
}

struct td_agains *td_agains_free(struct td_agains *a)
{
	struct again_job *j, *next;
	if (!a)
		return NULL;
	HASH_ITER (hh, a->jobs, j, next) {
		HASH_DEL(a->jobs, j);
		free(j);
	}
	for (size_t i = 0; i < a->n_nodes; i++)
		forget_node(&a->nodes[i]);
	free(a->nodes);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}

static bool fallen(const struct td_slurm_node *n)
{
	return n->states & TD_NODE(DOWN);
}

static const char *reason_of(const struct td_slurm_node *n)
{
	return n->reason && strcmp(n->reason, TD_REASON_NONE) != 0 ? n->reason : "";
}

void td_agains_nodes(struct td_bridge *b, const struct td_slurm_snapshot *old, const struct td_slurm_snapshot *now)
{
	struct td_agains *a = b->agains;
	int64_t at = td_now(b);
	size_t gone = 0;
	pthread_mutex_lock(&a->lock);
	while (gone < a->n_nodes && at - a->nodes[gone].at_ms > KEEP_MS)
		forget_node(&a->nodes[gone++]);
	a->n_nodes -= gone;
	if (gone)
		memmove(a->nodes, a->nodes + gone, a->n_nodes * sizeof(*a->nodes));
	for (size_t i = 0; i < a->n_nodes; i++) {
		const struct td_slurm_node *n = td_slurm_node_find(&now->nodes, a->nodes[i].name);
		a->nodes[i].drained |= n && (n->states & TD_NODE(DRAIN));
		if (n && !*a->nodes[i].reason && *reason_of(n)) { // it is told a moment later
			free(a->nodes[i].reason);
			a->nodes[i].reason = td_strdup(reason_of(n));
		}
	}
	for (size_t i = 0; i < now->nodes.n; i++) {
		const struct td_slurm_node *n = &now->nodes.v[i], *was;
		if (!fallen(n) || ((was = td_slurm_node_find(&old->nodes, n->name)) && fallen(was)))
			continue;
		a->nodes = td_realloc(a->nodes, (a->n_nodes + 1) * sizeof(*a->nodes));
		a->nodes[a->n_nodes++] = (struct again_node){.name = td_strdup(n->name),
							     .reason = td_strdup(reason_of(n)),
							     .since_ms = td_slurm_snapshot_seen(old, n->name),
							     .at_ms = at,
							     .drained = n->states & TD_NODE(DRAIN)};
	}
	pthread_mutex_unlock(&a->lock);
}

void td_agains_blind(struct td_bridge *b)
{
	pthread_mutex_lock(&b->agains->lock);
	b->agains->blind_ms = td_now(b);
	pthread_mutex_unlock(&b->agains->lock);
}

static void forget_old_locked(struct td_agains *a, int64_t now_ms)
{
	struct again_job *j, *next;
	HASH_ITER (hh, a->jobs, j, next)
		if (now_ms - j->to_ms > KEEP_MS) {
			HASH_DEL(a->jobs, j);
			free(j);
		}
}

void td_agains_back(struct td_bridge *b, const struct td_slurm_states *jobs, int64_t from_ms, int64_t to_ms)
{
	struct td_agains *a = b->agains;
	pthread_mutex_lock(&a->lock);
	forget_old_locked(a, to_ms);
	for (size_t i = 0; i < jobs->n; i++) {
		struct again_job *j = NULL;
		HASH_FIND(hh, a->jobs, &jobs->v[i].id, sizeof(j->id), j);
		if (!j && HASH_COUNT(a->jobs) >= MOST)
			continue;
		if (!j) {
			j = td_calloc(1, sizeof(*j));
			j->id = jobs->v[i].id;
			HASH_ADD(hh, a->jobs, id, sizeof(j->id), j);
		}
		// The end of its run began when that was seen first.
		if (!j->ends)
			j->from_ms = from_ms;
		j->to_ms = to_ms;
		j->says = 0;
		j->ends = td_job_phase(jobs->v[i].states) == TD_PHASE_ENDING;
	}
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < jobs->n; i++) {
		if (td_job_phase(jobs->v[i].states) != TD_PHASE_WAITING)
			continue;
		td_auto_free char *key = td_asprintf("%" PRId64, jobs->v[i].id);
		td_queue_add(b->again_queue, key);
	}
}

// Did the node fail as the job was queued again?
static bool meant(const struct again_job *j, const struct again_node *n)
{
	return n->at_ms >= j->from_ms - NEAR_MS && n->since_ms <= j->to_ms + NEAR_MS;
}

// May a node that failed with the job come back by itself, and be given to it? One that was drained takes no job before
// Tandem or a person lets it. *ret_seen: the nodes are known as they were after that.
static bool node_back(struct td_bridge *b, const struct again_job *j, bool *ret_seen)
{
	struct td_agains *a = b->agains;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	bool back = false;
	*ret_seen = snap && atomic_load(&snap->asked_ms) > j->to_ms;
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->n_nodes && *ret_seen && !back; i++) {
		const struct again_node *n = &a->nodes[i];
		if (!meant(j, n))
			continue;
		back = !n->drained && td_slurm_node_find(&snap->nodes, n->name);
	}
	pthread_mutex_unlock(&a->lock);
	return back;
}

// Did a node fail as the job was queued again?
static bool by_node(struct td_bridge *b, const struct again_job *j)
{
	struct td_agains *a = b->agains;
	bool any = false;
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->n_nodes && !any; i++)
		any = meant(j, &a->nodes[i]);
	pthread_mutex_unlock(&a->lock);
	return any;
}

// Which node failed under the run before, and why: the comment that says so. NULL: none did, or it is not known. slurmdbd
// is asked for the run's nodes only where a node failed at the time.
static char *failed_comment(struct td_bridge *b, struct td_slurm *s, const struct again_job *j,
			    const struct td_slurm_job *job, struct td_cancel *c)
{
	struct td_agains *a = b->agains;
	td_auto_runs struct td_slurm_runs runs = {0};
	td_auto_strv struct td_strv on = {0};
	if (!by_node(b, j) || td_slurm_history_job(s, b->o.cluster, job->id, c, &runs, NULL))
		return NULL;
	const struct td_slurm_run *last = td_slurm_runs_last(&runs, job->id);
	if (!last || td_hostlist_parse(last->nodes, &on, NULL))
		return NULL;
	char *said = NULL;
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->n_nodes && !said; i++)
		if (meant(j, &a->nodes[i]) && td_strv_has(&on, a->nodes[i].name))
			said = td_pool_said_again(job->admin_comment, a->nodes[i].name,
						  *a->nodes[i].reason ? a->nodes[i].reason : "it failed", job->submit);
	pthread_mutex_unlock(&a->lock);
	return said;
}

// Does the job for which this one made room still wait? Its room would not be kept for it.
static bool behind(struct td_slurm *s, const struct td_slurm_job *j, struct td_cancel *c)
{
	int64_t waiter = td_pool_leave_for(j->admin_comment);
	td_auto_states struct td_slurm_states l = {0};
	struct td_error e = TD_ERROR_INIT;
	if (!waiter)
		return false;
	return td_slurm_job_states(s, &waiter, 1, c, &l, &e) ||
	       (l.n && td_job_phase(l.v[0].states) == TD_PHASE_WAITING);
}

// Slurm's clock now, or earlier: it was at `submit` between from_ms and to_ms. The bridge's own may be another.
static int64_t slurm_now(struct td_bridge *b, const struct again_job *j, int64_t submit)
{
	int64_t least = submit + (td_now(b) - j->to_ms) / 1000, most = submit + (td_now(b) - j->from_ms) / 1000 + 1;
	int64_t own = td_real_ms(b->clock) / 1000;
	return own >= least && own <= most ? own : least;
}

// known: as it was read. One that was queued again since then is looked at anew, whatever is left to say.
static void keep(struct td_bridge *b, const struct again_job *known, const struct td_pool_again_past *past, int says)
{
	struct again_job *j = NULL;
	pthread_mutex_lock(&b->agains->lock);
	HASH_FIND(hh, b->agains->jobs, &known->id, sizeof(known->id), j);
	if (j)
		j->past = *past;
	if (j && j->to_ms == known->to_ms)
		j->says = says;
	pthread_mutex_unlock(&b->agains->lock);
}

// Says why of one that may begin, where its record does not: slurmdbd may hear late of the run before, and the node's
// `watch` may write what it has read before (faulted.c).
static int say_why(struct td_bridge *b, struct td_slurm *s, const struct again_job *known, const struct td_slurm_job *j,
		   int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_pool_said said;
	keep(b, known, &known->past, known->says - 1);
	if (known->says > 1)
		*again_ms = LOOK_MS;
	if (j->submit != known->past.submit_s || td_job_phase(j->states) == TD_PHASE_ENDED || !td_lease_holds() ||
	    (td_pool_said(j->admin_comment, TD_SAID_AGAIN, &said) && said.seen_s == j->submit))
		return 0;
	td_auto_free char *comment = failed_comment(b, s, known, j, c);
	const struct td_slurm_job_change ch = {.admin_comment = comment};
	return comment ? td_slurm_job_update(s, known->id, &ch, c, err) : 0;
}

int td_agains_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_bridge *b = bridge;
	struct again_job known = {0}, *found = NULL;
	long long id = 0;
	if (!td_parse_i64(key, &id))
		return 0;
	known.id = id;
	pthread_mutex_lock(&b->agains->lock);
	HASH_FIND(hh, b->agains->jobs, &known.id, sizeof(known.id), found);
	if (found)
		known = *found;
	bool blind = b->agains->blind_ms && known.from_ms - NEAR_MS < b->agains->blind_ms;
	pthread_mutex_unlock(&b->agains->lock);

	// Slurm's own pause ends soon after that.
	if (!found || blind || known.from_ms < 0 || td_now(b) - known.to_ms > OVER_MS)
		return 0;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	bool seen = false, back = node_back(b, &known, &seen);
	if (!seen || !s || atomic_load(&b->lost) || atomic_load(&b->away)) {
		*again_ms = SEEN_MS;
		return 0;
	}
	if (back) { // known here: a switch that fails takes thousands of jobs along, and Slurm is not asked for each
		*again_ms = LOOK_MS;
		return 0;
	}
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return TD_TRANSIENT;
	td_auto_job struct td_slurm_job j = {0};
	int r = td_slurm_job(l->slurm, id, c, &j, err);
	if (r)
		return r == TD_NOT_FOUND ? 0 : r;
	if (known.says)
		return say_why(b, l->slurm, &known, &j, again_ms, c, err);

	struct td_pool_again f = {.restarts = j.restarts,
				  .submit_s = j.submit,
				  .begin_s = j.eligible,
				  .now_s = slurm_now(b, &known, j.submit),
				  .waits = td_job_phase(j.states) == TD_PHASE_WAITING,
				  .batch = j.batch,
				  .held = j.hold || !j.priority,
				  .shared = j.array == j.id,
				  .node_back = back,
				  .kill_s = s->kill_wait_s,
				  .past = known.past};
	struct td_pool_again_plan p = td_pool_again(&f);
	if (p.what == TD_AGAIN_BEGIN && behind(l->slurm, &j, c)) {
		f.behind = true;
		p = td_pool_again(&f);
	}
	keep(b, &known, &p.past, 0);
	if (p.what == TD_AGAIN_LOOK)
		*again_ms = p.in_s > 0 ? p.in_s * 1000 : LOOK_MS;
	if (p.what != TD_AGAIN_BEGIN || !td_lease_holds())
		return 0;
	td_auto_free char *comment = s->accounting ? failed_comment(b, l->slurm, &known, &j, c) : NULL;
	const struct td_slurm_job_change ch = {.begin = p.past.begin_s, .admin_comment = comment};
	r = td_slurm_job_update(l->slurm, id, &ch, c, err);
	if (r == TD_NOT_FOUND || r == TD_INVALID || r == TD_CONFLICT) { // it has begun, or has ended
		td_debug("job %lld, which was queued again: %s", id, err ? err->msg : "");
		return 0;
	}
	if (r)
		return r;
	td_info("job %lld was queued again, and may begin", id);
	if (s->accounting && by_node(b, &known)) {
		keep(b, &known, &p.past, SAYS);
		*again_ms = LOOK_MS;
	}
	pthread_mutex_lock(&b->agains->lock);
	b->agains->begun++;
	pthread_mutex_unlock(&b->agains->lock);
	return 0;
}

void td_agains_words(struct td_bridge *b, const struct td_slurm_job *j, struct td_buf *ret)
{
	struct again_job *found = NULL;
	struct td_pool_again_past past = {0};
	pthread_mutex_lock(&b->agains->lock);
	HASH_FIND(hh, b->agains->jobs, &j->id, sizeof(j->id), found);
	if (found)
		past = found->past;
	pthread_mutex_unlock(&b->agains->lock);
	td_auto_free char *words = td_pool_again_words(&past, j->submit);
	if (words)
		td_buf_printf(ret, " %s", words);
}

uint64_t td_agains_count(struct td_bridge *b)
{
	pthread_mutex_lock(&b->agains->lock);
	uint64_t n = b->agains->begun;
	pthread_mutex_unlock(&b->agains->lock);
	return n;
}
