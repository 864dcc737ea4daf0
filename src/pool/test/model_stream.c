// A large gang among a stream of small jobs that never ends: it starts, and in time.
//
//   model_stream [RUNS [FIRST-SEED]]     default 300, 1
//
// A pool of 8 nodes is full of jobs with time limits when a gang comes that needs much of it. From then on small jobs and
// pods come every second, more than the pool can hold, and half of the pods have no time limit. Slurm's rules are a few
// lines: it starts what is next; when that does not fit it plans its start from the time limits of what runs, and lets
// pass only who ends before, or leaves room for it then (backfill; docs/facts/slurm.md). Pods go by the bridge's own
// decisions (td_pool_fast(), td_pool_room_yield()): at once, above all who wait, where they take nothing from them.
//
// At any moment: what is planned for the first of the queue is not put off by who came later. So the gang starts not later
// than its plan, and none of the small ones before it keeps it from becoming first. At the end of each run it has started,
// although later ones have passed it.
//
// The same streams without the decision about who may pass are run as well: there gangs starve.
// rows: C3.6
#include "pool/gang.h"
#include "pool/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 8, GPUS = 8, CPUS = 32, LONGEST = 30, EVERY = 3, HORIZON = 300, JOBS = EVERY * HORIZON + 200 };
enum { NEVER = 1 << 30 };

struct small { // one job; or, as the gang, several seats
	struct td_pool_want want;
	int64_t members; // 0: one job on one node
	int limit, ends; // seconds; limit NEVER: none. ends: when it does, once it runs
	int runs;        // how long it would run
	bool pod, started, over;
	int64_t seats[NODES];
};
static struct {
	struct td_pool_node nodes[NODES];
	struct small jobs[JOBS];
	int n, gang, now;
	bool fair; // pods ask whether they may pass
} m;
static uint64_t seed, passed, raised, in_line;
static unsigned run_seed;

static int below(int n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (int)((uint32_t)((seed * UINT64_C(2685821657736338717)) >> 33) % (uint32_t)n);
}

static void fail(const char *what)
{
	fprintf(stderr, "seed %u, second %d: %s\n", run_seed, m.now, what);
	exit(1);
}

static void use(struct td_pool_node *x, const struct td_pool_want *w, int64_t times)
{
	x->used_cpus += times * w->cpus;
	x->used_gres[0] += times * w->gres[0];
}

// Takes its room, if it is there. ret NULL: only a look.
static bool seat(struct td_pool_node *v, const struct small *j, int64_t *ret)
{
	if (!j->members) {
		int at = td_pool_fits_now(v, NODES, &j->want);
		if (at < 0)
			return false;
		use(&v[at], &j->want, 1);
		if (ret)
			ret[at] = 1;
		return true;
	}
	if (!td_pool_gang_fits_now(v, NODES, &j->want, j->members))
		return false;
	int64_t left = j->members;
	for (int i = 0; i < NODES && left; i++) {
		int64_t n = td_pool_gang_slots(&v[i], &j->want);
		n = n < left ? n : left;
		use(&v[i], &j->want, n);
		if (ret)
			ret[i] = n;
		left -= n;
	}
	return true;
}

static void begin(struct small *j)
{
	j->started = true;
	j->ends = j->runs >= NEVER ? NEVER : m.now + j->runs;
	passed += j > &m.jobs[m.gang] && !m.jobs[m.gang].started;
}

static void end(void)
{
	for (int i = 0; i < m.n; i++) {
		struct small *j = &m.jobs[i];
		if (!j->started || j->over || j->ends > m.now)
			continue;
		j->over = true;
		for (int k = 0; k < NODES; k++)
			use(&m.nodes[k], &j->want, -j->seats[k]);
	}
}

static int first(void)
{
	for (int i = 0; i < m.n; i++)
		if (!m.jobs[i].started)
			return i;
	return -1;
}

// When job i can start as far as the time limits say, and the pool as it is then, with i in it. NEVER: it cannot be said.
static int plan(int i, struct td_pool_node *ret)
{
	memcpy(ret, m.nodes, sizeof(m.nodes));
	bool left[JOBS] = {false};
	for (int at = m.now; at < NEVER;) {
		struct td_pool_node x[NODES];
		memcpy(x, ret, sizeof(x));
		if (seat(x, &m.jobs[i], NULL)) {
			memcpy(ret, x, sizeof(x));
			return at;
		}
		int next = NEVER;
		for (int k = 0; k < m.n; k++) {
			const struct small *j = &m.jobs[k];
			int by = j->limit >= NEVER ? NEVER : j->ends - j->runs + j->limit;
			if (j->started && !j->over && !left[k] && by < next)
				next = by;
		}
		at = next;
		for (int k = 0; k < m.n && at < NEVER; k++) {
			const struct small *j = &m.jobs[k];
			if (!j->started || j->over || left[k] || j->limit >= NEVER ||
			    j->ends - j->runs + j->limit != at)
				continue;
			left[k] = true;
			for (int n = 0; n < NODES; n++)
				use(&ret[n], &j->want, -j->seats[n]);
		}
	}
	return NEVER;
}

// Starts what is next, then what leaves the plan of the first that waits as it is. Returns that plan.
static int slurm(void)
{
	int head = first();
	while (head >= 0 && seat(m.nodes, &m.jobs[head], m.jobs[head].seats)) {
		begin(&m.jobs[head]);
		head = first();
	}
	if (head < 0)
		return NEVER;
	struct td_pool_node then[NODES];
	int at = plan(head, then);
	for (int i = head + 1; i < m.n; i++) {
		struct small *j = &m.jobs[i];
		for (int k = 0; k < NODES && !j->started && !j->members; k++) {
			bool early = j->limit < NEVER && m.now + j->limit <= at;
			if (td_pool_fits_now(&m.nodes[k], 1, &j->want) < 0 ||
			    (at < NEVER && !early && td_pool_fits_now(&then[k], 1, &j->want) < 0))
				continue;
			use(&m.nodes[k], &j->want, 1);
			if (!early)
				use(&then[k], &j->want, 1);
			j->seats[k] = 1;
			begin(j);
		}
	}
	return at;
}

// ---- the bridge ----

// The node on which the pod is given its room at once; -1: it stands in line.
static int goes_to(const struct small *pod)
{
	static const bool anywhere[NODES] = {true, true, true, true, true, true, true, true};
	struct td_pool_waiter w[TD_POOL_WAITERS + TD_POOL_OTHERS];
	struct td_pool_node v[NODES];
	size_t n = 0, ours = 0, others = 0;
	memcpy(v, m.nodes, sizeof(v));
	for (int i = 0; i < m.n; i++) {
		const struct small *j = &m.jobs[i];
		bool own = j->pod || j->members;
		if (j->started || j == pod)
			continue;
		if (own ? ++ours > TD_POOL_WAITERS : ++others > TD_POOL_OTHERS)
			return -1;
		w[n++] = (struct td_pool_waiter){.known = true,
						 .want = td_pool_gang_most(&j->want, j->members),
						 .least = j->want,
						 .members = j->members,
						 .feasible = anywhere};
	}
	const struct td_pool_fast f = {
		.now_ms = m.now * 1000 + 1, .allowed = true, .pending = ours, .waiting = others, .raises = true};
	enum td_pool_fast_do how = td_pool_fast(&f);
	if (how == TD_FAST_NO || (how == TD_FAST_TRY && others))
		return -1; // Slurm refuses it
	return td_pool_room_yield(v, NODES, &pod->want, w, n) ? td_pool_fits_now(v, NODES, &pod->want) : -1;
}

static void come(struct small *pod)
{
	int at = m.fair ? goes_to(pod) : td_pool_fits_now(m.nodes, NODES, &pod->want);
	if (at < 0) {
		in_line++;
		return;
	}
	use(&m.nodes[at], &pod->want, 1);
	pod->seats[at] = 1;
	raised++;
	begin(pod);
}

// ---- one run ----

static struct small *add(bool pod, bool limited)
{
	if (m.n == JOBS)
		fail("too many jobs");
	struct small *j = &m.jobs[m.n++];
	int limit = 1 + below(LONGEST);
	*j = (struct small){.want = {.cpus = 1 + below(4), .gres = {below(5)}},
			    .limit = limited ? limit : NEVER,
			    .runs = limited    ? 1 + below(limit)
				    : below(2) ? NEVER
					       : 1 + below(LONGEST),
			    .pod = pod};
	return j;
}

// Returns whether the gang has started.
static bool run(bool fair)
{
	memset(&m, 0, sizeof(m));
	m.fair = fair;
	for (int i = 0; i < NODES; i++)
		m.nodes[i] = (struct td_pool_node){
			.feasible = true, .usable = true, .cpus = CPUS, .memory_mb = 1000, .gres = {GPUS}};
	m.gang = JOBS - 1;
	for (int i = 0; i < 8 + below(32); i++)
		add(false, true);
	slurm();
	struct small *gang = add(true, true);
	m.gang = m.n - 1;
	bool whole = below(2);
	gang->members = 2 + below(NODES - 1);
	gang->want = (struct td_pool_want){
		.cpus = 1 + below(8), .gres = {whole ? GPUS : 1 + below(GPUS)}, .alone = below(2)};
	gang->limit = gang->runs = LONGEST;

	int promised = NEVER;
	for (m.now = 1; m.now < HORIZON && !gang->started; m.now++) {
		end();
		int at = slurm();
		for (int i = 0; i < EVERY; i++) {
			bool pod = below(2);
			struct small *j = add(pod, !pod || below(2));
			if (pod)
				come(j);
		}
		if (gang->started || first() != m.gang)
			continue;
		struct td_pool_node then[NODES];
		int after = plan(m.gang, then);
		if (fair && (at > promised || after > at))
			fail(after > at ? "who has just come puts the gang off" : "the gang is put off");
		promised = at < promised ? at : promised;
	}
	if (fair && gang->started && promised < NEVER && gang->ends - gang->runs > promised)
		fail("the gang starts later than it was planned");
	return gang->started;
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 1 ? (unsigned)atoi(argv[1]) : 300, from = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	unsigned starved = 0;
	for (unsigned i = 0; i < runs; i++) {
		run_seed = from + i;
		seed = run_seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
		if (!run(true))
			fail("the gang never starts");
	}
	uint64_t by = passed, at_once = raised, waited = in_line;
	for (unsigned i = 0; i < runs; i++) {
		run_seed = from + i;
		seed = run_seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
		starved += !run(false);
	}
	printf("%u gangs started in time; %lu later ones passed them, %lu pods at once, %lu in line; without the "
	       "decision "
	       "%u of them starve\n",
	       runs, (unsigned long)by, (unsigned long)at_once, (unsigned long)waited, starved);
	if (!by || !at_once || starved < runs / 20)
		fail("the stream is too weak to show anything");
	return 0;
}
