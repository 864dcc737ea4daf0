// Preemption in scenarios: "given qos …".
#include "pool/preempt.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct qos {
	struct td_strv victims;
	struct td_pool_qos q;
	bool there;
} want, live;
static bool ours;

static void reset(void)
{
	td_strv_done(&want.victims);
	td_strv_done(&live.victims);
	want = live = (struct qos){0};
	ours = false;
}

static void take(const struct td_scenario_words *w, struct qos *ret)
{
	td_strv_done(&ret->victims);
	*ret = (struct qos){.there = true};
	const char *list = td_scenario_val(w, "preempts", NULL);
	if (list)
		td_strv_split(&ret->victims, list, ',');
	ret->q = (struct td_pool_qos){.name = "q",
				      .preempts = (const char *const *)ret->victims.v,
				      .n_preempts = ret->victims.n,
				      .priority = td_scenario_num(w, "priority", 0),
				      .grace_s = td_scenario_num(w, "grace", 0),
				      .exempt_s = td_scenario_num(w, "exempt", 0)};
}

static bool given(const struct td_scenario_words *w)
{
	if (!strcmp(w->w[0].key, "qos-wanted"))
		take(w, &want);
	else if (!strcmp(w->w[0].key, "qos-there")) {
		take(w, &live);
		ours = td_scenario_has(w, "ours");
	} else
		return false;
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	if (strcmp(w->w[0].key, "qos"))
		return false;
	td_buf_printf(out, "qos %s",
		      td_pool_qos_do_name(
			      td_pool_qos_decide(want.there ? &want.q : NULL, live.there ? &live.q : NULL, ours)));
	return true;
}

const struct td_scenario_part td_scenario_preempt = {reset, given, decide};
