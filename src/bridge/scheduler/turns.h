// Time limits that count over all pods that a Job or a ReplicaSet makes one after the other, and over all runs of a gang
// (pool/slice.h): of QOS with totalTime.
#pragma once

#include "bridge/bridge.h"
#include "bridge/scheduler/want.h"

// Puts what the pod has left into what it asks for. TD_INVALID: nothing is left; err says what helps.
int td_turns_want(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, struct td_want *w,
		  struct td_error *err);
// The same for a gang whose members these are: its runs before are found by the pods of its name that have ended, whose
// controllers are those of its members. Who is made by nobody has no run before.
struct td_gang_run;
int td_turns_gang(struct td_bridge *b, const struct td_settings *s, const struct td_gang_run *g, struct td_want *w,
		  struct td_error *err);
// In words; NULL: there is nothing to say. Caller frees.
char *td_turns_words(struct td_bridge *b, const struct td_object *pod);
// An index of pods: those of one Job or ReplicaSet, and of one index of it where it has such, may follow each other.
void td_turns_index(const struct td_object *pod, struct td_strv *ret);
