// Policies in scenarios: who waits and runs, in which order a policy lets them, and how few jobs are moved for it.
#include "pool/fragment.h"
#include "pool/policy.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct td_policy_input in;
static struct td_policy_job jobs[24];
static struct td_policy_place places[24];
static struct td_policy_held held[8];
static struct td_pool_fragment_node cut[8];
static size_t n_cut;

static void reset(void)
{
	n_cut = 0;
	in = (struct td_policy_input){.v = jobs, .held = held, .total = {100, 1000, 10}};
}

static void tres(const struct td_scenario_words *w, int64_t *ret)
{
	ret[TD_POLICY_CPU] = td_scenario_num(w, "cpu", 1);
	ret[TD_POLICY_MEMORY] = td_scenario_num(w, "memory", 1);
	ret[TD_POLICY_GPU] = td_scenario_num(w, "gpu", 0);
}

static bool given(const struct td_scenario_words *w)
{
	static const char *const kinds[] = {"fifo", "lifo", "hierarchical", "drf"}, *const queues[] = {"one", "user",
												       "account"};
	if (!strcmp(w->w[0].key, "policy")) {
		in.kind = (enum td_policy_kind)td_scenario_choose(w, kinds, 4, TD_POLICY_FIFO);
		in.queue = (enum td_policy_queue)td_scenario_choose(w, queues, 3, TD_POLICY_ONE_QUEUE);
	} else if (!strcmp(w->w[0].key, "waits")) {
		assert_true(in.n < TD_LEN(jobs));
		struct td_policy_job *j = &jobs[in.n];
		*j = (struct td_policy_job){.id = td_scenario_num(w, "id", 0),
					    .user = td_scenario_val(w, "user", "u"),
					    .account = td_scenario_val(w, "account", "a"),
					    .submit_s = td_scenario_num(w, "submit", td_scenario_num(w, "id", 0)),
					    .urgency = td_scenario_num(w, "urgency", 0),
					    .nice = td_scenario_num(w, "nice", 0),
					    .aside = td_scenario_has(w, "aside")};
		tres(w, j->tres);
		places[in.n].id = j->id;
		places[in.n].own = td_scenario_num(w, "own", 1);
		int64_t ours = td_scenario_num(w, "at", 0); // where a policy has put it
		places[in.n].value = ours ? TD_POLICY_LOW + ours : places[in.n].own;
		in.n++;
	} else if (!strcmp(w->w[0].key, "runs")) {
		assert_true(in.n_held < TD_LEN(held));
		struct td_policy_held *h = &held[in.n_held++];
		*h = (struct td_policy_held){.user = td_scenario_val(w, "user", "u"),
					     .account = td_scenario_val(w, "account", "a")};
		tres(w, h->tres);
	} else if (!strcmp(w->w[0].key, "cut")) {
		assert_true(n_cut < TD_LEN(cut));
		cut[n_cut++] = (struct td_pool_fragment_node){.usable = !td_scenario_has(w, "drained"),
							      .total = td_scenario_num(w, "gpu", 8),
							      .free = td_scenario_num(w, "free", 0)};
	} else {
		return false;
	}
	return true;
}

static int by_slurm(const void *a, const void *b)
{
	const struct td_policy_place *x = a, *y = b;
	return x->value != y->value ? (x->value > y->value ? -1 : 1) : x->id < y->id ? -1 : 1;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	size_t order[TD_LEN(jobs)];
	struct td_policy_place v[TD_LEN(jobs)];
	struct td_policy_move moves[TD_LEN(jobs)];
	const char *what = w->w[0].key;
	if (!strcmp(what, "fragmented")) {
		int64_t ask = td_scenario_num(w, "for", 0);
		td_buf_printf(out, "fragmented for=%lld: %lld", (long long)ask,
			      (long long)td_pool_fragmented(cut, n_cut, ask));
		return true;
	}
	if (strcmp(what, "order") != 0 && strcmp(what, "moves") != 0)
		return false;
	td_policy_order(&in, order);
	td_buf_puts(out, what);
	if (!strcmp(what, "order")) {
		for (size_t i = 0; i < in.n; i++)
			td_buf_printf(out, "%s%lld", i ? " " : ": ", (long long)jobs[order[i]].id);
		return true;
	}

	int64_t depth = td_scenario_num(w, "depth", 0);
	if (depth)
		td_buf_printf(out, " depth=%lld", (long long)depth);
	td_buf_putc(out, ':');
	for (size_t i = 0; i < in.n; i++)
		v[i] = places[order[i]];
	size_t n = td_policy_plan(v, in.n, depth ? (size_t)depth : TD_POLICY_DEPTH, moves);
	for (size_t i = 0; i < n; i++) {
		td_buf_printf(out, " %s%lld", moves[i].value ? "" : "-", (long long)v[moves[i].at].id);
		v[moves[i].at].value = moves[i].value ? moves[i].value : v[moves[i].at].own;
	}
	qsort(v, in.n, sizeof(*v), by_slurm);
	td_buf_puts(out, n ? ", then" : " none, then");
	for (size_t i = 0; i < in.n; i++)
		td_buf_printf(out, " %lld", (long long)v[i].id);
	return true;
}

const struct td_scenario_part td_scenario_policy = {reset, given, decide};
