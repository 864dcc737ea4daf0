// The hub's word: what limits over all members leave to each account and person of one.
// rows: C6.3
#include "pool/fedword.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const accounts[] = {"vision"}, *const people[] = {"ann", "bob"};
static const int64_t weights[] = {3, 1};
static struct td_arena *arena;
static struct td_fedword_facts facts;
static struct td_fedword_team team;
static struct td_fedword word;

static int fresh(void **state)
{
	arena = td_arena_new();
	facts = (struct td_fedword_facts){.gpus = 10, .user_gpus = -1, .weights = weights, .n_members = 2};
	team = (struct td_fedword_team){.name = "vision", .accounts = accounts, .n_accounts = 1};
	word = (struct td_fedword){
		.federation = "campus", .taken = accounts, .n_taken = 1, .teams = &team, .n_teams = 1};
	return 0;
}

static int done(void **state)
{
	td_arena_free(arena);
	return 0;
}

static int64_t cap(size_t member, const char *account, const char *user)
{
	td_fedword_reckon(arena, &facts, member, &team);
	return td_fedword_cap(&word, account, user).gpus;
}

static void a_cap_is_the_limit_less_what_is_used_elsewhere(void **state)
{
	static const struct td_fedword_held held[] = {
		{0, "vision", "ann", 4}, {1, "vision", "bob", 2}, {1, "vision", "ann", 1}};
	facts.held = held;
	facts.n_held = 3;
	assert_int_equal(cap(0, "vision", NULL), 7); // 3 at the other one
	assert_int_equal(cap(1, "vision", NULL), 6);
	assert_int_equal(team.used, 7);
	assert_int_equal(team.at[0], 4);
	assert_int_equal(team.at[1], 3);
	// What one may hold does not change when he begins something there: Slurm counts that itself.
	static const struct td_fedword_held more[] = {
		{0, "vision", "ann", 7}, {1, "vision", "bob", 2}, {1, "vision", "ann", 1}};
	facts.held = more;
	assert_int_equal(cap(0, "vision", NULL), 7);
	assert_int_equal(cap(1, "vision", NULL), 3);
	// Beyond the limit nothing starts anywhere until enough has ended; nothing of what runs is meant.
	static const struct td_fedword_held over[] = {{0, "vision", "ann", 12}, {1, "vision", "bob", 3}};
	facts.held = over;
	facts.n_held = 2;
	assert_int_equal(cap(0, "vision", NULL), 7);
	assert_int_equal(cap(1, "vision", NULL), 0);
	// Of no limit, of another account, of another team's account: none.
	assert_int_equal(cap(0, "other", NULL), -1);
	facts.gpus = -1;
	assert_int_equal(cap(0, "vision", NULL), -1);
	facts.n_held = 0;
	facts.gpus = 0;
	assert_int_equal(cap(0, "vision", NULL), 0);
}

static void what_accounts_below_it_hold_is_in_the_cell(void **state)
{
	// Slurm counts in physics what physics-ml and what is below that hold, so it is not elsewhere.
	static const char *const both[] = {"physics", "physics-ml"};
	static const struct td_fedword_below below[] = {
		{"physics-ml", "physics"}, {"physics-dl", "physics-ml"}, {"round", "round"}};
	static const struct td_fedword_held held[] = {{0, "physics", "ann", 1},
						      {0, "physics-ml", "bob", 4},
						      {0, "physics-dl", "ann", 2},
						      {1, "physics", "ann", 1}};
	team.accounts = both;
	team.n_accounts = 2;
	word.below = below;
	word.n_below = 3;
	facts.held = held;
	facts.n_held = 4;
	assert_int_equal(cap(0, "physics", NULL), 9);
	assert_int_equal(cap(0, "physics-ml", NULL), 8);
	facts.user_gpus = 8;
	assert_int_equal(cap(0, "physics", "ann"), 8 - 4 + 1); // his place in an account has nothing below it
}

static void a_run_that_the_hub_gave_there_has_its_place(void **state)
{
	static const struct td_fedword_held held[] = {{0, "vision", "ann", 2}, {1, "vision", "bob", 3}};
	static const struct td_fedword_run runs[] = {{0, "ann", 6, 2}, {1, "bob", 1, 3}};
	facts.held = held;
	facts.n_held = 2;
	facts.runs = runs;
	facts.n_runs = 2;
	// It counts with all that it may hold, elsewhere from now on.
	assert_int_equal(cap(1, "vision", NULL), 4);
	assert_int_equal(team.used, 9);
	assert_int_equal(team.waits, 0);
	// At its own member it is not in its own way.
	assert_int_equal(cap(0, "vision", NULL), 7);
	assert_int_equal(team.waits, 4);
}

static void each_person_has_a_cap_of_his_own(void **state)
{
	static const struct td_fedword_held held[] = {
		{0, "vision", "ann", 1}, {1, "vision", "ann", 2}, {1, "vision", "bob", 1}};
	static const struct td_fedword_run runs[] = {{0, "ann", 1, 0}};
	facts.held = held;
	facts.n_held = 3;
	facts.runs = runs;
	facts.n_runs = 1;
	facts.user_gpus = 4;
	assert_int_equal(cap(0, "vision", "ann"), 2);
	assert_int_equal(cap(1, "vision", "ann"), 2);
	assert_int_equal(cap(0, "vision", "bob"), 3);
	assert_int_equal(cap(0, "vision", "eve"), 4); // nothing anywhere
	assert_int_equal(td_fedword_cap(&word, "vision", "bob").why, TD_FEDWORD_PERSON);
	assert_int_equal(cap(0, "vision", NULL), 10 - 5 + 1 + 1);
	facts.gpus = -1;
	assert_int_equal(cap(0, "vision", NULL), -1);
	assert_int_equal(cap(0, "vision", "ann"), 2);
}

static void who_is_listed_counts_under_any_account_of_no_team(void **state)
{
	static const char *const taken[] = {"physics"};
	static const struct td_fedword_held held[] = {
		{0, "open", "ann", 1}, {0, "lab", "ann", 2}, {1, "open", "bob", 4}};
	team = (struct td_fedword_team){.name = "vision", .users = people, .n_users = 2};
	word.taken = taken;
	facts.held = held;
	facts.n_held = 3;
	// Each association by itself: what he holds in another one of his is elsewhere.
	assert_int_equal(cap(0, "open", "ann"), 10 - 7 + 1);
	assert_int_equal(cap(0, "lab", "ann"), 10 - 7 + 2);
	assert_int_equal(cap(0, "open", NULL), -1);
	assert_int_equal(cap(0, "open", "eve"), -1);
	assert_int_equal(cap(0, "physics", "ann"), -1);
	assert_int_equal(td_fedword_cap(&word, "open", "ann").why, TD_FEDWORD_TEAM);
	facts.user_gpus = 3;
	assert_int_equal(cap(0, "open", "ann"), 1);
	assert_int_equal(td_fedword_cap(&word, "open", "ann").why, TD_FEDWORD_PERSON);
}

static void used_hours_leave_nothing(void **state)
{
	facts.spent = true;
	facts.gpus = -1;
	assert_int_equal(cap(0, "vision", NULL), 0);
	assert_int_equal(td_fedword_cap(&word, "vision", NULL).why, TD_FEDWORD_HOURS);
	word.age_s = TD_FEDWORD_SILENT_S;
	assert_int_equal(cap(0, "vision", NULL), -1);
}

static void when_the_hub_is_silent_a_member_has_its_part(void **state)
{
	static const struct td_fedword_held held[] = {{1, "vision", "bob", 10}};
	facts.held = held;
	facts.n_held = 1;
	word.age_s = TD_FEDWORD_SILENT_S - 1;
	assert_int_equal(cap(0, "vision", NULL), 0);
	word.age_s++;
	assert_int_equal(cap(0, "vision", NULL), 8); // 10 * 3 / 4, and no less
	// What was more stays.
	facts.n_held = 0;
	assert_int_equal(cap(0, "vision", NULL), 10);
	facts.gpus = -1;
	facts.user_gpus = 1;
	assert_int_equal(cap(1, "vision", "bob"), 1);
}

static void it_is_said_in_words(void **state)
{
	td_auto_buf struct td_buf b = {0};
	struct td_fedword_words w = {.federation = "campus",
				     .team = "vision",
				     .gpus = 4,
				     .limit = 64,
				     .used = 60,
				     .at = "west 40, north 20"};
	td_fedword_say(&w, &b);
	assert_string_equal(
		td_buf_str(&b),
		" The limit is that of Federation campus: team vision counts for 60 of 64 GPUs over all "
		"members (west 40, north 20), which leaves 4 for all that it holds here. There is room when "
		"jobs there or here end, or when who keeps the Federation raises limits[].gpus.");
	td_buf_reset(&b);
	w = (struct td_fedword_words){.federation = "campus",
				      .team = "vision",
				      .user = "ann",
				      .why = TD_FEDWORD_PERSON,
				      .limit = 2,
				      .used = 2,
				      .silent = true};
	td_fedword_say(&w, &b);
	assert_non_null(strstr(td_buf_str(&b), "ann of team vision counts for 2 of 2 GPUs over all members, which"));
	assert_non_null(strstr(td_buf_str(&b), "limits[].perUser.gpus; its hub has said nothing for an hour"));
	td_buf_reset(&b);
	w.why = TD_FEDWORD_HOURS;
	td_fedword_say(&w, &b);
	assert_non_null(strstr(td_buf_str(&b), "team vision has used its GPU hours over all members"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_cap_is_the_limit_less_what_is_used_elsewhere, fresh, done),
		cmocka_unit_test_setup_teardown(what_accounts_below_it_hold_is_in_the_cell, fresh, done),
		cmocka_unit_test_setup_teardown(a_run_that_the_hub_gave_there_has_its_place, fresh, done),
		cmocka_unit_test_setup_teardown(each_person_has_a_cap_of_his_own, fresh, done),
		cmocka_unit_test_setup_teardown(who_is_listed_counts_under_any_account_of_no_team, fresh, done),
		cmocka_unit_test_setup_teardown(used_hours_leave_nothing, fresh, done),
		cmocka_unit_test_setup_teardown(when_the_hub_is_silent_a_member_has_its_part, fresh, done),
		cmocka_unit_test_setup_teardown(it_is_said_in_words, fresh, done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
