// What is done about one sick device while its node works on (health.h).
#include "pool/health.h"

static void wait_for(struct td_pool_device_plan *p, const struct td_pool_device_facts *f, enum td_remedy as)
{
	p->waiting = true;
	p->why = f->dry_run ? "dry run" : "too many nodes are out of service";
	p->as = as;
}

void td_pool_device_decide(const struct td_pool_device_facts *f, struct td_pool_device_plan *ret)
{
	*ret = (struct td_pool_device_plan){.act = TD_ACT_NONE, .hold = f->held};
	if (f->active)
		return; // the act itself takes it out and lets it in
	if (f->node_out) {
		ret->hold = false;
		ret->node = f->worst;
		return;
	}
	// It stays out until the node is, so that nobody is given it in between.
	if (f->held && f->last_failed) {
		ret->why = f->last_policy ? "it did not come back" : "an act that a person asked for failed";
		ret->node = f->last_policy ? TD_REMEDY_REBOOT : TD_REMEDY_NONE;
		return;
	}
	if (f->worst == TD_REMEDY_NONE) {
		if (f->held)
			ret->act = TD_ACT_RETURN; // what was out of service returns by a test
		ret->why = f->held ? "its faults are gone" : NULL;
		return;
	}
	if (f->worst == TD_REMEDY_RESET && (f->tries >= f->attempts || f->resets >= f->attempts)) {
		ret->node = f->worst;
		ret->why = "what a program can do for the device was done, and did not help";
		return;
	}
	if ((f->dry_run || f->breaker) && (!f->held || f->worst == TD_REMEDY_RESET)) {
		wait_for(ret, f, f->worst);
		return;
	}
	ret->hold = true;
	if (f->worst == TD_REMEDY_RESET)
		ret->act = TD_ACT_RESET;
	else if (!f->held || f->last != TD_ACT_DRAIN)
		ret->act = TD_ACT_DRAIN;
	ret->why = f->worst == TD_REMEDY_DRAIN ? "it waits until the fault is gone" : NULL;
}
