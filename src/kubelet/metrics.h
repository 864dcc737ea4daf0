#pragma once

#include "kubelet/kubelet.h"

// Call it once when the tables exist, and with NULL before they are freed.
void td_kubelet_measure(struct td_kubelet *a);
