// Elastic gangs in random order: 10,000 runs of one gang with a core of two among six pods, with the
// decisions of elastic.h and gang.h between them.
//
//   model_elastic [RUNS [FIRST-SEED]]     default 10000, 1
//
// The owner makes pods, also anew; pods are deleted, fail and succeed; Slurm starts what fits and kills
// what it likes. The bridge decides by a cache of any earlier moment and sends its Binding later; any
// other's step may come between. It keeps nothing: each step of it is one of a bridge that was just
// started.
//
// After each step: nobody is bound beyond a core that never was whole, no job has more pods than it was
// asked for, and jobs have together no more than there is. At the end, with room for all: who is there
// runs, rank 0 in the core, and no job is left of anybody else.
// rows: A8.9
#include "pool/elastic.h"
#include "pool/gang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PODS = 6, CORE = 2, JOBS = 256, STEPS = 300, SETTLE = 60, ROOM = 4 };

enum is { ABSENT, WAITS, BOUND, LEAVES, SUCCEEDED, FAILED };
struct pod {
	enum is is;
	int uid;
	int core;    // the ask of the core that it is of, or that it joined; 0: none
	bool member; // of that core
	int job;
};
struct job { // 0: never; an ask is a pod's UID, or core_ask()
	int ask, size;
	bool runs, ended;
};
struct binding { // on its way
	int slot, uid, core, job;
	bool member;
};
static struct {
	struct pod pods[PODS], cache[PODS];
	struct job jobs[JOBS];
	struct binding sent[PODS + CORE];
	int n_jobs, uids, n_sent, room;
	bool replace, indexed;
} m;
static unsigned whole[1 << 20]; // by core ask: the run in which it was whole
static uint64_t seed, joined, cores, ended, steps;
static unsigned run_seed;

static uint32_t below(uint32_t n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (uint32_t)((seed * UINT64_C(2685821657736338717)) >> 33) % n;
}

static void fail(const char *what)
{
	printf("seed %u: %s\n", run_seed, what);
	for (int i = 0; i < PODS; i++)
		printf("  pod %d: is %d, uid %d, core %d%s, job %d\n", i, m.pods[i].is, m.pods[i].uid, m.pods[i].core,
		       m.pods[i].member ? " (member)" : "", m.pods[i].job);
	for (int i = 1; i <= m.n_jobs; i++)
		if (!m.jobs[i].ended)
			printf("  job %d of %d%s\n", i, m.jobs[i].ask, m.jobs[i].runs ? ", runs" : "");
	exit(1);
}

static int core_ask(int x, int y) // of these two members: above all UIDs
{
	return x < y ? 1024 * (x + 1) + y : 1024 * (y + 1) + x;
}

static int job_of(int ask)
{
	for (int i = 1; i <= m.n_jobs; i++)
		if (m.jobs[i].ask == ask && !m.jobs[i].ended)
			return i;
	return 0;
}

static void submit(int ask, int size)
{
	if (m.n_jobs + 1 == JOBS)
		return;
	m.jobs[++m.n_jobs] = (struct job){.ask = ask, .size = size};
}

static struct td_pool_job seen(int job, const char *uid)
{
	const struct job *j = &m.jobs[job];
	struct td_pool_job r = {.know = job ? TD_JOB_READ : TD_JOB_NONE, .ours = true, .same_spec = true};
	r.is = !job || j->ended ? TD_IS_ENDED : j->runs ? TD_IS_RUNNING : TD_IS_PENDING;
	r.started = r.is == TD_IS_ENDED;
	r.grant = (struct td_grant){.job = job, .start = 1, .ask = uid, .nodes = "", .devices = ""};
	return r;
}

static void send_binding(int slot, int core, bool member, int job)
{
	if (m.n_sent < (int)(sizeof(m.sent) / sizeof(m.sent[0])))
		m.sent[m.n_sent++] = (struct binding){slot, m.cache[slot].uid, core, job, member};
}

// ---- the bridge: one pass each ----

static bool is_of(const struct pod *p, int core)
{
	return p->member && p->core == core && p->is != ABSENT;
}

static struct td_pool_core core_of(int core)
{
	struct td_pool_core c = {.size = CORE, .most = core ? PODS : 0, .replace = m.replace};
	for (int i = 0; i < PODS; i++) {
		const struct pod *p = &m.cache[i];
		if (!core || !is_of(p, core))
			continue;
		c.bound += p->is == BOUND;
		c.leaving += p->is == LEAVES;
		c.succeeded += p->is == SUCCEEDED;
		c.failed += p->is == FAILED;
	}
	return c;
}

static int running_core(void)
{
	int found = 0;
	for (int i = 0; i < PODS; i++)
		if (m.cache[i].member && m.cache[i].is == BOUND && (!found || m.cache[i].core < found))
			found = m.cache[i].core;
	return found;
}

static void gang_ask(int ask, const int *members, int n)
{
	struct td_pool_core c = core_of(ask);
	struct td_pool_gang g = {.uid = "g",
				 .size = CORE,
				 .waiting = n,
				 .bound = c.bound,
				 .leaving = c.leaving,
				 .succeeded = c.succeeded,
				 .failed = c.failed,
				 .on_loss = m.replace ? TD_GANG_REPLACE : TD_GANG_FAIL,
				 .nodes_fit = true};
	int job = job_of(ask);
	for (int i = 0; i < PODS; i++)
		if (is_of(&m.cache[i], ask) && m.cache[i].is == BOUND)
			g.grant = (struct td_grant){.job = m.cache[i].job, .start = 1, .ask = "g"};
	if (!job && g.bound)
		job = (int)g.grant.job;
	const struct td_pool_job j = seen(job, "g");
	switch (td_pool_reconcile_gang(&g, &j).what) {
	case TD_DO_SUBMIT:
	case TD_DO_ALLOCATE:
		submit(ask, CORE);
		cores++;
		break;
	case TD_DO_BIND:
		for (int i = 0; i < n; i++)
			send_binding(members[i], ask, true, job);
		break;
	case TD_DO_END_POD:
		for (int i = 0; i < PODS; i++)
			if (is_of(&m.pods[i], ask) && m.pods[i].is == BOUND)
				m.pods[i].is = FAILED;
		break;
	case TD_DO_END_JOB:
		m.jobs[job].ended = true;
		break;
	default:
		break;
	}
}

static void gang_pass(void)
{
	for (int i = 0; i < m.n_sent; i++)
		if (m.sent[i].member)
			return; // the worker waits for its Bindings

	int v[PODS], n = 0, runs = running_core(), at[2] = {-1, -1};
	struct td_pool_core_place places[PODS];
	for (int i = 0; i < PODS; i++)
		if (m.cache[i].is == WAITS) {
			places[n] = (struct td_pool_core_place){.index = m.indexed ? i : -1};
			v[n++] = i;
		}
	// Jobs of cores that nobody is a member of.
	for (int i = 1; i <= m.n_jobs; i++) {
		const struct job *j = &m.jobs[i];
		if (j->ended || j->ask < 1024)
			continue;
		int members[CORE], k = 0, n_free = n;
		struct td_pool_core c = core_of(j->ask);
		if (!(c.bound + c.leaving + c.succeeded + c.failed)) {
			if (runs)
				n_free = 0; // there is one core
			for (int x = 0; x < n_free; x++)
				for (int y = x + 1; y < n_free; y++)
					if (core_ask(m.cache[v[x]].uid, m.cache[v[y]].uid) == j->ask)
						at[0] = members[k++] = v[x], at[1] = members[k++] = v[y];
		} else if (c.bound) {
			int64_t held = c.bound + c.leaving + c.succeeded;
			for (int x = 0; x < n && k < CORE - held; x++) {
				int other = 0;
				for (int o = 0; o < PODS; o++)
					other = is_of(&m.cache[o], j->ask) ? m.cache[o].uid : other;
				if (m.replace || core_ask(m.cache[v[x]].uid, other) == j->ask)
					members[k++] = v[x];
			}
		}
		gang_ask(j->ask, members, k);
	}
	for (int i = 0; i < PODS; i++) // bound, and the job is over
		if (m.cache[i].member && m.cache[i].is == BOUND && !job_of(m.cache[i].core))
			gang_ask(m.cache[i].core, NULL, 0);
	if (runs || at[0] >= 0 || td_pool_core_there(places, (size_t)n, 0, CORE) < CORE)
		return;
	gang_ask(core_ask(m.cache[v[0]].uid, m.cache[v[1]].uid), v, CORE);
}

static void pod_pass(int slot)
{
	const struct pod *p = &m.cache[slot];
	bool beyond = p->core && !p->member;
	int core = beyond ? p->core : running_core(), job = job_of(p->uid);
	struct td_pool_core c = core_of(core);
	struct td_pool_beyond b = {.joined = beyond, .made_ms = 1};
	for (int i = 0; i < PODS; i++) {
		b.ahead += i < slot && m.cache[i].is == WAITS;
		b.others += !m.cache[i].member && m.cache[i].core == core && m.cache[i].is == BOUND;
	}
	enum td_pool_beyond_do d = p->is == WAITS || beyond ? td_pool_beyond(&c, &b) : TD_BEYOND_NOT;
	if (d == TD_BEYOND_HOLD)
		return;
	struct td_pool_ask a = {.uid = "p", .node_fits = true};
	a.pod = d == TD_BEYOND_NOT ? TD_POD_GONE
		: p->is == WAITS   ? TD_POD_WAITING
		: p->is == BOUND   ? TD_POD_BOUND
		: p->is == LEAVES  ? TD_POD_LEAVING
		: p->is == ABSENT  ? TD_POD_GONE
				   : TD_POD_DONE;
	if (a.pod == TD_POD_BOUND) {
		a.has_grant = true;
		a.grant = (struct td_grant){.job = p->job, .start = 1, .ask = "p", .nodes = "", .devices = ""};
		job = p->job;
	}
	const struct td_pool_job j = seen(job, "p");
	switch (td_pool_reconcile_beyond(&a, &j, d).what) {
	case TD_DO_SUBMIT:
	case TD_DO_ALLOCATE:
		submit(p->uid, 1);
		break;
	case TD_DO_BIND:
		send_binding(slot, core, false, job);
		break;
	case TD_DO_END_POD:
		if (m.pods[slot].uid == p->uid && m.pods[slot].is == BOUND) {
			m.pods[slot].is = FAILED;
			ended++;
		}
		break;
	case TD_DO_END_JOB:
		m.jobs[job].ended = true;
		break;
	default:
		break;
	}
}

// A job whose pod is not there any more: a list that is asked for now says so.
static void orphans(void)
{
	for (int i = 1; i <= m.n_jobs; i++) {
		bool its = m.jobs[i].ask > 1024;
		for (int k = 0; k < PODS; k++)
			its |= m.pods[k].uid == m.jobs[i].ask && m.pods[k].is != ABSENT;
		if (!its)
			m.jobs[i].ended = true;
	}
}

// ---- the others ----

static void bind_one(int k)
{
	const struct binding b = m.sent[k];
	m.sent[k] = m.sent[--m.n_sent];
	struct pod *p = &m.pods[b.slot];
	if (p->uid != b.uid || p->is != WAITS)
		return;              // the API server refuses it
	if (b.member && m.replace) { // so does the seat that is taken
		int n = 0;
		for (int i = 0; i < PODS; i++)
			n += is_of(&m.pods[i], b.core) && m.pods[i].is != FAILED;
		if (n >= CORE)
			return;
	}
	*p = (struct pod){BOUND, b.uid, b.core, b.member, b.job};
	int n = 0;
	for (int i = 0; i < PODS; i++)
		n += is_of(&m.pods[i], b.core) && (m.pods[i].is == BOUND || m.pods[i].is == SUCCEEDED);
	if (b.member && n == CORE)
		whole[b.core] = run_seed;
	if (!b.member && whole[b.core] != run_seed)
		fail("a pod joined a core that never was whole");
	joined += !b.member;
}

static void slurm(void)
{
	int used = 0;
	for (int i = 1; i <= m.n_jobs; i++)
		used += m.jobs[i].runs && !m.jobs[i].ended ? m.jobs[i].size : 0;
	for (int i = 1; i <= m.n_jobs; i++)
		if (!m.jobs[i].runs && !m.jobs[i].ended && used + m.jobs[i].size <= m.room) {
			m.jobs[i].runs = true;
			return;
		}
}

static void step(void)
{
	int slot = (int)below(PODS);
	struct pod *p = &m.pods[slot];
	switch (below(16)) {
	case 0:
	case 1:
	case 2: // the owner makes it, or makes it anew
		if ((p->is == ABSENT || p->is == FAILED) && m.uids < 1000)
			*p = (struct pod){.is = WAITS, .uid = ++m.uids};
		break;
	case 3:
		if (!below(8))
			*p = p->is == BOUND ? (struct pod){LEAVES, p->uid, p->core, p->member, p->job}
					    : (struct pod){0};
		break;
	case 4:
		if (p->is == LEAVES)
			*p = (struct pod){0};
		break;
	case 5:
		if (p->is == BOUND && !below(8))
			p->is = below(3) ? SUCCEEDED : FAILED;
		break;
	case 6: { // preempted, cancelled, its node lost
		int j = m.n_jobs ? 1 + (int)below((uint32_t)m.n_jobs) : 0;
		if (j && !below(6))
			m.jobs[j].ended = true;
		break;
	}
	case 7:
	case 8:
		memcpy(m.cache, m.pods, sizeof(m.cache));
		break;
	case 9:
	case 10:
		gang_pass();
		break;
	case 11:
	case 12:
		pod_pass(slot);
		break;
	case 13:
		if (below(4))
			slurm();
		else
			orphans();
		break;
	default:
		if (m.n_sent)
			bind_one((int)below((uint32_t)m.n_sent));
		break;
	}
}

static void check(void)
{
	int used = 0, on[JOBS] = {0};
	for (int i = 0; i < PODS; i++)
		if (m.pods[i].is == BOUND)
			on[m.pods[i].job]++;
	for (int i = 1; i <= m.n_jobs; i++) {
		used += m.jobs[i].runs && !m.jobs[i].ended ? m.jobs[i].size : 0;
		if (on[i] > m.jobs[i].size)
			fail("a job has more pods than it was asked for");
		for (int k = i + 1; k <= m.n_jobs; k++)
			if (!m.jobs[i].ended && !m.jobs[k].ended && m.jobs[i].ask == m.jobs[k].ask)
				fail("an ask has two jobs");
	}
	if (used > m.room)
		fail("jobs have more than there is");
}

static void run(unsigned s)
{
	memset(&m, 0, sizeof(m));
	run_seed = s;
	seed = s * UINT64_C(2654435761) + 88172645463325252;
	m.replace = s % 2;
	m.indexed = s / 2 % 2;
	m.room = ROOM;
	for (int i = 0; i < STEPS; i++, steps++) {
		step();
		check();
	}

	// All are made anew that are not there, and there is room for all.
	m.room = PODS;
	for (int i = 0; i < SETTLE; i++) {
		for (int k = 0; k < PODS; k++)
			if (m.pods[k].is == LEAVES || m.pods[k].is == SUCCEEDED || m.pods[k].is == FAILED ||
			    m.pods[k].is == ABSENT)
				m.pods[k] = (struct pod){.is = WAITS, .uid = ++m.uids};
		memcpy(m.cache, m.pods, sizeof(m.cache));
		gang_pass();
		orphans();
		for (int k = 0; k < PODS; k++) {
			pod_pass(k);
			slurm();
		}
		while (m.n_sent)
			bind_one(0);
		check();
	}
	int core = running_core(), members = 0;
	for (int i = 0; i < PODS; i++) {
		if (m.pods[i].is != BOUND)
			fail("a pod waits, and there is room for all");
		if (m.pods[i].core != core)
			fail("two cores");
		members += m.pods[i].member;
	}
	if (members != CORE || (m.indexed && !m.replace && !(m.pods[0].member && m.pods[1].member)))
		fail("the core is not the lowest ranks");
	for (int i = 1; i <= m.n_jobs; i++)
		if (!m.jobs[i].ended && !m.jobs[i].runs)
			fail("a job is left that nobody wants");
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 1 ? (unsigned)atoi(argv[1]) : 10000, first = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	for (unsigned i = 0; i < runs; i++)
		run(first + i);
	printf("%u runs, %llu steps, %llu cores asked for, %llu joined, %llu ended with their core\n", runs,
	       (unsigned long long)steps, (unsigned long long)cores, (unsigned long long)joined,
	       (unsigned long long)ended);
	return 0;
}
