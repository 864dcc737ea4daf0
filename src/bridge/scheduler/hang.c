// Pods that make no progress (docs/health.md).
#include "bridge/scheduler/gang.h"

#include "api/condition.h"
#include "base/clock.h"
#include "pool/hang.h"

#include <string.h>

// When the pod stood still, as its agent says; 0: it does not.
static int64_t still_since(const struct td_object *pod)
{
	int64_t ms = 0;
	yyjson_val *c = td_condition(pod->root, TD_COND_HANGS);
	if (!td_condition_true(pod->root, TD_COND_HANGS) || td_time_parse(td_jstr_or(c, "lastTransitionTime", ""), &ms))
		return 0;
	return ms;
}

static bool has_controller(const struct td_object *pod)
{
	yyjson_val *o;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod->root, "metadata.ownerReferences"), i, n, o)
		if (td_jbool(o, "controller", false))
			return true;
	return false;
}

// It succeeded, or was told to end because this job hangs: nobody comes in its place before the others have ended, too.
static bool over(const struct td_object *pod, int64_t job)
{
	const char *id = td_object_annotation(pod, TD_ANN_JOB);
	long long n;
	if (td_streq(td_jstr(pod->root, "status.phase"), "Succeeded"))
		return true;
	td_auto(td_json_unref) struct td_json *j = td_bridge_pod_ended(pod);
	return id && td_parse_i64(id, &n) && n == job && td_streq(td_jstr(td_json_root(j), "reason"), "Hangs");
}

struct hang {
	bool end; // all pods of its job hang, and so they end
	size_t pods;
};

// One pod.
static int hangs(struct td_bridge_run *r, const void *ctx, struct td_error *err)
{
	const struct hang *h = ctx;
	yyjson_val *c = td_condition(r->pod->root, TD_COND_HANGS);
	int64_t since = still_since(r->pod);
	const char *said = td_jstr_or(c, "message", "no progress");
	size_t n = strcspn(said, ";"); // behind it is what is known of this pod alone
	td_auto_free char *words = td_asprintf("%.*s%s%.600s", n > 200 ? 200 : (int)n, said,
					       h->pods > 1 ? ", like all pods of its gang" : "", said + n);
	if (r->p->hang_said != since) {
		r->p->hang_said = since;
		if (!h->end)
			td_kube_record(r->b->recorder, TD_ABOUT(r->pod, &td_pods), "Warning", "Hangs",
				       "Slurm job %lld: it hangs: %s", (long long)r->a->job, words);
	}
	if (!h->end)
		return 0;
	td_auto_free char *why = td_asprintf("it hangs: %s", words);
	r->hangs = why;
	int k = td_bridge_run_end_pod(r, "it makes no progress", err);
	r->hangs = NULL;
	return k;
}

int td_bridge_run_hang(struct td_bridge_run *r, struct td_error *err)
{
	td_ask_note_use(r);
	td_bridge_run_straggle(r);
	struct td_gang_member lone = {.pod = r->pod, .state = TD_POD_BOUND, .p = r->p};
	struct td_gang_member *v = r->gang ? r->gang->v : &lone;
	size_t n = r->gang ? r->gang->n : 1;
	struct td_pool_hang_pods all = {.size = r->gang ? (int64_t)r->a->size : 1};
	bool end = !r->core; // what is beyond the core of a gang may wait for it
	for (size_t i = 0; i < n; i++) {
		all.over += v[i].state == TD_POD_DONE && over(v[i].pod, r->a->job);
		if (v[i].state != TD_POD_BOUND)
			continue;
		all.bound++;
		all.still += still_since(v[i].pod) > 0;
		// Nobody would make a lone pod again.
		end = end && has_controller(v[i].pod) &&
		      td_streq(td_jstr(td_condition(v[i].pod->root, TD_COND_HANGS), "reason"), TD_HANGS_END);
	}
	if (!td_pool_hang_all(&all))
		return 0;
	return td_gang_end_each(r, false, hangs, &(const struct hang){end, (size_t)all.bound}, err);
}
