// The jobs of Slurm's that have not ended, for policies. Each record is read once, then again when its job changes its
// phase, and every REFRESH_MS (of one that Slurm passes over SOON_MS): never whole lists (docs/facts/slurm.md S-W2,
// S-W3).
#include "bridge/policy/policies.h"
#include "bridge/scheduler/waits.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow.h"

#include "pool/pool.h"
#include "pool/slice.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <string.h>

enum { READS = 64, REFRESHES = 8, REFRESH_MS = 60000, SOON_MS = 5000 };

static void forget_parts(struct td_policies_known *k)
{
	for (size_t i = 0; i < k->n_parts; i++) {
		free(k->parts[i].name);
		free(k->parts[i].gres);
	}
	free(k->parts);
	k->parts = NULL;
	k->n_parts = 0;
}

static void forget(struct td_policies_known *k)
{
	forget_parts(k);
	free(k->label);
	free(k->excluded);
	free(k->user);
	free(k->account);
	free(k->qos);
	free(k->partition);
}

void td_policies_facts_done(struct td_policies_facts *f)
{
	for (size_t i = 0; i < f->n; i++)
		forget(&f->v[i]);
	free(f->v);
	*f = (struct td_policies_facts){0};
}

static int by_id(const void *a, const void *b)
{
	const struct td_policies_known *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

const struct td_policies_known *td_policies_facts_find(const struct td_policies_facts *f, int64_t id)
{
	return f->n ? bsearch(&(const struct td_policies_known){.id = id}, f->v, f->n, sizeof(*f->v), by_id) : NULL;
}

// Takes over which jobs there are; both lists are sorted.
static void merge(struct td_policies_facts *f, const struct td_slurm_states *now)
{
	struct td_policies_known *v = td_calloc(now->n + 1, sizeof(*v));
	size_t n = 0, old = 0;
	for (size_t i = 0; i < now->n; i++) {
		enum td_job_phase p = td_job_phase(now->v[i].states);
		while (old < f->n && f->v[old].id < now->v[i].id)
			forget(&f->v[old++]);
		bool known = old < f->n && f->v[old].id == now->v[i].id;
		if (p != TD_PHASE_WAITING && p != TD_PHASE_STARTING && p != TD_PHASE_RUNNING)
			continue; // one that ends is forgotten by the next turn of the loop above
		v[n] = known ? f->v[old++] : (struct td_policies_known){.id = now->v[i].id, .own = -1};
		if (v[n].phase != p)
			v[n].stale = true;
		v[n++].phase = p;
	}
	while (old < f->n)
		forget(&f->v[old++]);
	free(f->v);
	f->v = v;
	f->n = n;
}

static void set(char **field, const char *s)
{
	free(*field);
	*field = td_strdup(s ? s : "");
}

static void take_parts(struct td_policies_known *k, const struct td_slurm_job *j)
{
	forget_parts(k);
	free(k->label);
	k->label = j->array && j->task >= 0 ? td_asprintf("%lld_%lld", (long long)j->array, (long long)j->task)
					    : td_asprintf("%lld", (long long)j->id);
	k->start_s = j->start;
	k->whole = td_streq(j->shared, "none");
	k->named = j->required_nodes && *j->required_nodes;
	set(&k->excluded, j->excluded_nodes);
	k->ours = j->admin_comment && td_starts(j->admin_comment, "tandem/");
	if (!td_pool_leave_read(j->admin_comment, &k->leave))
		k->leave = (struct td_pool_leave){0};
	if (!td_pool_leave_signal(j->comment, &k->signal))
		k->signal = (struct td_pool_leave_signal){0};
	k->array = j->array;
	k->shared = j->array == j->id;
	if (td_job_phase(j->states) != TD_PHASE_RUNNING || j->start <= 0 || j->preempt || k->shared)
		return;
	k->parts = td_calloc(j->n_nodes + 1, sizeof(*k->parts));
	for (size_t i = 0; i < j->n_nodes; i++)
		k->parts[k->n_parts++] = (struct td_slurm_job_node){.name = td_strdup(j->nodes[i].name),
								    .gres = td_strdup(j->nodes[i].gres),
								    .cpus = j->nodes[i].cpus,
								    .memory_mb = j->nodes[i].memory_mb};
}

// Which GPUs one that waits wants on a node.
static void take_gpus(struct td_policies_known *k, const struct td_slurm_job *j)
{
	struct td_ask_wait *w = td_job_phase(j->states) == TD_PHASE_WAITING ? td_ask_wait_of_job(j) : NULL;
	struct td_ask_wait_parts p = {0};
	k->whole_gpus = k->parts_wanted = 0;
	*k->part = '\0';
	if (w)
		td_ask_wait_show(w, &p);
	for (int i = 0; i < TD_POOL_KINDS && p.kinds[i]; i++) {
		const char *type = td_starts(p.kinds[i], "gpu:") ? p.kinds[i] + strlen("gpu:") : "";
		if (td_gres_is_part(type) && strlen(type) < sizeof(k->part)) {
			snprintf(k->part, sizeof(k->part), "%s", type);
			k->parts_wanted = p.least.gres[i];
		} else if (*type || td_streq(p.kinds[i], "gpu")) {
			k->whole_gpus += p.least.gres[i];
		}
	}
	k->marked = j->admin_comment && td_starts(j->admin_comment, TD_PART_MARK);
	// What an administrator holds stays held.
	k->parked = !j->priority && *k->part &&
		    ((k->marked && td_streq(j->reason, "JobHeldUser")) || td_streq(j->reason, "BadConstraints"));
	td_ask_wait_unref(w);
}

void td_policies_facts_take(struct td_policies_known *k, const struct td_slurm_job *j, int64_t now_ms)
{
	static const char *const names[TD_POLICY_TRES] = {"cpu", "mem", "gres/gpu"};
	int64_t value = j->priority + j->nice;
	const char *tres = j->tres_alloc && *j->tres_alloc ? j->tres_alloc : j->tres_req;
	set(&k->user, j->user);
	set(&k->account, j->account);
	set(&k->qos, j->qos);
	set(&k->partition, j->partition);
	for (int i = 0; i < TD_POLICY_TRES; i++)
		k->tres[i] = td_slurm_tres_of(tres, names[i]);
	k->submit_s = j->submit;
	k->nice = j->nice;
	k->limit_min = j->time_limit_min;
	k->batch = j->batch;
	take_parts(k, j);
	if (k->restarts != j->restarts || !k->since_ms)
		k->since_ms = now_ms;
	k->restarts = j->restarts;
	k->counted = td_pool_slice_read(j->admin_comment).runs;
	k->nodes = j->want_nodes > 0 ? j->want_nodes : 1;
	k->held = !j->priority;
	take_gpus(k, j);
	// Slurm says ReqNodeNotAvail for a moment of many a job that only waits for its turn.
	k->aside = td_pool_reason_aside(j->reason) && !td_starts(j->reason, "ReqNodeNotAvail");
	k->nobodys = j->admin_comment &&
		     (td_starts(j->admin_comment, TD_ASIDE_MARK) || td_starts(j->admin_comment, TD_SHADOW_MARK));
	k->read = true;
	k->stale = false;
	k->read_ms = now_ms;
	if (k->held)
		return; // what it would have is not to be seen

	// A priority that nobody could move: somebody has fixed it. It counts again when it has changed.
	if (k->moved || k->fixed)
		k->fixed = value == k->was && value != k->value;
	k->moved = false;
	k->was = k->fixed ? k->was : 0;
	if (value < TD_POLICY_LOW)
		k->own = value, k->site = 0;
	else if (k->site && value - k->site >= 0 && value - k->site < TD_POLICY_LOW)
		k->own = value - k->site;
	else
		k->own = -1, k->site = 0;
	if (!k->fixed)
		k->value = value;
}

void td_policies_facts_away(struct td_policies_facts *f, int64_t now_ms)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].since_ms)
			f->v[i].since_ms = now_ms;
}

void td_policies_facts_moved(struct td_policies_known *k, int64_t value, int64_t site)
{
	k->was = k->value;
	k->moved = true;
	k->stale = k->own < 0; // what its own priority is will show
	k->site = site;
	k->value = value ? value : k->own > 0 ? k->own : 1;
}

static int read_one(struct td_policies_facts *f, struct td_policies_known *k, struct td_slurm *s, int64_t now_ms,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	f->n_reads++;
	int r = td_slurm_job(s, k->id, c, &j, err);
	if (!r)
		td_policies_facts_take(k, &j, now_ms);
	return r == TD_NOT_FOUND ? 0 : r; // it has just ended
}

int td_policies_facts_read(struct td_policies_facts *f, struct td_slurm *s, bool only_waiting, int64_t now_ms,
			   struct td_cancel *c, struct td_error *err)
{
	td_auto_states struct td_slurm_states now = {0};
	int r = td_slurm_job_states_all(s, c, &now, err);
	if (r)
		return r;
	merge(f, &now);

	size_t reads = 0, again = 0, from = 0;
	f->more = false;
	// Not always from the first one on: some that are held for good would be all that is read again.
	while (from < f->n && f->v[from].id <= f->again_id)
		from++;
	for (size_t i = 0; i < f->n && !r; i++) {
		struct td_policies_known *k = &f->v[(from + i) % f->n];
		if (only_waiting && k->phase != TD_PHASE_WAITING)
			continue;
		int64_t age = now_ms - k->read_ms;
		bool old =
			!k->stale && k->phase == TD_PHASE_WAITING && age > (k->held || k->aside ? SOON_MS : REFRESH_MS);
		if (!k->stale && !(old && again < REFRESHES))
			continue;
		if (reads == READS) {
			f->more |= k->stale;
			continue;
		}
		reads++;
		again += old;
		f->again_id = old ? k->id : f->again_id;
		r = read_one(f, k, s, now_ms, c, err);
	}
	return r;
}
