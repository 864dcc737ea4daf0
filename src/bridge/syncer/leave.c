// A node whose slurmd is to be replaced, or that leaves its NodeSet, waits until it has no job. The pod
// of a service never ends by itself: it is evicted as soon as its budget allows, its controller makes
// another one, and the queue places that elsewhere. What ends by itself (a Job's pod, a bare pod, a
// native job) is waited for.
#include "bridge/bridge.h"

#include "base/log.h"
#include "pool/pool.h"

#include <string.h>

enum { AGAIN_MS = 5000 }; // between two tries at a budget

static bool is_service(const struct td_object *pod)
{
	const char *kind = td_jstr(td_object_owner(pod), "kind");
	return td_streq(kind, "ReplicaSet") || td_streq(kind, "StatefulSet") || td_streq(kind, "ReplicationController");
}

// Slurm takes no jobs there any more, because the operator waits for the node.
static bool leaves(const struct td_slurm_node *n)
{
	return n && (n->states & TD_NODE(DRAIN)) &&
	       (td_pool_reason_is(n->reason, TD_REASON_UPDATE) || td_pool_reason_is(n->reason, TD_REASON_SCALE_IN));
}

int td_syncer_leave(struct td_bridge *b, const char *name, const struct td_slurm_node *n, int64_t *again_ms,
		    struct td_cancel *c, struct td_error *err)
{
	if (!leaves(n))
		return 0;

	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(b->pods, "node", name, &pods);
	td_auto_nodes struct td_slurm_nodes now = {0}; // what the view says may be old, and evicting is not undone
	for (size_t i = 0; i < pods.n; i++) {
		const struct td_object *o = pods.v[i];
		struct td_error e = TD_ERROR_INIT;
		if (!is_service(o) || td_object_deleting(o) || td_kube_pod_ended(o->root))
			continue;
		if (!now.n) {
			td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
			int r = l ? td_slurm_node(l->slurm, name, c, &now, err) : TD_TRANSIENT;
			if (r == TD_NOT_FOUND || (!r && !leaves(&now.v[0])))
				return 0;
			if (r)
				return r;
		}

		int r = td_kube_evict(b->kube, o->ns, o->name, o->uid, c, &e);
		if (r && r != TD_THROTTLED && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_fail(err, r, "evicting pod %s/%s: %.400s", o->ns, o->name, e.msg);
		*again_ms = AGAIN_MS;
		if (r == TD_THROTTLED)
			td_kube_record(b->recorder, TD_ABOUT(o, &td_pods), "Warning", "EvictionWaits",
				       "node %s is to be free of jobs (%s): %.300s", name, n->reason, e.msg);
		else if (!r)
			td_info("pod %s/%s: evicted from node %s: %s", o->ns, o->name, name, n->reason);
	}
	return 0;
}
