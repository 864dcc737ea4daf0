// Jobs move so that one that waits has room (pool/defrag.h): the first of each partition's queue is looked at,
// and where the room that it needs is there in pieces, preemptible batch jobs are queued again, and pods that are made
// again end.
//
// Slurm's REST API cannot queue a job again (docs/facts/slurm.md S-J14), so the job's first node is asked to, by an
// annotation (standin/watch.h) that names the run: a bridge that dies leaves at most one that is done once more
// or taken back by the next.
#include "bridge/policy/look.h"
#include "bridge/scheduler/victim.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"
#include "slurm/bound.h"
#include "slurm/hostlist.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MINUTE_MS = 60000 };

int64_t td_moves_priority(const struct td_settings *s, const char *qos)
{
	for (size_t i = 0; qos && i < s->n_qos; i++)
		if (!strcasecmp(s->qos[i].name, qos))
			return s->qos[i].priority;
	return 0;
}

// Where else it may run. NULL: that is not known.
static const bool *nodes_of(struct td_moves_look *k, const struct td_policies_known *j)
{
	static const char *const none[TD_POOL_KINDS] = {0};
	const char *partition = j->partition, *excluded = j->excluded;
	for (size_t i = 0; i < k->lists.n; i++)
		if (!strcmp(k->lists.partition[i], partition) && !strcmp(k->lists.excluded[i], excluded))
			return k->lists.feasible[i];
	td_auto_strv struct td_strv no = {0};
	if (k->lists.n == TD_MOVES_LISTS || (*excluded && td_hostlist_parse(excluded, &no, NULL)))
		return NULL;
	bool *all = td_slurm_nodes_in(k->nodes, &no);
	for (size_t i = 0; i < k->nodes->n; i++)
		all[i] = !all[i];
	td_auto_free struct td_pool_node *v = NULL;
	td_bridge_pool_nodes(k->nodes, all, none, partition, &v);
	for (size_t i = 0; i < k->nodes->n; i++)
		all[i] = v[i].feasible;
	k->lists.partition[k->lists.n] = partition;
	k->lists.excluded[k->lists.n] = excluded;
	return k->lists.feasible[k->lists.n++] = all;
}

size_t td_moves_parts(struct td_moves_look *k, const struct td_policies_known *j, struct td_pool_move_part *ret)
{
	for (size_t i = 0; i < j->n_parts; i++) {
		const struct td_slurm_job_node *p = &j->parts[i];
		const struct td_slurm_node *x = td_slurm_node_find(k->nodes, p->name);
		if (!x)
			return 0;
		ret[i] = (struct td_pool_move_part){
			.node = (int)(x - k->nodes->v),
			.has = {.cpus = p->cpus, .memory_mb = p->memory_mb, .exclusive = j->whole}};
		for (int m = 0; m < TD_POOL_KINDS && k->kinds[m]; m++)
			ret[i].has.gres[m] = td_devices_of_gres(p->gres, k->kinds[m]);
	}
	return j->n_parts;
}

// What the one that waits wants. False: it is not known well enough.
static bool want(struct td_moves_look *k, const struct td_ask_wait_parts *w)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(k->b->asks, k->waiter->id);
	int64_t members = a ? (int64_t)td_ask_tasks(a) : 0, nodes = w->nodes ? (int64_t)w->nodes : 1;
	k->pool.want = w->least;
	k->pool.spread = members < 2;
	k->pool.units = members < 2 ? nodes : members;
	k->pool.most = 0;
	if (members >= 2) {
		struct td_pool_want own = {0};
		bool known = td_ask_waits_least(k->b->asks, a, &own);
		k->pool.spread = own.alone;
		k->pool.most = own.nodes;
		return known && (!own.nodes || !k->starve); // who starves: how near they have to be is not looked at
	}
	if (k->must && !k->starve)
		return false; // who moves would have to leave these very nodes
	// Tasks may be dealt out unevenly: then a node's share is not known.
	for (int m = 0; m < TD_POOL_KINDS; m++)
		if (w->want.gres[m] != w->least.gres[m])
			return false;
	int64_t share = (k->waiter->want_cpus + nodes - 1) / nodes;
	k->pool.want.cpus = share > w->least.cpus ? share : w->least.cpus;
	return true;
}

// Words for who waits: "2 times 8 gpu".
static void want_words(const struct td_moves_look *k, struct td_buf *t)
{
	const char *sep = "";
	if (k->pool.units > 1)
		td_buf_printf(t, "%" PRId64 " times ", k->pool.units);
	for (int m = 0; m < TD_POOL_KINDS && k->kinds[m]; m++)
		if (k->pool.want.gres[m]) {
			td_buf_printf(t, "%s%" PRId64 " %s", sep, k->pool.want.gres[m], k->kinds[m]);
			sep = " and ";
		}
	if (!*sep)
		td_buf_printf(t, "%" PRId64 " CPUs", k->pool.want.cpus);
	if (k->pool.spread && k->pool.units == 1)
		td_buf_puts(t, " on one node");
}

// A batch job that can be queued again, or pods whose controllers make other ones.
static bool may_move(const struct td_moves_look *k, const struct td_policies_known *j)
{
	if (j->named || j->bound || !td_settings_preemptible(k->s, j->qos))
		return false;
	return j->is == TD_VICTIM_MAY ? td_victim_again(k->b, j->id) : j->is == TD_VICTIM_NONE && j->batch && !j->ours;
}

// Chooses among those whose slice is over in `in_s`. Returns how many move.
static size_t choose_once(struct td_moves_look *k, int64_t in_s, struct td_pool_move_part *parts, size_t *ret)
{
	td_auto_free struct td_pool_move_job *v = td_calloc(k->f->n + 1, sizeof(*v));
	int64_t now_s = td_real_ms(k->b->clock) / 1000, least = td_moves_priority(k->s, k->waiter->qos);
	size_t n = 0, used = 0;
	for (size_t i = 0; i < k->f->n; i++) {
		struct td_policies_known *j = &k->f->v[i];
		if (!j->read || j->stale || j->phase != TD_PHASE_RUNNING || !j->n_parts ||
		    td_moves_priority(k->s, j->qos) > least || !may_move(k, j))
			continue;
		int64_t ran = now_s > j->start_s ? now_s - j->start_s : 0,
			slice = td_settings_slice_s(k->s, j->qos) - ran;
		const bool *feasible = nodes_of(k, j);
		if (slice > in_s || !feasible || !td_moves_parts(k, j, parts + used))
			continue;
		v[n] = (struct td_pool_move_job){parts + used, j->n_parts, feasible, ran * (int64_t)j->n_parts};
		k->slice_s[n] = slice;
		k->known[n++] = j;
		used += j->n_parts;
	}
	k->pool.jobs = v;
	k->pool.n_jobs = n;
	n = td_pool_defrag(&k->pool, ret);
	k->pool.jobs = NULL;
	return n;
}

// May it be queued again, and is it bound to no place? 0: j->bound says it.
static int read_bound(struct td_moves_look *k, struct td_slurm *slurm, struct td_policies_known *j,
		      struct td_error *err)
{
	struct td_slurm_bound is = {0};
	int r = td_slurm_job_bound(slurm, j->id, k->b->cancel, &is, err);
	if (r)
		return r;
	j->checked = true;
	j->ends = j->is != TD_VICTIM_MAY && (!is.requeue || !j->batch); // of pods their owner makes other ones
	j->bound = is.bound || j->ends;
	j->tied = is.tied;
	return 0;
}

// Of one that was read: may it not go?
static bool stays(const struct td_moves_look *k, const struct td_policies_known *j)
{
	return k->starve ? j->tied || (j->ends && !k->s->starve_ends) : j->bound;
}

// The same, of jobs that may be queued again and are bound to no place: that is read once of each that is chosen.
// False: it could not be read of all, and the next pass goes on.
static bool choose(struct td_moves_look *k, struct td_slurm *slurm, int64_t in_s, struct td_pool_move_part *parts,
		   struct td_moves_set *ret)
{
	enum { READS = 32 };
	for (int reads = 0;;) {
		size_t n = k->starve ? td_starve_choose(k, in_s, parts, ret) : choose_once(k, in_s, parts, ret->v);
		bool all = true;
		for (size_t i = 0; i < n; i++) {
			struct td_policies_known *j = k->known[ret->v[i]];
			struct td_error e = TD_ERROR_INIT;
			if (j->checked)
				continue;
			bool ends = j->ends;
			if (reads++ == READS || read_bound(k, slurm, j, &e))
				return false;
			all &= !stays(k, j) && (j->ends == ends || !k->starve); // who ends goes last
		}
		if (all) {
			ret->n = n;
			return true;
		}
	}
}

// ---- acting ----

static int annotate(struct td_bridge *b, const char *node, const char *value, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(b->nodes, NULL, node);
	// What was taken back a moment ago may still be seen here, so a wish is always written.
	if (!o || (!value && !td_object_annotation(o, TD_ANN_REQUEUE)))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", o->uid);
	yyjson_mut_val *m = td_jm_obj(d, root, "metadata.annotations");
	if (value)
		td_jm_key_str(d, m, TD_ANN_REQUEUE, value);
	else
		yyjson_mut_obj_add_null(d, m, TD_ANN_REQUEUE);
	return td_kube_patch(b->kube, TD_AT(&td_nodes, NULL, node), TD_PATCH_MERGE, root, b->cancel, NULL, err);
}

// Takes every wish back.
static void sweep(struct td_bridge *b)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(b->nodes, NULL, &all);
	for (size_t i = 0; i < all.n; i++) {
		struct td_error e = TD_ERROR_INIT;
		if (td_object_annotation(all.v[i], TD_ANN_REQUEUE) && annotate(b, all.v[i]->name, NULL, &e))
			td_debug("defragmentation: %s", e.msg);
	}
}

// "job 12", "pod ml/train-0 (job 12)"
static void name_of(const struct td_moves_look *k, const struct td_policies_known *j, struct td_buf *t, const char *sep)
{
	td_auto_free char *pods = j->is == TD_VICTIM_NONE ? NULL : td_victim_name(k->b, j->id);
	if (pods)
		td_buf_printf(t, "%s%s (job %s)", sep, pods, j->label);
	else
		td_buf_printf(t, "%sjob %s%s", sep, j->label, k->starve && j->ends ? " (it ends)" : "");
}

// Is the job as it was when it was chosen? Then *ret_text is its admin comment as it shall be, which says why it
// moves; what others have written stays. Of pods it is NULL: their job's is their mark. Caller frees.
static int prepare(struct td_moves_look *k, struct td_slurm *slurm, struct td_policies_known *j, const char *wants,
		   struct td_pool_leave *ret, char **ret_text, struct td_error *err)
{
	td_auto_job struct td_slurm_job now = {0};
	int r = td_slurm_job(slurm, j->id, k->b->cancel, &now, err);
	if (r || (r = read_bound(k, slurm, j, err)))
		return r;
	if (now.restarts != j->restarts || now.start != j->start_s || td_job_phase(now.states) != TD_PHASE_RUNNING ||
	    now.preempt || stays(k, j))
		return td_fail(err, TD_CONFLICT, "job %s has changed", j->label);
	if (!td_pool_leave_signal(now.comment, &j->signal))
		j->signal = (struct td_pool_leave_signal){0};
	*ret = (struct td_pool_leave){.waiter = k->waiter->id, .restarts = now.restarts, .ends = k->starve && j->ends};
	if (k->starve)
		ret->at_s = td_real_ms(k->b->clock) / 1000 + td_settings_grace_s(k->s, j->qos);
	if (j->is != TD_VICTIM_MAY)
		*ret_text = td_pool_leave_write(ret, now.nodes_text, wants, now.admin_comment);
	return 0;
}

// Tells each of the set why it moves, once all of them are known to be as they were. Who was told when this bridge dies,
// or Slurm does not answer any more, goes: the next pass counts on his room and chooses the others anew.
static int tell(struct td_moves_look *k, struct td_slurm *slurm, const struct td_moves_set *set, const char *wants,
		struct td_error *err)
{
	td_auto_strv struct td_strv texts = {0};
	struct td_pool_leave leave[TD_DEFRAG_MOST];
	int r = 0;
	for (size_t i = 0; i < set->n && !r; i++) {
		char *text = NULL;
		td_auto_free char *why =
			k->starve ? td_asprintf("%s (%s)", wants, td_pool_starve_words(set->why[i])) : td_strdup(wants);
		r = prepare(k, slurm, k->known[set->v[i]], why, &leave[i], &text, err);
		if (!r)
			td_strv_steal(&texts, text ? text : td_strdup(""));
	}
	for (size_t i = 0; i < set->n && !r; i++) {
		struct td_policies_known *j = k->known[set->v[i]];
		if (j->is == TD_VICTIM_MAY) {
			td_auto_free char *why =
				td_asprintf("job %" PRId64 " has room, which waits for %s%s%s%s", k->waiter->id, wants,
					    k->starve ? " (" : "", k->starve ? td_pool_starve_words(set->why[i]) : "",
					    k->starve ? ")" : "");
			td_victim_tell(k->b, &(struct td_victim_wish){.job = j->id,
								      .start = j->start_s,
								      .restarts = j->restarts,
								      .waiter = k->waiter->id,
								      .why = why});
			continue;
		}
		r = td_slurm_job_update(slurm, j->id, &(struct td_slurm_job_change){.admin_comment = texts.v[i]},
					k->b->cancel, err);
		if (r)
			j->stale = true; // it may have been told all the same: its record says
		else
			j->leave = leave[i];
	}
	return r;
}

// Asks the node to queue all those of its jobs again for which `of` is true. False: it could not be asked.
static bool ask_node(struct td_bridge *b, const char *node, const struct td_policies_facts *f,
		     bool (*of)(const struct td_policies_known *j, const void *ctx), const void *ctx)
{
	td_auto_buf struct td_buf wish = {0};
	struct td_error e = TD_ERROR_INIT;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].n_parts && of(&f->v[i], ctx) && !strcmp(f->v[i].parts[0].name, node))
			td_buf_printf(&wish, "%s%s:%" PRId64, wish.len ? " " : "", f->v[i].label, f->v[i].restarts);
	if (!annotate(b, node, td_buf_str(&wish), &e))
		return true;
	td_warn("making room: node %s: %s", node, e.msg);
	return false;
}

static bool is_asked(const struct td_policies_known *j, const void *ctx)
{
	return j->phase == TD_PHASE_RUNNING && j->going && j->is == TD_VICTIM_NONE && j->asked == j->restarts + 1 &&
	       !j->leave.ends;
}

bool td_moves_asks(struct td_policies_known *j, enum td_pool_leave_do d)
{
	if (d != TD_LEAVE_GO)
		j->asked = 0; // who is told anew is asked anew
	if (d != TD_LEAVE_GO || j->asked == j->restarts + 1)
		return false;
	j->asked = j->restarts + 1;
	return true;
}

// One that was told hears its signal, or ends, if it still runs as it did when it was told.
static void reach(struct td_bridge *b, struct td_slurm *slurm, struct td_policies_known *j, bool ends)
{
	td_auto_job struct td_slurm_job now = {0};
	struct td_error e = TD_ERROR_INIT;
	const struct td_slurm_signal signal = {j->signal.name, j->signal.batch};
	int r = td_slurm_job(slurm, j->id, b->cancel, &now, &e);
	if (!r &&
	    (now.restarts != j->restarts || now.start != j->start_s || td_job_phase(now.states) != TD_PHASE_RUNNING))
		return;
	r = r      ? r
	    : ends ? td_slurm_job_end(slurm, j->id, now.name, b->cancel, &e)
		   : td_slurm_job_signal(slurm, j->id, now.name, &signal, b->cancel, &e);
	if (r && r != TD_NOT_FOUND) {
		td_warn("making room: job %s: %s", j->label, e.msg);
		*(ends ? &j->asked : &j->signalled) = 0; // the next pass tries again
	} else if (!r) {
		td_info("making room: job %s %s%s", j->label, ends ? "ends" : "hears ", ends ? "" : signal.name);
	}
}

// A bridge that has just begun to lead does not know whether another one has sent it, and sends it.
static void signal_one(struct td_bridge *b, struct td_slurm *slurm, struct td_policies_known *j, int64_t now_s)
{
	if (j->signalled == j->restarts + 1 || !td_pool_leave_signal_now(&j->signal, &j->leave, now_s))
		return;
	j->signalled = j->restarts + 1;
	reach(b, slurm, j, false);
}

// Goes on with those who are to make room at a time, whichever bridge has told them. True: somebody is about to go.
static bool leaving(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm,
		    struct td_policies_facts *f, struct td_policies_moves *m)
{
	int64_t now_s = td_real_ms(b->clock) / 1000, now_ms = td_now(b);
	bool any = false, asked = false;
	for (size_t i = 0; i < f->n; i++) {
		struct td_policies_known *j = &f->v[i];
		int64_t for_job = 0;
		j->going = false;
		j->is = TD_VICTIM_NONE;
		if (j->phase != TD_PHASE_RUNNING || !j->n_parts)
			continue;
		j->is = (int)td_victim_look(b, j->id, &for_job);
		j->going = j->is == TD_VICTIM_GOES;
		j->goes_for = for_job;
		any |= for_job > 0;
		if (for_job > 0)
			td_moves_pause(m, for_job, now_ms);
		if (j->is != TD_VICTIM_NONE || !j->leave.at_s || !s->starve_s)
			continue;
		const struct td_policies_known *w = td_policies_facts_find(f, j->leave.waiter);
		enum td_pool_leave_do d =
			td_pool_leave(&j->leave, j->restarts, w && w->phase == TD_PHASE_WAITING, now_s);
		j->going = d != TD_LEAVE_STAYS;
		any |= j->going;
		if (j->going) {
			td_moves_pause(m, j->leave.waiter, now_ms);
			j->goes_for = j->leave.waiter;
		}
		if (d != TD_LEAVE_GRACE)
			j->signalled = 0; // who is told anew hears it anew
		else
			signal_one(b, slurm, j, now_s);
		bool now = td_moves_asks(j, d);
		if (now && j->leave.ends) {
			reach(b, slurm, j, true);
		} else if (now) {
			m->wishes = true;
			// The next pass tries again.
			if (!ask_node(b, j->parts[0].name, f, is_asked, NULL))
				j->asked = 0;
		}
		asked |= is_asked(j, NULL);
	}
	if (m->wishes && !asked && !td_policies_moves_open(m)) {
		sweep(b);
		m->wishes = false;
	}
	return any;
}

static bool is_moved(const struct td_policies_known *j, const void *ctx)
{
	const struct td_policies_move *m = ctx;
	for (size_t i = 0; i < m->n && j->is == TD_VICTIM_NONE; i++)
		if (m->jobs[i] == j->id)
			return true;
	return false;
}

static void act(struct td_moves_look *k, struct td_slurm *slurm, const struct td_moves_set *of,
		struct td_policies_moves *moves, struct td_policies_move *m)
{
	td_auto_buf struct td_buf wants = {0}, names = {0}, why = {0};
	if (k->starve)
		td_starve_words(k, &why);
	else
		td_buf_puts(&why, "free in pieces only");
	struct td_error e = TD_ERROR_INIT;
	int64_t most_s = 0;
	want_words(k, &wants);
	*m = (struct td_policies_move){
		.waiter = k->waiter->id, .at_ms = td_now(k->b), .open = true, .starve = k->starve};
	if (tell(k, slurm, of, td_buf_str(&wants), &e)) {
		td_info("making room for job %" PRId64 ": not all move: %s", k->waiter->id, e.msg);
		m->open = false;
		return;
	}
	for (size_t i = 0; i < of->n; i++) {
		const struct td_policies_known *j = k->known[of->v[i]];
		int64_t grace = k->starve || j->is == TD_VICTIM_MAY ? td_settings_grace_s(k->s, j->qos) : 0;
		if (j->is == TD_VICTIM_MAY && !grace)
			grace = k->s->end_grace_s;
		most_s = grace > most_s ? grace : most_s;
		m->jobs[m->n] = j->id;
		m->restarts[m->n++] = j->restarts;
		name_of(k, j, &names, i ? ", " : "");
	}
	m->until_ms = m->at_ms + most_s * 1000 + MINUTE_MS;
	if (k->starve)
		leaving(k->b, k->s, slurm, k->f, moves);
	for (size_t i = 0; !k->starve && i < of->n; i++)
		if (k->known[of->v[i]]->is == TD_VICTIM_NONE)
			ask_node(k->b, k->known[of->v[i]]->parts[0].name, k->f, is_moved, m);
	td_info("job %" PRId64 " waits for %s, %s: %s: %s", k->waiter->id, td_buf_str(&wants), td_buf_str(&why),
		k->starve ? "these make room" : "these move", td_buf_str(&names));
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(k->b->clusters, k->b->o.ns, k->b->o.cluster);
	if (sc)
		td_kube_record(k->b->recorder, TD_ABOUT(sc, &td_slurmclusters), "Normal",
			       k->starve ? "MadeRoom" : "Defragmented",
			       "job %" PRId64 " of %s waits for %s, %s: %s: %s", k->waiter->id, k->waiter->user,
			       td_buf_str(&wants), td_buf_str(&why), k->starve ? "these make room" : "these move",
			       td_buf_str(&names));
}

// Is a job of the move still running as it was?
static bool goes_on(const struct td_policies_facts *f, const struct td_policies_move *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct td_policies_known *k = td_policies_facts_find(f, m->jobs[i]);
		if (k && k->restarts == m->restarts[i] && k->phase == TD_PHASE_RUNNING)
			return true;
	}
	return false;
}

// The waiter's place, else the oldest one that nobody needs; NULL: all are needed.
static struct td_policies_move *place(struct td_policies_moves *m, int64_t waiter)
{
	struct td_policies_move *oldest = NULL;
	for (size_t i = 0; i < TD_LEN(m->last); i++) {
		struct td_policies_move *x = &m->last[i];
		if (x->waiter == waiter)
			return x;
		if (!x->open && (!oldest || x->at_ms < oldest->at_ms))
			oldest = x;
	}
	return oldest;
}

struct td_policies_move *td_moves_slot(struct td_policies_moves *m, int64_t waiter, int64_t now_ms)
{
	return td_moves_paused(m, waiter, now_ms) ? NULL : place(m, waiter);
}

bool td_moves_paused(struct td_policies_moves *m, int64_t waiter, int64_t now_ms)
{
	const struct td_policies_move *x = place(m, waiter);
	return x && x->waiter == waiter && now_ms - x->at_ms < MINUTE_MS;
}

void td_moves_pause(struct td_policies_moves *m, int64_t waiter, int64_t now_ms)
{
	struct td_policies_move *x = place(m, waiter);
	if (!x)
		return;
	if (x->waiter != waiter)
		*x = (struct td_policies_move){.waiter = waiter};
	x->at_ms = now_ms;
}

// ---- one that waits ----

static void names_of(const struct td_moves_look *k, const struct td_moves_set *set, struct td_buf *t)
{
	enum { NAMED = 8 };
	for (size_t i = 0; i < set->n && i < NAMED; i++)
		name_of(k, k->known[set->v[i]], t, !i ? "" : i + 1 == set->n ? " and " : ", ");
	if (set->n > NAMED)
		td_buf_printf(t, " and %zu more", set->n - NAMED);
}

// Fills the words. True: jobs were told to leave.
static bool one(struct td_moves_look *k, struct td_slurm *slurm, struct td_policies_moves *m, bool busy, int64_t since,
		struct td_buf *t)
{
	int64_t now_s = td_real_ms(k->b->clock) / 1000, now_ms = td_now(k->b), most = 0;
	int64_t due_s = since + k->after_s - now_s, in_s = due_s > 0 ? due_s : 0;
	bool first = td_streq(k->waiter->reason, "Resources");
	if (!first && !(k->starve && td_streq(k->waiter->reason, "Priority")))
		return false;
	first = first || td_pool_starve_at_front(k->waiter->nice);

	struct td_moves_set set = {0};
	size_t parts = 0;
	for (size_t i = 0; i < k->f->n; i++)
		parts += k->f->v[i].n_parts;
	td_auto_free struct td_pool_move_part *room = td_calloc(parts + 1, sizeof(*room));
	if (!choose(k, slurm, in_s, room, &set) || (!set.n && !set.comes && !choose(k, slurm, INT64_MAX, room, &set)))
		return false;
	td_buf_puts(t, "It waits for ");
	want_words(k, t);
	if (k->starve) {
		td_buf_puts(t, ", and ");
		td_starve_words(k, t);
		td_buf_puts(t, "; ");
	} else {
		td_buf_printf(t, "; %" PRId64 " devices are free in pieces; ", td_pool_defrag_free(&k->pool));
	}
	k->comes = set.comes;
	if (set.comes) {
		td_buf_puts(t, "who makes room leaves already.");
		if (!first && !in_s)
			td_starve_raise(k, slurm);
		return false;
	}
	if (!set.n) {
		td_buf_puts(t, k->starve ? "nobody may be asked to make room." : "nobody may move so that they fit.");
		return false;
	}
	for (size_t i = 0; i < set.n; i++)
		most = k->slice_s[set.v[i]] > most ? k->slice_s[set.v[i]] : most;
	in_s = most > in_s ? most : in_s;
	names_of(k, &set, t);
	td_buf_puts(t, k->starve ? (set.n == 1 ? " makes room" : " make room") : set.n == 1 ? " moves" : " move");
	if (in_s)
		td_buf_printf(t, " in %" PRId64 " s.", in_s);
	else
		td_buf_puts(t, " now.");
	if (!first && !in_s)
		td_starve_raise(k, slurm);
	struct td_policies_move *at = in_s || busy || !first ? NULL : td_moves_slot(m, k->waiter->id, now_ms);
	if (!at)
		return false;
	act(k, slurm, &set, m, at);
	return at->open;
}

bool td_moves_head(struct td_moves_look *of, struct td_slurm *slurm, struct td_policies_moves *m, int64_t id, bool busy,
		   struct td_policies_words *ret)
{
	td_auto_job struct td_slurm_job j = {0};
	struct td_bridge *b = of->b;
	const struct td_policies_facts *f = of->f;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	struct td_error e = TD_ERROR_INIT;
	const struct td_slurm_nodes *all = of->nodes ? of->nodes : snap ? &snap->nodes : NULL;
	*ret = (struct td_policies_words){.job = id};
	if (!all || td_slurm_job(slurm, id, b->cancel, &j, &e) || td_job_phase(j.states) != TD_PHASE_WAITING)
		return false;
	struct td_ask_wait *wait = td_ask_wait_of_job(&j);
	if (!wait)
		return false;

	struct td_ask_wait_parts w;
	struct td_moves_look k = *of;
	k.nodes = all;
	k.waiter = &j;
	td_ask_wait_show(wait, &w);
	memcpy(k.kinds, w.kinds, sizeof(k.kinds));
	td_auto_free bool *ok = td_calloc(all->n + 1, sizeof(*ok)), *excluded = td_slurm_nodes_in(all, w.excluded),
			  *only = td_slurm_nodes_in(all, w.only);
	td_auto_free struct td_pool_node *nodes = NULL;
	td_auto_free struct td_policies_known **known = td_calloc(f->n + 1, sizeof(*known));
	td_auto_free int64_t *slices = td_calloc(f->n + 1, sizeof(*slices));
	td_auto_free bool *must = w.must->n ? td_slurm_nodes_in(all, w.must) : NULL;
	for (size_t i = 0; i < all->n; i++)
		ok[i] = !excluded[i] && (!w.only->n || only[i]);
	td_bridge_pool_nodes(all, ok, k.kinds, w.partition, &nodes);
	k.pool.nodes = nodes;
	k.pool.n = all->n;
	k.known = known;
	k.must = must;
	k.slice_s = slices;
	td_auto_buf struct td_buf t = {0};
	struct td_slurm_bound bound = {0};
	bool known_well = !td_slurm_job_bound(slurm, id, b->cancel, &bound, &e) && !bound.bound && want(&k, &w);
	bool acted = known_well && one(&k, slurm, m, busy, bound.eligible > j.submit ? bound.eligible : j.submit, &t);
	if (k.served && known_well && (acted || k.comes || td_moves_paused(m, id, td_now(b))))
		td_starve_serve(&k);
	snprintf(ret->text, sizeof(ret->text), "%s", td_buf_str(&t));
	for (size_t i = 0; i < k.lists.n; i++)
		free(k.lists.feasible[i]);
	td_ask_wait_unref(wait);
	return acted;
}

bool td_policies_moves_open(const struct td_policies_moves *m)
{
	for (size_t i = 0; i < TD_LEN(m->last); i++)
		if (m->last[i].open)
			return true;
	return false;
}

size_t td_policies_defrag_pass(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm,
			       struct td_policies_facts *f, struct td_policies_moves *m,
			       struct td_policies_words ret[TD_POLICIES_HEADS])
{
	// A bridge that has just begun to lead, or what was turned off, takes back what was asked.
	bool asked = td_policies_moves_open(m), on = s->defragment_s || s->starve_s;
	if (!m->swept || (asked && !on)) {
		sweep(b);
		m->swept = true;
	}
	if (!s->starve_s && m->wishes) {
		sweep(b);
		m->wishes = false;
	}
	if (!s->starve_s)
		td_starve_lower(b, f, slurm, NULL);
	if (!on) {
		for (size_t i = 0; i < TD_LEN(m->last); i++)
			m->last[i].open = false;
		return 0;
	}

	// The first of each partition's queue.
	const struct td_policies_known *heads[TD_POLICIES_HEADS];
	size_t n = 0, words = 0;
	for (size_t i = 0; s->defragment_s && i < f->n; i++) {
		const struct td_policies_known *k = &f->v[i];
		size_t at = 0;
		if (!k->read || k->phase != TD_PHASE_WAITING || k->held || k->aside || k->nobodys || !k->partition)
			continue;
		while (at < n && strcmp(heads[at]->partition, k->partition) != 0)
			at++;
		if (at == TD_LEN(heads))
			continue;
		if (at == n || k->value - k->nice > heads[at]->value - heads[at]->nice)
			heads[at] = k;
		n += at == n;
	}

	bool busy = leaving(b, s, slurm, f, m), apart = false;
	for (size_t i = 0; i < TD_LEN(m->last); i++) {
		struct td_policies_move *x = &m->last[i];
		if (x->open && (!goes_on(f, x) || td_now(b) > x->until_ms)) {
			if (goes_on(f, x))
				td_warn("making room for job %" PRId64 ": not all have left in time", x->waiter);
			x->open = false;
			// What is asked of others for another one who starves stands in the same places.
			if (x->starve)
				m->wishes = true;
			else
				sweep(b);
		}
		busy |= x->open;
		apart |= x->open && !x->starve; // it moves for a defragmentation
	}
	for (size_t i = 0; i < n && !td_cancelled(b->cancel); i++) {
		struct td_moves_look k = {.b = b, .s = s, .f = f, .after_s = s->defragment_s};
		bool acted = td_moves_head(&k, slurm, m, heads[i]->id, busy, &ret[words]);
		busy |= acted;
		apart |= acted;
		words += *ret[words].text != '\0';
	}
	if (s->starve_s)
		words += td_starve_pass(&(struct td_moves_look){.b = b, .s = s, .f = f}, slurm, m, apart, ret + words,
					TD_POLICIES_HEADS - words);
	return words;
}
