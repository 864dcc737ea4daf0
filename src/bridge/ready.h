// How long a pod takes from its creation until it serves.
#pragma once

#include "kube/informer.h"

struct td_readies; // which pods have been ready, by their UIDs; thread-safe
struct td_readies *td_readies_new(void);
struct td_readies *td_readies_free(struct td_readies *r); // NULL ok
TD_DEFINE_AUTO(struct td_readies *, td_readies_free)
// Takes in one change of a pod at real_ms. Returns the ms from the pod's creation until it was ready for the
// first time; -1: this change says nothing of that.
int64_t td_readies_look(struct td_readies *r, const struct td_object *old, const struct td_object *now,
			int64_t real_ms);
