// Nobody's share twice, in random order: 10,000 runs of one node on which pods of other schedulers and
// jobs come and go, with the decisions of shadow.h and place.h between them.
//
//   model_shadow [RUNS [FIRST-SEED]]     default 10000, 1
//
// Everything that takes several steps does them one at a time, and any other's step may come between:
// a kubelet reads the Node and then admits a pod; the bridge reads, decides, shows less on the Node,
// lists the pods, and only then ends a job; what it knows of pods and of free room is of any earlier
// moment; it crashes anywhere, and finds its jobs in Slurm's list. Slurm starts a shadow that fits
// before everybody else, and any job past one that does not fit.
//
// After each step: what jobs have and what pods that run hold beyond the reserve is together no more
// than Slurm gives out. At the end, without jobs: every pod runs, shadows hold what they hold, and
// without pods there are none.
// rows: A17.6
#include "pool/place.h"
#include "pool/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CPUS = 16,
	MEMORY = 4096, // MB
	SHARE = 14,
	SHARE_MB = 3072,
	JOBS = 64,
	PODS = 12,
	STEPS = 200,
	SETTLE = 30
};
#define MIB (INT64_C(1) << 20)

enum kind { NOBODY, NATIVE, WAITS, AHEAD }; // of jobs: the last two are shadows, by what they wait with
struct job {
	enum kind kind;
	struct td_pool_size has;
	bool runs;
};
enum pod_is { ABSENT, BOUND, READ, RUNS }; // READ: its kubelet has read the Node
struct pod {
	enum pod_is is;
	int64_t milli, mb;
	struct td_pool_size seen;
};
enum at { IDLE, SUBMIT, FENCE, LIST, END, SHOW, WRITE };

static struct {
	struct job jobs[JOBS];
	struct pod pods[PODS];
	struct td_pool_size shown; // on the Node
	struct td_pool_place place;
	bool scheduled; // kube-scheduler places pods, by what the placeholder asks for; else anybody names the node
	// The bridge. knows: what its cache has of the pods.
	enum at at;
	struct pod knows[PODS];
	struct td_pool_size free, want, text;
	struct td_pool_shadow_plan plan;
	int ids[TD_SHADOWS_MAX], n;
	bool refused;
} m;
static uint64_t seed, steps, done[TD_SHADOW_END + 1], fenced;
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
	for (int i = 0; i < JOBS; i++)
		if (m.jobs[i].kind)
			printf("  job %d: kind %d, %lld CPUs, %lld MB%s\n", i, m.jobs[i].kind,
			       (long long)m.jobs[i].has.cpus, (long long)m.jobs[i].has.memory_mb,
			       m.jobs[i].runs ? ", runs" : "");
	for (int i = 0; i < PODS; i++)
		if (m.pods[i].is)
			printf("  pod %d: state %d, %lldm, %lld MB\n", i, m.pods[i].is, (long long)m.pods[i].milli,
			       (long long)m.pods[i].mb);
	printf("  shown %lld CPUs, %lld MB; want %lld, %lld\n", (long long)m.shown.cpus, (long long)m.shown.memory_mb,
	       (long long)m.want.cpus, (long long)m.want.memory_mb);
	exit(1);
}

static bool within(struct td_pool_size a, struct td_pool_size b)
{
	return a.cpus <= b.cpus && a.memory_mb <= b.memory_mb;
}

// What these pods hold beyond the reserve, those at least that are as far as `from`.
static struct td_pool_size beyond(const struct pod *v, enum pod_is from)
{
	struct td_pool_reserve r = {
		.cpu_milli = CPUS * 1000, .memory = MEMORY * MIB, .share_cpus = SHARE, .share_memory_mb = SHARE_MB};
	for (int i = 0; i < PODS; i++)
		if (v[i].is >= from) {
			r.others_milli += v[i].milli;
			r.others_memory += v[i].mb * MIB;
		}
	return td_pool_shadow_want(&r);
}

static struct td_pool_size used(bool shadows, bool natives)
{
	struct td_pool_size sum = {0};
	for (int i = 0; i < JOBS; i++)
		if (m.jobs[i].runs && (m.jobs[i].kind == NATIVE ? natives : m.jobs[i].kind && shadows)) {
			sum.cpus += m.jobs[i].has.cpus;
			sum.memory_mb += m.jobs[i].has.memory_mb;
		}
	return sum;
}

static struct td_pool_size slurm_free(void)
{
	struct td_pool_size u = used(true, true);
	return (struct td_pool_size){SHARE - u.cpus, SHARE_MB - u.memory_mb};
}

static int submit(enum kind kind, struct td_pool_size has, bool at_once)
{
	for (int i = 0; i < JOBS; i++)
		if (!m.jobs[i].kind) {
			m.jobs[i] = (struct job){kind, has, at_once};
			return i;
		}
	return -1;
}

// Slurm starts what fits: shadows first, those ahead before the others.
static void schedule(void)
{
	for (enum kind k = AHEAD; k >= NATIVE; k--)
		for (int i = 0; i < JOBS; i++)
			if (m.jobs[i].kind == k && !m.jobs[i].runs && within(m.jobs[i].has, slurm_free()))
				m.jobs[i].runs = true;
}

// A pod of the queue's is allocated at once: past shadows that wait, but not past one ahead.
static void immediate(void)
{
	struct td_pool_size has = {1 + below(6), 1 + below(1000)};
	for (int i = 0; i < JOBS; i++)
		if (m.jobs[i].kind == AHEAD && !m.jobs[i].runs)
			return;
	if (within(has, slurm_free()))
		submit(NATIVE, has, true);
}

// ---- pods ----
static void bind_pod(void)
{
	int64_t milli = m.place.milli, mb = m.place.memory / MIB;
	struct pod *free_one = NULL;
	for (int i = 0; i < PODS; i++) {
		milli += m.pods[i].milli * (m.pods[i].is != ABSENT);
		mb += m.pods[i].mb * (m.pods[i].is != ABSENT);
		if (m.pods[i].is == ABSENT)
			free_one = &m.pods[i];
	}
	struct pod p = {BOUND, 100 * below(60), below(900), {0}};
	if (!free_one || (m.scheduled && (milli + p.milli > CPUS * 1000 || mb + p.mb > MEMORY)))
		return;
	*free_one = p;
}

// The kubelet does the next thing with one pod.
static void kubelet(struct pod *p)
{
	if (p->is == BOUND) {
		p->seen = m.shown;
		p->is = READ;
	} else if (p->is == READ) {
		int64_t milli = p->milli, mb = p->mb;
		for (int i = 0; i < PODS; i++)
			if (m.pods[i].is == RUNS) {
				milli += m.pods[i].milli;
				mb += m.pods[i].mb;
			}
		bool fits =
			milli <= (CPUS - SHARE + p->seen.cpus) * 1000 && mb <= MEMORY - SHARE_MB + p->seen.memory_mb;
		bool never = milli > CPUS * 1000 || mb > MEMORY;
		p->is = fits ? RUNS : never ? ABSENT : BOUND; // it waits and reads again
	}
}

// ---- the bridge ----
static void facts(struct td_pool_shadow *f, struct td_pool_shadow_job *v)
{
	m.n = 0;
	for (int i = 0; i < JOBS && m.n < TD_SHADOWS_MAX; i++)
		if (m.jobs[i].kind >= WAITS) {
			m.ids[m.n] = i;
			v[m.n++] = (struct td_pool_shadow_job){m.jobs[i].has, m.jobs[i].runs,
							       m.jobs[i].kind == AHEAD && !m.jobs[i].runs};
		}
	*f = (struct td_pool_shadow){.want = m.want,
				     .all = {SHARE, SHARE_MB},
				     .free = m.free,
				     .refused = m.refused,
				     .v = v,
				     .n = (size_t)m.n};
}

// What is held when the plan's jobs have ended.
static struct td_pool_size rest(bool *any)
{
	struct td_pool_size left = used(true, false);
	*any = false;
	for (int i = 0; i < m.n; i++)
		if (m.plan.ends[i] && m.jobs[m.ids[i]].runs) {
			left.cpus -= m.jobs[m.ids[i]].has.cpus;
			left.memory_mb -= m.jobs[m.ids[i]].has.memory_mb;
			*any = true;
		}
	return left;
}

static void bridge(void)
{
	struct td_pool_shadow f;
	struct td_pool_shadow_job v[TD_SHADOWS_MAX];
	bool running;
	switch (m.at) {
	case IDLE:
		m.want = beyond(m.knows, BOUND);
		facts(&f, v);
		td_pool_shadow_decide(&f, &m.plan);
		done[m.plan.what]++;
		rest(&running);
		m.at = m.plan.what == TD_SHADOW_LEAVE ? SHOW
		       : m.plan.what != TD_SHADOW_END ? SUBMIT
		       : running                      ? FENCE
						      : END;
		return;
	case SUBMIT:
		if (m.plan.what == TD_SHADOW_QUEUE)
			submit(m.plan.ahead ? AHEAD : WAITS, m.plan.size, false);
		else if (within(m.plan.size, slurm_free()))
			submit(WAITS, m.plan.size, true);
		else
			m.refused = true;
		m.at = IDLE;
		return;
	case FENCE:
		m.shown = rest(&running);
		m.at = LIST;
		return;
	case LIST:
		memcpy(m.knows, m.pods, sizeof(m.knows));
		m.at = END;
		if (!within(beyond(m.knows, BOUND), m.want)) {
			fenced++;
			m.at = IDLE;
		}
		return;
	case END:
		for (int i = 0; i < m.n; i++)
			if (m.plan.ends[i])
				m.jobs[m.ids[i]] = (struct job){0};
		m.at = IDLE;
		return;
	case SHOW:
		m.text = used(true, false);
		m.at = WRITE;
		return;
	case WRITE:
		m.shown = m.text;
		m.at = IDLE;
		return;
	}
}

// The bridge sees what is free, and pods, as they are now; else it goes on with what it saw before.
static void see(bool pods, bool slurm)
{
	struct td_pool_size was = m.free;
	if (pods)
		memcpy(m.knows, m.pods, sizeof(m.knows));
	if (slurm)
		m.free = slurm_free();
	if (was.cpus != m.free.cpus || was.memory_mb != m.free.memory_mb)
		m.refused = false;
}

// What native jobs hold, as the placeholder shows it to kube-scheduler.
static void placeholder(void)
{
	struct td_pool_size n = used(false, true);
	struct td_pool_place left = {CPUS * 1000, MEMORY * MIB};
	bool cut;
	for (int i = 0; i < PODS; i++)
		if (m.pods[i].is != ABSENT) {
			left.milli -= m.pods[i].milli;
			left.memory -= m.pods[i].mb * MIB;
		}
	m.place = td_pool_place_for((struct td_pool_place){n.cpus * 1000, n.memory_mb * MIB}, m.place, left, &cut);
	if (m.scheduled && (m.place.milli > left.milli || m.place.memory > left.memory))
		fail("the placeholder asks for what pods hold");
}

static void check(void)
{
	struct td_pool_size pods = beyond(m.pods, RUNS), jobs = used(false, true), all = used(true, true);
	steps++;
	if (jobs.cpus + pods.cpus > SHARE || jobs.memory_mb + pods.memory_mb > SHARE_MB)
		fail("given twice: to jobs and to pods that run");
	if (all.cpus > SHARE || all.memory_mb > SHARE_MB)
		fail("Slurm has given out more than it has");
}

static void step(void)
{
	struct job *j = &m.jobs[below(JOBS)];
	struct pod *p = &m.pods[below(PODS)];
	switch (below(16)) {
	case 0:
		submit(NATIVE, (struct td_pool_size){1 + below(8), 1 + below(1500)}, false);
		break;
	case 1:
		if (j->kind == NATIVE)
			*j = (struct job){0};
		break;
	case 2:
		immediate();
		break;
	case 3:
	case 4:
		schedule();
		break;
	case 5:
		bind_pod();
		break;
	case 6:
		if (below(3) == 0)
			p->is = ABSENT;
		break;
	case 7:
	case 8:
		kubelet(p);
		break;
	case 9:
		see(below(2), below(2));
		break;
	case 10:
		placeholder();
		break;
	case 11:
		if (below(4) == 0) { // a crash: the next one finds its jobs in Slurm's list
			m.at = IDLE;
			m.refused = false;
		}
		break;
	default:
		bridge();
	}
	check();
}

// Nothing comes any more: everything settles.
static void settle(void)
{
	for (int i = 0; i < SETTLE; i++) {
		see(true, true);
		for (int k = 0; k < 10; k++) {
			bridge();
			check();
		}
		schedule();
		placeholder();
		for (int k = 0; k < PODS; k++)
			kubelet(&m.pods[k]);
		check();
	}
}

static void run(unsigned s)
{
	memset(&m, 0, sizeof(m));
	run_seed = s;
	seed = s * UINT64_C(2654435761) + 88172645463325252;
	m.scheduled = s % 2;
	m.place = (struct td_pool_place){1, MIB};
	m.free = (struct td_pool_size){SHARE, SHARE_MB};
	for (int i = 0; i < STEPS; i++)
		step();

	for (int i = 0; i < JOBS; i++)
		if (m.jobs[i].kind == NATIVE)
			m.jobs[i] = (struct job){0};
	settle();
	struct td_pool_size want = beyond(m.pods, BOUND), held = used(true, false);
	for (int i = 0; i < PODS; i++)
		if (m.pods[i].is != ABSENT && m.pods[i].is != RUNS)
			fail("a pod waits, and nobody else is there");
	// A job has one CPU and 1 MB at least: so much more may be held where there is no room for one job of all.
	if (!within(want, held) || held.cpus > want.cpus + 1 || held.memory_mb > want.memory_mb + 1)
		fail("what is held is not what pods hold");
	if (m.place.milli != 1 || m.place.memory != MIB)
		fail("the placeholder asks for what no job holds");

	for (int i = 0; i < PODS; i++)
		m.pods[i].is = ABSENT;
	settle();
	for (int i = 0; i < JOBS; i++)
		if (m.jobs[i].kind)
			fail("a shadow is left without pods");
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 1 ? (unsigned)atoi(argv[1]) : 10000, first = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	for (unsigned i = 0; i < runs; i++)
		run(first + i);
	printf("%u runs, %llu steps, given twice: 0; %llu allocated, %llu queued, %llu ends, %llu of them put off\n",
	       runs, (unsigned long long)steps, (unsigned long long)done[TD_SHADOW_ALLOCATE],
	       (unsigned long long)done[TD_SHADOW_QUEUE], (unsigned long long)done[TD_SHADOW_END],
	       (unsigned long long)fenced);
	return 0;
}
