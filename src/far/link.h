// One link, as the files of this room share it.
#pragma once

#include "far/copy.h"
#include "far/far.h"
#include "pool/far.h"

#include <pthread.h>
#include <stdatomic.h>

#define TD_FAR_NODES_KEY "nodes" // in the queue; every other key is the UID of a pod here
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
	atomic_bool answers;      // the other cluster did when it was last asked, and is known
	atomic_llong answered_ms; // mono: when it did last; at first when the link began
	struct td_far_offers *offers;
	size_t n_nodes;                       // here; of the key TD_FAR_NODES_KEY alone, as the offers
	pthread_mutex_t lock;                 // guards problem
	char problem[TD_FAR_OF][TD_FAR_TEXT]; // the first one is told
	struct td_far_link *next;
};

// ---- link.c ----

// Begins a link. It may take as long as reading the Secret does. TD_INVALID, TD_NOT_FOUND: the Secret is no good.
int td_far_link_new(const struct td_far_want *w, struct td_kube *here, struct td_recorder *events, struct td_cancel *c,
		    struct td_far_link **ret, struct td_error *err);
struct td_far_link *td_far_link_free(struct td_far_link *l); // NULL ok
// NULL: none. Each says what it knows, and takes back nothing of the other's.
void td_far_link_say(struct td_far_link *l, enum td_far_of of, const char *problem);
// Removes its pods there and its Nodes here. The link runs no more after that, and is freed.
void td_far_link_leave(struct td_far_link *l, struct td_cancel *c);

// Have its caches of the other cluster been filled?
bool td_far_known(const struct td_far_link *l);

// ---- node.c, pod.c: what the queue's keys do ----

int td_far_nodes_sync(struct td_far_link *l, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
struct td_far_offers *td_far_offers_free(struct td_far_offers *o); // NULL ok
// Of a list of resources: in 1/1000 for cpu, else whole units; 0: it is not there, or cannot be read.
int64_t td_far_amount(const yyjson_val *list, const char *key);
// Is there a Node here for that one? there NULL: no.
bool td_far_node_here(const struct td_far_link *l, const char *there);
// Renews the Leases of its Nodes.
void td_far_nodes_beat(struct td_far_link *l, struct td_cancel *c);
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
// Is it one of this link's?
bool td_far_pod_ours(const struct td_far_link *l, const struct td_object *far);
