// rows: D4.1 D5.1 D5.3
// Sessions on machines without a kubelet: which partition their job names, its container, what it uses,
// and what the log has of their complaints.
#include "gateway/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *partition(const char *spec, const char *account)
{
	static char name[64];
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(spec, strlen(spec), &j, NULL), 0);
	const char *p = td_session_host_partition(td_json_root(j), "metal", account);
	return p ? strncpy(name, p, sizeof(name) - 1) : NULL;
}

static void the_partition_that_has_the_machines(void **state)
{
	(void)state;
	assert_null(partition("{\"spec\": {}}", NULL));
	assert_null(partition("{\"spec\": {\"partitions\": [{\"name\": \"all\", \"default\": true}]}}", NULL));
	static const char two[] =
		"{\"spec\": {\"partitions\": [{\"name\": \"all\", \"default\": true, \"nodeSets\": [\"pool\"]}, "
		"{\"name\": "
		"\"theirs\", \"nodeSets\": [\"metal\"], \"allowAccounts\": [\"physics\"]}, {\"name\": \"bare\", "
		"\"nodeSets\": [\"metal\", \"pool\"]}]}}";
	assert_string_equal(partition(two, NULL), "bare");
	assert_string_equal(partition(two, "physics"), "theirs");
	static const char closed[] = "{\"spec\": {\"partitions\": [{\"name\": \"theirs\", \"nodeSets\": [\"metal\"], "
				     "\"allowAccounts\": [\"physics\"]}]}}";
	assert_string_equal(partition(closed, "maths"), "theirs"); // Slurm says that it is not his
	static const char group[] = "{\"spec\": {\"partitions\": [{\"name\": \"bare\", \"nodeSets\": [\"pool\"]}], "
				    "\"resourceGroups\": [{\"name\": \"g\", \"nodeSets\": [\"metal\"]}]}}";
	assert_null(partition(group, NULL));
}

static void whoever_complains_for_ever_does_not_fill_the_log(void **state)
{
	(void)state;
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, 1000);
	struct td_gateway_limits *l = td_gateway_limits_new(&clock.clock);
	static char text[8192];
	int was = fcntl(2, F_DUPFD_CLOEXEC, 3), to = memfd_create("log", MFD_CLOEXEC), lines = 0;
	assert_true(was >= 0 && dup2(to, 2) == 2);
	for (int i = 0; i < 100; i++)
		td_session_complains(l, "other/ann", "ann", 3);
	td_session_complains(l, "other/bob", "\033[2Jbob\n", 8);
	td_session_complains(l, "other/bob", "", 0);
	td_clock_manual_add(&clock, 1000);
	td_session_complains(l, "other/ann", "ann again", 9);
	dup2(was, 2);
	close(was);
	assert_true(pread(to, text, sizeof(text) - 1, 0) > 0);
	close(to);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 22);
	assert_non_null(strstr(text, "the way to a session:  [2Jbob \n"));
	assert_non_null(strstr(text, "the way to a session: ann again\n"));
	td_gateway_limits_free(l);
}

static void an_image_is_the_jobs_container(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *on = NULL, *off = NULL;
	static const char with[] = "{\"spec\": {\"containers\": {\"enabled\": true}}}", without[] = "{\"spec\": {}}";
	td_auto_strv struct td_strv env = {0};
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_json_parse(with, strlen(with), &on, NULL), 0);
	assert_int_equal(td_json_parse(without, strlen(without), &off, NULL), 0);
	assert_int_equal(td_session_host_image(td_json_root(off), NULL, "/home/ann", false, &env, &e), 0);
	assert_int_equal(td_session_host_image(td_json_root(off), "a:1", "/home/ann", false, &env, &e), TD_INVALID);
	assert_non_null(strstr(e.msg, "spec.containers.enabled"));
	assert_int_equal(td_session_host_image(NULL, "a:1", "/home/ann", false, &env, &e), TD_INVALID);
	assert_int_equal(td_session_host_image(td_json_root(on), "a b", "/home/ann", false, &env, &e), TD_INVALID);
	assert_int_equal(td_session_host_image(td_json_root(on), "a:1", "/home/ann,/etc", false, &env, &e),
			 TD_UNSUPPORTED);
	assert_int_equal(env.n, 0);
	assert_int_equal(td_session_host_image(td_json_root(on), "a:1", "/home/ann", false, &env, &e), 0);
	assert_true(td_strv_has(&env, "PYXIS_CONTAINER_IMAGE=a:1"));
	assert_true(
		td_strv_has(&env, "PYXIS_CONTAINER_MOUNTS=/home/ann:/home/ann,/opt/tandem:/opt/tandem:ro,/tmp:/tmp"));
	// Over several machines the script is in no container: Slurm's plug-in must find neither of these two in its variables.
	td_auto_strv struct td_strv many = {0};
	assert_int_equal(td_session_host_image(td_json_root(on), "a:1", "/home/ann", true, &many, &e), 0);
	assert_true(td_strv_has(&many, "TANDEM_SESSION_IMAGE=a:1") &&
		    td_strv_has(&many, "TANDEM_SESSION_CONTAINER=" TD_SESSION_CONTAINER));
	for (size_t i = 0; i < many.n; i++)
		assert_false(td_starts(many.v[i], "PYXIS_CONTAINER_IMAGE=") ||
			     td_starts(many.v[i], "PYXIS_CONTAINER_NAME="));
}

static void what_a_machine_says_of_a_session(void **state)
{
	(void)state;
	struct td_session_figures f = {.cpu = -1, .gpu = -1, .why = "x"};
	assert_true(td_session_measure_read("h0 12.500 40", &f));
	assert_true(f.cpu == 12.5 && f.gpu == 0.4 && !*f.why);
	assert_true(td_session_measure_read("h0 -1.000 -2", &f)); // neither is known
	assert_true(f.cpu == -1 && f.gpu == -1);
	static const char *const bad[] = {"",         "h0",      "h0 1",     "h0 x 1",     "h0 1 101",
					  "h0 nan 1", "h0 -2 1", "h0 inf 1", "h0 1e300 1", "h0 1 1 more"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_session_measure_read(bad[i], &f));
	assert_true(f.cpu == -1 && f.gpu == -1);
}

// Over several machines: all of them count, and what one does not say makes none of it idle.
static void what_several_machines_say_together(void **state)
{
	(void)state;
	struct td_session_figures f = {.cpu = 99};
	struct td_session_each *e = td_calloc(1, sizeof(*e));
	assert_false(td_session_each_take(e, 2, "h0 10.0 40", 1000, &f));
	assert_false(td_session_each_take(e, 2, "h0 11.0 40", 2000, &f)); // the other one has said nothing yet
	assert_false(td_session_each_take(e, 2, "nonsense", 2000, &f));
	assert_true(f.cpu == 99);
	assert_true(td_session_each_take(e, 2, "h1 5.0 90", 3000, &f));
	assert_true(f.cpu == 16 && f.gpu == 0.9 && f.at_ms == 2000 && !*f.why);
	assert_true(td_session_each_take(e, 2, "h0 12.0 0", 4000, &f));
	assert_true(f.cpu == 17 && f.gpu == 0.9 && f.at_ms == 3000);
	assert_false(td_session_each_take(e, 2, "h2 1.0 1", 4000, &f)); // there are two
	assert_true(td_session_each_take(e, 2, "h1 -1.000 -2", 5000, &f));
	assert_true(f.cpu == -1 && f.gpu == -1);
	free(e);
	e = td_calloc(1, sizeof(*e)); // one alone
	assert_true(td_session_each_take(e, 1, "h0 1.5 -1", 7000, &f));
	assert_true(f.cpu == 1.5 && f.gpu == -1 && f.at_ms == 7000);
	free(e);
}

static int check(const char *body, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(body, strlen(body), &j, NULL), 0);
	return td_session_host_check(td_json_root(j), err);
}

static void what_can_be_over_several_machines(void **state)
{
	(void)state;
	struct td_error e = TD_ERROR_INIT;
	static const char *const good[] = {
		"{\"kind\": \"shell\", \"nodes\": 2}",
		"{\"kind\": \"jupyter\", \"nodes\": 2}",
		"{\"kind\": \"vscode\", \"nodes\": 16}",
		"{\"kind\": \"batch\", \"nodes\": 2, \"command\": \"x\"}",
		"{\"kind\": \"endpoint\", \"nodes\": 2, \"command\": \"x --uds $TANDEM_SESSION_SOCKET\"}",
		"{\"kind\": \"jupyter\", \"image\": \"a:1\"}",
		"{\"kind\": \"vscode\", \"image\": \"a:1\", \"nodes\": 1}"};
	for (size_t i = 0; i < TD_LEN(good); i++)
		assert_int_equal(check(good[i], &e), 0);
	assert_int_equal(check("{\"kind\": \"shell\", \"nodes\": 2, \"image\": \"a:1\"}", &e), 0);
	assert_int_equal(check("{\"nodes\": 2, \"command\": \"x\"}", &e), TD_INVALID);
	assert_non_null(strstr(e.msg, "TANDEM_SESSION_SOCKET"));
	assert_int_equal(check("{\"kind\": \"shell\", \"replicas\": 2}", &e), TD_INVALID);
}

static void what_is_said_of_its_machines(void **state)
{
	(void)state;
	static const char pod[] =
		"{\"metadata\": {\"name\": \"session-x\", \"namespace\": \"ann\", \"uid\": \"1\", \"annotations\": "
		"{\"tandem.dev/session-kind\": \"shell\"}}, \"spec\": {\"nodesAsked\": 2, \"nodeName\": \"h0\", "
		"\"nodes\": [{\"name\": \"h0\", \"devices\": \"0\"}, {\"name\": \"h1\"}]}, \"status\": {\"phase\": "
		"\"Running\", \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]}}";
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(pod, strlen(pod), &j, NULL), 0);
	td_auto(td_object_unref) struct td_object *o = td_object_new(j);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *w = yyjson_mut_doc_get_root(d);
	assert_int_equal(td_session_host_nodes(o), 2);
	td_session_host_nodes_write(o, d, w);
	td_auto_free char *text = td_json_mut_text(w, NULL);
	assert_string_equal(text,
			    "{\"nodes\":{\"each\":[{\"number\":0,\"state\":\"ready\",\"node\":\"h0\",\"devices\":"
			    "\"0\"},{\"number\":1,\"state\":\"ready\",\"node\":\"h1\"}],\"asked\":2,\"ready\":2}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_several_machines_say_together),
		cmocka_unit_test(what_can_be_over_several_machines),
		cmocka_unit_test(what_is_said_of_its_machines),
		cmocka_unit_test(the_partition_that_has_the_machines),
		cmocka_unit_test(an_image_is_the_jobs_container),
		cmocka_unit_test(what_a_machine_says_of_a_session),
		cmocka_unit_test(whoever_complains_for_ever_does_not_fill_the_log),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
