// rows: D5.1 D6.4
// Copies of data sets on a machine that runs slurmd itself: which it wants, what it refuses, what the program is told, and
// what Slurm says of the machine.
#include "cli/host_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/dataset.h"

static struct td_json *json(const char *text)
{
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void what_slurm_says(void **state)
{
	(void)state;
	struct td_host_record r;
	static const char idle[] = "NodeName=h0 Arch=x86_64 CoresPerSocket=2 CPUAlloc=0 CPUEfctv=2 CPUTot=2 "
				   "AvailableFeatures=set.metal,data.words ActiveFeatures=set.metal Gres=gpu:2 "
				   "State=IDLE+DYNAMIC_NORM ThreadsPerCore=1\n";
	assert_true(td_host_record_read(idle, &r) && r.idle);
	assert_string_equal(r.features, "set.metal,data.words");
	assert_string_equal(r.active, "set.metal");
	// Where a job runs, or ends yet, no copy is taken away.
	static const char *const busy[] = {
		"NodeName=h0 CPUAlloc=1 AvailableFeatures=(null) ActiveFeatures=(null) State=MIXED+DYNAMIC_NORM",
		"NodeName=h0 CPUAlloc=0 State=IDLE+COMPLETING+DYNAMIC_NORM", "NodeName=h0 State=IDLE",
		"NodeName=h0 CPUAlloc=0 State=DOWN+NOT_RESPONDING"};
	for (size_t i = 0; i < TD_LEN(busy); i++)
		assert_true(td_host_record_read(busy[i], &r) && !r.idle && !*r.features);
	assert_false(td_host_record_read("slurm_load_node error: Unable to contact slurm controller", &r));
	// Features that were cut would be written back so.
	for (int n = 4095; n <= 4096; n++)
		for (int active = 0; active < 2; active++) {
			td_auto_free char *many = td_asprintf("NodeName=h0 CPUAlloc=0 %sFeatures=%0*d State=IDLE",
							      active ? "Active" : "Available", n, 0);
			assert_int_equal(td_host_record_read(many, &r), n == 4095);
		}
}

static void which_it_wants(void **state)
{
	(void)state;
	static const struct {
		const char *spec;
		bool wants;
	} t[] = {
		{"{\"spec\": {}}", true},
		{"{\"spec\": {\"nodeSelector\": {\"tandem.dev/host\": \"metal\"}}}", true},
		{"{\"spec\": {\"nodeSelector\": {\"kubernetes.io/hostname\": \"h0\", \"tandem.dev/host\": \"metal\"}}}",
		 true},
		{"{\"spec\": {\"nodeSelector\": {\"kubernetes.io/hostname\": \"h1\"}}}", false},
		{"{\"spec\": {\"nodeSelector\": {\"gpu\": \"h100\"}}}", false}};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_json_unref) struct td_json *j = json(t[i].spec);
		assert_int_equal(td_dataset_wants_host(td_json_root(j), "h0", "metal"), t[i].wants);
	}
}

static bool refused(const yyjson_val *sc, const char *text)
{
	td_auto(td_object_unref) struct td_object *o = td_object_new(json(text));
	td_auto_free char *why = td_host_data_refused(sc, o);
	return why != NULL;
}

// Who may write Datasets cannot have root of a machine copy what is the machine's own, or what is a group's alone.
static void no_directory_of_the_machines_own(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *sc =
		json("{\"spec\": {\"storage\": [{\"name\": \"p\", \"mountPath\": \"/projects\"}, {\"name\": \"g\", "
		     "\"mountPath\": \"/vision\"}, {\"name\": \"l\", \"mountPath\": \"/login\", \"where\": "
		     "\"login\"}], \"storageGroups\": [{\"name\": \"v\", \"fileSystems\": [\"g\"]}]}}");
	static const char *const bad[] = {"/etc", "/projects/../etc", "/projectsx",       "/vision/a", "/login",
					  "/",    "/root/projects",   "relative/projects"};
	td_auto_buf struct td_buf b = {0};
	assert_true(td_dataset_shared(td_json_root(sc), "/projects/a/b") &&
		    td_dataset_shared(td_json_root(sc), "/projects"));
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_dataset_shared(td_json_root(sc), bad[i]));
	static const char all[] =
		"{\"metadata\": {\"name\": \"%s\"}, \"spec\": {\"source\": {\"%s\": {\"path\": \"%s\"}}}}";
	td_auto_free char *etc = td_asprintf(all, "a", "directory", "/etc"),
			  *ours = td_asprintf(all, "a", "directory", "/projects/x"),
			  *web = td_asprintf(all, "a", "http", ""), *odd = td_asprintf(all, "../a", "http", "");
	assert_true(refused(td_json_root(sc), etc) && refused(td_json_root(sc), odd));
	assert_false(refused(td_json_root(sc), ours) || refused(td_json_root(sc), web));
}

static void what_the_program_is_told(void **state)
{
	(void)state;
	td_auto_strv struct td_strv v = {0};
	td_auto(td_json_unref) struct td_json *j =
		json("{\"spec\": {\"group\": \"vision\", \"maxSize\": \"2Ki\", \"source\": {\"http\": {\"url\": "
		     "\"http://a/b=c\", \"sha256\": \"00\", \"unpack\": true}}}}");
	td_dataset_variables(td_json_root(j), &v);
	static const char *const want[] = {"TD_MAX=2048", "TD_GROUP=vision", "TD_URL=http://a/b=c", "TD_SHA256=00",
					   "TD_UNPACK=yes"};
	assert_int_equal(v.n, TD_LEN(want));
	for (size_t i = 0; i < v.n; i++)
		assert_string_equal(v.v[i], want[i]);
}

static void features_of_a_node(void **state)
{
	(void)state;
	td_auto_strv struct td_strv held = {0};
	td_strv_add(&held, "words");
	td_auto_free char *more = td_dataset_features("set.metal,data.old", &held),
			  *same = td_dataset_features("set.metal,data.words", &held),
			  *first = td_dataset_features("", &held);
	assert_string_equal(more, "set.metal,data.words");
	assert_null(same);
	assert_string_equal(first, "data.words");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_slurm_says), cmocka_unit_test(which_it_wants),
					   cmocka_unit_test(no_directory_of_the_machines_own),
					   cmocka_unit_test(what_the_program_is_told),
					   cmocka_unit_test(features_of_a_node)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
