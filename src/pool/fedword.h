// The hub's word: what a member of a Federation is told of limits over all members, so that it holds back what is
// submitted to it directly. Pure; the hub's gateway has the facts (gateway/hub_word.c), the member's gateway keeps the word
// (gateway/member_word.c), and its operator makes limits of accounts in Slurm of it (operator/tenant_word.c).
//
// A cap is of one cell: an account of a member, or one person's association with an account. It is the limit less what
// counts for it anywhere but in that cell (accounts below it are in it), so Slurm itself is exact inside the cell. Two cells may take the same room
// between two words; the next word lowers both, and ends nothing.
#pragma once

#include "base/mem.h"

#include <stdint.h>

// ---- at the hub ----

// GPUs that jobs of a team hold at a member.
struct td_fedword_held {
	size_t member; // index
	const char *account, *user;
	int64_t gpus;
};
// A run of the team that a member has. held: of `holds`, what jobs in its name hold of the rows above.
struct td_fedword_run {
	size_t member;
	const char *user;
	int64_t holds, held;
};
struct td_fedword_facts {
	int64_t gpus, user_gpus; // the team's limit, and that of each of its people; -1: none
	bool spent;              // its hours are used up
	const struct td_fedword_held *held;
	size_t n_held;
	const struct td_fedword_run *runs;
	size_t n_runs;
	const int64_t *weights; // of the members
	size_t n_members;
};

// ---- the word about one team, for one member ----

struct td_fedword_row { // what jobs of the team hold there
	const char *account, *user;
	int64_t gpus;
};
struct td_fedword_person {
	const char *user;
	int64_t used, waits; // at all members; of runs that the member was given, what they do not hold yet
};
struct td_fedword_team {
	const char *name;
	const char *const *accounts, *const *users; // users: whose first team it is
	size_t n_accounts, n_users;
	int64_t gpus, user_gpus;   // the limits; -1: none
	int64_t used, waits;       // as of a person
	int64_t alone, user_alone; // its part of the limits by the members' weights; -1: none
	bool spent;
	const struct td_fedword_row *rows;
	size_t n_rows;
	const struct td_fedword_person *people; // who hold anything anywhere
	size_t n_people;
	const int64_t *at; // what counts at each member; of the hub only
};
// Fills what is reckoned: all but name, accounts and users. Everything lives in the arena or in the facts.
void td_fedword_reckon(struct td_arena *arena, const struct td_fedword_facts *f, size_t member,
		       struct td_fedword_team *ret);

// ---- at the member ----

struct td_fedword_below { // an account here that is below another one, in which Slurm counts what it holds
	const char *account, *parent;
};
struct td_fedword {
	const char *federation;
	const struct td_fedword_below *below;
	size_t n_below;
	const char *const *taken; // accounts of all teams: a person's jobs in one of these are not of his own team
	size_t n_taken;
	const struct td_fedword_team *teams; // those with a limit
	size_t n_teams;
	int64_t age_s; // since the hub said it
};
// When the hub has been silent for so long, a cap is no lower than the member's part of the limit by weight, so that nobody
// waits for ever for a hub that is gone.
enum { TD_FEDWORD_SILENT_S = 3600 };
enum td_fedword_why {
	TD_FEDWORD_TEAM,   // the team's GPUs
	TD_FEDWORD_PERSON, // one person's
	TD_FEDWORD_HOURS   // the team's GPU hours
};
struct td_fedword_cap {
	int64_t gpus; // -1: none
	enum td_fedword_why why;
	const struct td_fedword_team *team;
};
// The cap of an account (user NULL), or of a person in it.
struct td_fedword_cap td_fedword_cap(const struct td_fedword *w, const char *account, const char *user);

// What `tandem why` says of a job that waits by a cap.
struct td_fedword_words {
	const char *federation, *team, *user; // user NULL: the cap is the team's
	enum td_fedword_why why;
	int64_t gpus, limit, used; // the cap here; the limit and what is used over all members
	const char *at;            // "west 40, north 16"; NULL or "": unknown
	bool silent;
};
void td_fedword_say(const struct td_fedword_words *w, struct td_buf *b);
