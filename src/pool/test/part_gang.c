// Gangs in scenarios: "given gang …" with its members in numbers, "given job …" as for an ask, "given
// seat-node …" and "given rank …".
#include "pool/gang.h"
#include "pool/test/scenario.h"

#include <stdio.h>
#include <string.h>

static struct td_pool_gang gang;
static struct td_pool_job job;
static struct td_pool_gang_part parts[8];
static struct td_pool_gang_place places[8];
static struct td_pool_node nodes[8];
static struct td_pool_gang_rank ranks[8];
static struct td_pool_want one;
static size_t n_parts, n_ranks, size;

static void reset(void)
{
	n_parts = n_ranks = 0;
	memset(&one, 0, sizeof(one));
	gang = (struct td_pool_gang){0};
	job = (struct td_pool_job){0};
}

static bool given(const struct td_scenario_words *w)
{
	static const char *const know[] = {"none", "unsure", "gone", "read"}, *const is[] = {"unknown",  "pending",
											     "starting", "running",
											     "lost",     "ended"},
				 *const losses[] = {"fail", "restart", "replace"};
	const char *what = w->w[0].key;
	if (!strcmp(what, "gang")) {
		gang = (struct td_pool_gang){
			.uid = "g1",
			.size = td_scenario_num(w, "size", 3),
			.waiting = td_scenario_num(w, "waiting", 0),
			.bound = td_scenario_num(w, "bound", 0),
			.leaving = td_scenario_num(w, "leaving", 0),
			.succeeded = td_scenario_num(w, "succeeded", 0),
			.failed = td_scenario_num(w, "failed", 0),
			.on_loss = (enum td_pool_gang_loss)td_scenario_choose(w, losses, 3, 0),
			.refused = td_scenario_has(w, "refused"),
			.fits_now = td_scenario_has(w, "fits-now"),
			.fenced = td_scenario_has(w, "fenced"),
			.short_of = td_scenario_has(w, "short"),
			.waited = td_scenario_has(w, "waited"),
			.lost_state = td_scenario_has(w, "lost-state"),
			.nodes_fit = !td_scenario_has(w, "node-unfit"),
			.late = td_scenario_has(w, "late"),
			.differs = td_scenario_has(w, "differs"),
			.grant = {.job = td_scenario_num(w, "job", 7), .start = td_scenario_num(w, "start", 100)}};
		job = (struct td_pool_job){.know = TD_JOB_NONE};
	} else if (!strcmp(what, "gang-job")) {
		job = (struct td_pool_job){.know = (enum td_job_know)td_scenario_choose(w, know, 4, TD_JOB_READ),
					   .is = (enum td_job_is)td_scenario_choose(w, is, 6, TD_IS_UNKNOWN),
					   .ours = !td_scenario_has(w, "foreign"),
					   .cancelled = td_scenario_has(w, "cancelled"),
					   .started = td_scenario_has(w, "started"),
					   .warned = td_scenario_has(w, "warned"),
					   .same_spec = !td_scenario_has(w, "stale"),
					   .grant = {.job = td_scenario_num(w, "job", 7),
						     .start = td_scenario_num(w, "start", 100),
						     .ask = "g1"}};
	} else if (!strcmp(what, "each")) {
		one = (struct td_pool_want){.cpus = td_scenario_num(w, "cpus", 1),
					    .memory_mb = td_scenario_num(w, "memory", 1),
					    .gres = {td_scenario_num(w, "gpu", 0)},
					    .exclusive = td_scenario_has(w, "exclusive"),
					    .alone = td_scenario_has(w, "alone"),
					    .nodes = td_scenario_num(w, "nodes", 0)};
		size = (size_t)td_scenario_num(w, "members", 1);
		assert_in_range(size, 1, 8);
	} else if (!strcmp(what, "seat-node")) {
		assert_in_range(n_parts, 0, 7);
		places[n_parts] = (struct td_pool_gang_place){.name = td_scenario_val(w, "name", "?"),
							      .block = td_scenario_val(w, "block", NULL),
							      .rack = td_scenario_val(w, "rack", NULL)};
		parts[n_parts] = (struct td_pool_gang_part){.cpus = td_scenario_num(w, "cpus", 8),
							    .gres = {td_scenario_num(w, "gpu", 0)}};
		nodes[n_parts] = (struct td_pool_node){.name = places[n_parts].name,
						       .feasible = !td_scenario_has(w, "unfit"),
						       .usable = !td_scenario_has(w, "unusable"),
						       .cpus = td_scenario_num(w, "cpus", 8),
						       .memory_mb = 1000,
						       .gres = {td_scenario_num(w, "gpu", 0)},
						       .used_cpus = td_scenario_num(w, "used-cpus", 0),
						       .used_gres = {td_scenario_num(w, "used-gpu", 0)}};
		n_parts++;
	} else if (!strcmp(what, "rank")) {
		assert_in_range(n_ranks, 0, 7);
		ranks[n_ranks++] = (struct td_pool_gang_rank){.fixed = td_scenario_num(w, "index", -1),
							      .rank = td_scenario_num(w, "has", -1)};
	} else {
		return false;
	}
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	static const char *const kinds[TD_POOL_KINDS] = {"gpu"};
	const char *what = w->w[0].key;
	if (!strcmp(what, "gang")) {
		struct td_pool_step st = td_pool_reconcile_gang(&gang, &job);
		td_buf_printf(out, "gang %s: %s", td_pool_do_name(st.what), st.why);
	} else if (!strcmp(what, "seats")) {
		size_t order[8];
		struct td_pool_gang_part sorted[8];
		struct td_pool_gang_seat seats[8];
		td_pool_gang_order(places, n_parts, order);
		for (size_t i = 0; i < n_parts; i++)
			sorted[i] = parts[order[i]];
		bool ok = td_pool_gang_deal(sorted, n_parts, &one, size, seats);
		td_buf_puts(out, ok ? "seats" : "seats none");
		for (size_t i = 0; ok && i < size; i++)
			td_buf_printf(out, " %s:%d/%d", places[order[seats[i].part]].name, (int)seats[i].slot,
				      (int)seats[i].of);
	} else if (!strcmp(what, "gang-now")) {
		td_buf_printf(out, "gang-now %s",
			      td_pool_gang_fits_now(nodes, n_parts, &one, (int64_t)size) ? "yes" : "no");
	} else if (!strcmp(what, "gang-ever")) {
		char why[256] = "";
		enum td_pool_fit fit =
			td_pool_gang_fits_ever(nodes, n_parts, &one, (int64_t)size, kinds, why, sizeof(why));
		td_buf_printf(out, "gang-ever %s%s", fit == TD_FIT_SOME_DAY ? "yes" : "no: ", why);
	} else if (!strcmp(what, "gang-fewest")) {
		td_buf_printf(out, "gang-fewest %d", (int)td_pool_gang_fewest(nodes, n_parts, &one, (int64_t)size));
	} else if (!strcmp(what, "ranks")) {
		bool ok = td_pool_gang_ranks(ranks, n_ranks, size);
		td_buf_puts(out, ok ? "ranks" : "ranks none");
		for (size_t i = 0; ok && i < n_ranks; i++)
			td_buf_printf(out, " %d", (int)ranks[i].rank);
	} else {
		return false;
	}
	return true;
}

const struct td_scenario_part td_scenario_gang = {reset, given, decide};
