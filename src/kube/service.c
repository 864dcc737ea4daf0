#include "kube/service.h"

#include "api/condition.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

static bool is(struct td_service *ret, const char *kind, const char *name, size_t n)
{
	*ret = (struct td_service){.kind = kind};
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)n, name);
	return true;
}

bool td_service_of(const struct td_object *pod, struct td_service *ret)
{
	static const struct {
		const char *label, *kind;
	} above[] = {
		{"serving.kserve.io/inferenceservice", "InferenceService"},
		{"serving.knative.dev/service", "Service"}, // Knative's
		{"leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"},
		{"ray.io/cluster", "RayCluster"},
	};
	for (size_t i = 0; i < TD_LEN(above); i++) {
		const char *name = td_object_label(pod, above[i].label);
		if (name && *name)
			return is(ret, above[i].kind, name, strlen(name));
	}
	// A person's endpoint; his other sessions serve nobody else.
	const char *session = td_object_label(pod, TD_LABEL_SESSION);
	if (session)
		return td_streq(td_object_annotation(pod, TD_ANN_SESSION_KIND), "endpoint") &&
		       is(ret, "Endpoint", session, strlen(session));

	static const char *const kinds[] = {"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"};
	yyjson_val *o;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod->root, "metadata.ownerReferences"), i, n, o) {
		const char *kind = td_jstr_or(o, "kind", ""), *name = td_jstr_or(o, "name", "");
		if (!td_jbool(o, "controller", false))
			continue;
		const char *hash = td_object_label(pod, "pod-template-hash");
		size_t len = strlen(name), tail = hash ? strlen(hash) + 1 : 0;
		if (hash && !strcmp(kind, "ReplicaSet") && len > tail && name[len - tail] == '-' && td_ends(name, hash))
			return is(ret, "Deployment", name, len - tail);
		for (size_t k = 0; k < TD_LEN(kinds); k++)
			if (!strcmp(kind, kinds[k]))
				return is(ret, kinds[k], name, len);
	}
	return false;
}

// The message is for people, but the numbers in it are what others read. Tenths: two messages may be 5 s apart, and what
// lies between them is a share of those (bridge/scheduler/straggle.c).
#define USE_TEXT "in seconds of a device: busy %.1f, idle %.1f"

bool td_kube_use_read(const yyjson_val *pod, struct td_kube_use *ret)
{
	double busy, idle;
	if (!td_condition_true(pod, TD_COND_USED) ||
	    sscanf(td_jstr_or(td_condition(pod, TD_COND_USED), "message", ""),
		   "in seconds of a device: busy %15lf, idle %15lf", &busy, &idle) != 2 ||
	    !(busy >= 0 && idle >= 0))
		return false;
	*ret = (struct td_kube_use){busy, idle};
	return true;
}

char *td_kube_use_text(const struct td_kube_use *u)
{
	return td_asprintf(USE_TEXT, u->busy, u->idle);
}

bool td_kube_pace_read(const yyjson_val *pod, struct td_kube_pace *ret)
{
	double seconds;
	long long step;
	if (!td_condition_true(pod, TD_COND_PACE) ||
	    sscanf(td_jstr_or(td_condition(pod, TD_COND_PACE), "message", ""),
		   "in seconds: %15lf a step, up to step %15lld", &seconds, &step) != 2 ||
	    !(seconds >= 0 && seconds <= 1e6) || step < 0)
		return false;
	*ret = (struct td_kube_pace){(int64_t)(seconds * 1e6 + 0.5), step};
	return true;
}

char *td_kube_pace_text(const struct td_kube_pace *p)
{
	return td_asprintf("in seconds: %.6f a step, up to step %lld", (double)p->us / 1e6, (long long)p->step);
}
