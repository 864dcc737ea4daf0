// Sessions: pods of people behind the gateway. The pod is all there is of one; it is in a namespace
// whose jobs Slurm counts as its owner's (spec.scheduler.namespaces of the SlurmCluster), and only there
// is it looked for.
#pragma once

#include "gateway/answers.h"
#include "gateway/door.h"
#include "gateway/replica.h"
#include "http/dial.h"
#include "pool/idle.h"

// What may run in one (session_kind.c).
struct td_session_kind {
	const char *name;
	const char *program; // the file that runs; NULL: the caller says what does
	const char *guard;   // a program of Python that stands before it and asks for the token; NULL: none
	bool of_run;         // it shows what a run has written
	bool served;         // it answers at a port
	bool whole;          // it wants paths as the browser sees them, with /s/ID
	bool token;          // it answers only to who has the session's token, which the gateway adds
	bool measured;       // how many requests wait at it, and how long they take, is shown
	bool terminal;       // its page is the gateway's, and its one path is "tty"
};
enum { TD_SESSION_PORT = 8888 }; // where programs listen
// NULL: there is no such kind.
const struct td_session_kind *td_session_kind(const char *name);
const struct td_session_kind *td_session_kind_of(const struct td_object *pod);
// The session's token; NULL: it has none.
const char *td_session_token(const struct td_object *pod);

// Starts one; starts one that has ended again, at its address (session_start.c).
int td_session_start(struct td_gateway_ask *q, struct td_error *err);
int td_session_resume(struct td_gateway_ask *q, struct td_error *err);
// Answers a request for /s/ID/…: passes it on to the session ID of this person, or refuses (session_pass.c).
int td_session_pass(struct td_gateway_ask *q, struct td_error *err);
// Whether the request comes from a page of ours, as far as the browser says. TD_DENIED.
int td_session_from_us(struct td_gateway_ask *q, struct td_error *err);
// Leads ssh of its owner's into one (session_ssh.c).
int td_session_ssh(struct td_gateway_ask *q, struct td_error *err);
// Ends sessions that are over by the rules (pool/idle.h), and starts and ends replicas, until the gateway ends. A
// thread's function; its argument is the door.
void *td_session_thread(void *door);

// The rules for all. A person may ask for stricter ones as he starts a session.
extern const struct td_idle_rules td_session_rules;

// ---- session_agents.c: what Tandem's agents say of the sessions of their nodes, on clusters. Thread-safe ----
// A node is asked while somebody wants it, every 15 s, and not more than 32 of them a second: with more than 480 nodes
// each is asked more seldom. Nothing that a gateway has proves itself to an agent, and no right at kubelets is needed.
struct td_session_agents;
struct td_session_agents *td_session_agents_new(void);
struct td_session_agents *td_session_agents_free(struct td_session_agents *a);
struct td_session_said {
	struct td_buf text; // lines of the agent's metrics that td_session_cpu_read and its like look for
	int64_t at_ms;      // when it was asked last, real; 0: it was not yet
	char why[200];      // why there is no text; "": there is
};
void td_session_said_done(struct td_session_said *s);
#define td_auto_said __attribute__((cleanup(td_session_said_done)))
// What the agent of this node said last. From now on for some minutes the node is asked.
void td_session_agents_said(struct td_session_agents *a, const char *node, struct td_session_said *ret);
// Only the lines that count (pure).
void td_session_agents_keep(const char *metrics, struct td_buf *ret);
// Asks those that are wanted, until the gateway ends. A thread's function; its argument is the gateway.
void *td_session_agents_thread(void *gateway);

// ---- session_figures.c: what the pods of sessions do, by what agents say (pure but for agents and g) ----
struct td_session_source {
	struct td_gateway *g;             // whose measures are asked of those on machines; NULL: there are none
	struct td_session_agents *agents; // each node's own is believed, of its pods alone; NULL: there is one for all
	const char *text;                 // what that one says; NULL: nothing
	const char *why;                  // why
	int64_t at_ms;                    // when that was
};
struct td_session_figures {
	double cpu;    // the counter of CPU seconds; -1: not known
	int gpus;      // how many have some
	double gpu;    // how much the busiest of them computes, 0 to 1; -1: not known
	int64_t at_ms; // when that was, real; 0: nobody was asked yet
	char why[200]; // which of them is not known, and why; "": all are
};
void td_session_figures_of(const struct td_session_source *from, const struct td_object *pod,
			   struct td_session_figures *ret);

// ---- session_measures.c: what sessions on machines without a kubelet do. Thread-safe ----
// For each and gateway a step of its job, from the first time its figures are wanted until a minute after the last.
struct td_session_measures *td_session_measures_new(void);
struct td_session_measures *td_session_measures_free(struct td_session_measures *s); // nobody wants any more
void td_session_measures_sweep(struct td_session_measures *s);
// pod: what stands for it (session_host.c).
void td_session_measured(struct td_gateway *g, const struct td_object *pod, struct td_session_figures *ret);
// One line of tandem-standin uses, without its end (pure). False: it is none, and f is as it was.
bool td_session_measure_read(const char *line, struct td_session_figures *f);
// What each machine of a session said last.
enum { TD_SESSION_EACH_MOST = 16 };
struct td_session_each {
	struct {
		char node[256];
		struct td_session_figures f;
	} v[TD_SESSION_EACH_MOST];
	int n;
};
// Takes one line of one of them, and says what all do together (pure): CPUs are added, the busiest GPU counts, what one
// does not know is not known, and it is as old as the oldest. False: it is no such line, or not all have said something.
bool td_session_each_take(struct td_session_each *e, int nodes, const char *line, int64_t at_ms,
			  struct td_session_figures *ret);

// ---- shared by these files (sessions.c) ----
// The namespace whose pods are this person's jobs. The caller frees it; NULL: he has none.
char *td_session_namespace(struct td_gateway *g, const char *user, struct td_error *err);
// The pod of the session ID of who asks. TD_NOT_FOUND also when it is somebody else's.
int td_session_find(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err);
int td_session_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err);
// What there is to say of one.
void td_session_write(struct td_gateway *g, const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *w);
// An annotation that is a number; 0: it is not there.
int64_t td_session_number(const struct td_object *o, const char *key);

// What one pod does now, in a word of the API.
const char *td_session_state(const struct td_object *pod);
// The rules for a session with this pod. began: s, when it started; -1: as the pod says.
struct td_idle_rules td_session_rules_of(struct td_gateway *g, const struct td_object *pod);
enum td_idle_why td_session_end_of(struct td_gateway *g, const struct td_object *pod, int64_t began, int64_t *ret_at);
void td_session_write_end(struct td_gateway *g, const struct td_object *pod, int64_t began, yyjson_mut_doc *d,
			  yyjson_mut_val *w);
// Counts and says that the rules ended one. e: why it could not be; NULL: it was.
void td_session_reclaimed(const struct td_object *o, enum td_idle_why why, const struct td_error *e);
// s since 1970, when the pod started; -1: it did not.
int64_t td_session_started(const struct td_object *pod);
// session_start.c: one of the gateway's own YAML files, filled with these words.
yyjson_mut_doc *td_session_template(const char *file, const struct td_json_word *words, size_t n);
// A new secret of a session's: 48 hexadecimal digits. The caller frees it.
char *td_session_secret(void);
// How old it may become at most, in seconds, by what was asked for.
long long td_session_age(const yyjson_val *body);
// Adds to the annotations of a session's pod the rules that were asked for, when it begins and who is charged.
void td_session_notes(const yyjson_val *body, yyjson_mut_doc *d, yyjson_mut_val *notes);
// Makes the pod of the session `id` as q->body says; number: which replica or node it is, -1: there
// are none. TD_EXISTS: there is one. ret may be NULL.
int td_session_make(struct td_gateway_ask *q, const char *ns, const char *id, int number, struct td_object **ret,
		    struct td_error *err);
// What the pod has to say in this namespace: hostUsers: false, where its Tenant has userNamespaces. (The API of
// `tandem up` writes it by itself, that of a cluster does not.)
void td_session_users(const struct td_object *space, yyjson_mut_doc *pod);
// What its container may hold of the node's disk, where nobody asked for it: what the Tenant says, or a usual value.
// space NULL: the namespace is not known.
void td_session_disk(const struct td_object *space, yyjson_mut_doc *pod);
// session_files.c: adds the file systems of its owner's storage groups to the pod. What cannot be found out now is left
// out, and the log says so.
void td_session_files(const struct td_gateway_ask *q, const yyjson_val *sc, const char *ns, yyjson_mut_doc *pod);
void td_session_files_add(const yyjson_val *entry, yyjson_mut_doc *pod); // one of spec.storage
// session_devices.c: adds q->body's GPUs to the pod, as the SlurmCluster `sc` has them given out. record: the name of
// the session's ConfigMap, which must be there.
int td_session_devices(struct td_gateway_ask *q, const yyjson_val *sc, const char *record, yyjson_mut_doc *pod,
		       struct td_error *err);
// Takes what was asked for from the record, for q->body. It lies in the person's namespace: it is believed no
// more than what he sends.
int td_session_request(struct td_gateway_ask *q, const struct td_object *record, struct td_json **ret,
		       struct td_error *err);

// ---- session_set.c: a session of several pods, together: an endpoint with replicas, or one over several nodes ----
struct td_session_set {
	const struct td_object *record;
	int nodes;                                      // over so many; 0: its pods are replicas
	int asked;                                      // how many there are to be; 0: it has ended by the rules
	const struct td_object *pods[TD_REPLICAS_MOST]; // by number; NULL: there is none
	struct td_objects all;                          // owns them, where td_session_set_find() filled it
};
void td_session_set_done(struct td_session_set *s);
#define td_auto_set __attribute__((cleanup(td_session_set_done)))
// How many replicas a session is to have by its record; 0: it has none, but one pod. One whose label and name do not
// agree has none.
int td_session_replicas(const struct td_object *record);
// Over how many nodes it is to be; 0: over one.
int td_session_nodes(const struct td_object *record);
// How many pods it is to have; 0: it is one pod alone.
int td_session_several(const struct td_object *record);
// Whether the pod has neither ended nor been told to. pod NULL: there is none.
bool td_session_lives(const struct td_object *pod);
// Which replica of the session this pod is, by its name (pure); -1: none.
int td_session_number_of(const struct td_object *pod, const char *id);
// Those of `pods` that are the record's and its owner's. It borrows both.
void td_session_set_of(const struct td_object *record, const struct td_objects *pods, struct td_session_set *ret);
// The pods of a record that has replicas, asked for now. It borrows the record.
int td_session_set_find(struct td_gateway *g, const struct td_object *record, struct td_cancel *c,
			struct td_session_set *ret, struct td_error *err);
void td_session_set_write(struct td_gateway *g, const struct td_session_set *s, yyjson_mut_doc *d, yyjson_mut_val *w);
// Answers with it, as it is now.
int td_session_set_answer(struct td_gateway_ask *q, int status, const struct td_object *record, struct td_error *err);
// Deletes all its pods.
int td_session_set_remove(struct td_gateway *g, const struct td_session_set *s, struct td_cancel *c,
			  struct td_error *err);
// Starts what is missing and ends what is too much. q: of its owner.
int td_session_set_even(struct td_gateway_ask *q, const struct td_session_set *s, struct td_error *err);
// What all of them do together, for td_session_look; what is not known of one is not known, and of those that
// wait in the queue nothing is.
void td_session_set_use(const struct td_session_set *s, const struct td_session_source *from,
			struct td_session_figures *ret);
// One look of the thread: ends it by the rules, or evens it.
void td_session_set_look(struct td_gateway_door *door, const struct td_session_set *s,
			 const struct td_session_source *from);
// The operation: another number of them.
int td_session_scale(struct td_gateway_ask *q, struct td_error *err);

// ---- session_nodes.c: a session over several nodes ----
// How many nodes are asked for; 0: one.
int td_session_nodes_asked(const yyjson_val *body);
// Adds to the record `d` of the session `id` what its pods need of it.
void td_session_nodes_record(const yyjson_val *body, const char *id, yyjson_mut_doc *d);
// Makes the Service that the pods have their names from, where there is none.
int td_session_nodes_service(struct td_gateway_ask *q, const struct td_object *record, struct td_error *err);
// Adds to the pod `d` what makes it the node `number` of the session.
void td_session_nodes_pod(const yyjson_val *body, const char *id, int number, yyjson_mut_doc *d);
// A further node's pod belongs to the first one's, `head`, which is there: when that is deleted while no gateway runs, the
// garbage collector ends it, and it does not go on holding its devices.
int td_session_nodes_owned(struct td_gateway_ask *q, const char *ns, const char *head, yyjson_mut_doc *d,
			   struct td_error *err);
// (s->nodes) How many nodes there are to be now; -1: those that there are stay as they are.
int td_session_nodes_wanted(const struct td_session_set *s);
// (s->nodes) Whether this one is left as it is.
bool td_session_nodes_keeps(const struct td_session_set *s, int number, enum td_replica_is is);
void td_session_nodes_write(struct td_gateway *g, const struct td_session_set *s, yyjson_mut_doc *d, yyjson_mut_val *w);

// ---- session_other.c: a session whose pod's copy runs in another cluster (docs/other-cluster.md) ----
// The NodeSet whose nodes are asked for; NULL: it is in this cluster.
const char *td_session_other_asked(const yyjson_val *body);
// The same, of a session's pod.
const char *td_session_other(const struct td_object *pod);
// Reads the NodeSet that this field of the request names. *ret NULL: this pool has none of that name.
int td_session_nodeset(struct td_gateway_ask *q, const char *field, const char *name, struct td_object **ret,
		       struct td_error *err);
// Whether what was asked for can be in another cluster.
int td_session_other_check(const yyjson_val *body, struct td_error *err);
// (td_session_other_asked) Reads the NodeSet. TD_INVALID: there is none that is another cluster.
int td_session_other_set(struct td_gateway_ask *q, struct td_object **ret, struct td_error *err);
// The image there that has tandem-standin, for sessions with a terminal; NULL: nobody has said one.
const char *td_session_other_image(const struct td_gateway *g, const struct td_object *set);
// The claim of that namespace here that has the homes there; NULL: the NodeSet names none, so the home is empty and ends
// with the session.
const char *td_session_other_home(const struct td_gateway *g, const struct td_object *set, const char *ns);
// Makes the pod `d` go there: its label, and its partition of the SlurmCluster `sc`.
int td_session_other_pod(struct td_gateway_ask *q, const struct td_session_kind *kind, const struct td_object *set,
			 const yyjson_val *sc, yyjson_mut_doc *d, struct td_error *err);
// What there is to say of such a one.
void td_session_other_write(const struct td_object *pod, yyjson_mut_doc *d, yyjson_mut_val *w);
// A connection to the port of such a session, through both API servers, or to one on a machine without a kubelet
// (session_host.c): they are reached no other way. *ret_fd is the caller's, who closes it before the line. Two threads
// each. TD_THROTTLED: the person has too many.
struct td_session_line;
int td_session_line_open(struct td_gateway_ask *q, const struct td_object *pod, struct td_session_line **ret,
			 int *ret_fd, struct td_error *err);
struct td_session_line *td_session_line_close(struct td_session_line *l);
// Logs what a way says of itself on its errors, which a process of the person's own may write, too: of each `who` some of
// it, and one a second after that.
void td_session_complains(struct td_gateway_limits *l, const char *who, const char *p, size_t n);

// ---- session_host.c: sessions on machines without a kubelet: Slurm jobs, which the rest sees as pods ----
// The NodeSet of machines that is asked for; NULL: it is a pod.
const char *td_session_host_asked(const yyjson_val *body);
// The same, of what stands for a session's pod; of its record. The label is on no pod of the API: whoever makes pods in his
// namespace could name another person there. Pods are listed and read without those that have it.
const char *td_session_host(const struct td_object *pod);
#define TD_SESSION_REAL ",!" TD_LABEL_HOST // in a selector
const char *td_session_host_record(const struct td_object *record);
// Whether what was asked for can be there.
int td_session_host_check(const yyjson_val *body, struct td_error *err);
// (pure) The partition that its job names, of the SlurmCluster `sc`: the first with the NodeSet's nodes, before others one
// that is open to the account. NULL: none, because the default one has them, or a resource group, which jobs use unnamed.
const char *td_session_host_partition(const yyjson_val *sc, const char *set, const char *account);
#define TD_SESSION_CONTAINER "session" // the name of its container in the job (docs/containers.md)
// (pure) Adds the variables by which its job runs in the image, as Slurm's jobs run theirs (docs/containers.md). image NULL:
// none. several: over several machines, where session-machine.sh makes the containers. TD_INVALID: the SlurmCluster `sc` has no
// containers in jobs; TD_UNSUPPORTED: such a home cannot be in one.
int td_session_host_image(const yyjson_val *sc, const char *image, const char *home, bool several, struct td_strv *env,
			  struct td_error *err);
// (pure) Over how many machines what stands for its pod is; 1: one.
int td_session_host_nodes(const struct td_object *pod);
// (pure) What there is to say of them, where it is more than one.
void td_session_host_nodes_write(const struct td_object *pod, yyjson_mut_doc *d, yyjson_mut_val *w);
// Adds to a record that is made what says so.
void td_session_host_record_write(const yyjson_val *body, yyjson_mut_doc *d);
// Submits the job of the record's session, as q->body says. *ret: what stands for its pod.
int td_session_host_make(struct td_gateway_ask *q, const struct td_object *record, struct td_object **ret,
			 struct td_error *err);
// What stands for the pod: the record and the job that its owner has, as Slurm last said. The caller unrefs it. NULL: it
// was ended by the rules, or the record is no longer as it was made.
struct td_object *td_session_host_pod(struct td_gateway *g, const struct td_object *record);
// Adds those of all these records that are of such sessions and in their owners' namespaces.
void td_session_host_pods(struct td_gateway *g, const struct td_objects *records, struct td_objects *into);
// Writes down how it ended, before Slurm forgets it.
void td_session_host_keep(struct td_gateway *g, const struct td_object *record, const struct td_object *pod);
// Ends a session's pod, or the job. TD_NOT_FOUND: the pod is gone.
int td_session_end_pod(struct td_gateway *g, const struct td_object *pod, struct td_cancel *c, struct td_error *err);

// ---- session_host_way.c: the way to them ----
// A connection to the session's socket, as the input and output of a program there, as td_kube_exec() has it: a step of
// the session's job, as the owner who asks.
// how: "line", or "lines" (standin/lines.h).
int td_session_host_dial(struct td_gateway_ask *q, const struct td_object *pod, const char *how, struct td_ws_far **ret,
			 struct td_error *err);
// The same of `tandem-standin uses`.
int td_session_host_uses(struct td_gateway_ask *q, const struct td_object *pod, struct td_ws_far **ret,
			 struct td_error *err);
// The same of session-ssh.sh.
int td_session_host_ssh(struct td_gateway_ask *q, const struct td_object *pod, const char *script,
			struct td_ws_far **ret, struct td_error *err);
// One message of such a program: what it put out is added to ret, and what it complains of is logged as who's.
// TD_NOT_FOUND: it has ended.
int td_session_host_recv(struct td_ws_far *far, struct td_gateway_limits *l, const char *who, struct td_cancel *c,
			 struct td_buf *ret, struct td_error *err);

// ---- session_lines.c: the ways to sessions on machines that serve HTTP. Thread-safe ----
struct td_session_lines *td_session_lines_new(void);
struct td_session_lines *td_session_lines_free(struct td_session_lines *s); // no request is under way
// Ends those that nobody has used for a minute.
void td_session_lines_sweep(struct td_session_lines *s);
// A connection to the session of who asks. *ret_fd is the caller's, who closes it first.
struct td_session_via;
int td_session_via_open(struct td_gateway_ask *q, const struct td_object *pod, struct td_session_via **ret, int *ret_fd,
			struct td_error *err);
struct td_session_via *td_session_via_close(struct td_session_via *v);

// ---- session_ways.c: the requests of this gateway at each replica. Thread-safe ----
struct td_session_ways;
struct td_session_ways *td_session_ways_new(void);
struct td_session_ways *td_session_ways_free(struct td_session_ways *w);
// Chooses one of these pods (NULL: not that one) and counts a request there. -1: there is none.
int td_session_ways_take(struct td_session_ways *w, const char *const *uids, int n);
void td_session_ways_release(struct td_session_ways *w, const char *uid);
// It was reached, or not.
void td_session_ways_reached(struct td_session_ways *w, const char *uid, bool reached);
bool td_session_ways_out(struct td_session_ways *w, const char *uid);
int td_session_ways_waiting(struct td_session_ways *w, const char *uid);

// ---- session_rules.c: what Tenants ask of their members' sessions. Thread-safe ----
struct td_session_scopes *td_session_scopes_new(void);
struct td_session_scopes *td_session_scopes_free(struct td_session_scopes *r);
// Reads the Tenants anew.
void td_session_scopes_look(struct td_gateway *g);
// Adds the rules of the Tenants whose member he is, and of those above them.
void td_session_scopes_add(struct td_gateway *g, const char *user, struct td_idle_rules *into);
// The same (pure). ns and cluster: the SlurmCluster whose Tenants count.
struct td_session_person {
	const char *ns, *cluster, *user;
};
void td_session_scopes_of(const struct td_objects *tenants, const struct td_session_person *who,
			  struct td_idle_rules *into);

// ---- session_record.c: what was asked for, kept for as long as there is the session ----
struct td_session_end {
	int64_t at; // 0: it has not ended
	const char *why;
};
int td_session_record_make(struct td_gateway_ask *q, const char *ns, const char *id, struct td_object **ret,
			   struct td_error *err);
// Whether it may be seen by who asks, by the account that it is charged to (scope.h).
bool td_session_record_scoped(const struct td_gateway_ask *q, const struct td_object *record);
// TD_NOT_FOUND also when it is somebody else's, or outside of the key's project.
int td_session_record_get(struct td_gateway_ask *q, const char *ns, const char *id, struct td_object **ret,
			  struct td_error *err);
int td_session_record_of(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err);
int td_session_record_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
			   struct td_error *err);
// Writes down that the rules ended it, or with at 0 that it runs again.
int td_session_record_end(struct td_gateway *g, const char *ns, const char *id, const struct td_session_end *end,
			  struct td_error *err);
// Merges these fields into its data: {name: text, or null}.
int td_session_record_set(struct td_gateway *g, const struct td_object *record, yyjson_mut_doc *data,
			  struct td_error *err);
int td_session_record_remove(struct td_gateway_ask *q, const struct td_object *record, struct td_error *err);
// What there is to say of one that has no pod.
void td_session_record_write(const struct td_object *record, yyjson_mut_doc *d, yyjson_mut_val *w);

// ---- session_looks.c: which namespaces the thread looks at. Thread-safe ----
struct td_session_looks *td_session_looks_new(void);
struct td_session_looks *td_session_looks_free(struct td_session_looks *l);
// Somebody does something there.
void td_session_looks_wake(struct td_session_looks *l, const char *ns);
// Whether it is looked at now; now_ms: mono.
bool td_session_looks_due(struct td_session_looks *l, const char *ns, int64_t now_ms);
// That look found nothing: the next one can wait, unless it was woken since.
void td_session_looks_empty(struct td_session_looks *l, const char *ns, int64_t now_ms);

// ---- session_use.c: what each does, as far as this gateway has seen. Thread-safe ----
struct td_session_traffic;
struct td_session_traffic *td_session_traffic_new(const struct td_clock *clock);
struct td_session_traffic *td_session_traffic_free(struct td_session_traffic *t);
// Somebody uses it now.
void td_session_touch(struct td_session_traffic *t, const char *id);
// It starts now: what an earlier pod of it did is forgotten.
void td_session_fresh(struct td_session_traffic *t, const char *id);
// Fills traffic and low_cpu_since.
void td_session_seen(struct td_session_traffic *t, const char *id, struct td_idle_seen *ret);
// kept: when it was used by its record, s since 1970; 0: never. Returns what is to stand there instead; 0: nothing is.
int64_t td_session_tell(struct td_session_traffic *t, const char *id, int64_t kept);
// Its server is asked, and has answered (or the asker left); took_ms: since then. A request that began
// before the session did counts for nothing:
// life is what td_session_asked said of it.
uint64_t td_session_asked(struct td_session_traffic *t, const char *id);
void td_session_answered(struct td_session_traffic *t, const char *id, uint64_t life, int64_t took_ms);
// false: nobody has asked it.
bool td_session_answers(struct td_session_traffic *t, const char *id, struct td_answers_said *ret);
// A look at what it does. False: there is nothing newer than at the last one.
bool td_session_look(struct td_session_traffic *t, const char *id, const struct td_idle_rules *rules,
		     const struct td_session_figures *f);
// What the last look did not know of it, and why, in ret. False: it knew all, or there was none.
bool td_session_lacks(struct td_session_traffic *t, const char *id, char *ret, size_t n);
// The counter of this pod in an agent's metrics; -1: it is not there. A new pod of the name counts from 0.
double td_session_cpu_read(const char *text, const char *ns, const char *pod);
// How much the busiest device that this pod holds computes, 0 to 1; -1: it holds none there, or one of them is
// not measured.
double td_session_gpu_read(const char *text, const char *ns, const char *pod);
// The same of GPUs that a device plug-in gave, as the kubelet told the agent.
double td_session_gpu_counted(const char *text, const char *ns, const char *pod);
// Reads the agent's metrics.
int td_session_usage(struct td_gateway *g, struct td_buf *ret, struct td_error *err);
