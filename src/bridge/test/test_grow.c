// What a job that waits for room would take of new nodes.
// rows: A4.5
#include "bridge/grow.h"

#include "bridge/test/given.h"
#include "pool/grow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S(x) ((char *)(uintptr_t)(x))

static void what_one_part_takes(void **state)
{
	static const struct {
		struct td_slurm_job j;
		size_t parts, times;
		int64_t cpus, memory, gpus;
		bool apart, exclusive;
	} cases[] = {
		// sbatch -c4 --gres=gpu:2 --mem=100M
		{{.want_cpus = 4,
		  .want_tasks = 1,
		  .want_cpus_per_task = 4,
		  .want_memory_mb = 100,
		  .tres_per_node = S("gres/gpu:2")},
		 1,
		 1,
		 4,
		 100,
		 2,
		 false,
		 false},
		// -N3 --gres=gpu:2 --mem=100M
		{{.want_cpus = 3,
		  .want_tasks = 3,
		  .want_nodes = 3,
		  .want_memory_mb = 100,
		  .tres_per_node = S("gres/gpu:2")},
		 3,
		 1,
		 1,
		 100,
		 2,
		 true,
		 false},
		// -N2 --gpus=7 --mem=1: one of them has four
		{{.want_cpus = 2,
		  .want_tasks = 2,
		  .want_nodes = 2,
		  .want_memory_mb = 1,
		  .tres_per_job = S("gres/gpu:7")},
		 2,
		 1,
		 1,
		 1,
		 4,
		 true,
		 false},
		// -n6 --gpus-per-task=1 --mem-per-cpu=10M: on as many nodes as there is room
		{{.want_cpus = 6, .want_tasks = 6, .want_memory_per_cpu_mb = 10, .tres_per_task = S("gres/gpu:1")},
		 6,
		 1,
		 1,
		 10,
		 1,
		 false,
		 false},
		// --array=0-9 -c2, without a word of memory: all of a node's
		{{.want_cpus = 2, .want_tasks = 1, .want_cpus_per_task = 2, .array = 7, .task = -1, .tasks = S("0-9")},
		 1,
		 10,
		 2,
		 0,
		 0,
		 false,
		 true},
		// --exclusive --mem=10
		{{.want_cpus = 1, .want_tasks = 1, .want_memory_mb = 10, .shared = S("none")},
		 1,
		 1,
		 1,
		 10,
		 0,
		 false,
		 true},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		char kinds[TD_GROW_KINDS][64] = {""};
		struct td_grow_job g;
		assert_true(td_growth_read(&cases[i].j, kinds, &g));
		assert_int_equal(g.parts, cases[i].parts);
		assert_int_equal(g.times, cases[i].times);
		assert_int_equal(g.part.cpus, cases[i].cpus);
		assert_int_equal(g.part.memory_mb, cases[i].memory);
		assert_int_equal(g.part.gres[0], cases[i].gpus);
		assert_int_equal(g.apart, cases[i].apart);
		assert_int_equal(g.exclusive, cases[i].exclusive);
	}
}

static void who_names_his_nodes_waits_for_these(void **state)
{
	char kinds[TD_GROW_KINDS][64] = {""};
	struct td_grow_job g;
	const struct td_slurm_job j = {.want_cpus = 1, .want_tasks = 1, .required_nodes = S("n1")};
	assert_false(td_growth_read(&j, kinds, &g));
}

static void kinds_have_one_number_for_all_jobs(void **state)
{
	char kinds[TD_GROW_KINDS][64] = {"gpu"};
	struct td_grow_job g;
	const struct td_slurm_job j = {
		.want_cpus = 1, .want_tasks = 1, .want_memory_mb = 1, .tres_per_node = S("gres/gpu:h100:2,gres/gpu:1")};
	assert_true(td_growth_read(&j, kinds, &g));
	assert_int_equal(g.part.gres[0], 1);
	assert_int_equal(g.part.gres[1], 2);
	assert_string_equal(kinds[1], "gpu:h100");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_part_takes),
		cmocka_unit_test(who_names_his_nodes_waits_for_these),
		cmocka_unit_test(kinds_have_one_number_for_all_jobs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
