// A Deployment's status: counts, and the conditions Available, Progressing and ReplicaFailure as
// `kubectl rollout status` reads them.
#include "controllers/deployment.h"

#include "api/condition.h"

#include <stdio.h>
#include <string.h>

struct counts {
	long long replicas, updated, ready, available, unavailable;
};

static void count(const struct td_object *rs, struct counts *n)
{
	n->replicas += td_jint(rs->root, "status.replicas", 0);
	n->ready += td_jint(rs->root, "status.readyReplicas", 0);
	n->available += td_jint(rs->root, "status.availableReplicas", 0);
	n->unavailable += ctl_rs_spec(rs);
}

static void progressing(struct roll *x, const struct counts *n, bool complete, yyjson_mut_doc *d, yyjson_mut_val *conds,
			int64_t *again)
{
	yyjson_val *old = td_jget(x->d->root, "status.conditions"), *was = td_jfind(old, "type", "Progressing");
	int64_t now = td_real_ms(x->c->clock);
	const char *reason = td_jstr_or(was, "reason", ""), *status = td_jstr_or(was, "status", "Unknown");
	const char *name = x->now ? x->now->name : "";
	char msg[400];

	snprintf(msg, sizeof(msg), "%s", td_jstr_or(was, "message", ""));
	char keep[64];
	snprintf(keep, sizeof(keep), "%s", reason);
	// There was a sign of life, so the deadline starts again.
	bool touched = false;

	long long deadline = td_jint(x->d->root, "spec.progressDeadlineSeconds", 600);
	if (deadline >= 2147483647) // this is how users say "none"
		return;

	yyjson_val *st = td_jget(x->d->root, "status");
	bool moved = n->updated > td_jint(st, "updatedReplicas", 0) || n->ready > td_jint(st, "readyReplicas", 0) ||
		     n->available > td_jint(st, "availableReplicas", 0) ||
		     n->replicas - n->updated < td_jint(st, "replicas", 0) - td_jint(st, "updatedReplicas", 0);

	if (x->failed[0]) {
		status = "False", reason = "ReplicaSetCreateError";
		snprintf(msg, sizeof(msg), "%s", x->failed);
	} else if (x->paused) {
		status = "Unknown", reason = "DeploymentPaused";
		snprintf(msg, sizeof(msg), "Deployment is paused");
	} else if (!strcmp(keep, "DeploymentPaused")) {
		status = "Unknown", reason = "DeploymentResumed", touched = true;
		snprintf(msg, sizeof(msg), "Deployment is resumed");
	} else if (x->made) {
		status = "True", reason = "NewReplicaSetCreated", touched = true;
		snprintf(msg, sizeof(msg), "Created new replica set \"%s\"", name);
	} else if (complete) {
		status = "True", reason = "NewReplicaSetAvailable";
		snprintf(msg, sizeof(msg), "ReplicaSet \"%s\" has successfully progressed.", name);
	} else if (x->found) {
		status = "True", reason = "FoundNewReplicaSet", touched = true;
		snprintf(msg, sizeof(msg), "Found new replica set \"%s\"", name);
	} else if (moved) {
		status = "True", reason = "ReplicaSetUpdated", touched = true;
		snprintf(msg, sizeof(msg), "ReplicaSet \"%s\" is progressing.", name);
	} else if (was && strcmp(keep, "NewReplicaSetAvailable") != 0 &&
		   strcmp(keep, "ProgressDeadlineExceeded") != 0) {
		int64_t since = ctl_time(was, "lastUpdateTime");
		if (since + deadline * 1000 <= now) {
			status = "False", reason = "ProgressDeadlineExceeded";
			snprintf(msg, sizeof(msg), "ReplicaSet \"%s\" has timed out progressing.", name);
		} else if (!*again || since + deadline * 1000 - now < *again) {
			*again = since + deadline * 1000 - now + 1000;
		}
	} else if (!was) {
		return;
	}

	td_condition_add(d, conds, old, TD_CONDITION("Progressing", status, reason, msg, .updated = true), now);
	if (touched) {
		char t[TD_TIME_LEN];
		td_jm_str(d, yyjson_mut_arr_get_last(conds), "lastUpdateTime", td_time_format(now, t));
	}

	if (!*again && !complete && !x->paused)
		*again = deadline * 1000;
}

int ctl_deployment_status(struct roll *x, int64_t *again_ms, bool *ret_complete, struct td_error *err)
{
	struct counts n = {0};

	for (size_t i = 0; i < x->old.n; i++)
		count(x->old.v[i], &n);
	if (x->now) {
		count(x->now, &n);
		n.updated = td_jint(x->now->root, "status.replicas", 0);
	}

	n.unavailable = n.unavailable > n.available ? n.unavailable - n.available : 0;

	bool complete =
		n.updated == x->want && n.replicas == x->want && n.available == x->want && x->now && !x->changed;

	const struct td_object *o = x->d;
	yyjson_val *old = td_jget(o->root, "status.conditions");
	int64_t now = td_real_ms(x->c->clock);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d);
	td_jm_int(d, s, "observedGeneration", td_jint(o->root, "metadata.generation", 0));
	td_jm_int(d, s, "replicas", n.replicas);
	td_jm_int(d, s, "updatedReplicas", n.updated);
	td_jm_int(d, s, "readyReplicas", n.ready);
	td_jm_int(d, s, "availableReplicas", n.available);
	td_jm_int(d, s, "unavailableReplicas", n.unavailable);

	yyjson_mut_val *conds = td_jm_arr(d, s, "conditions");
	if (n.available >= x->want - x->unavailable)
		td_condition_add(d, conds, old,
				 TD_CONDITION("Available", "True", "MinimumReplicasAvailable",
					      "Deployment has minimum availability.", .updated = true),
				 now);
	else
		td_condition_add(d, conds, old,
				 TD_CONDITION("Available", "False", "MinimumReplicasUnavailable",
					      "Deployment does not have minimum availability.", .updated = true),
				 now);

	progressing(x, &n, complete, d, conds, again_ms);

	for (size_t i = 0; i <= x->old.n; i++) {
		const struct td_object *rs = i ? x->old.v[i - 1] : x->now;
		yyjson_val *f = rs ? td_condition(rs->root, "ReplicaFailure") : NULL;
		if (f) {
			td_condition_add(d, conds, old,
					 TD_CONDITION("ReplicaFailure", "True", td_jstr_or(f, "reason", "FailedCreate"),
						      td_jstr_or(f, "message", ""), .updated = true),
					 now);
			break;
		}
	}

	*ret_complete = complete;
	return ctl_write_status(x->c, &td_deployments, o, s, x->cancel, err);
}
