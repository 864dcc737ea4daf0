// Scenarios of GPUs that are cut because somebody waits for a part, and made whole again.
// rows: D2.5
#include "pool/recut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct td_cut_kind h100[] = {
	{"1g.10gb", 1, 0x7f, 7}, {"2g.20gb", 2, 0x15, 3}, {"3g.40gb", 4, 0x11, 2}, {"7g.80gb", 8, 0x01, 1}};
enum { KINDS = 4, NODES = 4, MOST = 8, NOW = 100000 };

// Nodes of two GPUs each in one NodeSet, all idle for long; each test changes what it is about.
struct world {
	struct td_recut_node nodes[NODES];
	struct td_recut_set sets[2];
	struct td_recut_waiter waiters[MOST];
	struct td_recut f;
	bool all[NODES], none[NODES];
	enum td_recut_why why[MOST];
	size_t at[MOST];
	struct td_recut_plan plan;
};

static void begin(struct world *w, size_t n)
{
	static const char *const names[NODES] = {"n0", "n1", "n2", "n3"};
	*w = (struct world){
		.sets = {{.keep_whole = 1, .idle_s = 600, .pause_s = 300}, {.idle_s = 600, .pause_s = 300}}};
	for (size_t i = 0; i < NODES; i++) {
		w->all[i] = true;
		w->nodes[i] = (struct td_recut_node){.name = names[i],
						     .serves = true,
						     .idle = true,
						     .idle_s = NOW - 10000,
						     .kinds = h100,
						     .n_kinds = KINDS,
						     .gpus = {{.gpu = 0}, {.gpu = 1}},
						     .n_gpus = 2};
	}
	w->f = (struct td_recut){
		.nodes = w->nodes, .n = n, .sets = w->sets, .n_sets = 2, .waiters = w->waiters, .now_s = NOW};
}

static void waits(struct world *w, const char *kind, int64_t n)
{
	w->waiters[w->f.n_waiters++] =
		(struct td_recut_waiter){.kind = kind, .n = n, .since_s = NOW - 20, .may = w->all};
}

static void is_cut(struct world *w, size_t node, size_t gpu, const char *kind, size_t n)
{
	w->nodes[node].gpus[gpu].n = n;
	for (size_t i = 0; i < n; i++)
		w->nodes[node].gpus[gpu].parts[i] = kind;
}

// "n0 gpu1: 1g.10gb*7", "n0 all: whole, jobs"; "-": nothing is done.
static const char *decides(struct world *w)
{
	static char text[256];
	if (!td_pool_recut(&w->f, w->why, w->at, &w->plan))
		return "-";
	size_t n = (size_t)snprintf(text, sizeof(text), "%s ", w->nodes[w->plan.node].name);
	n += (size_t)(w->plan.gpu < 0 ? snprintf(text + n, sizeof(text) - n, "all:")
				      : snprintf(text + n, sizeof(text) - n, "gpu%d:", w->plan.gpu));
	for (size_t i = 0, k; i < w->plan.n_parts; i = k) {
		for (k = i; k < w->plan.n_parts && !strcmp(w->plan.parts[k], w->plan.parts[i]);)
			k++;
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s*%zu", w->plan.parts[i], k - i);
	}
	if (!w->plan.n_parts)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " whole");
	if (w->plan.jobs)
		snprintf(text + n, sizeof(text) - n, ", jobs");
	return text;
}

static void a_gpu_is_cut_for_one_who_waits(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 2);
	assert_string_equal(decides(&w), "-");
	waits(&w, "1g.10gb", 1);
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	assert_int_equal(w.why[0], TD_RECUT_CUTS);
	assert_int_equal(w.at[0], 0);
	// What others after him want comes along.
	waits(&w, "3g.40gb", 1);
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*1 3g.40gb*1 1g.10gb*3");
	// Such parts are free: he waits for something else.
	w.f.n_waiters = 1;
	w.waiters[0].served = true;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_FREE);
	// Several on one node.
	w.waiters[0].served = false;
	w.waiters[0].n = 7;
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	w.waiters[0].n = 8;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_MANY);
}

// Parts are kept for nobody who can never have as many as he wants.
static void who_cannot_be_served_keeps_nothing(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 1);
	is_cut(&w, 0, 0, "1g.10gb", 7);
	waits(&w, "1g.10gb", 50);
	assert_string_equal(decides(&w), "n0 all: whole"); // nobody has them
	waits(&w, NULL, 2);
	assert_string_equal(decides(&w), "n0 gpu0: whole"); // who waits behind him for whole ones
	w.f.n_waiters = 1;
	waits(&w, "7g.80gb", 1);
	assert_string_equal(decides(&w), "n0 gpu0: 7g.80gb*1");
	// Both GPUs together have what this one wants, but one of them stays whole.
	w.waiters[0].n = 14;
	assert_string_equal(decides(&w), "n0 gpu0: 7g.80gb*1");
	w.sets[0].keep_whole = 0;
	assert_string_equal(decides(&w), "n0 gpu1: 1g.10gb*7");
	// They are his, whoever has them now.
	w.waiters[0].n = 7;
	w.waiters[0].served = true;
	assert_string_equal(decides(&w), "n0 gpu1: 7g.80gb*1");
}

static void the_gpu_that_costs_least(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 3);
	waits(&w, "1g.10gb", 1);
	// A node that has parts already, so that others keep theirs whole.
	is_cut(&w, 1, 1, "7g.80gb", 1);
	assert_string_equal(decides(&w),
			    "n1 gpu1: 1g.10gb*7"); // one that is cut in what nobody wants, before a whole one
	waits(&w, "7g.80gb", 1);
	w.waiters[1].served = true; // he is about to take it
	assert_string_equal(decides(&w), "n1 gpu0: 1g.10gb*7");
	// Not where he may not run, nor where something is in use, nor out of service.
	w.nodes[1].idle = false;
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	w.nodes[0].serves = false;
	assert_string_equal(decides(&w), "n2 gpu0: 1g.10gb*7");
	w.all[2] = false;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_BUSY);
	w.waiters[0].may = w.none;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_NONE);
}

static void what_the_nodeset_allows(void **s)
{
	(void)s;
	struct world w;
	static const char *const only[] = {"2g.20gb"};
	begin(&w, 1);
	waits(&w, "1g.10gb", 1);
	w.sets[0].parts = only;
	w.sets[0].n_parts = 1;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_KIND);
	w.sets[0].n_parts = 0;
	w.waiters[0].kind = "1g.99gb";
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_KIND);
	// So many stay whole, of those in service.
	w.waiters[0].kind = "1g.10gb";
	w.sets[0].keep_whole = 2;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_KEEP);
	w.f.n = 2;
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	w.nodes[1].serves = false;
	assert_string_equal(decides(&w), "-");
	// Another GPU that is cut already may be cut anew all the same.
	w.f.n = 1;
	is_cut(&w, 0, 1, "3g.40gb", 2);
	assert_string_equal(decides(&w), "n0 gpu1: 1g.10gb*7");
}

static void nothing_flaps(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 3);
	w.sets[0].keep_whole = 0;
	waits(&w, "1g.10gb", 1);
	// One node of a NodeSet at a time; another NodeSet does not wait for it.
	w.nodes[1].pending = true;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_COMES);
	assert_int_equal(w.at[0], 1);
	w.nodes[2].set = 1;
	assert_string_equal(decides(&w), "n2 gpu0: 1g.10gb*7");
	// Not again before the pause is over, nor whole.
	w.nodes[1].pending = false;
	w.f.n = 1;
	w.nodes[0].cut_s = NOW - 299;
	assert_string_equal(decides(&w), "-");
	assert_int_equal(w.why[0], TD_RECUT_PAUSE);
	w.nodes[0].cut_s = NOW - 300;
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	is_cut(&w, 0, 0, "1g.10gb", 7);
	w.waiters[0].served = true;
	assert_string_equal(decides(&w), "-"); // he is about to take it, however long it has been idle
	w.f.n_waiters = 0;
	assert_string_equal(decides(&w), "-"); // they are cut for 300 s only
	w.nodes[0].cut_s = NOW - 600;
	w.nodes[0].idle_s = NOW - 599;
	assert_string_equal(decides(&w), "-"); // and were used a moment ago
	w.nodes[0].idle_s = NOW - 600;
	assert_string_equal(decides(&w), "n0 all: whole");
	w.nodes[0].idle = false;
	assert_string_equal(decides(&w), "-");
}

static void who_waits_for_whole_gpus_does_not_starve(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 1);
	w.sets[0].keep_whole = 0;
	waits(&w, NULL, 2);
	waits(&w, "1g.10gb", 1);
	assert_string_equal(decides(&w), "-"); // he has not had them yet, and is first
	assert_int_equal(w.why[1], TD_RECUT_WHOLE);
	w.waiters[0].n = 3; // more than there are: this node is not his
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");
	w.waiters[0] = w.waiters[1]; // the other way round
	w.waiters[1].kind = NULL;
	w.waiters[1].n = 2;
	assert_string_equal(decides(&w), "n0 gpu0: 1g.10gb*7");

	// They are cut, and one waits for whole ones: at once where nothing is in use and nobody before him wants a part.
	is_cut(&w, 0, 0, "1g.10gb", 7);
	w.waiters[0].served = true;
	assert_string_equal(decides(&w), "-");
	w.waiters[0] = w.waiters[1];
	w.f.n_waiters = 1;
	assert_string_equal(decides(&w), "n0 gpu0: whole");
	w.nodes[0].cut_s = NOW - 10;
	assert_string_equal(decides(&w), "-");
	w.nodes[0].cut_s = 0;
	// In use: jobs are waited for, when he has waited for long.
	w.nodes[0].idle = false;
	assert_string_equal(decides(&w), "-");
	w.waiters[0].since_s = NOW - 600;
	assert_string_equal(decides(&w), "n0 gpu0: whole, jobs");
	is_cut(&w, 0, 1, "3g.40gb", 2);
	assert_string_equal(decides(&w), "n0 all: whole, jobs");
	// A node where nothing is in use comes first.
	w.f.n = 2;
	is_cut(&w, 1, 1, "3g.40gb", 2);
	assert_string_equal(decides(&w), "n1 gpu1: whole");
	w.waiters[0].served = true;
	assert_string_equal(decides(&w), "n1 all: whole"); // that one for having been idle
}

// Somebody comes and goes for ever: a node is cut at most twice in pause and idle time together, and all are served.
static void in_the_long_run(void **s)
{
	(void)s;
	struct world w;
	begin(&w, 2);
	w.sets[0].keep_whole = 0;
	size_t cuts = 0, served = 0;
	unsigned random = 1;
	int64_t last[2] = {0}, until = 0;
	for (int64_t t = 0; t < 100000; t += 2) {
		w.f.now_s = NOW + t;
		if (!w.f.n_waiters && t >= until) {
			random = random * 1103515245u + 12345u;
			waits(&w, random >> 16 & 1 ? "1g.10gb" : NULL, 1 + (random >> 17 & 1));
			w.waiters[0].since_s = w.f.now_s;
		}
		if (w.f.n_waiters) { // Slurm
			struct td_recut_waiter *x = &w.waiters[0];
			for (size_t i = 0; i < 2 && w.f.n_waiters; i++) {
				int64_t has = 0;
				for (size_t g = 0; g < 2; g++)
					has += x->kind ? (w.nodes[i].gpus[g].n ? 7 : 0) : !w.nodes[i].gpus[g].n;
				if (has < x->n)
					continue;
				served++;
				w.nodes[i].idle_s = w.f.now_s;
				w.f.n_waiters = 0;
				until = t + (random >> 18 & 1023);
			}
		}
		if (!td_pool_recut(&w.f, w.why, w.at, &w.plan))
			continue;
		struct td_recut_node *x = &w.nodes[w.plan.node];
		cuts++;
		assert_true(w.f.now_s - last[w.plan.node] >= 300);
		x->cut_s = last[w.plan.node] = w.f.now_s;
		for (size_t g = 0; g < 2; g++)
			if (w.plan.gpu < 0 || w.plan.gpu == (int)g)
				is_cut(&w, w.plan.node, g, "1g.10gb", w.plan.n_parts ? 7 : 0);
	}
	assert_true(served > 100);
	assert_true(cuts && cuts <= 2 * 100000 / 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_is_cut_for_one_who_waits),
		cmocka_unit_test(who_cannot_be_served_keeps_nothing),
		cmocka_unit_test(the_gpu_that_costs_least),
		cmocka_unit_test(what_the_nodeset_allows),
		cmocka_unit_test(nothing_flaps),
		cmocka_unit_test(who_waits_for_whole_gpus_does_not_starve),
		cmocka_unit_test(in_the_long_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
