// Whether a pod is done with its devices: the decision, and its words (busy.h).
#include "gate/busy.h"

#include "kube/fence.h"

#include <stdio.h>
#include <string.h>

enum td_seen td_seen_named(const yyjson_val *pod, const char *node, int64_t job, int64_t start)
{
	int64_t j, s;
	if (!pod)
		return TD_SEEN_ABSENT;

	const char *at = td_jstr_or(pod, "spec.nodeName", "");
	if (*at && strcmp(at, node) != 0)
		return TD_SEEN_NEVER; // a pod never moves
	if (*at)
		return td_pod_ended(pod) ? TD_SEEN_TERMINAL : TD_SEEN_ACTIVE;
	if (td_jget(pod, "metadata.deletionTimestamp"))
		return TD_SEEN_NEVER; // the API binds no pod that is being deleted
	return td_fence_read(pod, &j, &s) && j == job && s == start && start ? TD_SEEN_NEVER : TD_SEEN_WAITS;
}

bool td_sight_busy(const struct td_sight *s, char *why, size_t n)
{
	*why = '\0';
	if (s->cg_code)
		snprintf(why, n, "whether processes of pod %s are left is not known: %s", s->pod, s->text);
	else if (s->cg == TD_CG_BUSY)
		snprintf(why, n,
			 s->seen == TD_SEEN_ACTIVE ? "pod %s still runs" : "processes of pod %s are left on the node",
			 s->pod);
	else if (s->seen == TD_SEEN_UNREAD)
		snprintf(why, n, "whether pod %s has ended is not known: %s", s->pod, s->text);
	else if (s->seen == TD_SEEN_ACTIVE)
		snprintf(why, n, "pod %s has not ended", s->pod);
	else if (s->seen == TD_SEEN_TERMINAL || s->seen == TD_SEEN_NEVER)
		return false;
	else if (s->seen == TD_SEEN_WAITS && s->coming)
		snprintf(why, n, "pod %s may be bound at this moment, and cannot be fenced: %s", s->pod, s->text);
	else if (s->seen == TD_SEEN_WAITS)
		return false;
	else if (s->known == TD_KNOWN_UNANSWERED)
		snprintf(why, n, "pod %s is gone from the API, and its kubelet does not say whether it knows: %s",
			 s->pod, s->text);
	else if (s->known == TD_KNOWN_YES)
		snprintf(why, n, "pod %s is gone from the API, but its kubelet does not know that yet", s->pod);
	else if (s->cg == TD_CG_EMPTY)
		snprintf(why, n, "pod %s is gone from the API, but its kubelet has not cleared it away yet", s->pod);
	else if (s->coming)
		snprintf(why, n, "pod %s has not come here, and may be bound at this moment", s->pod);
	return *why;
}
