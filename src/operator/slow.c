// A node on which a rank of a job is slow, step after step (gate/stragglers.h), leaves service for a test: a fault like any
// other, so the breaker and the dry run hold, the act is a NodeAction, and the node returns by itself when it passed.
#include "operator/health.h"

#include "base/log.h"

#include <string.h>

static int forget(struct td_op_node *n, struct td_error *err)
{
	const char *const notes[][2] = {{TD_ANN_SLOW, NULL}, {0}};
	return td_op_health_note(n, notes, err);
}

int td_op_slow_take(struct td_op_node *n, bool busy, struct td_error *err)
{
	const char *text = td_object_annotation(n->node, TD_ANN_SLOW);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text)
		return 0;
	// It is out of service already, or the policy is another one now.
	if (busy || td_object_annotation(n->node, TD_ANN_HOLD) || td_json_parse(text, strlen(text), &j, NULL) ||
	    !td_streq(td_jstr(n->policy.straggler, "action"), "drain"))
		return forget(n, err);
	yyjson_val *r = td_json_root(j);
	td_auto_free char *why = td_asprintf("straggler of job %lld: %.160s", (long long)td_jint(r, "job", 0),
					     td_jstr_or(r, "why", "a rank is slow")),
			  *hold = td_asprintf("condition %s", why);
	bool breaker = td_op_health_breaker(n->op, &n->policy);
	if (n->policy.dry_run || breaker) {
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "HealthWaits",
			       "%s: a test would be done, but %s", why,
			       n->policy.dry_run ? "dry run" : "too many nodes are out of service");
		return forget(n, err);
	}
	// What is held and has no act is tested and returned, so a crash in between loses nothing.
	const char *const notes[][2] = {{TD_ANN_HOLD, hold}, {0}};
	int r2 = td_op_health_note(n, notes, err);
	if (!r2) {
		td_info("node %s: out of service: %s", n->name, hold);
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "OutOfService", "%s", hold);
		r2 = td_op_health_begin(n, TD_ACT_TEST, -1, why, err);
	}
	return r2 ? r2 : forget(n, err);
}
