// One link, as the files of this room share it.
#pragma once

#include "far/copy.h"
#include "far/far.h"
#include "pool/far.h"

#include <pthread.h>
#include <stdatomic.h>

// Keys in the queue; every other one is the UID of a pod here, of a source (refs.h), or "n/NAME" of a node there.
#define TD_FAR_NODES_KEY "nodes"
#define TD_FAR_SWEEP_KEY "sweep"
enum { TD_FAR_AGAIN_MS = 10000, TD_FAR_LOST_MS = 10000, TD_FAR_TEXT = 512 };

enum td_far_of { TD_FAR_OF_LINK, TD_FAR_OF_NODES, TD_FAR_OF }; // whose problem
struct td_far_offers;                                          // node.c: what each node has offered; its thread's alone
struct td_far_link {
	struct td_kube *here, *there;
	struct td_recorder *events;
	// Of the NodeSet, as it was when the link began: another one is another link.
	struct td_object *set;
	char *own, *ns, *secret_rv; // own: "NAMESPACE/NODESET"; ns: there
	struct td_selector *selector;
	int64_t reserve_milli, reserve_memory;

	struct td_informer *pods, *nodes;         // here: the pods with its label, the Nodes that it made
	struct td_informer *far_pods, *far_nodes; // there: all of them
	struct td_queue *q;
	struct td_cancel *stop;
	pthread_t work, clock;
	bool working, clocked;
	bool id_denied;           // of the clock: its account may not read it
	atomic_bool answers;      // the other cluster did when it was last asked, and is known
	atomic_llong answered_ms; // mono: when it did last; at first when the link began
	const char *address;      // of the streams (far.h), for the Nodes; NULL: they say none
	int port;
	atomic_bool wrong;            // it is not the cluster in which pods of this NodeSet run, or nobody knows yet
	atomic_size_t made_nodes;     // since all were looked at last, and those of then
	pthread_mutex_t lock;         // guards what follows
	struct td_far_offers *offers; // an entry by its key's worker
	struct td_far_source *sources, *sources_there; // sources.c: the same ones by their names here and there
	struct td_far_makings *making;                 // of all links
	char *id;             // TD_ANN_OTHER_ID of this cluster; NULL: not known. Set once, by the clock
	pthread_cond_t quiet; // nobody uses it any more
	size_t users;         // requests for streams that have it
	char problem[TD_FAR_OF][TD_FAR_TEXT]; // the first one is told
	struct td_far_link *next;
};

// ---- link.c ----

// The pods whose copies this process makes (pod.c); they outlive a link, which is made anew with a new token.
struct td_far_makings {
	pthread_mutex_t lock; // guards all
	struct td_far_making *all;
};
// What all links share.
struct td_far_here {
	struct td_far_makings *making;
	struct td_kube *here;
	struct td_recorder *events;
	const char *address; // as in td_far_link
	int port;
};
// Begins a link. It may take as long as reading the Secret does. TD_INVALID, TD_NOT_FOUND: the Secret is no good.
int td_far_link_new(const struct td_far_want *w, const struct td_far_here *here, struct td_cancel *c,
		    struct td_far_link **ret, struct td_error *err);
// Ends its streams, too, which its `stop` does. NULL ok.
struct td_far_link *td_far_link_free(struct td_far_link *l);
// NULL: none. Each says what it knows, and takes back nothing of the other's.
void td_far_link_say(struct td_far_link *l, enum td_far_of of, const char *problem);
// Removes its pods, ConfigMaps and Secrets there and its Nodes here. The link runs no more after that, and is freed.
void td_far_link_leave(struct td_far_link *l, struct td_cancel *c);
// Is a Node here one that this link made?
bool td_far_node_ours(const struct td_far_link *l, const struct td_object *node);
// The one of these that a pod here is bound to; NULL: none.
struct td_object *td_far_node_of(const struct td_far_link *l, const struct td_object *pod);

// ---- links.c, face.c ----

// The link whose node that pod is on, and the pod; NULL: there is none. It stays until td_far_link_put().
struct td_far_link *td_far_link_of(struct td_far *f, const char *ns, const char *name, struct td_object **ret_pod);
void td_far_link_put(struct td_far_link *l); // NULL ok
struct td_far_face;
// Begins to serve. address NULL in o: behind a unix socket.
int td_far_face_new(struct td_far *far, struct td_kube *here, const struct td_far_streams *o, struct td_cancel *c,
		    struct td_far_face **ret, struct td_error *err);
// Does the API server know its clients by other certificates than when it began? Then a new one is made in its place.
bool td_far_face_stale(const struct td_far_face *f, struct td_cancel *c);
int td_far_face_port(const struct td_far_face *f);
struct td_far_face *td_far_face_free(struct td_far_face *f); // NULL ok
TD_DEFINE_AUTO(struct td_far_face *, td_far_face_free)

// Have its caches of the other cluster been filled, and is it the right one?
bool td_far_known(const struct td_far_link *l);

// ---- sources.c ----

void td_far_sources_free(struct td_far_link *l);
// 0: what the pod names is there. TD_TRANSIENT: not yet, and its key is asked for; TD_INVALID: never. err says what and why.
int td_far_sources_ready(struct td_far_link *l, const struct td_object *pod, struct td_error *err);
int td_far_source_sync(struct td_far_link *l, const char *key, int64_t *again_ms, struct td_cancel *c,
		       struct td_error *err);
// What a pod used may not be needed any more. there: it is one there.
void td_far_sources_look(struct td_far_link *l, const struct td_object *pod, bool there);
// Finds those that an earlier process made.
int td_far_sources_sweep(struct td_far_link *l, int64_t *again_ms, struct td_cancel *c);
// Indexes "source" of the pods here and there.
void td_far_index_source(const struct td_object *pod, struct td_strv *ret);
void td_far_index_source_there(const struct td_object *copy, struct td_strv *ret);

// ---- node.c, pod.c: what the queue's keys do ----

// Asks for all of them.
void td_far_nodes_look(struct td_far_link *l, int64_t *again_ms);
int td_far_node_sync(struct td_far_link *l, const char *key, int64_t *again_ms, struct td_cancel *c,
		     struct td_error *err);
// Asks for that node there, soon; NULL: for none.
void td_far_node_add(struct td_far_link *l, const char *there, int64_t ms);
// Of how many Nodes pods run in another cluster than this one?
size_t td_far_nodes_astray(const struct td_far_link *l);
struct td_far_offers *td_far_offers_free(struct td_far_offers *o); // NULL ok
// Of a list of resources: in 1/1000 for cpu, else whole units; 0: it is not there, or cannot be read.
int64_t td_far_amount(const yyjson_val *list, const char *key);
// Is there a Node here for that one? there NULL: no.
bool td_far_node_here(const struct td_far_link *l, const char *there);
// Renews the Leases of its Nodes.
void td_far_nodes_beat(struct td_far_link *l, struct td_cancel *c);
// A pod has been bound: those of its gang that wait for it come again.
void td_far_gang_wake(struct td_far_link *l, const struct td_object *old, const struct td_object *now);
struct td_far_making *td_far_making_free(struct td_far_making *all); // NULL ok
int td_far_pod_sync(struct td_far_link *l, const char *uid, int64_t *again_ms, struct td_cancel *c,
		    struct td_error *err);
// 0: the copy of this pod is surely gone. TD_TRANSIENT: it is there, or nobody knows. What the cache does not show may be
// there all the same: a reply was lost, or the watch is behind. And what stands before an API server that is away may say
// 404 to everything: only an API server says that a list is empty.
int td_far_copy_gone(struct td_far_link *l, const struct td_object *pod, struct td_cancel *c, struct td_error *err);
// Of a pod there: the node that it is on or goes to; NULL: none.
const char *td_far_pod_node(const struct td_object *far);
// Does it hold what it asks for on that node? What others write into an annotation does not count.
bool td_far_pod_holds(const struct td_far_link *l, const struct td_object *far);
// The copy of the pod with that UID, as the cache has it; NULL: none.
struct td_object *td_far_copy_of(const struct td_far_link *l, const char *uid);
// Is it one of this link's?
bool td_far_pod_ours(const struct td_far_link *l, const struct td_object *far);
