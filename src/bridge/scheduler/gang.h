// Gangs: several pods that are one ask with one Slurm job (docs/protocols.md 1.10, docs/gangs.md).
//
// A gang's ask has the key "gang:<namespace>/<name>" and a UID that is made from those of its members
// (td_gang_uid): so nothing must be written before the first submit, the same pods give the same
// ask after a crash, and another set of pods is another ask. Bound members carry it as
// tandem.dev/gang-uid.
#pragma once

#include "bridge/scheduler/run.h"
#include "pool/elastic.h"
#include "pool/gang.h"
#include "pool/roles.h"

#define TD_GANG_KEY "gang:"
#define TD_SPARK_APP "spark-app-selector" // the label of Spark's pods: of which application
enum { TD_GANG_MAX = 4096 };              // members

// ---- gang.c: what pods say ----

// An index function: "<namespace>/<name>" of the gang that the pod belongs to; nothing for a lone pod.
void td_gang_index(const struct td_object *pod, struct td_strv *ret);
// The same; NULL: a lone pod. Caller frees.
char *td_gang_of(const struct td_object *pod);
// The handler of pods: queues the pod and its gang.
void td_gang_on_pod(void *pod_queue, struct td_object *old, struct td_object *now);
// The UID of the ask of these members: the same for the same pods, in any order.
void td_gang_uid(const struct td_object *const *pods, size_t n, char ret[40]);

struct td_gang_says {
	int64_t size;  // members that start together: the minimum, where there is one
	int64_t now;   // of these so many must be there: all, or the one that leads (gang_later.c)
	int64_t most;  // pods that there may be. More than size: the gang is elastic (gang_elastic.c)
	int64_t first; // the group of its pod with rank 0 (td_gang_place_of())
	bool late;     // its launcher is beyond the core: it is made when that runs (td_gang_leads())
	bool alone;    // they are no gang: each starts by itself (td_gang_group_apart())
	enum td_pool_gang_loss on_loss;
};
// Reads what the members say. TD_INVALID: they are refused; err says what is wrong and what to write.
// TD_NOT_FOUND: the size is not known yet.
int td_gang_read(struct td_bridge *b, const struct td_object *const *pods, size_t n, struct td_gang_says *ret,
		 struct td_cancel *c, struct td_error *err);
// ---- gang_owners.c: what the owners of pods say about gangs ----
// The name of the pod's gang in its namespace, by its own label or as its owner marks it. One that
// an owner marks has a ":" in it, which no label can have. NULL: a lone pod. Caller frees.
char *td_gang_name(const struct td_object *pod);
// How many pods the gang has as the owner says; 0: it does not.
struct td_gang_owned {
	const char *whose; // its kind
	int64_t size;      // so many pods at once
	int64_t min, most; // so many start together; so many there may be
	int64_t first;     // as in td_gang_says
	bool late;
	bool alone; // its pods start one by one, unless they say otherwise themselves
	bool keeps; // the pod keeps places for the others, which are counted here without it (td_gang_owner_later())
};
// TD_NOT_FOUND: the object that says so is not there yet.
int td_gang_owner_size(struct td_bridge *b, const struct td_object *pod, struct td_gang_owned *ret, struct td_cancel *c,
		       struct td_error *err);
// What each of the pods asks for that the owner makes when this one, which leads, is ready, as a pod's requests: of a
// LeaderWorkerSet with startupPolicy LeaderReady, and of a SparkApplication. *ret is NULL: there are none. Caller frees.
int td_gang_owner_later(struct td_bridge *b, const struct td_object *pod, char **ret, struct td_cancel *c,
			struct td_error *err);
// The same as the LeaderWorkerSet says it; *ret stays untouched: its workers do not wait for the leader. TD_INVALID: they ask
// for what no place is kept for.
int td_gang_lws_later(const yyjson_val *spec, char **ret, struct td_error *err);
// What a pod of this spec requests, as td_gang_owner_later() says it. Caller frees.
char *td_gang_asks_text(const yyjson_val *pod_spec);
// Reads an object that concerns the pod. TD_NOT_FOUND: it is not there, or its kind is not served.
int td_gang_look_up(struct td_bridge *b, const struct td_object *pod, const struct td_gvr *gvr, const char *name,
		    struct td_cancel *c, struct td_object **ret, struct td_error *err);
// May the pod's gang be elastic? What the pod itself says is enough for a no.
bool td_gang_stretches(const struct td_object *pod);
// The place that the owner gives the pod among the others. Ranks go by group, then by index.
struct td_gang_place_in {
	int64_t group; // a master, a child Job; 0 where there is one
	int64_t index; // -1: none
	bool fixed;    // the index is the rank
};
struct td_gang_place_in td_gang_place_of(const struct td_object *pod);
// The role of the pod as it or its owner says; "": none. Points into the pod. Whether letters are small does not count.
const char *td_gang_role(const struct td_object *pod);
// The same in small letters.
enum { TD_GANG_ROLE_LEN = 64 };
void td_gang_role_of(const struct td_object *pod, char ret[TD_GANG_ROLE_LEN]);
// Is it a launcher, master, chief, leader, head, driver or coordinator?
bool td_gang_leads(const struct td_object *pod);
// Is one of these roles such a one? As td_gang_roles_text() says them.
bool td_gang_roles_lead(const char *roles);
// Is leader the one that leads the training job whose pod it is? Several jobs may share a gang by the label.
bool td_gang_leads_it(const struct td_object *leader, const struct td_object *pod);
// Does its owner make the pod anew only when it is gone, also when it has failed? So does an MPIJob with its workers.
bool td_gang_stays(const struct td_object *pod);
// In which order roles come: a launcher, master, chief, leader, head, driver or coordinator first, then by name.
int td_gang_role_cmp(const char *x, const char *y);

// ---- gang_group.c: groups of Kubernetes itself (scheduling.k8s.io) ----
#define TD_IN_GROUP "spec.schedulingGroup.podGroupName" // since 1.36
#define TD_IN_WORKLOAD "spec.workloadRef.name"          // of 1.35
#define TD_GANG_GROUP "group:"                          // the names of gangs that are such PodGroups begin so
// td_gang_owner_size() of a pod that names one of them. TD_INVALID: it asks for what is not kept.
int td_gang_group_owned(struct td_bridge *b, const struct td_object *pod, struct td_gang_owned *ret,
			struct td_cancel *c, struct td_error *err);
// How many pods of the group start together, as its policy says; 0: each starts by itself; -1: it does not say so.
int64_t td_gang_group_min(const yyjson_val *policy);
// Takes these pods of a group with the policy basic out of their gang, by an empty label TD_LABEL_GANG.
int td_gang_group_apart(struct td_bridge *b, const struct td_object *const *pods, size_t n, struct td_cancel *c,
			struct td_error *err);
// What the group's spec asks for and is not kept for its pods, with what to write instead; NULL: nothing. Caller frees.
char *td_gang_group_lacks(const yyjson_val *spec);
// What the group's condition PodGroupInitiallyScheduled is to say of these pods of its gang. False: nothing so far. Caller
// frees *ret_text.
bool td_gang_group_news(const struct td_object *const *pods, size_t n, bool *ret_scheduled, char **ret_text);
// Writes it when it has changed and is not True yet. gang: "<namespace>/<name>" of any gang. Whether it can be written
// changes nothing for the pods.
void td_gang_group_tell(struct td_bridge *b, const char *gang, const struct td_objects *pods, struct td_cancel *c);
// What was written, so that nothing is asked for twice.
struct td_groups *td_groups_new(void);
struct td_groups *td_groups_free(struct td_groups *g); // NULL ok; returns NULL

// ---- gang_spark.c ----
// The role of Spark's own label; NULL: none. Points into the pod.
const char *td_gang_spark_role(const struct td_object *pod);
// The name of the SparkApplication that says how many executors there are and what they ask for; NULL: there is none, or
// the pod says it by annotations. Points into the pod.
const char *td_gang_spark_object(const struct td_object *pod);
// The name of the gang that Spark's pod is of; NULL: it is alone. Caller frees.
char *td_gang_spark_name(const struct td_object *pod);
// What people call a gang, as its owner says: the name of a Spark application. NULL: as the gang is named.
const char *td_gang_title(const struct td_object *pod);
// Of the spec of a SparkApplication: how many pods its gang has, asked for its driver or for executors without one.
void td_gang_spark_size(const yyjson_val *spec, bool driver, struct td_gang_owned *ret);
// The same: what each executor will ask for (td_gang_asks_text()). TD_INVALID: Spark would refuse it. Caller frees *ret.
int td_gang_spark_later(const yyjson_val *spec, char **ret, struct td_error *err);

// The pods in the order of their ranks where they have none yet: by index, then by name.
void td_gang_sort(const struct td_object **pods, size_t n);
// Brings those that lead behind all others, which keep their order: of a gang whose launcher is late.
void td_gang_put_back(const struct td_object **pods, size_t n);
// Does x come before y there?
bool td_gang_before(const struct td_object *x, const struct td_object *y);

// ---- one pass over one gang ----

struct td_gang_seat { // what one member gets of the grant
	int64_t rank;
	const char *hosts; // of the run
	const char *later; // of the one that leads, td_ask.later; NULL: nothing is said
	char role[TD_GANG_ROLE_LEN];
	char *node, *devices, *cores; // owned: a read of the job replaces what the ask has
};
struct td_gang_member {
	const struct td_object *pod;
	enum td_pool_pod_state state;
	int64_t rank;  // -1: none yet
	bool seated;   // `seat` is set
	bool left_out; // it cannot be bound now, and those for other places are all the same
	struct td_gang_seat seat;
	struct td_ask_pod *p;
};
struct td_gang_roles {
	size_t n;
	struct td_gang_role {
		char name[TD_GANG_ROLE_LEN];
		const struct td_object *pod; // the first of it
	} v[TD_POOL_ROLES];
	struct td_pool_role pool[TD_POOL_ROLES]; // the same roles
};
struct td_gang_run {
	const char *name; // "<namespace>/<name>"
	// While it asks for its job: the roles of its members; and how they can become one job, where they ask for
	// different things (pool/roles.h).
	struct td_gang_roles roles;
	struct td_pool_bundle ways[TD_POOL_ROLES + 1];
	size_t n_ways; // 0: all ask for the same, and have a task each
	struct td_gang_says says;
	struct td_gang_member *v; // in the order of td_gang_sort()
	size_t n;
	char *hosts;             // host names in the order of ranks, joined by commas; NULL: not needed yet
	struct td_object *later; // who comes later asks for what this asks for; NULL: nobody does; owned
	bool differs;            // a bound member sits elsewhere than the grant would put it
	bool short_of;           // the grant has too little for all
};
// ---- gang_run.c ----
// Reconciles the asks of one gang; key begins with TD_GANG_KEY.
int td_gang_reconcile(struct td_bridge *b, struct td_settings *s, struct td_link *l, const char *key, int64_t *again_ms,
		      struct td_cancel *c, struct td_error *err);
// ---- gang_elastic.c: the core, and the pods beyond it (pool/elastic.h) ----
struct td_gang_core {
	char uid[40]; // of its ask; "": there is none
	char *hosts;  // of its members, as in td_gang_run; owned
	char *owner;  // UID of theirs; NULL: none; owned
	struct td_pool_core is;
	int64_t joined; // so many pods beyond it are bound
};
void td_gang_core_done(struct td_gang_core *c);
#define td_auto_core __attribute__((cleanup(td_gang_core_done)))
// What a pod of the gang "<namespace>/<name>" may do beside its core.
enum td_pool_beyond_do td_gang_beyond(struct td_bridge *b, const char *gang, const struct td_object *pod,
				      struct td_gang_core *ret);
// Takes the pods that may join the core out of those that wait, which are sorted, and queues those
// that do not know yet what they may do. Returns how many are left. pods: all of the gang.
size_t td_gang_let_join(struct td_bridge *b, const struct td_objects *pods, const struct td_object **waiting, size_t n);
// Adds what the Binding of a pod beyond the core says of it.
void td_gang_core_notes(yyjson_mut_doc *d, yyjson_mut_val *o, const char *gang, const struct td_gang_core *c);
// How many members of its core are among the pods that wait; of a gang that is not elastic: all of
// them. pods: all of the gang.
size_t td_gang_there(const struct td_objects *pods, const struct td_object *const *waiting, size_t n,
		     const struct td_gang_says *says);
// ---- gang_later.c: places that are kept for pods that come later ----
// What becomes of the gang when the pod is lost, as it or its owner says; NULL: nothing is said.
const char *td_gang_on_loss(const struct td_object *pod);
// A pod that asks for what those ask for who come later, as this one says, which leads; NULL: it says nothing. Caller
// unrefs. TD_INVALID: it says it wrongly.
int td_gang_later(const struct td_object *pod, struct td_object **ret, struct td_error *err);
// The same of the gang's members; it stays the gang's.
const struct td_object *td_gang_later_of(struct td_gang_run *g);
// As td_gang_later_of(), and asks the owner of one that waits, once (td_ask.later).
int td_gang_later_find(struct td_bridge *b, struct td_ask *a, struct td_gang_run *g, struct td_cancel *c,
		       struct td_error *err);
// Whose role the member has: all that came for a kept place have that of the places, whatever they say.
const struct td_object *td_gang_like_whom(const struct td_gang_run *g, const struct td_object *pod);
// Brings those that may take a kept place of this ask to the front; returns how many. g->later is set.
size_t td_gang_later_come(const struct td_ask *a, struct td_gang_run *g, const struct td_object **waiting, size_t n);
// Counts the kept places as members of their role. False: there are too many roles, or no places.
bool td_gang_later_role(struct td_gang_roles *io, const struct td_gang_run *g);
// ---- gang_find.c ----
// Brings those of the pods that wait to the front, `take` in number, that the ask was made from
// beside its members. Others may have come since, before them in rank. False: they are not there.
bool td_gang_pick(const struct td_object *const *members, size_t n_members, const struct td_object **waiting, size_t n,
		  size_t take, const char *uid);
// A job of ours names the ask `uid`, which no pod has. Is it a gang's? Then its key is queued.
int td_gang_adopt(struct td_bridge *b, const char *uid, const struct td_objects *pods, bool *ret, struct td_cancel *c,
		  struct td_error *err);
// The ask of the gang that the pod belongs to. Returns a reference, or NULL: none, or a lone pod.
struct td_ask *td_gang_ask(struct td_bridge *b, const struct td_object *pod);
// ---- gang_again.c ----
// Is there a pod in the gang "<namespace>/<name>", in whatever state, that leads the training job of this one?
bool td_gang_led(struct td_bridge *b, const char *gang, const struct td_object *pod);
// Deletes the ended pods of a gang that their owner makes anew only then (td_gang_stays()), when one that leads them waits:
// the owner tries them again. pods: all of the gang, which nobody of runs; waiting: those that wait.
int td_gang_clear(struct td_bridge *b, const struct td_objects *pods, const struct td_object *const *waiting, size_t n,
		  struct td_cancel *c, struct td_error *err);
// ---- gang_facts.c ----
// Collects what the decision about the gang needs.
int td_gang_facts(struct td_bridge_run *r, struct td_pool_gang *ret, struct td_pool_job *pj, struct td_error *err);
// Members of a gang whose job runs wait for their Bindings, or none does: is the last one overdue?
bool td_gang_late(struct td_ask *a, bool waits, int64_t now_ms);
// ---- gang_want.c ----
// Does the pod ask for what those do that have their places: the members of its role, or, where there are none of it,
// all of them? Slurm counts no more for it.
bool td_gang_like(const struct td_object *const *members, size_t n, const struct td_object *pod);
// What all members ask for, in r->want: one job with a task for each; or, of roles that ask for different things, as the
// first of r->gang->ways says. TD_INVALID: they are refused.
int td_gang_want(struct td_bridge_run *r, struct td_error *err);
// Makes r->want the n-th of the ways.
void td_gang_take_way(struct td_bridge_run *r, size_t n);
// As td_bridge_run_where(), for the first of the ways that nodes could have room for.
int td_gang_where(struct td_bridge_run *r, struct td_where *ret, struct td_error *err);
// The roles of all members in the order of their first pods, whoever of them is bound; what they ask for is not read.
// False: there are too many.
bool td_gang_roles_read(const struct td_gang_run *g, struct td_gang_roles *ret);
// How many pods each has: "launcher=1,worker=4"; NULL: no roles are said. Caller frees.
char *td_gang_roles_text(const struct td_gang_roles *roles);
// ---- gang_seats.c ----
// Gives every member its rank and, when the job has its nodes, its seat. False: the job has too little.
bool td_gang_deal(struct td_bridge_run *r);
void td_gang_seat_done(struct td_gang_seat *s);
// ---- gang_act.c ----
// Carries out the step.
int td_gang_act(struct td_bridge_run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err);
// Calls end() for each bound member, with waits also for those that wait, or for a lone pod, each in a
// run of its own that deletes it where its gang is made anew. One that fails keeps no other from it;
// the first error is returned.
typedef int (*td_gang_end_f)(struct td_bridge_run *x, const void *ctx, struct td_error *err);
int td_gang_end_each(const struct td_bridge_run *r, bool waits, td_gang_end_f end, const void *ctx,
		     struct td_error *err);
// Shows the text on every member that waits.
int td_gang_show(struct td_bridge_run *r, const char *reason, const char *text, struct td_error *err);
// Adds what a member's Binding says of its gang to the annotations o.
void td_gang_notes(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_ask *a, const struct td_gang_seat *seat);
// Raises the epoch of every member that waits.
int td_gang_raise_epoch(struct td_bridge_run *r, struct td_error *err);
