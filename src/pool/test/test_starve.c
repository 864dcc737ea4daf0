// rows: C4.4
// Who makes room for one that starves: whom first, enough, and no more.
#include "pool/starve.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MINE, HOG, OTHER, ACCOUNTS, PER_NODE = 8 };

static struct td_pool_want gpus(int64_t n)
{
	return (struct td_pool_want){.cpus = n, .memory_mb = n, .gres = {n}};
}

struct made {
	struct td_pool_node nodes[4];
	struct td_pool_move_part parts[16];
	struct td_pool_starve_account accounts[ACCOUNTS];
	struct td_pool_starve_job jobs[16];
	struct td_pool_starve f;
};

// Two nodes of 8 GPUs; one of account MINE waits for `want` of them on one node.
static struct made *made(int64_t want)
{
	struct made *m = calloc(1, sizeof(*m));
	for (size_t i = 0; i < 2; i++)
		m->nodes[i] = (struct td_pool_node){
			.feasible = true, .usable = true, .cpus = 64, .memory_mb = 1000, .gres = {PER_NODE}};
	for (size_t i = 0; i < ACCOUNTS; i++)
		m->accounts[i].weight = 1;
	m->f = (struct td_pool_starve){
		.room = {.nodes = m->nodes, .n = 2, .want = gpus(want), .units = 1, .spread = true},
		.accounts = m->accounts,
		.n_accounts = 2, // OTHER comes with its first job
		.jobs = m->jobs,
		.total = 16,
		.account = MINE,
		.priority = 10,
		.wants = want};
	return m;
}

static struct td_pool_starve_job *job(struct made *m, size_t account, int64_t n, int node, int64_t start_s)
{
	struct td_pool_starve_job *j = &m->jobs[m->f.n_jobs];
	m->parts[m->f.n_jobs] = (struct td_pool_move_part){node, gpus(n)};
	*j = (struct td_pool_starve_job){.move = {.parts = &m->parts[m->f.n_jobs++], .n_parts = 1},
					 .account = account,
					 .holds = n,
					 .start_s = start_s,
					 .priority = 10};
	m->nodes[node].used_gres[0] += n;
	m->nodes[node].used_cpus += n;
	m->nodes[node].used_memory_mb += n;
	m->accounts[account].use += n;
	m->f.n_accounts = account == OTHER ? ACCOUNTS : m->f.n_accounts;
	return j;
}

// The victims in their order, as text: "2 slice, 0 share".
static void says(struct made *m, const char *want)
{
	static const char *const names[] = {"no", "slice", "share", "priority"};
	size_t v[TD_DEFRAG_MOST];
	enum td_pool_starve_why why[TD_DEFRAG_MOST];
	td_auto_buf struct td_buf b = {0};
	size_t n = td_pool_starve(&m->f, v, why);
	for (size_t i = 0; i < n; i++)
		td_buf_printf(&b, "%s%zu %s", i ? ", " : "", v[i], names[why[i]]);
	assert_string_equal(td_buf_str(&b), want);
	free(m);
}

static void test_shares(void **state)
{
	struct made *m = made(4);
	assert_int_equal(td_pool_starve_share(&m->f, MINE), 8);
	m->accounts[MINE].weight = 3;
	assert_int_equal(td_pool_starve_share(&m->f, MINE), 12);
	m->accounts[MINE].use = 8;
	assert_true(td_pool_starve_entitled(&m->f));
	m->accounts[MINE].use = 9; // with what he waits for he would have more than his share
	assert_false(td_pool_starve_entitled(&m->f));
	free(m);
}

static void test_over_share(void **state)
{
	struct made *m = made(4); // the youngest of the account that has too much, and one is enough
	for (int i = 0; i < 4; i++)
		job(m, HOG, 4, i / 2, 100 + i);
	says(m, "3 share");

	m = made(8); // all of one node, once its account has no more than its share nobody else of it goes
	for (int i = 0; i < 4; i++)
		job(m, HOG, 4, i / 2, 100 + i);
	says(m, "3 share, 2 share");

	m = made(4); // nobody has more than his share
	job(m, HOG, 8, 0, 100);
	job(m, OTHER, 5, 1, 100);
	m->accounts[HOG].weight = m->accounts[OTHER].weight = 2;
	m->accounts[MINE].weight = 4;
	m->accounts[HOG].use = m->accounts[OTHER].use = 4;
	says(m, "");

	m = made(2); // the one with the most excess
	job(m, HOG, 8, 0, 100);
	job(m, OTHER, 4, 1, 200);
	job(m, OTHER, 4, 1, 300);
	m->accounts[OTHER].weight = 2;
	says(m, "0 share");
}

static void test_order(void **state)
{
	struct made *m = made(4); // a slice that is over comes before all else
	job(m, HOG, 4, 0, 100)->over_slice = true;
	job(m, HOG, 4, 0, 200);
	job(m, HOG, 4, 1, 300)->priority = 1;
	job(m, HOG, 4, 1, 400);
	says(m, "0 slice");

	m = made(4); // within its share, and of a lower priority
	job(m, HOG, 8, 0, 100)->priority = 1;
	job(m, OTHER, 5, 1, 200);
	m->accounts[HOG].weight = m->accounts[OTHER].weight = 20;
	m->accounts[MINE].weight = 20;
	m->f.total = 30;
	says(m, "0 priority");

	m = made(4); // never his own
	job(m, MINE, 4, 0, 100)->priority = 1;
	job(m, HOG, 4, 0, 100);
	job(m, HOG, 4, 1, 101);
	job(m, HOG, 4, 1, 102);
	says(m, "3 share");

	m = made(4); // who has no place that he may use does not go for nothing
	m->nodes[1].feasible = false;
	job(m, HOG, 4, 0, 100);
	job(m, HOG, 4, 0, 101);
	job(m, HOG, 8, 1, 900);
	says(m, "1 share");
}

static void test_enough_and_no_more(void **state)
{
	struct made *m = made(8); // the youngest is on the wrong node: who was chosen in vain stays
	job(m, HOG, 2, 1, 900);
	job(m, OTHER, 6, 1, 50);
	job(m, HOG, 8, 0, 800);
	m->accounts[OTHER].weight = 4;
	m->accounts[MINE].weight = 8;
	says(m, "2 share");

	m = made(8); // nothing would do: nobody goes
	job(m, HOG, 6, 0, 100);
	job(m, MINE, 2, 0, 100);
	job(m, HOG, 6, 1, 100);
	job(m, MINE, 2, 1, 100);
	m->accounts[MINE].use = 0;
	says(m, "");

	m = made(4); // there is room
	job(m, HOG, 8, 0, 100);
	job(m, HOG, 4, 1, 100);
	says(m, "");

	m = made(8); // a gang on both nodes
	m->f.room.want = gpus(4);
	m->f.room.units = 2;
	for (int i = 0; i < 4; i++)
		job(m, HOG, 4, i / 2, 100 - i);
	says(m, "0 share, 2 share");
}

// Before all who may wait, whatever their nice is; and what it was can be found again.
static void test_front(void **state)
{
	const int64_t may[] = {0, 50, 99999999, -1, -1000000, -1000000000}; // the last is a PriorityClass' most
	for (size_t i = 0; i < TD_LEN(may); i++) {
		int64_t at = td_pool_starve_front(may[i]);
		assert_false(td_pool_starve_at_front(may[i]));
		assert_true(td_pool_starve_at_front(at) && at < -1000000000 && at > -2147483645); // Slurm's most
		assert_int_equal(td_pool_starve_front(at), at);
		assert_int_equal(td_pool_starve_own(at), may[i]);
		assert_int_equal(td_pool_starve_own(may[i]), may[i]);
	}
	assert_int_equal(td_pool_starve_front(2147483645), 2147483645);
	assert_int_equal(td_pool_starve_front(100000000), 100000000);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_over_share),
				       cmocka_unit_test(test_order), cmocka_unit_test(test_enough_and_no_more),
				       cmocka_unit_test(test_front)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
