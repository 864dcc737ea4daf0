#include "gateway/progress.h"

#include "base/hash.h"
#include "pool/said.h"
#include "slurm/history.h"

#include <pthread.h>
#include <string.h>

// KNOWN: of jobs that began again; the oldest is forgotten first. ASK_MS: slurmdbd learns late, and is not asked for one
// job more often.
enum { KNOWN = 512, ASK_MS = 5000 };

static void files(yyjson_mut_doc *d, yyjson_mut_val *o, const char *text)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text, ',');
	yyjson_mut_val *a = td_jm_arr(d, o, "stacks");
	for (size_t i = 0; i < l.n; i++)
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, l.v[i] + strspn(l.v[i], " ")));
}

static void write_said(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_pool_said *s)
{
	td_jm_str(d, o, "words", s->words);
	td_jm_str(d, o, "node", *s->node ? s->node : NULL);
	if (s->rank >= 0)
		td_jm_int(d, o, "rank", s->rank);
	if (s->gpu >= 0)
		td_jm_int(d, o, "gpu", s->gpu);
	if (*s->stacks)
		files(d, o, s->stacks);
	if (s->seen_s)
		td_jm_int(d, o, "seen", s->seen_s);
}

static void write_again(yyjson_mut_doc *d, yyjson_mut_val *o, const char *before, const struct td_pool_said *s)
{
	yyjson_mut_val *a = td_jm_obj(d, o, "again");
	td_jm_strf(d, a, "why", "%s%s", before, s->words);
	td_jm_str(d, a, "node", *s->node ? s->node : NULL);
	if (s->seen_s)
		td_jm_int(d, a, "at", s->seen_s);
}

void td_gateway_progress_write(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_slurm_job *j)
{
	struct td_pool_said hangs, slow, again;
	bool over = td_slurm_job_ended(j->states), waits = !over && td_job_phase(j->states) == TD_PHASE_WAITING;
	bool has_hangs = td_pool_said(j->admin_comment, TD_SAID_HANGS, &hangs),
	     has_slow = td_pool_said(j->admin_comment, TD_SAID_SLOW, &slow),
	     has_again = td_pool_said(j->admin_comment, TD_SAID_AGAIN, &again);
	// What was said has no time where an older program wrote it: of a job that never began again it is of now.
	bool hangs_now = has_hangs && !waits && (hangs.seen_s || !j->restarts) && td_pool_said_now(&hangs, j->start),
	     slow_now = has_slow && !waits && (slow.seen_s || !j->restarts) && td_pool_said_now(&slow, j->start);
	if (hangs_now)
		write_said(d, td_jm_obj(d, o, "hangs"), &hangs);
	if (slow_now)
		write_said(d, td_jm_obj(d, o, "straggler"), &slow);
	if (j->restarts > 0)
		td_jm_int(d, o, "restarts", j->restarts);
	if (j->restarts <= 0)
		return;
	if (has_hangs && !hangs_now)
		write_again(d, o, "it hung: ", &hangs);
	else if (has_again)
		write_again(d, o, "", &again);
	else if (has_slow && !slow_now)
		write_again(d, o, "it was slow: ", &slow);
}

uint64_t td_gateway_progress_print(uint64_t h, const char *admin_comment)
{
	struct td_pool_said s;
	for (int what = TD_SAID_HANGS; what <= TD_SAID_AGAIN; what++)
		if (td_pool_said(admin_comment, (enum td_pool_said_what)what, &s)) {
			h = td_hash(h, &s.seen_s, sizeof(s.seen_s));
			h = td_hash_str(h, s.words);
		}
	return h;
}

// ---- why, by slurmdbd ----

struct progress_known {
	int64_t job, restarts, ended; // ended 0: slurmdbd did not know it at asked_ms
	int64_t asked_ms;
	char why[96], node[TD_SAID_NODE];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards both
static struct progress_known known[KNOWN];
static size_t next;

static bool look_up(int64_t job, int64_t restarts, struct progress_known *ret)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < KNOWN && !found; i++)
		if (known[i].job == job && known[i].restarts == restarts) {
			*ret = known[i];
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

static void keep(const struct progress_known *k)
{
	size_t at = KNOWN;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < KNOWN && at == KNOWN; i++)
		if (known[i].job == k->job && known[i].restarts == k->restarts)
			at = i;
	if (at == KNOWN) {
		at = next;
		next = (next + 1) % KNOWN;
	}
	known[at] = *k;
	pthread_mutex_unlock(&lock);
}

static const char *words_of(const char *state)
{
	return td_starts(state, "NODE_FAIL")   ? "its node failed"
	       : td_starts(state, "PREEMPTED") ? "it made room for another job"
	       : td_starts(state, "TIMEOUT")   ? "its time was over"
	       : td_starts(state, "FAILED")    ? "its start failed"
					       : "it was queued again (scontrol requeue, or Tandem)";
}

static void ask(struct td_gateway_ask *q, struct td_slurm *client, const struct td_slurm_job *j,
		struct progress_known *ret)
{
	td_auto_runs struct td_slurm_runs runs = {0};
	const struct td_slurm_run *last = NULL;
	*ret = (struct progress_known){.job = j->id, .restarts = j->restarts, .asked_ms = td_mono_ms(&td_clock_system)};
	if (!td_slurm_history_job(client, q->g->o.cluster, j->id, td_gateway_cancel(q), &runs, NULL))
		for (size_t i = 0; i < runs.n; i++) {
			const struct td_slurm_run *r = &runs.v[i];
			// The run that waits or goes on now was submitted last.
			if (r->id == j->id && r->start && r->end && r->submit < j->submit &&
			    td_streq(r->user, j->user) && (!last || r->submit > last->submit))
				last = r;
		}
	if (last) {
		ret->ended = last->end;
		snprintf(ret->why, sizeof(ret->why), "%s", words_of(last->state));
		if (!strpbrk(last->nodes, ",["))
			snprintf(ret->node, sizeof(ret->node), "%s", last->nodes);
	}
	keep(ret);
}

void td_gateway_progress_step(struct td_gateway_ask *q, struct td_slurm *client, const yyjson_val *entry,
			      const struct td_slurm_job *j, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	static const char *const keys[] = {"hangs", "straggler", "restarts", "again"};
	bool any = false, has_task = td_jm_get(o, "task");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *one = td_jm_new();
	yyjson_mut_val *w = yyjson_mut_doc_get_root(one);
	if (has_task)
		return;
	td_gateway_progress_write(one, w, j);
	if (j->restarts > 0 && !td_jm_get(w, "again")) {
		struct progress_known k;
		bool had = look_up(j->id, j->restarts, &k);
		if (!q->silent && (!had || (!k.ended && td_mono_ms(&td_clock_system) - k.asked_ms > ASK_MS))) {
			ask(q, client, j, &k);
			had = true;
		}
		if (had && k.ended) {
			yyjson_mut_val *a = td_jm_obj(one, w, "again");
			td_jm_str(one, a, "why", k.why);
			td_jm_str(one, a, "node", *k.node ? k.node : NULL);
			td_jm_int(one, a, "at", k.ended);
		}
	}
	const yyjson_val *began = td_jget(entry, "began");
	if (j->restarts > 0 && td_jint(began, "restarts", -1) == j->restarts &&
	    td_jint(began, "task", -1) == (j->array ? j->task : -1))
		td_jm_str(one, td_jm_obj(one, w, "again"), "checkpoint", td_jstr(began, "checkpoint"));
	for (size_t i = 0; i < TD_LEN(keys); i++) {
		yyjson_mut_val *v = td_jm_get(w, keys[i]);
		any |= v != NULL;
		if (v)
			td_jm_set(d, o, keys[i], yyjson_mut_val_mut_copy(d, v));
	}
	if (any && j->array && j->task >= 0)
		td_jm_int(d, o, "task", j->task);
}
