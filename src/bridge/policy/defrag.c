// Jobs move so that one that waits has room (pool/defrag.h): the first of each partition's queue is looked at,
// and where the room that it needs is there in pieces, preemptible batch jobs are queued again.
//
// Slurm's REST API cannot queue a job again (docs/facts/slurm.md S-J14), so the job's first node is asked to, by an
// annotation (standin/watch.h) that names the run: a bridge that dies leaves at most one that is done once more
// or taken back by the next.
#include "bridge/policy/look.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"
#include "slurm/bound.h"

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

static const bool *nodes_of(struct td_moves_look *k, const char *partition)
{
	static const char *const none[TD_POOL_KINDS] = {0};
	for (size_t i = 0; i < k->lists.n; i++)
		if (!strcmp(k->lists.partition[i], partition))
			return k->lists.feasible[i];
	if (k->lists.n == TD_MOVES_LISTS)
		return NULL;
	bool *all = td_calloc(k->nodes->n + 1, sizeof(*all));
	memset(all, true, k->nodes->n);
	td_auto_free struct td_pool_node *v = NULL;
	td_bridge_pool_nodes(k->nodes, all, none, partition, &v);
	for (size_t i = 0; i < k->nodes->n; i++)
		all[i] = v[i].feasible;
	k->lists.partition[k->lists.n] = partition;
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
	if (members >= 2)
		return true;
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

// Chooses among those whose slice is over in `in_s`. Returns how many move.
static size_t choose_once(struct td_moves_look *k, int64_t in_s, struct td_pool_move_part *parts, size_t *ret)
{
	td_auto_free struct td_pool_move_job *v = td_calloc(k->f->n + 1, sizeof(*v));
	int64_t now_s = td_real_ms(k->b->clock) / 1000, least = td_moves_priority(k->s, k->waiter->qos);
	size_t n = 0, used = 0;
	for (size_t i = 0; i < k->f->n; i++) {
		struct td_policies_known *j = &k->f->v[i];
		if (!j->read || j->stale || j->phase != TD_PHASE_RUNNING || !j->n_parts || j->bound ||
		    !td_settings_preemptible(k->s, j->qos) || td_moves_priority(k->s, j->qos) > least)
			continue;
		int64_t ran = now_s > j->start_s ? now_s - j->start_s : 0,
			slice = td_settings_slice_s(k->s, j->qos) - ran;
		const bool *feasible = nodes_of(k, j->partition);
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
	j->bound = is.bound || !is.requeue;
	return 0;
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
			if (reads++ == READS || read_bound(k, slurm, j, &e))
				return false;
			all &= !j->bound;
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

// Is the job as it was when it was chosen? Then *ret_text is its admin comment as it shall be, which says why it
// moves; what others have written stays. Caller frees.
static int prepare(struct td_moves_look *k, struct td_slurm *slurm, struct td_policies_known *j, const char *wants,
		   char **ret_text, struct td_error *err)
{
	static const char mark[] = "tandem: moved ", next[] = " tandem: ";
	td_auto_job struct td_slurm_job now = {0};
	int r = td_slurm_job(slurm, j->id, k->b->cancel, &now, err);
	if (r || (r = read_bound(k, slurm, j, err)))
		return r;
	if (now.restarts != j->restarts || td_job_phase(now.states) != TD_PHASE_RUNNING || now.preempt || j->bound)
		return td_fail(err, TD_CONFLICT, "job %s has changed", j->label);
	const char *was = now.admin_comment, *at = strstr(was, mark), *rest = at ? strstr(at, next) : NULL;
	size_t keep = at ? (size_t)(at - was) : strlen(was);
	while (keep && was[keep - 1] == ' ')
		keep--;
	*ret_text = td_asprintf("%.*s%s%soff %s, so that job %" PRId64 " has room, which waits for %s%s", (int)keep,
				was, keep ? " " : "", mark, now.nodes_text, k->waiter->id, wants, rest ? rest : "");
	return 0;
}

// Tells each job of the set why it moves, once all of them are known to be as they were.
static int tell(struct td_moves_look *k, struct td_slurm *slurm, const struct td_moves_set *set, const char *wants,
		struct td_error *err)
{
	td_auto_strv struct td_strv texts = {0};
	int r = 0;
	for (size_t i = 0; i < set->n && !r; i++) {
		char *text = NULL;
		td_auto_free char *why =
			k->starve ? td_asprintf("%s (%s)", wants, td_pool_starve_words(set->why[i])) : td_strdup(wants);
		r = prepare(k, slurm, k->known[set->v[i]], why, &text, err);
		if (!r)
			td_strv_steal(&texts, text);
	}
	for (size_t i = 0; i < set->n && !r; i++)
		r = td_slurm_job_update(slurm, k->known[set->v[i]]->id,
					&(struct td_slurm_job_change){.admin_comment = texts.v[i]}, k->b->cancel, err);
	return r;
}

static void act(struct td_moves_look *k, struct td_slurm *slurm, const struct td_moves_set *of,
		struct td_policies_move *m)
{
	td_auto_buf struct td_buf wants = {0}, names = {0}, why = {0};
	if (k->starve)
		td_starve_words(k, &why);
	else
		td_buf_puts(&why, "free in pieces only");
	struct td_error e = TD_ERROR_INIT;
	const size_t *set = of->v, n = of->n;
	want_words(k, &wants);
	*m = (struct td_policies_move){.waiter = k->waiter->id, .at_ms = td_now(k->b), .open = true};
	if (tell(k, slurm, of, td_buf_str(&wants), &e)) {
		td_info("making room for job %" PRId64 ": nobody moves: %s", k->waiter->id, e.msg);
		m->open = false;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct td_policies_known *j = k->known[set[i]];
		m->jobs[m->n] = j->id;
		m->restarts[m->n++] = j->restarts;
		td_buf_printf(&names, "%s%s", i ? ", " : "", j->label);
		// All that leave this node in one wish.
		td_auto_buf struct td_buf wish = {0};
		for (size_t x = 0; x < n; x++) {
			const struct td_policies_known *o = k->known[set[x]];
			if (!strcmp(o->parts[0].name, j->parts[0].name))
				td_buf_printf(&wish, "%s%s:%" PRId64, wish.len ? " " : "", o->label, o->restarts);
		}
		if (annotate(k->b, j->parts[0].name, td_buf_str(&wish), &e))
			td_warn("making room: node %s: %s", j->parts[0].name, e.msg);
	}
	td_info("job %" PRId64 " waits for %s, %s: queued again: %s", k->waiter->id, td_buf_str(&wants),
		td_buf_str(&why), td_buf_str(&names));
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(k->b->clusters, k->b->o.ns, k->b->o.cluster);
	if (sc)
		td_kube_record(k->b->recorder, TD_ABOUT(sc, &td_slurmclusters), "Normal",
			       k->starve ? "MadeRoom" : "Defragmented",
			       "job %" PRId64 " of %s waits for %s, %s: queued again: %s", k->waiter->id,
			       k->waiter->user, td_buf_str(&wants), td_buf_str(&why), td_buf_str(&names));
}

// Is a job of the move still running as it was?
static bool goes_on(const struct td_policies_facts *f, const struct td_policies_move *m)
{
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < f->n; k++)
			if (f->v[k].id == m->jobs[i] && f->v[k].restarts == m->restarts[i] &&
			    f->v[k].phase == TD_PHASE_RUNNING)
				return true;
	return false;
}

// The place for this waiter's move; NULL: it had one within the minute.
static struct td_policies_move *slot(struct td_policies_moves *m, int64_t waiter, int64_t now_ms)
{
	struct td_policies_move *oldest = &m->last[0];
	for (size_t i = 0; i < TD_LEN(m->last); i++) {
		if (m->last[i].waiter == waiter)
			return now_ms - m->last[i].at_ms < MINUTE_MS ? NULL : &m->last[i];
		if (m->last[i].at_ms < oldest->at_ms)
			oldest = &m->last[i];
	}
	return oldest;
}

// ---- one that waits ----

static void names_of(const struct td_moves_look *k, const struct td_moves_set *set, struct td_buf *t)
{
	enum { NAMED = 8 };
	size_t n = set->n;
	td_buf_puts(t, n == 1 ? "job " : "jobs ");
	for (size_t i = 0; i < n && i < NAMED; i++)
		td_buf_printf(t, "%s%s", !i ? "" : i + 1 == n ? " and " : ", ", k->known[set->v[i]]->label);
	if (n > NAMED)
		td_buf_printf(t, " and %zu more", n - NAMED);
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
	if (!choose(k, slurm, in_s, room, &set) || (!set.n && !choose(k, slurm, INT64_MAX, room, &set)))
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
	if (!set.n) {
		td_buf_puts(t, k->starve ? "nobody may be asked to make room." : "no jobs may move so that they fit.");
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
	struct td_policies_move *at = in_s || busy || !first ? NULL : slot(m, k->waiter->id, now_ms);
	if (!at)
		return false;
	act(k, slurm, &set, at);
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
	*ret = (struct td_policies_words){.job = id};
	if (!snap || td_slurm_job(slurm, id, b->cancel, &j, &e) || td_job_phase(j.states) != TD_PHASE_WAITING)
		return false;
	struct td_ask_wait *wait = td_ask_wait_of_job(&j);
	if (!wait)
		return false;

	struct td_ask_wait_parts w;
	struct td_moves_look k = *of;
	k.nodes = &snap->nodes;
	k.waiter = &j;
	td_ask_wait_show(wait, &w);
	memcpy(k.kinds, w.kinds, sizeof(k.kinds));
	td_auto_free bool *ok = td_calloc(snap->nodes.n + 1, sizeof(*ok));
	td_auto_free struct td_pool_node *nodes = NULL;
	td_auto_free struct td_policies_known **known = td_calloc(f->n + 1, sizeof(*known));
	td_auto_free int64_t *slices = td_calloc(f->n + 1, sizeof(*slices));
	for (size_t i = 0; i < snap->nodes.n; i++)
		ok[i] = !td_strv_has(w.excluded, snap->nodes.v[i].name) &&
			(!w.only->n || td_strv_has(w.only, snap->nodes.v[i].name));
	td_bridge_pool_nodes(&snap->nodes, ok, k.kinds, w.partition, &nodes);
	k.pool.nodes = nodes;
	k.pool.n = snap->nodes.n;
	k.known = known;
	k.slice_s = slices;
	td_auto_buf struct td_buf t = {0};
	struct td_slurm_bound bound = {0};
	bool acted = !td_slurm_job_bound(slurm, id, b->cancel, &bound, &e) && !bound.bound && want(&k, &w) &&
		     one(&k, slurm, m, busy, bound.eligible > j.submit ? bound.eligible : j.submit, &t);
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

	bool busy = false;
	for (size_t i = 0; i < TD_LEN(m->last); i++) {
		struct td_policies_move *x = &m->last[i];
		if (x->open && (!goes_on(f, x) || td_now(b) - x->at_ms > MINUTE_MS)) {
			if (goes_on(f, x))
				td_warn("making room for job %" PRId64 ": its jobs did not leave within a minute",
					x->waiter);
			x->open = false;
			sweep(b);
		}
		busy |= x->open;
	}
	for (size_t i = 0; i < n && !td_cancelled(b->cancel); i++) {
		struct td_moves_look k = {.b = b, .s = s, .f = f, .after_s = s->defragment_s};
		busy |= td_moves_head(&k, slurm, m, heads[i]->id, busy, &ret[words]);
		words += *ret[words].text != '\0';
	}
	if (s->starve_s)
		words += td_starve_pass(&(struct td_moves_look){.b = b, .s = s, .f = f}, slurm, m, busy, ret + words,
					TD_POLICIES_HEADS - words);
	return words;
}
