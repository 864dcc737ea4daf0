// Which job it was that met a fault: of a device's who held the device when it was found first; of one of the whole node,
// or of a link of its network, the jobs that ran there. It is kept in the Node's annotation as long as the fault is there,
// also when the jobs have ended and another agent looks. Pure.
#pragma once

#include "checkup/checkup.h"
#include "gate/table.h"
#include "json/json.h"

enum { TD_MET_JOBS = 16 };
struct td_met {
	bool known, live; // live: its processes were there; else it was the last that had held the device
	struct td_holder
		who; // job, pod, uid, ask, ask_pod, account; of a node's fault no more than the job may be known
	int64_t jobs[TD_MET_JOBS]; // of a node's fault: all of them, the first is who.job
	size_t n_jobs;             // 0: it is a device's
};
// Who holds the device, or held it last; device below 0: what runs on the node (who, jobs, n_jobs). false: nobody, as far
// as is known.
typedef bool td_met_ask_f(void *ctx, int device, struct td_met *ret);
// For each finding who met it, ret[i] of l->v[i]. before: the annotation as it is (TD_ANN_FAULTS), or NULL; a finding
// that it has is answered from there, others by `ask`. What the test of several nodes found names its job itself.
void td_met_find(const char *before, const struct td_checkup_findings *l, td_met_ask_f *ask, void *ctx,
		 struct td_met ret[TD_HEALTH_FINDINGS]);
// Adds ", met by job 7" or ", met by jobs 7, 9 and 12 more" to the messages, where there is room for it.
void td_met_say(const struct td_met *met, struct td_checkup_findings *l);
// The faults that native jobs met, of the annotation: "7:gpu3:_XID_79,9:…", with '_' for ' ' and '~' for '_', for what keeps
// them in the jobs' records (`watch`); of a device that the job held before it ends with "last held by it". NULL: none. Caller frees.
char *td_met_jobs(const char *faults);
// Adds "met" to a finding's object: {"job": 7, "live": true, "user": "1000", "account": "ml"}, or of a pod "podUid" and
// "pod": "ns/name" instead of the user. Of a node's fault with several jobs "jobs": [7, 9], too.
void td_met_write(const struct td_met *m, yyjson_mut_doc *d, yyjson_mut_val *finding);
