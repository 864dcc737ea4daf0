// Upgrades of many nodes in scenarios: "given upgrade …" and a line "given its STATE …" for each node.
#include "pool/test/scenario.h"
#include "pool/upgrade.h"

#include <string.h>

static struct td_pool_upgrade_facts facts;
static struct td_pool_upgrade_member members[16];

static struct td_pool_daemons_facts daemons;
static bool back;

static void reset(void)
{
	facts = (struct td_pool_upgrade_facts){.v = members};
}

static bool given(const struct td_scenario_words *w)
{
	static const char *const states[] = {"pending",      "upgrading",   "upgraded",       "failed",
					     "rolling-back", "rolled-back", "rollback-failed"};
	static const char *const aborts[] = {"no-abort", "abort-stop", "abort-rollback"};
	const char *what = w->w[0].key;
	if (!strcmp(what, "daemons")) {
		daemons = (struct td_pool_daemons_facts){.there = td_scenario_has(w, "there"),
							 .asked = td_scenario_has(w, "asked"),
							 .seen = td_scenario_has(w, "seen"),
							 .as_was = td_scenario_has(w, "as-was"),
							 .wanted = td_scenario_has(w, "wanted"),
							 .ended = td_scenario_has(w, "ended"),
							 .observed = td_scenario_has(w, "observed"),
							 .invalid = td_scenario_has(w, "invalid"),
							 .in_force = td_scenario_has(w, "in-force"),
							 .rolled = td_scenario_has(w, "rolled"),
							 .answers = td_scenario_has(w, "answers")};
		return true;
	}
	if (!strcmp(what, "versions")) {
		back = td_pool_upgrade_back(td_scenario_val(w, "was", NULL), td_scenario_val(w, "is", NULL));
		return true;
	}
	if (!strcmp(what, "upgrade")) {
		facts.n = 0;
		facts.at_once = td_pool_upgrade_at_once(td_scenario_val(w, "at-once", "1"),
							(size_t)td_scenario_num(w, "of", 4));
		facts.paused = td_scenario_has(w, "paused");
		facts.late = td_scenario_has(w, "late");
		facts.lost = td_scenario_val(w, "lost", NULL);
		facts.daemons = td_scenario_has(w, "daemons-old")    ? TD_DAEMONS_OLD
				: td_scenario_has(w, "daemons-move") ? TD_DAEMONS_MOVE
								     : TD_DAEMONS_NEW;
		facts.changed = td_scenario_has(w, "changed");
		facts.breaker = td_scenario_has(w, "breaker");
		facts.rollback = td_scenario_has(w, "rollback");
		facts.abort = (unsigned)td_scenario_choose(w, aborts, 3, TD_ABORT_NOT);
		return true;
	}
	if (strcmp(what, "its") != 0)
		return false;
	for (int64_t i = td_scenario_num(w, "times", 1); i > 0; i--) {
		assert_true(facts.n < TD_LEN(members));
		members[facts.n++] = (struct td_pool_upgrade_member){
			.is = (enum td_upgrade_node)td_scenario_choose(w, states, 7, TD_UPGRADE_PENDING),
			.gone = td_scenario_has(w, "gone"),
			.out = td_scenario_has(w, "out"),
			.sick = td_scenario_has(w, "sick"),
			.busy = td_scenario_has(w, "busy")};
	}
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	bool begin[TD_LEN(members)];
	struct td_pool_upgrade_plan p;
	static const char *const are[] = {"ask", "wait", "ready", "refused", "changed", "gone"};
	if (!strcmp(w->w[0].key, "daemons")) {
		td_buf_printf(out, "daemons %s", are[td_pool_upgrade_daemons(&daemons)]);
		return true;
	}
	if (!strcmp(w->w[0].key, "versions")) {
		td_buf_printf(out, "versions %s", back ? "back" : "no-way-back");
		return true;
	}
	if (strcmp(w->w[0].key, "upgrade") != 0)
		return false;
	td_pool_upgrade_decide(&facts, begin, &p);
	td_buf_printf(out, "upgrade %s", td_pool_upgrade_phase_name(p.phase));
	for (size_t i = 0; i < facts.n; i++)
		if (begin[i])
			td_buf_printf(out, " %s=%zu", p.phase == TD_UPGRADE_BACKWARDS ? "back" : "begin", i);
	if (p.of < facts.n)
		td_buf_printf(out, " of=%zu", p.of);
	if (p.why)
		td_buf_printf(out, " \"%s\"", p.why);
	return true;
}

const struct td_scenario_part td_scenario_upgrade = {reset, given, decide};
