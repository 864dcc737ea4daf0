// Federation: which member gets a run, whether it has to wait at the hub, and when it goes elsewhere.
// Pure; gateway/hub.h has the facts and acts.
//
// None runs twice: a copy at a member does not begin until the hub lets it, and the hub lets only the
// copy that its record names. Both that and giving a run to another member are changes of one object
// that fail when it has changed since, so one of them comes too late. Neither clocks nor an answer of
// the lost member are needed for it.
// A copy that has waited for too long gives up. That and its leave to begin are one file at the member, so one of
// these comes too late, too: what was let begin goes elsewhere when its member has found that it gave up before.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_fed_member {
	const char *name;
	int64_t weight; // 1 or more
	bool reached;   // it answered when it was last asked
	bool full;      // what is asked for is not free there now; of sessions, whose people wait for them
	int64_t live;   // runs of the hub that wait or run there
	double used;    // GPU hours of the run's team there
};
struct td_fed_rule {
	const char *name;
	struct td_strv users, teams, accounts, partitions, gpu_types; // empty: all; else one of what is asked for
	int64_t min_gpus, max_gpus;                                   // max_gpus -1: no bound
	struct td_strv members, otherwise;
};
struct td_fed_team {
	const char *name;
	struct td_strv accounts, users;
};
struct td_fed_limit {
	const char *team;
	int64_t gpus, gpu_hours; // -1: none
	int64_t days;
	int64_t user_gpus, user_sessions; // of each of its people; -1: none
};
// What a run asks for. Strings may be NULL.
struct td_fed_ask {
	const char *user, *team, *account;
	const struct td_strv *partitions, *gpu_types; // of all its steps
	int64_t gpus;
	const char *insists; // the member that its owner wants
};

// The team of a user's run that names this account (NULL: none). NULL: it is of none.
const char *td_fed_team_of(const struct td_fed_team *teams, size_t n, const char *user, const char *account);

struct td_fed_field {
	const struct td_fed_rule *rules;
	size_t n_rules;
	const struct td_fed_member *members;
	size_t n_members;
	const struct td_strv *refused; // names of members that do not take this run
};
enum td_fed_where {
	TD_FED_GO,       // to `member`
	TD_FED_WAIT,     // none can be reached that may have it
	TD_FED_NOWHERE,  // none that may have it takes it
	TD_FED_FORBIDDEN // its owner wants a member that its rule does not name, or that is none
};
struct td_fed_choice {
	enum td_fed_where where;
	size_t member;    // index
	const char *rule; // NULL: none fits, so every member may have it
	char *why;        // in words; the caller frees it
};
void td_fed_choose(const struct td_fed_field *f, const struct td_fed_ask *a, struct td_fed_choice *ret);

// Of a run.
enum td_fed_phase { TD_FED_WAITING, TD_FED_PLACED, TD_FED_STARTED, TD_FED_ENDED, TD_FED_REFUSED, TD_FED_CANCELLED };
const char *td_fed_phase_name(enum td_fed_phase p);
bool td_fed_phase_parse(const char *name, enum td_fed_phase *ret);

// What a team holds and has used at all members; known: all of them have said so.
struct td_fed_used {
	int64_t gpus;
	double gpu_hours;
	bool known;
};
// A step of a run: how many GPUs it asks for, and which earlier ones it begins after.
struct td_fed_step {
	int64_t gpus;
	const size_t *after;
	size_t n_after;
};
// The most that a run's steps can hold at once: of steps none of which has to wait for another one of them.
int64_t td_fed_at_once(const struct td_fed_step *v, size_t n);
// What a run counts for, by what it asks for and what jobs hold in its name (anybody may name his job so).
int64_t td_fed_counts(int64_t holds, int64_t held);

// Promises: before a run of a team with a limit is given to a member, that is written into the one object that all
// gateways of the hub write to, as it was read. So each of them sees what the others are about to give, however old
// what it knows of the records is. A promise ends when its attempt is known to be over, which stays so.
struct td_fed_promise {
	const char *run; // the record
	const char *team;
	int64_t holds, attempt;
	int64_t until_s; // of a session, of which no record is kept: until when it counts, seconds of the epoch. 0: of a run
};
// Members have shown what a session holds when its promise has counted for so long: they are asked every five seconds.
enum { TD_FED_SESSION_S = 10 };
// What a session's promise counts for now.
int64_t td_fed_session_promised(const struct td_fed_promise *p, int64_t now_s);
bool td_fed_promise_over(const struct td_fed_promise *p, enum td_fed_phase phase, int64_t attempt);
// Whether `mine` may take the place of a promise of the same run. Else who wants it knows an old record.
bool td_fed_promise_may(const struct td_fed_promise *is, const struct td_fed_promise *mine);
// Why a run that asks for so many GPUs has to wait by the limit (NULL: there is none); NULL: it has not. The
// caller frees it.
char *td_fed_over(const struct td_fed_limit *l, const struct td_fed_used *u, int64_t gpus);
// The same by the limit of one of the team's people, who holds `has` of it. (has->gpu_hours does not count.)
char *td_fed_over_one(const struct td_fed_limit *l, const char *user, const struct td_fed_used *has, int64_t gpus);

// A person's sessions at all members.
struct td_fed_sessions {
	int64_t n;           // that live
	int64_t waits, asks; // GPUs that those which wait ask for, and that all of them do
};
// What he holds when he wants one more session. held: by jobs that hold GPUs, and by his runs; runs: by these alone.
// What members say of jobs may be older than their sessions, so the larger one of two reckonings counts.
int64_t td_fed_holds_one(const struct td_fed_sessions *s, int64_t held, int64_t runs);
// Why he may have no further session; NULL: he may. The caller frees it.
char *td_fed_sessions_over(const struct td_fed_limit *l, const char *user, const struct td_fed_sessions *s);

// A start of a session, as it is written into the Federation (state.starting), one of a person at a time: so it is counted
// before the next one, whichever gateway of the hub that is at.
struct td_fed_start {
	const char *by; // a word of its own; NULL: there is none
	int64_t since_s;
};
// A gateway that holds one asks no member any more after GIVE_S. So, with the time that a call takes and clocks that are
// not alike, nothing comes of it when it has counted for COUNTS_S.
enum { TD_FED_START_GIVE_S = 90, TD_FED_START_COUNTS_S = 150 };
bool td_fed_start_counts(const struct td_fed_start *s, int64_t now_s);

// What the member says of its copy.
enum td_fed_seen {
	TD_FED_UNREACHED, // nothing
	TD_FED_ABSENT,    // it has no job of it, or has forgotten it
	TD_FED_WAITS,
	TD_FED_BEGUN,
	TD_FED_GAVE_UP, // its job was not let begin for too long
	TD_FED_OVER
};
struct td_fed_state {
	enum td_fed_phase phase;
	bool sent, told; // the member has it; it was told that it may begin
	bool refused;    // the member says that the copy gave up before it was told, and does not begin any more
	enum td_fed_seen seen;
	int64_t silent_s; // for how long the member has not answered
	int64_t phase_s;  // how old the phase is; of what was sent: for how long the member has it
	int64_t lost_after_s;
};
enum td_fed_do {
	TD_FED_KEEP,
	TD_FED_PLACE, // choose a member
	TD_FED_SEND,  // give it to the member that was chosen, once more
	TD_FED_LET,   // write down that it starts there, then tell the member
	TD_FED_TELL,  // tell the member once more; it may say that the copy has given up
	TD_FED_MOVE,  // take it back to the hub; the copy is stale
	TD_FED_END
};
// Whoever is sending is given SEND_S. FORGOT_S: what a member knows of its jobs may be older than what it took.
enum { TD_FED_SEND_S = 10, TD_FED_FORGOT_S = 30 };
enum td_fed_do td_fed_next(const struct td_fed_state *s);
