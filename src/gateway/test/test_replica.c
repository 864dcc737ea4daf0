// rows: D3.5 D3.7 E4.3
// Which replica of an endpoint gets a request, and which are started or ended.
#include "gateway/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"

static void the_one_with_the_fewest(void **state)
{
	struct td_replica_way v[] = {
		{.ready = true, .in_flight = 2}, {.ready = true, .in_flight = 1}, {.in_flight = 0}};
	assert_int_equal(td_replica_pick(v, 3, 0), 1);
	v[1].in_flight = 2;
	assert_int_equal(td_replica_pick(v, 3, 0), 0); // equals take turns
	assert_int_equal(td_replica_pick(v, 3, 1), 1);
	assert_int_equal(td_replica_pick(v, 3, 2), 0);
	v[0].out = true; // it was not reached, whatever waits at the others
	v[0].in_flight = 0;
	for (uint64_t t = 0; t < 3; t++)
		assert_int_equal(td_replica_pick(v, 3, t), 1);
	v[1].ready = false; // none but that one: it is tried
	assert_int_equal(td_replica_pick(v, 3, 0), 0);
	v[0].ready = false;
	assert_int_equal(td_replica_pick(v, 3, 0), -1);
	assert_int_equal(td_replica_pick(v, 0, 7), -1);
	// Each of those that are equal gets as many as the others, wherever they stand.
	struct td_replica_way w[TD_REPLICAS_MOST] = {
		[1] = {.ready = true}, [2] = {.ready = true}, [9] = {.ready = true}};
	int got[TD_REPLICAS_MOST] = {0};
	for (uint64_t t = 0; t < 30; t++)
		got[td_replica_pick(w, TD_REPLICAS_MOST, t)]++;
	assert_true(got[1] == 10 && got[2] == 10 && got[9] == 10);
}

static void what_is_started_and_ended(void **state)
{
	enum { T = 100000 };
	const struct td_replica_want two = {.n = 2, .now = T, .shrunk = T - 10}, over = {.now = T, .shrunk = T};
	static const struct {
		struct td_replica_seen s;
		enum td_replica_act wanted, spare, over;
	} rows[] = {
		{{.is = TD_REPLICA_NONE}, TD_REPLICA_MAKE, TD_REPLICA_LEAVE, TD_REPLICA_LEAVE},
		{{.is = TD_REPLICA_GOES}, TD_REPLICA_LEAVE, TD_REPLICA_LEAVE, TD_REPLICA_LEAVE},
		{{.is = TD_REPLICA_LIVES}, TD_REPLICA_LEAVE, TD_REPLICA_REMOVE, TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_LIVES, .in_flight = 1}, TD_REPLICA_LEAVE, TD_REPLICA_LEAVE, TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T}, TD_REPLICA_REPLACE, TD_REPLICA_REMOVE, TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T - 4, .soon = 1},
		 TD_REPLICA_LEAVE,
		 TD_REPLICA_REMOVE,
		 TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T - 5, .soon = 1},
		 TD_REPLICA_REPLACE,
		 TD_REPLICA_REMOVE,
		 TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T - 19, .soon = 3},
		 TD_REPLICA_LEAVE,
		 TD_REPLICA_REMOVE,
		 TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T - 20, .soon = 3},
		 TD_REPLICA_REPLACE,
		 TD_REPLICA_REMOVE,
		 TD_REPLICA_REMOVE},
		{{.is = TD_REPLICA_ENDED, .ended = T - 300, .soon = 100},
		 TD_REPLICA_REPLACE,
		 TD_REPLICA_REMOVE,
		 TD_REPLICA_REMOVE},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		struct td_replica_seen s = rows[i].s;
		s.began = s.ended - 3;
		assert_int_equal(td_replica_next(&s, 1, &two), rows[i].wanted);
		assert_int_equal(td_replica_next(&s, 2, &two), rows[i].spare);
		assert_int_equal(td_replica_next(&s, 0, &over), rows[i].over);
	}
	// One that ran for long comes back at once, however often those before it ended soon.
	struct td_replica_seen s = {.is = TD_REPLICA_ENDED, .began = T - TD_REPLICA_LONG_S, .ended = T, .soon = 100};
	assert_int_equal(td_replica_next(&s, 1, &two), TD_REPLICA_REPLACE);
	s.began++;
	assert_int_equal(td_replica_next(&s, 1, &two), TD_REPLICA_LEAVE);
}

static void one_too_many_ends_when_it_is_answered(void **state)
{
	enum { T = 100000 };
	struct td_replica_seen s = {.is = TD_REPLICA_LIVES};
	struct td_replica_want w = {.n = 1, .now = T, .shrunk = T};
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_LEAVE); // other gateways have not looked
	w.now = T + TD_REPLICA_HOLD_S;
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_REMOVE);
	w.busy_until = w.now + 1; // another gateway's requests wait there
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_LEAVE);
	w.now++;
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_REMOVE);
	s.in_flight = 1; // ours; and not for ever
	w.now = T + TD_REPLICA_DRAIN_S - 1;
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_LEAVE);
	w.now++;
	assert_int_equal(td_replica_next(&s, 1, &w), TD_REPLICA_REMOVE);
	assert_int_equal(td_replica_next(&s, 0, &w), TD_REPLICA_LEAVE);
}

static void how_often_it_ended_soon(void **state)
{
	struct td_replica_seen s = {.is = TD_REPLICA_ENDED, .began = 1000, .ended = 1003};
	assert_int_equal(td_replica_soon(&s), 1);
	s.soon = 4;
	assert_int_equal(td_replica_soon(&s), 5);
	s.soon = 100;
	assert_int_equal(td_replica_soon(&s), 100);
	s.ended = 1000 + TD_REPLICA_LONG_S;
	assert_int_equal(td_replica_soon(&s), 0);
}

static void ways_of_one_gateway(void **state)
{
	struct td_session_ways *w = td_session_ways_new();
	const char *uids[] = {"a", "b", NULL};
	int first = td_session_ways_take(w, uids, 3), second = td_session_ways_take(w, uids, 3);
	assert_true(first != second && first < 2 && second < 2); // each has one
	assert_int_equal(td_session_ways_waiting(w, "a"), 1);
	td_session_ways_release(w, "b");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(td_session_ways_take(w, uids, 3), 1); // the other one still waits
		td_session_ways_release(w, "b");
	}
	td_session_ways_reached(w, "b", false);
	assert_true(td_session_ways_out(w, "b"));
	assert_int_equal(td_session_ways_take(w, uids, 3), 0);
	assert_int_equal(td_session_ways_waiting(w, "a"), 2);
	td_session_ways_reached(w, "b", true);
	assert_false(td_session_ways_out(w, "b"));
	assert_int_equal(td_session_ways_take(w, uids, 3), 1);
	assert_int_equal(td_session_ways_take(w, NULL, 0), -1);
	td_session_ways_free(w);
}

static struct td_object *object_of(const char *yaml)
{
	td_auto_json_list struct td_json_list l = {0};
	assert_int_equal(td_yaml_parse(yaml, strlen(yaml), &l, NULL), 0);
	return td_object_new(td_json_ref(l.v[0]));
}

static void only_pods_of_its_owner(void **state)
{
#define POD(ns, name, id, owner)                                                                                       \
	"metadata: {namespace: " ns ", name: " name ", labels: {tandem.dev/session: " id                               \
	"}, annotations: {tandem.dev/session-owner: " owner "}}"
	static const char *const yaml[] = {
		POD("ann", "session-web-x", "web-x", "ann"),
		POD("ann", "session-web-x-2", "web-x", "ann"),
		POD("bob", "session-web-x-1", "web-x", "ann"),
		POD("ann", "session-web-x-3", "web-x", "bob"),
		POD("ann", "session-web-x-4", "web-y", "ann"),
		POD("ann", "session-web-x-16", "web-x", "ann"),
		POD("ann", "session-web-x-05", "web-x", "ann"),
		POD("ann", "session-web-xy", "web-x", "ann"),
		POD("ann", "other", "web-x", "ann"),
	};
	static const struct {
		const char *data;
		int replicas;
	} counts[] = {{"{}", 0},
		      {"{replicas: \"3\"}", 3},
		      {"{replicas: \"99\"}", 16},
		      {"{replicas: \"-1\"}", 0},
		      {"{replicas: x}", 0}};
	struct td_objects l = {0};
	for (size_t i = 0; i < TD_LEN(yaml); i++)
		td_objects_add(&l, object_of(yaml[i]));
	for (size_t i = 0; i < TD_LEN(counts); i++) {
		td_auto_free char *text =
			td_asprintf("%s\ndata: %s", POD("ann", "session-web-x", "web-x", "ann"), counts[i].data);
		struct td_object *record = object_of(text);
		assert_int_equal(td_session_replicas(record), counts[i].replicas);
		struct td_session_set s = {0};
		td_session_set_of(record, &l, &s);
		for (int k = 0; k < TD_REPLICAS_MOST; k++)
			assert_true((s.pods[k] != NULL) == (k == 0 || k == 2));
		td_object_unref(record);
	}
	static const char *const changed[] = {
		POD("ann", "session-web-x", "web-y", "ann"), POD("ann", "web-x", "web-x", "ann"),
		"metadata: {namespace: ann, name: session-web-x, annotations: {tandem.dev/session-owner: ann}}"};
	for (size_t i = 0; i < TD_LEN(changed); i++) {
		td_auto_free char *text = td_asprintf("%s\ndata: {replicas: \"3\"}", changed[i]);
		struct td_object *record = object_of(text);
		assert_int_equal(td_session_replicas(record), 0);
		td_object_unref(record);
	}
	assert_int_equal(td_session_replicas(NULL), 0);
	td_objects_done(&l);
}

static void what_all_of_them_do(void **state)
{
#define RUNS(name, more) "metadata: {namespace: ann, name: " name more "}\nspec: {nodeName: n1}"
#define HOLDS ", annotations: {" TD_ANN_DEVICES ": \"{n1: [0]}\"}"
	static const char usage[] = "tandem_agent_pod_cpu_seconds_total{namespace=\"ann\",pod=\"a\"} 2\n"
				    "tandem_agent_pod_cpu_seconds_total{namespace=\"ann\",pod=\"b\"} 3\n";
	static const struct {
		const char *pods[3], *usage;
		double cpu;
		int gpus;
		const char *lacks;
	} rows[] = {
		{{RUNS("a", ""), RUNS("b", HOLDS)},
		 usage,
		 5,
		 1,
		 "the use of its GPUs: the agent of node n1 does not measure"},
		{{RUNS("a", ""), RUNS("c", "")},
		 usage,
		 -1,
		 0,
		 "the use of its CPUs: the agent of node n1 says nothing"},
		{{RUNS("a", "")}, NULL, -1, 0, "what it uses: it does not answer"},
		// All of them wait in the queue again: that is no sign of being idle.
		{{"metadata: {namespace: ann, name: a}"}, usage, -1, 0},
		{{"metadata: {namespace: ann, name: a}", RUNS("b", "")}, usage, 3, 0},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		struct td_objects l = {0};
		struct td_session_set s = {0};
		for (int k = 0; k < 3 && rows[i].pods[k]; k++) {
			td_objects_add(&l, object_of(rows[i].pods[k]));
			s.pods[k] = l.v[k];
		}
		const struct td_session_source from = {.text = rows[i].usage, .why = "it does not answer", .at_ms = 7};
		struct td_session_figures u;
		td_session_set_use(&s, &from, &u);
		assert_true(u.cpu == rows[i].cpu && u.gpu == -1 && u.at_ms == 7);
		assert_true(!rows[i].lacks == !*u.why && (!rows[i].lacks || strstr(u.why, rows[i].lacks)));
		assert_int_equal(u.gpus, rows[i].gpus);
		td_objects_done(&l);
	}
}

// Of a session over three nodes.
static void what_becomes_of_the_nodes(void **state)
{
#define NODE(kind, phase, more)                                                                                        \
	"metadata: {namespace: ann, name: x, annotations: {tandem.dev/session-kind: " kind                             \
	"}}\nspec: {nodeName: n1}\nstatus: {phase: " phase more "}"
#define LOST ", reason: GrantEnded, message: a member of its gang is lost"
#define DIED ", containerStatuses: [{state: {terminated: {message: no memory}}}]"
	static const struct {
		const char *head, *other;
		bool ended; // by the rules
		int wanted;
		bool keeps_ended;
		const char *state, *words;
	} rows[] = {
		{NODE("shell", "Running", ""), NODE("shell", "Failed", DIED), false, 3, false, "starting", NULL},
		{NODE("endpoint", "Running", ""), NODE("endpoint", "Failed", DIED), false, 3, true, "starting", NULL},
		{NODE("shell", "Succeeded", ""), NODE("shell", "Running", ""), false, 0, true, "done", NULL},
		{NODE("batch", "Succeeded", ""), NODE("batch", "Running", ""), false, -1, true, "running", NULL},
		{NODE("batch", "Succeeded", ""), NODE("batch", "Succeeded", ""), false, -1, true, "done", NULL},
		{NODE("batch", "Failed", LOST), NODE("batch", "Failed", DIED), false, 0, true, "failed",
		 "node 1 (n1) was lost, and with it the session: no memory"},
		{NODE("batch", "Failed", DIED), NODE("batch", "Failed", LOST), false, 0, true, "failed", "no memory"},
		{NODE("shell", "Running", ""), NODE("shell", "Failed", DIED), true, 0, false, "starting", NULL},
		{NULL, NODE("shell", "Running", ""), false, 0, true, "stopped", NULL},
	};
	struct td_object *record =
		object_of("metadata: {namespace: ann, name: session-x, labels: {tandem.dev/session: x}}\n"
			  "data: {nodes: \"3\", replicas: \"7\", request: \"{}\"}");
	assert_true(td_session_nodes(record) == 3 && !td_session_replicas(record) && td_session_several(record) == 3);
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		struct td_object *head = rows[i].head ? object_of(rows[i].head) : NULL,
				 *other = object_of(rows[i].other);
		struct td_session_set s = {
			.record = record, .nodes = 3, .asked = rows[i].ended ? 0 : 3, .pods = {head, other}};
		assert_int_equal(td_session_nodes_wanted(&s), rows[i].wanted);
		assert_int_equal(td_session_nodes_keeps(&s, 0, TD_REPLICA_ENDED), !rows[i].ended);
		assert_int_equal(td_session_nodes_keeps(&s, 1, TD_REPLICA_ENDED), rows[i].keeps_ended);
		assert_false(td_session_nodes_keeps(&s, 1, TD_REPLICA_NONE));
		struct td_gateway g = {.traffic = td_session_traffic_new(&td_clock_system)};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *w = yyjson_mut_doc_get_root(d);
		g.o.ns = "slurm";
		g.scopes = td_session_scopes_new();
		td_session_nodes_write(&g, &s, d, w);
		assert_string_equal(td_jm_getstr(w, "state"), rows[i].state);
		assert_true(td_streq(td_jm_getstr(w, "words"), rows[i].words));
		assert_int_equal(yyjson_mut_arr_size(td_jm_get(w, "nodes.each")), head ? 2 : 1);
		td_session_traffic_free(g.traffic);
		td_session_scopes_free(g.scopes);
		td_object_unref(head);
		td_object_unref(other);
	}
	td_object_unref(record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_one_with_the_fewest),
		cmocka_unit_test(what_is_started_and_ended),
		cmocka_unit_test(one_too_many_ends_when_it_is_answered),
		cmocka_unit_test(how_often_it_ended_soon),
		cmocka_unit_test(ways_of_one_gateway),
		cmocka_unit_test(only_pods_of_its_owner),
		cmocka_unit_test(what_all_of_them_do),
		cmocka_unit_test(what_becomes_of_the_nodes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
