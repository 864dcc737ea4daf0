// rows: C3.8
// Who moves so that one that waits has room; against trying everything.
#include "pool/defrag.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { NODES = 10000, PER_NODE = 8 };
static bool everywhere[NODES];

static struct td_pool_node node(int64_t gpus, int64_t used)
{
	return (struct td_pool_node){.feasible = true,
				     .usable = true,
				     .cpus = 64,
				     .used_cpus = used,
				     .memory_mb = 1000,
				     .used_memory_mb = used,
				     .gres = {gpus},
				     .used_gres = {used}};
}

static struct td_pool_want gpus(int64_t n)
{
	return (struct td_pool_want){.cpus = n, .memory_mb = n, .gres = {n}};
}

struct made {
	struct td_pool_node nodes[16];
	struct td_pool_move_part parts[16][4];
	struct td_pool_move_job jobs[16];
	struct td_pool_defrag f;
};

static struct made *made(size_t n, int64_t want, int64_t units)
{
	struct made *m = calloc(1, sizeof(*m));
	for (size_t i = 0; i < n; i++)
		m->nodes[i] = node(8, 0);
	m->f = (struct td_pool_defrag){
		.nodes = m->nodes, .n = n, .want = gpus(want), .units = units, .spread = true, .jobs = m->jobs};
	return m;
}

// A job with so many GPUs on each of these nodes.
static void job(struct made *m, int64_t n, int64_t loss, int a, int b)
{
	struct td_pool_move_job *j = &m->jobs[m->f.n_jobs];
	const int at[] = {a, b};
	j->parts = m->parts[m->f.n_jobs];
	j->feasible = everywhere;
	j->loss = loss;
	for (int i = 0; i < 2 && at[i] >= 0; i++) {
		m->parts[m->f.n_jobs][j->n_parts++] = (struct td_pool_move_part){at[i], gpus(n)};
		m->nodes[at[i]].used_gres[0] += n;
		m->nodes[at[i]].used_cpus += n;
		m->nodes[at[i]].used_memory_mb += n;
	}
	m->f.n_jobs++;
}

// Returns the set as bits.
static unsigned run(struct made *m)
{
	size_t v[TD_DEFRAG_MOST];
	unsigned bits = 0;
	size_t n = td_pool_defrag(&m->f, v);
	for (size_t i = 0; i < n; i++)
		bits |= 1U << v[i];
	return bits;
}

static void one_job_moves_into_the_piece_that_remains(void **state)
{
	struct made *m = made(2, 8, 1);
	job(m, 4, 100, 0, -1);
	job(m, 4, 10, 1, -1);
	assert_int_equal(run(m), 2); // the one with less to lose
	assert_int_equal(td_pool_defrag_free(&m->f), 8);
	m->jobs[1].loss = 1000;
	assert_int_equal(run(m), 1);
	free(m);
}

static void nobody_moves_for_nothing(void **state)
{
	struct made *m = made(3, 8, 1);
	job(m, 4, 1, 0, -1);
	assert_int_equal(run(m), 0); // there is room
	m->f.units = 3;
	assert_int_equal(run(m), 0); // there is not enough in all
	m->nodes[1].usable = m->nodes[2].usable = false;
	m->f.units = 1;
	assert_int_equal(run(m), 0); // nowhere to go
	m->nodes[1].usable = true;
	m->nodes[1].feasible = false; // it may go where the one that waits may not
	assert_int_equal(run(m), 1);
	free(m);
}

static void not_where_it_may_not_run(void **state)
{
	static const bool only[] = {true, false, false};
	struct made *m = made(2, 8, 1);
	job(m, 4, 1, 0, -1);
	job(m, 4, 5, 1, -1);
	m->jobs[0].feasible = only;
	assert_int_equal(run(m), 2);
	m->jobs[1].feasible = only + 1; // neither
	assert_int_equal(run(m), 0);
	free(m);
}

static void several_nodes_and_jobs_on_two(void **state)
{
	struct made *m = made(4, 8, 2);
	job(m, 2, 1, 0, 1); // both at once
	job(m, 4, 1, 2, -1);
	job(m, 4, 1, 3, -1);
	assert_int_equal(run(m), 1);
	free(m);
}

static void a_gang_sits_in_pieces(void **state)
{
	struct made *m = made(3, 3, 3); // three members of 3 GPUs, two of them on one node
	m->f.spread = false;
	m->nodes[2].feasible = false; // for the gang only
	job(m, 4, 2, 0, -1);
	job(m, 4, 1, 1, -1);
	assert_int_equal(run(m), 2);
	m->f.units = 4;
	assert_int_equal(run(m), 3);
	m->f.units = 5;
	assert_int_equal(run(m), 0);
	free(m);
}

// Who has to be on few nodes: there are enough seats on three, and somebody moves so that one has them all.
static void a_gang_that_must_be_near_each_other(void **state)
{
	struct made *m = made(3, 2, 4); // four members of 2 GPUs
	m->f.spread = false;
	job(m, 4, 5, 0, -1);
	job(m, 4, 2, 1, -1);
	job(m, 6, 1, 2, -1);
	assert_int_equal(run(m), 0);
	m->f.most = 2; // 2 + 2
	assert_int_equal(run(m), 0);
	m->f.most = 1;
	assert_int_equal(run(m), 2); // it fits beside the first; the third one fits nowhere
	m->nodes[1].feasible = false;
	assert_int_equal(run(m), 1);
	m->nodes[0].feasible = false;
	assert_int_equal(run(m), 6); // the third one's place is the second one's, which goes beside the first
	free(m);
}

// ---- against trying everything ----

static bool put(struct td_pool_node *x, const struct td_pool_want *w, int times)
{
	if (x->gres[0] - x->used_gres[0] < w->gres[0] * times || x->cpus - x->used_cpus < w->cpus * times)
		return false;
	x->used_gres[0] += w->gres[0] * times;
	x->used_cpus += w->cpus * times;
	return true;
}

static bool put_jobs(const struct made *m, unsigned set, size_t j, size_t p, const struct td_pool_node *x,
		     unsigned used)
{
	struct td_pool_node y[16];
	if (j == m->f.n_jobs)
		return true;
	if (!(set & (1U << j)) || p == m->jobs[j].n_parts)
		return put_jobs(m, set, j + 1, 0, x, 0);
	for (size_t i = 0; i < m->f.n; i++) {
		memcpy(y, x, sizeof(y));
		if (x[i].usable && !(used & (1U << i)) && put(&y[i], &m->jobs[j].parts[p].has, 1) &&
		    put_jobs(m, set, j, p + 1, y, used | 1U << i))
			return true;
	}
	return false;
}

// most: on so many nodes.
static bool put_all(const struct made *m, unsigned set, size_t i, const int64_t give[2], const struct td_pool_node *x)
{
	const int64_t units = give[0], most = give[1];
	struct td_pool_node y[16];
	if (!units)
		return put_jobs(m, set, 0, 0, x, 0);
	if (i == m->f.n)
		return false;
	for (int take = 0; take <= units && take <= (m->f.spread ? 1 : 8); take++) {
		const int64_t rest[2] = {units - take, most - (take > 0)};
		memcpy(y, x, sizeof(y));
		if (rest[1] >= 0 && (!take || (x[i].usable && x[i].feasible && put(&y[i], &m->f.want, take))) &&
		    put_all(m, set, i + 1, rest, y))
			return true;
	}
	return false;
}

static bool good(const struct made *m, unsigned set)
{
	struct td_pool_node x[16];
	memcpy(x, m->nodes, sizeof(x));
	for (size_t j = 0; j < m->f.n_jobs; j++)
		for (size_t p = 0; set & (1U << j) && p < m->jobs[j].n_parts; p++) {
			x[m->jobs[j].parts[p].node].used_gres[0] -= m->jobs[j].parts[p].has.gres[0];
			x[m->jobs[j].parts[p].node].used_cpus -= m->jobs[j].parts[p].has.cpus;
		}
	const int64_t all[2] = {m->f.units, m->f.most ? m->f.most : 16};
	return put_all(m, set, 0, all, x);
}

static void a_set_is_found_where_there_is_one_and_the_smallest(void **state)
{
	unsigned seed = 1, found = 0;
	for (int round = 0; round < 3000; round++) {
		size_t n = 2 + (size_t)rand_r(&seed) % 3;
		struct made *m = made(n, 3 + rand_r(&seed) % 6, 1 + rand_r(&seed) % 3);
		m->f.spread = rand_r(&seed) % 2;
		m->f.most = rand_r(&seed) % 3;
		for (size_t i = 0; i < n; i++) {
			m->nodes[i].usable = rand_r(&seed) % 8 != 0;
			m->nodes[i].feasible = rand_r(&seed) % 8 != 0;
		}
		for (int k = 1 + rand_r(&seed) % 6; k > 0; k--) {
			int a = rand_r(&seed) % (int)n, b = rand_r(&seed) % 4 ? -1 : (a + 1) % (int)n;
			int64_t g = 1 + rand_r(&seed) % 4;
			if (m->nodes[a].used_gres[0] + g <= 8 && (b < 0 || m->nodes[b].used_gres[0] + g <= 8))
				job(m, g, rand_r(&seed) % 10, a, b);
		}

		int least = -1;
		int64_t loss = 0;
		for (unsigned set = 0; set < 1U << m->f.n_jobs; set++) {
			int size = __builtin_popcount(set);
			int64_t lost = 0;
			for (size_t j = 0; j < m->f.n_jobs; j++)
				lost += set & (1U << j) ? m->jobs[j].loss : 0;
			if (good(m, set) && (least < 0 || size < least || (size == least && lost < loss)))
				least = size, loss = lost;
		}
		unsigned is = run(m);
		int64_t lost = 0;
		for (size_t j = 0; j < m->f.n_jobs; j++)
			lost += is & (1U << j) ? m->jobs[j].loss : 0;
		if (__builtin_popcount(is) != (least > 0 ? least : 0) || (is && (!good(m, is) || lost != loss)))
			fail_msg("round %d: %d jobs with a loss of %d, not %d with %d", round, __builtin_popcount(is),
				 (int)lost, least, (int)loss);
		found += is != 0;
		free(m);
	}
	printf("a set in %u of 3000 rounds\n", found);
	assert_true(found > 200);
}

static void ten_thousand_nodes(void **state)
{
	// Each node has a job of 4 GPUs, and 64 whole nodes are wanted: 64 jobs go beside 64 others.
	struct td_pool_node *nodes = calloc(NODES, sizeof(*nodes));
	struct td_pool_move_part *parts = calloc(NODES, sizeof(*parts));
	struct td_pool_move_job *jobs = calloc(NODES, sizeof(*jobs));
	for (int i = 0; i < NODES; i++) {
		nodes[i] = node(PER_NODE, 4);
		parts[i] = (struct td_pool_move_part){i, gpus(4)};
		jobs[i] = (struct td_pool_move_job){&parts[i], 1, everywhere, i % 1000};
	}
	struct td_pool_defrag f = {.nodes = nodes,
				   .n = NODES,
				   .want = gpus(8),
				   .units = 64,
				   .spread = true,
				   .jobs = jobs,
				   .n_jobs = NODES};
	size_t v[TD_DEFRAG_MOST];
	clock_t begun = clock();
	assert_int_equal(td_pool_defrag(&f, v), 64);
	printf("64 of 10,000 nodes: %.0f ms\n", (double)(clock() - begun) * 1000 / CLOCKS_PER_SEC);
	for (int i = 0; i < NODES; i++) // nowhere to go
		nodes[i].gres[0] = 7;
	f.want = gpus(7);
	begun = clock();
	assert_int_equal(td_pool_defrag(&f, v), 0);
	printf("none: %.0f ms\n", (double)(clock() - begun) * 1000 / CLOCKS_PER_SEC);
	free(nodes);
	free(parts);
	free(jobs);
}

static int setup(void **state)
{
	memset(everywhere, true, sizeof(everywhere));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_job_moves_into_the_piece_that_remains),
		cmocka_unit_test(nobody_moves_for_nothing),
		cmocka_unit_test(not_where_it_may_not_run),
		cmocka_unit_test(several_nodes_and_jobs_on_two),
		cmocka_unit_test(a_gang_sits_in_pieces),
		cmocka_unit_test(a_gang_that_must_be_near_each_other),
		cmocka_unit_test(a_set_is_found_where_there_is_one_and_the_smallest),
		cmocka_unit_test(ten_thousand_nodes),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
