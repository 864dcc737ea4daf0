// Jobs whose pods are not in the cache. Whether a pod is gone only a list says that the API began after the job was
// there (docs/protocols.md 1.9). After a restart many jobs ask that at once: one list answers all that were there when
// it began, instead of one list each. Thread-safe.
#pragma once

#include "bridge/bridge.h"

struct td_orphans;
struct td_orphans *td_orphans_new(void);
struct td_orphans *td_orphans_free(struct td_orphans *o); // NULL ok

// All pods of this scheduler, as a list has them that began after since_ms (mono). *ret: a copy of the list, whose
// objects are shared; empty while another worker's list is under way (*ret_wait: ask again soon).
int td_orphans_pods(struct td_bridge *b, const char *scheduler, int64_t since_ms, struct td_objects *ret,
		    bool *ret_wait, struct td_cancel *c, struct td_error *err);
// Forgets a list that nobody has asked for lately: it holds all pods.
void td_orphans_forget(struct td_bridge *b);
