// rows: C4.4
// Who makes room for one that starves: whom first, enough, and no more.
#include "pool/leave.h"
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

static int64_t any(uint64_t *seed, int64_t n)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (int64_t)(*seed >> 33) % n;
}

// Any pool: whoever is chosen may be, is enough and no more; and who leaves already is asked no second time and costs
// nobody else his place.
static void test_any(void **state)
{
	enum { NODES = 4, JOBS = 12, TURNS = 4000 };
	uint64_t seed = 20261127;
	size_t chosen = 0, came = 0;
	for (int turn = 0; turn < TURNS; turn++) {
		struct made *m = made(1 + any(&seed, 8));
		m->f.room.n = NODES;
		m->f.n_accounts = ACCOUNTS;
		m->f.total = NODES * PER_NODE;
		bool must[NODES] = {0};
		for (size_t i = 0; i < NODES; i++)
			m->nodes[i] = (struct td_pool_node){.feasible = any(&seed, 8) > 0,
							    .usable = any(&seed, 8) > 0,
							    .cpus = 64,
							    .memory_mb = 1000,
							    .gres = {PER_NODE}};
		for (size_t i = 0; i < ACCOUNTS; i++)
			m->accounts[i].weight = 1 + any(&seed, 4);
		for (int i = 0; i < JOBS; i++) {
			int on = (int)any(&seed, NODES);
			int64_t left = PER_NODE - m->nodes[on].used_gres[0], n = 1 + any(&seed, 4);
			if (left < 1)
				continue;
			struct td_pool_starve_job *j =
				job(m, (size_t)any(&seed, ACCOUNTS), n < left ? n : left, on, 100 + any(&seed, 50));
			j->priority = any(&seed, 3) * 10;
			j->over_slice = !any(&seed, 6);
			j->going = !any(&seed, 6);
			j->leaves_for = j->going ? 30 + any(&seed, 3) : 0;
			j->ends = !any(&seed, 4);
		}
		bool where[NODES];
		for (size_t i = 0; i < NODES; i++)
			where[i] = any(&seed, 4) > 0;
		const int64_t his = 1 + any(&seed, 4);
		const struct td_pool_starve_other other = {.feasible = where,
							   .want = gpus(his),
							   .units = 1,
							   .wants = his,
							   .spread = true,
							   .account = OTHER,
							   .waiter = 30};
		m->f.waiter = 99;
		m->f.others = &other;
		m->f.n_others = (size_t)any(&seed, 2);
		m->f.n_accounts = ACCOUNTS;
		m->f.room.units = 1 + any(&seed, 2);
		m->f.wants = m->f.room.want.gres[0] * m->f.room.units;
		must[any(&seed, NODES)] = !any(&seed, 3);
		m->f.must = must;

		size_t v[TD_DEFRAG_MOST], w[TD_DEFRAG_MOST];
		enum td_pool_starve_why why[TD_DEFRAG_MOST], again[TD_DEFRAG_MOST];
		size_t n = td_pool_starve(&m->f, v, why);
		assert_true(!n || td_pool_starve_entitled(&m->f));
		for (size_t i = 0; i < n; i++) {
			assert_false(m->jobs[v[i]].going);
			assert_int_not_equal(m->jobs[v[i]].account, MINE);
			assert_int_not_equal(why[i], TD_STARVE_NO);
			for (size_t k = 0; k < i; k++)
				assert_int_not_equal(v[i], v[k]);
		}
		bool comes = td_pool_starve_comes(&m->f);
		assert_false(comes && n);
		came += comes;
		chosen += n > 0;
		// Told, as the next pass or another bridge finds them: nobody else, and it is enough.
		for (size_t i = 0; i < n; i++) {
			m->jobs[v[i]].going = true;
			m->jobs[v[i]].leaves_for = 99;
		}
		assert_true(!n || (!td_pool_starve(&m->f, w, again) && td_pool_starve_comes(&m->f)));
		// Half of them were told when the bridge died: nobody goes twice, and they are enough again.
		size_t half = n / 2, rest = 0;
		for (size_t i = half; i < n; i++)
			m->jobs[v[i]].going = false;
		rest = half ? td_pool_starve(&m->f, w, again) : 0;
		assert_true(!half || rest || td_pool_starve_comes(&m->f) || n > half);
		for (size_t i = 0; i < rest; i++)
			assert_false(m->jobs[w[i]].going);
		free(m);
	}
	assert_true(chosen > TURNS / 20 && came > TURNS / 100);
}

// What is written of a job's leaving is read again, beside what others have written.
static void test_leave(void **state)
{
	const struct td_pool_leave l = {.waiter = 30, .at_s = 1764234567, .restarts = 2};
	struct td_pool_leave is = {0};
	td_auto_free char *first = td_pool_leave_write(&l, "n[0-1]", "4 gpu, at most (its slice is over)", NULL);
	assert_true(td_pool_leave_read(first, &is));
	assert_int_equal(is.waiter, 30);
	assert_int_equal(is.at_s, 1764234567);
	assert_int_equal(is.restarts, 2);
	const struct td_pool_leave next = {.waiter = 31, .at_s = 1764239999, .restarts = 3};
	td_auto_free char *both = td_asprintf("mine %s tandem: used 3600 s in 2 runs, 1800 s left;", first),
			  *now = td_pool_leave_write(&next, "n3", "2 gpu", both);
	assert_string_equal(now, "mine tandem: moved off n3, so that job 31 has room, which waits for 2 gpu, at "
				 "2025-11-27T10:39:59Z after 3 restarts tandem: used 3600 s in 2 runs, 1800 s left;");
	assert_true(td_pool_leave_read(now, &is));
	assert_int_equal(is.waiter, 31);
	// Any time: each day of a century, and the leap days in it.
	for (int64_t at = 1; at < INT64_C(4102444800); at += 86399) {
		td_auto_free char *t =
			td_pool_leave_write(&(const struct td_pool_leave){.waiter = 1, .at_s = at}, "n", "x", "");
		assert_true(td_pool_leave_read(t, &is));
		assert_int_equal(is.at_s, at);
	}
	const struct td_pool_leave none = {.waiter = 31};
	td_auto_free char *moved = td_pool_leave_write(&none, "n3", "2 gpu", now); // of a defragmentation
	static const char *const bad[] = {
		NULL,
		"",
		"tandem: moved off n0",
		"tandem: moved off n0, so that job 30 has room, which waits for x, at noon after 2 restarts",
		"tandem: moved off n0, so that job -1 has room, which waits for x, at 2025-11-27T10:39:59Z after 2 "
		"restarts",
		"tandem: moved off n0, so that job 30 has room, which waits for x, at 2025-11-27T10:39:59Z after 2",
		"so that job 30 has room, at 2025-11-27T10:39:59Z after 2 restarts"};
	assert_false(td_pool_leave_read(moved, &is));
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_pool_leave_read(bad[i], &is));

	// Pods go only while their grant is the one that was chosen.
	const struct td_grant g = {.job = 12, .start = 100, .restarts = 0};
	struct td_pool_job j = {.know = TD_JOB_READ, .is = TD_IS_RUNNING, .ours = true, .grant = g};
	assert_true(td_pool_leave_may(&g, &j));
	j.grant.start = 101;
	assert_false(td_pool_leave_may(&g, &j));
	j.grant.start = 100;
	j.is = TD_IS_ENDED;
	assert_false(td_pool_leave_may(&g, &j));
	j.is = TD_IS_RUNNING;
	j.ours = false;
	assert_false(td_pool_leave_may(&g, &j));
	assert_false(
		td_pool_leave_may(&(const struct td_grant){0},
				  &(const struct td_pool_job){.know = TD_JOB_READ, .is = TD_IS_RUNNING, .ours = true}));
}

// Room comes soon of who has to have gone by then; not of who may take long, or should have gone long ago.
static void test_soon(void **state)
{
	const int64_t now = 1764234567, most = 300;
	assert_true(td_pool_leave_soon(0, now, most)); // it has ended
	assert_true(td_pool_leave_soon(now + 300, now, most));
	assert_false(td_pool_leave_soon(now + 301, now, most));
	assert_true(td_pool_leave_soon(now + 86400, now, INT64_MAX));
	assert_true(td_pool_leave_soon(now - 60, now, most));
	assert_false(td_pool_leave_soon(now - 61, now, most));
	assert_false(td_pool_leave_soon(now - 61, now, INT64_MAX));
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_over_share),
				       cmocka_unit_test(test_order),  cmocka_unit_test(test_enough_and_no_more),
				       cmocka_unit_test(test_front),  cmocka_unit_test(test_any),
				       cmocka_unit_test(test_leave),  cmocka_unit_test(test_soon)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
