// The jobs of a node that is drained are told to save themselves, before they are ended: the operator writes which
// signal on the Node (docs/health.md).
#include "bridge/scheduler/ask.h"

#include "base/log.h"
#include "slurm/hostlist.h"

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

static bool runs_on(yyjson_val *job, const char *node)
{
	yyjson_val *x;
	size_t i, n;
	bool runs = false;
	yyjson_arr_foreach (td_jget(job, "job_state"), i, n, x)
		runs |= td_streq(yyjson_get_str(x), "RUNNING");
	td_auto_strv struct td_strv nodes = {0};
	return runs && !td_hostlist_parse(td_jstr_or(job, "nodes", ""), &nodes, NULL) && td_strv_has(&nodes, node);
}

// A pod is told by its kubelet when its job ends; the signal is for native jobs.
static bool is_pods(struct td_bridge *b, int64_t job)
{
	struct td_ask *a = td_ask_by_job(b->asks, job);
	bool is = a != NULL;
	td_ask_unref(a);
	return is;
}

static int send_all(struct td_bridge *b, const char *node, const char *signal, struct td_cancel *c,
		    struct td_error *err)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, err);
	if (!l)
		return TD_TRANSIENT;
	td_auto_buf struct td_buf body = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_raw(l->slurm, "GET", "/jobs/", NULL, c, &body, err);
	if (!r)
		r = td_json_parse(td_buf_str(&body), body.len, &j, err);
	if (r)
		return r;
	yyjson_val *job;
	size_t i, n, told = 0;
	yyjson_arr_foreach (td_jget(td_json_root(j), "jobs"), i, n, job) {
		long long id = td_jint(job, "job_id", 0);
		if (id <= 0 || !runs_on(job, node) || is_pods(b, id))
			continue;
		// The batch script and all steps: which of them saves is the job's own matter.
		td_auto_free char *path = td_asprintf("/job/%lld?signal=%s&flags=FULL_JOB", id, signal);
		td_auto_buf struct td_buf answer = {0};
		struct td_error e = TD_ERROR_INIT;
		r = td_slurm_raw(l->slurm, "DELETE", path, NULL, c, &answer, &e);
		if (r == TD_TRANSIENT || r == TD_UNCERTAIN || r == TD_CANCELLED || r == TD_THROTTLED)
			return td_fail(err, r, "signal %s to job %lld: %.400s", signal, id, e.msg);
		if (r) // it has ended meanwhile
			td_info("node %s: job %lld was not told: %s", node, id, e.msg);
		else
			told++;
	}
	td_info("node %s: signal %s to %zu jobs", node, signal, told);
	return 0;
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
