// Who makes room for one that starves, and when, in scenarios: "given starve-…".
#include "pool/leave.h"
#include "pool/starve.h"
#include "pool/test/scenario.h"

#include <string.h>

enum { MOST = 8 };

static struct td_pool_node nodes[MOST];
static struct td_pool_starve_account accounts[MOST];
static const char *account_names[MOST], *job_names[MOST];
static struct td_pool_starve_job jobs[MOST];
static struct td_pool_move_part places[MOST][MOST];
static bool must[MOST];
static struct td_pool_starve f;
static struct td_pool_starve_other others[MOST];
static bool anywhere[MOST], theirs[MOST][MOST];
static struct td_pool_leave leave;

static void reset(void)
{
	memset(nodes, 0, sizeof(nodes));
	memset(accounts, 0, sizeof(accounts));
	memset(must, 0, sizeof(must));
	f = (struct td_pool_starve){.room = {.nodes = nodes, .units = 1, .spread = true},
				    .accounts = accounts,
				    .jobs = jobs,
				    .must = must,
				    .others = others};
	memset(theirs, 0, sizeof(theirs));
	memset(anywhere, true, sizeof(anywhere));
	leave = (struct td_pool_leave){0};
}

// A node of 16 CPUs and 8 GPUs.
static void node(const struct td_scenario_words *w)
{
	assert_true(f.room.n < MOST);
	nodes[f.room.n++] = (struct td_pool_node){.name = td_scenario_val(w, "name", "?"),
						  .feasible = !td_scenario_has(w, "unfit"),
						  .usable = true,
						  .cpus = 16,
						  .memory_mb = 1000,
						  .gres = {8}};
	f.total += 8;
}

static size_t account_of(const char *name)
{
	for (size_t i = 0; i < f.n_accounts; i++)
		if (!strcmp(account_names[i], name))
			return i;
	assert_true(f.n_accounts < MOST);
	account_names[f.n_accounts] = name;
	accounts[f.n_accounts].weight = 1;
	return f.n_accounts++;
}

static void list_nodes(const char *list, int *ret, size_t *ret_n)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, list, ',');
	*ret_n = 0;
	for (size_t i = 0; i < l.n; i++)
		for (size_t k = 0; k < f.room.n; k++)
			if (!strcmp(nodes[k].name, l.v[i]))
				ret[(*ret_n)++] = (int)k;
	assert_int_equal(*ret_n, l.n);
}

// gpu: on each of its nodes.
static void job(const struct td_scenario_words *w)
{
	assert_true(f.n_jobs < MOST);
	size_t n, a = account_of(td_scenario_val(w, "account", "?"));
	int on[MOST];
	int64_t gpus = td_scenario_num(w, "gpu", 0);
	struct td_pool_starve_job *j = &jobs[f.n_jobs];
	list_nodes(td_scenario_val(w, "on", "?"), on, &n);
	for (size_t i = 0; i < n; i++) {
		places[f.n_jobs][i] = (struct td_pool_move_part){on[i], {.cpus = 1, .gres = {gpus}}};
		nodes[on[i]].used_cpus++;
		nodes[on[i]].used_gres[0] += gpus;
	}
	*j = (struct td_pool_starve_job){.move = {.parts = places[f.n_jobs], .n_parts = n},
					 .account = a,
					 .holds = gpus * (int64_t)n,
					 .start_s = td_scenario_num(w, "start", 0),
					 .priority = td_scenario_num(w, "priority", 0),
					 .over_slice = td_scenario_has(w, "slice-over"),
					 .going = td_scenario_has(w, "going"),
					 .ends = td_scenario_has(w, "ends"),
					 .leaves_for = td_scenario_num(w, "for", 0)};
	accounts[a].use += j->holds;
	job_names[f.n_jobs++] = td_scenario_val(w, "name", "?");
}

static void waits(const struct td_scenario_words *w)
{
	const char *list = td_scenario_val(w, "must", NULL);
	int on[MOST];
	size_t n = 0;
	f.account = account_of(td_scenario_val(w, "account", "?"));
	f.room.units = td_scenario_num(w, "nodes", 1);
	f.room.want = (struct td_pool_want){.cpus = 1, .gres = {td_scenario_num(w, "gpu", 1)}};
	f.waiter = td_scenario_num(w, "job", 31);
	f.wants = f.room.units * f.room.want.gres[0];
	f.priority = td_scenario_num(w, "priority", 0);
	if (list)
		list_nodes(list, on, &n);
	for (size_t i = 0; i < n; i++)
		must[on[i]] = true;
}

// job: for whom those leave that have for=.
static void other(const struct td_scenario_words *w)
{
	assert_true(f.n_others < MOST);
	const char *list = td_scenario_val(w, "must", NULL);
	int on[MOST];
	size_t n = 0;
	int64_t gpus = td_scenario_num(w, "gpu", 1), units = td_scenario_num(w, "nodes", 1);
	if (list)
		list_nodes(list, on, &n);
	for (size_t i = 0; i < n; i++)
		theirs[f.n_others][on[i]] = true;
	others[f.n_others] = (struct td_pool_starve_other){.feasible = anywhere,
							   .must = theirs[f.n_others],
							   .want = {.cpus = 1, .gres = {gpus}},
							   .units = units,
							   .wants = units * gpus,
							   .spread = true,
							   .account = account_of(td_scenario_val(w, "account", "?")),
							   .waiter = td_scenario_num(w, "job", 0)};
	f.n_others++;
}

static bool given(const struct td_scenario_words *w)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "starve-node"))
		node(w);
	else if (!strcmp(what, "starve-account"))
		accounts[account_of(td_scenario_val(w, "name", "?"))].weight = td_scenario_num(w, "weight", 1);
	else if (!strcmp(what, "starve-job"))
		job(w);
	else if (!strcmp(what, "starves"))
		waits(w);
	else if (!strcmp(what, "starves-before"))
		other(w);
	else if (!strcmp(what, "told"))
		leave = (struct td_pool_leave){.waiter = 30,
					       .at_s = td_scenario_num(w, "at", 0),
					       .restarts = td_scenario_num(w, "restarts", 0)};
	else
		return false;
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	static const char *const names[] = {"no", "slice", "share", "priority"};
	if (!strcmp(w->w[0].key, "leaves")) {
		bool still = !td_scenario_has(w, "nobody-waits");
		int64_t restarts = td_scenario_num(w, "restarts", 0), now = td_scenario_num(w, "now", 0);
		td_buf_printf(out, "leaves%s restarts=%lld now=%lld: %s", still ? "" : " nobody-waits",
			      (long long)restarts, (long long)now,
			      td_pool_leave_name(td_pool_leave(&leave, restarts, still, now)));
		return true;
	}
	if (!strcmp(w->w[0].key, "hears")) {
		const char *key = w->w[1].key, *value = td_scenario_val(w, key, "");
		td_auto_free char *comment = td_asprintf("%s=%s", key, value);
		int64_t now = td_scenario_num(w, "now", 0);
		struct td_pool_leave_signal g = {0};
		bool is = td_pool_leave_signal(comment, &g) && td_pool_leave_signal_now(&g, &leave, now);
		td_buf_printf(out, "hears %s now=%lld: %s%s", comment, (long long)now, is ? g.name : "nothing",
			      is && g.batch ? " to its script" : "");
		return true;
	}
	if (strcmp(w->w[0].key, "makes-room") != 0)
		return false;
	size_t v[TD_DEFRAG_MOST];
	enum td_pool_starve_why why[TD_DEFRAG_MOST];
	size_t n = td_pool_starve(&f, v, why);
	td_buf_puts(out, "makes-room:");
	for (size_t i = 0; i < n; i++)
		td_buf_printf(out, " %s=%s", job_names[v[i]], names[why[i]]);
	if (!n)
		td_buf_puts(out, td_pool_starve_comes(&f) ? " it-comes" : " nobody");
	return true;
}

const struct td_scenario_part td_scenario_starve = {reset, given, decide};
