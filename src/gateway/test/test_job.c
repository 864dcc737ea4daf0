// rows: E5.1 E5.3 E1.8 E4.2 E2.1
// What a run means for Slurm; which paths are taken; how often one may ask.
#include "gateway/batch.h"
#include "gateway/cause.h"
#include "gateway/door.h"
#include "gateway/home.h"
#include "gateway/job.h"
#include "gateway/jobs.h"
#include "gateway/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int plan(const char *job, struct td_gateway_plan *ret, struct td_error *err)
{
	static struct td_json *kept; // the plan's strings point into it
	td_json_unref(kept);
	kept = NULL;
	assert_int_equal(td_json_parse(job, strlen(job), &kept, NULL), 0);
	const struct td_gateway_plan_in in = {
		.job = td_json_root(kept), .id = "t-1", .user = "ann", .home = "/home/ann"};
	int r = td_gateway_plan(&in, ret, err);
	if (r) {
		td_json_unref(kept);
		kept = NULL;
	}
	return r;
}

static void of_several_architectures_the_job_chooses_on_its_node(void **state)
{
	static const char job[] = "{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"]}]}";
	static const struct {
		const char *env, *variable;
	} v[] = {{"k1", "\"TANDEM_ENV=/home/ann/tandem/envs/k1\""},
		 {"aarch64=k1 x86_64=k2", "\"TANDEM_ENVS=aarch64=k1 x86_64=k2\""}};
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(job, strlen(job), &j, NULL), 0);
	for (size_t i = 0; i < TD_LEN(v); i++) {
		const struct td_gateway_plan_in in = {
			.job = td_json_root(j), .id = "t-1", .user = "ann", .home = "/home/ann", .env = v[i].env};
		td_auto_plan struct td_gateway_plan p = {0};
		td_auto_strv struct td_strv others = {0};
		assert_int_equal(td_gateway_plan(&in, &p, NULL), 0);
		td_strv_add(&others, "n7");
		p.steps[0].batch.exclude = &others;
		td_auto_free char *body = td_slurm_batch_body(&p.steps[0].batch);
		assert_non_null(strstr(body, v[i].variable));
		assert_non_null(strstr(body, "\"excluded_nodes\":[\"n7\"]"));
	}
}

static void the_cpus_of_a_task_are_in_its_environment(void **state)
{
	static const struct {
		const char *job;
		bool said;
	} v[] = {{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"],\"cpus\":4}]}", true},
		 {"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"]}]}", false}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_plan struct td_gateway_plan p = {0};
		assert_int_equal(plan(v[i].job, &p, NULL), 0);
		assert_int_equal(td_strv_has(&p.steps[0].batch.env, "SLURM_CPUS_PER_TASK=4"), v[i].said);
	}
}

static void a_suspended_job_has_not_failed(void **state)
{
	struct td_slurm_job j = {.states = TD_JOB(RUNNING) | TD_JOB(SUSPENDED)};
	assert_string_equal(td_gateway_job_state(&j), "suspended");
	j.states = TD_JOB(FAILED);
	assert_string_equal(td_gateway_job_state(&j), "failed");
}

static void steps_stand_behind_what_they_need(void **state)
{
	td_auto_plan struct td_gateway_plan p = {0};
	assert_int_equal(plan("{\"name\":\"t\",\"steps\":["
			      "{\"name\":\"c\",\"after\":[\"b\",\"a\"],\"entrypoint\":[\"x\"]},"
			      "{\"name\":\"b\",\"after\":[\"a\"],\"entrypoint\":[\"x\"]},"
			      "{\"name\":\"a\",\"entrypoint\":[\"one\",\"two\"],\"gpus\":2,\"gpuType\":\"h100\"}]}",
			      &p, NULL),
			 0);
	assert_int_equal(p.n, 3);
	assert_string_equal(p.steps[0].name, "a");
	assert_string_equal(p.steps[1].name, "b");
	assert_string_equal(p.steps[2].name, "c");
	assert_int_equal(p.steps[2].n_after, 2);
	assert_int_equal(p.steps[2].after[0] + p.steps[2].after[1], 1);
	assert_string_equal(p.steps[0].batch.cwd, "/home/ann/tandem/runs/t-1");
	assert_string_equal(p.steps[0].batch.output, "/home/ann/tandem/runs/t-1/slurm_log/slurm-%j.out");
	assert_string_equal(p.steps[0].batch.comment, "tandem t-1 a");
	assert_string_equal(p.steps[0].batch.name, "t-a");
	yyjson_mut_val *text = yyjson_mut_obj_get(yyjson_mut_doc_get_root(p.texts), "a.sh");
	assert_string_equal(yyjson_mut_get_str(text), "one\ntwo\n");

	td_auto_free char *body = td_slurm_batch_body(&p.steps[0].batch);
	assert_non_null(strstr(body, "\"tres_per_node\":\"gres/gpu:h100:2\""));
	assert_non_null(strstr(body, "\"memory_per_node\":{\"set\":true,\"number\":1024}"));
	assert_non_null(strstr(body, "\"HOME=/home/ann\""));
	assert_null(strstr(body, "dependency"));
	assert_null(strstr(body, "user_id"));
	p.steps[0].batch.uid = 3000; // as text: a number has a warning
	td_auto_free char *named = td_slurm_batch_body(&p.steps[0].batch);
	assert_non_null(strstr(named, "\"user_id\":\"3000\""));
}

static void so_many_on_each_node_and_memory_of_each_cpu(void **state)
{
	td_auto_plan struct td_gateway_plan p = {0};
	assert_int_equal(plan("{\"name\":\"t\",\"steps\":[{\"name\":\"main\",\"entrypoint\":[\"x\"],\"nodes\":2,"
			      "\"tasksPerNode\":4,\"memoryPerCpuMiB\":100}]}",
			      &p, NULL),
			 0);
	td_auto_free char *body = td_slurm_batch_body(&p.steps[0].batch);
	assert_non_null(strstr(body, "\"nodes\":\"2\",\"tasks\":8,\"tasks_per_node\":4,"));
	assert_non_null(strstr(body, "\"memory_per_cpu\":{\"set\":true,\"number\":100}"));
	assert_null(strstr(body, "memory_per_node"));
	p.steps[0].batch.tasks = 5; // at most so many on each
	p.steps[0].batch.memory_mb = 7;
	td_auto_free char *all = td_slurm_batch_body(&p.steps[0].batch);
	assert_non_null(strstr(all, "\"tasks\":5,\"tasks_per_node\":4,"));
	assert_non_null(strstr(all, "\"memory_per_node\":{\"set\":true,\"number\":7}"));
}

static void a_sweep_is_every_combination_once(void **state)
{
	td_auto_plan struct td_gateway_plan p = {0};
	assert_int_equal(plan("{\"name\":\"t\",\"steps\":[{\"name\":\"main\",\"entrypoint\":[\"x\"],\"parallel\":3,"
			      "\"matrix\":{\"A\":[\"1\",\"2\"],\"B\":[\"x\",\"it's\",\"$(z)\"]}}]}",
			      &p, NULL),
			 0);
	assert_int_equal(p.steps[0].tasks, 6);
	assert_string_equal(p.steps[0].batch.array, "0-5%3");
	assert_string_equal(p.steps[0].batch.output, "/home/ann/tandem/runs/t-1/slurm_log/slurm-%A_%a.out");
	yyjson_mut_val *text = yyjson_mut_obj_get(yyjson_mut_doc_get_root(p.texts), "main.params");
	assert_string_equal(yyjson_mut_get_str(text),
			    "export A='1' B='x'\nexport A='1' B='it'\\''s'\nexport A='1' B='$(z)'\n"
			    "export A='2' B='x'\nexport A='2' B='it'\\''s'\nexport A='2' B='$(z)'\n");
}

static void who_writes_checkpoints_is_queued_again(void **state)
{
	td_auto_plan struct td_gateway_plan p = {0};
	assert_int_equal(plan("{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"],\"checkpoints\":3}]}",
			      &p, NULL),
			 0);
	td_auto_free char *body = td_slurm_batch_body(&p.steps[0].batch);
	assert_non_null(strstr(body, "\"requeue\":true"));
	assert_non_null(strstr(body, "\"TANDEM_CHECKPOINTS_KEEP=3\""));
}

static void refusals_name_the_step(void **state)
{
	static const struct {
		const char *job, *words;
	} v[] = {
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"after\":[\"a\"],\"entrypoint\":[\"x\"]}]}",
		 "in a circle"},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"after\":[\"z\"],\"entrypoint\":[\"x\"]}]}",
		 "there is no step z"},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"]},{\"name\":\"a\",\"entrypoint\":["
		 "\"x\"]}]}",
		 "two steps are called a"},
		{"{\"name\":\"t/..\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"]}]}", "name \"t/..\""},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"../a\",\"entrypoint\":[\"x\"]}]}", "step \"../a\""},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"],\"env\":{\"A B\":\"\"}}]}",
		 "\"A B\" cannot be set"},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"],\"matrix\":{\"A;id\":[\"1\"]}}]}",
		 "\"A;id\" cannot be a variable"},
		{"{\"name\":\"t\",\"steps\":[{\"name\":\"a\",\"entrypoint\":[\"x\"],\"matrix\":{\"A\":[\"1\\nid\"]}}]}",
		 "one line"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		struct td_error e = TD_ERROR_INIT;
		struct td_gateway_plan p = {0};
		assert_int_equal(plan(v[i].job, &p, &e), TD_INVALID);
		assert_non_null(strstr(e.msg, v[i].words));
	}
}

static void paths_without_tricks(void **state)
{
	static const char *const good[] = {"a", "a/b.c", ".hidden", "a b/ü", "..a", "a..", "...", "a/..b"},
				 *const bad[] = {
					 "",         "/",       "/a",     "a/",       "a//b",         "..",
					 "../a",     "a/..",    "a/../b", ".",        "./a",          "a/.",
					 "a\nb",     "a\x7f",   "\xff",   "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
					 "a\x1b[2J", "\xc2\x9b"};
	for (size_t i = 0; i < TD_LEN(good); i++)
		assert_int_equal(td_gateway_path_check(good[i], NULL), 0);
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_gateway_path_check(bad[i], NULL), TD_INVALID);
	assert_int_equal(td_gateway_path_check(NULL, NULL), TD_INVALID);
	assert_int_equal(td_gateway_name_check("x", ".new-a", NULL), TD_INVALID);
	assert_int_equal(td_gateway_name_check("x", "-a", NULL), TD_INVALID);
	assert_int_equal(td_gateway_name_check("x", "a-1.b_c", NULL), 0);
}

static void ends_in_words(void **state)
{
	static const struct {
		struct td_gateway_end end;
		const char *words;
	} v[] = {
		{{.state = "done"}, NULL},
		{{.state = "running"}, NULL},
		{{.state = "failed", .exit_code = 3}, "exit code 3"},
		{{.state = "failed", .signal = 9}, "ended by signal 9 (KILL)"},
		{{.state = "failed", .exit_code = 139}, "exit code 139: a program was ended by signal 11 (SEGV)"},
		{{.state = "failed", .exit_code = 127}, "exit code 127: a command was not found"},
		{{.state = "failed", .exit_code = 255}, "exit code 255"},
		{{.state = "failed", .reason = "JobLaunchFailure"}, "it could not be run: JobLaunchFailure"},
		{{.state = "timeout", .minutes = 5}, "its time limit was reached (5 min)"},
		{{.state = "out-of-memory", .memory_mb = 30},
		 "it needed more memory than it asked for (30 MiB of each node)"},
		{{.state = "node-failed", .nodes = "n[0-1]"}, "its node failed: n[0-1]"},
		{{.state = "preempted"}, "preempted by a job of higher priority"},
		{{.state = "cancelled", .by = "ann"}, "cancelled by ann"},
		{{.state = "cancelled"}, "cancelled (scancel, or an administrator)"},
		{{.state = "cancelled", .held = "the job is ended: …"}, "the job is ended: …"},
		{{.state = "cancelled", .by = "ann", .reason = "DependencyNeverSatisfied", .after = "prep"},
		 "not begun: prep did not end well"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *s = td_gateway_cause(&v[i].end);
		if (!td_streq(s, v[i].words))
			fail_msg("%s: %s", v[i].words, s);
	}
}

static void buckets_fill_with_time(void **state)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 1000);
	struct td_gateway_limits *l = td_gateway_limits_new(&m.clock);
	const struct td_gateway_rate r = {"tries", 0.5, 3};
	struct td_error e = TD_ERROR_INIT;
	for (int i = 0; i < 3; i++)
		assert_int_equal(td_gateway_limit(l, &r, "ann", NULL), 0);
	assert_int_equal(td_gateway_limit(l, &r, "ann", &e), TD_THROTTLED);
	assert_in_range(e.retry_after_ms, 1900, 2100);
	assert_int_equal(td_gateway_limit(l, &r, "bob", NULL), 0);
	td_clock_manual_add(&m, 2000);
	assert_int_equal(td_gateway_limit(l, &r, "ann", NULL), 0);
	assert_int_equal(td_gateway_limit(l, &r, "ann", NULL), TD_THROTTLED);
	td_clock_manual_add(&m, 3600000);
	for (int i = 0; i < 3; i++)
		assert_int_equal(td_gateway_limit(l, &r, "ann", NULL), 0);
	assert_int_equal(td_gateway_limit(l, &r, "ann", NULL), TD_THROTTLED);

	// What lasts: so many at once, each person for himself.
	assert_int_equal(td_gateway_hold(l, "ann", 2, NULL), 0);
	assert_int_equal(td_gateway_hold(l, "ann", 2, NULL), 0);
	assert_int_equal(td_gateway_hold(l, "ann", 2, &e), TD_THROTTLED);
	assert_non_null(strstr(e.msg, "you have 2 of these connections"));
	assert_int_equal(td_gateway_hold(l, "bob", 2, NULL), 0);
	td_gateway_release(l, "ann");
	assert_int_equal(td_gateway_hold(l, "ann", 2, NULL), 0);
	td_gateway_release(l, "ann");
	td_gateway_release(l, "ann");
	assert_int_equal(td_gateway_hold(l, "ann", 1, NULL), 0);
	td_gateway_limits_free(l);
}

static void every_operation_of_the_api_has_its_handler(void **state)
{
	struct td_gateway_door *d = NULL;
	struct td_error e = TD_ERROR_INIT;
	int r = td_gateway_door_new(NULL, &d, &e);
	assert_string_equal(e.msg, "");
	assert_int_equal(r, 0);
	td_gateway_door_free(d);
}

static void what_no_node_has_is_refused_with_its_field(void **state)
{
	struct td_slurm_node v[] = {
		{.name = "n0", .gres = "gpu:8(S:0-1)", .cpus = 16, .memory_mb = 32768, .partitions = "all"},
		{.name = "n1", .gres = "gpu:h100:2,gpu:a:1", .cpus = 64, .memory_mb = 1024, .partitions = "all,big"},
		{.name = "n2", .gres = "", .cpus = 4, .memory_mb = 1024, .partitions = "cpu"},
	};
	const struct td_slurm_nodes nodes = {.v = v, .n = TD_LEN(v)};
	static const struct {
		struct td_slurm_batch b;
		const char *words; // NULL: a node has it
	} cases[] = {
		{{.gpus = 8, .cpus = 64, .memory_mb = 32768, .nodes = 3}, NULL},
		{{.gpus = 9},
		 "gpus: it asks for 9 of each node; no node has more than 8 (n0): ask for 8 or less, and for more in "
		 "all "
		 "with nodes"},
		{{.gpus = 3, .gpu_type = "h100"},
		 "gpus: it asks for 3 h100 of each node; no node has more than 2 (n1): ask for 2 or less, and for more "
		 "in "
		 "all with nodes"},
		{{.gpus = 4, .partition = "big"},
		 "gpus: it asks for 4 of each node; no node of partition big has more than 3 (n1): ask for 3 or less, "
		 "and "
		 "for more in all with nodes"},
		{{.gpus = 1, .partition = "cpu"},
		 "gpus: no node of partition cpu has a GPU: leave gpus out, or ask for another type or partition"},
		{{.gpus = 1, .gpu_type = "b200"},
		 "gpus: no node has a GPU of type b200: leave gpus out, or ask for another type or partition"},
		{{.memory_mb = 921600},
		 "memory: it asks for 921600 MB of each node; no node has more than 32768 (n0): ask for 32768M or "
		 "less"},
		{{.cpus = 65}, "cpus: it asks for 65 for each task; no node has more than 64 (n1): ask for 64 or less"},
		{{.nodes = 2, .partition = "cpu"},
		 "nodes: it asks for 2; there is 1 of partition cpu: ask for 1 or less"},
		{{.gpus = 9, .partition = "none"}, NULL}, // Slurm says that there is none
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *words = td_gateway_too_big(&nodes, &cases[i].b);
		if (cases[i].words)
			assert_string_equal(words, cases[i].words);
		else
			assert_null(words);
	}
}

static char *nowhere(const char *partition, const char *constraints)
{
	static struct td_slurm_node v[] = {
		{.name = (char *)"n0", .partitions = (char *)"all", .features = (char *)"a,data.imagenet"},
		{.name = (char *)"h0", .partitions = (char *)"metal,all", .features = (char *)"bare"}};
	const struct td_slurm_nodes nodes = {.v = v, .n = TD_LEN(v)};
	const struct td_slurm_batch b = {.partition = partition, .constraints = constraints};
	return td_gateway_data_nowhere(&nodes, &b);
}

static void data_that_no_node_of_the_partition_holds(void **state)
{
	(void)state;
	assert_null(nowhere("all", "data.imagenet"));
	assert_null(nowhere("metal", NULL));
	assert_null(nowhere("metal", "bare&x"));
	assert_null(nowhere("metal", "data.imagenet|data.coco"));
	td_auto_free char *metal = nowhere("metal", "(a|b)&bare&data.imagenet"), *none = nowhere(NULL, "data.coco");
	assert_non_null(strstr(metal, "no node of partition metal holds imagenet at /datasets/imagenet"));
	assert_non_null(strstr(metal, "data.imagenet in spec.slurm.features"));
	assert_non_null(strstr(none, "no node holds coco"));
	assert_true(strlen(metal) < 480);
}

static void homes_lie_below_their_directory(void **state)
{
	const struct td_gateway g = {.o = {.homes_as = "/home"}};
	assert_string_equal(td_home_below(&g, "/home/ann"), "ann");
	static const char *const elsewhere[] = {"/home", "/home/", "/home2/ann", "/root"};
	for (size_t i = 0; i < TD_LEN(elsewhere); i++)
		assert_null(td_home_below(&g, elsewhere[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_node_has_is_refused_with_its_field),
		cmocka_unit_test(of_several_architectures_the_job_chooses_on_its_node),
		cmocka_unit_test(the_cpus_of_a_task_are_in_its_environment),
		cmocka_unit_test(a_suspended_job_has_not_failed),
		cmocka_unit_test(steps_stand_behind_what_they_need),
		cmocka_unit_test(so_many_on_each_node_and_memory_of_each_cpu),
		cmocka_unit_test(a_sweep_is_every_combination_once),
		cmocka_unit_test(who_writes_checkpoints_is_queued_again),
		cmocka_unit_test(refusals_name_the_step),
		cmocka_unit_test(paths_without_tricks),
		cmocka_unit_test(data_that_no_node_of_the_partition_holds),
		cmocka_unit_test(homes_lie_below_their_directory),
		cmocka_unit_test(ends_in_words),
		cmocka_unit_test(buckets_fill_with_time),
		cmocka_unit_test(every_operation_of_the_api_has_its_handler),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
