// Which jobs ask for new nodes, and how many a NodeSet has.
// rows: A4.5 A4.8
#include "pool/grow.h"

#include "base/names.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct td_grow_room node = {.cpus = 8, .memory_mb = 8000, .gres = {2}};

static struct td_grow_set set_of(size_t room)
{
	return (struct td_grow_set){.shape = node, .room = room};
}

// A job of so many parts of so many GPUs, each with two CPUs.
static struct td_grow_job job(size_t parts, int64_t gpus)
{
	return (struct td_grow_job){
		.part = {.cpus = 2, .memory_mb = 100, .gres = {gpus}}, .parts = parts, .times = 1, .in = {true}};
}

static size_t wanted(struct td_grow_node *v, size_t n, size_t room, const struct td_grow_job *jobs, size_t n_jobs)
{
	struct td_grow_set s = set_of(room);
	td_pool_grow(v, n, &s, 1, jobs, n_jobs);
	return s.wanted;
}

static void what_is_free_comes_first(void **state)
{
	static const bool yes[] = {true, true};
	struct td_grow_job j[] = {job(1, 2), job(1, 1), job(1, 1), job(1, 1)};
	for (int i = 0; i < 4; i++)
		j[i].may = yes;
	struct td_grow_node v[] = {{node, true}, {{0}, false}};
	assert_int_equal(wanted(v, 2, 8, j, 1), 0); // it fits, and Slurm only has not begun it yet
	struct td_grow_node w[] = {{node, true}, {{0}, false}};
	assert_int_equal(wanted(w, 2, 8, j, 4), 2); // two of one GPU share a new node, the third has another
	static const bool no[] = {false, true};
	j[0].may = no;
	struct td_grow_node u[] = {{node, true}, {{0}, false}};
	assert_int_equal(wanted(u, 2, 8, j, 1), 1); // what is free is none of its nodes
}

static void who_could_never_run_asks_for_none(void **state)
{
	struct td_grow_job large = job(1, 3), many = job(5, 2), other = job(1, 1), fits = job(2, 2);
	other.in[0] = false;
	many.apart = fits.apart = true;
	assert_int_equal(wanted(NULL, 0, 4, &large, 1), 0);
	assert_int_equal(wanted(NULL, 0, 4, &many, 1), 0);
	assert_int_equal(wanted(NULL, 0, 4, &other, 1), 0);
	const struct td_grow_job all[] = {large, many, other, fits};
	struct td_grow_set s = set_of(4);
	td_pool_grow(NULL, 0, &s, 1, all, 4);
	assert_int_equal(s.wanted, 2); // and what they would have taken is there for who can run
	assert_int_equal(s.first, 3);
}

static void parts_with_nodes_of_their_own_share_none(void **state)
{
	struct td_grow_job j = job(3, 1);
	assert_int_equal(wanted(NULL, 0, 8, &j, 1), 2);
	j.apart = true;
	assert_int_equal(wanted(NULL, 0, 8, &j, 1), 3);
	j.apart = false;
	j.exclusive = true;
	assert_int_equal(wanted(NULL, 0, 8, &j, 1), 3);
	struct td_grow_node v = {node, false}; // somebody has a part of it
	static const bool yes[] = {true};
	j.may = yes;
	assert_int_equal(wanted(&v, 1, 8, &j, 1), 3);
}

static void an_array_gets_what_there_may_be(void **state)
{
	struct td_grow_job j = job(1, 2);
	j.times = 100;
	assert_int_equal(wanted(NULL, 0, 3, &j, 1), 3);
	assert_int_equal(wanted(NULL, 0, 0, &j, 1), 0);
}

// What does not fit gives back all that it took, of each node that has room for a part of it.
static void what_does_not_fit_takes_nothing(void **state)
{
	static const bool yes[] = {true, true, true};
	struct td_grow_node v[] = {{node, true}, {{0}, false}, {node, true}};
	struct td_grow_job j[] = {job(7, 1), job(1, 2), job(1, 2), job(1, 2)};
	for (size_t i = 0; i < 4; i++)
		j[i].may = yes;
	j[0].times = 3;
	assert_int_equal(wanted(v, 3, 1, j, 4), 1);
	j[0].parts = 5; // one such job fits, and fills all that there may be
	struct td_grow_node w[] = {{node, true}, {{0}, false}, {node, true}};
	struct td_grow_set s = set_of(2);
	td_pool_grow(w, 3, &s, 1, j, 4);
	assert_int_equal(s.wanted, 2);
	assert_int_equal(s.first, 0);
	assert_int_equal(w[0].left.gres[0] + w[2].left.gres[0], 0);
}

static void each_takes_the_sets_where_it_may_run(void **state)
{
	struct td_grow_set s[] = {set_of(1), set_of(4)};
	struct td_grow_job j[] = {job(2, 2), job(1, 2)};
	j[0].in[1] = j[1].in[1] = true;
	j[1].in[0] = false;
	td_pool_grow(NULL, 0, s, 2, j, 2);
	assert_int_equal(s[0].wanted, 1);
	assert_int_equal(s[1].wanted, 2);
	assert_int_equal(s[1].first, 0);
}

// ---- a NodeSet ----

static struct td_pool_record records[8];

static struct td_pool_member member(int i)
{
	records[i] = (struct td_pool_record){.address = "10.1.1.1"};
	return (struct td_pool_member){.name = "n",
				       .exists = true,
				       .matched = true,
				       .ready = true,
				       .pod = true,
				       .pod_ready = true,
				       .pod_ip = "10.1.1.1",
				       .pod_ready_ms = 1000,
				       .record = &records[i]};
}

static struct td_grow_policy policy(long long wanted)
{
	return (struct td_grow_policy){
		.min = 1, .max = 4, .idle_s = 600, .wanted = wanted, .view = true, .now_ms = 10000000};
}

static void what_is_wanted_is_made_up_to_the_most(void **state)
{
	struct td_pool_member v[] = {member(0), member(1)};
	struct td_grow_policy p = policy(3);
	struct td_grow_plan g = td_pool_grow_set(v, 2, &p);
	assert_int_equal(g.nodes, 3);
	assert_int_equal(g.machines, 1);
	p.wanted = 9;
	g = td_pool_grow_set(v, 2, &p);
	assert_int_equal(g.nodes, 4);
	assert_int_equal(g.machines, 2);
	assert_false(v[0].spare || v[1].spare); // while somebody waits nobody goes
	g = td_pool_grow_set(v, 0, &(struct td_grow_policy){.min = 2, .max = 4, .view = true});
	assert_int_equal(g.machines, 2); // the least is made without being asked for
}

static void a_machine_that_comes_is_not_asked_for_again(void **state)
{
	struct td_pool_member v[] = {member(0), member(1)};
	v[1].pod = v[1].pod_ready = v[1].ready = false;
	v[1].record = NULL;
	v[1].made_ms = 9990000;
	struct td_grow_policy p = policy(2);
	assert_int_equal(td_pool_grow_set(v, 2, &p).machines, 0);
	v[1].pod = true; // and its slurmd begins
	assert_int_equal(td_pool_grow_set(v, 2, &p).machines, 0);
	v[1].made_ms = 1000; // it never came
	assert_int_equal(td_pool_grow_set(v, 2, &p).machines, 1);
	v[1].pod_born_ms = 9990000; // its slurmd has just begun, and whoever waited has gone
	p.wanted = 0;
	records[0].jobs = true;
	assert_int_equal(td_pool_grow_set(v, 2, &p).nodes, 2);
	records[0].jobs = false;
	p.wanted = 2;
	v[1].pod_born_ms = 1000;
	p.max = 2; // it counts as a machine all the same
	assert_int_equal(td_pool_grow_set(v, 2, &p).machines, 0);
	v[1].ready = true; // one that Slurm let go is there again
	v[1].pod = false;
	p.max = 4;
	assert_int_equal(td_pool_grow_set(v, 2, &p).machines, 0);
	p.wanted = 0; // nobody waits any more: it is not Slurm's
	assert_int_equal(td_pool_grow_set(v, 2, &p).nodes, 1);
}

static void idle_nodes_go_down_to_the_least(void **state)
{
	struct td_pool_member v[] = {member(0), member(1), member(2), member(3)};
	records[1].busy_at = 9999; // a job has just ended there
	records[2].jobs = true;
	struct td_grow_policy p = policy(0);
	struct td_grow_plan g = td_pool_grow_set(v, 4, &p);
	assert_int_equal(g.nodes, 2);
	assert_int_equal(g.machines, 0);
	assert_true(v[0].spare && v[3].spare && !v[1].spare && !v[2].spare);
	p.min = 3;
	assert_int_equal(td_pool_grow_set(v, 4, &p).nodes, 3);
	assert_true(v[3].spare && !v[0].spare);
	p.view = false; // unknown is not idle
	assert_int_equal(td_pool_grow_set(v, 4, &p).nodes, 4);
	assert_false(v[3].spare);
}

// The whole way: the spare one is drained, and comes back when somebody waits before it is gone.
static void the_spare_one_is_drained_first(void **state)
{
	struct td_pool_member v[] = {member(0), member(1)};
	records[1].busy_at = 9999;
	for (int i = 0; i < 2; i++)
		v[i].pod_current = true;
	struct td_grow_policy g = policy(0);
	struct td_pool_policy p = {
		.rolling = true, .max_unavailable = 1, .update_force_s = -1, .scale_force_s = -1, .view = true};
	p.now_ms = g.now_ms;
	struct td_pool_set_counts k;
	p.replicas = td_pool_grow_set(v, 2, &g).nodes;
	td_pool_nodeset_decide(v, 2, &p, &k);
	assert_int_equal(v[0].act, TD_MEMBER_DRAIN); // not the last by name, which has just worked
	assert_string_equal(v[0].why, TD_REASON_SCALE_IN);
	assert_int_equal(v[1].act, TD_MEMBER_NOTHING);
	records[0].drain = true;
	records[0].reason = TD_REASON_SCALE_IN;
	p.replicas = td_pool_grow_set(v, 2, &g).nodes;
	td_pool_nodeset_decide(v, 2, &p, &k);
	assert_int_equal(v[0].act, TD_MEMBER_DELETE_POD);
	g.wanted = 2;
	p.replicas = td_pool_grow_set(v, 2, &g).nodes;
	td_pool_nodeset_decide(v, 2, &p, &k);
	assert_int_equal(v[0].act, TD_MEMBER_UNDRAIN);
}

// Else one that no machine suits brings one after the other, up to the most.
static void a_machine_that_is_there_says_what_the_next_one_would_be(void **state)
{
	static const struct {
		bool there[3], may[3], like;
	} cases[] = {
		{{false, false, false}, {false, false, true}, true}, // of none that is there: as it is said
		{{true, false, false}, {false, false, true}, false},
		{{true, true, false}, {false, true, false}, true},
		{{true, false, false}, {true, false, false}, true},
		{{false, false, false}, {false, false, false}, false},
	};
	static const bool in[] = {true, false, true, false, true, false}; // of two sets
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(td_pool_grow_like(in, 2, cases[i].there, cases[i].may, 3), cases[i].like);
		assert_false(td_pool_grow_like(in + 1, 2, cases[i].there, cases[i].may, 3));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_free_comes_first),
		cmocka_unit_test(who_could_never_run_asks_for_none),
		cmocka_unit_test(parts_with_nodes_of_their_own_share_none),
		cmocka_unit_test(an_array_gets_what_there_may_be),
		cmocka_unit_test(what_does_not_fit_takes_nothing),
		cmocka_unit_test(each_takes_the_sets_where_it_may_run),
		cmocka_unit_test(what_is_wanted_is_made_up_to_the_most),
		cmocka_unit_test(a_machine_that_comes_is_not_asked_for_again),
		cmocka_unit_test(idle_nodes_go_down_to_the_least),
		cmocka_unit_test(the_spare_one_is_drained_first),
		cmocka_unit_test(a_machine_that_is_there_says_what_the_next_one_would_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
