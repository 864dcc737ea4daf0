// Takes a job's record over into its ask, and gives it to the pool's decision.
#include "bridge/scheduler/passes.h"
#include "bridge/scheduler/ran.h"

#include <string.h>

// Learns how long a prolog takes, so that one read just after it is enough.
static void learn(struct td_bridge *b, struct td_ask *a)
{
	atomic_int_fast64_t *at = &b->prolog_us[a->burst];
	int64_t est = atomic_load(at), took = (td_now(b) - a->allocated_ms) * 1000;
	atomic_store(at, td_pool_prolog_learn(est, took, a->burst, a->waits));
}

// What the job of a gang has on each of its nodes.
static void take_parts(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_slurm_job *j)
{
	struct td_ask_part *v = td_calloc(j->n_nodes, sizeof(*v));
	for (size_t i = 0; i < j->n_nodes; i++) {
		const struct td_slurm_job_node *n = &j->nodes[i];
		v[i] = (struct td_ask_part){.node = td_strdup(n->name),
					    .cores = td_strdup(n->cores),
					    .cpus = n->cpus,
					    .memory_mb = n->memory_mb};
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, n->name);
		if (td_devices_text(s, n, node ? node->root : NULL, &v[i].devices, NULL))
			v[i].devices = td_strdup("?"); // deals nothing out
		td_room_where(b, j->id, n->name, n->cpus);
	}
	td_ask_set_parts(b->asks, a, v, j->n_nodes);
}

void td_ask_take(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_slurm_job *j)
{
	enum td_job_phase phase = td_job_phase(j->states);
	td_auto_free char *devices = NULL;
	struct td_error err = TD_ERROR_INIT;
	const char *cpus = NULL;
	bool gang = a->size || j->n_nodes > 1;

	if (j->n_nodes && !gang) {
		cpus = j->nodes[0].cores;
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, j->nodes[0].name);
		if (td_devices_text(s, &j->nodes[0], node ? node->root : NULL, &devices, &err))
			devices = td_strdup("?"); // equals no grant, so it is never bound
	}

	// Without PrologFlags=Alloc nothing shows the prolog of a batch job: its stand-in knocks after it.
	bool prolog = phase == TD_PHASE_RUNNING && (b->o.own_kubelet ? j->batch : td_streq(j->reason, "Prolog"));

	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_READ;
	a->named = td_streq(td_bridge_job_uid(j, s->cluster_uid), a->uid);
	a->admin_set = j->admin_comment && *j->admin_comment;
	a->states = a->polled = j->states;
	a->batch = j->batch;
	a->started = a->started || j->n_nodes;
	a->prolog = prolog;
	a->start = j->start;
	a->restarts = j->restarts;
	a->end = j->end;
	a->limit_min = j->time_limit_min;
	a->preempt = j->preempt;
	// Of an allocation nothing is signalled: it has no process.
	a->warned |= !j->batch && j->preempt > 0 && phase == TD_PHASE_RUNNING;
	a->has_cpus = phase == TD_PHASE_ENDED ? 0 : j->want_cpus;
	a->has_memory_mb = phase == TD_PHASE_ENDED ? 0 : j->want_memory_mb;
	if (gang && j->want_tasks > 0)
		a->tasks = (size_t)j->want_tasks;
	a->task_cpus = j->want_cpus_per_task;
	a->got_cpus = j->n_nodes ? j->nodes[0].cpus : 0;
	a->expect = phase == TD_PHASE_WAITING ? j->start : 0;
	a->look = a->gone_seen = false;
	a->knock_ms = 0;
	a->born_s = j->submit ? j->submit : j->start;
	a->read_ms = td_now(b);
	pthread_mutex_unlock(&b->asks->lock);

	td_passes_seen(b, a, j->comment);
	if (!a->line) { // one that an earlier bridge submitted
		td_auto_free char *line = td_ran_line(j->admin_comment, s->cluster_uid);
		td_ask_str(b->asks, &a->line, line);
	}
	if (phase != TD_PHASE_WAITING)
		td_ran_saw(b, a->line, j->id, j->start, phase == TD_PHASE_ENDED ? j->end : 0);
	td_ask_str(b->asks, &a->reason, j->reason);
	td_ask_str(b->asks, &a->qos, j->qos);
	td_ask_str(b->asks, &a->job_user, j->user);
	td_ask_str(b->asks, &a->job_name, j->name);
	td_ask_str(b->asks, &a->excluded, j->excluded_nodes);

	// The list of devices is empty as soon as the job is COMPLETING (docs/facts/slurm.md S-D1).
	if (j->n_nodes && phase != TD_PHASE_ENDED && phase != TD_PHASE_ENDING) {
		td_ask_set_nodes(b->asks, a, j->nodes_text);
		td_ask_str(b->asks, &a->devices, devices);
		td_ask_str(b->asks, &a->cpus, cpus);
		if (gang)
			take_parts(b, s, a, j);
		else
			td_room_where(b, j->id, j->nodes[0].name, 0);
	}

	td_ask_pending(b->asks, a, phase == TD_PHASE_WAITING);

	if (a->allocated_ms && phase == TD_PHASE_RUNNING && !prolog) {
		learn(b, a);
		a->allocated_ms = 0;
	}
	td_slurm_view_watch(b->view, j->id, j->states);
}

int td_ask_read(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, struct td_ask *a,
		struct td_cancel *c, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_job(slurm, a->job, c, &j, &e);
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "%.500s", e.msg);

	if (!r) {
		td_ask_take(b, s, a, &j);
		return 0;
	}

	td_ask_pending(b->asks, a, false);
	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_GONE;
	a->states = a->polled = 0;
	a->look = false;
	a->read_ms = td_now(b);
	pthread_mutex_unlock(&b->asks->lock);
	return 0;
}

enum td_job_is td_ask_is(uint64_t states)
{
	static const enum td_job_is is[] = {
		[TD_PHASE_UNKNOWN] = TD_IS_UNKNOWN,   [TD_PHASE_WAITING] = TD_IS_PENDING,
		[TD_PHASE_STARTING] = TD_IS_STARTING, [TD_PHASE_RUNNING] = TD_IS_RUNNING,
		[TD_PHASE_LOST] = TD_IS_LOST,         [TD_PHASE_ENDING] = TD_IS_ENDED,
		[TD_PHASE_ENDED] = TD_IS_ENDED,       [TD_PHASE_FLAG] = TD_IS_UNKNOWN,
	};
	return is[td_job_phase(states)];
}

void td_ask_job(struct td_bridge *b, struct td_ask *a, bool same_spec, struct td_pool_job *ret)
{
	enum td_job_is is = td_ask_is(a->states);
	if (is == TD_IS_RUNNING && td_pool_prolog_runs(a->prolog, a->passed, td_real_ms(b->clock) / 1000 - a->start))
		is = TD_IS_STARTING;

	*ret = (struct td_pool_job){
		.know = a->know,
		.is = is,
		// Anybody may choose a comment. While the admin comment is not set, the job's owner
		// must be the user that the bridge submits as.
		.ours = a->named && (a->admin_set || !a->user || td_streq(a->user, a->job_user)),
		.cancelled = a->states & TD_JOB(CANCELLED),
		.started = a->started,
		.warned = a->warned,
		.same_spec = same_spec,
		.grant = {.job = a->job,
			  .start = a->start,
			  .restarts = a->restarts,
			  .ask = a->uid,
			  .nodes = a->nodes,
			  .devices = a->devices},
	};
}
