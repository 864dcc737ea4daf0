// rows: E1.8 E1.9 E1.2 E2.1
// Job files, and which files are shipped.
#include "base/file.h"
#include "cli/client.h"
#include "cli/ignore.h"
#include "cli/jobenv.h"
#include "cli/jobfile.h"
#include "cli/ship.h"

#include <dirent.h>
#include <fcntl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
		{"run: x\ndata: {a: {URL: x}}\n", "data: a: URL: there are path, dataset, url"},
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
		"--epoch=3\",\"echo done\"],\"nodes\":2,\"tasksPerNode\":4,\"cpus\":10,\"gpus\":2,\"gpuType\":\"a100\","
		"\"minutes\":4441}],\"environment\":{\"conda\":[\"python=3.6.9\"],\"channels\":[\"x\"]},"
		"\"data\":[{\"name\":\"mnist\",\"dataset\":\"mnist\"}]}");
	assert_int_equal(notes.n, 1);

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

	static const char conda[] = "entrypoint: [x]\nenvironment:\n  name: any\n  channels: [pytorch, conda-forge]\n"
				    "  dependencies:\n  - python=3.12.1\n  - pytorch::pytorch=2.1=py312_0\n"
				    "  - scipy>=1.0\n  - pip: [rich, 'black==24.*']\n";
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_strv struct td_strv notes = {0};
	assert_int_equal(td_jobfile_tuxiv(conda, strlen(conda), "d", &d, &notes, NULL), 0);
	td_auto_free char *s = td_json_mut_text(td_jm_get(yyjson_mut_doc_get_root(d), "environment"), NULL);
	assert_string_equal(s, "{\"conda\":[\"python=3.12.1\",\"pytorch::pytorch=2.1=py312_0\",\"scipy>=1.0\"],"
			       "\"packages\":[\"rich\",\"black==24.*\"],\"channels\":[\"pytorch\",\"conda-forge\"]}");
	assert_int_equal(notes.n, 0);
}

static char *put(const char *dir, const char *name, const char *text)
{
	char *path = td_asprintf("%s/%s", dir, name);
	assert_int_equal(td_file_write(path, text, strlen(text), 0644, NULL), 0);
	return path;
}

// What the API is given for a tandem.yaml in dir, or the words of the refusal.
static char *resolved(const char *dir, const char *text, const char *asked)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	td_auto_strv struct td_strv notes = {0};
	const struct td_jobenv_in in = {dir, asked, true};
	const char *found;
	assert_int_equal(td_jobfile_tandem(text, strlen(text), "d", &d, &notes, NULL), 0);
	if (td_jobenv_resolve(&in, d, &found, &e))
		return td_strdup(e.msg);
	yyjson_mut_val *env = td_jm_get(yyjson_mut_doc_get_root(d), "environment"),
		       *vars = td_jm_get(yyjson_mut_doc_get_root(d), "steps");
	td_auto_free char *a = env ? td_json_mut_text(env, NULL) : td_strdup("none"), *b = td_json_mut_text(vars, NULL);
	return td_asprintf("%s%s%s", found ? found : "", a, strstr(b, "LOUD") ? strstr(b, "\"env\"") : "");
}

static void condas_files(void **state)
{
	char dir[] = "/tmp/td-jobenv-XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *yml = put(dir, "environment.yml",
				     "name: a\nchannels: lab\ndependencies:\n- python=3.12\n- pip:\n  - -r more.txt\n"
				     "  - rich\nvariables: {LOUD: 1}\n"),
			  *more = put(dir, "more.txt", "# these\nblack==24.1\n"),
			  *lock = put(dir, "conda.lock",
				      "# linux-64\n@EXPLICIT\nhttps://c.example/l/linux-64/a-1-0.conda#sha256:00\n"),
			  *pip = put(dir, "only.yaml", "dependencies: [{pip: [x]}]\n"),
			  *bad = put(dir, "bad.yml", "name: x\n");
	static const struct {
		const char *text, *asked, *is;
	} v[] = {
		{"run: x\n", NULL,
		 "environment.yml{\"requirements\":[\"black==24.1\",\"rich\"],\"conda\":[\"python=3.12\"],"
		 "\"channels\":[\"lab\"]}\"env\":{\"LOUD\":\"1\"}}]"},
		{"run: x\nenvironment: {conda: [a=1, {pip: [b]}], channels: [c, d], cuda: 12.4, index: ~/w}\n", NULL,
		 "{\"requirements\":[\"b\"],\"index\":\"~/"
		 "w\",\"cuda\":\"12.4\",\"conda\":[\"a=1\"],\"channels\":[\"c\",\"d\"]}"},
		{"run: x\nenvironment: conda.lock\n", NULL,
		 "{\"conda\":[\"https://c.example/l/linux-64/a-1-0.conda#sha256:00\"]}"},
		{"run: x\nenvironment: [a]\n", "only.yaml", "{\"requirements\":[\"x\"],\"conda\":[\"pip\"]}"},
		{"run: x\nenvironment: bad.yml\n", NULL,
		 "bad.yml: it has no `dependencies`: an environment of Conda is "},
		{"run: x\n", "none", "none"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *s = resolved(dir, v[i].text, v[i].asked);
		if (strncmp(s, v[i].is, strlen(v[i].is)) != 0)
			fail_msg("%s: %s", v[i].text, s);
	}
	assert_int_equal(td_rm_rf(dir, NULL), 0);
}

// How many of the directory's files are read.
static size_t reads(const char *dir, const struct td_clock_manual *clock)
{
	td_auto_ship struct td_ship s = {.dir = td_strdup(dir), .clock = &clock->clock};
	assert_int_equal(td_ship_walk(&s, NULL), 0);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.files[1].path, "b");
	assert_int_equal(s.files[1].n, 1);
	assert_string_equal(s.chunks[s.files[1].first].hash,
			    "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"); // "foo\n"
	return s.read;
}

static void what_did_not_change_is_not_read_again(void **state)
{
	char dir[] = "/tmp/td-ship-XXXXXX", cache[] = "/tmp/td-seen-XXXXXX";
	assert_non_null(mkdtemp(dir));
	assert_non_null(mkdtemp(cache));
	setenv("XDG_CACHE_HOME", cache, 1);
	td_auto_free char *a = put(dir, "a", ""), *b = put(dir, "b", "foo\n"), *c = put(dir, "c", "bar\n");
	// Somebody ships his home: the key that he logged in with stays here.
	td_auto_free char *config = td_asprintf("%s/tandem", dir);
	assert_int_equal(mkdir(config, 0700), 0);
	setenv("XDG_CONFIG_HOME", dir, 1);
	td_auto_free char *key = put(config, "login.json", "{}");
	// Those that just changed are read again, until they are a while old: their times say too little before.
	struct td_clock_manual clock;
	struct stat st;
	assert_int_equal(stat(a, &st), 0);
	td_clock_manual_init(&clock, (int64_t)st.st_ctim.tv_sec * 1000 + 500);
	assert_int_equal(reads(dir, &clock), 3);
	assert_int_equal(reads(dir, &clock), 3);
	td_clock_manual_add(&clock, 60000);
	assert_int_equal(reads(dir, &clock), 3);
	assert_int_equal(reads(dir, &clock), 0);
	assert_int_equal(reads(dir, &clock), 0);

	// The same size and time of content: the inode's time tells.
	assert_int_equal(stat(c, &st), 0);
	int fd = open(c, O_WRONLY);
	assert_int_equal(write(fd, "baz\n", 4), 4);
	const struct timespec times[] = {st.st_atim, st.st_mtim};
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	assert_int_equal(reads(dir, &clock), 1);

	// What is kept is only a hint.
	td_auto_free char *kept = td_asprintf("%s/tandem", cache);
	DIR *d = opendir(kept);
	assert_non_null(d);
	td_auto_free char *file = NULL;
	for (struct dirent *e; (e = readdir(d));)
		if (*e->d_name != '.')
			file = td_asprintf("%s/%s", kept, e->d_name);
	closedir(d);
	td_auto_buf struct td_buf text = {0};
	assert_int_equal(td_file_read(file, 1 << 20, &text, NULL), 0);
	for (size_t at = 0; at < text.len; at += 7) { // cut anywhere, or with a letter changed
		assert_int_equal(td_file_write(file, text.s, at, 0600, NULL), 0);
		assert_in_range(reads(dir, &clock), 1, 3);
	}
	assert_int_equal(td_file_write(file, "tandem files 1\n1 1 1 1 1 1 99999999999999 1 a\n", 45, 0600, NULL), 0);
	assert_int_equal(reads(dir, &clock), 3);
	// One that is wrong goes: else no try to submit would come through.
	td_auto(td_ship_seen_free) struct td_ship_seen *wrong = td_ship_seen_new(dir, &clock.clock);
	td_ship_seen_drop(wrong);
	td_ship_seen_keep(wrong);
	assert_int_equal(reads(dir, &clock), 3);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	assert_int_equal(td_rm_rf(dir, NULL), 0);
	assert_int_equal(td_rm_rf(cache, NULL), 0);
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

// ---- scripts for sbatch ----

static char *script_of(const char *text, struct td_strv *notes)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_jobfile_sbatch(text, "train", "exec /bin/bash train.sh", &d, notes, &err))
		return td_strdup(err.msg);
	return td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
}

static void a_script_for_sbatch(void **state)
{
	td_auto_strv struct td_strv notes = {0};
	td_auto_free char *all = script_of("#!/bin/bash\n"
					   "# a comment\n"
					   "#SBATCH -J my_job   # its name\n"
					   "#SBATCH --nodes=2 --ntasks-per-node 4\n"
					   "#SBATCH --gres=gpu:h100:8\n"
					   "#SBATCH -c4 --mem=8G\n"
					   "\n"
					   "#SBATCH -t 1-00:00:00 -o 'out %j.txt'\n"
					   "##SBATCH --exclusive\n"
					   "#SBATCH --partition=\"all\" --parsable\n"
					   "hostname\n"
					   "#SBATCH --nodes=9\n",
					   &notes);
	assert_string_equal(all,
			    "{\"name\":\"my_job\",\"steps\":[{\"name\":\"main\",\"entrypoint\":[\"exec /bin/bash "
			    "train.sh\"],\"nodes\":2,\"tasksPerNode\":4,\"gpus\":8,\"gpuType\":\"h100\",\"cpus\":4,"
			    "\"memoryMiB\":8192,\"minutes\":1440,\"partition\":\"all\"}]}");
	assert_int_equal(notes.n, 1);

	static const struct {
		const char *line, *says;
	} v[] = {
		{"--gpus=8 -N2", "\"gpus\":4"},
		{"-G 1", "\"gpus\":1"},
		{"--gres=gpu", "\"gpus\":1"},
		{"--gpus-per-node=a100:2", "\"gpuType\":\"a100\""},
		{"-t 90", "\"minutes\":90"},
		{"--mem=4G --mem-per-cpu=200M --mail-type=END --mail-user=a@b", "sh\"],\"memoryPerCpuMiB\":200}"},
		{"-t 10:00", "\"minutes\":10"},
		{"--array=0-2%2", "\"matrix\":{\"TASK\":[\"0\",\"1\",\"2\"]},\"parallel\":2"},
		{"-a 0-1", "\"matrix\":{\"TASK\":[\"0\",\"1\"]}"},
		{"--array=1-3", "line 2: --array: \"1-3\": give 0-N"},
		{"--array=0-5000", "give 0-N"},
		{"--gpus=3 -N2", "--gpus: 3 do not spread evenly over 2 nodes"},
		{"--gres=shard:1", "line 2: --gres: \"shard:1\": give gpu:N"},
		{"--gpus=two", "line 2: --gpus: \"two\" is no number of GPUs"},
		{"--exclusive", "line 2: --exclusive: tandem submit does not take it"},
		{"-x n1", "line 2: -x: tandem submit does not take it"},
		{"--nodes=0", "line 2: --nodes: \"0\": give a number"},
		{"--nodes=2-4", "line 2: --nodes: \"2-4\": give a number"},
		{"--time", "line 2: --time needs a value"},
		{"--nodesx=2", "line 2: --nodesx=2: tandem submit does not take it"},
		{"-p ''", "line 2: --partition: give a name"},
		{"-vv -N2", "\"nodes\":2"},
		{"-vN2", "line 2: -vN2: give --verbose a word of its own"},
		{"--parsable=1", "line 2: --parsable=1: give --parsable a word of its own"},
		{"--array=0--1", "give 0-N"},
		{"--array='0- 3'", "give 0-N"},
		{"-a 0-3%2 -a 0-1", "\"TASK\":[\"0\",\"1\"]}}"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *text = td_asprintf("#!/bin/sh\n#SBATCH %s\ntrue\n", v[i].line),
				  *got = script_of(text, &notes);
		if (!strstr(got, v[i].says))
			fail_msg("%s: %s, not %s", v[i].line, got, v[i].says);
	}
}

// ---- which run is meant ----

static void a_run_by_its_name_or_job(void **state)
{
	static const char text[] =
		"[{\"id\":\"train-00000d\",\"name\":\"train\",\"state\":\"not-submitted\",\"refused\":\"no\"},"
		"{\"id\":\"train-00000c\",\"name\":\"train\",\"state\":\"running\",\"steps\":[{\"job\":9}]},"
		"{\"id\":\"eval-00000b\",\"name\":\"eval\",\"state\":\"done\",\"steps\":[{\"job\":7},{\"job\":8}]},"
		"{\"id\":\"train-00000a\",\"name\":\"train\",\"state\":\"waiting\",\"steps\":[{\"job\":6}]}]";
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	static const struct {
		const char *word;
		bool alive;
		const char *id, *says;
	} v[] = {
		{NULL, false, "train-00000c", NULL},
		{"train", false, "train-00000c", NULL},
		{"eval", false, "eval-00000b", NULL},
		{"8", false, "eval-00000b", NULL},
		{"train-00000d", false, "train-00000d", NULL},
		{"train-00000a", true, "train-00000a", NULL},
		{"train", true, NULL, "several runs are called train: say which, such as train-00000c or train-00000a"},
		{"eval", true, NULL, "there is no run eval that has not ended: `tandem ps` lists yours"},
		{"5", false, NULL, "there is no run of job 5: `tandem ps` lists yours"},
		{"other", false, NULL, "there is no run other: `tandem ps` lists yours"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		const char *id = NULL;
		struct td_error err = TD_ERROR_INIT;
		td_client_run_pick(td_json_root(j), v[i].word, v[i].alive, &id, &err);
		if (v[i].id)
			assert_string_equal(id, v[i].id);
		else
			assert_string_equal(err.msg, v[i].says);
	}
	assert_true(td_client_run_is_id("my-project-25220c"));
	assert_false(td_client_run_is_id("my-project"));
	assert_false(td_client_run_is_id("-25220c"));
	char buf[24];
	assert_string_equal(td_client_size(1, buf, sizeof(buf)), "1 byte");
	assert_string_equal(td_client_size(999, buf, sizeof(buf)), "999 bytes");
	assert_string_equal(td_client_size(14200, buf, sizeof(buf)), "14 kB");
	assert_string_equal(td_client_size(999600, buf, sizeof(buf)), "1.0 MB");
	assert_string_equal(td_client_size(3000000, buf, sizeof(buf)), "3.0 MB");
	assert_string_equal(td_client_size(2000000000, buf, sizeof(buf)), "2.0 GB");
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
		cmocka_unit_test(condas_files),
		cmocka_unit_test(what_did_not_change_is_not_read_again),
		cmocka_unit_test(times_and_sizes),
		cmocka_unit_test(a_script_for_sbatch),
		cmocka_unit_test(a_run_by_its_name_or_job),
		cmocka_unit_test(ignored_files),
		cmocka_unit_test(a_pattern_made_to_take_long_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
