// rows: A3.5 A5.8 F3.1 F3.2
// Which nodes of a NodeSet have a line in its status, and that deciding about many nodes stays linear.
#include "base/mem.h"
#include "base/names.h"
#include "pool/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct td_pool_policy policy = {.replicas = -1,
					     .rolling = true,
					     .max_unavailable = 1,
					     .update_force_s = -1,
					     .scale_force_s = -1,
					     .view = true,
					     .now_ms = 1000000,
					     .config_ms = 1};

// A node in service, as td_pool_nodeset_decide is given it.
static struct td_pool_member good(struct td_pool_record *r)
{
	*r = (struct td_pool_record){.address = "10.1.1.1", .reason = ""};
	return (struct td_pool_member){.name = "n",
				       .exists = true,
				       .matched = true,
				       .ready = true,
				       .pod = true,
				       .pod_ready = true,
				       .pod_current = true,
				       .pod_ip = "10.1.1.1",
				       .record = r};
}

static enum td_pool_line line(struct td_pool_member m, const struct td_pool_policy *p, struct td_pool_line_facts f)
{
	struct td_pool_set_counts k;
	struct td_pool_set_conditions c = {0};
	td_pool_nodeset_decide(&m, 1, p, &k);
	f.message = td_pool_member_message(&m, &c);
	return td_pool_line_of(&m, &f);
}

static void of_a_node_in_order_nothing_is_said(void **state)
{
	struct td_pool_record r;
	const struct td_pool_line_facts f = {.fresh = true};
	struct td_pool_member m = good(&r);
	assert_int_equal(line(m, &policy, f), TD_LINE_PLAIN);
	r.jobs = r.mixed = true;
	assert_int_equal(line(m, &policy, f), TD_LINE_PLAIN);
	m.record = NULL; // while Slurm does not answer, thousands of nodes are no news
	struct td_pool_policy blind = policy;
	blind.view = false;
	assert_int_equal(line(m, &blind, (struct td_pool_line_facts){0}), TD_LINE_PLAIN);
	m = good(&r);
	m.pod = m.pod_ready = false; // one of many that match and are not wanted
	m.record = NULL;
	struct td_pool_policy none = policy;
	none.replicas = 0;
	assert_int_equal(line(m, &none, f), TD_LINE_PLAIN);
}

static void what_is_out_of_order_is_said(void **state)
{
	struct td_pool_record r;
	const struct td_pool_line_facts f = {.fresh = true};
	struct td_pool_member m = good(&r);
	r.drain = true;
	r.reason = "bad fan";
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	r.bad = r.down = true;
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	m.record = NULL; // it does not register
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	m.pod_ready = false;
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	m.pod = m.pod_ready = false;
	m.refuse = "it has no GPU";
	m.record = NULL;
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	m.pod_current = false; // it is being replaced
	assert_int_equal(line(m, &policy, f), TD_LINE_SAYS);
	m = good(&r);
	assert_int_equal(line(m, &policy, (struct td_pool_line_facts){.fresh = true, .failed = true}), TD_LINE_SAYS);
	assert_int_equal(line(m, &policy, (struct td_pool_line_facts){.fresh = true, .old = true}), TD_LINE_SAYS);
	assert_int_equal(line(m, &policy, (struct td_pool_line_facts){.fresh = true, .devices = true}), TD_LINE_READ);
}

static void hosts_have_a_line_until_they_are_registered(void **state)
{
	struct td_pool_record r = {.address = "10.1.1.1", .reason = ""};
	struct td_pool_member m = {.name = "h", .host = true, .matched = true, .record = &r, .pod_ip = ""};
	const struct td_pool_line_facts f = {.fresh = true};
	assert_int_equal(line(m, &policy, f), TD_LINE_PLAIN);
	m.matched = false; // it is to leave, and its slurmd stays until its line is gone
	assert_int_equal(line(m, &policy, f), TD_LINE_READ);
	m.matched = true;
	m.record = NULL;
	assert_int_equal(line(m, &policy, f), TD_LINE_READ);
	struct td_pool_policy blind = policy;
	blind.view = false;
	assert_int_equal(line(m, &blind, (struct td_pool_line_facts){0}), TD_LINE_PLAIN);
	blind.config_ms = 0; // no configuration that names it is in force
	assert_int_equal(line(m, &blind, (struct td_pool_line_facts){0}), TD_LINE_READ);
}

static void a_small_set_lists_all_and_a_large_one_what_matters(void **state)
{
	enum { N = 10000 };
	td_auto_free enum td_pool_line *v = td_calloc(N, sizeof(*v));
	td_auto_free bool *show = td_calloc(N, sizeof(*show));
	assert_int_equal(td_pool_lines_choose(v, TD_POOL_LINES_ALL, show), 0);
	assert_true(show[0] && show[TD_POOL_LINES_ALL - 1]);
	assert_int_equal(td_pool_lines_choose(v, TD_POOL_LINES_ALL + 1, show), TD_POOL_LINES_ALL + 1);

	v[7] = v[5000] = TD_LINE_SAYS;
	assert_int_equal(td_pool_lines_choose(v, N, show), N - 2);
	assert_true(show[7] && show[5000] && !show[8]);

	// Where too much is to be said, what programs read is not lost.
	for (int i = 0; i < N; i++)
		v[i] = TD_LINE_SAYS;
	v[N - 1] = TD_LINE_READ;
	assert_int_equal(td_pool_lines_choose(v, N, show), N - TD_POOL_LINES_MOST);
	assert_true(show[0] && show[N - 1] && !show[N - 2]);
}

// Ten of many: those that have no pod leave first, then the last by name.
static void few_of_many_are_chosen(void **state)
{
	enum { N = 100000 };
	td_auto_free struct td_pool_member *v = td_calloc(N, sizeof(*v));
	td_auto_free struct td_pool_record *r = td_calloc(N, sizeof(*r));
	for (int i = 0; i < N; i++) {
		v[i] = good(&r[i]);
		if (i >= 20)
			v[i].pod = v[i].pod_ready = false, v[i].record = NULL;
	}
	r[15].jobs = true;
	struct td_pool_policy p = policy;
	struct td_pool_set_counts k;
	p.replicas = 10;
	td_pool_nodeset_decide(v, N, &p, &k); // with a choice of N² steps this would take minutes
	assert_int_equal(k.desired, 10);
	assert_true(v[0].keep && v[8].keep && v[15].keep && !v[9].keep && !v[16].keep && !v[N - 1].keep);
	assert_int_equal(v[9].act, TD_MEMBER_DRAIN);
	assert_int_equal(v[15].act, TD_MEMBER_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_node_in_order_nothing_is_said),
		cmocka_unit_test(what_is_out_of_order_is_said),
		cmocka_unit_test(hosts_have_a_line_until_they_are_registered),
		cmocka_unit_test(a_small_set_lists_all_and_a_large_one_what_matters),
		cmocka_unit_test(few_of_many_are_chosen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
