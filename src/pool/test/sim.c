// A simulation of the decisions about asks: many nodes and pods, a Slurm of a few lines, faults
// from a seed, and virtual time.
//
//   sim [SEED [NODES [ASKS]]]     default 1, 1000, 20000
//
// These defaults are for runs by hand; the test runs it smaller. A seed that fails fails again.
//
// One round is one virtual second. Slurm starts what fits, in the order of the queue. Then each ask
// is decided until nothing is left to do at once; now and then an ask is seen late. The simulation
// checks (docs/protocols.md 1.1) that what is bound is a grant as Slurm has it (I1), that nothing
// is ended that should live (I4), that an ask ends only its own job (I5), and that at the end
// nothing is left on either side (I3). It prints decisions per second.
// rows: A6.6 F3.2
#include "base/clock.h"
#include "base/mem.h"
#include "pool/pool.h"

#include <stdio.h>
#include <string.h>

enum {
	GPUS = 8,
	STEPS_MAX = 20,
	LOST = 20,  // one submit in that many loses its reply
	FAULT = 400 // in each second, one job in that many meets a fault
};

struct job {
	enum td_job_is is;   // TD_IS_UNKNOWN: Slurm has forgotten it
	int ask, node, gpus; // ask < 0: a native job
	int64_t start, restarts;
	bool cancelled;
};
struct pod {
	enum td_pool_pod_state is;
	int gpus, arrives;
	bool started, has_grant;
	struct td_grant grant;
	enum td_job_know know;
	int job; // 0: none
	char uid[16];
};

static uint64_t seed;
static struct td_pool_node *nodes;
static struct job *jobs;
static struct pod *pods;
static int n_nodes, n_pods, n_jobs, first_job = 1, now;
static uint64_t decisions, counts[TD_DO_FORGET + 1], faults;
static char (*names)[16];

// xorshift64*: gives the same numbers on every machine.
static uint32_t below(uint32_t n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (uint32_t)((seed * UINT64_C(2685821657736338717)) >> 33) % n;
}

static void broken(const struct pod *p, const char *what)
{
	fprintf(stderr, "round %d, ask %s, job %d: %s\n", now, p->uid, p->job, what);
	exit(1);
}

// ---- Slurm ----
static void leave_node(struct job *j)
{
	if (j->is == TD_IS_RUNNING)
		nodes[j->node].used_gres[0] -= j->gpus;
}

static void finish(struct job *j, bool cancelled)
{
	leave_node(j);
	j->is = TD_IS_ENDED;
	j->cancelled = cancelled;
}

static int submit(int ask)
{
	jobs = td_realloc(jobs, ((size_t)n_jobs + 2) * sizeof(*jobs));
	jobs[++n_jobs] = (struct job){.is = TD_IS_PENDING, .ask = ask, .gpus = pods[ask].gpus};
	return n_jobs;
}

static void chance(struct job *j)
{
	faults++;
	switch (below(j->ask < 0 ? 1 : 5)) {
	case 0: // scancel, preemption, a time limit
		finish(j, true);
		break;
	case 1: // requeued; it has started anew already, or will
		j->restarts++;
		j->start = now;
		if (below(2)) {
			leave_node(j);
			j->is = TD_IS_PENDING;
		}
		break;
	case 2: // slurmctld was killed and has forgotten it
		leave_node(j);
		j->is = TD_IS_UNKNOWN;
		break;
	case 3: // the same, and its id went to somebody else's job
		leave_node(j);
		*j = (struct job){.is = TD_IS_PENDING, .ask = -1, .gpus = 1};
		break;
	default: // the bridge was killed and does not know what it submitted
		pods[j->ask].know = TD_JOB_UNSURE;
		pods[j->ask].job = 0;
	}
}

static void slurm(void)
{
	int refused = 0; // GPUs of the smallest job that did not fit: a larger one does not either
	while (first_job <= n_jobs && (jobs[first_job].is == TD_IS_ENDED || jobs[first_job].is == TD_IS_UNKNOWN))
		first_job++;
	for (int i = first_job; i <= n_jobs; i++) {
		struct job *j = &jobs[i];
		if (j->is == TD_IS_PENDING && (!refused || j->gpus < refused)) {
			const struct td_pool_want w = {.cpus = 1, .gres = {j->gpus}};
			int at = td_pool_fits_now(nodes, (size_t)n_nodes, &w);
			if (at < 0) {
				refused = j->gpus;
			} else {
				j->is = TD_IS_RUNNING;
				j->node = at;
				j->start = now;
				nodes[at].used_gres[0] += j->gpus;
			}
		}

		if (j->ask < 0 && j->is == TD_IS_RUNNING && !below(20))
			finish(j, false);
		if ((j->is == TD_IS_PENDING || j->is == TD_IS_RUNNING) && !below(FAULT))
			chance(j);
	}
}

// ---- one ask ----
static struct td_grant grant_of(const struct pod *p)
{
	const struct job *j = &jobs[p->job];
	return (struct td_grant){
		.job = p->job, .start = j->start, .restarts = j->restarts, .ask = p->uid, .nodes = names[j->node]};
}

// A complete listing: finds the granted job, else the first one that is alive, and ends extra jobs.
static void look(struct pod *p, int me)
{
	int found = p->has_grant && jobs[p->grant.job].is != TD_IS_UNKNOWN ? (int)p->grant.job : 0;
	for (int i = first_job; i <= n_jobs; i++) {
		struct job *j = &jobs[i];
		if (j->ask != me || (j->is != TD_IS_PENDING && j->is != TD_IS_RUNNING))
			continue;
		if (found && found != i)
			finish(j, true);
		else
			found = i;
	}
	p->job = found;
	p->know = found ? TD_JOB_READ : p->has_grant ? TD_JOB_GONE : TD_JOB_NONE;
}

static bool act(struct pod *p, int me, enum td_pool_do what)
{
	struct job *j = p->job ? &jobs[p->job] : NULL;
	switch (what) {
	case TD_DO_SUBMIT: {
		bool arrived = true, told = true;
		if (!below(LOST)) {
			arrived = below(2);
			told = false;
			faults++;
		}
		int id = arrived ? submit(me) : 0;
		p->job = told ? id : 0;
		p->know = told ? TD_JOB_READ : TD_JOB_UNSURE;
		p->started = false;
		return true;
	}
	case TD_DO_LOOK:
		look(p, me);
		return true;
	case TD_DO_BIND:
		if (!j || j->is != TD_IS_RUNNING || j->ask != me)
			broken(p, "bound to what it was not granted (I1)");
		p->grant = grant_of(p);
		p->has_grant = true;
		p->is = TD_POD_BOUND;
		return false;
	case TD_DO_END_JOB:
		if (!j || j->ask != me)
			broken(p, "another's job is ended (I5)");
		finish(j, true);
		return true;
	case TD_DO_END_POD:
		if (p->has_grant && j && j->is == TD_IS_RUNNING && j->ask == me) {
			const struct td_grant g = grant_of(p);
			if (!td_grant_differs(&p->grant, &g))
				broken(p, "a pod is ended whose grant holds (I4)");
		}
		p->is = TD_POD_GONE;
		return true;
	case TD_DO_FORGET:
		p->job = 0;
		p->know = TD_JOB_NONE;
		p->arrives = -1; // done with
		return false;
	default:
		return false;
	}
}

// Compares field by field, because the code under test must not be its own judge.
static void check(const struct pod *p, int me)
{
	const struct job *j = &jobs[p->job];
	if (p->is == TD_POD_BOUND &&
	    (p->job != p->grant.job || j->ask != me || j->is != TD_IS_RUNNING || j->start != p->grant.start ||
	     j->restarts != p->grant.restarts || strcmp(names[j->node], p->grant.nodes) != 0))
		broken(p, "it stays bound, and its grant has ended (I1)");
}

static void ask(struct pod *p, int me)
{
	// It is done, or somebody deletes it.
	if (p->is == TD_POD_BOUND && !below(20))
		p->is = below(2) ? TD_POD_DONE : TD_POD_GONE;
	for (int i = 0; i < STEPS_MAX; i++) {
		const struct job *j = p->job ? &jobs[p->job] : NULL;
		if (j && p->know == TD_JOB_READ && j->is == TD_IS_UNKNOWN)
			p->know = TD_JOB_GONE;
		p->started |= j && j->is == TD_IS_RUNNING;
		const struct td_pool_ask a = {
			.uid = p->uid, .pod = p->is, .has_grant = p->has_grant, .grant = p->grant, .node_fits = true};
		struct td_pool_job pj = {.know = p->know, .started = p->started, .same_spec = true};
		if (j && p->know == TD_JOB_READ) {
			pj.is = j->is;
			pj.ours = j->ask == me;
			pj.cancelled = j->cancelled;
			pj.grant = grant_of(p);
		}
		const struct td_pool_step st = td_pool_reconcile_ask(&a, &pj);
		decisions++;
		counts[st.what]++;
		if (!act(p, me, st.what)) {
			check(p, me);
			return;
		}
	}

	broken(p, "it is never done with");
}

static void make(void)
{
	nodes = td_calloc((size_t)n_nodes, sizeof(*nodes));
	names = td_calloc((size_t)n_nodes, sizeof(*names));
	pods = td_calloc((size_t)n_pods, sizeof(*pods));
	jobs = td_calloc(1, sizeof(*jobs));
	for (int i = 0; i < n_nodes; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		nodes[i] = (struct td_pool_node){
			.name = names[i], .feasible = true, .usable = true, .cpus = 64, .memory_mb = 1, .gres = {GPUS}};
	}
	for (int i = 0; i < n_pods; i++) {
		pods[i] =
			(struct pod){.is = TD_POD_WAITING, .gpus = 1 << below(4), .arrives = 1 + i / (n_nodes / 5 + 1)};
		snprintf(pods[i].uid, sizeof(pods[i].uid), "ask-%d", i);
	}
}

int main(int argc, char **argv)
{
	long long v[3] = {1, 1000, 20000};
	for (int i = 1; i < argc && i < 4; i++)
		if (!td_parse_i64(argv[i], &v[i - 1]) || v[i - 1] < 1 || v[i - 1] > 1000000) {
			fprintf(stderr, "usage: sim [SEED [NODES [ASKS]]]\n");
			return 2;
		}

	seed = (uint64_t)v[0] * UINT64_C(0x9e3779b97f4a7c15);
	n_nodes = (int)v[1];
	n_pods = (int)v[2];
	make();
	int left = n_pods;
	int64_t began = td_mono_ms(&td_clock_system);
	for (now = 1; left; now++) {
		if (now > 100000)
			broken(&pods[0], "the pool does not come to rest");
		slurm();
		for (int i = 0; i < n_pods && pods[i].arrives <= now; i++)
			// One change in four is seen a second or more late.
			if (pods[i].arrives > 0 && below(4)) {
				ask(&pods[i], i);
				left -= pods[i].arrives < 0;
			}
	}

	int64_t took = td_mono_ms(&td_clock_system) - began;
	for (int i = 1; i <= n_jobs; i++)
		if (jobs[i].ask >= 0 && (jobs[i].is == TD_IS_PENDING || jobs[i].is == TD_IS_RUNNING))
			broken(&pods[jobs[i].ask], "a job is left (I3)");

	printf("seed %lld: %d nodes, %d asks, %d jobs, %llu faults: %d virtual seconds, %llu decisions in %lld ms, "
	       "%.0f a second\n",
	       v[0], n_nodes, n_pods, n_jobs, (unsigned long long)faults, now, (unsigned long long)decisions,
	       (long long)took, (double)decisions * 1000 / (double)(took ? took : 1));
	for (int i = 0; i <= TD_DO_FORGET; i++)
		if (counts[i])
			printf("  %-8s %llu\n", td_pool_do_name((enum td_pool_do)i), (unsigned long long)counts[i]);
	free(nodes), free(names), free(pods), free(jobs);
	return 0;
}
