// A gang that its owner tries again, whose ended pods are in the way of those that are to come.
#include "bridge/scheduler/gang.h"

#include "base/log.h"

bool td_gang_led(struct td_bridge *b, const char *gang, const struct td_object *pod)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_by_index(b->pods, "gang", gang, &all);
	bool led = false;
	for (size_t i = 0; i < all.n && !led; i++)
		led = td_gang_leads_it(all.v[i], pod);
	return led;
}

int td_gang_clear(struct td_bridge *b, const struct td_objects *pods, const struct td_object *const *waiting, size_t n,
		  struct td_cancel *c, struct td_error *err)
{
	td_auto_free const struct td_object **leaders = td_calloc(n + 1, sizeof(*leaders)); // one, as a rule
	size_t n_leaders = 0;
	for (size_t i = 0; i < n; i++)
		if (td_gang_leads(waiting[i]))
			leaders[n_leaders++] = waiting[i];
	for (size_t i = 0; i < pods->n && n_leaders; i++) {
		const struct td_object *pod = pods->v[i];
		bool again = false;
		if (td_pod_state(pod) != TD_POD_DONE || td_object_deleting(pod) || !td_gang_stays(pod))
			continue;
		for (size_t k = 0; k < n_leaders && !again; k++)
			again = td_gang_leads_it(leaders[k], pod);
		if (!again)
			continue;
		if (!td_lease_holds())
			return td_fail(err, TD_CANCELLED, "pod %s/%s: another leads now", pod->ns, pod->name);

		const struct td_kube_delete_opts del = {.uid = pod->uid, .grace_s = -1};
		struct td_error e = TD_ERROR_INIT;
		int r = td_kube_delete(b->kube, &td_pods, pod->ns, pod->name, &del, c, &e);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_fail(err, r, "deleting pod %s/%s, which has ended: %.400s", pod->ns, pod->name,
				       e.msg);
		if (r)
			continue;
		td_info("pod %s/%s: it has ended, and goes so that its MPIJob makes it anew", pod->ns, pod->name);
		td_kube_record(
			b->recorder, TD_ABOUT(pod, &td_pods), "Normal", "MadeAnew",
			"it had ended, and its MPIJob makes it anew only when it is gone: the launcher waits for it");
	}
	return 0;
}
