// Pods that must not share a node: required podAntiAffinity by kubernetes.io/hostname, among the pods of
// one namespace (what else there is of it, src/api/podserved.c refuses).
#include "controllers/ctl.h"

#include "api/selector.h"

// Does one of the terms of `who` keep it away from `other`?
static bool shuns(const struct td_object *who, const struct td_object *other)
{
	yyjson_val *t, *terms = td_jget(who->root,
					"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution");
	size_t i, n;
	yyjson_arr_foreach (terms, i, n, t) {
		yyjson_val *selector = td_jget(t, "labelSelector");
		td_auto(td_selector_free) struct td_selector *s = NULL;
		// Without a selector a term is about no pod. One that cannot be read keeps away: to wait is
		// better than to meet.
		if (selector && (td_selector_from_object(selector, &s, NULL) ||
				 td_selector_matches(s, td_jget(other->root, "metadata.labels"))))
			return true;
	}
	return false;
}

bool td_ctl_apart(const struct td_object *pod, const struct td_objects *there)
{
	for (size_t i = 0; i < there->n; i++)
		if (td_streq(there->v[i]->ns, pod->ns) && !td_streq(there->v[i]->uid, pod->uid) &&
		    (shuns(pod, there->v[i]) || shuns(there->v[i], pod)))
			return false;
	return true;
}
