// The jobs of a node that is drained are told to save themselves, before they are ended: the operator writes which
// signal on the Node (docs/health.md).
#include "bridge/scheduler/ask.h"

#include "base/log.h"

#include <string.h>

// "ACTION SIGNAL". True: *ret_signal is one that may be sent, and stays valid as long as wish does.
static bool read_wish(const char *wish, const char **ret_signal)
{
	static const char *const signals[] = {"USR1", "USR2", "HUP", "INT", "TERM"};
	const char *blank = wish ? strchr(wish, ' ') : NULL;
	for (size_t i = 0; blank && i < TD_LEN(signals); i++)
		if (!strcmp(blank + 1, signals[i])) {
			*ret_signal = signals[i];
			return true;
		}
	return false;
}

static bool has_node(const struct td_slurm_job *j, const char *node)
{
	for (size_t i = 0; i < j->n_nodes; i++)
		if (td_streq(j->nodes[i].name, node))
			return true;
	return false;
}

// Tells one job, if it is on the node. *told counts it.
static int send_one(struct td_slurm *s, int64_t id, const char *node, const char *signal, size_t *told,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto_job struct td_slurm_job j = {0};
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_job(s, id, c, &j, &e);
	if (!r && (td_job_phase(j.states) != TD_PHASE_RUNNING || !has_node(&j, node)))
		return 0;
	if (!r) {
		// The batch script and all steps: which of them saves is the job's own matter.
		td_auto_free char *path = td_asprintf("/job/%lld?signal=%s&flags=FULL_JOB", (long long)id, signal);
		td_auto_buf struct td_buf answer = {0};
		r = td_slurm_raw(s, "DELETE", path, NULL, c, &answer, &e);
		*told += r == 0;
	}
	if (r == TD_NOT_FOUND || r == TD_CONFLICT || r == TD_INVALID) { // it has ended meanwhile
		td_info("node %s: job %lld was not told: %s", node, (long long)id, e.msg);
		return 0;
	}
	return r ? td_fail(err, r, "signal %s to job %lld: %.400s", signal, (long long)id, e.msg) : 0;
}

static int send_all(struct td_bridge *b, const char *node, const char *signal, struct td_cancel *c,
		    struct td_error *err)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return TD_TRANSIENT;
	td_auto_states struct td_slurm_states all = {0};
	int r = td_slurm_job_states_all(l->slurm, c, &all, err);
	size_t told = 0;
	for (size_t i = 0; !r && i < all.n; i++) {
		int64_t id = all.v[i].id;
		// A pod is told by its kubelet when its job ends; the signal is for native jobs.
		if (td_job_phase(all.v[i].states) == TD_PHASE_RUNNING && !td_asks_want_job(b->asks, id))
			r = send_one(l->slurm, id, node, signal, &told, c, err);
	}
	if (!r)
		td_info("node %s: signal %s to %zu jobs", node, signal, told);
	return r;
}

int td_syncer_signal(struct td_bridge *b, const struct td_object *node, bool drained, struct td_cancel *c,
		     struct td_error *err)
{
	const char *wish = td_object_annotation(node, TD_ANN_SIGNAL_JOBS), *signal = NULL;
	// Until the node is drained a job could begin after the signal, and would never hear it.
	if (!drained || !td_object_annotation(node, TD_ANN_HOLD) || !read_wish(wish, &signal) ||
	    td_streq(wish, td_object_annotation(node, TD_ANN_JOBS_SIGNALLED)))
		return 0;
	// The cache may not have the note of the last time yet.
	td_auto_free char *field = td_asprintf("metadata.name=%s", node->name);
	td_auto_objects struct td_objects now = {0};
	int r = td_kube_list(b->kube, &td_nodes, NULL, NULL, field, c, &now, err);
	if (r || !now.n || td_streq(wish, td_object_annotation(now.v[0], TD_ANN_JOBS_SIGNALLED)))
		return r;
	if ((r = send_all(b, node->name, signal, c, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", node->uid);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_JOBS_SIGNALLED, wish);
	return td_kube_patch(b->kube, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
}
