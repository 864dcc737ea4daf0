// rows: B3.7 B5.2 B5.5
// What the leader of a test of several nodes does when nodes fail it and time is short, by a clock and with nodes that
// this file has.
#include "standin/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 64, WITNESS = NODES, PROLOG_MS = 40000 };
// What is wrong with a node. AWAY: nothing comes back from it. REFUSES: it has no server. STUCK: its server takes the
// connection and does no exchange; DEAF: does nothing that it is told then; ENDS: it ends whenever it is to exchange
// data; QUITS: whenever it is told something.
enum wrong { WELL, AWAY, REFUSES, STUCK, DEAF, ENDS, QUITS };
static struct {
	int64_t now;
	int n, command_ms;
	int step_ms; // whatever a node does takes so long
	bool witness;
	enum wrong v[NODES + 1];
	int accused;          // -1: nobody
	int slow[2], slow_ms; // what lies between these two: a pair takes so long; -1: nothing
	const char *state;    // of all nodes; NULL: idle
	int left;             // so many steps later it is not wanted any more; 0: it is
	char told[160];       // the line that accuses
	int answer_ms;        // the agent says so late whether it is wanted
} world;

static int index_of(const struct standin_peer *p)
{
	return p->node[0] == 'w' ? WITNESS : (int)strtol(p->node + 1, NULL, 10);
}

static enum wrong wrong_of(const struct standin_peer *p)
{
	return world.v[index_of(p)];
}

static void wait_until(int64_t deadline)
{
	if (deadline > world.now)
		world.now = deadline;
}

int64_t td_standin_now_ms(void)
{
	return world.now;
}

int td_standin_command(char *const argv[], bool errors, int64_t deadline, char **ret, char *why, size_t n_why)
{
	if (world.now + world.command_ms > deadline) {
		wait_until(deadline);
		return -1;
	}
	world.now += world.command_ms;
	size_t len;
	FILE *f = open_memstream(ret, &len);
	for (int i = 0; i < world.n; i++)
		fprintf(f, "NodeName=n%d NodeAddr=10.0.0.%d State=%s\n", i, i,
			world.state ? world.state : "IDLE+DYNAMIC_NORM");
	if (world.witness && !argv[4])
		fputs("NodeName=w NodeAddr=10.0.0.99 State=IDLE\n", f);
	fclose(f);
	return 0;
}

bool td_standin_key_read(const char *path, struct standin_key *ret)
{
	return true;
}

bool td_standin_random(char out[33])
{
	strcpy(out, "0");
	return true;
}

void td_standin_peer_close(struct standin_peer *p)
{
	p->fd = -1;
}

// False: that takes longer.
static bool takes(int64_t ms, int64_t deadline)
{
	bool is = world.now + ms <= deadline;
	wait_until(is ? world.now + ms : deadline);
	return is;
}

int td_standin_peer_open(struct standin_peer *p, const struct standin_key *key, int64_t deadline, char *why,
			 size_t n_why)
{
	enum wrong wrong = wrong_of(p);
	p->ended = false;
	p->fd = -1;
	if (wrong == REFUSES)
		return 1;
	if (wrong == AWAY || !takes(world.step_ms, deadline)) {
		wait_until(deadline);
		return -1;
	}
	p->fd = 1;
	return 0;
}

// What comes of a thing that this node is to do, as lead.c says it. ends: its server ends then; hangs: it never does it.
static bool does(struct standin_peer *p, int64_t deadline, bool ends, bool hangs)
{
	p->ended = p->fd < 0 || ends;
	if (!p->ended && !hangs && takes(world.step_ms, deadline))
		return true;
	if (!p->ended)
		wait_until(deadline);
	td_standin_peer_close(p);
	return false;
}

const char *td_standin_peer_tell(struct standin_peer *p, int64_t deadline, const char *fmt, ...)
{
	enum wrong wrong = wrong_of(p);
	if (!strncmp(fmt, "suspect", 7)) {
		va_list ap;
		world.accused = index_of(p);
		va_start(ap, fmt);
		vsnprintf(world.told, sizeof(world.told), fmt, ap);
		va_end(ap);
	}
	return does(p, deadline, wrong == QUITS, wrong == AWAY || wrong == DEAF) ? NULL : "it did not";
}

bool td_standin_peers_ring(const struct standin_round *r)
{
	int64_t deadline = world.now + r->ms + STANDIN_SLACK_MS;
	bool well = true;
	if (r->n == 2 && world.slow_ms &&
	    ((index_of(r->v[0]) == world.slow[0] && index_of(r->v[1]) == world.slow[1]) ||
	     (index_of(r->v[0]) == world.slow[1] && index_of(r->v[1]) == world.slow[0])))
		well = takes(world.slow_ms, world.now + r->ms);
	for (int i = 0; i < r->n; i++) {
		enum wrong wrong = wrong_of(r->v[i]);
		int64_t begun = world.now;
		r->bad[i][0] = '\0';
		bool done = does(r->v[i], deadline, wrong == ENDS, wrong == AWAY || wrong == STUCK);
		if (done && i + 1 < r->n)
			world.now = begun; // they do it at once
		well = done && well;
	}
	return well;
}

static int run(int64_t deadline, const char *storage, char guilty[256])
{
	char why[256] = "";
	const struct standin_exchange x = {"17", "n[0-3]", storage, "key", 2048, deadline};
	world.accused = -1;
	guilty[0] = '\0';
	return td_standin_exchange(&x, guilty, 256, why, sizeof(why));
}

static void who_is_to_blame(void **state)
{
	static const struct {
		int n;
		bool witness;
		int bad;
		enum wrong wrong;
		int result;
	} table[] = {
		{3, false, 0, WELL, 0},     {3, false, 1, STUCK, 1},
		{3, false, 0, STUCK, 1},    {3, false, 2, AWAY, 1},
		{2, false, 1, AWAY, -1}, // or this node is cut off
		{2, true, 1, AWAY, 1},      {2, true, 1, STUCK, 1},
		{2, true, 0, STUCK, 1},     {3, false, 1, DEAF, 1},
		{3, false, 1, REFUSES, -1}, {3, false, 1, ENDS, -1}, // it restarts: no proof against its node
		{2, true, 0, ENDS, -1},     {3, false, 1, QUITS, -1},
		{64, false, 63, STUCK, 1},  {64, false, 1, STUCK, 1},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		memset(&world, 0, sizeof(world));
		world.n = table[i].n;
		world.witness = table[i].witness;
		world.v[table[i].bad] = table[i].wrong;
		char guilty[256], want[16] = "";
		if (table[i].result > 0)
			snprintf(want, sizeof(want), "n%d", table[i].bad);
		print_message("row %zu\n", i);
		assert_int_equal(run(PROLOG_MS, "/home", guilty), table[i].result);
		assert_string_equal(guilty, want);
		assert_int_equal(world.accused, table[i].result > 0 ? table[i].bad : -1);
	}
}

static void a_node_that_is_cut_off_blames_nobody(void **state)
{
	memset(&world, 0, sizeof(world));
	world.n = NODES;
	for (int i = 1; i < NODES; i++)
		world.v[i] = AWAY;
	char guilty[256];
	assert_int_equal(run(PROLOG_MS, "", guilty), -1);
	assert_true(world.now <= PROLOG_MS);
}

// However little time there is, and whatever one node does: the test ends in time, and no other node is blamed.
static void short_time_blames_nobody_who_is_well(void **state)
{
	for (int64_t deadline = 0; deadline <= 60000; deadline += 500)
		for (int wrong = AWAY; wrong <= QUITS; wrong++)
			for (int n = 2; n <= 4; n++)
				for (int bad = 0; bad < n; bad++)
					for (int ms = 0; ms <= 2500; ms += 500) {
						memset(&world, 0, sizeof(world));
						world.n = n;
						world.witness = n == 2;
						world.command_ms = world.step_ms = ms;
						world.v[bad] = (enum wrong)wrong;
						char guilty[256];
						int r = run(deadline, "/home", guilty);
						assert_true(r != 0);
						assert_true(world.now <= deadline);
						if (r > 0)
							assert_int_equal(guilty[1] - '0', bad);
					}
}

static bool wanted(void *ctx)
{
	world.now += world.answer_ms;
	return !world.left || --world.left;
}

static enum standin_idle_end idle(int n, double least, int percent, struct standin_idle_said *ret)
{
	const struct standin_idle x = {"n0,n1,n2,n3", "n0", "key", 16384, least, percent, wanted, NULL, 55000};
	world.n = n;
	world.step_ms = 10;
	world.accused = -1;
	world.told[0] = '\0';
	world.now = 0;
	return td_standin_idle(&x, ret);
}

static void a_slow_link_of_idle_nodes_is_found(void **state)
{
	struct standin_idle_said s;
	memset(&world, 0, sizeof(world));
	assert_int_equal(idle(4, 0, 50, &s), STANDIN_IDLE_PASSED);
	assert_true(world.accused < 0 && s.mbps > 0 && *s.a && !*s.node);

	// 16 MiB in 20 ms are 838.9 MB/s, in 420 ms 39.9.
	world.slow[0] = 1;
	world.slow[1] = 2;
	world.slow_ms = 400;
	assert_int_equal(idle(4, 0, 0, &s), STANDIN_IDLE_PASSED); // nobody has said what is too slow
	assert_true(!strcmp(s.a, "n1") && !strcmp(s.b, "n2") && s.mbps < 50);
	assert_int_equal(idle(4, 0, 50, &s), STANDIN_IDLE_FAILED);
	assert_string_equal(s.node, "n2");
	assert_string_equal(s.partner, "n1");
	assert_int_equal(world.accused, 2);
	// Whom it was with, and what it has to do to be well again: half of what the others do.
	assert_non_null(strstr(world.told, "suspect 0 10.0.0.1 =16384:"));
	assert_non_null(strstr(world.told, "MB/s with n1 are less than"));
	assert_int_equal(idle(2, 100, 0, &s), STANDIN_IDLE_PASSED); // these two have another link
	world.slow[0] = 0;
	world.slow[1] = 1;
	assert_int_equal(idle(2, 100, 0, &s), STANDIN_IDLE_FAILED);
	assert_true(!strcmp(s.node, "n1") && !strcmp(s.partner, "n0"));
	world.slow_ms = 60000; // it never ends
	assert_int_equal(idle(4, 0, 50, &s), STANDIN_IDLE_FAILED);
	assert_true(!strcmp(s.node, "n1") && strstr(s.why, "no data with n0") && world.now <= 55000);
	world.slow_ms = 0;
	world.v[3] = STUCK;
	assert_int_equal(idle(4, 0, 50, &s), STANDIN_IDLE_FAILED);
	assert_string_equal(s.node, "n3");
}

// Nor are the nodes slow, or away, because of it.
static void an_agent_that_answers_late_blames_nobody(void **state)
{
	struct standin_idle_said s;
	memset(&world, 0, sizeof(world));
	world.answer_ms = 400;
	assert_int_equal(idle(4, 500, 50, &s), STANDIN_IDLE_PASSED);
	assert_true(s.mbps > 800 && world.accused < 0);
	world.answer_ms = 4500;
	assert_true(idle(4, 500, 50, &s) != STANDIN_IDLE_FAILED && world.accused < 0 && world.now <= 55000);
}

// Whoever comes, and whenever: nobody is blamed then.
static void work_that_comes_ends_it_and_blames_nobody(void **state)
{
	struct standin_idle_said s;
	for (const char **v = (const char *[]){"MIXED", "IDLE+PLANNED", "ALLOCATED", "IDLE+DRAIN", "IDLE+MAINTENANCE",
					       "IDLE*", NULL};
	     *v; v++) {
		memset(&world, 0, sizeof(world));
		world.state = *v;
		assert_int_equal(idle(3, 0, 50, &s), STANDIN_IDLE_ENDED);
		assert_true(world.accused < 0);
	}
	for (int left = 1; left < 12; left++) {
		memset(&world, 0, sizeof(world));
		world.slow[1] = 1;
		world.slow_ms = 400;
		world.left = left;
		enum standin_idle_end end = idle(3, 100, 0, &s);
		assert_int_equal(end, world.left ? STANDIN_IDLE_FAILED : STANDIN_IDLE_ENDED);
		assert_true(world.left ? world.accused > 0 : world.accused < 0);
	}
}

static void what_is_slow_follows_from_the_median_of_the_pairs(void **state)
{
	const double v[] = {100, 90, 10, -1, 0, 110};
	assert_true(td_standin_slow_below(v, 6, 50, 0) == 47.5);
	assert_true(td_standin_slow_below(v, 6, 50, 60) == 60);
	assert_true(td_standin_slow_below(v, 2, 50, 0) == 0); // two do not say which one is slow
	assert_true(td_standin_slow_below(v, 6, 0, 0) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_to_blame),
		cmocka_unit_test(a_node_that_is_cut_off_blames_nobody),
		cmocka_unit_test(a_slow_link_of_idle_nodes_is_found),
		cmocka_unit_test(an_agent_that_answers_late_blames_nobody),
		cmocka_unit_test(work_that_comes_ends_it_and_blames_nobody),
		cmocka_unit_test(what_is_slow_follows_from_the_median_of_the_pairs),
		cmocka_unit_test(short_time_blames_nobody_who_is_well),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
