// Which functions the processes of a pod that hangs are in. py-spy says it, where the machine has it as a static program (its
// wheel of PyPI has one): it runs in the container, as an exec does, so with the rights and under the filter of the container,
// and sees no more than the pod itself. It reads memory only, and stops nobody. It takes some 8 MB of the container's memory.
#pragma once

#include "kubelet/kubelet.h"

// Words as td_podframes_words, of a few processes of Python, or what was missing; "": nothing to say (it has none).
void td_kubelet_frames(void *kubelet, const struct td_object *pod, char *ret, size_t size);
