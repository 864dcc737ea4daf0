// Federation: which member gets a run, when it waits, and when it goes elsewhere; and that it begins once at most,
// whatever is cut when.
// rows: C6.2 C6.3 C6.4
#include "pool/federation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void list(struct td_strv *l, const char *words)
{
	td_strv_done(l);
	td_strv_split(l, words, ' ');
}

static struct td_fed_member members[3];
static struct td_fed_rule rules[2];
static struct td_strv refused, types, partitions;
static struct td_fed_field field;
static struct td_fed_ask ask;

static int done(void **state)
{
	for (size_t i = 0; i < 2; i++) {
		td_strv_done(&rules[i].teams);
		td_strv_done(&rules[i].users);
		td_strv_done(&rules[i].gpu_types);
		td_strv_done(&rules[i].partitions);
		td_strv_done(&rules[i].members);
		td_strv_done(&rules[i].otherwise);
	}
	td_strv_done(&refused);
	td_strv_done(&types);
	td_strv_done(&partitions);
	return 0;
}

static int fresh(void **state)
{
	static const char *const names[] = {"east", "west", "cloud"};
	for (size_t i = 0; i < 3; i++)
		members[i] = (struct td_fed_member){.name = names[i], .weight = 1, .reached = true};
	done(NULL);
	rules[0] = (struct td_fed_rule){.name = "big", .min_gpus = 4, .max_gpus = -1};
	rules[1] = (struct td_fed_rule){.name = "ml", .max_gpus = 3};
	list(&rules[0].members, "west");
	list(&rules[1].teams, "ml");
	list(&rules[1].members, "east west");
	list(&rules[1].otherwise, "cloud");
	field = (struct td_fed_field){
		.rules = rules, .n_rules = 2, .members = members, .n_members = 3, .refused = &refused};
	ask = (struct td_fed_ask){
		.user = "ann", .team = "ml", .gpus = 1, .gpu_types = &types, .partitions = &partitions};
	return 0;
}

static void goes(const char *to, const char *rule, const char *words)
{
	struct td_fed_choice c;
	td_fed_choose(&field, &ask, &c);
	if (to) {
		assert_int_equal(c.where, TD_FED_GO);
		assert_string_equal(members[c.member].name, to);
	}
	if (rule)
		assert_string_equal(c.rule, rule);
	else if (to)
		assert_null(c.rule);
	if (words && !strstr(c.why, words))
		fail_msg("\"%s\" has no \"%s\"", c.why, words);
	free(c.why);
}

static void stays(enum td_fed_where where, const char *words)
{
	struct td_fed_choice c;
	td_fed_choose(&field, &ask, &c);
	assert_int_equal(c.where, where);
	if (words && !strstr(c.why, words))
		fail_msg("\"%s\" has no \"%s\"", c.why, words);
	free(c.why);
}

static void the_first_rule_that_fits(void **state)
{
	goes("east", "ml", "rule ml names east, west, otherwise cloud");
	ask.gpus = 8;
	goes("west", "big", NULL);
	ask.gpus = 3; // neither rule's team
	ask.team = "other";
	goes("east", NULL, "no rule is about it");
	list(&rules[0].users, "bob");
	list(&rules[0].gpu_types, "h100");
	rules[0].min_gpus = 0;
	ask.user = "bob";
	goes("east", NULL, NULL); // one list of two
	list(&types, "a100");     // of its first step
	goes("east", NULL, NULL);
	list(&types, "a100 h100");
	goes("west", "big", NULL);
	list(&rules[0].partitions, "gpu");
	goes("east", NULL, NULL);
	list(&partitions, "cpu gpu");
	goes("west", "big", NULL);
}

static void weights_and_shares(void **state)
{
	int got[3] = {0};
	members[1].weight = 3;
	for (int i = 0; i < 40; i++) { // what is given is there from then on
		struct td_fed_choice c;
		td_fed_choose(&field, &ask, &c);
		got[c.member]++;
		members[c.member].live++;
		free(c.why);
	}
	assert_int_equal(got[0], 10);
	assert_int_equal(got[1], 30);
	assert_int_equal(got[2], 0);
	// Whoever has used much of the team's share comes after, however few runs are there.
	members[1].used = 90;
	members[0].used = 29;
	goes("east", "ml", "most left");
	members[0].used = 31;
	goes("west", "ml", NULL);
}

static void who_asks_for_a_session_goes_where_it_is_free(void **state)
{
	members[1].live = 9;
	members[0].full = true;
	goes("west", "ml", NULL);
	members[1].full = true; // then it waits as a run does
	goes("east", "ml", NULL);
}

static void members_that_do_not_answer_or_do_not_take_it(void **state)
{
	members[0].reached = false;
	goes("west", "ml", NULL);
	list(&refused, "west");
	goes("cloud", "ml", "the first ones cannot be reached");
	members[2].reached = false;
	stays(TD_FED_WAIT, "can be reached"); // east may take it later
	list(&refused, "west east");
	stays(TD_FED_WAIT, NULL);
	list(&refused, "west east cloud");
	stays(TD_FED_NOWHERE, "none of these takes it");
}

static void who_insists(void **state)
{
	ask.insists = "cloud"; // named by the rule, as its last
	goes("cloud", "ml", "asked for by name");
	ask.gpus = 8;
	stays(TD_FED_FORBIDDEN, "rule big sends such runs to west");
	ask.insists = "moon";
	stays(TD_FED_FORBIDDEN, "there is no such member: name one of west");
	ask.team = "other";
	ask.gpus = 0;
	stays(TD_FED_FORBIDDEN, "east, west, cloud");
	ask.insists = "east";
	goes("east", NULL, NULL);
	members[0].reached = false;
	stays(TD_FED_WAIT, "cannot be reached"); // and not elsewhere
	list(&refused, "east");
	stays(TD_FED_NOWHERE, NULL);
}

static void teams(void **state)
{
	struct td_fed_team t[2] = {{.name = "ml"}, {.name = "bio"}};
	list(&t[0].accounts, "ml ml-guests");
	list(&t[0].users, "ann");
	list(&t[1].accounts, "bio");
	list(&t[1].users, "ann bob");
	assert_string_equal(td_fed_team_of(t, 2, "ann", NULL), "ml");
	assert_string_equal(td_fed_team_of(t, 2, "ann", "bio"), "bio");
	assert_string_equal(td_fed_team_of(t, 2, "eve", "ml-guests"), "ml");
	assert_string_equal(td_fed_team_of(t, 2, "bob", "other"), "bio");
	assert_null(td_fed_team_of(t, 2, "eve", "other"));
	for (size_t i = 0; i < 2; i++) {
		td_strv_done(&t[i].accounts);
		td_strv_done(&t[i].users);
	}
}

static void over(const struct td_fed_limit *l, struct td_fed_used u, int64_t gpus, const char *words)
{
	char *why = td_fed_over(l, &u, gpus);
	if (!words)
		assert_null(why);
	else if (!why || !strstr(why, words))
		fail_msg("\"%s\" has no \"%s\"", why ? why : "", words);
	free(why);
}

static void limits(void **state)
{
	const struct td_fed_limit l = {.team = "ml", .gpus = 8, .gpu_hours = 100, .days = 30},
				  free_ = {.gpus = -1, .gpu_hours = -1};
	over(&l, (struct td_fed_used){6, 99.9, true}, 2, NULL);
	over(&l, (struct td_fed_used){6, 99.9, true}, 3,
	     "team ml holds 6 of 8 GPUs over all members, and this asks for 3");
	over(&l, (struct td_fed_used){0, 100, true}, 1, "has used 100.0 of 100 GPU hours of 30 days");
	over(&l, (struct td_fed_used){9, 200, true}, 0, NULL); // without a GPU
	over(&l, (struct td_fed_used){0, 0, false}, 1, "not every member has said");
	over(NULL, (struct td_fed_used){9, 200, false}, 9, NULL);
	over(&free_, (struct td_fed_used){9, 200, false}, 9, NULL);
}

static void said(char *why, const char *words)
{
	if (!words)
		assert_null(why);
	else if (!why || !strstr(why, words))
		fail_msg("\"%s\" has no \"%s\"", why ? why : "", words);
	free(why);
}

static void limits_of_one(void **state)
{
	const struct td_fed_limit l = {.team = "ml", .gpus = -1, .gpu_hours = -1, .user_gpus = 4, .user_sessions = 2},
				  free_ = {.gpus = -1, .gpu_hours = -1, .user_gpus = -1, .user_sessions = -1};
	struct td_fed_sessions s = {.n = 1, .waits = 1, .asks = 3};
	said(td_fed_over_one(&l, "ann", &(struct td_fed_used){3, 0, true}, 1), NULL);
	said(td_fed_over_one(&l, "ann", &(struct td_fed_used){3, 0, true}, 2),
	     "ann holds 3 of 4 GPUs that one of team ml may hold over all members, and this asks for 2");
	said(td_fed_over_one(&l, "ann", &(struct td_fed_used){9, 0, true}, 0), NULL); // without a GPU
	said(td_fed_over_one(&l, "ann", &(struct td_fed_used){0, 0, false}, 1), "not every member has said");
	said(td_fed_over_one(&free_, "ann", &(struct td_fed_used){9, 0, false}, 9), NULL);
	said(td_fed_sessions_over(&l, "ann", &s), NULL);
	s.n = 2;
	said(td_fed_sessions_over(&l, "ann", &s), "ann has 2 of 2 sessions that one of team ml may have");
	said(td_fed_sessions_over(&free_, "ann", &s), NULL);
	said(td_fed_sessions_over(NULL, "ann", &s), NULL);
	// Jobs of members' own count; one that has just started is in no list of jobs yet; none counts twice.
	assert_int_equal(td_fed_holds_one(&s, 7, 0), 8);
	assert_int_equal(td_fed_holds_one(&s, 0, 2), 5);
	assert_int_equal(td_fed_holds_one(&s, 4, 2), 5);
}

static unsigned long long seed;
static int pick(int n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int)((seed >> 33) % (unsigned long long)n);
}

static void what_steps_hold_at_once(void **state)
{
	static const size_t zero[] = {0}, one[] = {1}, both[] = {1, 2}, two[] = {2};
	const struct td_fed_step apart[] = {{.gpus = 8}, {.gpus = 8}, {.gpus = 1}},
				 line[] = {{.gpus = 2}, {8, zero, 1}, {4, one, 1}},
				 split[] = {{.gpus = 8}, {4, zero, 1}, {4, zero, 1}, {1, both, 2}},
				 // The first and what comes after the second can be there together.
		cross[] = {{.gpus = 3}, {.gpus = 1}, {5, one, 1}},
				 // What flows has to give way: 0 → 2, 1 → 2 and 1 → 3.
		turn[] = {{.gpus = 2}, {.gpus = 2}, {.gpus = 0}, {2, one, 1}, {2, zero, 1}, {2, two, 1}};
	assert_int_equal(td_fed_at_once(NULL, 0), 0);
	assert_int_equal(td_fed_at_once(apart, 3), 17);
	assert_int_equal(td_fed_at_once(line, 3), 8);
	assert_int_equal(td_fed_at_once(split, 4), 8);
	assert_int_equal(td_fed_at_once(cross, 3), 8);
	assert_int_equal(td_fed_at_once(turn, 6), 6);
	// Against each set of steps, for many small runs.
	seed = 5;
	for (int run = 0; run < 2000; run++) {
		size_t n = (size_t)pick(8), after[8][8];
		struct td_fed_step v[8] = {0};
		bool before[8][8] = {0};
		int64_t most = 0;
		for (size_t i = 0; i < n; i++) {
			v[i] = (struct td_fed_step){pick(5), after[i], 0};
			for (size_t u = 0; u < i; u++)
				if (pick(3) == 0) {
					after[i][v[i].n_after++] = u;
					for (size_t w = 0; w < 8; w++)
						before[w][i] |= w == u || before[w][u];
				}
		}
		for (unsigned set = 0; set < 1u << n; set++) {
			int64_t sum = 0;
			bool fits = true;
			for (size_t i = 0; i < n; i++) {
				sum += set >> i & 1 ? v[i].gpus : 0;
				for (size_t u = 0; u < i; u++)
					fits = fits && !((set >> i & 1) && (set >> u & 1) && before[u][i]);
			}
			most = fits && sum > most ? sum : most;
		}
		assert_int_equal(td_fed_at_once(v, n), most);
	}
}

static void its_way(void **state)
{
	struct td_fed_state s = {
		.phase = TD_FED_PLACED, .lost_after_s = 60, .phase_s = 5, .silent_s = 59, .sent = true};
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP); // silent, and not for long enough
	s.silent_s = 60;
	assert_int_equal(td_fed_next(&s), TD_FED_MOVE);
	s.seen = TD_FED_WAITS;
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP);
	s.seen = TD_FED_BEGUN;
	assert_int_equal(td_fed_next(&s), TD_FED_LET);
	s.seen = TD_FED_GAVE_UP;
	assert_int_equal(td_fed_next(&s), TD_FED_MOVE);
	s.seen = TD_FED_OVER; // cancelled there
	assert_int_equal(td_fed_next(&s), TD_FED_END);
	s.seen = TD_FED_ABSENT;
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP);
	// It was there, and ended without its consent so long ago that Slurm has forgotten it: it would wait for ever.
	s.phase_s = TD_FED_FORGOT_S - 1;
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP);
	s.phase_s = TD_FED_FORGOT_S;
	assert_int_equal(td_fed_next(&s), TD_FED_MOVE);
	s.sent = false;
	s.phase_s = TD_FED_SEND_S;
	assert_int_equal(td_fed_next(&s), TD_FED_SEND);
	s.phase_s = TD_FED_SEND_S - 1;
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP);

	s.phase = TD_FED_STARTED;
	s.silent_s = 1000000;
	for (int told = 0; told < 2; told++)
		for (int seen = TD_FED_UNREACHED; seen <= TD_FED_OVER; seen++) {
			s.told = told;
			s.seen = (enum td_fed_seen)seen;
			assert_true(td_fed_next(&s) != TD_FED_MOVE && td_fed_next(&s) != TD_FED_SEND);
			// Before it was told, what is seen may be a copy that gave up: that is no end.
			assert_true(told || td_fed_next(&s) != TD_FED_END);
		}
	s.told = false;
	s.seen = TD_FED_GAVE_UP;
	assert_int_equal(td_fed_next(&s), TD_FED_TELL);
	s.refused = true; // it gave up before
	assert_int_equal(td_fed_next(&s), TD_FED_MOVE);
	s.refused = false;
	s.told = true; // it had been let begin, and its own program ended so
	assert_int_equal(td_fed_next(&s), TD_FED_END);
	s.told = false;
	s.seen = TD_FED_BEGUN;
	assert_int_equal(td_fed_next(&s), TD_FED_TELL);
	s.told = true;
	assert_int_equal(td_fed_next(&s), TD_FED_KEEP);
	s.seen = TD_FED_OVER;
	assert_int_equal(td_fed_next(&s), TD_FED_END);
	s.phase = TD_FED_WAITING;
	assert_int_equal(td_fed_next(&s), TD_FED_PLACE);
	for (int p = TD_FED_ENDED; p <= TD_FED_CANCELLED; p++) {
		s.phase = (enum td_fed_phase)p;
		assert_int_equal(td_fed_next(&s), TD_FED_KEEP);
	}
}

// ---- whatever is cut when: a model ----
//
// Two members, two gateways of the hub that look at any time with what they read at any time, messages that arrive
// late or not at all, members that are cut. A copy begins when its member has a consent for it. The record is changed
// only as it was read.
struct record {
	int version, member, attempt;
	enum td_fed_phase phase;
	bool told;
};
struct copy {
	bool there, running, consent, began, gave_up, over, sent, looks_so;
};
enum { ATTEMPTS = 40 };

static void at_most_once(void **state)
{
	long long moved = 0, ended = 0, late_words = 0;
	for (int run = 0; run < 20000; run++) {
		struct record rec = {.phase = TD_FED_WAITING}, read[2] = {{0}};
		struct copy copies[ATTEMPTS] = {0};
		bool cut[2] = {false}, late[ATTEMPTS] = {false}; // late: a consent that is under way
		int began = 0;
		seed = (unsigned long long)run * 7919 + 1;
		for (int t = 0; t < 120 && rec.attempt < ATTEMPTS - 1; t++) {
			int g = pick(2), what = pick(8), some = 1 + pick(rec.attempt + 1);
			struct record *r = &read[g];
			if (what == 0) {
				cut[pick(2)] = pick(2);
			} else if (what == 1) {
				*r = rec;
			} else if (what == 2) { // Slurm gives some copy its devices
				struct copy *c = &copies[some];
				if (c->there && !c->running && !c->gave_up)
					c->running = true;
			} else if (what == 3) { // a job looks for its consent, or waits no longer
				struct copy *c = &copies[some];
				if (c->running && c->consent && !c->began) {
					c->began = true;
					began++;
				} else if (c->began) {
					c->over = true; // ended by the same code as who gives up, sometimes
					c->looks_so = pick(2);
				} else if (c->running && !c->consent && pick(3) == 0) {
					c->running = false;
					c->gave_up = c->looks_so = true;
				}
			} else if (what == 4) { // a message arrives late: one file is the word or the end of waiting
				if (late[some] && copies[some].there && !copies[some].gave_up)
					copies[some].consent = true;
			} else { // a gateway acts on what it has read
				struct copy *c = &copies[r->attempt];
				bool away = cut[r->member];
				struct td_fed_state s = {.phase = r->phase,
							 .told = r->told,
							 .sent = c->sent,
							 .phase_s = 100,
							 .silent_s = away ? 1000 : 0,
							 .lost_after_s = 60,
							 .seen = away          ? TD_FED_UNREACHED
								 : !c->there   ? TD_FED_ABSENT
								 : c->looks_so ? TD_FED_GAVE_UP
								 : c->over     ? TD_FED_OVER
								 : c->running  ? TD_FED_BEGUN
									       : TD_FED_WAITS};
				enum td_fed_do d = td_fed_next(&s);
				struct record next = *r;
				if (d == TD_FED_TELL && !away && c->there) {
					s.refused = c->gave_up;
					next.told = !c->gave_up && pick(4); // or the answer was lost
					c->consent = !c->gave_up;
					d = s.refused ? td_fed_next(&s) : d;
					late_words += s.refused;
				}
				if (d == TD_FED_PLACE) {
					next.phase = TD_FED_PLACED;
					next.member = pick(2);
					next.attempt++;
				} else if (d == TD_FED_LET) {
					next.phase = TD_FED_STARTED;
				} else if (d == TD_FED_MOVE) {
					next.phase = TD_FED_WAITING;
					next.told = false;
				} else if (d == TD_FED_END) {
					next.phase = TD_FED_ENDED;
					assert_true(!c->gave_up || c->began); // none is lost
				}
				if (d == TD_FED_SEND && !away)
					c->there = c->sent = true; // the same request: one copy
				if (d == TD_FED_TELL && away)
					late[r->attempt] = true;
				if (next.phase != r->phase || next.told != r->told) {
					if (rec.version != r->version)
						continue; // changed since it was read
					next.version++;
					rec = *r = next;
					moved += d == TD_FED_MOVE;
					ended += d == TD_FED_END;
					if (d == TD_FED_PLACE && pick(2))
						copies[rec.attempt].there = true;
					if (d == TD_FED_LET)
						late[rec.attempt] = true;
				}
			}
			assert_in_range(began, 0, 1);
		}
	}
	assert_true(moved > 1000 && ended > 1000 && late_words > 100); // it was about something
}

// Two gateways give runs of one team, each by records that it read some time ago, and by the promises as they are.
static void never_over_the_limit(void **state)
{
	enum { RUNS = 6, LIMIT = 5 };
	long long given = 0, refused_ = 0;
	for (int round = 0; round < 5000; round++) {
		struct line {
			enum td_fed_phase phase;
			int64_t attempt;
			int version;
		} rec[RUNS] = {{0}}, known[2][RUNS];
		struct {
			bool there;
			struct td_fed_promise p;
		} promises[RUNS] = {{0}};
		struct {
			bool on;
			int run, version;
		} act[2] = {{0}};
		int64_t holds[RUNS];
		seed = (unsigned long long)round * 104729 + 3;
		for (int i = 0; i < RUNS; i++)
			holds[i] = 1 + pick(3);
		memcpy(known[0], rec, sizeof(rec));
		memcpy(known[1], rec, sizeof(rec));
		for (int t = 0; t < 150; t++) {
			int g = pick(2), run = pick(RUNS), what = pick(6);
			if (what == 0) { // news of one record
				known[g][run] = rec[run];
			} else if (what == 1 && rec[run].phase == TD_FED_PLACED) { // it comes back, or ends
				rec[run].phase = pick(2) ? TD_FED_WAITING : TD_FED_ENDED;
				rec[run].version++;
			} else if (act[g].on) { // the second half, or the gateway dies before it
				struct line *r = &rec[act[g].run];
				act[g].on = false;
				if (pick(4) && r->version == act[g].version) {
					r->phase = TD_FED_PLACED;
					r->attempt++;
					r->version++;
					given++;
				}
			} else if (known[g][run].phase == TD_FED_WAITING) {
				int64_t sum = 0;
				for (int i = 0; i < RUNS; i++) {
					const struct line *k = &known[g][i];
					if (promises[i].there &&
					    td_fed_promise_over(&promises[i].p, k->phase, k->attempt))
						promises[i].there = false;
					if (k->phase == TD_FED_PLACED)
						sum += holds[i];
					else if (promises[i].there && i != run)
						sum += holds[i];
				}
				const struct td_fed_promise mine = {.attempt = known[g][run].attempt + 1};
				if (promises[run].there && !td_fed_promise_may(&promises[run].p, &mine))
					continue;
				if (sum + holds[run] > LIMIT) {
					refused_++;
					continue;
				}
				promises[run].there = true;
				promises[run].p = mine;
				act[g].on = true;
				act[g].run = run;
				act[g].version = known[g][run].version;
			}
			int64_t held = 0;
			for (int i = 0; i < RUNS; i++)
				held += rec[i].phase == TD_FED_PLACED ? holds[i] : 0;
			assert_in_range(held, 0, LIMIT);
		}
	}
	assert_true(given > 1000 && refused_ > 1000);
	assert_int_equal(td_fed_counts(4, 0), 4); // what waits there
	assert_int_equal(td_fed_counts(4, 9), 9); // a job of his own that has its name
}

// A start of a session keeps the next one of that person back, until its gateway asks no member any more for sure.
static void a_start_counts_for_its_time(void **state)
{
	const struct td_fed_start none = {NULL, 1000}, s = {"a", 1000};
	assert_false(td_fed_start_counts(&none, 1000));
	assert_true(td_fed_start_counts(&s, 1000));
	assert_true(td_fed_start_counts(&s, 999)); // of a clock that is ahead
	assert_true(td_fed_start_counts(&s, 1000 + TD_FED_START_COUNTS_S - 1));
	assert_false(td_fed_start_counts(&s, 1000 + TD_FED_START_COUNTS_S));
	assert_false(
		td_fed_start_counts(&s, 1000 - TD_FED_START_COUNTS_S)); // of no clock: it keeps nobody back for ever
	assert_true(TD_FED_START_GIVE_S + 20 < TD_FED_START_COUNTS_S);
}

static void a_session_is_promised_for_a_while(void **state)
{
	(void)state;
	const struct td_fed_promise p = {.holds = 3, .until_s = 1000 + TD_FED_SESSION_S};
	assert_int_equal(td_fed_session_promised(&p, 1000), 3);
	assert_int_equal(td_fed_session_promised(&p, 1000 + TD_FED_SESSION_S - 1), 3);
	assert_int_equal(td_fed_session_promised(&p, 1000 + TD_FED_SESSION_S), 0);
	assert_int_equal(td_fed_session_promised(&p, 995), 3); // of a clock that is behind
	assert_int_equal(td_fed_session_promised(&p, 1000 - 2 * TD_FED_SESSION_S), 0);
	const struct td_fed_promise less = {.holds = -3, .until_s = p.until_s};
	assert_int_equal(td_fed_session_promised(&less, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_rule_that_fits, fresh),
		cmocka_unit_test_setup(weights_and_shares, fresh),
		cmocka_unit_test_setup(who_asks_for_a_session_goes_where_it_is_free, fresh),
		cmocka_unit_test_setup(members_that_do_not_answer_or_do_not_take_it, fresh),
		cmocka_unit_test_setup_teardown(who_insists, fresh, done),
		cmocka_unit_test(teams),
		cmocka_unit_test(a_session_is_promised_for_a_while),
		cmocka_unit_test(limits),
		cmocka_unit_test(limits_of_one),
		cmocka_unit_test(what_steps_hold_at_once),
		cmocka_unit_test(its_way),
		cmocka_unit_test(at_most_once),
		cmocka_unit_test(never_over_the_limit),
		cmocka_unit_test(a_start_counts_for_its_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
