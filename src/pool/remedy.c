// What is done about a node's faults, and the steps of an act (docs/health.md).
#include "pool/health.h"

#include "base/mem.h"

#include <string.h>

static const char *const remedies[] = {"none", "drain", "reset-gpu", "reboot", "person"};
static const char *const acts[] = {"drain", "reset-gpu", "reboot", "run", "cut-gpu", "slurmd", "test", "return", ""};

const char *td_pool_remedy_name(enum td_remedy r)
{
	return remedies[r];
}

bool td_pool_remedy_parse(const char *name, enum td_remedy *ret)
{
	for (size_t i = 0; name && i < TD_LEN(remedies); i++)
		if (!strcmp(name, remedies[i])) {
			*ret = (enum td_remedy)i;
			return true;
		}
	return false;
}

const char *td_pool_act_name(enum td_act a)
{
	return acts[a];
}

enum td_act td_pool_act_parse(const char *name)
{
	int i = 0;
	while (i < TD_ACT_NONE && (!name || strcmp(name, acts[i]) != 0))
		i++;
	return (enum td_act)i;
}

static bool same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static bool may_be_alone(const struct td_pool_fault *f, enum td_remedy r, bool wish)
{
	return wish && f->device && !same(f->check, "preflight") && (r == TD_REMEDY_DRAIN || r == TD_REMEDY_RESET);
}

enum td_remedy td_pool_rule_of(const struct td_pool_fault *f, const struct td_pool_rule *rules, size_t n,
			       bool *ret_alone)
{
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_rule *r = &rules[i];
		if (f->check ? !same(r->check, f->check) : !same(r->condition, f->condition))
			continue;
		bool code = !r->n_codes;
		for (size_t k = 0; k < r->n_codes; k++)
			code |= r->codes[k] == f->code;
		if (!code || (r->below && f->code >= r->below))
			continue;
		bool wish = r->scope == TD_SCOPE_TABLE ? f->alone : r->scope == TD_SCOPE_DEVICE;
		*ret_alone = may_be_alone(f, r->remedy, wish);
		return r->remedy;
	}
	enum td_remedy table = f->check ? f->remedy : TD_REMEDY_NONE;
	*ret_alone = may_be_alone(f, table, f->alone);
	return table;
}

enum td_act td_pool_act_step(enum td_act act, enum td_act after, bool test, bool reboot)
{
	switch (after) {
	case TD_ACT_NONE:
		return act == TD_ACT_NONE ? TD_ACT_NONE : TD_ACT_DRAIN;
	case TD_ACT_DRAIN:
		if (act == TD_ACT_DRAIN)
			return TD_ACT_NONE;
		if (act != TD_ACT_TEST && act != TD_ACT_RETURN)
			return act;
		return test || act == TD_ACT_TEST ? TD_ACT_TEST : TD_ACT_RETURN;
	case TD_ACT_RUN:
		if (reboot)
			return TD_ACT_REBOOT;
		return test ? TD_ACT_TEST : TD_ACT_RETURN;
	case TD_ACT_RESET:
	case TD_ACT_REBOOT:
	case TD_ACT_SLURMD:
		return test ? TD_ACT_TEST : TD_ACT_RETURN;
	case TD_ACT_CUT: // what came of it is read again; tests leave parts out
		return TD_ACT_RETURN;
	case TD_ACT_TEST:
		return TD_ACT_RETURN;
	case TD_ACT_RETURN:
		break;
	}
	return TD_ACT_NONE;
}

static struct td_pool_act_step_plan plan(enum td_act_do what, const char *why)
{
	return (struct td_pool_act_step_plan){what, why};
}

bool td_pool_act_booted(const char *before, const char *now)
{
	return before && *before && now && *now && strcmp(before, now) != 0;
}

// What was done to the node is done when it is ready and without a fault.
static struct td_pool_act_step_plan healthy(const struct td_pool_act_facts *f)
{
	if (!f->ready)
		return f->late ? plan(TD_ACT_FAIL, "the node or its slurmd was not ready in time")
			       : plan(TD_ACT_WAIT, "the node and its slurmd are to be ready");
	if (f->faulty)
		return f->late ? plan(TD_ACT_FAIL, "the fault is still there")
			       : plan(TD_ACT_WAIT, "the checks still find a fault");
	return plan(TD_ACT_NEXT, NULL);
}

// What the node's agent does: a reset, a reboot, a program of the site's.
static struct td_pool_act_step_plan by_agent(const struct td_pool_act_facts *f)
{
	if (!f->told)
		return plan(TD_ACT_TELL, "the node's agent is told");
	switch (f->did) {
	case TD_DID_NOTHING:
		return f->late ? plan(TD_ACT_UNKNOWN, "the node's agent did not say in time how it went")
			       : plan(TD_ACT_WAIT, "the node's agent works on it");
	case TD_DID_FAILED:
		if (f->step == TD_ACT_CUT) // whatever parts there are now, the node's others work on
			break;
		return plan(TD_ACT_FAIL,
			    f->step == TD_ACT_TEST ? "the test failed" : "the node's agent could not do it");
	case TD_DID_UNKNOWN:
		return plan(TD_ACT_UNKNOWN, "the node's agent was stopped in the middle of it");
	case TD_DID_DONE:
		break;
	}

	if (f->step == TD_ACT_REBOOT && !f->booted)
		return f->late ? plan(TD_ACT_FAIL, "the node did not come back with a new boot in time")
			       : plan(TD_ACT_WAIT, "the node boots");
	if (f->step == TD_ACT_CUT && !f->anew)
		return f->late ? plan(TD_ACT_FAIL,
				      "the node's record in Slurm did not get its new devices in time: the "
				      "NodeSet's status says why")
			       : plan(TD_ACT_WAIT, "its slurmd is made anew with the devices that there are now");
	return healthy(f);
}

// Its slurmd pod is replaced by whoever keeps the NodeSet, as soon as the Node says with which image.
static struct td_pool_act_step_plan slurmd(const struct td_pool_act_facts *f)
{
	if (!f->told)
		return plan(TD_ACT_TELL, "its slurmd is to have the image");
	if (!f->anew)
		return f->late ? plan(TD_ACT_FAIL, "its slurmd was not made anew with the image in time: the NodeSet's "
						   "status says why")
			       : plan(TD_ACT_WAIT, "its slurmd is made anew with the image");
	return healthy(f);
}

static struct td_pool_act_step_plan test(const struct td_pool_act_facts *f)
{
	if (f->alone)
		return by_agent(f);
	if (!f->slurm)
		return plan(TD_ACT_NEXT, "it is no Slurm node: there is nothing to test it with");
	switch (f->test) {
	case TD_TEST_PASSED:
		return plan(TD_ACT_NEXT, NULL);
	case TD_TEST_FAILED:
		return plan(TD_ACT_FAIL, "the test failed");
	case TD_TEST_LOST:
		return plan(TD_ACT_FAIL, "the test ended without a result");
	case TD_TEST_NONE:
		if (f->begun)
			return plan(TD_ACT_FAIL, "the test is gone without a result");
		if (f->faulty)
			return f->late ? plan(TD_ACT_FAIL, "the fault is still there")
				       : plan(TD_ACT_WAIT, "the checks still find a fault");
		if (!f->ready)
			return f->late ? plan(TD_ACT_FAIL, "the node or its slurmd was not ready in time")
				       : plan(TD_ACT_WAIT, "the node and its slurmd are to be ready");
		// Until nobody else can get the node, it stays drained.
		return f->held ? plan(TD_ACT_BEGIN_TEST, "the test begins") : plan(TD_ACT_HOLD, "it is drained first");
	case TD_TEST_RESERVES:
	case TD_TEST_RESERVED:
		break;
	}

	if (f->late)
		return plan(TD_ACT_FAIL, "the test did not end in time");
	if (f->test == TD_TEST_RESERVES)
		return plan(TD_ACT_WAIT, "the node is reserved for the test");
	return f->held ? plan(TD_ACT_RELEASE, "the node takes the test's job and no other")
		       : plan(TD_ACT_WAIT, "the test runs");
}

struct td_pool_act_step_plan td_pool_act_decide(const struct td_pool_act_facts *f)
{
	switch (f->step) {
	case TD_ACT_DRAIN:
		if (!f->held)
			return plan(TD_ACT_HOLD, f->alone ? "the device leaves service" : "the node is drained");
		if (!f->slurm || f->drained)
			return plan(TD_ACT_NEXT, NULL);
		if (f->late)
			return plan(TD_ACT_FAIL, "jobs were left when the deadline was over");
		if (f->signal)
			return f->telling ? plan(TD_ACT_WAIT, "jobs of the node are being told to save themselves")
					  : plan(TD_ACT_SIGNAL_JOBS, "jobs of the node are told to save themselves");
		if (f->end_jobs && !f->ending)
			return plan(TD_ACT_END_JOBS, "jobs of the node are ended");
		if (f->alone)
			return plan(TD_ACT_WAIT, f->ending ? "the job that holds the device is being ended"
							   : "the device is to be free of its job");
		return plan(TD_ACT_WAIT,
			    f->ending ? "jobs of the node are being ended" : "jobs of the node are to end");
	case TD_ACT_RESET:
	case TD_ACT_REBOOT:
	case TD_ACT_RUN:
	case TD_ACT_CUT:
		return by_agent(f);
	case TD_ACT_SLURMD:
		return slurmd(f);
	case TD_ACT_TEST:
		return test(f);
	case TD_ACT_RETURN:
		if (f->faulty)
			return plan(TD_ACT_FAIL, "the checks find a fault");
		return f->held ? plan(TD_ACT_RELEASE, f->alone ? "the device returns" : "the node returns")
			       : plan(TD_ACT_NEXT, NULL);
	case TD_ACT_NONE:
		break;
	}
	return plan(TD_ACT_NEXT, NULL);
}

// The next remedy, given what was tried: a reset that did not last is followed by a reboot, and what
// was tried too often by a person.
static enum td_remedy escalate(const struct td_pool_health_facts *f)
{
	enum td_remedy r = f->worst;
	// An act that failed calls for the next one, whatever the checks say.
	if (f->last_failed && f->last_policy && r < TD_REMEDY_REBOOT)
		r = f->last == TD_ACT_DRAIN ? r : TD_REMEDY_REBOOT;
	if (r == TD_REMEDY_RESET && f->resets)
		r = TD_REMEDY_REBOOT;
	if ((r == TD_REMEDY_RESET || r == TD_REMEDY_REBOOT) && f->resets + f->reboots + f->alone >= f->attempts)
		r = TD_REMEDY_PERSON;
	return r;
}

static bool left_out(const struct td_pool_health_facts *f)
{
	return f->last_failed || f->last == TD_ACT_DRAIN;
}

void td_pool_health_decide(const struct td_pool_health_facts *f, struct td_pool_health_plan *ret)
{
	*ret = (struct td_pool_health_plan){.act = TD_ACT_NONE};
	if (f->active) {
		ret->hold = f->held; // the act itself takes it out and lets it in
		return;
	}

	// What a person drained, or tried in vain, is his until he returns it.
	if (left_out(f) && !f->last_policy) {
		ret->hold = true;
		ret->person = f->last_failed;
		ret->why = f->last_failed ? "an act that a person asked for failed" : "a person drained it";
		return;
	}

	enum td_remedy r = escalate(f);
	if (r == TD_REMEDY_NONE && !left_out(f)) {
		if (f->testing_new)
			ret->act = TD_ACT_TEST;
		else if (f->held) // its fault went by itself; what was out of service returns by a test
			ret->act = TD_ACT_RETURN;
		ret->hold = f->held || f->testing_new;
		if (f->testing_new && f->dry_run) {
			ret->hold = f->held;
			ret->act = TD_ACT_NONE;
		}
		ret->why = f->testing_new ? "it is new" : NULL;
		return;
	}

	bool out = f->held || left_out(f);
	if (f->dry_run && !out) {
		*ret = (struct td_pool_health_plan){.act = TD_ACT_NONE, .waiting = true, .why = "dry run", .as = r};
		return;
	}
	if (f->breaker && !out) {
		*ret = (struct td_pool_health_plan){
			.act = TD_ACT_NONE, .waiting = true, .why = "too many nodes are out of service", .as = r};
		return;
	}

	ret->hold = true;
	switch (r) {
	case TD_REMEDY_NONE: // the drain of a policy whose cause is gone
		ret->act = TD_ACT_RETURN;
		ret->why = "its faults are gone";
		break;
	case TD_REMEDY_DRAIN:
		ret->act = f->last == TD_ACT_DRAIN ? TD_ACT_NONE : TD_ACT_DRAIN;
		ret->why = "it waits until the fault is gone";
		break;
	case TD_REMEDY_RESET:
		ret->act = TD_ACT_RESET;
		break;
	case TD_REMEDY_REBOOT:
		ret->act = TD_ACT_REBOOT;
		break;
	case TD_REMEDY_PERSON:
		ret->act = f->last == TD_ACT_DRAIN || f->last_failed ? TD_ACT_NONE : TD_ACT_DRAIN;
		ret->person = true;
		ret->why = "what a program can do was done, and did not help";
		break;
	}
	// In a breaker or a dry run returns go on, and what else is done waits.
	if ((f->breaker || f->dry_run) && (ret->act == TD_ACT_RESET || ret->act == TD_ACT_REBOOT)) {
		ret->act = TD_ACT_NONE;
		ret->waiting = true;
		ret->why = f->dry_run ? "dry run" : "too many nodes are out of service";
		ret->as = r;
	}
}

bool td_pool_health_breaker(size_t out, size_t nodes, size_t percent, size_t least)
{
	size_t most = nodes * percent / 100;
	return out >= (most > least ? most : least);
}
