// rows: D4.1 D4.2 D4.4 D8.1 E4.3
// What sessions do, with a clock that stands until the test moves it: below 5 % of a CPU for 10 minutes,
// no traffic for 1 hour, 12 hours after the start.
#include "gateway/sessions.h"

#include "base/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct td_idle_rules rules = {
	.max_age_s = 12 * 3600, .no_traffic_s = 3600, .low_cpu_s = 600, .low_cpu = 0.05};
enum { T0 = 1000000 };

static int64_t end(struct td_session_traffic *t, int64_t started, enum td_idle_why why)
{
	int64_t at = 0;
	struct td_idle_seen s = {.started = started};
	td_session_seen(t, "a", &s);
	assert_int_equal(td_idle_end(&rules, &s, &at), why);
	return at;
}

// The figures of now.
static void looks(struct td_session_traffic *t, const struct td_clock_manual *c, double cpu, int gpus, double gpu)
{
	const struct td_session_figures f = {.cpu = cpu, .gpus = gpus, .gpu = gpu, .at_ms = td_real_ms(&c->clock)};
	assert_true(td_session_look(t, "a", &rules, &f));
	assert_false(td_session_look(t, "a", &rules, &f)); // once is enough: it says nothing new
}

static void cpu_below_the_limit_for_ten_minutes(void **state)
{
	struct td_clock_manual c;
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *t = td_session_traffic_new(&c.clock);
	td_session_fresh(t, "a");
	looks(t, &c, 10, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600); // one look says nothing
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 10 + 0.7, 0, -1);                       // 4.7 % of 15 s
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 600); // since the first look
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 10.7 + 0.7, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 11.4 + 0.8, 0, -1); // 5.3 %
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 12.3, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 45 + 600);

	// A look that finds nothing: not known. The next one tells what was between.
	td_clock_manual_add(&c, 15000);
	looks(t, &c, -1, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 12.4, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 45 + 600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, -1, 0, -1);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 12.4 + 5, 0, -1); // it computed between
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 17.4, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 120 + 600);

	// Not found for longer, and a counter that went back: it begins anew.
	td_clock_manual_add(&c, 61000);
	looks(t, &c, -1, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 17.4, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	// GPUs that nobody measures.
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 2, -1);
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_session_traffic_free(t);
}

// Agents are asked more seldom than sessions are looked at, and some cannot be asked.
static void what_is_not_known_is_said(void **state)
{
	struct td_clock_manual c;
	char lacks[200];
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *t = td_session_traffic_new(&c.clock);
	struct td_session_figures f = {.cpu = 1, .gpu = -1};
	assert_false(td_session_look(t, "a", &rules, &f)); // nobody was asked yet
	assert_false(td_session_lacks(t, "a", lacks, sizeof(lacks)));
	looks(t, &c, 1, 0, -1);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 1.1, 0, -1);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 600);
	// A busy one is not idle in the looks between two answers.
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 9, 0, -1);
	td_clock_manual_add(&c, 5000);
	f = (struct td_session_figures){.cpu = 9, .gpu = -1, .at_ms = (T0 + 30) * 1000LL};
	assert_false(td_session_look(t, "a", &rules, &f));
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);

	f = (struct td_session_figures){.cpu = -1, .gpu = -1, .at_ms = (T0 + 45) * 1000LL, .why = "no agent"};
	assert_true(td_session_look(t, "a", &rules, &f));
	assert_true(td_session_lacks(t, "a", lacks, sizeof(lacks)));
	assert_string_equal(lacks, "no agent");
	td_session_fresh(t, "a"); // its next pod may be elsewhere
	assert_false(td_session_lacks(t, "a", lacks, sizeof(lacks)));
	td_session_traffic_free(t);
}

static void an_agents_lines(void **state)
{
	static const char text[] =
		"# HELP tandem_device_holder x\ntandem_device_holder{node=\"n0\"} 1\n"
		"tandem_device_holders{} 1\ntandem_http_seconds_sum 4\n"
		"tandem_agent_pod_cpu_seconds_total{pod=\"p\"} 2\ntandem_device_use_ratio{d=\"0\"} 1";
	td_auto_buf struct td_buf b = {0};
	td_session_agents_keep(text, &b);
	assert_string_equal(td_buf_str(&b), "tandem_device_holder{node=\"n0\"} 1\n"
					    "tandem_agent_pod_cpu_seconds_total{pod=\"p\"} 2\n"
					    "tandem_device_use_ratio{d=\"0\"} 1\n");
	td_buf_reset(&b);
	td_session_agents_keep("", &b);
	assert_int_equal(b.len, 0);
}

static void traffic_and_age(void **state)
{
	struct td_clock_manual c;
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *t = td_session_traffic_new(&c.clock);
	assert_int_equal(end(t, T0 - 50000, TD_IDLE_AGE), T0 - 50000 + 12 * 3600);
	assert_int_equal(end(t, T0 - 100, TD_IDLE_TRAFFIC), T0 + 3600); // what was before this gateway is not known
	td_clock_manual_add(&c, 1800 * 1000);
	td_session_touch(t, "b");
	assert_int_equal(end(t, T0 - 100, TD_IDLE_TRAFFIC), T0 + 3600);
	td_session_touch(t, "a");
	assert_int_equal(end(t, T0 - 100, TD_IDLE_TRAFFIC), T0 + 1800 + 3600);
	// Of more than there is room for, those that were used last are known.
	for (int i = 0; i < 3000; i++) {
		char id[16];
		td_clock_manual_add(&c, 1000);
		snprintf(id, sizeof(id), "x%d", i);
		td_session_touch(t, i % 100 ? id : "a");
	}
	assert_int_equal(end(t, T0 + 4000, TD_IDLE_TRAFFIC), T0 + 1800 + 2901 + 3600);
	td_session_traffic_free(t);
}

static void the_agents_figures(void **state)
{
	static const char text[] = "# HELP tandem_agent_pod_cpu_seconds_total x\n"
				   "tandem_agent_pod_cpu_seconds_total{namespace=\"a\",pod=\"p\"} 12.5\n"
				   "tandem_agent_pod_memory{namespace=\"a\",pod=\"p\"} 7\n"
				   "tandem_agent_pod_cpu_seconds_total{namespace=\"a\",pod=\"q\"} 1e-3\n"
				   "tandem_agent_pod_cpu_seconds_total{namespace=\"a\",pod=\"r\"} NaN\n"
				   "tandem_agent_pod_cpu_seconds_total{namespace=\"a\",pod=\"s\"} 4 4\n";
	assert_true(td_session_cpu_read(text, "a", "p") == 12.5);
	assert_true(td_session_cpu_read(text, "a", "q") == 1e-3);
	static const char *const none[] = {"", "r", "s", "x", "p\"} 1\n"};
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_true(td_session_cpu_read(text, "a", none[i]) == -1);
	assert_true(td_session_cpu_read(text, "b", "p") == -1);
	assert_true(td_session_cpu_read("", "a", "p") == -1);
}

static void how_an_endpoint_answers(void **state)
{
	struct td_clock_manual c;
	struct td_answers_said a;
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *t = td_session_traffic_new(&c.clock);
	assert_false(td_session_answers(t, "a", &a)); // nobody has asked

	uint64_t life = td_session_asked(t, "a");
	for (int i = 0; i < 2; i++)
		assert_int_equal(td_session_asked(t, "a"), life);
	td_session_answered(t, "a", life, 40);
	td_session_answered(t, "a", life, 10);
	assert_true(td_session_answers(t, "a", &a));
	assert_int_equal(a.in_flight, 1);
	assert_int_equal(a.total, 2);
	assert_int_equal(a.recent, 2);
	assert_int_equal(a.p50_ms, 10);
	assert_int_equal(a.p95_ms, 40);
	assert_int_equal(a.over_ms, TD_ANSWERS_WINDOW_MS);

	// Five minutes later only what is newer counts.
	td_clock_manual_add(&c, TD_ANSWERS_WINDOW_MS);
	td_session_answers(t, "a", &a);
	assert_int_equal(a.recent, 0);
	assert_int_equal(a.in_flight, 1);

	// More than are kept: 1 … 300 ms, one each 100 ms. The last 256 of them are 45 … 300.
	for (int i = 1; i <= 300; i++) {
		td_session_asked(t, "a");
		td_clock_manual_add(&c, 100);
		td_session_answered(t, "a", life, i);
	}
	td_session_answers(t, "a", &a);
	assert_int_equal(a.total, 302);
	assert_int_equal(a.recent, TD_ANSWERS_KEPT);
	assert_int_equal(a.over_ms, 25500);
	assert_int_equal(a.p50_ms, 172);
	assert_int_equal(a.p95_ms, 288);
	assert_int_equal(a.max_ms, 300);

	// A new pod of the session: an answer of the old one counts for nothing.
	td_session_fresh(t, "a");
	td_session_answered(t, "a", life, 5);
	assert_false(td_session_answers(t, "a", &a));
	// Nor when the new one was asked already.
	uint64_t next = td_session_asked(t, "a");
	assert_int_not_equal(next, life);
	td_session_answered(t, "a", life, 5);
	assert_true(td_session_answers(t, "a", &a));
	assert_int_equal(a.in_flight, 1);
	assert_int_equal(a.total, 0);
	td_session_answered(t, "a", next, 5);
	td_session_answers(t, "a", &a);
	assert_int_equal(a.in_flight, 0);
	assert_int_equal(a.total, 1);
	td_session_traffic_free(t);
}

static void gpus_that_compute_nothing(void **state)
{
	struct td_clock_manual c;
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *t = td_session_traffic_new(&c.clock);
	td_session_fresh(t, "a");
	looks(t, &c, 3, 2, 0.01);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 2, 0.04);
	assert_int_equal(end(t, T0, TD_IDLE_CPU), T0 + 600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 2, 0.06); // it computes
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 2, 0);
	td_clock_manual_add(&c, 15000);
	looks(t, &c, 3, 2, -1); // not measured any more
	assert_int_equal(end(t, T0, TD_IDLE_TRAFFIC), T0 + 3600);
	td_session_traffic_free(t);
}

static void the_agents_figures_of_gpus(void **state)
{
	static const char text[] =
		"tandem_device_holder{node=\"n0\",device=\"gpu0\",job=\"7\",pod=\"a/p\",user=\"\"} 1\n"
		"tandem_device_holder{node=\"n0\",device=\"gpu1\",job=\"7\",pod=\"a/p\",user=\"\"} 1\n"
		"tandem_device_holder{node=\"n0\",device=\"gpu2\",job=\"8\",pod=\"a/q\",user=\"\"} 1\n"
		"tandem_device_holder{node=\"n0\",device=\"gpu3\",job=\"\",pod=\"\",user=\"\"} 0\n"
		"tandem_device_use_ratio{node=\"n0\",device=\"gpu0\"} 0.02\n"
		"tandem_device_use_ratio{node=\"n0\",device=\"gpu1\"} 0.5\n"
		"tandem_device_use_ratio{node=\"n0\",device=\"gpu3\"} 1\n"
		"tandem_device_use_ratio{node=\"n1\",device=\"gpu2\"} 1\n";
	assert_true(td_session_gpu_read(text, "a", "p") == 0.5);
	assert_true(td_session_gpu_read(text, "a", "q") == -1); // held and not measured
	assert_true(td_session_gpu_read(text, "a", "r") == -1); // holds nothing
	assert_true(td_session_gpu_read("", "a", "p") == -1);
	static const char given[] = "tandem_agent_pod_gpu_use_ratio{namespace=\"a\",pod=\"p\"} 0.25\n";
	assert_true(td_session_gpu_counted(given, "a", "p") == 0.25); // by a device plug-in
	assert_true(td_session_gpu_counted(given, "a", "q") == -1);
}

static struct td_object *object_of(const char *yaml)
{
	td_auto_json_list struct td_json_list l = {0};
	assert_int_equal(td_yaml_parse(yaml, strlen(yaml), &l, NULL), 0);
	return td_object_new(td_json_ref(l.v[0]));
}

static void scopes(void **state)
{
	static const char *const yaml[] = {
		"metadata: {name: science}\nspec: {cluster: {namespace: s, name: c}, sessions: {maxAge: 8h, idle: "
		"30m}}",
		"metadata: {name: physics}\nspec: {cluster: {namespace: s, name: c}, parent: science, members: [{user: "
		"ann}], sessions: {idle: 2h, lowUse: 10m}}",
		"metadata: {name: law}\nspec: {cluster: {namespace: s, name: c}, members: [{user: bob}], sessions: "
		"{maxAge: 1h}}",
		"metadata: {name: there}\nspec: {cluster: {namespace: s, name: d}, members: [{user: ann}], sessions: "
		"{maxAge: 1s}}",
		"metadata: {name: a}\nspec: {cluster: {namespace: s, name: c}, parent: b, members: [{user: eve}]}",
		"metadata: {name: b}\nspec: {cluster: {namespace: s, name: c}, parent: a, sessions: {lowUse: 5m}}",
	};
	static const struct {
		const char *user;
		int64_t age, idle, low;
	} rows[] = {{"ann", 8 * 3600, 1800, 600},  // of each the strictest, those above too
		    {"bob", 3600, 3600, 0},        // beside the rules for all
		    {"eve", 12 * 3600, 3600, 300}, // a circle of parents ends
		    {"kim", 12 * 3600, 3600, 0}};  // nobody's member
	struct td_objects l = {0};
	for (size_t i = 0; i < TD_LEN(yaml); i++)
		td_objects_add(&l, object_of(yaml[i]));
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		const struct td_session_person who = {.ns = "s", .cluster = "c", .user = rows[i].user};
		struct td_idle_rules r = td_session_rules;
		td_session_scopes_of(&l, &who, &r);
		assert_int_equal(r.max_age_s, rows[i].age);
		assert_int_equal(r.no_traffic_s, rows[i].idle);
		assert_int_equal(r.low_cpu_s, rows[i].low);
	}
	td_objects_done(&l);
}

// Two gateways: each sees its own requests, and the record tells it of the other's, later rather than sooner.
static void gateways_tell_each_other(void **state)
{
	struct td_clock_manual c;
	td_clock_manual_init(&c, T0 * 1000LL);
	struct td_session_traffic *a = td_session_traffic_new(&c.clock), *b = td_session_traffic_new(&c.clock);
	td_session_fresh(a, "a");
	assert_int_equal(td_session_tell(a, "a", 0), T0);
	assert_int_equal(td_session_tell(b, "a", T0), 0);
	td_clock_manual_add(&c, 10000);
	td_session_touch(a, "a");
	assert_int_equal(td_session_tell(a, "a", T0), 0); // a moment after the last time
	assert_int_equal(end(a, T0, TD_IDLE_TRAFFIC), T0 + 10 + 3600);
	td_clock_manual_add(&c, 3000 * 1000LL);
	td_session_touch(a, "a");
	assert_int_equal(td_session_tell(a, "a", T0), T0 + 3010);
	assert_int_equal(end(b, T0, TD_IDLE_TRAFFIC), T0 + 30 + 3600); // it does not know yet
	assert_int_equal(td_session_tell(b, "a", T0 + 3010), 0);
	td_clock_manual_add(&c, 50 * 1000LL);
	assert_int_equal(end(b, T0, TD_IDLE_TRAFFIC), T0 + 3010 + 30 + 3600);
	// What it wrote down itself makes it no later; and nobody has used it in the future.
	assert_int_equal(td_session_tell(a, "a", T0 + 3010), 0);
	assert_int_equal(end(a, T0, TD_IDLE_TRAFFIC), T0 + 3010 + 3600);
	assert_int_equal(td_session_tell(b, "a", T0 + 1000000), 0);
	assert_int_equal(end(b, T0, TD_IDLE_TRAFFIC), T0 + 3060 + 3600);
	td_session_traffic_free(a);
	td_session_traffic_free(b);
}

// A namespace without sessions is looked at now and then, and at once when somebody does something there.
static void where_there_are_none(void **state)
{
	struct td_session_looks *l = td_session_looks_new();
	assert_true(td_session_looks_due(l, "a", 1000));
	assert_true(td_session_looks_due(l, "a", 6000)); // it had some
	td_session_looks_empty(l, "a", 6000);
	assert_false(td_session_looks_due(l, "a", 11000));
	assert_true(td_session_looks_due(l, "b", 11000));
	assert_true(td_session_looks_due(l, "a", 6000 + 120000));
	td_session_looks_wake(l, "a"); // while it is looked at
	td_session_looks_empty(l, "a", 127000);
	assert_true(td_session_looks_due(l, "a", 127000));
	td_session_looks_empty(l, "a", 127000);
	td_session_looks_wake(l, "a");
	assert_true(td_session_looks_due(l, "a", 128000));
	td_session_looks_free(l);
}

static const struct td_object *space(const char *notes, struct td_object **keep)
{
	td_auto_free char *text = td_asprintf("{\"metadata\": {\"name\": \"ann\", \"annotations\": {%s}}}", notes);
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return *keep = td_object_new(td_json_ref(j));
}

static void its_pod_says_what_its_namespace_wants(void **state)
{
	td_auto(td_object_unref) struct td_object *plain = NULL, *tenant = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *a = td_jm_new(), *b = td_jm_new();
	td_session_users(space("\"other\": \"x\"", &plain), a);
	assert_null(td_jm_get(yyjson_mut_doc_get_root(a), "spec"));
	td_session_users(space("\"tandem.dev/user-namespaces\": \"required\"", &tenant), b);
	assert_true(yyjson_mut_is_false(td_jm_get(yyjson_mut_doc_get_root(b), "spec.hostUsers")));
	// What it may hold of the disk: what was asked for, what the Tenant says, or something.
	td_auto(td_object_unref) struct td_object *says = NULL;
	static const char *const want[] = {"5Mi", "7Gi", "20Gi"};
	for (int i = 0; i < 3; i++) {
		static const char text[] =
			"{\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"cpu\": \"1\"}}}]}}";
		td_auto(td_json_unref) struct td_json *j = NULL;
		assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
		yyjson_mut_val *limits = td_jm_get(yyjson_mut_doc_get_root(d), "spec.containers.[0].resources.limits");
		if (i == 0)
			td_jm_key_str(d, limits, "ephemeral-storage", want[0]);
		says = td_object_unref(says);
		td_session_disk(i < 2 ? space("\"tandem.dev/ephemeral-storage\": \"7Gi\"", &says) : NULL, d);
		assert_string_equal(td_jm_getstr(limits, "ephemeral-storage"), want[i]);
	}
	(void)state;
}

// An account goes to the first partition of the other cluster that takes it; an empty list takes all.
static void its_partition_elsewhere_takes_its_account(void **state)
{
	static const char text[] =
		"{\"spec\": {\"partitions\": [{\"name\": \"all\"}, {\"name\": \"ours\", \"nodeSets\": [\"east\"], "
		"\"allowAccounts\": [\"ml\"]}, {\"name\": \"open\", \"nodeSets\": [\"east\"], \"allowAccounts\": "
		"[]}]}}";
	static const char pod[] = "{\"metadata\": {\"annotations\": {}}}",
			  *const bodies[] = {"{}", "{\"account\": \"ml\"}", "{\"account\": \"bio\"}"},
			  *const want[] = {"open", "ours", "open"};
	td_auto(td_json_unref) struct td_json *sc = NULL, *set_json = NULL, *pod_json = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &sc, NULL), 0);
	static const char east[] = "{\"metadata\": {\"name\": \"east\", \"namespace\": \"slurm\"}}";
	assert_int_equal(td_json_parse(east, strlen(east), &set_json, NULL), 0);
	assert_int_equal(td_json_parse(pod, strlen(pod), &pod_json, NULL), 0);
	td_auto(td_object_unref) struct td_object *set = td_object_new(td_json_ref(set_json));
	struct td_gateway g = {0};
	for (size_t i = 0; i < TD_LEN(bodies); i++) {
		td_auto(td_json_unref) struct td_json *body = NULL;
		assert_int_equal(td_json_parse(bodies[i], strlen(bodies[i]), &body, NULL), 0);
		struct td_gateway_ask q = {.g = &g, .body = td_json_root(body)};
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod_json));
		assert_int_equal(td_session_other_pod(&q, td_session_kind("endpoint"), set, td_json_root(sc), d, NULL),
				 0);
		const yyjson_mut_val *notes = td_jm_get(yyjson_mut_doc_get_root(d), "metadata.annotations");
		assert_string_equal(
			yyjson_mut_get_str(yyjson_mut_obj_get((yyjson_mut_val *)notes, TD_ANN_ASK_PREFIX "partition")),
			want[i]);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gateways_tell_each_other),
		cmocka_unit_test(where_there_are_none),
		cmocka_unit_test(how_an_endpoint_answers),
		cmocka_unit_test(scopes),
		cmocka_unit_test(cpu_below_the_limit_for_ten_minutes),
		cmocka_unit_test(traffic_and_age),
		cmocka_unit_test(what_is_not_known_is_said),
		cmocka_unit_test(an_agents_lines),
		cmocka_unit_test(the_agents_figures),
		cmocka_unit_test(the_agents_figures_of_gpus),
		cmocka_unit_test(gpus_that_compute_nothing),
		cmocka_unit_test(its_pod_says_what_its_namespace_wants),
		cmocka_unit_test(its_partition_elsewhere_takes_its_account),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
