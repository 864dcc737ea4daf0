// Which service a pod is a replica of: what runs for long and is scaled, and not a job, a gang of one run or a pod alone.
// Pure.
#pragma once

#include "kube/kube.h"

enum { TD_SERVICE_NAME = 254 };
struct td_service {
	const char *kind; // "Deployment", "StatefulSet", "InferenceService", …; a constant
	char name[TD_SERVICE_NAME];
};
// False: it is none's. What stands above another is the service: an InferenceService above its Deployment.
bool td_service_of(const struct td_object *pod, struct td_service *ret);

// How much a pod's devices computed since it has them, in device seconds, as its node's agent says in the condition
// tandem.dev/DevicesUsed.
struct td_kube_use {
	double busy, idle;
};
// False: it does not say.
bool td_kube_use_read(const yyjson_val *pod, struct td_kube_use *ret);
// The condition's message. Caller frees.
char *td_kube_use_text(const struct td_kube_use *u);

// The shortest time that a pod computed in a step of late, as its node's agent says in the condition tandem.dev/Pace.
struct td_kube_pace {
	int64_t us, step; // up to which step
};
// False: it does not say.
bool td_kube_pace_read(const yyjson_val *pod, struct td_kube_pace *ret);
// The condition's message. Caller frees.
char *td_kube_pace_text(const struct td_kube_pace *p);
