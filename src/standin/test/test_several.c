// rows: B5.2 B5.5
// The pure parts of the test of several nodes before a job: who is to blame, who leads, and the proof.
#include "standin/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct standin_pairs pairs(int n, const char *text)
{
	// "01+ 12-": nodes 0 and 1 did well together, 1 and 2 failed.
	struct standin_pairs p = {.n = n};
	for (const char *s = text; *s; s += s[3] ? 4 : 3) {
		int i = s[0] - '0', j = s[1] - '0';
		p.v[i][j] = p.v[j][i] = s[2] == '+' ? 1 : -1;
	}
	return p;
}

static void the_one_that_fails_with_all_is_to_blame(void **state)
{
	static const struct {
		int n;
		const char *pairs;
		int guilty, a, b;
	} table[] = {
		{3, "01- 12- 20+", 1, -1, -1},
		{4, "01- 12- 23+ 30+", 1, -1, -1},
		{4, "01+ 12+ 23- 30-", 3, -1, -1},
		{4, "01- 12+ 23+ 30+", -1, 0, 1}, // a link
		{2, "01-", -1, 0, 1},             // nobody can say which end
		{3, "01- 12- 20+", 1, -1, -1},    // 2 is a witness
		{3, "01- 12+ 20-", 0, -1, -1},
		{3, "01- 12+ 20+", -1, 0, 1},
		{3, "01+ 12+ 20+", -1, -1, -1},
		{4, "01- 12- 23- 30+", 1, -1, -1}, // two of them: one at a time
		{3, "01- 12-", 1, -1, -1},
		{3, "01-", -1, -1, -1}, // no time was left for the others
		{3, "01- 12+", 0, -1, -1},
		{3, "01- 12- 20-", -1, -1, -1}, // what lies between all of them
		{4, "01- 12- 23- 30-", -1, -1, -1},
		{4, "01- 23+", -1, -1, -1}, // neither end is known to be well
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct standin_pairs p = pairs(table[i].n, table[i].pairs);
		int a, b;
		assert_int_equal(td_standin_blame(&p, &a, &b), table[i].guilty);
		if (table[i].guilty < 0) {
			assert_int_equal(a, table[i].a);
			assert_int_equal(b, table[i].b);
		}
	}
}

static void a_job_that_was_queued_again_may_start_when_it_has_left_its_nodes(void **state)
{
	enum { LOOK = STANDIN_SOON_LOOK, SET = STANDIN_SOON_SET, DONE = STANDIN_SOON_DONE };
	static const struct {
		bool left, accepted;
		const char *state;
		long long begin; // now is 1000
		int step;
		bool left_then;
	} table[] = {
		{false, false, "RUNNING", 900, LOOK, false}, // the run that is to end
		{false, false, "CONFIGURING", 900, LOOK, false},
		{false, false, "", 0, LOOK, false}, // nothing is known yet
		{false, false, "COMPLETING", 900, LOOK, true},
		{true, false, "COMPLETING", 900, LOOK, true}, // Slurm would overwrite it
		{false, false, "PENDING", 1121, SET, true},   // for whatever reason
		{true, false, "PENDING", 1121, SET, true},
		{true, false, "PENDING", 900, SET, true}, // its clock may differ
		{true, true, "PENDING", 1121, SET, true}, // it was accepted too early
		{true, true, "PENDING", 1000, DONE, true},
		{true, true, "PENDING", 1003, DONE, true},
		{true, true, "PENDING", 1030, DONE, true}, // its clock may differ
		{true, true, "PENDING", 1031, SET, true},
		{true, true, "RUNNING", 1000, DONE, true},
		{true, false, "RUNNING", 1000, DONE, true}, // somebody else was faster
		{true, true, "CONFIGURING", 1000, DONE, true},
		{true, false, "", 0, DONE, true}, // it was cancelled
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct standin_soon s = {table[i].left, table[i].accepted};
		assert_int_equal(td_standin_soon_step(&s, table[i].state, table[i].begin, 1000), table[i].step);
		assert_int_equal(s.left, table[i].left_then);
	}
}

static void the_first_node_leads(void **state)
{
	static const char *const table[][2] = {
		{"n[0-2]", "n0"},         {"n[3,1,0]", "n3"}, {"a,b", "a"}, {"x[07-09]y,z", "x07y"},
		{"r[1-2]n[3-4]", "r1n3"}, {"alone", "alone"}, {"", ""},     {"n[", "n"}};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char first[16];
		td_standin_first_host(table[i][0], first, sizeof(first));
		assert_string_equal(first, table[i][1]);
	}
}

static void the_proof_is_hmac_sha1(void **state)
{
	char got[41];
	struct standin_key key = {.s = "Jefe", .n = 4};
	td_standin_proof(&key, "what do ya want for nothing?", got); // RFC 2202, 2
	assert_string_equal(got, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
	key.n = 80;
	memset(key.s, 0xaa, key.n); // RFC 2202, 6: a key longer than a block
	td_standin_proof(&key, "Test Using Larger Than Block-Size Key - Hash Key First", got);
	assert_string_equal(got, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_one_that_fails_with_all_is_to_blame),
		cmocka_unit_test(a_job_that_was_queued_again_may_start_when_it_has_left_its_nodes),
		cmocka_unit_test(the_first_node_leads),
		cmocka_unit_test(the_proof_is_hmac_sha1),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
