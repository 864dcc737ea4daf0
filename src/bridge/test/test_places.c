// What is remembered by node: which asks have something there, and where pods of one kind may run.
// rows: A5.7 F3.1
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/feasible.h"

#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// The CPUs that asks have on a node, as the syncer sums them up.
static int64_t cpus_on(struct td_asks *t, const char *node)
{
	int64_t sum = 0;
	pthread_mutex_lock(&t->lock);
	for (const struct td_ask_at *x = td_asks_at_locked(t, node); x; x = x->next) {
		bool lone;
		const struct td_ask_part *part = td_ask_at_node(x, node, &lone);
		sum += part ? part->cpus : lone ? x->ask->got_cpus : 0;
	}
	pthread_mutex_unlock(&t->lock);
	return sum;
}

static struct td_ask_part *parts(size_t n, const char *const *nodes)
{
	struct td_ask_part *v = td_calloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = (struct td_ask_part){.node = td_strdup(nodes[i]), .devices = td_strdup("{}"), .cpus = 10};
	return v;
}

static void test_asks(void **state)
{
	struct td_asks *t = td_asks_new();
	bool fresh;
	td_auto(td_ask_unref) struct td_ask *lone = td_ask_ensure(t, "u1", "ns/a", &fresh),
					    *gang = td_ask_ensure(t, "u2", "ns/b", &fresh);
	lone->got_cpus = 1;
	gang->got_cpus = 100; // of its first node; its parts say it
	td_ask_set_nodes(t, lone, "n1");
	td_ask_set_nodes(t, gang, "n[1-2]");
	td_ask_set_parts(t, gang, parts(2, (const char *const[]){"n1", "n2"}), 2);
	assert_int_equal(cpus_on(t, "n1"), 11);
	assert_int_equal(cpus_on(t, "n2"), 10);
	assert_int_equal(cpus_on(t, "n3"), 0);

	// It starts elsewhere, and its gang loses a node.
	td_ask_set_nodes(t, lone, "n3");
	td_ask_set_nodes(t, lone, "n3");
	td_ask_set_parts(t, gang, parts(1, (const char *const[]){"n2"}), 1);
	assert_int_equal(cpus_on(t, "n1"), 0);
	assert_int_equal(cpus_on(t, "n2"), 10);
	assert_int_equal(cpus_on(t, "n3"), 1);

	// A gang on one node, before its parts are known: nothing counts twice.
	td_ask_set_parts(t, gang, NULL, 0);
	td_ask_set_nodes(t, gang, "n2");
	assert_int_equal(cpus_on(t, "n2"), 100);

	// Forgotten: a worker that still has it may write, and leaves nothing behind.
	td_ask_forget(t, lone);
	assert_int_equal(cpus_on(t, "n3"), 0);
	td_ask_set_nodes(t, lone, "n4");
	td_ask_set_parts(t, lone, parts(1, (const char *const[]){"n4"}), 1);
	assert_int_equal(cpus_on(t, "n4"), 0);
	td_asks_free(t);
}

// Of a machine that is to be made. rows: A4.5
static void test_feasible_to_come(void **state)
{
	static const struct {
		const char *pod;
		bool plain, tainted;
	} cases[] = {
		{"{\"metadata\":{\"name\":\"a\"},\"spec\":{}}", true, false},
		{"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Exists\"}]}"
		 "}",
		 true, true},
		{"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"tolerations\":[{\"operator\":\"Exists\"}]}}", true, true},
		{"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"tolerations\":[{\"key\":\"cpu\",\"operator\":\"Exists\"}]}"
		 "}",
		 true, false},
		{"{\"metadata\":{\"name\":\"a\",\"labels\":{\"" TD_LABEL_OTHER "\":\"far\"}},\"spec\":{}}", false,
		 false},
		{"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeSelector\":{\"k\":\"v\"}}}", false, false},
	};
	td_auto(td_json_unref) struct td_json *set = given_json("{\"nodeSet\":\"cloud\",\"taints\":[\"gpu\"]}");
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_object_unref) struct td_object *pod = td_object_new(given_json(cases[i].pod));
		assert_int_equal(td_feasible_to_come(pod, NULL), cases[i].plain);
		assert_int_equal(td_feasible_to_come(pod, td_json_root(set)), cases[i].tainted);
	}
}

static void test_feasible(void **state)
{
	struct td_feasibles *f = td_feasibles_new();
	const struct td_slurm_nodes l = {.n = 2, .print = 5}, other = {.n = 2, .print = 6};
	const bool v[3] = {true, false};
	td_auto(td_object_unref) struct td_object
		*a = td_object_new(
			given_json("{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeSelector\":{\"k\":\"v\"}}}")),
		*b = td_object_new(given_json("{\"metadata\":{\"name\":\"b\"},\"spec\":{\"nodeSelector\":{\"k\":\"v\"},"
					      "\"hostNetwork\":true}}")),
		*c = td_object_new(
			given_json("{\"metadata\":{\"name\":\"c\"},\"spec\":{\"nodeSelector\":{\"k\":\"w\"}}}"));
	td_auto_free char *ka = td_feasible_kind(a, false, NULL), *kb = td_feasible_kind(b, false, NULL),
			  *kc = td_feasible_kind(c, false, NULL), *whole = td_feasible_kind(a, true, NULL);
	assert_string_equal(ka, kb);
	td_auto(td_json_unref) struct td_json *sets = given_json("[{\"nodeSet\":\"cloud\"}]");
	td_auto_free char *grows = td_feasible_kind(a, false, td_json_root(sets));
	assert_string_not_equal(ka, grows);
	assert_string_not_equal(ka, kc);
	assert_string_not_equal(ka, whole);

	td_auto_free char *much = td_malloc(20001), *text = NULL;
	memset(much, 'x', 20000);
	much[20000] = '\0';
	text = td_asprintf("{\"metadata\":{\"name\":\"d\"},\"spec\":{\"nodeSelector\":{\"k\":\"%s\"}}}", much);
	td_auto(td_object_unref) struct td_object *d = td_object_new(given_json(text));
	assert_null(td_feasible_kind(d, false, NULL)); // else a pod would be a megabyte of the bridge's memory

	assert_null(td_feasible_known(f, ka, 1, &l));
	td_feasible_learn(f, ka, 1, &l, v);
	td_auto_free bool *got = td_feasible_known(f, kb, 1, &l);
	assert_non_null(got);
	assert_true(got[0] && !got[1]);
	assert_null(td_feasible_known(f, kc, 1, &l));
	assert_null(td_feasible_known(f, ka, 2, &l));     // a label has changed
	assert_null(td_feasible_known(f, ka, 1, &other)); // a node, or its devices

	// What is asked for now replaces what was known of the same kind, and no more than some are kept.
	td_feasible_learn(f, ka, 2, &l, v);
	assert_null(td_feasible_known(f, ka, 1, &l));
	for (int i = 0; i < 200; i++) {
		td_auto_free char *k = td_asprintf("%d", i);
		td_feasible_learn(f, k, 2, &l, v);
	}
	assert_null(td_feasible_known(f, ka, 2, &l));
	td_feasibles_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_asks), cmocka_unit_test(test_feasible),
					   cmocka_unit_test(test_feasible_to_come)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
