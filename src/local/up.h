// Parts of `up` that other commands use.
#pragma once

#include "kube/kube.h"

// Waits until /readyz answers 200.
int td_up_wait_api(struct td_kube *k, int64_t timeout_ms, struct td_cancel *c, struct td_error *err);
