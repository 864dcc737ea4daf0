// The smaller decisions about an ask, in scenarios. Each has its own "given" line, and a "want"
// line that begins with the same word.
#include "pool/steps.h"
#include "pool/test/scenario.h"

#include "base/err.h"

#include <string.h>

static struct td_scenario_words facts; // the last "given" line; points into the runner's copy
static struct td_pool_node nodes[8];
static struct td_pool_want held[8];
static struct td_pool_given rooms[8];
static struct td_pool_waiter waiters[8];
static bool waits_at[8][8]; // per waiter and node
static size_t n_nodes, n_rooms, n_waiters;

static void reset(void)
{
	facts = (struct td_scenario_words){0};
	n_nodes = n_rooms = n_waiters = 0;
	memset(held, 0, sizeof(held));
}

static bool has(const char *key)
{
	return td_scenario_has(&facts, key);
}

static int64_t num(const char *key, int64_t def)
{
	return td_scenario_num(&facts, key, def);
}

static bool given(const struct td_scenario_words *w)
{
	static const char *const subjects[] = {"fast",    "due",     "reading",   "prolog",  "warning", "twin",
					       "fails",   "prepare", "learn",     "pending", "never",   "code",
					       "counted", "fence",   "preparing", "new",     "rebind",  "end",
					       "ending",  "grace",   "gates",     "loss",    "refused"};
	const char *what = w->w[0].key;
	if (!strcmp(what, "room-node")) {
		assert_true(n_nodes < TD_LEN(nodes));
		held[n_nodes].cpus = td_scenario_num(w, "held-cpus", 0);
		held[n_nodes].memory_mb = td_scenario_num(w, "held-memory", 0);
		nodes[n_nodes++] = (struct td_pool_node){.name = td_scenario_val(w, "name", "?"),
							 .feasible = true,
							 .usable = !td_scenario_has(w, "drained"),
							 .cpus = 16,
							 .memory_mb = 1000,
							 .gres = {8},
							 .used_cpus = td_scenario_num(w, "cpus", 0),
							 .used_memory_mb = td_scenario_num(w, "memory", 0),
							 .used_gres = {td_scenario_num(w, "gpu", 0)}};
		return true;
	}

	if (!strcmp(what, "room-given")) {
		assert_true(n_rooms < TD_LEN(rooms));
		rooms[n_rooms++] = (struct td_pool_given){.want = {.cpus = td_scenario_num(w, "cpus", 1),
								   .memory_mb = td_scenario_num(w, "memory", 1),
								   .gres = {td_scenario_num(w, "gpu", 0)}},
							  .node = (int)td_scenario_num(w, "at", -1)};
		return true;
	}

	if (!strcmp(what, "waiter")) { // after the nodes; at=NAME: only there
		assert_true(n_waiters < TD_LEN(waiters));
		const char *at = td_scenario_val(w, "at", NULL);
		for (size_t i = 0; i < n_nodes; i++)
			waits_at[n_waiters][i] = !at || !strcmp(at, nodes[i].name);
		waiters[n_waiters] = (struct td_pool_waiter){
			.known = !td_scenario_has(w, "unknown"),
			.aside = td_pool_reason_aside(td_scenario_val(w, "reason", "Resources")),
			.want = {.cpus = td_scenario_num(w, "cpus", 1),
				 .memory_mb = td_scenario_num(w, "memory", 1),
				 .gres = {td_scenario_num(w, "gpu", 0)},
				 .exclusive = td_scenario_has(w, "exclusive")},
			.nodes = (size_t)td_scenario_num(w, "nodes", 1),
			.feasible = waits_at[n_waiters]};
		struct td_pool_want *least = &waiters[n_waiters].least;
		*least = waiters[n_waiters].want;
		least->cpus = td_scenario_num(w, "least-cpus", least->cpus);
		least->gres[0] = td_scenario_num(w, "least-gpu", least->gres[0]);
		n_waiters++;
		return true;
	}

	for (size_t i = 0; i < TD_LEN(subjects); i++)
		if (!strcmp(what, subjects[i])) {
			facts = *w;
			return true;
		}
	return false;
}

static const char *const know[] = {"none", "unsure", "gone", "read"};
static const char *const is[] = {"unknown", "pending", "starting", "running", "lost", "ended"};

static struct td_pool_job job(void)
{
	return (struct td_pool_job){.know = (enum td_job_know)td_scenario_choose(&facts, know, 4, TD_JOB_READ),
				    .is = (enum td_job_is)td_scenario_choose(&facts, is, 6, TD_IS_UNKNOWN),
				    .ours = !has("foreign"),
				    .unproven = has("unproven"),
				    .grant = {.job = num("job", 7), .start = num("start", 100), .ask = "u1"}};
}

static int code(void)
{
	for (int c = 0; c >= TD_INTERNAL; c--)
		if (has(td_code_name(c)))
			return c;
	return 0;
}

static void room(struct td_buf *out)
{
	td_pool_room_take(nodes, n_nodes, held, rooms, n_rooms);
	td_buf_puts(out, "room");
	for (size_t i = 0; i < n_nodes; i++)
		td_buf_printf(out, "%s %s cpus=%lld memory=%lld gpu=%lld", i ? "," : "", nodes[i].name,
			      (long long)nodes[i].used_cpus, (long long)nodes[i].used_memory_mb,
			      (long long)nodes[i].used_gres[0]);
}

static void yield(const struct td_scenario_words *w, struct td_buf *out)
{
	const struct td_pool_want take = {.cpus = num("cpus", 1),
					  .memory_mb = num("memory", 1),
					  .gres = {num("gpu", 0)},
					  .exclusive = has("exclusive")};
	(void)w;
	bool may = td_pool_room_yield(nodes, n_nodes, &take, waiters, n_waiters);
	bool any = false;
	td_buf_puts(out, "yield");
	for (size_t i = 0; i < n_nodes && may; i++)
		if (td_pool_fits_now(&nodes[i], 1, &take) == 0) {
			td_buf_printf(out, "%s%s", any ? "," : " try ", nodes[i].name);
			any = true;
		}
	td_buf_puts(out, any ? "" : " queue");
}

static void look(struct td_buf *out)
{
	static const char *const dos[] = {"not", "poll", "later", "read"};
	struct td_pool_look l = {.know = (enum td_job_know)td_scenario_choose(&facts, know, 4, TD_JOB_READ),
				 .asked = has("asked"),
				 .changed = has("changed"),
				 .warned = has("warned"),
				 .named = !has("unnamed"),
				 .polled = (enum td_job_is)td_scenario_choose(&facts, is, 6, TD_IS_UNKNOWN),
				 .pod_waits = has("waits"),
				 .knocks = has("knocks"),
				 .knocked = has("knocked"),
				 .now_ms = num("now", 1000),
				 .not_before_ms = num("not-before", 0),
				 .knock_ms = num("knock", 0)};

	enum td_pool_look_do d = td_pool_look(&l);
	td_buf_printf(out, "reading %s", dos[d]);
	if (d == TD_LOOK_LATER)
		td_buf_printf(out, " in=%lld", (long long)l.wait_ms);
	if (l.knock_ms)
		td_buf_printf(out, " knock=%lld", (long long)l.knock_ms);
}

static void end(struct td_buf *out)
{
	static const char *const dos[] = {"read", "again", "forget", "tell", "wait", "cancel"};
	const struct td_pool_end e = {.pod = !has("no-pod"),
				      .unbound = has("unbound"),
				      .batch = has("batch"),
				      .read = has("fresh"),
				      .named = !has("renamed"),
				      .tried = has("tried"),
				      .told_ms = num("told", -1),
				      .settle_ms = num("settle", 0)};
	struct td_pool_job j = job();
	int64_t ms;
	bool fence;
	enum td_pool_end_do d = td_pool_end_job(&e, &j, &ms, &fence);
	td_buf_printf(out, "end %s", dos[d]);
	if (d == TD_END_WAIT)
		td_buf_printf(out, " in=%lld", (long long)ms);
	if (d == TD_END_CANCEL && fence)
		td_buf_puts(out, " fence");
}

static void fast(struct td_buf *out)
{
	const struct td_pool_fast f = {.allowed = !has("forbidden"),
				       .view_age_ms = num("age", 100),
				       .refused_here = has("refused-here"),
				       .pending = (size_t)num("pending", 0),
				       .ours = (uint64_t)num("ours", 0),
				       .now_ms = num("now", 1000),
				       .block = {.blocked = has("blocked"),
						 .at_ms = num("block-at", 1000),
						 .waiting = (size_t)num("block-waiting", 0),
						 .print = (uint64_t)num("block-print", 0),
						 .ours = (uint64_t)num("block-ours", 0)},
				       .waiting = (size_t)num("waiting", 0),
				       .print = (uint64_t)num("print", 0),
				       .raises = has("raises"),
				       .vain_ms = num("vain", 0)};
	static const char *const dos[] = {"no", "yes", "raise"};
	td_buf_printf(out, "fast %s", dos[td_pool_fast(&f)]);
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	static const char *const warnings[] = {"none", "later", "now"},
				 *const submitted[] = {"done", "queue", "never", "later", "fail"},
				 *const devices[] = {"there", "again", "wait", "give-back", "refuse", "fail"},
				 *const rebinds[] = {"again", "over", "lost"},
				 *const losses[] = {"nothing", "back", "begin", "accept"};
	const char *what = w->w[0].key;
	struct td_pool_job j = job();
	if (!strcmp(what, "room")) {
		room(out);
	} else if (!strcmp(what, "yield")) {
		yield(w, out);
	} else if (!strcmp(what, "reading")) {
		look(out);
	} else if (!strcmp(what, "end")) {
		end(out);
	} else if (!strcmp(what, "told")) {
		int64_t asked = td_scenario_num(w, "asked", 0), own = td_scenario_num(w, "own", 0);
		int64_t most = td_scenario_num(w, "most", 0);
		td_buf_printf(out, "told asked=%lld own=%lld most=%lld: %lld", (long long)asked, (long long)own,
			      (long long)most, (long long)td_pool_end_signal_s(asked, own, most));
	} else if (!strcmp(what, "fast")) {
		fast(out);
	} else if (!strcmp(what, "due")) {
		static const char *const pods[] = {"pod-gone", "waiting", "bound", "leaving", "done"};
		const struct td_pool_ask a = {
			.pod = (enum td_pool_pod_state)td_scenario_choose(&facts, pods, 5, TD_POD_WAITING),
			.refused = has("refused")};
		td_buf_printf(out, "due %s", td_pool_fast_due(&a, &j) ? "yes" : "no");
	} else if (!strcmp(what, "prolog")) {
		td_buf_printf(out, "prolog %s",
			      td_pool_prolog_runs(has("reason"), has("knocked"), num("age", 0)) ? "runs" : "over");
	} else if (!strcmp(what, "warning")) {
		td_buf_printf(out, "warning %s",
			      warnings[td_pool_warning(has("preempted"), has("limit"), num("left", 0))]);
	} else if (!strcmp(what, "twin")) {
		const struct td_pool_twin seen = {num("seen", 7), false, has("seen-runs")},
					  known = {num("known", 8), has("known-ended"), has("known-runs")};
		td_buf_printf(out, "twin %s", td_pool_twin_better(&seen, &known, num("granted", 0)) ? "seen" : "known");
	} else if (!strcmp(what, "backoff")) {
		td_buf_printf(out, "backoff %lld", (long long)td_pool_backoff_ms((int)num("n", 0)));
	} else if (!strcmp(what, "prepare")) {
		const struct td_pool_prepare p = {has("batch"), has("burst"), (int)num("waits", 0), num("waited", 0)};
		td_buf_printf(out, "prepare %lld", (long long)td_pool_prepare_ms(&p));
	} else if (!strcmp(what, "learn")) {
		td_buf_printf(
			out, "learn %lld",
			(long long)td_pool_prolog_learn(num("estimate", 0), num("took", 0), has("burst"), has("vain")));
	} else if (!strcmp(what, "burst")) {
		td_buf_printf(out, "burst %s", td_pool_burst((size_t)num("n", 0)) ? "yes" : "no");
	} else if (!strcmp(what, "pending")) {
		td_buf_printf(out, "pending %lld",
			      (long long)td_pool_pending_ms((size_t)num("n", 0), has("no-reason")));
	} else if (!strcmp(what, "refused")) {
		td_buf_printf(out, "refused %lld", (long long)td_pool_refused_ms(has("outside"), (size_t)num("n", 1)));
	} else if (!strcmp(what, "never")) {
		td_buf_printf(
			out, "never %lld",
			(long long)td_pool_never_ms(has("no-nodes") ? TD_FIT_NO_NODES : TD_FIT_NEVER, num("same", 0)));
	} else if (!strcmp(what, "submitted")) {
		td_buf_printf(out, "submitted %s", submitted[td_pool_submitted(code(), has("immediate"))]);
	} else if (!strcmp(what, "devices")) {
		td_buf_printf(out, "devices %s", devices[td_pool_devices(code())]);
	} else if (!strcmp(what, "counted")) {
		const struct td_pool_counted c = {num("offer", -1), num("used", 0), num("want", 1), num("age", 0)};
		td_buf_printf(out, "counted %s", td_code_name(td_pool_counted(&c)));
	} else if (!strcmp(what, "fence")) {
		const struct td_grant had = {.job = num("had-job", 7), .start = num("had-start", 100), .ask = "u1"};
		td_buf_printf(out, "fence %s", td_pool_fence_ended(has("own"), &had, &j) ? "ended" : "holds");
	} else if (!strcmp(what, "rebind")) {
		td_buf_printf(
			out, "rebind %s",
			rebinds[td_pool_rebind(!has("other-uid"), has("ending"), has("bound"), !has("other-epoch"))]);
	} else if (!strcmp(what, "grace")) {
		td_buf_printf(out, "grace %lld",
			      (long long)td_pool_end_grace_s(has("bound"), num("own", 30), num("most", 20)));
	} else if (!strcmp(what, "ending")) {
		const struct td_pool_ending e = {has("bound"), !has("not-ready"), num("asked", -1), num("grace", 30)};
		int64_t ms;
		const char *name = td_pool_ending_name(td_pool_ending(&e, &ms));
		if (ms)
			td_buf_printf(out, "ending %s in=%lld", name, (long long)ms);
		else
			td_buf_printf(out, "ending %s", name);
	} else if (!strcmp(what, "gates")) {
		td_buf_printf(out, "gates %s",
			      td_pool_gate_alarm((size_t)num("held", 0), (size_t)num("nodes", 0)) ? "alarm" : "fine");
	} else if (!strcmp(what, "loss")) {
		const struct td_pool_loss l = {has("vanished"), has("lost"), has("accepted"), num("since", 0),
					       has("confirmed")};
		td_buf_printf(out, "loss %s", losses[td_pool_loss(&l)]);
	} else {
		return false;
	}

	return true;
}

const struct td_scenario_part td_scenario_steps = {reset, given, decide};
