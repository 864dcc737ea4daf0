// What a native job that waits may take, and where, as a pod that has just come sees it.
// rows: A6.3
#include "bridge/scheduler/waits.h"

#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S(x) ((char *)(uintptr_t)(x))

// The waiter of the job, in the terms of a pod that asks for GPUs.
static const struct td_pool_waiter *seen(const struct td_slurm_job *j)
{
	static struct td_queued l;
	static struct td_queued_seen s;
	const struct td_want w = {.kinds = {"gpu"}};
	td_queued_done(&l);
	struct td_queued_job q = {.wait = td_ask_wait_of_job(j)};
	td_queued_add(&l, &q);
	td_ask_wait_unref(q.wait);
	td_queued_kinds(&l, &w, &s);
	const struct td_pool_waiter *ret = &s.v[0];
	td_queued_done(&l);
	return ret;
}

static void test_shapes(void **state)
{
	static const struct {
		struct td_slurm_job j;
		int64_t cpus, least_cpus, memory, least_memory, gpus, least_gpus;
		size_t nodes;
	} cases[] = {
		// sbatch --gres=gpu:8 --mem=100M
		{{.want_cpus = 1, .want_tasks = 1, .want_memory_mb = 100, .tres_per_node = S("gres/gpu:8")},
		 1,
		 1,
		 100,
		 100,
		 8,
		 8,
		 1},
		// -c4 --mem-per-cpu=10M
		{{.want_cpus = 4, .want_tasks = 1, .want_cpus_per_task = 4, .want_memory_per_cpu_mb = 10},
		 4,
		 4,
		 40,
		 40,
		 0,
		 0,
		 1},
		// -N2 -n4 --gpus-per-task=1 --mem-per-cpu=10M: the tasks may lie anyhow
		{{.want_cpus = 4,
		  .want_tasks = 4,
		  .want_nodes = 2,
		  .want_memory_per_cpu_mb = 10,
		  .tres_per_task = S("gres/gpu=1")},
		 4,
		 1,
		 40,
		 10,
		 4,
		 1,
		 2},
		// -N2 --ntasks-per-node=3 -c2 --gpus-per-node=2
		{{.want_cpus = 12,
		  .want_tasks = 6,
		  .want_nodes = 2,
		  .want_tasks_per_node = 3,
		  .want_cpus_per_task = 2,
		  .want_memory_mb = 50,
		  .tres_per_node = S("gres/gpu:2"),
		  .tres_per_task = S("cpu=2")},
		 6,
		 6,
		 50,
		 50,
		 2,
		 2,
		 2},
		// --gpus=4 -n2
		{{.want_cpus = 2, .want_tasks = 2, .want_memory_mb = 100, .tres_per_job = S("gres/gpu:4")},
		 2,
		 1,
		 100,
		 100,
		 4,
		 1,
		 1},
		// no memory said: all of a node
		{{.want_cpus = 1, .want_tasks = 1}, 1, 1, 1 << 30, 1, 0, 0, 1},
		{{.want_cpus = 1, .want_tasks = 1, .want_memory_mb = 1, .tres_per_node = S("gres/gpu")},
		 1,
		 1,
		 1,
		 1,
		 1,
		 1,
		 1},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		const struct td_pool_waiter *w = seen(&cases[i].j);
		assert_true(w->known);
		assert_int_equal(w->want.cpus, cases[i].cpus);
		assert_int_equal(w->least.cpus, cases[i].least_cpus);
		assert_int_equal(w->want.memory_mb, cases[i].memory);
		assert_int_equal(w->least.memory_mb, cases[i].least_memory);
		assert_int_equal(w->want.gres[0], cases[i].gpus);
		assert_int_equal(w->least.gres[0], cases[i].least_gpus);
		assert_int_equal(w->nodes, cases[i].nodes);
	}
}

// What is not understood is not guessed: nobody goes past it.
static void test_not_understood(void **state)
{
	static const struct td_slurm_job jobs[] = {
		{.shared = S("user")},
		{.shared = S("none,user")},
		{.tres_per_socket = S("gres/gpu:1")},
		{.tres_per_node = S("gres/gpu=x")},
		{.tres_per_node = S("gres/gpu:-1")},
		{.tres_per_node = S("gres/gpu:99999999999")},
		{.tres_per_node = S("gres/a,gres/b,gres/c,gres/d,gres/e,gres/f,gres/g,gres/h,gres/i")},
		{.excluded_nodes = S("n[")},
		{.want_tasks = 1, .required_nodes = S("n[")},
	};
	for (size_t i = 0; i < TD_LEN(jobs); i++)
		assert_false(seen(&jobs[i])->known);
	const struct td_slurm_job whole = {.shared = S("none")};
	assert_true(seen(&whole)->known && seen(&whole)->want.exclusive);
}

// Who names all its nodes may have no other; who names some of several has those, and others besides.
static void test_named(void **state)
{
	const struct {
		const char *names;
		int64_t nodes, tasks;
		size_t only, must;
	} cases[] = {{"n0", 1, 1, 1, 0}, {"n[0-1]", 2, 2, 2, 0}, {"n0", 3, 3, 0, 1}, {"", 2, 2, 0, 0}};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		struct td_ask_wait_parts p;
		struct td_ask_wait *w =
			td_ask_wait_of_job(&(const struct td_slurm_job){.want_nodes = cases[i].nodes,
									.want_tasks = cases[i].tasks,
									.want_cpus = cases[i].tasks,
									.required_nodes = S(cases[i].names)});
		assert_non_null(w);
		td_ask_wait_show(w, &p);
		assert_int_equal(p.only->n, cases[i].only);
		assert_int_equal(p.must->n, cases[i].must);
		assert_int_equal(p.nodes, cases[i].nodes);
		td_ask_wait_unref(w);
	}
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_not_understood),
				       cmocka_unit_test(test_named)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
