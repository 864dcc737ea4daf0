// rows: E1.8 E1.9 E1.2 E2.1
// Job files, and which files are shipped.
#include "cli/ignore.h"
#include "cli/jobfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char *tandem(const char *text, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_strv struct td_strv notes = {0};
	return td_jobfile_tandem(text, strlen(text), "dir", &d, &notes, err)
		       ? NULL
		       : td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
}

static void a_file_without_steps_is_one_step(void **state)
{
	td_auto_free char *s =
		tandem("run: python train.py\ngpus: 2\nmemory: 8G\ntime: 90\nenv: {A: 1, B: x y}\n", NULL);
	assert_string_equal(
		s, "{\"name\":\"dir\",\"steps\":[{\"name\":\"main\",\"entrypoint\":[\"python train.py\"],\"gpus\":2,"
		   "\"memoryMiB\":8192,\"minutes\":90,\"env\":{\"A\":\"1\",\"B\":\"x y\"}}]}");
}

static void what_a_step_says_counts_more(void **state)
{
	td_auto_free char *s = tandem(
		"name: n\ngpus: h100:2\nrun: x\nsteps:\n- {name: a}\n- {name: b, after: a, gpus: 0, run: [y, z]}\n",
		NULL);
	assert_string_equal(
		s, "{\"name\":\"n\",\"steps\":[{\"name\":\"a\",\"gpus\":2,\"gpuType\":\"h100\",\"entrypoint\":[\"x\"]},"
		   "{\"name\":\"b\",\"gpus\":0,\"entrypoint\":[\"y\",\"z\"],\"after\":[\"a\"]}]}");
}

static void wrong_fields_are_named(void **state)
{
	static const struct {
		const char *text, *words;
	} v[] = {
		{"gpus: 2\n", "run: say what to run"},
		{"run: x\ngpu: 2\n", "gpu: there is no such field"},
		{"run: x\ngpus: many\n", "gpus: \"many\" is no number of GPUs"},
		{"run: x\nmemory: lots\n", "memory: \"lots\" is no memory size"},
		{"run: x\ntime: -1\n", "time: \"-1\" is no time"},
		{"run: []\n", "run: give a command"},
		{"run: x\nmatrix: {A: 1}\n", "matrix: every variable has a list"},
		{"run: x\nsteps: 3\n", "steps: give a list"},
		{"steps: [{run: x}]\n", "every step has a name"},
		{"steps: [{name: a, run: x, nodes: 0}]\n", "step a: nodes"},
		{"- a\n", "one YAML document"},
		{"run: x\nenvironment: 3\n", "environment: give a file"},
		{"run: x\ndata: [a]\n", "data: give NAME: PATH"},
		{"run: x\ndata: {a: {URL: x}}\n", "data: a: URL: there are path, url"},
		{"run: x\nenvironment: []\n", "environment: packages: give a list"},
		{"run: x\nenvironment: {pip: y}\n", "environment: pip: there is no such field"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		struct td_error e = TD_ERROR_INIT;
		assert_null(tandem(v[i].text, &e));
		if (!strstr(e.msg, v[i].words))
			fail_msg("%s: %s", v[i].text, e.msg);
	}
}

static void tuxiv(void **state)
{
	static const char text[] =
		"entrypoint:\n  - A='0' python ${TACC_WORKDIR}/m.py\n  - --epoch=3\n  - echo done\n"
		"environment:\n  channels: x\n  dependencies: [python=3.6.9]\njob:\n  general:\n    - nodes=2  # two\n"
		"    - ntasks-per-node=4\n    - cpus-per-task=10\n    - gres=gpu:a100:2\n    - time=3-2:01:00\n"
		"    - output=${TACC_SLURM_USERLOG}/x.log\ndatasets:\n  - mnist\n";
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_strv struct td_strv notes = {0};
	assert_int_equal(td_jobfile_tuxiv(text, strlen(text), "my dir", &d, &notes, NULL), 0);
	td_auto_free char *s = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
	assert_string_equal(
		s,
		"{\"name\":\"my-dir\",\"steps\":[{\"name\":\"main\",\"entrypoint\":[\"A='0' python "
		"${TACC_WORKDIR}/m.py "
		"--epoch=3\",\"echo done\"],\"nodes\":2,\"cpus\":10,\"gpus\":2,\"gpuType\":\"a100\",\"minutes\":4441,"
		"\"tasks\":8}]}");
	assert_int_equal(notes.n, 3);

	struct td_error e = TD_ERROR_INIT;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *none = NULL;
	static const char odd[] = "entrypoint: [x]\njob: {general: [frob=1]}\n";
	assert_int_equal(td_jobfile_tuxiv(odd, strlen(odd), "d", &none, &notes, &e), TD_INVALID);
	assert_non_null(strstr(e.msg, "frob=1: job.general"));
}

static void environments(void **state)
{
	static const struct {
		const char *text, *is;
	} v[] = {
		{"requirements.txt", "{\"file\":\"requirements.txt\"}"},
		{"[a, b==1]", "{\"packages\":[\"a\",\"b==1\"]}"},
		{"{packages: [a], python: 3.12, index: ~/w}",
		 "{\"packages\":[\"a\"],\"python\":\"3.12\",\"index\":\"~/w\"}"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *text = td_asprintf("run: x\nenvironment: %s\n", v[i].text), *s = tandem(text, NULL);
		if (!s || !strstr(s, v[i].is))
			fail_msg("%s: %s", v[i].text, s);
	}

	td_auto_free char *data = tandem("run: x\ndata:\n  a: ~/sets\n  b: {url: u, sha256: s, unpack: true}\n", NULL);
	assert_non_null(data);
	assert_non_null(strstr(data, "\"data\":[{\"name\":\"a\",\"path\":\"~/sets\"},{\"name\":\"b\",\"url\":\"u\","
				     "\"sha256\":\"s\",\"unpack\":true}]"));

	static const char conda[] = "entrypoint: [x]\nenvironment:\n  dependencies:\n  - python=3.12.1\n  - pip\n"
				    "  - pytorch::pytorch=2.1=py312_0\n  - numpy=1.26\n  - scipy>=1.0\n  - pandas\n"
				    "  - six==1.1\n  - pip: [rich, 'black==24.*']\n";
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_strv struct td_strv notes = {0};
	assert_int_equal(td_jobfile_tuxiv(conda, strlen(conda), "d", &d, &notes, NULL), 0);
	td_auto_free char *s = td_json_mut_text(td_jm_get(yyjson_mut_doc_get_root(d), "environment"), NULL);
	assert_string_equal(s, "{\"packages\":[\"torch==2.1\",\"numpy==1.26.*\",\"scipy>=1.0\",\"pandas\",\"six==1.1\","
			       "\"rich\",\"black==24.*\"],\"python\":\"3.12\"}");
	assert_int_equal(notes.n, 1);
}

static void times_and_sizes(void **state)
{
	static const struct {
		const char *text;
		long long minutes;
	} v[] = {{"90", 90},      {"30s", 1},   {"90s", 2},    {"2h", 120},   {"1.5h", 90},    {"1d", 1440},
		 {"1:30:00", 90}, {"0:0:1", 1}, {"10:30", 11}, {"1-2", 1560}, {"1-2:3", 1563}, {"1-2:3:4", 1564},
		 {"0", -1},       {"x", -1},    {"1h2", -1},   {"", -1},      {"99999999", -1}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		long long m = -1;
		td_jobfile_minutes(v[i].text, &m, NULL);
		if (m != v[i].minutes)
			fail_msg("%s: %lld", v[i].text, m);
	}
	long long mib = -1;
	assert_int_equal(td_jobfile_memory("1.5G", &mib, NULL), 0);
	assert_int_equal(mib, 1536);
	assert_int_equal(td_jobfile_memory("nan", &mib, NULL), TD_INVALID);
	assert_int_equal(td_jobfile_memory("1P", &mib, NULL), TD_INVALID);
	td_auto_free char *name = td_jobfile_name("..My fine/Project (2)!");
	assert_string_equal(name, "My-fine-Project-2");
}

static void ignored_files(void **state)
{
	td_auto(td_ignore_free) struct td_ignore *i = td_ignore_new();
	td_ignore_add(i, "",
		      "# comment\n*.o\n!keep.o\n/top\nbuild/\ndoc/*.txt\n**/deep/x\na/**/b\ntrail  "
		      "\nesc\\#\n[ab]?z\nall/**\n\n");
	td_ignore_add(i, "sub", "/only\n!x.o\n");
	static const struct {
		const char *path;
		bool dir, ignored;
	} v[] = {{"x.o", false, true},          {"d/x.o", false, true},        {"keep.o", false, false},
		 {"top", false, true},          {"d/top", false, false},       {"build", true, true},
		 {"build", false, false},       {"d/build", true, true},       {"doc/a.txt", false, true},
		 {"d/doc/a.txt", false, false}, {"doc/d/a.txt", false, false}, {"deep/x", false, true},
		 {"p/q/deep/x", false, true},   {"a/b", false, true},          {"a/x/y/b", false, true},
		 {"trail", false, true},        {"esc#", false, true},         {"aqz", false, true},
		 {"cqz", false, false},         {"a/z", false, false},         {"all/x", false, true},
		 {"all", true, false},          {"sub/only", false, true},     {"only", false, false},
		 {"sub/d/only", false, false},  {"sub/x.o", false, false},     {"subx/x.o", false, true}};
	for (size_t k = 0; k < TD_LEN(v); k++)
		if (td_ignored(i, v[k].path, v[k].dir) != v[k].ignored)
			fail_msg("%s", v[k].path);
}

static void a_pattern_made_to_take_long_ends(void **state)
{
	td_auto(td_ignore_free) struct td_ignore *i = td_ignore_new();
	char path[256];
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	td_ignore_add(i, "", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n");
	assert_false(td_ignored(i, path, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_without_steps_is_one_step),
		cmocka_unit_test(what_a_step_says_counts_more),
		cmocka_unit_test(wrong_fields_are_named),
		cmocka_unit_test(tuxiv),
		cmocka_unit_test(environments),
		cmocka_unit_test(times_and_sizes),
		cmocka_unit_test(ignored_files),
		cmocka_unit_test(a_pattern_made_to_take_long_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
