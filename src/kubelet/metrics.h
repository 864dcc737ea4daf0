#pragma once

#include "kubelet/kubelet.h"

void td_kubelet_measure(struct td_kubelet *a); // once, when its tables are there; NULL: before they go
