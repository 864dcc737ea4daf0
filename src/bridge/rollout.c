#include "bridge/rollout.h"

#include "kube/service.h"

#include <string.h>

#define LABEL_CONFIGURATION "serving.knative.dev/configuration"
#define LABEL_KSERVE "serving.kserve.io/inferenceservice"
#define DEADLINE "serving.knative.dev/progress-deadline"
#define DEADLINE_DEFAULT "10m unless its administrator says otherwise"

enum { NAMED = 3 };

// What has revisions, each of them with a label pod-template-hash of its own: Knative's Configuration, or a Deployment.
// A predictor and a transformer of one InferenceService are two. NULL: neither. The caller frees it.
static char *line_of(const struct td_object *pod, bool *ret_knative)
{
	const char *made = td_object_label(pod, LABEL_CONFIGURATION), *hash = td_object_label(pod, "pod-template-hash");
	size_t i, n;
	yyjson_val *o;
	*ret_knative = made != NULL;
	if (made || !hash)
		return td_strdup(hash ? made : NULL);
	yyjson_arr_foreach (td_jget(pod->root, "metadata.ownerReferences"), i, n, o) {
		const char *name = td_jstr_or(o, "name", "");
		size_t len = strlen(name), tail = strlen(hash) + 1;
		if (td_streq(td_jstr(o, "kind"), "ReplicaSet") && len > tail && td_ends(name, hash))
			return td_strndup(name, len - tail);
	}
	return NULL;
}

// Does `other` hold devices as a pod of another revision of what `pod` is of?
static bool holds(const struct td_object *pod, const char *line, bool knative, const struct td_object *other)
{
	bool its_knative;
	const char *devices = td_object_annotation(other, TD_ANN_DEVICES);
	if (!devices || td_streq(devices, "{}") || !td_jstr(other->root, "spec.nodeName") ||
	    td_kube_pod_ended(other->root) || td_object_deleting(other) ||
	    td_streq(td_object_label(pod, "pod-template-hash"), td_object_label(other, "pod-template-hash")))
		return false;
	td_auto_free char *its = line_of(other, &its_knative);
	return its && its_knative == knative && !strcmp(its, line);
}

static void fix(const struct td_object *pod, bool knative, const char *line, struct td_buf *ret)
{
	if (knative)
		td_buf_puts(ret, "Knative sends it no request and keeps the other revision until it is ready: make "
				 "room, or let the other one go first (docs/serving.md)");
	else if (td_object_label(pod, LABEL_KSERVE))
		td_buf_puts(ret, "a rolling update ends them only when others are ready: make room, or write "
				 "deploymentStrategy: {type: Recreate} beside the model in the InferenceService");
	else
		td_buf_printf(ret,
			      "a rolling update ends them only when others are ready: make room, or write strategy: "
			      "{type: Recreate} or maxUnavailable: 1 in Deployment %s",
			      line);
}

void td_rollout_words(const struct td_object *pod, const struct td_objects *pods, struct td_buf *ret)
{
	bool knative;
	struct td_service of;
	td_auto_free char *line = td_service_of(pod, &of) ? line_of(pod, &knative) : NULL;
	if (!line)
		return;
	size_t n = 0;
	for (size_t i = 0; i < pods->n; i++) {
		if (pods->v[i] == pod || !holds(pod, line, knative, pods->v[i]) || ++n > NAMED)
			continue;
		td_buf_printf(ret, n == 1 ? " Another revision of %s %s/%s holds devices meanwhile: pod " : ", ",
			      of.kind, pod->ns, of.name);
		td_buf_puts(ret, pods->v[i]->name);
	}
	if (n > NAMED)
		td_buf_printf(ret, " and %zu more", n - NAMED);
	if (n) {
		td_buf_puts(ret, "; ");
		fix(pod, knative, line, ret);
		td_buf_putc(ret, '.');
	}
	const char *deadline = td_object_annotation(pod, DEADLINE);
	if (knative)
		td_buf_printf(ret,
			      " Knative gives a revision up whose first pod is not ready within its progress deadline "
			      "(%s; annotation " DEADLINE "), and takes the pod back.",
			      deadline ? deadline : DEADLINE_DEFAULT);
}
