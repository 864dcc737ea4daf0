// Roles of a gang in scenarios: "given role …" for each, in their order.
#include "pool/roles.h"
#include "pool/test/scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct td_pool_role roles[TD_POOL_ROLES];
static char names[TD_POOL_ROLES][32];
static size_t n;

static void reset(void)
{
	n = 0;
}

static bool given(const struct td_scenario_words *w)
{
	if (strcmp(w->w[0].key, "role") != 0)
		return false;
	assert_in_range(n, 0, TD_POOL_ROLES - 1);
	snprintf(names[n], sizeof(names[n]), "%s", td_scenario_val(w, "name", "?"));
	roles[n++] = (struct td_pool_role){.members = td_scenario_num(w, "members", 1),
					   .want = {.cpus = td_scenario_num(w, "cpus", 1),
						    .memory_mb = td_scenario_num(w, "memory", 1),
						    .gres = {td_scenario_num(w, "gpu", 0)}}};
	return true;
}

static void say_ways(struct td_buf *out)
{
	struct td_pool_bundle ways[TD_POOL_ROLES + 1];
	size_t m = td_pool_roles_bundle(roles, n, ways);
	td_buf_puts(out, m ? "ways" : "ways none");
	for (size_t i = 0; i < m; i++) {
		const struct td_pool_bundle *b = &ways[i];
		td_buf_printf(out, " %" PRId64 "x%" PRId64 "cpu/%" PRId64 "mb/%" PRId64 "gpu", b->tasks, b->each.cpus,
			      b->each.memory_mb, b->each.gres[0]);
		for (size_t k = 0; k < n; k++)
			if (b->riders[k])
				td_buf_printf(out, " %s+%" PRId64, names[k], b->riders[k]);
	}
}

// Every member rides in a task that there is, and no CPU of a task is two members'.
static void check(const struct td_pool_bundle *b)
{
	for (int64_t task = 0; task < b->tasks; task++) {
		uint64_t taken = 0;
		for (size_t k = 0; k < n; k++)
			for (int64_t i = 0; i < roles[k].members; i++) {
				struct td_pool_ride r = td_pool_roles_ride(roles, n, b, k, i);
				assert_in_range(r.task, 0, b->tasks - 1);
				assert_in_range(r.before + r.mine, 1, r.all);
				assert_in_range(r.all, 1, b->each.cpus);
				for (int64_t c = r.before; r.task == task && c < r.before + r.mine; c++) {
					assert_false(taken >> c & 1);
					taken |= UINT64_C(1) << c;
				}
			}
	}
}

static void say_rides(const struct td_scenario_words *w, struct td_buf *out, bool cores)
{
	struct td_pool_bundle ways[TD_POOL_ROLES + 1];
	size_t m = td_pool_roles_bundle(roles, n, ways);
	for (size_t i = 0; i < m; i++)
		check(&ways[i]);
	int64_t from = td_scenario_num(w, "from", 0), to = td_scenario_num(w, "to", 0);
	if (cores)
		td_buf_printf(out, "cores from=%" PRId64 " to=%" PRId64, from, to);
	else
		td_buf_puts(out, "rides");
	for (size_t k = 0; m && k < n; k++)
		for (int64_t i = 0; i < roles[k].members; i++) {
			struct td_pool_ride r = td_pool_roles_ride(roles, n, &ways[0], k, i);
			int64_t a = from, b = to;
			td_pool_roles_cores(&r, &a, &b);
			if (cores)
				td_buf_printf(out, " %s:%" PRId64 "-%" PRId64, names[k], a, b);
			else
				td_buf_printf(out, " %s:%" PRId64 ":%" PRId64 "-%" PRId64 "/%" PRId64, names[k], r.task,
					      r.before, r.before + r.mine, r.all);
		}
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "ways"))
		say_ways(out);
	else if (!strcmp(what, "rides") || !strcmp(what, "cores"))
		say_rides(w, out, !strcmp(what, "cores"));
	else
		return false;
	return true;
}

const struct td_scenario_part td_scenario_roles = {reset, given, decide};
