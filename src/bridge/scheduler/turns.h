// Time limits that count over all pods that one owner makes one after the other, and over all runs of a gang
// (pool/slice.h): of QOS with totalTime. What ran is known from the pods that have ended and are still there, and of all
// that were deleted from the records of slurmdbd (ran.h), where no user can take it away.
#pragma once

#include "bridge/bridge.h"
#include "bridge/scheduler/run.h"

// Puts what the pod has left into what it asks for. TD_INVALID: nothing is left; err says what helps. TD_NOT_FOUND: slurmdbd
// has not said yet what ran before; it is waited for for a minute, and then what it would have said does not count.
int td_turns_want(struct td_bridge_run *r, struct td_error *err);
// The same for a gang: its runs before are those of its name of the same owner. Who is made by nobody has no run before.
int td_turns_gang(struct td_bridge_run *r, struct td_error *err);
// In words; NULL: there is nothing to say. Caller frees.
char *td_turns_words(struct td_bridge *b, const struct td_object *pod);
// An index of pods: those of one owner that stand for the same work may follow each other: those of one index of an Indexed
// Job, of one name of a StatefulSet and of owners that name their pods themselves; else all of the owner.
void td_turns_index(const struct td_object *pod, struct td_strv *ret);
