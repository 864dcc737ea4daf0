// The hub of a Federation: this gateway as the front door of several clusters. pool/federation.h decides;
// here is what it decides about, and what is done.
//
// A run that is submitted here is one FederatedRun (its record) beside the SlurmCluster, and its body, which
// lies in its owner's home as long as there is the record. Several gateways may work on one: each change of the record
// fails when it was changed since it was read.
#pragma once

#include "gateway/door.h"
#include "pool/federation.h"

// ---- hub.c: the Federation, as it was last read. Immutable, shared ----
struct td_hub_member {
	const char *name, *url;
	int ca_fd; // -1: the system's
	char *ca_path;
	int64_t weight;
};
struct td_hub {
	struct td_object *o;
	const char *name;
	struct td_hub_member *members;
	size_t n_members;
	struct td_fed_team *teams;
	size_t n_teams;
	struct td_fed_rule *rules;
	size_t n_rules;
	struct td_fed_limit *limits;
	size_t n_limits;
	int64_t lost_after_s;
	bool ending;  // it is being deleted: it takes no new runs
	bool cancels; // and ends those that it has
	int refs;
};
// NULL: this gateway is the hub of none, or it is not known yet.
struct td_hub *td_hub_get(struct td_gateway *g);
// The same for whoever would act otherwise without one. TD_TRANSIENT: it is not known yet, since no look
// succeeded so far.
int td_hub_ask(struct td_gateway *g, struct td_hub **ret, struct td_error *err);
struct td_hub *td_hub_ref(struct td_hub *h);
struct td_hub *td_hub_unref(struct td_hub *h);
TD_DEFINE_AUTO(struct td_hub *, td_hub_unref)
// A Federation, read (pure but for memory files of CAs).
struct td_hub *td_hub_of(struct td_object *federation);
const struct td_hub_member *td_hub_member(const struct td_hub *h, const char *name);
// Looks whether it has changed. False: this gateway may not read it, or there is no such kind, which does not change
// soon.
bool td_hub_look(struct td_gateway *g);
// Asks now, whatever was seen before. False also when it cannot be asked.
bool td_hub_surely_none(struct td_gateway *g);
// Lets a Federation that is being deleted go.
int td_hub_release(struct td_gateway *g, const struct td_hub *h, struct td_error *err);

// What is known of the members, shared by all threads.
struct td_hub_known {
	char *name;
	bool asked, reached;
	int64_t good_ms;      // mono: when it answered last, or when it was first asked
	char *problem;        // why it does not answer; NULL: it does
	struct td_json *held; // what jobs hold there that are not of these runs; NULL: it has not said so yet
	struct td_json *used; // what was used there; NULL: it has not said so yet
	int64_t used_ms;      // mono: when that came
	bool takes_word;      // it said that it can be told of limits
};
struct td_hubs;
struct td_hubs *td_hubs_new(void);
// Makes what watches Federations and runs; td_hub_look starts it when this gateway may. Before td_hubs_free the
// gateway's cancel is fired.
void td_hubs_start(struct td_gateway *g);
const struct td_informer *td_hub_runs(struct td_gateway *g); // those that are live; index "user"
struct td_hub_sends *td_hub_sends(struct td_gateway *g);
struct td_hubs *td_hubs_free(struct td_hubs *h);
// A copy of what is known of a member. The caller calls td_hub_known_done.
void td_hub_known(struct td_gateway *g, const char *member, struct td_hub_known *ret);
void td_hub_known_done(struct td_hub_known *k);
#define td_auto_known __attribute__((cleanup(td_hub_known_done)))
// It answered (err NULL), or not. look: its answer to federationLook; NULL: it was asked for something else.
void td_hub_heard(struct td_gateway *g, const char *member, const struct td_error *err, struct td_json *look);
// Nothing is given to it until it answers.
void td_hub_lost(struct td_gateway *g, const char *member);

// ---- hub_record.c: records ----
struct td_hub_run {
	char *object, *rv; // its object's name and version; rv NULL: it is not written yet
	char *run, *user, *request, *hash, *team, *account, *insists;
	struct td_strv partitions, gpu_types; // of all its steps
	int64_t created, gpus, holds;
	enum td_fed_phase phase;
	char *member, *there, *rule, *why, *result;
	int64_t attempt, since;
	int64_t until_s; // of a session, which has no object: until when its promise counts; 0: it is a run
	bool sent, told;
	struct td_strv refused, refused_why; // members that do not take it, and why
	struct td_strv stale, stale_there;   // members with a copy that is not told yet, and its name there
};
void td_hub_run_done(struct td_hub_run *r);
#define td_auto_hub_run __attribute__((cleanup(td_hub_run_done)))
int td_hub_run_get(struct td_gateway *g, const char *user, const char *run, struct td_cancel *c, struct td_hub_run *ret,
		   struct td_error *err);
// user NULL: of all. live: only those that are not over.
int td_hub_run_list(struct td_gateway *g, const char *user, bool live, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err);
// Of all, as they were last seen: that costs nothing. In no order.
int td_hub_live(struct td_gateway *g, struct td_cancel *c, struct td_objects *ret, struct td_error *err);
// How many a person has.
int td_hub_live_of(struct td_gateway *g, const char *user, struct td_cancel *c, size_t *ret, struct td_error *err);
void td_hub_run_read(const struct td_object *o, struct td_hub_run *ret);
// Whether a member has it, or is being given it. member NULL: any.
bool td_hub_run_is_at(const struct td_object *o, const char *member);
// Whether nothing of it is left to do.
bool td_hub_run_over(const struct td_hub_run *r);
// Replaces one of its texts. s: copied; NULL: it has none.
void td_hub_run_say(char **to, const char *s);
void td_hub_run_phase(struct td_hub_run *r, enum td_fed_phase phase);
// It is nowhere any more and waits. stale: its member may have a copy.
void td_hub_run_back(struct td_hub_run *r, bool stale);
// TD_EXISTS: it is there.
int td_hub_run_create(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		      struct td_error *err);
// TD_CONFLICT: it was changed since it was read. On success r has the new version.
int td_hub_run_write(struct td_gateway *g, struct td_hub_run *r, struct td_error *err);
int td_hub_run_remove(struct td_gateway *g, const struct td_hub_run *r, struct td_error *err);

// ---- hub_call.c: calls of members ----
struct td_hub_call {
	const struct td_hub *hub;
	const char *member, *user; // user NULL: as the hub
	const char *method, *path;
	const void *body;
	size_t body_len;
	const char *type;   // of the body; NULL: JSON
	int64_t timeout_ms; // 0: 30 s
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
};
// A refusal has the code that the member's gateway meant, and its words. TD_TRANSIENT: surely not done. ret may be
// NULL.
int td_hub_do(struct td_gateway *g, const struct td_hub_call *k, struct td_cancel *c, struct td_json **ret,
	      struct td_error *err);

struct td_hub_answer {
	int r; // of td_hub_do; err has its words
	struct td_error err;
	struct td_json *json;
};
// Makes these calls side by side, so that all together take as long as the slowest one. first: the others are given up
// (TD_CANCELLED) as soon as one succeeds. The caller unrefs the answers' json.
void td_hub_do_all(struct td_gateway *g, const struct td_hub_call *calls, size_t n, bool first, struct td_cancel *c,
		   struct td_hub_answer *ret);
// Whether a person's request waits for a member: not for one that does not answer, or did not the last time that the hub
// itself asked. err (when false): TD_TRANSIENT.
bool td_hub_asks(struct td_gateway *g, const char *member, struct td_error *err);
// GETs this path of all members in the person's name, for some seconds. ret: room for all members, in their order; those
// that td_hub_asks() leaves out have its TD_TRANSIENT. first: as above. The caller unrefs the answers' json.
void td_hub_ask_all(struct td_gateway_ask *q, const struct td_hub *h, const char *path, bool first,
		    struct td_hub_answer *ret);

// ---- hub_limit.c: what teams hold; promises ----
const struct td_fed_limit *td_hub_limit(const struct td_hub *h, const char *team); // NULL: there is none
// Whether a member has said so far what a limit is about: else that is not taken for nothing.
bool td_hub_said(const struct td_fed_limit *l, const struct td_hub_known *k);
struct td_hub_team {
	char *name; // NULL: of who is in none
	char *user; // one of its people; NULL: all of them
	struct td_fed_used sum;
	double *each; // GPU hours at each member
};
struct td_hub_copy { // a run that a member has
	const char *member, *there, *user;
	const struct td_object *o;
	int64_t held; // by jobs in its name there, of the team that is reckoned
};
// What is known when it is chosen, from one look at the live runs (by name). hub: the caller's.
struct td_hub_view {
	const struct td_hub *hub;
	struct td_object *federation; // whose promises count
	struct td_objects live;
	struct td_hub_copy *copies;
	size_t n_copies;
	int64_t *at;               // runs at each member
	struct td_hub_team *teams; // of which something was asked
	size_t n_teams;
	bool exact;          // a promise whose run is not among the live ones counts until it is looked up
	struct td_strv gone; // promises that are over
	size_t said;         // how often td_hub_waits wrote words down
};
int td_hub_view(struct td_gateway *g, const struct td_hub *h, struct td_cancel *c, struct td_hub_view *ret,
		struct td_error *err);
void td_hub_view_done(struct td_hub_view *v);
#define td_auto_view __attribute__((cleanup(td_hub_view_done)))
// A run was placed since.
void td_hub_view_add(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r);
// The run in whose name a member says that something is held (account, user, gpus, run); NULL: in none's that the member has.
struct td_hub_copy *td_hub_copy(const struct td_hub_view *v, const char *member, const yyjson_val *held);
// What a team has and has used at all members. The view's, until it is asked for another one.
struct td_hub_team *td_hub_used(struct td_gateway *g, struct td_hub_view *v, const char *team);
// What one of its people holds of that. gpu_hours: as of the team.
struct td_fed_used td_hub_used_by(struct td_gateway *g, struct td_hub_view *v, const char *team, const char *user);
// GPUs of his runs of that team that members have, or that are promised to them.
int64_t td_hub_runs_of(const struct td_hub_view *v, const char *team, const char *user);
// Why a run has to wait by its team's limit or its person's, as far as the view tells; NULL: it has not. The caller
// frees it.
char *td_hub_over(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r);
// Promises its team's GPUs to a run that is about to be placed, whatever other gateways promise now; *ret_over: why
// it has to wait instead. Two or three requests; none when its team has no limit. TD_CONFLICT: its record was
// changed since it was read.
int td_hub_promise(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r, struct td_cancel *c,
		   char **ret_over, struct td_error *err);

// ---- hub_word.c: what members are told of limits, so that they hold back (pool/fedword.h) ----
// What is reckoned once for all members. v and its hub outlive it.
struct td_hub_words;
struct td_hub_words *td_hub_words(struct td_gateway *g, const struct td_hub_view *v);
struct td_hub_words *td_hub_words_free(struct td_hub_words *w);
TD_DEFINE_AUTO(struct td_hub_words *, td_hub_words_free)
// The word for a member, as text; NULL: it takes none, it cannot be said yet, or it is too long; what it was told last stands.
// The caller frees it.
char *td_hub_word(const struct td_hub_words *w, const char *member, bool *ret_long);
// Writes down whether a member holds back (its answer to a look), where that has changed: in the Federation. too_long: so
// was the word for it.
void td_hub_word_kept(struct td_gateway *g, const struct td_hub *h, const char *member, const struct td_json *look,
		      bool too_long);
// Tells members that the Federation has no longer, once, that nothing is limited by it. h: as it was.
void td_hub_farewell(struct td_gateway *g, const struct td_hub *h);

// ---- hub_place.c: submitting, choosing ----
// Takes the run that q->body asks for, places it if that can be done now, and answers. q->args[0]: its id.
int td_hub_make(struct td_gateway_ask *q, const char *id, struct td_error *err);
// Asks td_fed_choose; ret->member is an index of the hub's members. soon: somebody waits for it, so members without
// free GPUs for it come last.
void td_hub_choose(struct td_gateway *g, struct td_hub_view *view, const struct td_hub_run *r, bool soon,
		   struct td_fed_choice *ret);
// Chooses a member for a run that waits, and writes that down. *ret_go: it is placed now.
int td_hub_place(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c, bool *ret_go,
		 struct td_error *err);
// What a run is called at its member in this attempt, and the request's name there. The caller frees both.
char *td_hub_there(const struct td_hub_run *r, char **ret_request);
// Whether a run that waits goes on waiting, as far as the view tells; new words of why are written down. Else
// td_hub_place is asked, which looks anew.
int td_hub_waits(struct td_gateway *g, struct td_hub_view *view, struct td_hub_run *r, bool *ret_waits,
		 struct td_error *err);

// ---- hub_send.c: giving ----
// The threads that give; to end them g->cancel is fired before.
struct td_hub_sends;
struct td_hub_sends *td_hub_sends_new(struct td_gateway *g);
struct td_hub_sends *td_hub_sends_free(struct td_hub_sends *s);
// Has it given soon, by another thread. Nothing happens while that is under way.
void td_hub_send_later(struct td_gateway *g, const struct td_hub_run *r);
// Begins and ends giving it here. False: another thread gives it.
bool td_hub_sending(struct td_gateway *g, const char *object, bool begin);
// Gives a placed run to its member: code and job. A member that does not take it is noted in the record, and the
// run waits again.
int td_hub_send(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		struct td_error *err);
// What was submitted goes from its owner's home: nobody needs it any more.
void td_hub_drop(struct td_gateway *g, const struct td_hub_run *r);
// {job, files} of a run, as its owner's home has it. TD_INVALID: it is not there, or not what was submitted.
int td_hub_body(struct td_gateway_ask *q, const struct td_hub_run *r, struct td_json **ret, struct td_error *err);
// Sends chunks of this person's home that the member lacks.
int td_hub_ship(struct td_gateway_ask *q, const struct td_hub *h, const char *member, const struct td_strv *hashes,
		struct td_error *err);

// ---- hub_watch.c ----
// Looks after runs until the gateway ends. Threads' functions.
void *td_hub_watch_thread(void *gateway);
void *td_hub_place_thread(void *gateway);

// ---- hub_show.c: the operations of people, where they are about federated runs ----
// Each is false when this is none of the hub's; else *ret is what the operation returns.
bool td_hub_answers(struct td_gateway_ask *q, const char *run, int status, int *ret, struct td_error *err);
// Fills *body with what was submitted then.
bool td_hub_submitted(struct td_gateway_ask *q, struct td_json **body, int *ret, struct td_error *err);
// TD_NOT_FOUND: it has ended already; TD_CONFLICT: its record was changed since it was read.
int td_hub_cancel(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		  struct td_error *err);
bool td_hub_cancels(struct td_gateway_ask *q, int *ret, struct td_error *err);
bool td_hub_logs(struct td_gateway_ask *q, int *ret, struct td_error *err);
enum td_hub_file { TD_HUB_LIST, TD_HUB_CONTENT, TD_HUB_PUT };
bool td_hub_files(struct td_gateway_ask *q, enum td_hub_file what, const char *path, int *ret, struct td_error *err);
// Appends the person's federated runs to a list, with each one's time of submission.
void td_hub_lists(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *list);

// ---- hub_session.c: sessions of people at members ----
// Each is false when it is about no session at a member; else *ret is what the operation returns. TD_TRANSIENT also
// when no cluster that answers has the session, and a member does not answer.
bool td_hub_session_starts(struct td_gateway_ask *q, int *ret, struct td_error *err);
// Another operation on the session q->args[0], whose path goes on with `what` ("" or "/resume").
bool td_hub_session(struct td_gateway_ask *q, const char *what, int *ret, struct td_error *err);
// A request for /s/ID/…. What is passed on has a statement instead of what he proved himself with here.
bool td_hub_session_pass(struct td_gateway_ask *q, const char *id, int *ret, struct td_error *err);
// How many sessions of his were last seen at this member, without the one called `but`.
int64_t td_hub_session_seen(const char *user, const char *member, const char *but);
// Appends those at members that are not in the list.
void td_hub_session_list(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *list);

// ---- hub_starts.c: one start of a person's after the other ----
struct td_hub_start {
	char by[17];      // "": no limit needs it
	int64_t since_ms; // mono
};
// Begins a start, a resume or a scaling of his. TD_THROTTLED: another one is under way, here or at another gateway. The
// caller calls end. sure false: a member may do yet what it was asked for.
int td_hub_start_begin(struct td_gateway_ask *q, const struct td_hub *h, struct td_hub_start *ret,
		       struct td_error *err);
void td_hub_start_end(struct td_gateway_ask *q, const struct td_hub *h, const struct td_hub_start *s, bool sure);
// Whether members may be asked yet. TD_TRANSIENT: it took so long that other gateways may not count it any more.
int td_hub_start_still(const struct td_hub_start *s, struct td_error *err);

// ---- hub_session_limit.c: what a person may have at all members ----
// Whether a session may start that holds r->holds GPUs; where its team has a limit they are promised to it for some
// seconds, until its member shows them. TD_THROTTLED: his team, or he, has as much as it may.
int td_hub_session_allowed(struct td_gateway_ask *q, struct td_hub_view *view, struct td_hub_run *r,
			   struct td_error *err);
// A session that surely is not started leaves what it was promised to others. promise: its name; "" or NULL: none.
void td_hub_session_not(struct td_gateway *g, const struct td_hub *h, const char *promise);
// Whether the session q->args[0] may be resumed, or have so many replicas (0: it is resumed). TD_THROTTLED as above.
// *ret_promise: the name of what it was promised; NULL: nothing was. The caller frees it.
int td_hub_session_more(struct td_gateway_ask *q, const struct td_hub *h, int64_t replicas, char **ret_promise,
			struct td_error *err);
