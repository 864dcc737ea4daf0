// What is done about a node's faults, and the steps of an act, in scenarios. Also a pool of 10,000
// nodes: a storm of faults ends, and the breaker lets returns go on.
#include "pool/health.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct td_scenario_words facts;
static struct td_pool_rule rules[8];
static int64_t codes[8];
static size_t n_rules;

static void reset(void)
{
	facts = (struct td_scenario_words){0};
	n_rules = 0;
}

static bool given(const struct td_scenario_words *w)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "rule")) {
		assert_true(n_rules < TD_LEN(rules));
		struct td_pool_rule *r = &rules[n_rules];
		*r = (struct td_pool_rule){.check = td_scenario_val(w, "check", NULL),
					   .condition = td_scenario_val(w, "condition", NULL)};
		assert_true(td_pool_remedy_parse(td_scenario_val(w, "action", ""), &r->remedy));
		static const char *const scopes[] = {"scope-table", "scope-node", "scope-device"};
		r->below = td_scenario_num(w, "below", 0);
		r->scope = (enum td_scope)td_scenario_choose(w, scopes, 3, TD_SCOPE_TABLE);
		if (td_scenario_has(w, "code")) {
			codes[n_rules] = td_scenario_num(w, "code", 0);
			r->codes = &codes[n_rules];
			r->n_codes = 1;
		}
		n_rules++;
		return true;
	}
	if (strcmp(what, "health") && strcmp(what, "act") && strcmp(what, "fault") && strcmp(what, "steps") &&
	    strcmp(what, "device"))
		return false;
	facts = *w;
	return true;
}

static bool has(const char *key)
{
	return td_scenario_has(&facts, key);
}

static enum td_remedy remedy(const char *key)
{
	enum td_remedy r = TD_REMEDY_NONE;
	assert_true(td_pool_remedy_parse(td_scenario_val(&facts, key, "none"), &r));
	return r;
}

static void health(struct td_buf *out)
{
	struct td_pool_health_plan p;
	const char *last = td_scenario_val(&facts, "last", NULL);
	const struct td_pool_health_facts f = {.worst = remedy("worst"),
					       .testing_new = has("new"),
					       .held = has("held"),
					       .active = has("active"),
					       .last = td_pool_act_parse(last),
					       .last_failed = has("failed"),
					       .last_policy = has("by-policy"),
					       .resets = (size_t)td_scenario_num(&facts, "resets", 0),
					       .reboots = (size_t)td_scenario_num(&facts, "reboots", 0),
					       .dry_run = has("dry-run"),
					       .breaker = has("breaker"),
					       .alone = (size_t)td_scenario_num(&facts, "alone", 0),
					       .attempts = (size_t)td_scenario_num(&facts, "attempts", 3)};
	td_pool_health_decide(&f, &p);
	td_buf_printf(out, "health %s", p.hold ? "out" : "in");
	if (p.act != TD_ACT_NONE)
		td_buf_printf(out, " %s", td_pool_act_name(p.act));
	if (p.person)
		td_buf_puts(out, " needs-person");
	if (p.waiting)
		td_buf_printf(out, " waits(%s)", td_pool_remedy_name(p.as));
	if (p.why)
		td_buf_printf(out, " \"%s\"", p.why);
}

static void act(struct td_buf *out)
{
	static const char *const dids[] = {"did-nothing", "did-it", "did-fail", "did-unknown"},
				 *const tests[] = {"no-test", "reserves", "reserved", "passed", "test-failed", "lost"},
				 *const dos[] = {"wait", "next",  "fail",    "unknown",  "hold",
						 "tell", "begin", "release", "end-jobs", "signal"};
	const struct td_pool_act_facts f = {
		.step = td_pool_act_parse(td_scenario_val(&facts, "step", NULL)),
		.alone = has("alone"),
		.late = has("late"),
		.slurm = !has("not-in-slurm"),
		.drained = has("drained"),
		.end_jobs = has("end-jobs"),
		.ending = has("ending"),
		.signal = has("signal"),
		.telling = has("telling"),
		.told = has("told"),
		.did = (enum td_act_did)td_scenario_choose(&facts, dids, 4, TD_DID_NOTHING),
		.booted = has("booted"),
		.ready = has("ready"),
		.faulty = has("faulty"),
		.anew = has("anew"),
		.test = (enum td_act_test)td_scenario_choose(&facts, tests, 6, TD_TEST_NONE),
		.begun = has("begun"),
		.held = has("held")};
	struct td_pool_act_step_plan p = td_pool_act_decide(&f);
	td_buf_printf(out, "act %s", dos[p.what]);
	if (p.why)
		td_buf_printf(out, " \"%s\"", p.why);
}

static void device(struct td_buf *out)
{
	struct td_pool_device_plan p;
	const struct td_pool_device_facts f = {.worst = remedy("worst"),
					       .held = has("held"),
					       .node_out = has("node-out"),
					       .active = has("active"),
					       .last = td_pool_act_parse(td_scenario_val(&facts, "last", NULL)),
					       .last_failed = has("failed"),
					       .last_policy = has("by-policy"),
					       .resets = (size_t)td_scenario_num(&facts, "resets", 0),
					       .dry_run = has("dry-run"),
					       .breaker = has("breaker"),
					       .tries = (size_t)td_scenario_num(&facts, "tries", 0),
					       .attempts = (size_t)td_scenario_num(&facts, "attempts", 3)};
	td_pool_device_decide(&f, &p);
	td_buf_printf(out, "device %s", p.hold ? "out" : "in");
	if (p.act != TD_ACT_NONE)
		td_buf_printf(out, " %s", td_pool_act_name(p.act));
	if (p.node != TD_REMEDY_NONE)
		td_buf_printf(out, " node(%s)", td_pool_remedy_name(p.node));
	if (p.waiting)
		td_buf_printf(out, " waits(%s)", td_pool_remedy_name(p.as));
	if (p.why)
		td_buf_printf(out, " \"%s\"", p.why);
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "health")) {
		health(out);
	} else if (!strcmp(what, "act")) {
		act(out);
	} else if (!strcmp(what, "steps")) {
		td_buf_puts(out, "steps");
		enum td_act a = td_pool_act_parse(td_scenario_val(&facts, "action", NULL)), s = TD_ACT_NONE;
		while ((s = td_pool_act_step(a, s, !has("no-test"), has("then-reboot"))) != TD_ACT_NONE)
			td_buf_printf(out, " %s", td_pool_act_name(s));
	} else if (!strcmp(what, "fault")) {
		const struct td_pool_fault f = {.check = td_scenario_val(&facts, "check", NULL),
						.condition = td_scenario_val(&facts, "condition", NULL),
						.device = td_scenario_val(&facts, "device", NULL),
						.alone = has("alone"),
						.code = td_scenario_num(&facts, "code", 0),
						.remedy = remedy("table")};
		bool alone;
		td_buf_printf(out, "fault %s", td_pool_remedy_name(td_pool_rule_of(&f, rules, n_rules, &alone)));
		td_buf_puts(out, alone ? " alone" : "");
	} else if (!strcmp(what, "device")) {
		device(out);
	} else {
		return false;
	}
	return true;
}

const struct td_scenario_part td_scenario_health = {reset, given, decide};

// ---- many nodes ----

enum { NODES = 10000, FAULTS = 50000, PERCENT = 10, LEAST = 2 };
struct sim_node {
	struct td_pool_health_facts f;
	int work; // rounds until its act ends
	enum td_act act;
};

static unsigned next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(*seed >> 33);
}

// Some reboots do not help, some tests fail.
static void end_act(struct sim_node *n, uint64_t *seed)
{
	bool good = next_random(seed) % 4;
	n->f.active = false;
	n->f.last = n->act;
	n->f.last_policy = true;
	n->f.last_failed = !good;
	n->f.resets += n->act == TD_ACT_RESET;
	n->f.reboots += n->act == TD_ACT_REBOOT;
	if (n->act == TD_ACT_DRAIN) {
		n->f.last_failed = false;
		return;
	}
	if (good) {
		n->f.held = false;
		n->f.worst = TD_REMEDY_NONE;
	}
}

void td_scenario_health_boots(void **state)
{
	(void)state;
	assert_true(td_pool_act_booted("a", "b"));
	assert_false(td_pool_act_booted("a", "a"));
	static const char *const unknown[] = {NULL, ""};
	for (size_t i = 0; i < TD_LEN(unknown); i++) {
		assert_false(td_pool_act_booted("a", unknown[i]));
		assert_false(td_pool_act_booted(unknown[i], "a"));
	}
}

void td_scenario_health_storm(void **state)
{
	static struct sim_node v[NODES];
	uint64_t seed = 7;
	size_t out = 0, persons = 0, most = 0, actions = 0;
	memset(v, 0, sizeof(v));
	for (int i = 0; i < NODES; i++)
		v[i].f = (struct td_pool_health_facts){.last = TD_ACT_NONE, .attempts = 3};

	// A storm: 50,000 faults on 10,000 nodes at once.
	for (int i = 0; i < FAULTS; i++) {
		struct sim_node *n = &v[next_random(&seed) % NODES];
		enum td_remedy r = (enum td_remedy)(1 + next_random(&seed) % 3);
		n->f.worst = r > n->f.worst ? r : n->f.worst;
	}

	size_t left = 1;
	int rounds = 0;
	for (; left && rounds < 20000; rounds++) {
		left = 0;
		for (int i = 0; i < NODES; i++) {
			struct sim_node *n = &v[i];
			struct td_pool_health_plan p;
			if (n->f.active) {
				left++;
				if (--n->work <= 0) {
					bool was = n->f.held;
					end_act(n, &seed);
					out -= was && !n->f.held;
				}
				continue;
			}
			n->f.breaker = td_pool_health_breaker(out, NODES, PERCENT, LEAST);
			bool was = n->f.held;
			td_pool_health_decide(&n->f, &p);
			assert_false(p.hold && !was && n->f.breaker); // the breaker holds
			assert_true(p.hold || !was);                  // nothing returns without an act
			n->f.held = p.hold;
			out += p.hold && !was;
			most = out > most ? out : most;
			if (p.act != TD_ACT_NONE) {
				n->f.active = true;
				n->act = p.act;
				n->work = 1 + (int)(next_random(&seed) % 5);
				actions++;
			}
			// What only waits for its fault to go, or for a person, is mended by somebody now and then.
			if (p.hold && p.act == TD_ACT_NONE && next_random(&seed) % 50 == 0) {
				n->f.worst = TD_REMEDY_NONE;
				n->f.last_failed = false;
				n->f.resets = n->f.reboots = 0;
				persons += p.person;
			}
			left += p.hold || p.act != TD_ACT_NONE || p.waiting;
		}
	}
	assert_true(most <= NODES * PERCENT / 100);
	assert_int_equal(out, 0); // every node is back
	assert_int_equal(left, 0);
	assert_true(persons > 0 && actions > NODES / 2);
}
