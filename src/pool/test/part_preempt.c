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
static struct td_pool_node nodes[8];
static struct td_pool_holder holders[16];
static size_t n_nodes, n_holders;
static struct td_pool_preempt facts;

static void reset(void)
{
	td_strv_done(&want.victims);
	td_strv_done(&live.victims);
	want = live = (struct qos){0};
	ours = false;
	n_nodes = n_holders = 0;
	facts = (struct td_pool_preempt){0};
}

static int node_at(const char *name)
{
	for (size_t i = 0; i < n_nodes; i++)
		if (!strcmp(nodes[i].name, name))
			return (int)i;
	return -1;
}

// A node of 16 CPUs and 8 GPUs; who holds what of it follows.
static void node(const struct td_scenario_words *w)
{
	assert_true(n_nodes < TD_LEN(nodes));
	nodes[n_nodes++] = (struct td_pool_node){.name = td_scenario_val(w, "name", "?"),
						 .feasible = !td_scenario_has(w, "unfit"),
						 .usable = !td_scenario_has(w, "drained"),
						 .cpus = 16,
						 .memory_mb = 1000,
						 .gres = {8}};
}

static void holder(const struct td_scenario_words *w)
{
	assert_true(n_holders < TD_LEN(holders));
	struct td_pool_holder h = {
		.node = node_at(td_scenario_val(w, "on", "?")),
		.has = {.cpus = td_scenario_num(w, "cpus", 1), .gres = {td_scenario_num(w, "gpu", 0)}},
		.may = !td_scenario_has(w, "safe"),
		.going = td_scenario_has(w, "going"),
		.slice_s = td_scenario_num(w, "slice", 0),
		.loss = td_scenario_num(w, "loss", 100)};
	assert_true(h.node >= 0);
	nodes[h.node].used_cpus += h.has.cpus;
	nodes[h.node].used_gres[0] += h.has.gres[0];
	holders[n_holders++] = h;
}

static void step(const struct td_scenario_words *w)
{
	facts = (struct td_pool_preempt){.node = !td_scenario_has(w, "nowhere"),
					 .tries = (int)td_scenario_num(w, "tries", 0),
					 .none = td_scenario_has(w, "none"),
					 .leaving = td_scenario_has(w, "leaving"),
					 .grace_ms = td_scenario_num(w, "grace", 0),
					 .since_ms = td_scenario_num(w, "since", 0)};
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
	else if (!strcmp(w->w[0].key, "held-node"))
		node(w);
	else if (!strcmp(w->w[0].key, "holder"))
		holder(w);
	else if (!strcmp(w->w[0].key, "taking"))
		step(w);
	else if (!strcmp(w->w[0].key, "qos-there")) {
		take(w, &live);
		ours = td_scenario_has(w, "ours");
	} else
		return false;
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "room-of")) {
		const struct td_pool_want need = {.cpus = td_scenario_num(w, "cpus", 1),
						  .gres = {td_scenario_num(w, "gpu", 0)}};
		int at = td_pool_preempt_node(nodes, n_nodes, &need, holders, n_holders);
		td_buf_printf(out, "room-of cpus=%lld gpu=%lld: %s", (long long)need.cpus, (long long)need.gres[0],
			      at < 0 ? "nobody" : nodes[at].name);
		return true;
	}
	if (!strcmp(what, "taking")) {
		int64_t ms;
		enum td_pool_preempt_do d = td_pool_preempt(&facts, &ms);
		td_buf_printf(out, "taking %s", td_pool_preempt_do_name(d));
		if (d == TD_PREEMPT_WAIT)
			td_buf_printf(out, " %lld", (long long)ms);
		return true;
	}
	if (!strcmp(what, "preempt-look")) {
		bool waits = td_scenario_has(w, "waits");
		int64_t many = td_scenario_num(w, "many", 1);
		td_buf_printf(out, "preempt-look%s many=%lld: %lld", waits ? " waits" : "", (long long)many,
			      (long long)td_pool_preempt_look_ms(waits, (size_t)many));
		return true;
	}
	if (strcmp(what, "qos"))
		return false;
	td_buf_printf(out, "qos %s",
		      td_pool_qos_do_name(
			      td_pool_qos_decide(want.there ? &want.q : NULL, live.there ? &live.q : NULL, ours)));
	return true;
}

const struct td_scenario_part td_scenario_preempt = {reset, given, decide};
