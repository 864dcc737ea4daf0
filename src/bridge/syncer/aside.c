// The table of devices that are held one by one, and what is said of them (aside.h).
#include "bridge/scheduler/want.h"
#include "bridge/syncer/aside_priv.h"
#include "bridge/syncer/hold.h"

#include "slurm/hostlist.h"

#include <string.h>

enum { GRES_MOST = 16 };

struct td_asides *td_asides_new(void)
{
	struct td_asides *a = td_calloc(1, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

struct td_asides *td_asides_free(struct td_asides *a)
{
	struct td_aside_of *x, *tmp;
	if (!a)
		return NULL;
	HASH_ITER (hh, a->by_node, x, tmp) {
		HASH_DEL(a->by_node, x);
		free(x->wish);
		free(x->node);
		free(x);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}

struct td_aside_of *td_aside_of_locked(struct td_asides *a, const char *node, bool make)
{
	struct td_aside_of *x = NULL;
	HASH_FIND_STR(a->by_node, node, x);
	if (x || !make)
		return x;
	x = td_calloc(1, sizeof(*x));
	x->node = td_strdup(node);
	x->refuse[0] = x->full[0] = -1;
	HASH_ADD_KEYPTR(hh, a->by_node, x->node, strlen(x->node), x);
	return x;
}

void td_aside_wants(struct td_aside_of *x, uint64_t out, uint64_t lent)
{
	x->out = out;
	x->lent = lent & ~out;
	x->in_use = lent & out;
}

// The devices of this kind in a text of Slurm's, "gpu:2(IDX:0,2)".
static uint64_t devices_in(const char *gres)
{
	struct td_gres g[GRES_MOST];
	struct td_ranges r;
	size_t n = 0;
	uint64_t mask = 0;
	if (!gres || td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(g[i].name, TD_ASIDE_KIND) && !td_ranges_parse(g[i].index, &r, NULL))
			mask |= r.bits[0];
	return mask;
}

uint64_t td_aside_devices(const struct td_slurm_job *j)
{
	return j->n_nodes ? devices_in(j->nodes[0].gres) : 0;
}

// The device that it holds; below 0: it waits.
static int device_of(const struct td_slurm_job *j)
{
	uint64_t mask = td_aside_devices(j);
	return mask ? __builtin_ctzll(mask) : -1;
}

// For whose end one waits that was found in a listing: 0, for nobody's; below 0, not known.
static int64_t waits_for(const struct td_slurm_job *j)
{
	return td_streq(j->reason, "Dependency") ? -1 : 0;
}

const char *td_aside_node(const struct td_settings *s, const struct td_slurm_job *j)
{
	return td_hold_node(s, j, TD_ASIDE_MARK);
}

// Of v; below 0: it is not known.
static int at_locked(const struct td_aside_of *x, int64_t job)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->job[i] == job)
			return (int)i;
	return -1;
}

bool td_aside_add_locked(struct td_aside_of *x, int64_t job, const struct td_pool_aside_job *is, int64_t cpus)
{
	int at = at_locked(x, job);
	if (at >= 0 && is->after > 0)
		x->v[at].after = is->after;
	if (at >= 0 || x->n == TD_ASIDE_MAX)
		return false;
	x->v[x->n] = *is;
	x->cpus[x->n] = cpus;
	x->start[x->n] = 0;
	x->job[x->n++] = job;
	return true;
}

// Slurm gives whole cores, which may be more than was asked for.
static int64_t cpus_of(const struct td_slurm_job *j)
{
	return j->n_nodes ? j->nodes[0].cpus : 0;
}

void td_aside_set(struct td_asides *a, struct td_aside_of *x, int64_t job, const struct td_slurm_job *j)
{
	pthread_mutex_lock(&a->lock);
	int at = at_locked(x, job);
	if (at >= 0 && j) {
		x->v[at].device = device_of(j);
		x->cpus[at] = cpus_of(j);
		x->start[at] = j->start;
	} else if (at >= 0) {
		x->n--;
		x->v[at] = x->v[x->n];
		x->job[at] = x->job[x->n];
		x->cpus[at] = x->cpus[x->n];
		x->start[at] = x->start[x->n];
	}
	pthread_mutex_unlock(&a->lock);
}

void td_aside_found(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j)
{
	const char *node = td_aside_node(s, j);
	if (!node || td_slurm_job_ended(j->states))
		return;
	pthread_mutex_lock(&b->asides->lock);
	struct td_aside_of *x = td_aside_of_locked(b->asides, node, true);
	bool is_new =
		td_aside_add_locked(x, j->id, &(struct td_pool_aside_job){device_of(j), waits_for(j)}, cpus_of(j));
	pthread_mutex_unlock(&b->asides->lock);
	if (is_new)
		td_queue_add(b->node_queue, node);
}

void td_asides_listed(struct td_bridge *b, int64_t began_ms)
{
	td_auto_strv struct td_strv nodes = {0};
	struct td_aside_of *x, *tmp;
	pthread_mutex_lock(&b->asides->lock);
	b->asides->listed_ms = began_ms;
	HASH_ITER (hh, b->asides->by_node, x, tmp)
		if (x->unsure_ms)
			td_strv_add(&nodes, x->node);
	pthread_mutex_unlock(&b->asides->lock);
	for (size_t i = 0; i < nodes.n; i++)
		td_queue_add(b->node_queue, nodes.v[i]);
}

uint64_t td_aside_held(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	uint64_t mask = x ? td_pool_aside_held(x->v, x->n) : 0;
	pthread_mutex_unlock(&b->asides->lock);
	return mask;
}

void td_aside_lent(struct td_bridge *b, const char *node, struct td_aside_lent *ret)
{
	*ret = (struct td_aside_lent){0};
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	for (size_t i = 0; x && i < x->n; i++) {
		uint64_t bit = x->v[i].device < 0 ? 0 : (uint64_t)1 << x->v[i].device;
		if (!(bit & ~x->out) || !(x->any || bit & x->lent))
			continue;
		ret->held |= bit;
		ret->cpus += x->cpus[i];
	}
	ret->lent = x ? x->lent : 0;
	pthread_mutex_unlock(&b->asides->lock);
}

char *td_aside_text(struct td_bridge *b, const char *node)
{
	struct td_aside_lent lent;
	td_aside_lent(b, node, &lent);
	// What is shown may be reset, so a device that a pod of another scheduler has is not, though root's job holds it.
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	uint64_t theirs = lent.held | (x ? x->in_use : 0);
	pthread_mutex_unlock(&b->asides->lock);
	return td_pool_aside_write(td_aside_held(b, node) & ~theirs);
}

void td_aside_holds(struct td_bridge *b, const char *node, int64_t *ret_devices, int64_t *ret_cpus)
{
	*ret_devices = *ret_cpus = 0;
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	if (x)
		*ret_devices = __builtin_popcountll(td_pool_aside_held(x->v, x->n));
	for (size_t i = 0; x && i < x->n; i++)
		*ret_cpus += x->v[i].device < 0 ? 0 : x->cpus[i];
	pthread_mutex_unlock(&b->asides->lock);
}

char *td_aside_wish(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->asides->lock);
	const struct td_aside_of *x = td_aside_of_locked(b->asides, node, false);
	char *wish = x && x->wish ? td_strdup(x->wish) : NULL;
	pthread_mutex_unlock(&b->asides->lock);
	return wish;
}

uint64_t td_aside_all(int64_t devices)
{
	return devices >= TD_ASIDE_MAX ? ~(uint64_t)0 : ((uint64_t)1 << devices) - 1;
}

int64_t td_aside_unmissed(struct td_bridge *b, const struct td_object *node, int64_t devices)
{
	uint64_t want;
	if (devices > 0)
		td_pool_aside_both(td_object_annotation(node, TD_ANN_DEVICES_OUT),
				   td_object_annotation(node, TD_ANN_DEVICES_HOLD), &want);
	// On a drained node they wait for its return, which must not wait for them.
	struct td_aside_lent lent;
	td_aside_lent(b, node->name, &lent);
	return devices <= 0 ? 0
			    : __builtin_popcountll((want | (td_aside_held(b, node->name) & ~lent.held)) &
						   td_aside_all(devices));
}
