// The table of native jobs by their nodes (count.h).
#include "bridge/syncer/count.h"
#include "bridge/scheduler/ask.h"

#include "pool/pool.h"

#include <string.h>

enum {
	LOOK_MS = 2000, // between two looks, and a hundred times as long as one takes (twenty while old ones are left)
	SHARE = 4,      // while new ones are left to read: so many times as long as a look takes
	READS = 16,     // records in one look
	NEW_READS = 64, // of new jobs, where so many can be read in
	NEW_MS = 250,
	OLD_MS = 600000, // then a record is read again: a job may have been queued again and started elsewhere unseen
	NODE_MS = 1000   // as the labels of slurmd's pods
};

struct count_job {
	int64_t id, read_ms;  // mono; 0: not read yet; -1: seen in one look only
	struct td_strv nodes; // none: it is no native job, or not read yet
};

struct count_of { // a node; it stays when nothing is there any more
	char *node;
	size_t jobs;
	int64_t full_at; // of td_pool_write_in
	UT_hash_handle hh;
};

struct td_counts {
	// Of the listing thread.
	struct count_job *v; // by id
	size_t n;
	uint64_t stir; // of the view, that the last look was made for
	bool more;     // the last look left something to read
	bool behind;   // new jobs, too
	int64_t at;    // mono: when the next may be

	pthread_mutex_t lock; // guards the rest
	struct count_of *by_node;
};

struct td_counts *td_counts_new(void)
{
	struct td_counts *c = td_calloc(1, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

struct td_counts *td_counts_free(struct td_counts *c)
{
	struct count_of *x, *tmp;
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n; i++)
		td_strv_done(&c->v[i].nodes);
	free(c->v);
	HASH_ITER (hh, c->by_node, x, tmp) {
		HASH_DEL(c->by_node, x);
		free(x->node);
		free(x);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static struct count_of *of_locked(struct td_counts *c, const char *node)
{
	struct count_of *x = NULL;
	HASH_FIND_STR(c->by_node, node, x);
	if (x)
		return x;
	x = td_calloc(1, sizeof(*x));
	x->node = td_strdup(node);
	HASH_ADD_KEYPTR(hh, c->by_node, x->node, strlen(x->node), x);
	return x;
}

// Another job is on these nodes, or none.
static void tell(struct td_bridge *b, const struct td_strv *nodes)
{
	for (size_t i = 0; i < nodes->n; i++) {
		td_queue_add_after(b->node_queue, nodes->v[i], NODE_MS);
		td_slurm_view_hint(b->view, nodes->v[i]);
	}
}

// The job has these nodes from now on, which are taken over.
static void has(struct td_bridge *b, struct count_job *k, struct td_strv nodes)
{
	pthread_mutex_lock(&b->counts->lock);
	for (size_t i = 0; i < k->nodes.n; i++)
		of_locked(b->counts, k->nodes.v[i])->jobs--;
	for (size_t i = 0; i < nodes.n; i++)
		of_locked(b->counts, nodes.v[i])->jobs++;
	pthread_mutex_unlock(&b->counts->lock);
	tell(b, &k->nodes);
	tell(b, &nodes);
	td_strv_done(&k->nodes);
	k->nodes = nodes;
}

static void forget(struct td_bridge *b, struct count_job *k)
{
	has(b, k, (struct td_strv){0});
}

static bool runs(uint64_t states)
{
	enum td_job_phase p = td_job_phase(states);
	return p == TD_PHASE_STARTING || p == TD_PHASE_RUNNING;
}

// Takes over which jobs run; both lists are sorted. True: others than before.
static bool merge(struct td_bridge *b, const struct td_slurm_states *now)
{
	struct td_counts *c = b->counts;
	struct count_job *v = td_calloc(now->n + 1, sizeof(*v));
	size_t n = 0, old = 0, before = c->n, fresh = 0;
	for (size_t i = 0; i < now->n; i++) {
		if (!runs(now->v[i].states) || td_asks_want_job(b->asks, now->v[i].id))
			continue;
		while (old < c->n && c->v[old].id < now->v[i].id)
			forget(b, &c->v[old++]);
		bool known = old < c->n && c->v[old].id == now->v[i].id;
		fresh += !known;
		v[n] = known ? c->v[old++] : (struct count_job){.id = now->v[i].id, .read_ms = -1};
		if (known && v[n].read_ms < 0)
			v[n].read_ms = 0;
		n++;
	}
	while (old < c->n)
		forget(b, &c->v[old++]);
	free(c->v);
	c->v = v;
	c->n = n;
	return fresh || n != before;
}

static int read_one(struct td_bridge *b, struct td_slurm *s, struct count_job *k, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	int r = td_slurm_job(s, k->id, b->cancel, &j, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	struct td_strv nodes = {0};
	// Stand-ins, and what holds something for nobody, bear our mark.
	for (size_t i = 0; !r && runs(j.states) && !td_starts(j.admin_comment, "tandem/") && i < j.n_nodes; i++)
		td_strv_add(&nodes, j.nodes[i].name);
	has(b, k, nodes);
	k->read_ms = td_now(b);
	return 0;
}

// Reads the jobs that were not read yet (old: those that were read long ago), *left at most: of new ones NEW_READS,
// as far as there is time.
static int read_due(struct td_bridge *b, struct td_slurm *s, bool old, size_t *left, struct td_error *err)
{
	struct td_counts *c = b->counts;
	const int64_t now = td_now(b);
	size_t more = old ? 0 : NEW_READS - READS;
	for (size_t i = 0; i < c->n; i++) {
		struct count_job *k = &c->v[i];
		if (old ? k->read_ms <= 0 || now - k->read_ms < OLD_MS : k->read_ms != 0)
			continue;
		if (!*left && more && td_now(b) - now < NEW_MS) {
			more--;
		} else if (!*left) {
			c->more = true;
			c->behind |= !old;
			return 0;
		} else {
			--*left;
		}
		int r = read_one(b, s, k, err);
		if (r)
			return r;
	}
	return 0;
}

static int look(struct td_bridge *b, struct td_slurm *s, struct td_error *err)
{
	td_auto_states struct td_slurm_states now = {0};
	size_t left = READS;
	int r = td_slurm_job_states_all(s, b->cancel, &now, err);
	if (r)
		return r;
	b->counts->more = merge(b, &now);
	b->counts->behind = false;
	// The old ones last: where there are very many jobs some are always old, and the new ones would never be read.
	r = read_due(b, s, false, &left, err);
	return r ? r : read_due(b, s, true, &left, err);
}

int td_counts_look(struct td_bridge *b, struct td_slurm *s, struct td_error *err)
{
	struct td_counts *c = b->counts;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *nodes = td_slurm_view_nodes(b->view);
	int64_t began = td_now(b);
	uint64_t stir = td_slurm_view_stir(b->view);
	if (!nodes || began < c->at || (stir == c->stir && !c->more))
		return 0;
	c->stir = stir;
	int r = look(b, s, err);
	c->more |= r != 0; // else nobody would look again until a node changes
	c->behind &= !r;   // what is out of order is not asked so often
	int64_t pause = (td_now(b) - began) * (c->behind ? SHARE : c->more ? 20 : 100), least = c->behind ? 0 : LOOK_MS;
	c->at = td_now(b) + (pause > least ? pause : least);
	return r;
}

char *td_counts_text(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->counts->lock);
	size_t jobs = of_locked(b->counts, node)->jobs;
	pthread_mutex_unlock(&b->counts->lock);
	return jobs ? td_asprintf("%zu", jobs) : NULL;
}

int64_t td_counts_write_in(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->counts->lock);
	int64_t in = td_pool_write_in(&of_locked(b->counts, node)->full_at, td_now(b));
	pthread_mutex_unlock(&b->counts->lock);
	return in;
}
